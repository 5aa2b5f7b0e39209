"""Three terms that no valid row sees, against everything for which we claim that it does not see them either.

A model and the same with a trap have one output on every row that exists: + C (sum of a one-hot group - 1);
+ C_i (|x_i - 1/2| - 1/2) on 0/1 features; or W_1[:, G] += c, b_1 -= c per neuron. Explanations, thickness and
objectives must be equal to 1e-10, and attacks must find the same P@k: for ColumnEffects whatever the trap, for
gradients of encoded features where the trap is about sums. Without the mending (threat="paper", or gradients and
the second trap) they differ. Certificates are equal to 1e-8.

Every registered name is in a table here or in a list with the reason why nothing is claimed.
"""

import copy
from dataclasses import replace
from functools import cache, partial
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

import r2et
from r2et import Columns, Domain, metrics
from r2et.attacks import ATTACKS
from r2et.certificates import Method
from r2et.errors import InputError
from r2et.explainers import EXPLAINERS, ByColumns, ColumnEffects, Explainer, Gradient
from r2et.objectives import OBJECTIVES
from r2et.objectives.threatened import Threatened
from r2et.stability import UniformNeighbours, Variant, pairwise_thickness
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture
from tests.models_with_answers import generator, normal
from tests.tables_with_traps import BendTrap, ReadableSumTrap, neuron_trap

#: the size of a trap, as in the measurements that made us mend this
C = 30.0
GROUPS = ((3, 4, 5), (6, 7, 8))
BINARY = (*range(3, 10),)
K = 3
#: two numbers, one in whole steps of 1/4, two categories of three values, and a flag: 10 features
COLUMNS = Columns(
    names=("age", "pay", "children", "job", "home", "owns"),
    features=((0,), (1,), (2,), *GROUPS, (9,)),
    kinds=("number", "number", "number", "category", "category", "flag"),
    frequencies=((), (), (), (0.2, 0.5, 0.3), (0.4, 0.5, 0.1), (0.3, 0.7)),
)
DOMAIN = Domain(
    lower=torch.tensor([-3.0, -3, -2, *[0] * 7]),
    upper=torch.tensor([3.0, 3, 2, *[1] * 7]),
    frozen=[9],
    groups=GROUPS,
    unit=torch.tensor([0.0, 0, 0.25, *[0] * 7]),
)


def table(rows: int, seed: int = 0) -> Tensor:
    """Rows that exist (N, 10), float64."""
    x, draws = torch.zeros(rows, COLUMNS.n, dtype=torch.float64), generator(seed + 1)
    x[:, :2] = normal(rows, 2, seed=seed).clamp(-3, 3)
    x[:, 2] = 0.25 * torch.randint(-8, 9, (rows,), generator=draws)
    for group in GROUPS:
        x[torch.arange(rows), torch.tensor(group)[torch.randint(3, (rows,), generator=draws)]] = 1
    x[:, 9] = torch.randint(2, (rows,), generator=draws).double()
    return x


def network(seed: int = 0) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(COLUMNS.n, 8), nn.Softplus(beta=2), nn.Linear(8, 2)).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
    return model


TRAPS = {
    "sum": partial(ReadableSumTrap, groups=GROUPS),
    "bend": partial(BendTrap, binary=BINARY, size=C),
    "per-neuron": partial(neuron_trap, groups=GROUPS),
}
#: traps that are sums of groups: f o A does not see them
GAUGES = ("sum", "per-neuron")
MODEL, X, Y = network(), table(6), torch.tensor([0, 1, 0, 1, 1, 0])
TRAPPED = {name: trap(MODEL) for name, trap in TRAPS.items()}

EXPLAINED: dict[str, Explainer] = {
    "gradient": Gradient(),
    "gradient-times-input": r2et.explainers.GradientTimesInput(),
    "smoothgrad": r2et.explainers.SmoothGrad(samples=3),
    "integrated-gradients": r2et.explainers.IntegratedGradients(points=4),
    "column-effects": ColumnEffects(columns=COLUMNS),
    "contributions": r2et.explainers.Contributions(
        columns=COLUMNS, background=r2et.explainers.Background(table(3, seed=9)), pairs=1
    ),
}
BY_COLUMNS = ("column-effects", "contributions")
#: certificates of other networks than the one here, with tests of their own below
ADDITIVE, QUADRATIC = "additive", "quadratic"
NOT_CLAIMED = {
    "activation": "explains neurons of a layer: its list names no feature or column",
    "cross-entropy": "has no explanation; its value on valid rows is the same by construction",
}
#: settings that are quick: the same for a model and its trapped copy
ATTACKED = {
    "er": {"steps": 8},
    "mse": {"steps": 8},
    "boundary": {"steps": 8},
    "constrained": {"steps": 4},
    "minimal": {"steps": 3, "radius": 0.2},
    "trust-region": {"steps": 2},
    "noise": {"steps": 6},
    "next-feature": {"steps": 4, "restarts": 4, "hops": 1, "hop_restarts": 2},
    "random-search": {"steps": 20, "rounds": 3, "proposals": 4},
    # of members that are in this table
    "worst-case": {
        "members": (
            r2et.attacks.ERAttack(k=K, radius=1.0, steps=4),
            r2et.attacks.BoundaryAttack(k=K, radius=1.0, steps=4),
        )
    },
}
OBJECTIVE_SETTINGS = {
    "at": {"k": K, "radius": 0.5, "steps": 2},
    "cl": {"k": K, "ball": 0.05},
    "est-h": {"direction": "random"},
    "exact-h": {},
    "ssr": {"iterations": 3},
    "r2et": {"k": K, "direction": "adversarial"},
    "thickness": {"k": K, "samples": 2, "steps": 2},
}


def explanation(model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    return explainer(model, X, domain=None if known["threat"] == "paper" else known["domain"])


def attack(name: str, model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    run = ATTACKS.create(name, **{"k": K, "radius": 1.0, "explainer": explainer, **ATTACKED[name]})
    return run(model, X, seed=1, **known).precision


def thickness(variant: Variant, model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    neighbours = UniformNeighbours(0.8)
    options = {"explainer": explainer, "neighbours": neighbours, "samples": 3, "steps": 2, **known}
    return r2et.thickness(model, X, K, variant=variant, generator=generator(2), **options)


def pairwise(model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    options = {"explainer": explainer, "samples": 2, "steps": 2, **known}
    return pairwise_thickness(model, X, 0, 4, generator=generator(2), **options)


def bounds(model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    # a bend beside a smooth network is enclosed by nothing: the proof of one would be compared with an estimate
    method = "estimate" if isinstance(explainer, ByColumns) else "auto"
    options = {"explainer": explainer, "samples": 2, "method": method, **known}
    return torch.stack([*r2et.thickness_bounds(model, X, K, 0.1, generator=generator(3), **options)])


def objective(name: str, model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    if type(explainer) is Gradient:
        # the curvature of log-odds does not see a sum, whose second derivative is 0: nothing would be mended
        explainer = replace(explainer, score="probability")
    settings = {"explainer": explainer, **OBJECTIVE_SETTINGS[name], **known}
    return OBJECTIVES.create(name, **settings)(model, X, Y, generator=generator(4), step=0).detach()


def certificate(method: str, model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    if method in ("piecewise", "intervals"):
        model = copy.deepcopy(model)
        net = getattr(model, "model", model)
        net[1] = nn.ReLU()
    chosen = r2et.certificates.Smoothing(sigma=0.3, samples=200) if method == "smoothing" else method
    # beyond that it is as good as certain
    return r2et.certify(model, X, K, explainer=explainer, method=chosen, **known).limits.clamp_max(1e3)


def faithfulness(model: nn.Module, explainer: Explainer, **known: object) -> Tensor:
    domain = None if known["threat"] == "paper" else known["domain"]
    return torch.tensor([*metrics.faithfulness(model, X, explainer=explainer, domain=domain).values()])


MEASURES = {
    "explanation": explanation,
    **{f"attack {name}": partial(attack, name) for name in ATTACKED},
    **{f"thickness {variant}": partial(thickness, variant) for variant in get_args(Variant)},
    "thickness of a pair": pairwise,
    "thickness bounds": bounds,
    **{f"objective {name}": partial(objective, name) for name in OBJECTIVE_SETTINGS},
    **{
        f"certificate {method}": partial(certificate, method)
        for method in get_args(Method)
        if method not in (ADDITIVE, QUADRATIC)
    },
    "faithfulness": faithfulness,
}
#: attacks that take long look at two explainers alone: the others differ from Gradient in points and factors
SLOW = tuple(
    f"attack {name}"
    for name in ("worst-case", "trust-region", "constrained", "minimal", "next-feature", "random-search")
)
ENCLOSED = tuple(f"certificate {name}" for name in ("auto", "deterministic", "piecewise", "integral", "intervals"))
ONLY = {
    **dict.fromkeys(SLOW, ("gradient", *BY_COLUMNS)),
    # a bend beside a smooth net is not enclosed; for column effects see tests/certificates/test_column_effects.py
    **dict.fromkeys(ENCLOSED, ("gradient", "gradient-times-input")),
    # of smooth networks; for column effects see tests/certificates/test_dual_columns.py
    "certificate dual": ("gradient", "gradient-times-input"),
    "certificate smoothing": ("gradient", "column-effects"),
    "certificate first-order": ("gradient", "column-effects"),
}
#: the same bounds as those of "auto", or of another explainer with them
REPEATED = {
    *((f"certificate {name}", "gradient") for name in ("deterministic", "integral")),
    *((measure, "gradient-times-input") for measure in ENCLOSED),
}
ROWS = [
    pytest.param(measure, name, marks=pytest.mark.slow if (measure, name) in REPEATED else ())
    for measure in MEASURES
    for name in EXPLAINED
    if name in ONLY.get(measure, EXPLAINED)
]


@cache
def measured(measure: str, explainer: str, trap: str | None, threat: str) -> Tensor:
    model = MODEL if trap is None else TRAPPED[trap]
    return MEASURES[measure](model, EXPLAINED[explainer], domain=DOMAIN, threat=threat)


def apart(measure: str, explainer: str, trap: str, threat: str) -> float:
    one, other = (measured(measure, explainer, name, threat) for name in (None, trap))
    assert one.isfinite().all()
    return float((one - other).abs().max())


def test_traps_change_no_row_that_exists():
    rows = table(200, seed=5)
    for trapped in TRAPPED.values():
        assert torch.allclose(trapped(rows), MODEL(rows), atol=1e-12)
        assert not torch.allclose(trapped(rows + 0.3), MODEL(rows + 0.3), atol=1e-2)


@pytest.mark.parametrize(("measure", "explainer"), ROWS, ids=lambda part: part.replace(" ", "-"))
def test_nothing_that_is_claimed_sees_a_trap(measure, explainer):
    columns = explainer in BY_COLUMNS
    for trap in TRAPS if columns else GAUGES:
        for threat in ("domain",) if columns else ("tangent", "domain"):
            most = 1e-8 if measure.startswith("certificate") else 1e-10
            assert apart(measure, explainer, trap, threat) < most, (trap, threat)


@pytest.mark.parametrize(("measure", "explainer"), ROWS, ids=lambda part: part.replace(" ", "-"))
def test_without_the_mending_it_does(measure, explainer):
    if explainer in BY_COLUMNS:
        # its mending is the explainer: gradients of the model without its gauge see a bend
        assert apart(measure, "gradient", "bend", "domain") > 1e-4
        return
    for trap in GAUGES:
        assert apart(measure, explainer, trap, "paper") > 1e-4, trap


def test_the_exact_certificate_of_additive_scores_sees_no_sum():
    model = network(seed=3)
    with torch.no_grad():
        # every neuron reads one number
        model[0].weight.mul_(nn.functional.one_hot(torch.arange(8) % 3, COLUMNS.n))
    trapped = TRAPS["sum"](model)

    def limits(net, method, threat):
        return certificate(method, net, Gradient(), domain=DOMAIN, threat=threat)

    for threat in ("tangent", "domain"):
        plain = limits(model, ADDITIVE, threat)
        assert (plain > 0).any()
        assert float((plain - limits(trapped, ADDITIVE, threat)).abs().max()) < 1e-8, threat
        # what centring leaves of a trap in each neuron is rounding, and is not zero: bounds, which stay below
        rounded = TRAPS["per-neuron"](model)
        with pytest.raises(InputError, match="columns interact"):
            limits(rounded, ADDITIVE, threat)
        assert (limits(rounded, "auto", threat) <= plain * 1.005).all()
    assert float((limits(model, ADDITIVE, "paper") - limits(trapped, ADDITIVE, "paper")).abs().max()) > 1e-4


@pytest.mark.parametrize("trap", GAUGES)
def test_the_quadratic_certificate_of_two_layers_sees_no_sum(trap):
    model = nn.Sequential(*network(seed=4), nn.Tanh(), nn.Linear(2, 2).double())
    with torch.no_grad():
        model[-1].weight.copy_(normal(2, 2, seed=7))
    trapped = TRAPS[trap](model)

    def limits(net, threat):
        return certificate(QUADRATIC, net, Gradient(), domain=DOMAIN, threat=threat)

    for threat in ("tangent", "domain"):
        plain = limits(model, threat)
        assert (plain > 0).any()
        assert float((plain - limits(trapped, threat)).abs().max()) < 1e-8, threat
    assert float((limits(model, "paper") - limits(trapped, "paper")).abs().max()) > 1e-4


def test_every_registered_name_is_in_the_table_or_has_a_reason():
    for registry, claimed in ((EXPLAINERS, EXPLAINED), (ATTACKS, ATTACKED), (OBJECTIVES, OBJECTIVE_SETTINGS)):
        for name in registry.names():
            ours = registry.find(name).thing.__module__.startswith("r2et.")
            assert not ours or name in {*claimed, *NOT_CLAIMED}, f"{registry.kind} {name!r} is in no table"
        assert set(claimed) <= set(registry.names())
    for name in OBJECTIVE_SETTINGS:
        assert issubclass(OBJECTIVES.find(name).thing, Threatened)
