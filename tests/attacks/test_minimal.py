"""The smallest flip: models whose nearest flip is known, by a formula or by a fine search."""

import math

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import BoundaryAttack, ERAttack, MinimalFlip
from r2et.attacks.task import Task
from r2et.explainers import Gradient, GradientTimesInput
from tests.attacks.test_boundary import trained
from tests.models_with_answers import OneNeuron, Pair, Quadratic, Siamese, mlp, naive_order, normal, quadratic


def functionals(scores, k, reduce):
    """The functionals d: the top-k set stays where every d . g > 0."""
    n = len(scores)
    magnitudes = scores if reduce == "signed" else scores.abs()
    top = naive_order(magnitudes.tolist())[:k]
    found = []
    for i in top:
        for j in (j for j in range(n) if j not in top):
            for sign in (-1.0,) if reduce == "signed" else (-1.0, 1.0):
                d = torch.zeros(n, dtype=torch.float64)
                d[i] = 1.0 if reduce == "signed" else float(scores[i].sign())
                d[j] = sign
                found.append(d)
    return found


def nearest(model, row, k, reduce, free=None):
    """|phi| / ||grad phi|| over all functionals: exact, because the gradient A x + b is linear."""
    A, b = model.A.detach(), model.b.detach()
    g = A @ row + b
    movable = list(range(len(g))) if free is None else free
    return min(float(d @ g / (A @ d)[movable].norm()) for d in functionals(g, k, reduce))


def check_flips(model, x, result, explainer, k):
    """The set really changes at x', judged by hand, and the prediction does not."""
    target = model(x).argmax(1)
    assert torch.equal(model(result.x).argmax(1), target)
    before, after = explainer(model, x, target), explainer(model, result.x, target)
    for r in range(len(x)):
        same = set(naive_order(before[r].tolist())[:k]) == set(naive_order(after[r].tolist())[:k])
        assert same == (float(result.precision[r]) == 1.0)
        assert float(result.distance[r]) == pytest.approx(float((result.x[r] - x[r]).norm()), abs=1e-12)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (8, 3), (20, 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_signed_gradient_of_a_quadratic_score(n, k, seed):
    model, x = quadratic(n, seed=seed, c=500.0), normal(20, n, seed=seed + 100)
    explainer = Gradient(reduce="signed")
    result = MinimalFlip(k=k, radius=10.0, explainer=explainer)(model, x)
    check_flips(model, x, result, explainer, k)
    assert (result.precision < 1).all()
    for r in range(20):
        truth = nearest(model, x[r], k, "signed")
        assert truth <= float(result.distance[r]) <= 1.02 * truth


@pytest.mark.parametrize(("n", "k"), [(5, 2), (8, 3)])
def test_absolute_gradient_of_a_quadratic_score(n, k):
    """Never below the truth of F2; within 2 % of it for all but a few rows, see the next test."""
    close = 0
    for seed in range(2):
        model, x = quadratic(n, seed=seed, c=500.0), normal(50, n, seed=seed + 100)
        result = MinimalFlip(k=k, radius=10.0)(model, x)
        check_flips(model, x, result, Gradient(), k)
        for r in range(50):
            truth = nearest(model, x[r], k, "abs")
            assert truth <= float(result.distance[r])
            close += float(result.distance[r]) <= 1.02 * truth
    assert close >= 98


@pytest.mark.parametrize("curvature", [0.0, 1.5])
@pytest.mark.parametrize("other", [0.3, 0.01])
def test_a_feature_that_enters_with_the_other_sign(other, curvature):
    """F2: |g_1| can overtake g_0 through g_1 < 0 as well, and here only so, because g_0 - g_1 is constant.

    With curvature in the third feature there is another flip, farther away, that must not satisfy the search.
    """
    A = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, curvature]], dtype=torch.float64)
    model = Quadratic(A, torch.tensor([1.0, other, 0.02], dtype=torch.float64), c=50.0)
    x = torch.zeros(1, 3, dtype=torch.float64)
    truth = (1.0 + other) / (2 * math.sqrt(2))
    assert nearest(model, x[0], 1, "abs") == pytest.approx(truth)
    result = MinimalFlip(k=1, radius=2.0)(model, x)
    assert float(result.precision) == 0.0
    assert truth <= float(result.distance) <= 1.02 * truth


@pytest.mark.parametrize("reduce", ["signed", "abs"])
def test_nothing_is_found_below_the_true_distance(reduce):
    model, x = quadratic(6, c=500.0), normal(2, 6, seed=4)
    explainer = Gradient(reduce=reduce)
    for r in range(2):
        truth = nearest(model, x[r], 2, reduce)
        none = MinimalFlip(k=2, radius=0.99 * truth, explainer=explainer)(model, x[r : r + 1])
        assert float(none.precision) == 1.0
        assert float(none.distance) == 0.0
        assert int(none.first_flip) == -1
        assert torch.equal(none.x, x[r : r + 1])
        found = MinimalFlip(k=2, radius=1.02 * truth, explainer=explainer)(model, x[r : r + 1])
        assert float(found.precision) == 0.5
        assert truth <= float(found.distance) <= 1.02 * truth


@pytest.mark.parametrize(
    ("domain", "free"),
    [
        (Domain(frozen=[0, 3]), [1, 2, 4, 5]),
        (Domain(frozen=[1, 2, 4, 5]), [0, 3]),
        (Domain(frozen=[0]), [1, 2, 3, 4, 5]),
    ],
)
def test_frozen_features_give_the_constrained_distance(domain, free):
    model, x = quadratic(6, c=2000.0), normal(12, 6, seed=4)
    explainer = Gradient(reduce="signed")
    result = MinimalFlip(k=2, radius=20.0, explainer=explainer)(model, x, domain=domain)
    fixed = [i for i in range(6) if i not in free]
    assert torch.equal(result.x[:, fixed], x[:, fixed])
    for r in range(12):
        truth = nearest(model, x[r], 2, "signed", free)
        if truth < 19:
            assert truth <= float(result.distance[r]) <= 1.02 * truth
        assert truth >= nearest(model, x[r], 2, "signed")


def nearest_in_a_box(model, row, k, lower, upper):
    """min ||delta|| with d . g(x + delta) <= 0 inside a box: delta = clip(-t A d) with the smallest such t."""
    A, b = model.A.detach(), model.b.detach()
    g, best = A @ row + b, math.inf
    for d in functionals(g, k, "signed"):
        slope = A @ d

        def moved(t, slope=slope):
            return (row - t * slope).clamp(lower, upper) - row

        low, high = 0.0, 1e6
        if float(d @ g + slope @ moved(high)) > 0:
            continue
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if float(d @ g + slope @ moved(middle)) <= 0 else (middle, high)
        best = min(best, float(moved(high).norm()))
    return best


def test_bounds_give_the_constrained_distance():
    """Images: a pixel at its bound moves one way only. What is blocked, the other features make up for."""
    model = quadratic(6, c=500.0)
    x = (
        torch.rand(20, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        .mul(3)
        .sub(1)
        .clamp(0, 1)
    )
    assert ((x == 0) | (x == 1)).any(1).all()
    explainer = Gradient(reduce="signed")
    result = MinimalFlip(k=2, radius=3.0, explainer=explainer)(model, x, domain=Domain(lower=0.0, upper=1.0))
    assert (result.x >= 0).all()
    assert (result.x <= 1).all()
    truths = [nearest_in_a_box(model, row, 2, 0.0, 1.0) for row in x]
    possible = [r for r, truth in enumerate(truths) if truth < 3]
    assert len(possible) > 10
    for r in possible:
        assert float(result.precision[r]) < 1, f"row {r}: a flip {truths[r]:.3f} away is missed"
        assert float(result.distance[r]) >= truths[r] * (1 - 1e-9)
    close = [r for r in possible if float(result.distance[r]) <= 1.02 * truths[r]]
    assert len(close) >= 0.9 * len(possible)


def test_pairs():
    """a^T A b: the first input's gradient A b is linear in b alone, the second's A^T a in a alone."""
    A = normal(5, 5)
    model, x = Pair(A, c=300.0), normal(20, 2, 5, seed=4)
    explainer = Gradient(inputs=2, reduce="signed")
    result = MinimalFlip(k=2, radius=5.0, explainer=explainer)(model, x)
    sides = set()
    for r in range(20):
        gradients = model.gradient(x[r : r + 1]).detach()[0]
        by_side = []
        for g, slope in ((gradients[0], A.T), (gradients[1], A)):
            by_side.append(min(float(d @ g / (slope @ d).norm()) for d in functionals(g, 2, "signed")))
        truth = min(by_side)
        assert truth <= float(result.distance[r]) <= 1.02 * truth
        assert float(result.precision[r]) == 0.75  # one of two features, in one of two inputs
        after = model.gradient(result.x[r : r + 1]).detach()[0]
        flipped = [
            set(naive_order(old.tolist())[:2]) != set(naive_order(new.tolist())[:2])
            for old, new in zip(gradients, after, strict=True)
        ]
        assert flipped == [by_side[0] == truth, by_side[1] == truth]
        sides.add(by_side.index(truth))
    assert sides == {0, 1}


def test_one_neuron_and_gradient_times_input():
    """x_i v sigmoid(z) w_i ranks as |x_i w_i| does: the nearest flip is a line's distance from a point."""
    w = normal(6, seed=7)
    model, x = OneNeuron(w, v=3.0), normal(20, 6, seed=4)
    result = MinimalFlip(k=2, radius=5.0, explainer=GradientTimesInput())(model, x)
    check_flips(model, x, result, GradientTimesInput(), 2)
    for r in range(20):
        values = (x[r] * w).abs()
        ranked = naive_order(values.tolist())
        truth = min(
            float((values[i] - values[j]) / math.hypot(float(w[i]), float(w[j])))
            for i in ranked[:2]
            for j in ranked[2:]
        )
        assert truth <= float(result.distance[r]) <= 1.02 * truth


@pytest.mark.parametrize("activation", [nn.Tanh, nn.Softplus])
def test_two_inputs_against_a_fine_search(activation):
    """Every direction of the plane, every length: 0.5 degrees by 0.5 % of the radius."""
    model, x = mlp(2, hidden=3, activation=activation, seed=12), normal(12, 2, seed=4)
    angle = torch.arange(0, 360, 0.5, dtype=torch.float64).deg2rad()
    direction = torch.stack([angle.cos(), angle.sin()], dim=1)
    lengths = torch.arange(1, 201, dtype=torch.float64) / 200
    result = MinimalFlip(k=1, radius=1.0)(model, x)
    check_flips(model, x, result, Gradient(), 1)
    target = model(x).argmax(1)
    agreed = 0
    for r in range(12):
        points = (x[r] + lengths[:, None, None] * direction).reshape(-1, 2)
        scores = Gradient()(model, points, target[r].expand(len(points)))
        clean = Gradient()(model, x[r : r + 1], target[r : r + 1])
        flips = (scores[:, 0] > scores[:, 1]) != (clean[0, 0] > clean[0, 1])
        flips = (flips & (model(points).argmax(1) == target[r])).reshape(200, -1).any(1)
        if flips.any():
            truth = float(lengths[flips.nonzero()[0, 0]])
            assert float(result.precision[r]) == 0.0
            assert truth - 0.01 <= float(result.distance[r]) <= 1.02 * truth
            agreed += 1
        else:
            assert float(result.precision[r]) == 1.0
    assert agreed > 3


class Switch(nn.Module):
    """Log-odds 20 + c . x + 3 relu(w . x - 1): the gradient jumps from c to c + 3 w at a distance of 1 / ||w||."""

    def __init__(self, gap):
        super().__init__()
        self.register_buffer("c", torch.tensor([1.0, 1.0 - gap, 0.2], dtype=torch.float64))
        self.register_buffer("w", torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
        self.relu = nn.ReLU()

    def forward(self, x):
        value = 20 + x @ self.c + 3 * self.relu(x @ self.w - 1)
        return torch.stack([torch.zeros_like(value), value], dim=-1)


@pytest.mark.parametrize("gap", [0.05, 0.5])
def test_a_relu_that_switches_on(gap):
    """The softplus copy changes its ranking a little before the net does: the net must be followed across."""
    result = MinimalFlip(k=1, radius=3.0)(Switch(gap), torch.zeros(1, 3, dtype=torch.float64))
    assert float(result.precision) == 0.0
    assert 1.0 <= float(result.distance) <= 1.02


def pooled_features():
    """Logit 1 is 3 max(x_0, x_1) + 2 max(x_2, x_3), logit 0 is 0."""
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        model[3].weight.copy_(torch.tensor([[0.0, 0.0], [3.0, 2.0]]))
        model[3].bias.zero_()
    return model


@pytest.mark.parametrize(("k", "apart"), [(1, 0.5), (2, 0.3)])
def test_a_pooling_window_that_passes_on_another_entry(k, apart):
    # gradients are constant up to the hinges: no slope points there
    x = torch.tensor([[1.0, 0.5, 2.0, 1.7]], dtype=torch.float64)
    result = MinimalFlip(k=k, radius=2.0)(pooled_features(), x)
    assert float(result.distance) == pytest.approx(apart / math.sqrt(2), rel=2e-3)
    assert float(result.distance) > apart / math.sqrt(2)


def test_hinges_are_crossed_along_what_can_move():
    x = torch.tensor([[1.0, 0.5, 2.0, 1.7]], dtype=torch.float64)
    result = MinimalFlip(k=1, radius=2.0)(pooled_features(), x, domain=Domain(frozen=[1]))
    # alone, feature 0 has to fall by all of what it is ahead
    assert float(result.distance) == pytest.approx(0.5, rel=2e-3)
    none = MinimalFlip(k=1, radius=2.0)(pooled_features(), x, domain=Domain(frozen=[0, 1]))
    assert float(none.precision) == 1.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("margin", [5.0, 50.0])
def test_a_sure_model_is_no_more_stable(margin, dtype):
    """F1: probability and log-odds rank alike. Their gradients differ by p (1 - p), 2e-22 at a margin of 50."""
    model, x = quadratic(5, c=margin).to(dtype), 0.5 * normal(12, 5, seed=4).to(dtype)
    by_odds = MinimalFlip(k=2, radius=0.5)(model, x)
    by_probability = MinimalFlip(k=2, radius=0.5, explainer=Gradient(score="probability"))(model, x)
    assert (by_odds.precision < 1).sum() > 5
    assert torch.equal(by_probability.precision < 1, by_odds.precision < 1)
    torch.testing.assert_close(by_probability.distance, by_odds.distance, rtol=0.02, atol=1e-4)


def test_flip_below_one():
    """With flip_below=0.6 and k = 4 two features must go; that is never nearer than one."""
    model, x = mlp(12, hidden=16, activation=nn.Tanh, seed=3), normal(30, 12, seed=4)
    any_flip = MinimalFlip(k=4, radius=2.0)(model, x)
    two = MinimalFlip(k=4, radius=2.0, flip_below=0.6)(model, x)
    found = two.precision < 1
    assert found.sum() > 5
    assert (two.precision[found] < 0.6).all()
    assert torch.equal(two.x[~found], x[~found])
    assert torch.equal(two.first_flip > 0, found)
    both = found & (any_flip.precision < 1)
    assert (any_flip.precision[both] == 0.75).any()
    assert (two.distance[both] >= any_flip.distance[both] - 1e-9).double().mean() > 0.9


def shortened(model, x, result, k):
    """The flips of another attack, pulled towards x while they remain flips that keep the prediction."""
    explainer, target = Gradient(), model(x).argmax(1)
    low, high = torch.zeros(len(x), dtype=x.dtype), torch.ones(len(x), dtype=x.dtype)
    top = [set(naive_order(row)[:k]) for row in explainer(model, x, target).tolist()]
    for _ in range(20):
        middle = (low + high) / 2
        points = x + middle[:, None] * (result.x - x)
        after = explainer(model, points, target).tolist()
        flips = torch.tensor([set(naive_order(row)[:k]) != old for row, old in zip(after, top, strict=True)])
        flips = flips & (model(points).argmax(1) == target)
        low, high = torch.where(flips, low, middle), torch.where(flips, middle, high)
    return torch.where(result.precision < 1, high * result.distance, torch.inf)


@pytest.mark.parametrize(
    "activation",
    [nn.Tanh, nn.ReLU, *(pytest.param(more, marks=pytest.mark.slow) for more in (nn.Softplus, nn.GELU))],
    ids=lambda a: a.__name__,
)
def test_not_farther_than_flips_of_other_attacks(activation):
    """In the median over rows where another attack flips. Its flips are shortened first; a miss is infinite."""
    ratios = []
    for seed in range(2):
        model = mlp(8, 2 + seed % 2, hidden=12, seed=seed, activation=activation)
        x = normal(20, 8, seed=seed + 50)
        mine = MinimalFlip(k=3, radius=1.0)(model, x)
        distance = torch.where(mine.precision < 1, mine.distance, torch.inf)
        for attack in (ERAttack(k=3, radius=1.0, steps=30), BoundaryAttack(k=3, radius=1.0, steps=30)):
            other = shortened(model, x, attack(model, x), 3)
            ratios += (distance / other)[other.isfinite()].tolist()
    assert len(ratios) > 50
    ratio = torch.tensor(ratios)
    assert float(ratio.median()) <= 1.05
    missed = int(ratio.isinf().sum())
    assert missed <= 0.1 * len(ratios), (
        f"no flip found in {missed} of {len(ratios)} rows where another attack has one"
    )


@pytest.mark.parametrize("kind", ["softplus", pytest.param("relu", marks=pytest.mark.slow)])
def test_a_larger_radius_does_not_report_a_farther_flip(kind):
    """`distance` is the norm of the smallest flip found: what a smaller radius found counts for a larger one."""
    model, x = trained(kind)
    results = MinimalFlip(k=8, radius=1.0)(model, x, radii=[0.2, 0.4, 0.8])
    compared = 0
    for i, small in enumerate(results):
        for large in results[i + 1 :]:
            flipped = small.precision < 1
            assert (large.precision[flipped] < 1).all()
            same = flipped & (small.precision == large.precision)
            compared += int(same.sum())
            assert (large.distance[same] <= small.distance[same] * 1.001).all()
    assert compared > 20


def test_the_result_is_on_the_edge():
    """After the bisection a slightly shorter perturbation is none."""
    model, x = mlp(8, activation=nn.Tanh, seed=1), normal(20, 8, seed=4)
    result = MinimalFlip(k=3, radius=1.0)(model, x)
    found = result.precision < 1
    assert found.sum() > 10
    shorter = x + 0.998 * (result.x - x)
    target = model(x).argmax(1)
    before, after = Gradient()(model, x, target), Gradient()(model, shorter, target)
    same = [
        set(naive_order(a)[:3]) == set(naive_order(b)[:3])
        for a, b in zip(before.tolist(), after.tolist(), strict=True)
    ]
    assert torch.tensor(same)[found].double().mean() > 0.9


def test_the_prediction_is_kept_where_the_nearest_flip_changes_it():
    """The same gradients with and without a prediction to lose: some flips get farther, none nearer."""
    model, x = quadratic(6, c=0.0), 0.3 * normal(60, 6, seed=4)
    x = x[model(x).argmax(1) == 1]
    result = MinimalFlip(k=2, radius=1.0)(model, x)
    check_flips(model, x, result, Gradient(), 2)
    free = MinimalFlip(k=2, radius=1.0)(quadratic(6, c=500.0), x)
    assert (model(free.x).argmax(1) != 1).any()  # the nearest flip would have changed the prediction
    found = result.precision < 1
    assert (result.distance[found] >= free.distance[found] * (1 - 1e-3)).all()
    assert (result.distance[found] > 1.02 * free.distance[found]).any()


def test_few_features():
    """k = 1 of n = 2: one pair, followed as often as asked for."""
    A = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    model = Quadratic(A, torch.tensor([2.0, 1.0], dtype=torch.float64), c=50.0)
    result = MinimalFlip(k=1, radius=3.0, pairs=5, width=4)(model, torch.zeros(1, 2, dtype=torch.float64))
    # 2 + x_0 meets 1 - x_1: the gap 1 closes at a rate of sqrt(2)
    assert 1 / math.sqrt(2) <= float(result.distance) <= 1.02 / math.sqrt(2)
    torch.testing.assert_close(result.x[0], torch.tensor([-0.5, -0.5], dtype=torch.float64), atol=0.01, rtol=0)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("inputs", [1, 2])
def test_history_and_progress_never_exceed_the_iterations(activation, inputs):
    if inputs == 2:
        model, x = Siamese(6, activation=activation), normal(3, 2, 6, seed=4)
    else:
        model, x = mlp(activation=activation), normal(3, 6, seed=4)
    attack = MinimalFlip(
        k=2, radius=0.5, steps=4, pairs=2, halvings=3, history=True, explainer=Gradient(inputs=inputs)
    )
    ticks: list[int] = []
    result = attack.attack(Task.prepare(attack, model, x), ticks.append)
    assert 0 < sum(ticks) <= attack.iterations()
    assert 4 * 2 + 3 + 1 <= len(result.history) <= attack.iterations() + 1
    assert (result.first_flip <= attack.iterations()).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm": "linf"}, "norm='linf'"),
        ({"keep": "last"}, "keep='last'"),
        ({"pairs": 0}, "pairs=0"),
        ({"width": 0}, "width=0"),
        ({"halvings": 0}, "halvings=0"),
        ({"steps": 0}, "steps=0"),
        ({"beta": -1.0}, r"beta=-1\.0"),
        ({"beta": 0.0}, r"beta=0\.0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        MinimalFlip(**({"k": 2, "radius": 1.0} | settings))
