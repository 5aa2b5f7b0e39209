"""One table: every attack on every kind of model. What an attack promises, it keeps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import (
    Attack,
    BoundaryAttack,
    ConstrainedAttack,
    ERAttack,
    MinimalFlip,
    MSEAttack,
    NextFeatureAttack,
    NoiseAttack,
    RandomSearchAttack,
    TrustRegion,
    WorstCase,
)
from r2et.explainers import Activation, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from tests.attacks.test_pgd import MODELS as PLAIN_MODELS
from tests.attacks.test_pgd import TWO_INPUTS as PLAIN_PAIRS
from tests.covering import covering
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture
from tests.models_with_answers import Siamese, linear, mlp, naive_gradient, naive_order, normal

MODELS = PLAIN_MODELS | {"siamese-relu": lambda: Siamese(6, activation=nn.ReLU)}
TWO_INPUTS = (*PLAIN_PAIRS, "siamese-relu")


@dataclass(frozen=True)
class Entry:
    """One line of the table: how the attack is made, what it supports, and whether it takes its time."""

    make: Callable[..., Attack]
    norms: tuple[str, ...] = ("l2", "linf")
    last: bool = True
    heavy: bool = False
    settings: tuple[tuple[str, object], ...] = (("steps", 20),)

    def __call__(self, **settings: object) -> Attack:
        return self.make(**(dict(self.settings) | settings))


#: a new attack is one more line here
ATTACKS = {
    "er": Entry(ERAttack),
    "mse": Entry(MSEAttack),
    "hinge": Entry(BoundaryAttack),
    "soft": Entry(BoundaryAttack, settings=(("steps", 20), ("loss", "soft"))),
    "restarts": Entry(BoundaryAttack, heavy=True, settings=(("steps", 20), ("restarts", 2))),
    "minimal": Entry(MinimalFlip, norms=("l2",), last=False, heavy=True, settings=(("steps", 8),)),
    "gaussian": Entry(NoiseAttack),
    "uniform": Entry(NoiseAttack, settings=(("steps", 20), ("kind", "uniform"))),
    # unconstrained here: with constraints little moves on nets this small; their own tests have the weights
    "constrained": Entry(ConstrainedAttack, settings=(("steps", 20), ("weights", "none"))),
    "trust": Entry(TrustRegion, heavy=True, settings=(("steps", 6),)),
    "next": Entry(
        NextFeatureAttack, last=False, heavy=True, settings=(("steps", 10), ("restarts", 3), ("hops", 1))
    ),
    "random": Entry(RandomSearchAttack, last=False, settings=(("steps", 20), ("rounds", 2))),
    "worst": Entry(WorstCase, last=False, heavy=True, settings=(("budget", "fast"),)),
}
every_attack = pytest.mark.parametrize("attack", ATTACKS)
every_norm = pytest.mark.parametrize(
    ("attack", "norm"), [(attack, norm) for attack, entry in ATTACKS.items() for norm in entry.norms]
)


def smaller(*names):
    """Attacks and models, all models but the first slow; a heavy attack meets the first alone."""
    cases = ((attack, name) for attack, entry in ATTACKS.items() for name in (names[:1] if entry.heavy else names))
    return pytest.mark.parametrize(("attack", "name"), everywhere(cases, quick=names[:1]))


def everywhere(cases, quick):
    """Cases (attack, ..., model) of which all but those of some models are slow."""
    return [pytest.param(*row, marks=() if row[-1] in quick else pytest.mark.slow) for row in cases]


def case(attack, name, rows=4, **settings):
    inputs = 2 if name in TWO_INPUTS else 1
    x = normal(rows, 2, 6, seed=4) if inputs == 2 else normal(rows, 6, seed=4)
    shared = {"k": 2, "radius": 0.8, "explainer": Gradient(inputs=inputs)}
    return MODELS[name](), x, ATTACKS[attack](**(shared | settings))


def naive_precision(before, after, k):
    """P@k of each row, spelled out; the mean over both inputs of a pair."""
    found = []
    for old, new in zip(before, after, strict=True):
        sides = zip(old.reshape(-1, old.shape[-1]).tolist(), new.reshape(-1, new.shape[-1]).tolist(), strict=True)
        shares = [len(set(naive_order(a)[:k]) & set(naive_order(b)[:k])) / k for a, b in sides]
        found.append(sum(shares) / len(shares))
    return torch.tensor(found, dtype=torch.float64)


def length(delta, norm):
    flat = delta.flatten(start_dim=1)
    return flat.square().sum(1).sqrt() if norm == "l2" else flat.abs().max(1).values


# every attack, every model, every norm


@pytest.mark.parametrize(
    ("attack", "norm", "name"),
    everywhere(
        (
            (attack, norm, name)
            for attack, entry in ATTACKS.items()
            for norm in entry.norms
            for name in (
                MODELS if norm == "l2" else ("relu", "siamese") if entry.heavy else ("quadratic", "relu", "pair")
            )
        ),
        quick=("relu", "gelu", "siamese"),
    ),
)
def test_what_is_reported_is_true(attack, norm, name):
    """Budget, prediction, distance, precision and both explanations, each from x alone."""
    radius = 0.8 if norm == "l2" else 0.4
    model, x, run = case(attack, name, norm=norm, radius=radius)
    result = run(model, x, seed=1)
    target = model(x).argmax(1)
    assert result.x.shape == x.shape
    assert result.x.dtype == x.dtype
    assert not result.x.requires_grad
    moved = length(result.x - x, norm)
    assert float(moved.max()) <= radius + 1e-6
    torch.testing.assert_close(result.distance, moved, atol=1e-12, rtol=0)
    assert torch.equal(model(result.x).argmax(1), target)
    assert result.kept.all()
    for points, reported in ((x, result.before), (result.x, result.after)):
        rows = [naive_gradient(model, point, int(c)).abs() for point, c in zip(points, target, strict=True)]
        torch.testing.assert_close(reported, torch.stack(rows).reshape(reported.shape), atol=1e-10, rtol=1e-8)
    expected = naive_precision(result.before, result.after, 2)
    torch.testing.assert_close(result.precision, expected, atol=1e-12, rtol=0)
    unmoved = result.precision == 1
    assert torch.equal(result.x[unmoved], x[unmoved])
    assert torch.equal(result.first_flip > 0, ~unmoved)
    assert int(result.first_flip.max()) <= run.iterations()
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("attack", "name"),
    everywhere(
        (
            (attack, name)
            for attack, entry in ATTACKS.items()
            for name in (("quadratic", "relu", "gelu", "siamese") if entry.make is WorstCase else MODELS)
        ),
        quick=("relu", "siamese"),
    ),
)
def test_a_row_alone_is_the_row_in_a_batch(attack, name):
    """Float64, 20 steps, 1e-6."""
    model, x, run = case(attack, name, rows=3)
    result = run(model, x, seed=2)
    row = int(result.precision.argmin())  # one that moved, if any did
    alone = run(model, x[row : row + 1], seed=2)
    agree(alone, result, slice(row, row + 1))


def agree(found, expected, rows=slice(None)):
    for field in ("x", "before", "after", "distance"):
        torch.testing.assert_close(getattr(found, field), getattr(expected, field)[rows], atol=1e-6, rtol=0)
    for field in ("precision", "kept", "first_flip"):
        assert torch.equal(getattr(found, field), getattr(expected, field)[rows])


@smaller("relu", "pair", "softplus")
def test_seed_and_chunks(attack, name):
    model, x, run = case(attack, name, rows=3)
    result, again = run(model, x), run(model, x, seed=0)
    for field in ("x", "precision", "kept", "distance", "first_flip", "before", "after"):
        assert torch.equal(getattr(again, field), getattr(result, field))
    agree(run(model, x, chunk_size=2), result)


@smaller("siamese", "relu", "quadratic")
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_domain_is_respected(attack, norm, name):
    if norm not in ATTACKS[attack].norms:
        with pytest.raises(ValueError, match=norm):
            case(attack, name, norm=norm)
        return
    radius = 2.0 if norm == "l2" else 1.0
    keep = "last" if ATTACKS[attack].last else "best"
    model, x, run = case(attack, name, norm=norm, radius=radius, keep=keep)
    lower = torch.linspace(-0.9, -0.4, 6, dtype=torch.float64)
    upper = torch.linspace(0.4, 0.8, 6, dtype=torch.float64)
    domain = Domain(lower=lower, upper=upper, frozen=[0, 2, 3])
    clean = x.reshape(-1, 6)
    assert (clean < lower).any()  # a start outside may stay, not go farther
    assert (clean > upper).any()
    moves = {}
    for allowed in (domain, replace(domain, frozen=[0])):
        result = run(model, x, domain=allowed)
        found = result.x.reshape(-1, 6)
        assert torch.equal(found[:, 0], clean[:, 0])
        if 2 in allowed.frozen:
            assert torch.equal(found[:, [2, 3]], clean[:, [2, 3]])
        assert (found >= torch.minimum(lower, clean)).all()
        assert (found <= torch.maximum(upper, clean)).all()
        assert float(length(result.x - x, norm).max()) <= radius + 1e-6
        moves[2 not in allowed.frozen] = (found != clean).any(0)
    # the attack went somewhere, and used what it was given
    assert moves[False].any()
    assert moves[True][[2, 3]].any()


@smaller("siamese", "relu", "softplus")
def test_several_radii(attack, name):
    radii = [1.0, 0.1, 1.4, 1.0]
    model, x, run = case(attack, name, rows=6)
    results = run(model, x, radii=radii)
    assert len(results) == len(radii)
    order = sorted(range(len(radii)), key=lambda i: radii[i])
    for radius, result in zip(radii, results, strict=True):
        assert float(length(result.x - x, "l2").max()) <= radius + 1e-6
        torch.testing.assert_close(result.distance, length(result.x - x, "l2"), atol=1e-12, rtol=0)
        expected = naive_precision(result.before, run.explainer(model, result.x, model(x).argmax(1)), 2)
        torch.testing.assert_close(result.precision, expected, atol=1e-12, rtol=0)
        torch.testing.assert_close(
            result.after, run.explainer(model, result.x, model(x).argmax(1)), atol=1e-10, rtol=1e-8
        )
        assert result.kept.all()
        assert torch.equal(result.first_flip > 0, result.precision < 1)
    largest = replace(run, radius=1.4)(model, x)
    assert (results[2].precision <= largest.precision).all()
    for less, more in pairwise(order):
        assert (results[more].precision <= results[less].precision).all()
    first = replace(run, radius=0.1)(model, x)  # nothing smaller helps the smallest
    # radii that are searched together differ by rounding
    torch.testing.assert_close(results[1].x, first.x, atol=1e-6, rtol=0)
    assert torch.equal(results[0].x, results[-1].x)
    assert (results[0].precision < results[1].precision).any()


@pytest.mark.parametrize("attack", ["er", "hinge", "minimal", "uniform"])
def test_one_radius_is_the_attack_itself(attack):
    model, x, run = case(attack, "tanh")
    assert torch.equal(run(model, x, radii=[0.8])[0].x, run(model, x).x)


# further classifiers


class Near(nn.Module):
    """A classifier of one input whose boundary passes close to the points it is given."""

    def __init__(self, points, seed):
        super().__init__()
        self.register_buffer("points", points)
        self.register_buffer("w", normal(points.shape[-1], seed=seed))

    def forward(self, x):
        gaps = (x.detach()[:, None] - self.points[None]).square().sum(-1)
        nearest = self.points[gaps.argmin(1)]
        value = 20 * ((x - nearest) @ self.w) + 0.3
        return torch.stack([torch.zeros_like(value), value], dim=-1)


@smaller("siamese", "relu")
def test_further_predictions_are_kept(attack, name):
    """S = 3 for a pair: the model's own prediction and the two of single-input classifiers."""
    model, x, run = case(attack, name, rows=8, radius=1.5)
    if name in TWO_INPUTS:
        first, second = Near(x[:, 0], 5), Near(x[:, 1], 6)

        def predictions(points):
            return [first(points[:, 0]), second(points[:, 1])]
    else:
        only = Near(x, 5)

        def predictions(points):
            return [only(points)]

    clean = [logits.argmax(1) for logits in predictions(x)]
    run = replace(run, predictions=predictions)
    result = run(model, x)
    assert result.kept.all()
    for logits, classes in zip(predictions(result.x), clean, strict=True):
        assert torch.equal(logits.argmax(1), classes)
    assert torch.equal(model(result.x).argmax(1), model(x).argmax(1))
    # without them at least one would have changed: the condition did something
    free = replace(run, predictions=None)(model, x)
    changed = [
        (logits.argmax(1) != classes).any() for logits, classes in zip(predictions(free.x), clean, strict=True)
    ]
    assert any(changed)
    assert (result.precision >= free.precision).sum() >= 6


@every_attack
def test_last_reports_a_prediction_that_changed(attack):
    if not ATTACKS[attack].last:
        with pytest.raises(ValueError, match="last"):
            ATTACKS[attack](k=2, radius=1.0, keep="last")
        return
    model, x, run = case(attack, "tanh", rows=12, keep="last", radius=4.0)
    only = Near(x, 5)
    run = replace(run, predictions=lambda points: [only(points)])
    result = run(model, x)
    expected = (model(result.x).argmax(1) == model(x).argmax(1)) & (only(result.x).argmax(1) == only(x).argmax(1))
    assert torch.equal(result.kept, expected)
    # a trust region refuses steps that change a prediction, whatever is kept
    assert expected.all() == (attack == "trust")
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 2), atol=1e-12, rtol=0
    )


@every_attack
def test_any_prediction_counts_where_none_has_to_be_kept(attack):
    """The best iterate of all: what is reported about it is true, and it may predict another class."""
    model, x, run = case(attack, "tanh", rows=12, keep="any", radius=4.0)
    result = run(model, x)
    same = model(result.x).argmax(1) == model(x).argmax(1)
    assert torch.equal(result.kept, same)
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 2), atol=1e-12, rtol=0
    )
    near, far = run(model, x, radii=(0.5, 4.0))
    assert (far.precision <= near.precision).all()
    if attack in ("er", "hinge", "soft", "uniform", "next", "minimal"):
        assert not same.all()
    if attack in ("er", "mse", "gaussian", "uniform"):
        # where they go does not depend on what is kept
        assert (result.precision <= replace(run, keep="best")(model, x).precision).all()


# a model that cannot be attacked


@every_norm
def test_a_two_class_linear_model_does_not_change(attack, norm):
    model, x, run = case(attack, "linear", norm=norm, rows=12)
    for result in run(model, x, radii=[3.0, 1.0]):
        assert torch.equal(result.precision, torch.ones(12, dtype=torch.float64))
        assert torch.equal(result.first_flip, torch.full((12,), -1))
        assert torch.equal(result.x, x)
        assert torch.equal(result.distance, torch.zeros(12, dtype=torch.float64))
        torch.testing.assert_close(result.before, result.after)


@every_attack
def test_negative_control_a_linear_model_of_three_classes_does(attack):
    """With more classes the gradient of the log-odds turns."""
    model, x = linear(classes=3), normal(12, 6, seed=4)
    assert (ATTACKS[attack](k=2, radius=3.0)(model, x).precision < 1).any()


# every explainer


EXPLAINERS = {
    "gradient": Gradient(reduce="signed"),
    "gradient-times-input": GradientTimesInput(),
    "smoothgrad": SmoothGrad(samples=3, sigma=0.2),
    "integrated": IntegratedGradients(points=3),
    "activation": Activation(layer="1"),
    "pairs-times-input": GradientTimesInput(inputs=2),
    "pairs-activation": Activation(layer="embed", inputs=2),
}


@pytest.mark.parametrize(
    ("attack", "explainer", "kind"),
    covering(
        (
            (attack, *case)
            for attack in ATTACKS
            for case in (*((explainer, "tanh") for explainer in EXPLAINERS), ("activation", "relu"))
        ),
        together=1,
    ),
)
def test_every_explainer(attack, explainer, kind):
    explain = EXPLAINERS[explainer]
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU}[kind]
    if explain.inputs == 2:
        model, x = Siamese(6, activation=activation), normal(8, 2, 6, seed=4)
    else:
        model, x = mlp(classes=3, activation=activation), normal(8, 6, seed=4)
    result = ATTACKS[attack](k=2, radius=1.5, explainer=explain)(model, x)
    target = model(x).argmax(1)
    torch.testing.assert_close(result.after, explain(model, result.x, target), atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(result.before, explain(model, x, target), atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 2), atol=1e-12, rtol=0
    )
    assert torch.equal(model(result.x).argmax(1), target)
    assert float(length(result.x - x, "l2").max()) <= 1.5 + 1e-6
    assert (result.precision < 1).any()  # at this radius something moves


@every_attack
def test_images(attack):
    """Pixels of two channels: features are numbered along the flattened input, ranked by pixel."""
    model = nn.Sequential(nn.Flatten(), mlp(32, 3, activation=nn.Tanh))
    x = normal(3, 2, 4, 4, seed=4)
    frozen = [0, 5, 31]
    run = ATTACKS[attack](k=4, radius=1.5, explainer=Gradient(reduce="abs-sum"))
    result = run(model, x, domain=Domain(frozen=frozen))
    assert result.after.shape == (3, 16)
    assert torch.equal(result.x.flatten(1)[:, frozen], x.flatten(1)[:, frozen])
    assert float(length(result.x - x, "l2").max()) <= 1.5 + 1e-6
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 4), atol=1e-12, rtol=0
    )
    assert (result.precision < 1).any()


# what must not break an attack


@every_attack
@pytest.mark.parametrize(("kind", "predicted"), [(GradientTimesInput, 0), (IntegratedGradients, 1)])
def test_a_row_of_zeros_does_no_harm(attack, kind, predicted):
    """Its explanation is zero: no slope, but no NaN either, for this row or for the others."""
    model = mlp(activation=nn.Tanh)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([3.0, -3.0] if predicted == 0 else [-3.0, 3.0]))
    x = torch.cat([torch.zeros(1, 6, dtype=torch.float64), normal(2, 6, seed=4)])
    assert int(model(x[:1]).argmax(1)) == predicted
    explainer = kind(points=3) if kind is IntegratedGradients else kind()
    run = ATTACKS[attack](k=2, radius=0.5, explainer=explainer)
    result = run(model, x)
    assert result.x.isfinite().all()
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 2), atol=1e-12, rtol=0
    )
    torch.testing.assert_close(result.x[1:], run(model, x[1:]).x, atol=1e-6, rtol=0)
    if ATTACKS[attack].last:
        assert replace(run, keep="last")(model, x).x.isfinite().all()


@every_attack
def test_points_where_the_model_has_no_value_are_not_results(attack):
    """sqrt of a negative number outside a ball: NaN logits keep no prediction and have no top-k set."""

    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(activation=nn.Tanh)

        def forward(self, x):
            return self.net(x) + torch.tensor([3.0, -3.0]) + torch.sqrt(1.5 - x.square().sum(1, keepdim=True))

    x = normal(4, 6, seed=4)
    x = x / x.norm(dim=1, keepdim=True)
    model = Inside()
    run = ATTACKS[attack](k=2, radius=1.5)
    result = run(model, x)
    assert result.x.isfinite().all()
    assert model(result.x).isfinite().all()
    torch.testing.assert_close(
        result.precision, naive_precision(result.before, result.after, 2), atol=1e-12, rtol=0
    )


@every_attack
def test_every_feature_frozen(attack):
    model, x, run = case(attack, "tanh")
    result = run(model, x, domain=Domain(frozen=range(6)))
    assert torch.equal(result.x, x)
    assert (result.precision == 1).all()


@every_attack
def test_history_is_one_row_an_iteration(attack):
    """`AttackResult.history`: P@k at each iteration, the clean input first."""
    model, x, run = case(attack, "tanh", history=True, radius=0.3)
    result = run(model, x)
    assert torch.equal(result.history[0], torch.ones(4, dtype=torch.float64))
    assert 2 <= len(result.history) <= run.iterations() + 1
    assert result.history.shape[1:] == (4,)
    assert (result.history.amin(0) <= result.precision).all()
    assert (result.precision < 1).any()


@every_attack
def test_model_and_random_state_are_left_alone(attack):
    model, x, run = case(attack, "relu")
    model = nn.Sequential(model[0], nn.BatchNorm1d(8).double(), model[1], model[2]).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for p in model.parameters():
        p.requires_grad_(False)
    result = run(model, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(p.requires_grad for p in model.parameters())
    assert not model.training
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert (result.precision < 1).any()


@smaller("relu", "tanh")
def test_works_inside_no_grad(attack, name):
    """An audit inside torch.no_grad() must not report a model as stable that is not."""
    model, x, run = case(attack, name)
    expected = run(model, x)
    assert (expected.precision < 1).any()
    with torch.no_grad():
        result = run(model, x)
    assert torch.equal(result.precision, expected.precision)
    torch.testing.assert_close(result.x, expected.x, atol=1e-9, rtol=0)


@every_norm
def test_float32_stays_in_the_budget(attack, norm):
    model, x, run = case(attack, "tanh", rows=16, norm=norm, radius=0.5)
    result = run(model.float(), 3 * x.float())
    assert result.x.dtype == torch.float32
    assert float(length(result.x.double() - 3 * x.float().double(), norm).max()) <= 0.5 + 1e-6


@every_attack
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radius": 0.0}, r"radius=0\.0"),
        ({"norm": "l1"}, r"'l1'"),
        ({"keep": "bst"}, r"'bst'.*'best'"),
        ({"flip_below": 0.0}, r"flip_below.*0\.0"),
        ({"cap": -0.1}, r"cap=-0\.1"),
    ],
)
def test_bad_settings(attack, settings, message):
    with pytest.raises(ValueError, match=message):
        ATTACKS[attack](**({"k": 2, "radius": 1.0} | settings))


@every_attack
@pytest.mark.parametrize(
    ("radii", "message"), [([], "empty"), ([1.0, -1.0], "radius=-1"), ([float("nan")], "nan")]
)
def test_bad_radii(attack, radii, message):
    model, x, run = case(attack, "tanh", rows=1)
    with pytest.raises(ValueError, match=message):
        run(model, x, radii=radii)


@every_norm
def test_cap(attack, norm):
    """An L-infinity budget on top."""
    keep = "last" if ATTACKS[attack].last else "best"
    model, x, run = case(attack, "gelu", norm=norm, cap=0.25, keep=keep, rows=8)
    result = run(model, x)
    assert float((result.x - x).abs().max()) <= 0.25 + 1e-6
    assert float(length(result.x - x, norm).max()) <= 0.8 + 1e-6
    assert (result.x != x).any()
