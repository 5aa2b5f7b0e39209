"""What the tests of the report are about: models with known answers, and audits made up of random numbers."""

import torch
from torch import Tensor

from r2et import validate
from r2et.auditing import AttackRow, Audit, AuditSettings, Samples
from r2et.auditing.lists import count_lists
from r2et.certificates import Bracket, Certificate
from tests.models_with_answers import Quadratic, generator

#: names that try to break out of the page, in every way they can
NASTY = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)> 'quoted' & <b>bold</b>",
    "naïve 🙂 Größe \u2028 line \u2029 end",
    "long " * 60,
    "{{ 7 * 7 }} {% raw %} ${1} `tick` <!-- comment",
)

#: the first feature's score is |x_0|, the second's 1, the others' 0.1: with k = 1 a row flips where ||x_0| - 1| is
#: below the radius
FLIPPING = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.8, 0.9, 1.2, 2.0, 2.5, 3.0], dtype=torch.float64)


def flips_where_told() -> tuple[Quadratic, Tensor, Tensor]:
    """A model, ten rows and their labels: exactly three rows flip at a radius of 0.5, and seven never do."""
    n = len(NASTY)
    A = torch.zeros(n, n, dtype=torch.float64)
    A[0, 0] = 1.0
    b = torch.full((n,), 0.1, dtype=torch.float64)
    b[0], b[1] = 0.0, 1.0
    x = torch.zeros(10, n, dtype=torch.float64)
    x[:, 0] = FLIPPING
    y = torch.ones(10, dtype=torch.long)
    y[9] = 0
    return Quadratic(A, b, c=50.0), x, y


def random_audit(rows: int, n: int, k: int, radii: tuple[float, ...] = (0.1, 0.3, 1.0), seed: int = 0) -> Audit:
    """An audit of the right shapes, quick for any number of rows."""
    source = generator(seed)
    count = len(radii)

    def sets(*shape: int) -> Tensor:
        first = torch.randint(n - k, shape, generator=source)
        return (first[..., None] + torch.arange(k)).int()

    lost = torch.randint(k, (rows,), generator=source)
    precision = torch.stack([1 - torch.clamp(lost - count + r, 0, k) / k for r in range(1, count + 1)])
    attacks = [
        AttackRow(
            attack=attack,
            radius=radius,
            precision=float(precision[r].mean()),
            displaced=float(k * (1 - precision[r].mean())),
            changed=float((precision[r] < 1).double().mean()),
            sensitivity=0.0,
            distance=radius,
        )
        for r, radius in enumerate(radii)
        for attack in ("NoiseAttack", "ERAttack", "MSEAttack", "WorstCase")
    ]
    samples = Samples(
        radii=radii,
        labels=torch.randint(2, (rows,), generator=generator(seed + 99)),
        predicted=torch.randint(2, (rows,), generator=source),
        probability=torch.rand(rows, generator=source),
        top=sets(rows, 1),
        top_scores=torch.rand(rows, 1, k, generator=source),
        after=sets(count, rows, 1),
        after_scores=torch.rand(count, rows, 1, k, generator=source),
        precision=precision,
        distance=torch.rand(count, rows, generator=source),
        noise=torch.ones(count, rows),
        moved=torch.randint(n, (rows, min(n, 10)), generator=source).int(),
        moved_from=torch.randn(rows, min(n, 10), generator=source),
        moved_by=torch.randn(rows, min(n, 10), generator=source),
        certified=torch.rand(rows, generator=source, dtype=torch.float64) / 10,
        in_top=torch.randint(1, max(rows, 2), (n,), generator=source),
        leaves=torch.randint(rows, (count, n), generator=source),
        enters=torch.randint(rows, (count, n), generator=source),
    )
    certificate = Certificate(
        samples.certified[:, None].repeat(1, k), "piecewise", "the gradient", assumptions=("nothing",)
    )
    bracket = Bracket(
        radii=radii,
        proven=torch.stack([certificate.precision_at(radius) for radius in radii], 1),
        attacked=precision.T,
        distance=samples.distance.T,
        certificate=certificate,
        attack="WorstCase-1",
        threat="paper",
        prediction="kept",
    )
    individuality, kappas = count_lists(samples, n, bracket=bracket, signed=False, seed=seed)
    return Audit(
        name="random",
        rows=rows,
        requested=rows,
        features=n,
        k=k,
        accuracy=0.8,
        auc=0.9,
        attacks=attacks,
        thickness=torch.rand(rows, generator=source),
        samples=samples,
        feature_names=tuple(f"a feature with a name of usual length, {i}" for i in range(n)),
        input_names=tuple(f"a feature with a name of usual length, {i}" for i in range(n)),
        class_names=("refuse", "accept"),
        certificate=certificate,
        bracket=bracket,
        individuality=individuality,
        kappas=kappas,
        faithfulness={"dffot": 0.5, "comprehensiveness": 0.1, "sufficiency": 0.2},
        validation=validate.Report(()),
        settings=settings(radii),
    )


def settings(radii: tuple[float, ...]) -> AuditSettings:
    """Such as an audit has."""
    return AuditSettings(
        radii=radii,
        radii_reason="They were given.",
        scale=1.0,
        attacks=(),
        own_attacks=False,
        recipe="WorstCase-1",
        threat="paper",
        steps=1,
        budget="fast",
        seed=0,
        explainer="Gradient()",
        thickness_sigma=0.01,
        uncertified="",
    )
