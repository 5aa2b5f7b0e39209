"""The Lagrangian attack against loops written from App. B.2.3, its QP against brute force, and the sweep."""

import itertools
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

import r2et
from r2et import Domain
from r2et.attacks import ERAttack, MSEAttack
from r2et.attacks.constraints import (
    ConstrainedAttack,
    SweepPoint,
    chosen,
    divergence,
    min_norm_point,
    pareto_front,
    sweep,
)
from r2et.explainers import Gradient, GradientTimesInput
from tests.covering import covering
from tests.models_with_answers import Pair, Siamese, convolution, linear, mlp, normal, quadratic

RULES = ("none", "fixed", "gda", "hedge", "qp")
OBJECTIVES = {"ER": ERAttack, "MSE": MSEAttack}
MODELS = {
    "linear": lambda: linear(),
    "quadratic": lambda: quadratic(6, c=3.0),
    "relu": lambda: mlp(activation=nn.ReLU),
    "softplus": lambda: mlp(activation=nn.Softplus, classes=3),
    "tanh": lambda: mlp(activation=nn.Tanh),
    "gelu": lambda: mlp(activation=nn.GELU, classes=3),
    "pair": lambda: Pair(normal(6, 6), c=1.0),
    "siamese": lambda: Siamese(6),
}
TWO_INPUTS = ("pair", "siamese")
rules = pytest.mark.parametrize("rule", RULES)
every_case = pytest.mark.parametrize(
    ("rule", "objective", "name"),
    covering(itertools.product(RULES, OBJECTIVES, MODELS), together=1),
    ids=lambda v: v,
)


def case(rule, objective="ER", name="tanh", rows=6, **changes):
    inputs = 2 if name in TWO_INPUTS else 1
    x = normal(rows, 2, 6, seed=4) if inputs == 2 else normal(rows, 6, seed=4)
    given = {"k": 2, "radius": 0.8, "steps": 12, "explainer": Gradient(inputs=inputs), "keep": "last"} | changes
    return MODELS[name](), x, ConstrainedAttack(weights=rule, objective=OBJECTIVES[objective], **given)


# the QP


def simplex_grid(count, parts):
    """All weights that are multiples of 1 / parts."""
    cuts = itertools.combinations(range(parts + count - 1), count - 1)
    rows = []
    for cut in cuts:
        ends = (-1, *cut, parts + count - 1)
        rows.append([ends[i + 1] - ends[i] - 1 for i in range(count)])
    return torch.tensor(rows, dtype=torch.float64) / parts


def shortest(gradients, parts=40):
    """The least norm over the hull of (M, d): a grid, then SLSQP from its best point."""
    grid = simplex_grid(len(gradients), parts)
    lengths = (grid @ gradients).norm(dim=1)
    g = (gradients / gradients.abs().max().clamp_min(1e-300)).numpy()
    result = minimize(
        lambda w: float(((w @ g) ** 2).sum()),
        grid[lengths.argmin()].numpy(),
        jac=lambda w: 2 * g @ (w @ g),
        bounds=[(0, 1)] * len(g),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: w * 0 + 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    w = torch.as_tensor(result.x).clamp_min(0)
    return min(float(lengths.min()), float(((w / w.sum()) @ gradients).norm()))


def check_weights(gradients, weights):
    assert weights.shape == gradients.shape[:2]
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights), dtype=weights.dtype))
    point = (weights[:, None] @ gradients).squeeze(1)
    # the optimality condition: no corner of the hull lies on the near side of the point
    inner = (gradients @ point[:, :, None]).squeeze(2)
    size = gradients.norm(dim=2).amax(1)
    assert (inner >= point.square().sum(1, keepdim=True) - 1e-9 * size[:, None] ** 2).all()
    return point.norm(dim=1)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("d", [1, 2, 3, 12])
def test_qp_against_a_simplex_search(count, d):
    gradients = normal(25, count, d, seed=count) + 0.7 * normal(25, 1, d, seed=9)
    found = check_weights(gradients, min_norm_point(gradients))
    for r in range(25):
        best = shortest(gradients[r])
        scale = float(gradients[r].norm(dim=1).max())
        assert float(found[r]) <= best + 1e-9 * scale
        assert float(found[r]) >= best - 1e-3 * scale  # what a search leaves on the table where the hull holds 0


def degenerate(count):
    """Gradients with everything that can go wrong, (rows, count, 5)."""
    a, b, c = normal(5, seed=1), normal(5, seed=2), normal(5, seed=3)
    zero = torch.zeros(5, dtype=torch.float64)
    corners = [
        [a, a, a, a],
        [a, 2 * a, 3 * a, 0.5 * a],
        [a, -a, a, -a],
        [a, b, a, b],
        [a, b, (a + b) / 2, 0.3 * a + 0.7 * b],
        [a, b, a + b, a - b],
        [zero, a, b, c],
        [a, b, zero, zero],
        [zero, zero, zero, zero],
        [a, a + 1e-12 * b, b, b + 1e-13 * c],
        [a, 1e-9 * b, 1e-9 * c, 1e-9 * (b + c)],
        [1e6 * a, b, 1e-6 * c, a],
        [a, b, c, (a + b + c) / 3],
    ]
    return torch.stack([torch.stack(row[:count]) for row in corners])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_qp_of_dependent_zero_and_equal_gradients(count):
    gradients = degenerate(count)
    found = check_weights(gradients, min_norm_point(gradients))
    for r in range(len(gradients)):
        scale = float(gradients[r].norm(dim=1).max())
        assert float(found[r]) <= shortest(gradients[r]) + 1e-9 * scale
    # the small gradients of row 10 decide among themselves, to their own accuracy
    if count > 2:
        assert float(found[10]) <= shortest(gradients[10, 1:]) * (1 + 1e-6)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e100])
def test_qp_does_not_depend_on_the_scale(count, scale):
    gradients = torch.cat([normal(10, count, 5), degenerate(count)[:4]])
    expected = (min_norm_point(gradients)[:, None] @ gradients).squeeze(1)
    point = (min_norm_point(gradients * scale)[:, None] @ gradients).squeeze(1)
    torch.testing.assert_close(point, expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_qp_of_a_batch_is_that_of_its_rows(count):
    gradients = torch.cat([normal(20, count, 5), degenerate(count)])
    points = (min_norm_point(gradients)[:, None] @ gradients).squeeze(1)
    for r, rows in enumerate(gradients.split(1)):
        alone = (min_norm_point(rows)[:, None] @ rows)[0, 0]
        torch.testing.assert_close(alone, points[r], atol=1e-12 * float(rows.abs().max()), rtol=1e-9)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(r))
        turned = min_norm_point(rows[:, order])
        torch.testing.assert_close(
            (turned[:, None] @ rows[:, order])[0, 0], points[r], atol=1e-9 * float(rows.abs().max()), rtol=1e-9
        )


def test_qp_closed_forms():
    """Two gradients: the foot of the perpendicular, or the shorter one. Orthogonal ones: by inverse squares."""
    a, b = normal(50, 7, seed=1), normal(50, 7, seed=2)
    share = ((b * (b - a)).sum(1) / (a - b).square().sum(1)).clamp(0, 1)
    torch.testing.assert_close(min_norm_point(torch.stack([a, b], 1))[:, 0], share)
    lengths = torch.tensor([1.0, 2.0, 4.0, 5.0], dtype=torch.float64)
    expected = lengths**-2 / (lengths**-2).sum()
    torch.testing.assert_close(min_norm_point(torch.diag(lengths)[None])[0], expected)


def test_qp_in_float32():
    gradients = normal(200, 4, 6).float()
    exact = (min_norm_point(gradients.double())[:, None] @ gradients.double()).squeeze(1)
    point = (min_norm_point(gradients)[:, None] @ gradients).squeeze(1)
    assert point.dtype == torch.float32
    assert float((point.norm(dim=1) - exact.norm(dim=1)).abs().max()) < 1e-5


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_qp_optimality_on_integer_lattices(count, d, data):
    """Small integers make ties, parallels and zero vectors the rule."""
    values = data.draw(st.lists(st.integers(-2, 2), min_size=3 * count * d, max_size=3 * count * d))
    gradients = torch.tensor(values, dtype=torch.float64).reshape(3, count, d)
    check_weights(gradients, min_norm_point(gradients))


@pytest.mark.parametrize("shape", [(3, 5, 2), (3, 0, 2), (3, 2)])
def test_qp_of_too_many_gradients(shape):
    with pytest.raises(ValueError, match=r"M from 1 to 4, got \(3"):
        min_norm_point(torch.zeros(shape))


# the constraint


@pytest.mark.parametrize("classes", [2, 5])
def test_divergence_against_torch_and_the_definition(classes):
    clean, logits = 3 * normal(9, classes, seed=1), 3 * normal(9, classes, seed=2).requires_grad_()
    found = divergence(clean, logits)
    by_torch = nn.functional.kl_div(
        logits.log_softmax(1), clean.log_softmax(1), reduction="none", log_target=True
    ).sum(1)
    torch.testing.assert_close(found, by_torch)
    for r in range(9):
        p, q = clean[r].softmax(0).tolist(), logits[r].softmax(0).tolist()
        by_hand = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        assert float(found[r].detach()) == pytest.approx(by_hand, rel=1e-9)
    slope = torch.autograd.grad(found.sum(), logits)[0]
    torch.testing.assert_close(slope, logits.detach().softmax(1) - clean.softmax(1))
    shifted = divergence(clean + 7, logits.detach() - 5)
    torch.testing.assert_close(shifted, found.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_divergence_is_exactly_zero_with_zero_slope_while_nothing_moves(dtype):
    clean = (10 * normal(100, 4)).to(dtype)
    logits = clean.clone().requires_grad_()
    found = divergence(clean, logits)
    assert torch.equal(found, torch.zeros_like(found))
    assert torch.equal(torch.autograd.grad(found.sum(), logits)[0], torch.zeros_like(clean))


# the attack against loops


def second_net(x):
    """A classifier of its own beside the model."""
    return mlp(6, 3, seed=11, activation=nn.Tanh)(x.reshape(len(x), -1)[:, :6])


def two_more(x):
    return [second_net(x), mlp(6, 2, seed=12)(x.reshape(len(x), -1)[:, -6:])]


def naive_terms(model, x0, objective, inputs, predictions):
    """[g_0, g_1, ...] of one row as a function of a point, from the paper's definitions."""
    c = int(model(x0).argmax(1))
    k, n = 2, x0.shape[-1]

    def explanation(point):
        g = torch.autograd.grad(model(point).softmax(1)[0, c], point, create_graph=True)[0]
        return g.abs().reshape(inputs, n)

    clean = explanation(x0.clone().requires_grad_()).detach()
    nets = [model, *predictions]
    before = [net(x0).softmax(1)[0].detach() for net in nets]

    def terms(point):
        now = explanation(point)
        if objective == "ER":
            g_0 = 0.0
            for side in range(inputs):
                ranked = clean[side].argsort(descending=True).tolist()
                gaps = [now[side, i] - now[side, j] for i in ranked[:k] for j in ranked[k:]]
                g_0 = g_0 + sum(gaps) / len(gaps)
        else:
            unit = torch.maximum(now.detach().abs(), clean.abs()).max()
            g_0 = -((now - clean) / unit).square().sum()
        kl = [(p * (p.log() - net(point).softmax(1)[0].log())).sum() for p, net in zip(before, nets, strict=True)]
        return [g_0, *kl]

    return terms


def naive_attack(rule, terms, x0, first, length, steps, eta):
    """The loop of App. B.2.3 for one row: the last iterate and the trajectory of gamma."""
    point = first.clone().requires_grad_()
    gamma = None
    trajectory = []
    for _ in range(steps):
        g = terms(point)
        if gamma is None:
            gamma = [1 / len(g)] * len(g)
        gradients = [torch.autograd.grad(v, point, retain_graph=True)[0].reshape(-1) for v in g]
        if rule == "qp":
            moved = [gradients[0]] + [v for v in gradients[1:] if float(v.norm()) > 1e-14]
            weights = min_norm_point(torch.stack(moved)[None])[0].tolist()
            slope = sum(w * v for w, v in zip(weights, moved, strict=True))
        else:
            slope = sum(w * v for w, v in zip(gamma, gradients, strict=True))
        trajectory.append(list(gamma))
        values = [float(v.detach()) for v in g]
        if rule == "gda":
            gamma = [gamma[0]] + [w + eta * v for w, v in zip(gamma[1:], values[1:], strict=True)]
        elif rule == "hedge":
            gamma = [w * math.exp(eta * v) for w, v in zip(gamma, values, strict=True)]
        gamma = [w / sum(gamma) for w in gamma]
        moved_to = point.detach() - length * (slope / slope.norm()).reshape(point.shape)
        delta = moved_to - x0
        point = (x0 + delta * min(1.0, 0.8 / float(delta.norm()))).requires_grad_()
    return point.detach(), trajectory


@pytest.mark.parametrize(
    ("further", "name", "objective", "rule"),
    covering(
        itertools.product(
            [False, True], ["tanh", "softplus", "siamese"], OBJECTIVES, ["fixed", "gda", "hedge", "qp"]
        )
    ),
)
def test_iterates_against_a_naive_loop(rule, objective, name, further):
    """The weights differ from row to row, so do the terms; rows that share nothing are attacked together."""
    predictions = two_more if further else None
    model, x, run = case(rule, objective, name, steps=8, rate=4.0, predictions=predictions)
    inputs = run.explainer.inputs
    found = run(model, x)
    first, taken = x, 0
    if objective == "MSE":
        first, taken = replace(run, steps=1, radius=0.1)(model, x).x, 1
    apart = []
    for r in range(4):
        x0 = x[r : r + 1]
        nets = [lambda p, i=i: two_more(p)[i] for i in range(2)] if further else []
        terms = naive_terms(model, x0, objective, inputs, nets)
        last, gamma = naive_attack(rule, terms, x0, first[r : r + 1], 0.1, 8 - taken, 4.0 / 8)
        torch.testing.assert_close(found.x[r], last[0], atol=1e-8, rtol=0)
        apart.append(gamma[-1])
    if rule in ("gda", "hedge"):
        assert len({round(g[0], 6) for g in apart}) > 1  # each row has weights of its own


def test_the_loop_tells_the_rules_apart():
    last = {rule: case(rule, "MSE", steps=20, rate=50.0, radius=1.5) for rule in RULES}
    found = {rule: run(model, x).x for rule, (model, x, run) in last.items()}
    for a, b in itertools.combinations(RULES, 2):
        assert float((found[a] - found[b]).abs().max()) > 1e-4, (a, b)


def learned(rule, values, rate, steps=10):
    """The weights after each of `values` (iterations, N, S + 1), through the attack's own rule."""
    attack = ConstrainedAttack(k=2, radius=1.0, steps=steps, weights=rule, rate=rate)
    weights, seen = torch.full_like(values[0], 1 / values.shape[2]), []
    for g in values:
        weights = attack._learn(weights, g)
        seen.append(weights)
    return torch.stack(seen)


@pytest.mark.parametrize("rule", ["fixed", "gda", "hedge"])
def test_weight_trajectories(rule):
    values = normal(10, 5, 4, seed=3)
    values[:, :, 1:] = values[:, :, 1:].abs()
    seen = learned(rule, values, rate=3.0)
    for r in range(5):
        gamma = [0.25] * 4
        for t in range(10):
            g = values[t, r].tolist()
            if rule == "gda":
                gamma = [gamma[0], *(w + 0.3 * v for w, v in zip(gamma[1:], g[1:], strict=True))]
            elif rule == "hedge":
                gamma = [w * math.exp(0.3 * v) for w, v in zip(gamma, g, strict=True)]
            gamma = [w / sum(gamma) for w in gamma]
            assert seen[t, r].tolist() == pytest.approx(gamma, rel=1e-12)
    torch.testing.assert_close(seen.sum(2), torch.ones(10, 5, dtype=torch.float64))


def test_hedge_survives_huge_values():
    values = torch.tensor([[[-1e4, 0.0, 1e4]], [[1e5, 0.0, -1e5]]], dtype=torch.float64)
    seen = learned("hedge", values, rate=10.0)
    assert torch.isfinite(seen).all()
    assert seen[0, 0].tolist() == [0.0, 0.0, 1.0]


# none is the plain attack


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", MODELS)
def test_none_is_the_plain_attack(objective, name, keep):
    model, x, run = case("none", objective, name, keep=keep, history=True)
    given = {"k": 2, "radius": 0.8, "steps": 12, "explainer": run.explainer, "keep": keep, "history": True}
    plain, found = OBJECTIVES[objective](**given)(model, x, seed=3), run(model, x, seed=3)
    for field in ("x", "precision", "kept", "distance", "first_flip", "before", "after", "history"):
        assert torch.equal(getattr(plain, field), getattr(found, field))


# what constraints are for


def unsure(rows=60):
    """A net that is unsure of its inputs, where the plain attacks change predictions."""
    return mlp(activation=nn.Tanh, seed=7), 0.5 * normal(rows, 6, seed=8)


def changed(result):
    return float((~result.kept).double().mean())


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("rule", ["fixed", "gda", "hedge", "qp"])
def test_constraints_keep_predictions(rule, objective):
    model, x = unsure()
    run = ConstrainedAttack(
        k=2, radius=2.0, steps=60, keep="last", objective=OBJECTIVES[objective], weights=rule, rate=30.0
    )
    free, held = replace(run, weights="none")(model, x), run(model, x)
    with torch.no_grad():
        moved, allowed = (float(divergence(model(x), model(found.x)).mean()) for found in (held, free))
    assert changed(free) > 0.1
    assert changed(held) < 0.6 * changed(free)
    assert moved < 0.7 * allowed
    assert float(held.precision.mean()) < 0.9  # it still attacks


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_qp_steps_raise_no_term(objective):
    """To first order a step lowers the explanation's loss and every KL, by the same amount."""
    model, x, run = case("qp", objective, "softplus", predictions=two_more)
    iterates = [replace(run, steps=t, radius=0.02 * t)(model, x).x for t in range(1, 10)]
    free = [replace(run, steps=t, radius=0.02 * t, weights="none")(model, x).x for t in range(1, 10)]
    raised = 0
    for r in range(4):
        nets = [lambda p, i=i: two_more(p)[i] for i in range(2)]
        terms = naive_terms(model, x[r : r + 1], objective, 1, nets)
        for path, held in ((iterates, True), (free, False)):
            for now, then in itertools.pairwise(path):
                point = now[r : r + 1].clone().requires_grad_()
                slopes = [torch.autograd.grad(v, point, retain_graph=True)[0] for v in terms(point)]
                changes = [float((slope * (then - now)[r]).sum()) for slope in slopes]
                if held:
                    assert max(changes) <= 1e-12
                raised += max(changes) > 1e-6
    assert raised > 10  # the unconstrained attack does raise them


def test_qp_stays_where_no_step_helps():
    """With one feature free, the explanation and the prediction pull against each other and cancel."""
    model, x = quadratic(6, c=0.5), normal(8, 6, seed=4)
    run = ConstrainedAttack(k=2, radius=1.0, steps=40, keep="last", weights="qp")
    domain = Domain(frozen=[0, 1, 2, 3, 5])
    found = run(model, x, domain=domain)
    # the first step is free, the second is either held by the KL or goes on lowering both; never away and back
    assert (found.distance >= 1 / 40 - 1e-9).all()
    assert (found.distance < 2 / 40).any()
    shorter = replace(run, steps=20, radius=0.5)(model, x, domain=domain)
    stuck = found.distance < 2 / 40
    torch.testing.assert_close(found.x[stuck], shorter.x[stuck], atol=1e-12, rtol=0)


def test_three_predictions_of_a_siamese_net():
    """S = 3: the pair's prediction and those of a classifier of each input."""
    x = 0.5 * normal(60, 2, 6, seed=4)
    model, single = Siamese(6), mlp(6, 3, seed=3, activation=nn.Tanh)

    def predictions(x):
        return [single(x[:, 0]), single(x[:, 1])]

    run = ConstrainedAttack(
        k=2, radius=2.0, steps=40, keep="last", explainer=Gradient(inputs=2), predictions=predictions, rate=10.0
    )
    sensitivity = {}
    for rule in RULES:
        result = replace(run, weights=rule)(model, x)
        kept = model(result.x).argmax(1) == model(x).argmax(1)
        for now, clean in zip(predictions(result.x), predictions(x), strict=True):
            kept &= now.argmax(1) == clean.argmax(1)
        assert torch.equal(result.kept, kept)
        sensitivity[rule] = changed(result)
    assert sensitivity["none"] > 0.2
    for rule in ("fixed", "gda", "hedge", "qp"):
        assert sensitivity[rule] < 0.5 * sensitivity["none"]
    # without the further two, fewer predictions are held
    alone = replace(run, predictions=None, weights="gda")(model, x)
    flips = [now.argmax(1) != was.argmax(1) for now, was in zip(predictions(alone.x), predictions(x), strict=True)]
    assert float(torch.stack(flips).any(0).double().mean()) > sensitivity["gda"]
    best = replace(run, keep="best", weights="qp")(model, x)
    assert best.kept.all()


# the table


@every_case
def test_budget_domain_and_bookkeeping(rule, objective, name):
    model, x, run = case(rule, objective, name, history=True)
    result = run(model, x)
    target = model(x).argmax(1)
    assert float(result.distance.max()) <= 0.8 + 1e-6
    torch.testing.assert_close(result.distance, (result.x - x).flatten(1).norm(dim=1), atol=1e-12, rtol=0)
    assert torch.equal(result.kept, model(result.x).argmax(1) == target)
    torch.testing.assert_close(result.after, run.explainer(model, result.x, target))
    torch.testing.assert_close(result.history[-1], result.precision, atol=1e-12, rtol=0)
    assert not result.x.requires_grad
    assert all(p.grad is None for p in model.parameters())
    assert replace(run, keep="best")(model, x).kept.all()
    lower, upper = torch.tensor(-0.5, dtype=x.dtype), torch.tensor(0.4, dtype=x.dtype)
    domain = Domain(lower=lower, upper=upper, frozen=[0, 2, 3])
    flat, clean = replace(run, radius=2.0)(model, x, domain=domain).x.reshape(-1, 6), x.reshape(-1, 6)
    assert torch.equal(flat[:, [0, 2, 3]], clean[:, [0, 2, 3]])
    assert (flat >= clean.minimum(lower)).all()
    assert (flat <= clean.maximum(upper)).all()
    if name == "linear":
        assert (result.precision == 1).all()


@every_case
def test_deterministic_and_independent_of_the_batch(rule, objective, name):
    model, x, run = case(rule, objective, name, rows=4, steps=10)
    result = run(model, x, seed=3)
    assert torch.equal(result.x, run(model, x, seed=3).x)
    torch.testing.assert_close(run(model, x, seed=3, chunk_size=3).x, result.x, atol=1e-6, rtol=0)
    for r in (0, 2):
        torch.testing.assert_close(run(model, x[r : r + 1], seed=3).x[0], result.x[r], atol=1e-6, rtol=0)


@rules
def test_linf_and_cap(rule):
    model, x, run = case(rule, "ER", "tanh", norm="linf", radius=0.3)
    result = run(model, x)
    torch.testing.assert_close(result.distance, (result.x - x).abs().amax(1))
    assert float(result.distance.max()) <= 0.3 + 1e-6
    capped = replace(run, norm="l2", radius=1.0, cap=0.1)(model, x)
    assert float((capped.x - x).abs().max()) <= 0.1 + 1e-9


@rules
def test_radii_and_other_explainers(rule):
    model, x, run = case(rule, "MSE", "tanh", explainer=GradientTimesInput(), keep="best")
    small, large = run(model, x, radii=[0.2, 1.0])
    assert (large.precision <= small.precision).all()
    assert float(small.distance.max()) <= 0.2 + 1e-6
    images = ConstrainedAttack(k=4, radius=2.0, steps=6, weights=rule, explainer=Gradient(reduce="abs-sum"))
    assert images(convolution(), normal(3, 2, 4, 4)).after.shape == (3, 16)


@rules
def test_float32_no_grad_and_frozen_parameters(rule):
    model, x, run = case(rule)
    expected = run(model, x).x
    for p in model.parameters():
        p.requires_grad_(False)
    with torch.no_grad():
        torch.testing.assert_close(run(model, x).x, expected)
    result = run(model.float(), x.float())
    assert result.x.dtype == torch.float32
    assert float(result.distance.min()) > 0.01
    assert float(result.distance.max()) <= 0.8 + 1e-6


@rules
def test_everything_frozen(rule):
    model, x, run = case(rule, "MSE")
    assert torch.equal(run(model, x, domain=Domain(frozen=range(6))).x, x)


def test_an_explanation_without_curvature_does_not_stop_the_constraints():
    """A linear model's log-odds explanation has no slope; with QP there is nothing to gain by any step."""
    model, x = linear(), normal(4, 6)
    for rule in RULES:
        result = ConstrainedAttack(k=2, radius=1.0, steps=5, keep="last", score="log-odds", weights=rule)(model, x)
        torch.testing.assert_close(result.x, x)


# the sweep


def swept():
    model, x = unsure()
    attack = ConstrainedAttack(k=2, radius=9.0, steps=20, rate=10.0, objective=MSEAttack)
    return model, x, attack, sweep(attack, model, x, [0.1, 0.01, 0.05])


def test_sweep_is_a_table_of_single_attacks():
    model, x, attack, points = swept()
    assert [(p.weights, p.step) for p in points] == list(itertools.product(RULES, [0.1, 0.01, 0.05]))
    for point in points:
        single = replace(attack, weights=point.weights, radius=20 * point.step, keep="last")
        result = single(model, x)
        assert point.precision == pytest.approx(float(result.precision.mean()), abs=1e-12)
        assert point.sensitivity == pytest.approx(changed(result), abs=1e-12)
        assert point.distance == pytest.approx(float(result.distance.mean()), abs=1e-9)
        assert point.distance <= 20 * point.step + 1e-6
    free = {p.step: p for p in points if p.weights == "none"}
    assert free[0.01].sensitivity <= free[0.05].sensitivity <= free[0.1].sensitivity
    assert free[0.1].sensitivity > 0.1
    assert free[0.1].precision < free[0.01].precision


def test_sweep_passes_its_arguments_on():
    model, x, attack, _ = swept()
    domain = Domain(frozen=[0, 1], lower=-0.6, upper=0.6)
    few = sweep(attack, model, x, [0.05], domain=domain, seed=7, weights=["qp", "none"], chunk_size=17)
    assert [p.weights for p in few] == ["qp", "none"]
    for point in few:
        single = replace(attack, weights=point.weights, radius=1.0, keep="last")(model, x, domain=domain, seed=7)
        assert point.precision == pytest.approx(float(single.precision.mean()), abs=1e-9)
        assert point.distance == pytest.approx(float(single.distance.mean()), abs=1e-9)
    plain = sweep(attack, model, x, [0.05], seed=7, weights=["qp"])
    assert plain[0].distance != few[0].distance


def beats(a, b):
    no_worse = a.precision <= b.precision and a.sensitivity <= b.sensitivity
    return no_worse and (a.precision < b.precision or a.sensitivity < b.sensitivity)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_front_and_choice_by_brute_force(values):
    points = [SweepPoint("qp", i + 1.0, p / 4, s / 4, 1.0) for i, (p, s) in enumerate(values)]
    front = pareto_front(points)
    expected = [p for p in points if not any(beats(q, p) for q in points)]
    assert sorted(front, key=lambda p: p.step) == expected
    assert [p.sensitivity for p in front] == sorted(p.sensitivity for p in front)
    gentle = [p for p in points if p.sensitivity <= 0.25]
    if not gentle:
        with pytest.raises(ValueError, match=r"25\.00%"):
            chosen(points, max_sensitivity=0.25)
        return
    choice = chosen(points, max_sensitivity=0.25)
    assert choice in gentle
    assert choice in front
    assert choice.precision == min(p.precision for p in gentle)


def test_the_papers_choice():
    points = [
        SweepPoint("none", 0.1, 0.3, 0.5, 1.0),
        SweepPoint("gda", 0.1, 0.6, 0.02, 1.0),
        SweepPoint("qp", 0.1, 0.6, 0.01, 1.0),
        SweepPoint("qp", 0.2, 0.6, 0.01, 0.5),
        SweepPoint("hedge", 0.1, 0.5, 0.021, 1.0),
    ]
    assert chosen(points) is points[3]
    assert chosen(points, max_sensitivity=1.0) is points[0]
    with pytest.raises(ValueError, match=r"at most 0\.10%.*gentlest.*'qp'"):
        chosen(points, max_sensitivity=0.001)
    with pytest.raises(ValueError, match="none of 0 points"):
        chosen([])
    assert pareto_front([]) == []
    _, _, _, found = swept()
    assert chosen(found).sensitivity <= 0.02
    assert chosen(found) in pareto_front(found)


# bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": "hegde"}, r"'hegde'.*'hedge'"),
        ({"weights": "QP"}, r"'QP'.*'qp'"),
        ({"rate": 0.0}, r"rate=0\.0"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"objective": ERAttack(k=2, radius=1.0)}, "objective must be a class.*ERAttack"),
        ({"objective": nn.Linear}, "objective must be a class.*Linear"),
        ({"objective": "ER"}, "objective must be a class.*'ER'"),
        ({"radius": -1.0}, r"radius=-1\.0"),
        ({"score": "probabilities"}, r"'probabilities'.*'probability'"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        ConstrainedAttack(**({"k": 2, "radius": 1.0} | changes))


def repeated(x, count):
    return [second_net(x)] * count


def test_more_than_four_gradients():
    model, x, run = case("qp", predictions=partial(repeated, count=4))
    with pytest.raises(ValueError, match=r"M from 1 to 4, got \(6, 6, 6\)"):
        run(model, x)
    three = replace(run, predictions=partial(repeated, count=2))(model, x)
    assert float(three.distance.max()) <= 0.8 + 1e-6
    assert replace(run, weights="gda")(model, x).x.shape == x.shape  # the other rules take any number


@pytest.mark.parametrize("rule", ["fixed", "gda", "hedge", "qp"])
def test_predictions_that_cannot_be_held(rule):
    model, x, run = case(rule)
    with pytest.raises(r2et.errors.ModelError, match=r"number 1 of 1.*no gradient"):
        replace(run, predictions=lambda x: [second_net(x).detach()])(model, x)
    with pytest.raises(r2et.errors.ModelError, match=r"number 2 of 2.*probabilities"):
        replace(run, predictions=lambda x: [second_net(x), second_net(x).softmax(1)])(model, x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_sizes": []}, "step_sizes is empty"),
        ({"step_sizes": [0.1], "weights": []}, "weights is empty"),
        ({"step_sizes": [0.1, -0.1]}, r"step=-0\.1"),
        ({"step_sizes": [0.1], "weights": ["qpp"]}, r"'qpp'.*'qp'"),
    ],
)
def test_bad_sweeps(arguments, message):
    model, x, run = case("qp", steps=2)
    with pytest.raises(ValueError, match=message):
        sweep(run, model, x, **arguments)
