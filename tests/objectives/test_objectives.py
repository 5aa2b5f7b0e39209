"""Every objective: its value against loops written from the paper, its parameter gradient against differences."""

import copy
import itertools
from dataclasses import replace

import captum.attr
import pytest
import torch
from torch import nn

import r2et
from r2et.attacks import ERAttack
from r2et.explainers import Activation, FromCaptum, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from r2et.objectives import (
    R2ET,
    SSR,
    AdversarialTraining,
    CertifiedRadius,
    CrossEntropy,
    DirectThickness,
    EstimatedHessian,
    ExactHessian,
)
from r2et.stability import GaussianNeighbours, UniformNeighbours
from tests.models_with_answers import (
    Siamese,
    convolution,
    generator,
    linear,
    mlp,
    naive_gradient,
    naive_log_odds,
    naive_order,
    normal,
    quadratic,
)

X, Y = normal(5, 6, seed=1), torch.tensor([0, 1, 2, 1, 0])


def net():
    return mlp(classes=3, activation=nn.Tanh)


# written from the paper, one row at a time


def naive_cross_entropy(model, x, y):
    losses = []
    for r in range(len(x)):
        logits = model(x[r : r + 1])[0]
        losses.append(logits.exp().sum().log() - logits[y[r]])
    return sum(losses) / len(losses)


def predicted(model, row):
    return int(model(row[None])[0].argmax())


def explained(model, row, c, score="probability"):
    """Signed gradient with a graph to the parameters."""
    return naive_gradient(model, row.clone().requires_grad_(), c, score, graph=True)


def naive_gap(scores, ranked, k, pairs="all", count=None):
    """Mean of h(x, i, j) over pairs of ranks."""
    n = len(ranked)
    if pairs == "all":
        chosen = list(itertools.product(range(1, k + 1), range(k + 1, n + 1)))
    else:
        count = min(k, n - k) if count is None else count
        chosen = [(k - i + 1, k + i) for i in range(1, count + 1)]
    return sum(scores[ranked[i - 1]] - scores[ranked[j - 1]] for i, j in chosen) / len(chosen)


class NaiveR2ET:
    """Eq. 5 by loops. The ranking and the directions are those of the parameters it was built with."""

    def __init__(self, model, x, k, *, score="probability", reference=None, directions=None, **settings):
        self.k, self.score = k, score
        self.settings = {
            "gap": 1.0,
            "curvature": 0.1,
            "pairs": "all",
            "boundary_pairs": None,
            "scale_free": False,
            "difference": 1e-2,
            "curvature_fraction": 1.0,
        } | settings
        self.classes = [predicted(model, row) for row in x]
        signed = [explained(model, row, c, score).detach() for row, c in zip(x, self.classes, strict=True)]
        ranking = signed
        if reference is not None:
            ranking = [
                explained(reference, row, c, score).detach() for row, c in zip(x, self.classes, strict=True)
            ]
        self.ranked = [naive_order(g.abs().tolist()) for g in ranking]
        self.directions = [g / g.norm() for g in signed] if directions is None else directions

    def parts(self, model, x):
        s = self.settings
        gaps, norms = [], []
        for r, row in enumerate(x):
            c = self.classes[r]
            here = explained(model, row, c, self.score)
            there = explained(model, row + s["difference"] * self.directions[r], c, self.score)
            if s["scale_free"]:
                here, there = here / here.norm(), there / there.norm()
            gaps.append(naive_gap(here.abs(), self.ranked[r], self.k, s["pairs"], s["boundary_pairs"]))
            norms.append(((there - here) / s["difference"]).norm())
        rows = max(1, round(s["curvature_fraction"] * len(x)))
        return sum(gaps) / len(gaps), sum(norms[:rows]) / rows

    def __call__(self, model, x, y):
        gap, curvature = self.parts(model, x)
        s = self.settings
        return naive_cross_entropy(model, x, y) - s["gap"] * gap + s["curvature"] * curvature


def naive_hessian(model, row, c, score):
    def value(point):
        logits = model(point[None])[0]
        return logits.softmax(0)[c] if score == "probability" else naive_log_odds(logits, c)

    return torch.autograd.functional.hessian(value, row, create_graph=True)


# gradients against differences


def slope_along(loss, model, directions):
    slopes = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True) if s is not None)


def check_parameter_gradient(objective, value, model, *, seed=7, step=1e-5, tolerance=1e-5):
    """The slope of `objective(model)` along a random direction against differences of `value(model)`."""
    parameters = list(model.parameters())
    directions = [normal(*p.shape, seed=seed + i) for i, p in enumerate(parameters)]
    exact = slope_along(objective(model), model, directions)

    def at(offset):
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for p, d in zip(moved.parameters(), directions, strict=True):
                p += offset * d
        return float(value(moved))

    # the five-point rule: its own error is far below the tolerance
    numeric = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    assert exact == pytest.approx(numeric, rel=tolerance, abs=1e-9)
    assert abs(exact) > 1e-3


def minus_cross_entropy(objective):
    """The regulariser alone, so that a small weight cannot hide its gradient behind the classification loss."""

    def regulariser(model):
        return objective(model) - CrossEntropy()(model, X, Y)

    return regulariser


# cross-entropy


def test_cross_entropy():
    model = net()
    assert float(CrossEntropy()(model, X, Y)) == pytest.approx(float(naive_cross_entropy(model, X, Y)), abs=1e-12)
    check_parameter_gradient(lambda m: CrossEntropy()(m, X, Y), lambda m: naive_cross_entropy(m, X, Y), model)


# R2ET


R2ET_FORMS = {
    "all": {},
    "without H": {"curvature": 0.0},
    "boundary": {"pairs": "boundary"},
    "boundary without H": {"pairs": "boundary", "curvature": 0.0},
    "one boundary pair": {"pairs": "boundary", "boundary_pairs": 1},
    "two boundary pairs": {"pairs": "boundary", "boundary_pairs": 2},
    "curvature alone": {"gap": 0.0, "curvature": 2.0},
    "weights": {"gap": 3.0, "curvature": 0.7},
    "difference": {"difference": 0.3, "curvature": 1.0},
    "half of the batch": {"curvature_fraction": 0.4, "curvature": 1.0},
    "a sliver of the batch": {"curvature_fraction": 0.01, "curvature": 1.0},
}


@pytest.mark.parametrize("form", R2ET_FORMS)
def test_r2et_of_the_paper(form):
    settings = R2ET_FORMS[form]
    model, k = net(), 3
    objective = R2ET(k=k, **settings)
    naive = NaiveR2ET(model, X, k, **settings)
    assert float(objective(model, X, Y)) == pytest.approx(float(naive(model, X, Y)), abs=1e-11)
    check_parameter_gradient(lambda m: objective(m, X, Y), lambda m: naive(m, X, Y), model)
    check_parameter_gradient(
        minus_cross_entropy(lambda m: objective(m, X, Y)),
        lambda m: float(naive(m, X, Y)) - float(naive_cross_entropy(m, X, Y)),
        model,
    )


@pytest.mark.parametrize("form", ["all", "boundary", "difference", "half of the batch"])
def test_scale_free_r2et(form):
    """Both terms on grad s / ||grad s||; the directions are random by default."""
    settings = R2ET_FORMS[form]
    model, k = net(), 2
    objective = R2ET(k=k, scale_free=True, **settings)
    rows = max(1, round(settings.get("curvature_fraction", 1.0) * len(X)))
    drawn = torch.randn(rows, 6, generator=generator(3), dtype=torch.float64)
    directions = list(drawn / drawn.norm(dim=1, keepdim=True)) + [torch.zeros(6).double()] * (len(X) - rows)
    naive = NaiveR2ET(model, X, k, score="log-odds", scale_free=True, directions=directions, **settings)

    def value(m):
        return objective(m, X, Y, generator=generator(3))

    assert float(value(model)) == pytest.approx(float(naive(model, X, Y)), abs=1e-11)
    check_parameter_gradient(value, lambda m: naive(m, X, Y), model)
    check_parameter_gradient(value, value, model)


@pytest.mark.parametrize("scale_free", [False, True])
@pytest.mark.parametrize("direction", ["gradient", "random"])
def test_directions(scale_free, direction):
    model, score = net(), "log-odds" if scale_free else "probability"
    drawn = torch.randn(5, 6, generator=generator(3), dtype=torch.float64)
    directions = list(drawn / drawn.norm(dim=1, keepdim=True)) if direction == "random" else None
    objective = R2ET(k=2, scale_free=scale_free, direction=direction, curvature=1.0)
    naive = NaiveR2ET(model, X, 2, score=score, scale_free=scale_free, directions=directions, curvature=1.0)
    loss = objective(model, X, Y, generator=generator(3))
    assert float(loss) == pytest.approx(float(naive(model, X, Y)), abs=1e-11)
    default = R2ET(k=2, scale_free=scale_free, curvature=1.0)(model, X, Y, generator=generator(3))
    same = torch.equal(default, loss)
    assert same == (direction == ("random" if scale_free else "gradient"))


@pytest.mark.parametrize("scale_free", [False, True])
def test_an_adversarial_direction_bends_more_than_a_random_one(scale_free):
    """Against the largest ||H v|| over many directions; for a short difference it is the Jacobian's norm."""
    model = net()
    shared = {"k": 2, "gap": 0.0, "curvature": 1.0, "difference": 1e-5, "scale_free": scale_free}

    def curvature(x, y, direction, seed):
        objective = R2ET(direction=direction, **shared)
        return float(objective.evaluate(model, x, y, generator=generator(seed)).parts["curvature"])

    for row in range(len(X)):
        x, y = X[row : row + 1], Y[row : row + 1]
        several = [curvature(x, y, "random", seed) for seed in range(100)]
        adversarial = [curvature(x, y, "adversarial", seed) for seed in range(20)]
        assert sum(adversarial) / 20 > 1.2 * sum(several) / 100
        assert max(adversarial) > 0.95 * max(several)
        # one step of the power method cannot exceed the norm it looks for
        assert max(adversarial) < 1.5 * max(several)


def test_a_linear_model_has_no_adversarial_direction_and_no_curvature():
    model = nn.Linear(6, 2).double()
    objective = R2ET(k=2, scale_free=True, direction="adversarial")
    loss = objective.evaluate(model, X, Y.clamp_max(1), generator=generator(0))
    assert float(loss.parts["curvature"]) == pytest.approx(0.0, abs=1e-12)
    loss.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_reference_keeps_its_own_ranking():
    model, reference, k = net(), mlp(classes=3, seed=9), 2
    objective, naive = R2ET(k=k, reference=reference), NaiveR2ET(model, X, k, reference=reference)
    assert float(objective(model, X, Y)) == pytest.approx(float(naive(model, X, Y)), abs=1e-11)
    assert float(R2ET(k=k)(model, X, Y)) != pytest.approx(float(naive(model, X, Y)), abs=1e-3)
    check_parameter_gradient(lambda m: objective(m, X, Y), lambda m: naive(m, X, Y), model)
    objective(model, X, Y).backward()
    assert all(p.grad is None for p in reference.parameters())


class Scaled(nn.Module):
    """The log-odds of a two-class model, multiplied."""

    def __init__(self, inner, factor):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.factor * self.inner(x)


@pytest.mark.parametrize("pairs", ["all", "boundary"])
@pytest.mark.parametrize("direction", ["gradient", "random"])
def test_only_the_scale_free_form_ignores_the_scale_of_the_log_odds(pairs, direction):
    inner, y = mlp(activation=nn.Tanh), torch.tensor([0, 1, 1, 0, 1])

    def parts(factor, *, scale_free):
        objective = R2ET(k=2, pairs=pairs, direction=direction, scale_free=scale_free, curvature=1.0)
        return objective.evaluate(Scaled(inner, factor), X, y, generator=generator(2)).parts

    for name in ("gap", "curvature"):
        assert float(parts(4.0, scale_free=True)[name]) == pytest.approx(
            float(parts(1.0, scale_free=True)[name]), rel=1e-10
        )
        assert float(parts(4.0, scale_free=False)[name]) != pytest.approx(
            float(parts(1.0, scale_free=False)[name]), rel=0.05
        )


@pytest.mark.parametrize("kind", [Gradient, GradientTimesInput])
def test_probability_and_log_odds_give_the_same_scale_free_terms(kind):
    """F1: p (1 - p) cancels."""
    parts = [
        R2ET(k=2, scale_free=True, explainer=kind(score=score)).evaluate(net(), X, Y, generator=generator(1)).parts
        for score in ("log-odds", "probability")
    ]
    for name in ("gap", "curvature"):
        assert float(parts[0][name]) == pytest.approx(float(parts[1][name]), rel=1e-9)


def test_scale_free_gap_is_bounded():
    """A unit vector's mean gap is at most 1, whatever the gradients."""
    model = Scaled(net(), 1e4)
    gap = R2ET(k=1, scale_free=True, curvature=0.0).evaluate(model, X, Y).parts["gap"]
    assert 0 < float(gap) <= 1


def test_every_few_steps_with_as_many_times_the_weight():
    model = net()
    each, rarely = R2ET(k=2), R2ET(k=2, every=3)
    expected = each(model, X, Y)
    plain = CrossEntropy()(model, X, Y)
    values = [rarely(model, X, Y, step=step) for step in range(6)]
    assert float(sum(values) / 6) == pytest.approx(float(expected), abs=1e-12)
    for step in (1, 2, 4, 5):
        assert float(values[step]) == pytest.approx(float(plain), abs=1e-14)
    slopes = [torch.autograd.grad(value, list(model.parameters())) for value in (expected, sum(values) / 6)]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


def test_calls_are_counted_where_no_step_is_given():
    model = net()
    objective, plain = R2ET(k=2, every=2), float(CrossEntropy()(model, X, Y))
    regularised = [abs(float(objective(model, X, Y)) - plain) > 1e-9 for _ in range(4)]
    assert regularised == [True, False, True, False]
    other = R2ET(k=2, every=2)  # each has its own count
    assert abs(float(other(model, X, Y)) - plain) > 1e-9


def test_without_a_gap_r2et_is_est_h():
    """Eq. 5 with lambda_1 = 0 recovers the Hessian norm alone (Sec. 4.2)."""
    model = net()
    assert torch.equal(R2ET(k=2, gap=0.0, curvature=0.3)(model, X, Y), EstimatedHessian(weight=0.3)(model, X, Y))


def test_paper_weights_of_the_gap():
    """lambda_1 of the paper is ours / (k (n - k)): the sum uses n - k for salient, -k for other features."""
    model, k, n = net(), 2, 6
    ours = R2ET(k=k, curvature=0.0).evaluate(model, X, Y).parts["gap"]
    scores = Gradient(score="probability")(model, X)
    total = 0.0
    for row in scores:
        ranked = naive_order(row.tolist())
        total += sum(float(row[f]) * ((n - k) if place < k else -k) for place, f in enumerate(ranked))
    assert float(ours) == pytest.approx(total / len(X) / (k * (n - k)), abs=1e-13)


@pytest.mark.parametrize(
    ("objective", "weights"),
    [
        (R2ET(k=2, curvature=0.5, direction="random"), {"gap": -1.0, "curvature": 0.5}),
        (EstimatedHessian(weight=0.3, direction="random"), {"curvature": 0.3}),
        (ExactHessian(), {"hessian": 1.0}),
        (DirectThickness(k=2, weight=0.2), {"thickness": -0.2}),
    ],
    ids=["r2et", "est-H", "exact-H", "thickness"],
)
def test_adaptive_weights_of_the_published_code(objective, weights):
    """w (CE + 1) / |reg|, both constant, times the regulariser: its gradient is w (CE + 1) grad log |reg|."""
    model = net()
    adaptive = replace(objective, adaptive=True)
    constant = float(CrossEntropy()(model, X, Y)) + 1
    parts = objective.evaluate(model, X, Y, generator=generator(5)).parts
    expected = constant - 1 + sum(w * constant * float(parts[name].sign()) for name, w in weights.items())

    def value(m):
        return adaptive(m, X, Y, generator=generator(5))

    def logarithm(m):
        parts_there = objective.evaluate(m, X, Y, generator=generator(5)).parts
        logs = sum(w * constant * float(parts_there[name].abs().log()) for name, w in weights.items())
        return float(CrossEntropy()(m, X, Y)) + logs

    assert float(value(model)) == pytest.approx(expected, abs=1e-12)
    check_parameter_gradient(value, logarithm, model)


# curvature


def test_estimated_hessian_of_a_quadratic_is_exact():
    """The explanation is linear, so the finite difference along v = g / ||g|| is ||A v||, for any step."""
    model, x, y = quadratic(), normal(4, 5, seed=2), torch.tensor([0, 1, 1, 0])
    A, b = model.A.detach(), model.b.detach()
    g = x @ A + b
    expected = (g @ A / g.norm(dim=1, keepdim=True)).norm(dim=1).mean()
    for difference in (1e-3, 1.0):
        objective = EstimatedHessian(explainer=Gradient(), difference=difference)
        assert float(objective.evaluate(model, x, y).parts["curvature"]) == pytest.approx(
            float(expected), rel=1e-9
        )
    assert float(EstimatedHessian(weight=2.5, explainer=Gradient())(model, x, y)) == pytest.approx(
        float(naive_cross_entropy(model, x, y) + 2.5 * expected), rel=1e-9
    )


def test_exact_hessian_of_a_quadratic():
    model, x, y = quadratic(), normal(4, 5, seed=2), torch.tensor([0, 1, 1, 0])
    for reduce in ("abs", "signed"):
        norm = ExactHessian(explainer=Gradient(reduce=reduce)).evaluate(model, x, y).parts["hessian"]
        assert float(norm) == pytest.approx(float(model.A.norm()), rel=1e-12)


def naive_frobenius(model, x, y, classes):
    norms = [
        naive_hessian(model, row, c, "probability").square().sum().sqrt()
        for row, c in zip(x, classes, strict=True)
    ]
    return naive_cross_entropy(model, x, y) + 0.5 * sum(norms) / len(norms)


def test_exact_hessian():
    model = net()
    classes = [predicted(model, row) for row in X]
    objective = ExactHessian(weight=0.5)
    expected = naive_frobenius(model, X, Y, classes)
    assert float(objective(model, X, Y)) == pytest.approx(float(expected), abs=1e-11)
    check_parameter_gradient(lambda m: objective(m, X, Y), lambda m: naive_frobenius(m, X, Y, classes), model)


def test_ssr_of_a_quadratic_is_the_largest_eigenvalue():
    model, x, y = quadratic(), normal(4, 5, seed=2), torch.tensor([0, 1, 1, 0])
    largest = torch.linalg.eigvalsh(model.A.detach()).abs().max()
    objective = SSR(iterations=300, explainer=Gradient())
    eigenvalue = objective.evaluate(model, x, y, generator=generator()).parts["eigenvalue"]
    assert float(eigenvalue) == pytest.approx(float(largest), rel=1e-9)
    few = SSR(iterations=1, explainer=Gradient()).evaluate(model, x, y, generator=generator()).parts["eigenvalue"]
    assert float(few) <= float(largest) + 1e-12


def test_ssr_finds_a_negative_eigenvalue():
    model = quadratic()
    with torch.no_grad():
        model.A.copy_(torch.diag(torch.tensor([1.0, -3.0, 0.5, 2.0, 0.1])))
    loss = SSR(iterations=200, explainer=Gradient()).evaluate(
        model, normal(3, 5), Y[:3] % 2, generator=generator()
    )
    assert float(loss.parts["eigenvalue"]) == pytest.approx(3.0, rel=1e-9)


def test_ssr_against_the_spectrum():
    model = net()
    classes = [predicted(model, row) for row in X]
    objective = SSR(weight=0.5, iterations=400)

    def naive(m):
        largest = [
            torch.linalg.eigvalsh(naive_hessian(m, row, c, "probability")).abs().max()
            for row, c in zip(X, classes, strict=True)
        ]
        return naive_cross_entropy(m, X, Y) + 0.5 * sum(largest) / len(largest)

    def value(m):
        return objective(m, X, Y, generator=generator(4))

    assert float(value(model)) == pytest.approx(float(naive(model)), rel=1e-7)
    check_parameter_gradient(value, naive, model)


def test_ssr_of_an_explanation_without_symmetry_is_a_singular_value():
    model, x, y = quadratic(), normal(3, 5, seed=2), torch.tensor([0, 1, 1])
    A, b = model.A.detach(), model.b.detach()
    jacobians = torch.diag_embed(x @ A + b) + x[:, :, None] * A
    expected = torch.linalg.svdvals(jacobians)[:, 0].mean()
    objective = SSR(iterations=400, explainer=GradientTimesInput(reduce="signed"))
    eigenvalue = objective.evaluate(model, x, y, generator=generator()).parts["eigenvalue"]
    assert float(eigenvalue) == pytest.approx(float(expected), rel=1e-8)


def naive_radius(model, x, y, *, k, classes, ranked, score="probability"):
    radii = []
    for r, row in enumerate(x):
        g = explained(model, row, classes[r], score)
        H = g.detach().sign()[:, None] * naive_hessian(model, row, classes[r], score)
        scores = g.abs()
        ratios = [
            (scores[i] - scores[j]) / (H[i] - H[j]).norm()
            for i, j in itertools.product(ranked[r][:k], ranked[r][k:])
        ]
        radii.append(min(ratios, key=float))
    return naive_cross_entropy(model, x, y) - 0.3 * sum(radii) / len(radii)


@pytest.mark.parametrize("with_reference", [False, True])
def test_certified_radius_by_brute_force(with_reference):
    """Prop. 4.5 at x: min over pairs of h / ||H_i - H_j||."""
    model, k = net(), 2
    reference = mlp(classes=3, seed=9) if with_reference else None
    classes = [predicted(model, row) for row in X]
    ranked = [
        naive_order(explained(reference or model, row, c).abs().tolist())
        for row, c in zip(X, classes, strict=True)
    ]
    objective = CertifiedRadius(k=k, weight=0.3, reference=reference, denominator="point")
    expected = naive_radius(model, X, Y, k=k, classes=classes, ranked=ranked)
    assert float(objective(model, X, Y)) == pytest.approx(float(expected), abs=1e-11)
    check_parameter_gradient(
        lambda m: objective(m, X, Y), lambda m: naive_radius(m, X, Y, k=k, classes=classes, ranked=ranked), model
    )


def farthest_radius(model, row, moved, *, c, order, k):
    """min over pairs of the gap at one point over ||s_i H_i - s_j H_j|| at another."""
    g = explained(model, row, c, "log-odds").detach()
    H = g.sign()[:, None] * naive_hessian(model, moved, c, "log-odds").detach()
    return min(
        float((g[i].abs() - g[j].abs()) / (H[i] - H[j]).norm()) for i, j in itertools.product(order[:k], order[k:])
    )


@pytest.mark.parametrize("with_reference", [False, True])
def test_certified_radius_with_enclosed_denominators(with_reference):
    """On a tiny ball the enclosure is the point; on a larger one it is above every Hessian in the ball."""
    model, k = net(), 2
    reference = mlp(classes=3, seed=9) if with_reference else None
    classes = [predicted(model, row) for row in X]
    ranked = [
        naive_order(explained(reference or model, row, c, "log-odds").abs().tolist())
        for row, c in zip(X, classes, strict=True)
    ]

    def objective(ball):
        return CertifiedRadius(k=k, weight=0.3, reference=reference, denominator="enclosure", ball=ball)

    tiny = objective(1e-9)
    point = naive_radius(model, X, Y, k=k, classes=classes, ranked=ranked, score="log-odds")
    assert float(tiny(model, X, Y)) == pytest.approx(float(point), rel=1e-6)
    check_parameter_gradient(
        lambda m: tiny(m, X, Y),
        lambda m: naive_radius(m, X, Y, k=k, classes=classes, ranked=ranked, score="log-odds"),
        model,
    )
    if not with_reference:  # every gap is positive, so that a larger denominator means a smaller ratio
        wide = float(objective(0.5).evaluate(model, X, Y).parts["radius"])
        assert wide < float(tiny.evaluate(model, X, Y).parts["radius"])
        for seed in range(5):
            moved = X + 0.5 * torch.nn.functional.normalize(normal(*X.shape, seed=seed), dim=1)
            rows = zip(X, moved, classes, ranked, strict=True)
            radii = [farthest_radius(model, row, far, c=c, order=order, k=k) for row, far, c, order in rows]
            assert wide <= sum(radii) / len(radii)


def test_certified_radius_says_why_it_cannot_enclose():
    relu = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).to(X.dtype)
    with pytest.raises(r2et.errors.ModelError, match="kinks"):
        CertifiedRadius(k=2, denominator="enclosure")(relu, X, Y)
    CertifiedRadius(k=2)(relu, X, Y).backward()  # "auto" takes the point
    with pytest.raises(r2et.errors.InputError, match="denominator 'poin'"):
        CertifiedRadius(k=2, denominator="poin")


def test_certified_radius_of_a_pair_is_the_smaller_one():
    model, x, y, k = Siamese(), normal(2, 2, 5), torch.tensor([0, 1]), 2
    objective = CertifiedRadius(k=k, explainer=Gradient(inputs=2))
    radius = objective.evaluate(model, x, y).parts["radius"]
    radii = []
    for row in x:
        c = predicted(model, row)
        g = explained(model, row, c, "log-odds").detach()
        H = naive_hessian(model, row, c, "log-odds").reshape(2, 5, 10).detach()
        ratios = []
        for side in range(2):
            scores, slopes = g[side].abs(), g[side].sign()[:, None] * H[side]
            ranked = naive_order(scores.tolist())
            ratios += [
                float((scores[i] - scores[j]) / (slopes[i] - slopes[j]).norm())
                for i, j in itertools.product(ranked[:k], ranked[k:])
            ]
        radii.append(min(ratios))
    assert float(radius) == pytest.approx(sum(radii) / 2, abs=1e-11)


# direct thickness and adversarial training


@pytest.mark.parametrize("neighbours", [UniformNeighbours(0.4), GaussianNeighbours(0.3)], ids=["ball", "normal"])
def test_direct_thickness_against_loops(neighbours):
    """Eq. 4."""
    model, k, samples, steps = net(), 2, 3, 2
    objective = DirectThickness(k=k, weight=0.7, neighbours=neighbours, samples=samples, steps=steps)
    drawn = neighbours.draw(model, X, samples, generator(2))
    classes = [predicted(model, row) for row in X]
    ranked = [naive_order(explained(model, row, c).abs().tolist()) for row, c in zip(X, classes, strict=True)]

    def naive(m):
        values = []
        for r, s, step in itertools.product(range(len(X)), range(samples), range(steps)):
            t = (step + 0.5) / steps
            scores = explained(m, (1 - t) * X[r] + t * drawn[s, r], classes[r]).abs()
            values.append(naive_gap(scores, ranked[r], k))
        return naive_cross_entropy(m, X, Y) - 0.7 * sum(values) / len(values)

    def value(m):
        return objective(m, X, Y, generator=generator(2))

    assert float(value(model)) == pytest.approx(float(naive(model)), abs=1e-11)
    check_parameter_gradient(value, naive, model)


def test_direct_thickness_equals_the_measure():
    model = net()
    neighbours = UniformNeighbours(0.4)
    part = DirectThickness(k=2, neighbours=neighbours).evaluate(model, X, Y, generator=generator(2)).parts
    measured = r2et.thickness(
        model, X, 2, variant="gap", neighbours=neighbours, samples=4, steps=4, generator=generator(2)
    )
    assert float(part["thickness"]) == pytest.approx(float(measured.mean()), abs=1e-13)


@pytest.mark.parametrize("steps", [1, 3])
def test_adversarial_training_is_cross_entropy_at_the_last_iterate(steps):
    model = net()
    attacked = ERAttack(k=2, radius=0.6, steps=steps, keep="last")(model, X).x
    torch.testing.assert_close((attacked - X).norm(dim=1).max(), torch.tensor(0.6).double(), atol=0.2, rtol=0)
    objective = AdversarialTraining(k=2, radius=0.6, steps=steps)
    expected = naive_cross_entropy(model, attacked, Y)
    assert float(objective(model, X, Y)) == pytest.approx(float(expected), abs=1e-12)
    assert float(expected) != pytest.approx(float(naive_cross_entropy(model, X, Y)), abs=1e-3)
    check_parameter_gradient(lambda m: objective(m, X, Y), lambda m: naive_cross_entropy(m, attacked, Y), model)


# every objective with every explainer

OBJECTIVES = {
    "r2et": R2ET(k=2),
    "r2et-mm": R2ET(k=2, pairs="boundary"),
    "r2et-without-H": R2ET(k=2, curvature=0.0),
    "r2et-scale-free": R2ET(k=2, scale_free=True),
    "est-H": EstimatedHessian(),
    "exact-H": ExactHessian(),
    "ssr": SSR(iterations=3),
    "cl": CertifiedRadius(k=2),
    "thickness": DirectThickness(k=2, samples=2, steps=2),
    "at": AdversarialTraining(k=2, radius=0.3),
}
EXPLAINERS = {
    "gradient": Gradient(),
    "gradient-signed": Gradient(reduce="signed"),
    "gradient-probability": Gradient(score="probability"),
    "gradient-logit": Gradient(score="logit"),
    "gradient-times-input": GradientTimesInput(),
    "smoothgrad": SmoothGrad(samples=2, sigma=0.3),
    "ig": IntegratedGradients(points=3),
    "activation": Activation(layer="1"),
    "captum-saliency": FromCaptum(method=captum.attr.Saliency, options={"abs": False}),
    "captum-product": FromCaptum(method=captum.attr.InputXGradient),
    "captum-ig": FromCaptum(method=captum.attr.IntegratedGradients, options={"n_steps": 3}),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())


def regulariser_slopes(objective, model, x, y):
    """Parameter gradients of what an objective adds to the classification loss."""
    total = objective(model, x, y, generator=generator(1))
    assert total.ndim == 0
    parameters = list(model.parameters())
    with_it = torch.autograd.grad(total, parameters, allow_unused=True)
    without = torch.autograd.grad(CrossEntropy()(model, x, y), parameters)
    zeros = [torch.zeros_like(p) if s is None else s for s, p in zip(with_it, parameters, strict=True)]
    return [a - b for a, b in zip(zeros, without, strict=True)]


@every_objective
@pytest.mark.parametrize("explainer", EXPLAINERS.values(), ids=EXPLAINERS.keys())
def test_every_objective_with_every_explainer(objective, explainer):
    slopes = regulariser_slopes(replace(objective, explainer=explainer), net(), X, Y)
    assert all(torch.isfinite(s).all() for s in slopes)
    assert sum(float(s.abs().sum()) for s in slopes) > 1e-6


@every_objective
def test_two_inputs(objective):
    model, x, y = Siamese(), normal(4, 2, 5), torch.tensor([0, 1, 1, 0])
    slopes = regulariser_slopes(replace(objective, explainer=Gradient(inputs=2)), model, x, y)
    assert all(torch.isfinite(s).all() for s in slopes)
    assert sum(float(s.abs().sum()) for s in slopes) > 1e-6


@every_objective
def test_images_by_channel_sums(objective):
    model, x, y = convolution(), normal(2, 2, 4, 4), torch.tensor([0, 2])
    slopes = regulariser_slopes(replace(objective, explainer=Gradient(reduce="abs-sum")), model, x, y)
    assert all(torch.isfinite(s).all() for s in slopes)
    assert sum(float(s.abs().sum()) for s in slopes) > 1e-6


@pytest.mark.parametrize("name", ["r2et", "est-H", "exact-H", "ssr", "cl", "at"])
@pytest.mark.parametrize(
    "explainer", [Gradient(), Gradient(score="logit"), Gradient(score="probability")], ids=lambda e: e.score
)
def test_a_linear_model_has_no_curvature_and_no_error(name, explainer):
    """A two-class linear model is what over-regularised nets become: no NaN, no crash."""
    y = torch.tensor([0, 1, 1, 0, 1])
    model = linear()
    objective = replace(OBJECTIVES[name], explainer=explainer)
    loss = objective.evaluate(model, X, y, generator=generator())
    assert torch.isfinite(loss.total)
    loss.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    if explainer.score != "probability":
        for part in ("curvature", "hessian", "eigenvalue"):
            if part in loss.parts:
                assert float(loss.parts[part]) == pytest.approx(0.0, abs=1e-9)


@every_objective
def test_a_relu_network_trains(objective):
    model = mlp(classes=3, activation=nn.ReLU)
    objective(model, X, Y, generator=generator()).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@every_objective
def test_works_in_float32(objective):
    model = net()
    exact = objective(model, X, Y, generator=generator(1)) if not random_inside(objective) else None
    model = model.float()
    single = objective(model, X.float(), Y, generator=generator(1))
    assert single.dtype == torch.float32
    assert torch.isfinite(single)
    if exact is not None:
        assert float(single) == pytest.approx(float(exact), rel=2e-3)


def random_inside(objective):
    """Draws differ between dtypes."""
    return isinstance(objective, SSR | DirectThickness) or getattr(objective, "scale_free", False)


@every_objective
def test_inputs_and_parameters_are_left_as_they_were(objective):
    model, x = net(), X.clone()
    before = [p.clone() for p in model.parameters()]
    objective(model, x, Y, generator=generator())
    assert torch.equal(x, X)
    assert not x.requires_grad
    assert x.grad is None
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES) - {"ssr"}))
def test_a_sample_counts_the_same_in_every_batch(name):
    """A mean over rows: the batch twice is the batch once. Nothing is left to chance here."""
    objective = OBJECTIVES[name]
    if isinstance(objective, R2ET):
        objective = replace(objective, direction="gradient")
    if isinstance(objective, DirectThickness):
        objective = replace(objective, neighbours=Stretched())
    model = net()
    once, twice = objective(model, X, Y), objective(model, torch.cat([X, X]), torch.cat([Y, Y]))
    assert float(once) == pytest.approx(float(twice), rel=1e-12)


class Stretched(r2et.stability.Neighbours):
    """Neighbours without chance."""

    def each(self, model, x, samples, generator):
        return (x * (1 + 0.1 * m) for m in range(samples))


# layers whose behaviour depends on the mode


def with_batch_norm():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        model[1].running_mean.copy_(normal(8, seed=2))
        model[1].running_var.copy_(normal(8, seed=3).abs() + 0.5)
        model[1].weight.copy_(normal(8, seed=4))
    return model.train()


@every_objective
def test_batch_norm_statistics_are_updated_once_a_step(objective):
    model = with_batch_norm()
    reference = copy.deepcopy(model)
    if isinstance(objective, AdversarialTraining):
        attack = ERAttack(k=2, radius=0.3, steps=1, keep="last")
        reference(attack(copy.deepcopy(reference).eval(), X).x)
    else:
        reference(X)
    objective(model, X, Y, generator=generator())
    assert int(model[1].num_batches_tracked) == 1
    torch.testing.assert_close(model[1].running_mean, reference[1].running_mean)
    torch.testing.assert_close(model[1].running_var, reference[1].running_var)
    assert all(module.training for module in model.modules())


def test_cross_entropy_updates_batch_norm_once():
    model = with_batch_norm()
    CrossEntropy()(model, X, Y)
    R2ET(k=2, every=2)(model, X, Y, step=1)  # an unregularised step
    assert int(model[1].num_batches_tracked) == 2


@pytest.mark.parametrize("name", ["r2et", "r2et-scale-free", "est-H", "exact-H", "ssr", "cl", "thickness"])
def test_batch_norm_regulariser_uses_evaluation_statistics(name):
    objective = OBJECTIVES[name]
    model = with_batch_norm()
    updated = copy.deepcopy(model)
    logits = updated(X)  # the step's own update comes first
    plain = nn.functional.cross_entropy(logits, Y)
    expected = objective.evaluate(updated.eval(), X, Y, generator=generator(1)).parts
    loss = objective.evaluate(model, X, Y, generator=generator(1))
    for part in expected:
        if part == "cross-entropy":
            assert float(loss.parts[part]) == pytest.approx(float(plain), abs=1e-12)
            assert float(expected[part]) != pytest.approx(float(plain), abs=1e-3)
        else:
            assert float(loss.parts[part]) == pytest.approx(float(expected[part]), abs=1e-11)
    loss.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_adversarial_training_attacks_with_evaluation_statistics():
    model = with_batch_norm()
    attack = ERAttack(k=2, radius=0.3, steps=1, keep="last")
    frozen = copy.deepcopy(model).eval()
    attacked = attack(frozen, X).x
    expected = nn.functional.cross_entropy(copy.deepcopy(model)(attacked), Y)
    assert float(AdversarialTraining(k=2, radius=0.3)(model, X, Y)) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("name", ["r2et", "est-H", "exact-H", "ssr", "cl", "thickness"])
def test_dropout_is_on_for_the_loss_and_off_for_the_regulariser(name):
    objective = OBJECTIVES[name]
    model = mlp(classes=3, activation=lambda: nn.Sequential(nn.Tanh(), nn.Dropout(0.5))).train()
    calm = copy.deepcopy(model).eval()
    expected = objective.evaluate(calm, X, Y, generator=generator(1)).parts
    losses = set()
    for seed in range(3):
        torch.manual_seed(seed)
        parts = objective.evaluate(model, X, Y, generator=generator(1)).parts
        losses.add(round(float(parts["cross-entropy"]), 10))
        for part in set(expected) - {"cross-entropy"}:
            assert float(parts[part]) == pytest.approx(float(expected[part]), abs=1e-11)
    assert len(losses) == 3
    assert model.training
    assert model[1][1].training


def test_modes_are_restored_after_an_error():
    model = with_batch_norm()
    model[0].eval()
    with pytest.raises(ValueError, match="k=8"):
        R2ET(k=8)(model, X, Y)
    assert [module.training for module in model.children()] == [False, True, True, True]


# parts and bad input


@every_objective
def test_parts_add_up(objective):
    model = net()
    loss = objective.evaluate(model, X, Y, generator=generator(1))
    assert float(loss.total) == pytest.approx(float(objective(model, X, Y, generator=generator(1))), abs=1e-13)
    assert not any(part.requires_grad for part in loss.parts.values())
    weights = {"gap": -1.0, "curvature": 0.1, "hessian": 1.0, "eigenvalue": 1.0, "radius": -1.0, "thickness": -1.0}
    if isinstance(objective, EstimatedHessian):
        weights["curvature"] = 1.0
    total = sum(weights.get(name, 1.0) * float(value) for name, value in loss.parts.items())
    assert float(loss.total) == pytest.approx(total, abs=1e-12)


ALL = OBJECTIVES | {"vanilla": CrossEntropy()}


@pytest.mark.parametrize("objective", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, torch.tensor([0, 1, 3, 1, 0]), "label 3 in row 2"),
        (X, torch.tensor([0, -1, 1, 1, 0]), "label -1 in row 1"),
        (X, torch.tensor([0, 1]), "2 labels for 5 rows"),
        (X, Y.double(), "float64"),
        (X, Y[:, None], r"\(5, 1\)"),
        (X * float("nan"), Y, "NaN"),
        (X / 0, Y, "infinite"),
        (torch.ones(5, 6, dtype=torch.int64), Y, "int64"),
        (X[:0], Y[:0], "empty"),
        (X[0], Y[:1], r"x\[None\]"),
    ],
)
def test_bad_data(objective, x, y, message):
    with pytest.raises(ValueError, match=message):
        objective(net(), x, y)


@pytest.mark.parametrize("objective", ALL.values(), ids=ALL.keys())
def test_bad_models(objective):
    with pytest.raises(r2et.errors.ModelError, match="probabilities"):
        objective(nn.Sequential(net(), nn.Softmax(1)), X, Y)
    with pytest.raises(r2et.errors.ModelError, match=r"one output.*torch\.cat"):
        objective(mlp(classes=1), X, torch.zeros(5, dtype=torch.int64))


@pytest.mark.parametrize("k", [0, -1, 6, 8])
@pytest.mark.parametrize("kind", [R2ET, CertifiedRadius, DirectThickness, AdversarialTraining])
def test_bad_k(kind, k):
    with pytest.raises(ValueError, match=f"k={k}"):
        kind(k=k)(net(), X, Y)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: R2ET(pairs="boundaries"), r"'boundaries'.*'boundary'"),
        (lambda: R2ET(direction="gradients"), r"'gradients'.*'gradient'"),
        (lambda: EstimatedHessian(direction="gradients"), r"'gradients'.*'gradient'"),
        (lambda: R2ET(every=0), "every.*0"),
        (lambda: R2ET(curvature_fraction=0.0), r"curvature_fraction.*0\.0"),
        (lambda: R2ET(curvature_fraction=1.5), r"curvature_fraction.*1\.5"),
        (lambda: R2ET(difference=0.0), r"difference=0\.0"),
        (lambda: EstimatedHessian(difference=-1e-3), r"difference=-0\.001"),
        (lambda: SSR(iterations=0), "iterations=0"),
        (lambda: AdversarialTraining(radius=0.0), r"radius=0\.0"),
        (lambda: AdversarialTraining(steps=0), "steps=0"),
        (lambda: R2ET(k=2, pairs="boundary", boundary_pairs=3)(net(), X, Y), "boundary_pairs.*got 3"),
        (lambda: DirectThickness(k=2, samples=0)(net(), X, Y), "samples=0"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()
