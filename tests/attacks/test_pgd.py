"""One table, every attack on every model; then closed forms, controls and bad input."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import r2et
from r2et import Domain, precision_at_k
from r2et.attacks import ERAttack, MSEAttack
from r2et.explainers import Activation, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from tests.covering import covering
from tests.models_with_answers import (
    Pair,
    Quadratic,
    Siamese,
    convolution,
    linear,
    mlp,
    naive_order,
    normal,
    quadratic,
)

MODELS = {
    "linear": lambda: linear(),
    "linear-3": lambda: linear(classes=3),
    "quadratic": lambda: quadratic(6, c=3.0),
    "relu": lambda: mlp(activation=nn.ReLU),
    "softplus": lambda: mlp(activation=nn.Softplus, classes=3),
    "tanh": lambda: mlp(activation=nn.Tanh),
    "gelu": lambda: mlp(activation=nn.GELU, classes=3),
    "pair": lambda: Pair(normal(6, 6), c=1.0),
    "siamese": lambda: Siamese(6),
}
TWO_INPUTS = ("pair", "siamese")
ATTACKS = {"ER": ERAttack, "MSE": MSEAttack}
every_case = pytest.mark.parametrize(
    ("attack", "name"), [(attack, name) for attack in ATTACKS for name in MODELS], ids=lambda v: v
)


def case(attack, name, rows=6, **settings):
    inputs = 2 if name in TWO_INPUTS else 1
    x = normal(rows, 2, 6, seed=4) if inputs == 2 else normal(rows, 6, seed=4)
    settings = {"k": 2, "radius": 0.8, "steps": 12, "explainer": Gradient(inputs=inputs)} | settings
    return MODELS[name](), x, ATTACKS[attack](**settings)


def per_sample(precision):
    return precision.mean(1) if precision.ndim > 1 else precision


# the table


@every_case
@pytest.mark.parametrize("keep", ["best", "last"])
def test_result_is_consistent(attack, name, keep):
    model, x, run = case(attack, name, keep=keep, history=True)
    result = run(model, x)
    target = model(x).argmax(1)
    assert result.x.shape == x.shape
    assert result.x.dtype == x.dtype
    torch.testing.assert_close(result.distance, (result.x - x).flatten(1).norm(dim=1), atol=1e-12, rtol=0)
    assert float(result.distance.max()) <= 0.8 + 1e-6
    assert torch.equal(result.kept, model(result.x).argmax(1) == target)
    torch.testing.assert_close(result.before, run.explainer(model, x, target))
    torch.testing.assert_close(result.after, run.explainer(model, result.x, target))
    torch.testing.assert_close(
        result.precision, per_sample(precision_at_k(result.before, result.after, 2)), atol=1e-12, rtol=0
    )
    assert result.history.shape == (13, 6)
    assert torch.equal(result.history[0], torch.ones(6, dtype=torch.float64))
    assert not result.x.requires_grad
    assert not result.after.requires_grad
    assert all(p.grad is None for p in model.parameters())
    if keep == "best":
        assert result.kept.all()
        assert (result.precision >= result.history.amin(0) - 1e-12).all()
    else:
        torch.testing.assert_close(result.history[-1], result.precision, atol=1e-12, rtol=0)


@every_case
@pytest.mark.parametrize("cap", [0.15, 0.5])
def test_cap_and_budget(attack, name, cap):
    model, x, run = case(attack, name, cap=cap, keep="last")
    result = run(model, x)
    assert float((result.x - x).abs().max()) <= cap + 1e-9
    assert float(result.distance.max()) <= 0.8 + 1e-6


@every_case
def test_domain_is_respected(attack, name):
    model, x, run = case(attack, name, keep="last", radius=2.0)
    lower, upper = torch.full((6,), -0.5, dtype=torch.float64), torch.full((6,), 0.4, dtype=torch.float64)
    domain = Domain(lower=lower, upper=upper, frozen=[0, 2, 3])
    result = run(model, x, domain=domain)
    flat, clean = result.x.reshape(-1, 6), x.reshape(-1, 6)
    assert torch.equal(flat[:, [0, 2, 3]], clean[:, [0, 2, 3]])
    assert (clean < lower).any()  # some starts lie outside
    assert (clean > upper).any()
    assert (flat >= torch.minimum(lower, clean)).all()
    assert (flat <= torch.maximum(upper, clean)).all()
    assert float(result.distance.max()) <= 2.0 + 1e-6
    moved = run(model, x, domain=replace(domain, frozen=[0]))
    assert torch.equal(moved.x.reshape(-1, 6)[:, 0], clean[:, 0])


@every_case
def test_deterministic_and_independent_of_the_batch(attack, name):
    model, x, run = case(attack, name, rows=5, steps=10)
    result = run(model, x, seed=3)
    again = run(model, x, seed=3)
    assert torch.equal(result.x, again.x)
    assert torch.equal(result.first_flip, again.first_flip)
    for chunk_size in (1, 4):
        parts = run(model, x, seed=3, chunk_size=chunk_size)
        torch.testing.assert_close(parts.x, result.x, atol=1e-6, rtol=0)
        assert torch.equal(parts.first_flip, result.first_flip)
        assert torch.equal(parts.precision, result.precision)
    alone = run(model, x[2:3], seed=3)
    torch.testing.assert_close(alone.x[0], result.x[2], atol=1e-6, rtol=0)
    backwards = run(model, x.flip(0), seed=3)
    torch.testing.assert_close(backwards.x.flip(0), result.x, atol=1e-6, rtol=0)


@every_case
def test_history_in_chunks(attack, name):
    model, x, run = case(attack, name, history=True)
    torch.testing.assert_close(run(model, x, chunk_size=4).history, run(model, x).history, atol=1e-12, rtol=0)


def replay(run, model, x, **settings):
    """Every iterate of an attack: the last iterates of shorter runs with the same step."""
    iterates = []
    for steps in range(1, run.steps + 1):
        # the same step length, and a budget that never binds
        short = replace(run, steps=steps, radius=run.radius * steps / run.steps, keep="last")
        iterates.append(short(model, x, **settings))
    return iterates


@pytest.mark.parametrize(
    ("attack", "name"), covering(((attack, name) for attack in ATTACKS for name in MODELS), together=1)
)
def test_best_iterate_and_first_flip_against_a_replay(attack, name):
    model, x, run = case(attack, name, history=True)
    result, last = run(model, x), replace(run, keep="last")(model, x)
    iterates = replay(run, model, x)
    torch.testing.assert_close(last.x, iterates[-1].x, atol=1e-9, rtol=0)
    history = torch.stack([i.precision for i in iterates])
    kept = torch.stack([i.kept for i in iterates])
    torch.testing.assert_close(result.history[1:], history, atol=1e-12, rtol=0)
    feasible = torch.where(kept, history, torch.ones_like(history))
    torch.testing.assert_close(result.precision, feasible.amin(0), atol=1e-12, rtol=0)
    for r in range(len(x)):
        flips = [s + 1 for s in range(run.steps) if history[s, r] < 1 and kept[s, r]]
        assert int(result.first_flip[r]) == (flips[0] if flips else -1)
        any_flips = [s + 1 for s in range(run.steps) if history[s, r] < 1]
        assert int(last.first_flip[r]) == (any_flips[0] if any_flips else -1)
        if float(result.precision[r]) < 1:
            best = [s for s in range(run.steps) if kept[s, r] and history[s, r] == result.precision[r]]
            torch.testing.assert_close(result.x[r], iterates[best[0]].x[r], atol=1e-9, rtol=0)
        else:
            assert torch.equal(result.x[r], x[r])


def test_flip_below():
    model, x, run = case("ER", "tanh", k=3, radius=2.0, history=True, rows=20)
    strict, loose = run(model, x), replace(run, flip_below=0.5)(model, x)
    kept = torch.stack([i.kept for i in replay(run, model, x)])
    for found, level in ((strict, 1.0), (loose, 0.5)):
        for r in range(20):
            flips = [s for s in range(1, 13) if found.history[s, r] < level and kept[s - 1, r]]
            assert int(found.first_flip[r]) == (flips[0] if flips else -1)
    assert (loose.first_flip != strict.first_flip).any()
    assert (loose.first_flip > 0).any()


def test_first_flip_of_a_pair_is_the_earliest_of_its_inputs():
    """Precision is a mean over the two inputs, first_flip the earliest."""
    x = normal(12, 2, 6, seed=4)
    model = Siamese(6)
    run = ERAttack(
        k=3, radius=2.0, steps=12, flip_below=0.7, keep="last", explainer=Gradient(inputs=2), history=True
    )
    result, iterates = run(model, x), replay(run, model, x)
    by_side = torch.stack([precision_at_k(i.before, i.after, 3) for i in iterates])  # (steps, N, 2)
    differs = 0
    for r in range(12):
        flips = [s + 1 for s in range(12) if float(by_side[s, r].min()) < 0.7]
        of_mean = [s + 1 for s in range(12) if float(by_side[s, r].mean()) < 0.7]
        differs += flips[:1] != of_mean[:1]
        assert int(result.first_flip[r]) == (flips[0] if flips else -1)
    assert differs  # the example tells the two readings apart


# closed forms


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_changes_on_a_two_class_linear_model(attack):
    model, x, run = case(attack, "linear", radius=5.0)
    result = run(model, x)
    assert torch.equal(result.precision, torch.ones(6, dtype=torch.float64))
    assert torch.equal(result.first_flip, torch.full((6,), -1))
    assert torch.equal(result.x, x)
    torch.testing.assert_close(result.before, result.after)


def ranking_weights(values, k):
    n, ranked = len(values), naive_order(values.tolist())
    weights = torch.full((n,), -1 / (n - k), dtype=torch.float64)
    weights[ranked[:k]] = 1 / k
    return weights


@pytest.mark.parametrize("reduce", ["signed", "abs"])
def test_er_steps_along_the_analytic_direction(reduce):
    """The mean gap of A x + b has gradient A w (A (sign(g) w) for magnitudes); each step goes against it."""
    model, x = quadratic(6), normal(4, 6, seed=4)
    A, b = model.A.detach(), model.b.detach()
    attack = ERAttack(k=2, radius=0.3, steps=3, keep="last", score="log-odds", explainer=Gradient(reduce=reduce))
    result = attack(model, x)
    for r in range(4):
        g = x[r] @ A + b
        weights = ranking_weights(g if reduce == "signed" else g.abs(), 2)
        point = x[r]
        for _ in range(3):
            at = point @ A + b
            slope = A @ (weights if reduce == "signed" else weights * at.sign())
            point = point - 0.1 * slope / slope.norm()
        torch.testing.assert_close(result.x[r], point, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", [Gradient, GradientTimesInput])
@pytest.mark.parametrize("name", ["softplus", "tanh", "siamese", "linear-3"])
def test_probability_objective_against_a_naive_attack(kind, name):
    """The loss is the mean gap of the explanation of p, differentiated directly; no shortcut through log-odds."""
    model, x, run = case("ER", name, keep="last", steps=5)
    inputs = 2 if name in TWO_INPUTS else 1
    run = replace(run, explainer=kind(inputs=inputs))
    result = run(model, x)
    n = x.shape[-1]
    for r in range(3):
        c = int(model(x[r : r + 1]).argmax(1))

        def explanation(point, c=c):
            g = torch.autograd.grad(model(point).softmax(1)[0, c], point, create_graph=True)[0]
            return (g * point if kind is GradientTimesInput else g).abs().reshape(inputs, n)

        point = x[r : r + 1].clone().requires_grad_()
        weights = torch.stack([ranking_weights(side, 2) for side in explanation(point).detach()])
        for _ in range(5):
            loss = (weights * explanation(point)).sum()
            slope = torch.autograd.grad(loss, point)[0]
            point = (point - 0.8 / 5 * slope / slope.norm()).detach().requires_grad_()
        torch.testing.assert_close(result.x[r], point.detach()[0], atol=1e-9, rtol=0)


def test_er_lowers_the_objective_it_names():
    model, x, _ = case("ER", "tanh", rows=12)
    explainer = Gradient(score="probability")
    result = ERAttack(k=2, radius=0.5, steps=50, keep="last")(model, x)
    target = model(x).argmax(1)
    before, after = explainer(model, x, target), explainer(model, result.x, target)
    weights = torch.stack([ranking_weights(row, 2) for row in before])
    assert ((weights * after).sum(1) < (weights * before).sum(1)).all()


@pytest.mark.parametrize("score", ["probability", "log-odds"])
def test_mse_attack_increases_the_distance_it_names(score):
    model, x, _ = case("MSE", "tanh", rows=12)
    target = model(x).argmax(1)
    explainer = Gradient(score=score)
    clean = explainer(model, x, target)

    def distance(points):
        return (explainer(model, points, target) - clean).square().sum(1)

    attack = MSEAttack(k=2, radius=0.8, steps=40, keep="last", score=score)
    first = replace(attack, steps=1, radius=0.8 / 40)
    found = distance(attack(model, x).x)
    assert (found > 10 * distance(first(model, x).x)).all()
    direction = normal(100, 12, 6, seed=8)
    random = torch.stack([distance(x + 0.8 * d / d.norm(dim=1, keepdim=True)) for d in direction])
    assert float(found.mean()) > 1.5 * float(random.mean())


@pytest.mark.parametrize("name", ["softplus", "tanh", "siamese"])
def test_mse_attack_against_a_naive_one(name):
    """From the attack's own first step on: ascent on ||I(x') - I(x)||^2 of the explanation of p."""
    model, x, run = case("MSE", name, keep="last", steps=5)
    result = run(model, x)
    first = replace(run, steps=1, radius=0.8 / 5)(model, x).x
    for r in range(3):
        c = int(model(x[r : r + 1]).argmax(1))

        def explanation(point, c=c):
            return torch.autograd.grad(model(point).softmax(1)[0, c], point, create_graph=True)[0].abs()

        clean = explanation(x[r : r + 1].clone().requires_grad_()).detach()
        point = first[r : r + 1].clone().requires_grad_()
        for _ in range(4):
            slope = torch.autograd.grad((explanation(point) - clean).square().sum(), point)[0]
            point = (point + 0.8 / 5 * slope / slope.norm()).detach().requires_grad_()
        torch.testing.assert_close(result.x[r], point.detach()[0], atol=1e-9, rtol=0)


def test_mse_of_a_quadratic_finds_the_fastest_direction():
    """||A d|| over ||d|| <= r is largest along the leading eigenvector: a closed form for signed log-odds."""
    model, x = quadratic(5), normal(3, 5, seed=4)
    attack = MSEAttack(
        k=2, radius=0.5, steps=400, keep="last", score="log-odds", explainer=Gradient(reduce="signed")
    )
    result = attack(model, x)
    largest = torch.linalg.eigvalsh(model.A.detach()).abs().max()
    moved = (result.after - result.before).norm(dim=1)
    assert (moved <= 0.5 * largest + 1e-9).all()
    assert (moved > 0.9 * 0.5 * largest).all()


def test_negative_control_a_known_flip_is_found():
    """I(x) = |A x + b| with A = diag: the second and third features swap when x moves by half their gap."""
    A = torch.diag(torch.tensor([1.0, 1.0, -1.0, 1.0], dtype=torch.float64)) * 10
    model = Quadratic(A, torch.tensor([40.0, 30.0, 29.0, 1.0], dtype=torch.float64), c=50.0)
    x = torch.zeros(1, 4, dtype=torch.float64)
    # gap 1 closes at a rate of 20 along (0, -1, -1, 0): the least distance is 0.1 / sqrt(2)
    needed = 0.1 / 2**0.5
    weak = ERAttack(k=2, radius=0.9 * needed, steps=50, score="log-odds")(model, x)
    assert float(weak.precision) == 1.0
    strong = ERAttack(k=2, radius=4 * needed, steps=50, score="log-odds")(model, x)
    assert float(strong.precision) == 0.5
    assert strong.kept.all()
    assert int(strong.first_flip) > 1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "explainer",
    [
        GradientTimesInput(),
        SmoothGrad(samples=3, sigma=0.2),
        SmoothGrad(samples=3, sigma=0.2, score="log-odds"),
        IntegratedGradients(points=4),
        IntegratedGradients(points=4, score="log-odds", reduce="signed"),
        Activation(layer="1"),
        Gradient(score="probability"),
        Gradient(score="logit"),
        Gradient(reduce="signed"),
    ],
    ids=lambda e: f"{type(e).__name__}-{e.score}",
)
@pytest.mark.parametrize("score", ["probability", "log-odds", "logit"])
def test_any_explainer_and_any_objective(attack, explainer, score):
    model, x, run = case(attack, "tanh", rows=8, radius=1.5, explainer=explainer, score=score)
    result = run(model, x)
    target = model(x).argmax(1)
    torch.testing.assert_close(result.after, explainer(model, result.x, target))
    assert result.kept.all()
    assert float(result.distance.max()) <= 1.5 + 1e-6
    assert float(result.precision.mean()) < 1  # at this radius something moves
    last = replace(run, keep="last")(model, x)
    assert (last.distance > 0.05).all()  # it walked


@pytest.mark.parametrize("attack", ATTACKS)
def test_images_by_channel_sums(attack):
    model, x = convolution(), normal(3, 2, 4, 4)
    run = ATTACKS[attack](k=4, radius=3.0, steps=10, keep="last", explainer=Gradient(reduce="abs-sum"))
    frozen = [0, 5, 31]
    result = run(model, x, domain=Domain(frozen=frozen, lower=-2.0, upper=2.0))
    assert result.after.shape == (3, 16)
    assert torch.equal(result.x.flatten(1)[:, frozen], x.flatten(1)[:, frozen])
    assert float(result.distance.max()) <= 3 + 1e-6
    assert float(result.distance.min()) > 0.1


def test_float32_images_stay_within_their_bounds_exactly():
    """A pixel above its bound by one rounding error is an image that does not exist."""
    generator = torch.Generator().manual_seed(0)
    model = mlp(n=40, activation=nn.Tanh).float()
    x = torch.rand(64, 40, generator=generator)
    for attack in ATTACKS.values():
        run = attack(k=5, radius=4.0, steps=10, keep="last")
        for lower, upper in ((0.0, 1.0), (0.1, 0.9), (-0.4242, 1.8215)):
            inside = x * (upper - lower) + lower
            inside = inside.clamp(lower, upper)
            found = run(model, inside, domain=Domain(lower=lower, upper=upper)).x
            bounds = torch.tensor([lower, upper])
            assert (found >= bounds[0]).all()
            assert (found <= bounds[1]).all()
            assert float((found - inside).norm(dim=1).max()) <= 4.0 + 1e-5


def test_float32_budget():
    model = mlp(activation=nn.Tanh).float()
    x = normal(32, 6).float() * 3
    for attack in ATTACKS.values():
        result = attack(k=2, radius=0.5, steps=30, keep="last")(model, x)
        assert float(result.distance.max()) <= 0.5 + 1e-6


def test_all_features_frozen():
    model, x, run = case("MSE", "tanh", keep="last")
    assert torch.equal(run(model, x, domain=Domain(frozen=range(6))).x, x)


def test_mse_starts_depend_on_the_seed_er_does_not():
    model, x, run = case("MSE", "tanh", steps=1, keep="last")
    assert not torch.allclose(run(model, x, seed=0).x, run(model, x, seed=1).x)
    assert torch.equal(run(model, x).x, run(model, x, seed=0).x)
    torch.testing.assert_close(run(model, x).distance, torch.full((6,), 0.8, dtype=torch.float64))
    model, x, run = case("ER", "tanh", keep="last")
    assert torch.equal(run(model, x, seed=0).x, run(model, x, seed=1).x)


def test_runs_without_grad_mode_and_in_a_frozen_model():
    model, x, run = case("ER", "softplus")
    expected = run(model, x).x
    for p in model.parameters():
        p.requires_grad_(False)
    with torch.no_grad():
        torch.testing.assert_close(run(model, x).x, expected)


def test_no_history_unless_asked_for():
    model, x, run = case("ER", "tanh")
    assert run(model, x).history is None


def test_prediction_kept_near_the_boundary():
    """With 'best' a row whose attack crosses the decision boundary comes back unflipped; 'last' crosses."""
    model, x = quadratic(6, c=0.0), 0.3 * normal(40, 6, seed=4)
    best = ERAttack(k=2, radius=1.0, steps=30)(model, x)
    last = ERAttack(k=2, radius=1.0, steps=30, keep="last")(model, x)
    assert best.kept.all()
    assert not last.kept.all()
    assert torch.equal(model(best.x).argmax(1), model(x).argmax(1))


# bad input


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radius": 0.0}, r"radius=0\.0"),
        ({"radius": -1.0}, r"radius=-1\.0"),
        ({"radius": float("nan")}, "radius=nan"),
        ({"radius": float("inf")}, "radius=inf"),
        ({"steps": 0}, "steps.*0"),
        ({"steps": 1.5}, r"steps.*1\.5"),
        ({"keep": "bst"}, r"'bst'.*'best'"),
        ({"flip_below": 0.0}, r"flip_below.*0\.0"),
        ({"flip_below": 1.5}, r"flip_below.*1\.5"),
        ({"cap": -0.1}, r"cap=-0\.1"),
        ({"score": "probabilities"}, r"'probabilities'.*'probability'"),
    ],
)
def test_bad_settings(attack, settings, message):
    with pytest.raises(ValueError, match=message):
        attack(**({"k": 2, "radius": 1.0} | settings))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("k", [0, -2, 6, 60, 1.5])
def test_bad_k(attack, k):
    with pytest.raises(ValueError, match=f"{k}"):
        attack(k=k, radius=1.0, steps=2)(mlp(), normal(2, 6))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (normal(2, 6) / 0, "x has"),
        (torch.ones(2, 6, dtype=torch.int64), "int64"),
        (normal(2, 6)[:0], "empty"),
        (normal(6), r"x\[None\]"),
    ],
)
def test_bad_x(attack, x, message):
    with pytest.raises(ValueError, match=message):
        attack(k=2, radius=1.0, steps=2)(mlp(), x)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_bad_models(attack):
    run, x = attack(k=2, radius=1.0, steps=2), normal(2, 6)
    with pytest.raises(r2et.errors.ModelError, match="probabilities"):
        run(nn.Sequential(mlp(), nn.Softmax(1)), x)
    with pytest.raises(r2et.errors.ModelError, match="there is no output"):
        run(nn.Linear(6, 0).double(), x)

    class Detached(nn.Module):
        def forward(self, x):
            return linear()(x).detach()

    with pytest.raises(r2et.errors.ModelError, match="no gradient"):
        run(Detached(), x)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (Domain(lower=torch.zeros(4)), "4 values for 6 features"),
        (Domain(frozen=[6]), "feature 6"),
    ],
)
def test_a_domain_that_does_not_fit(domain, message):
    with pytest.raises(ValueError, match=message):
        ERAttack(k=2, radius=1.0, steps=2)(mlp(), normal(2, 6), domain=domain)
    run = ERAttack(k=2, radius=1.0, steps=2, explainer=Gradient(inputs=2))
    with pytest.raises(ValueError, match=message):
        run(Siamese(6), normal(2, 2, 6), domain=domain)


def test_repr_shows_the_settings_and_the_outcome():
    attack = ERAttack(k=2, radius=0.5, steps=3)
    assert "ERAttack(k=2, radius=0.5, steps=3" in repr(attack)
    assert "rows=2" in repr(attack(mlp(), normal(2, 6)))
