"""Thickness against explicit loops over pairs, samples and steps; its bounds on scores with closed forms."""

import itertools
import math

import pytest
import torch
from scipy import stats
from torch import nn

import r2et
from r2et import thickness, thickness_bounds
from r2et.domain import without_gauge
from r2et.explainers import Activation, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from r2et.stability import AdversarialNeighbours, GaussianNeighbours, UniformNeighbours, pairwise_thickness
from tests.domain.test_reach import DOMAIN, GROUPS, table_rows
from tests.models_with_answers import (
    OneNeuron,
    Pair,
    Quadratic,
    Siamese,
    generator,
    linear,
    mlp,
    naive_gradient,
    naive_order,
    normal,
    quadratic,
)

VARIANTS = ["probability", "gap", "average-precision", "dcg"]
EXPLAINED_SCORE = dict.fromkeys(VARIANTS, "probability") | {"probability": "log-odds"}


def pair_table(variant, ranked, k):
    """{(i, j): weight} of a variant, from the definitions of Sec. 4.1 with ranks counted from 1."""
    n = len(ranked)

    def top(size):
        return itertools.product(range(1, size + 1), range(size + 1, n + 1))

    table = {}
    if variant == "average-precision":
        for size in range(1, k + 1):
            for i, j in top(size):
                table[i, j] = table.get((i, j), 0.0) + 1 / (k * size * (n - size))
    elif variant == "dcg":
        table = {(i, j): 1 / math.log(j - i + 1) for i, j in top(k)}
    else:
        table = dict.fromkeys(top(k), 1 / (k * (n - k)))
    return {(ranked[i - 1], ranked[j - 1]): weight for (i, j), weight in table.items()}


def loop_thickness(model, x, k, variant, drawn, steps, aggregate="mean", explain=None):
    """Eq. 2 and 3 and their variants for one-input models: loops over rows, neighbours, steps and pairs."""
    explain = explain or (lambda row, c: naive_gradient(model, row, c, EXPLAINED_SCORE[variant]).abs())
    result = []
    for r in range(len(x)):
        c = int(model(x[r : r + 1]).argmax(1))
        pairs = pair_table(variant, naive_order(explain(x[r], c).tolist()), k)
        over_neighbours = []
        for m in range(len(drawn)):
            over_steps = []
            for step in range(steps):
                t = (step + 0.5) / steps
                scores = explain((1 - t) * x[r] + t * drawn[m, r], c).tolist()
                gaps = {(i, j): scores[i] - scores[j] for i, j in pairs}
                if variant == "probability":
                    gaps = {pair: float(gap >= 0) for pair, gap in gaps.items()}
                over_steps.append(sum(weight * gaps[pair] for pair, weight in pairs.items()))
            over_neighbours.append(sum(over_steps) / steps)
        result.append(min(over_neighbours) if aggregate == "minimum" else sum(over_neighbours) / len(drawn))
    return torch.tensor(result, dtype=torch.float64)


# the four variants


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("aggregate", ["mean", "minimum"])
@pytest.mark.parametrize("kind", [GaussianNeighbours, UniformNeighbours])
def test_variants_against_loops(variant, aggregate, kind):
    model, x, k = mlp(classes=3), normal(4, 6, seed=1), 2
    neighbours = kind(0.8, aggregate=aggregate)
    drawn = neighbours.draw(model, x, 3, generator(5))
    expected = loop_thickness(model, x, k, variant, drawn, 4, aggregate)
    found = thickness(
        model, x, k, variant=variant, neighbours=neighbours, samples=3, steps=4, generator=generator(5)
    )
    assert found.shape == (4,)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert float(expected.max() - expected.min()) > 1e-3  # the rows differ: something was measured


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_size_of_the_salient_set(variant):
    model, x = mlp(n=5), normal(3, 5, seed=1)
    neighbours = GaussianNeighbours(0.7)
    drawn = neighbours.draw(model, x, 2, generator(1))
    for k in range(1, 5):
        expected = loop_thickness(model, x, k, variant, drawn, 3)
        found = thickness(
            model, x, k, variant=variant, neighbours=neighbours, samples=2, steps=3, generator=generator(1)
        )
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_explainer_of_ones_own(variant):
    model, x = mlp(), normal(3, 6, seed=1)
    explainer = GradientTimesInput(reduce="signed", score="logit")
    neighbours = GaussianNeighbours(0.6)
    drawn = neighbours.draw(model, x, 3, generator(2))

    def explain(row, c):
        return naive_gradient(model, row, c, "logit") * row

    expected = loop_thickness(model, x, 2, variant, drawn, 3, explain=explain)
    found = thickness(
        model,
        x,
        2,
        explainer=explainer,
        variant=variant,
        neighbours=neighbours,
        samples=3,
        steps=3,
        generator=generator(2),
    )
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("aggregate", ["mean", "minimum"])
def test_two_inputs_are_averaged(variant, aggregate):
    model, x, k, steps = Siamese(), normal(3, 2, 5, seed=1), 2, 3
    neighbours = GaussianNeighbours(0.5, aggregate=aggregate)
    drawn = neighbours.draw(model, x, 4, generator(3))
    score = EXPLAINED_SCORE[variant]
    found = thickness(
        model,
        x,
        k,
        explainer=Gradient(inputs=2, score=score),
        variant=variant,
        neighbours=neighbours,
        samples=4,
        steps=steps,
        generator=generator(3),
    )
    assert found.shape == (3,)
    for r in range(3):
        c = int(model(x[r : r + 1]).argmax(1))
        sides = []
        for side in range(2):
            clean = naive_gradient(model, x[r], c, score)[side].abs()
            pairs = pair_table(variant, naive_order(clean.tolist()), k)
            values = []
            for m, step in itertools.product(range(4), range(steps)):
                t = (step + 0.5) / steps
                moved = naive_gradient(model, (1 - t) * x[r] + t * drawn[m, r], c, score)[side].abs()
                gaps = {(i, j): float(moved[i] - moved[j]) for i, j in pairs}
                if variant == "probability":
                    gaps = {pair: float(gap >= 0) for pair, gap in gaps.items()}
                values.append(sum(weight * gaps[pair] for pair, weight in pairs.items()))
            paths = [sum(values[m * steps : (m + 1) * steps]) / steps for m in range(4)]
            sides.append(min(paths) if aggregate == "minimum" else sum(paths) / 4)
        assert float(found[r]) == pytest.approx(sum(sides) / 2, abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("chunk_size", [1, 3, 5, 1000])
def test_chunk_size_changes_nothing(variant, chunk_size):
    model, x = mlp(), normal(3, 6)

    def measure(chunk_size):
        return thickness(
            model, x, 2, variant=variant, samples=4, steps=3, generator=generator(1), chunk_size=chunk_size
        )

    torch.testing.assert_close(measure(chunk_size), measure(None), atol=1e-14, rtol=0)


def test_the_default_is_the_probability_variant_with_gaussian_neighbours():
    model, x = mlp(), normal(3, 6)
    drawn = GaussianNeighbours(0.1).draw(model, x, 16, generator(1))
    expected = loop_thickness(model, x, 2, "probability", drawn, 8)
    torch.testing.assert_close(thickness(model, x, 2, generator=generator(1)), expected, atol=1e-12, rtol=0)


def test_a_two_class_linear_model_is_perfectly_stable():
    x = normal(5, 6)
    neighbours = GaussianNeighbours(10.0)
    assert torch.equal(thickness(linear(), x, 3, neighbours=neighbours), torch.ones(5, dtype=torch.float64))


def test_a_linear_model_with_more_classes_is_not():
    x = normal(20, 6)
    found = thickness(linear(classes=6), x, 3, neighbours=GaussianNeighbours(1.0), generator=generator())
    assert float(found.min()) < 0.95


def test_gap_thickness_of_a_quadratic_is_exact_by_the_midpoint_rule():
    """The signed gap is linear along a path, so one midpoint gives its integral."""
    model, x = quadratic(), normal(3, 5)
    neighbours = GaussianNeighbours(0.5)
    drawn = neighbours.draw(model, x, 4, generator(2))
    half = (x + drawn) / 2
    at = (half @ model.A + model.b).detach()
    clean = (x @ model.A + model.b).detach()
    top = clean.topk(2, dim=1).indices
    rest = clean.topk(3, dim=1, largest=False).indices
    expected = torch.stack([at.mean(0)[r, top[r]].mean() - at.mean(0)[r, rest[r]].mean() for r in range(3)])
    for steps in (1, 7):
        found = thickness(
            model,
            x,
            2,
            explainer=Gradient(reduce="signed"),
            variant="gap",
            neighbours=neighbours,
            samples=4,
            steps=steps,
            generator=generator(2),
        )
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_pairwise_thickness_against_loops():
    model, x, steps = mlp(classes=3), normal(3, 6), 4
    neighbours = UniformNeighbours(0.7)
    drawn = neighbours.draw(model, x, 5, generator(2))
    found = pairwise_thickness(
        model, x, 4, 1, neighbours=neighbours, samples=5, steps=steps, generator=generator(2)
    )
    for r in range(3):
        c = int(model(x[r : r + 1]).argmax(1))
        values = []
        for m, step in itertools.product(range(5), range(steps)):
            t = (step + 0.5) / steps
            g = naive_gradient(model, (1 - t) * x[r] + t * drawn[m, r], c, "probability").abs()
            values.append(float(g[4] - g[1]))
        assert float(found[r]) == pytest.approx(sum(values) / len(values), abs=1e-13)


def test_top_k_thickness_is_the_mean_of_pairwise_ones():
    """Eq. 3 from Eq. 2."""
    model, x, k = mlp(), normal(1, 6), 2
    explainer = Gradient(score="probability")
    ranked = naive_order(explainer(model, x)[0].tolist())
    settings = {"explainer": explainer, "neighbours": GaussianNeighbours(0.5), "samples": 3, "steps": 3}
    pairs = [
        float(pairwise_thickness(model, x, i, j, generator=generator(4), **settings))
        for i, j in itertools.product(ranked[:k], ranked[k:])
    ]
    found = thickness(model, x, k, variant="gap", generator=generator(4), **settings)
    assert float(found) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


@pytest.mark.parametrize(
    "explainer",
    [
        SmoothGrad(samples=3),
        IntegratedGradients(points=4),
        GradientTimesInput(),
        Activation(layer="1"),
        Gradient(score="logit"),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_any_explainer(explainer, variant):
    model, x = mlp(), normal(3, 6)
    neighbours = GaussianNeighbours(0.5)
    drawn = neighbours.draw(model, x, 2, generator(3))

    def explain(row, c):
        return explainer(model, row[None], torch.tensor([c]))[0]

    expected = loop_thickness(model, x, 2, variant, drawn, 2, explain=explain)
    found = thickness(
        model,
        x,
        2,
        explainer=explainer,
        variant=variant,
        neighbours=neighbours,
        samples=2,
        steps=2,
        generator=generator(3),
    )
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_thickness_leaves_no_trace():
    model, x = mlp(), normal(3, 6)
    with torch.no_grad():
        inside = thickness(model, x, 2, generator=generator(1))
    assert torch.equal(inside, thickness(model, x, 2, generator=generator(1)))
    assert not inside.requires_grad
    assert all(p.grad is None for p in model.parameters())


# neighbours


def test_gaussian_neighbours():
    x = normal(3, 4)
    z = GaussianNeighbours(0.25).draw(nn.Identity(), x, 5000, generator()) - x
    assert z.shape == (5000, 3, 4)
    assert stats.kstest((z / 0.25).flatten().numpy(), "norm").pvalue > 0.01


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 5)])
def test_uniform_neighbours_fill_the_ball_evenly(shape):
    """The radius to the power of the dimension is uniform, and so is the direction's first coordinate's sign."""
    x, radius = normal(*shape), 0.7
    step = (UniformNeighbours(radius).draw(nn.Identity(), x, 3000, generator()) - x).flatten(2)
    dimension = step.shape[-1]
    length = step.norm(dim=-1)
    assert float(length.max()) <= radius * (1 + 1e-12)
    assert stats.kstest(((length / radius) ** dimension).flatten().numpy(), "uniform").pvalue > 0.01
    unit = step / length[..., None]
    assert float(unit.mean((0, 1)).abs().max()) < 5 / (9000 * dimension) ** 0.5
    # E[u u^T] = 1/d on the sphere
    second = torch.einsum("mni,mnj->ij", unit, unit) / 9000
    torch.testing.assert_close(second, torch.eye(dimension).double() / dimension, atol=0.02, rtol=0)


def test_adversarial_neighbours_are_the_results_of_attacks():
    model, x = mlp(), normal(4, 6)
    attacks = (
        r2et.attacks.ERAttack(k=2, radius=0.5, steps=6),
        r2et.attacks.MSEAttack(k=2, radius=0.7, steps=6),
    )
    drawn = AdversarialNeighbours(attacks).draw(model, x, 16, None)
    torch.testing.assert_close(drawn, torch.stack([attack(model, x).x for attack in attacks]))
    for aggregate in ("mean", "minimum"):
        expected = loop_thickness(model, x, 2, "gap", drawn, 3, aggregate)
        found = thickness(
            model, x, 2, variant="gap", neighbours=AdversarialNeighbours(attacks, aggregate), samples=9, steps=3
        )
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    one = AdversarialNeighbours(attacks[0])
    torch.testing.assert_close(one.draw(model, x, 16, None), attacks[0](model, x).x[None])


def test_neighbours_found_by_an_attack_are_thinner_than_random_ones():
    """Fig. 2: the thickness towards an adversary is smaller than towards noise of the same length."""
    model, x = mlp(activation=nn.Tanh), normal(20, 6)
    attack = r2et.attacks.ERAttack(k=2, radius=1.0, steps=40)
    hunted = thickness(model, x, 2, neighbours=AdversarialNeighbours(attack))
    random = thickness(model, x, 2, neighbours=UniformNeighbours(1.0), generator=generator())
    assert float(hunted.mean()) < float(random.mean())


# bounds (Prop. 4.4)


def closed_form_bounds(values, slopes, k, radius):
    """Mean over the top-k pairs of h - eps/2 ||H_i - H_j|| and of h + eps (||H_i|| + ||H_j||), slopes constant."""
    ranked = naive_order(values.tolist())
    lower, upper = [], []
    for i, j in itertools.product(ranked[:k], ranked[k:]):
        h = float(values[i] - values[j])
        lower.append(h - radius / 2 * float((slopes[i] - slopes[j]).norm()))
        upper.append(h + radius * float(slopes[i].norm() + slopes[j].norm()))
    return sum(lower) / len(lower), sum(upper) / len(upper)


@pytest.mark.parametrize("reduce", ["signed", "abs"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_bounds_of_a_quadratic(reduce, k):
    """H is A everywhere (times the signs of the gradient where magnitudes are ranked)."""
    model, x, radius = quadratic(), normal(4, 5, seed=2), 0.05
    g, A = (x @ model.A + model.b).detach(), model.A.detach()
    assert float(g.abs().min()) > radius * float(A.norm(dim=1).max())  # no sign changes within the ball
    bounds = thickness_bounds(model, x, k, radius, explainer=Gradient(reduce=reduce), generator=generator())
    lower, upper = bounds
    for r in range(4):
        values, slopes = (g[r], A) if reduce == "signed" else (g[r].abs(), g[r].sign()[:, None] * A)
        expected = closed_form_bounds(values, slopes, k, radius)
        assert (float(lower[r]), float(upper[r])) == pytest.approx(expected, abs=1e-12)
    assert not bounds.sound
    assert "estimate" in bounds.note


class One(r2et.stability.Neighbours):
    """A single neighbour, at a given offset."""

    def __init__(self, offset):
        self.offset = offset

    def each(self, model, x, samples, generator):
        return iter([x + self.offset])


@pytest.mark.parametrize(
    "explainer",
    [
        Gradient(),
        Gradient(reduce="signed"),
        Gradient(score="logit"),
        GradientTimesInput(),
        SmoothGrad(samples=3, sigma=0.2, score="log-odds"),
    ],
    ids=["abs", "signed", "logit", "times-input", "smoothgrad"],
)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("radius", [0.05, 0.5])
def test_proven_bounds_hold_for_every_neighbour(explainer, classes, radius):
    torch.manual_seed(classes)
    layers = [nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 5), nn.Softplus(), nn.Linear(5, classes)]
    model, x, k = nn.Sequential(*layers).double(), normal(3, 6, seed=5), 2
    bounds = thickness_bounds(model, x, k, radius, explainer=explainer)
    assert bounds.sound
    assert "proven" in bounds.note
    for seed in range(40):
        offset = radius * nn.functional.normalize(normal(3, 6, seed=100 + seed), dim=1)
        found = thickness(
            model, x, k, explainer=explainer, variant="gap", neighbours=One(offset), samples=1, steps=50
        )
        assert (found >= bounds.lower - 1e-9).all()
        assert (found <= bounds.upper + 1e-9).all()


def test_proven_bounds_of_one_neuron_are_tight():
    """The worst neighbour lies along its weights, and the enclosure knows that."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1), nn.Softplus(), nn.Linear(1, 2)).double()
    x, radius = normal(1, 4, seed=1), 0.3
    bounds = thickness_bounds(model, x, 1, radius, explainer=Gradient())
    along = radius * nn.functional.normalize(model[0].weight.detach(), dim=1)
    ends = [
        thickness(
            model, x, 1, explainer=Gradient(), variant="gap", neighbours=One(s * along), samples=1, steps=400
        )
        for s in (1, -1)
    ]
    assert float(bounds.lower) == pytest.approx(float(min(ends)), rel=0.01)
    assert float(bounds.lower) <= float(min(ends))


def test_estimates_where_nothing_can_be_proven():
    model, x = mlp(), normal(2, 6)
    assert not thickness_bounds(model, x, 2, 0.1).sound  # the gradient of the probability
    relu = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    assert not thickness_bounds(relu, x, 2, 0.1, explainer=Gradient()).sound
    assert not thickness_bounds(model, x, 2, 0.1, explainer=Gradient(), method="estimate").sound
    with pytest.raises(r2et.errors.InputError, match="kinks"):
        thickness_bounds(relu, x, 2, 0.1, explainer=Gradient(), method="enclosure")
    with pytest.raises(r2et.errors.InputError, match="probability"):
        thickness_bounds(model, x, 2, 0.1, method="enclosure")


@pytest.mark.parametrize("reduce", ["signed", "abs"])
def test_true_thickness_of_a_quadratic_lies_within_the_bounds(reduce):
    model, x, k, radius = quadratic(), normal(4, 5, seed=2), 2, 0.05
    explainer = Gradient(reduce=reduce)
    lower, upper = thickness_bounds(model, x, k, radius, explainer=explainer)
    true = thickness(
        model,
        x,
        k,
        explainer=explainer,
        variant="gap",
        neighbours=UniformNeighbours(radius),
        samples=400,
        steps=3,
        generator=generator(),
    )
    assert (lower < true).all()
    assert (true < upper).all()


def test_the_lower_bound_is_attained():
    """One pair, and the neighbour that the proof names: -eps (H_i - H_j) / ||H_i - H_j||."""
    A = normal(2, 2)
    model, x, radius = Quadratic(A + A.T, normal(2, seed=1), c=20.0), normal(1, 2, seed=2), 0.3
    explainer = Gradient(reduce="signed")
    i, j = naive_order(explainer(model, x)[0].tolist())
    difference = (model.A[i] - model.A[j]).detach()
    worst = x - radius * difference / difference.norm()

    class Worst(r2et.stability.Neighbours):
        def each(self, model, x, samples, generator):
            return iter([worst])

    lower, upper = thickness_bounds(model, x, 1, radius, explainer=explainer)
    found = thickness(model, x, 1, explainer=explainer, variant="gap", neighbours=Worst(), steps=1)
    torch.testing.assert_close(found, lower, atol=1e-12, rtol=0)
    assert float(found) < float(upper)


def test_bounds_of_gradient_times_input():
    """The Jacobian of g * x is diag(g) + diag(x) A (the paper drops diag(x)); L_i is a maximum over the ball."""
    model, x, radius = quadratic(), normal(3, 5, seed=2), 0.1
    explainer = GradientTimesInput(reduce="signed")
    samples = 300
    lower, upper = thickness_bounds(
        model, x, 2, radius, explainer=explainer, samples=samples, generator=generator(1)
    )
    A, b = model.A.detach(), model.b.detach()

    def slopes(point):
        return torch.diag(point @ A + b) + point[:, None] * A

    drawn = UniformNeighbours(radius).draw(model, x, samples, generator(1))
    for r in range(3):
        values = (x[r] @ A + b) * x[r]
        ranked = naive_order(values.tolist())
        at_x = slopes(x[r])
        points = [x[r], *drawn[:, r]]
        steepest = torch.stack([slopes(point).norm(dim=1) for point in points]).amax(0)
        low, high = [], []
        for i, j in itertools.product(ranked[:2], ranked[2:]):
            h = float(values[i] - values[j])
            low.append(h - radius / 2 * float((at_x[i] - at_x[j]).norm()))
            high.append(h + radius * float(steepest[i] + steepest[j]))
        assert float(lower[r]) == pytest.approx(sum(low) / 6, abs=1e-12)
        assert float(upper[r]) == pytest.approx(sum(high) / 6, abs=1e-12)


def test_bounds_of_smoothgrad_on_a_quadratic():
    """I(x) = A (x + mean noise) + b, so its derivative is A: the last line of A.1.2's SG derivation."""
    model, x, radius = quadratic(), normal(3, 5, seed=2), 0.05
    explainer = SmoothGrad(samples=4, sigma=0.2, score="log-odds", reduce="signed")
    lower, upper = thickness_bounds(model, x, 2, radius, explainer=explainer)
    noise = explainer.noise(x.shape[1:]).double().mean(0)
    A, b = model.A.detach(), model.b.detach()
    for r in range(3):
        expected = closed_form_bounds((x[r] + noise) @ A + b, A, 2, radius)
        assert (float(lower[r]), float(upper[r])) == pytest.approx(expected, abs=1e-6)


def test_bounds_of_integrated_gradients_on_a_quadratic():
    """I(x) = x * (A x / 2 + b), so its derivative is diag(A x / 2 + b) + diag(x) A / 2."""
    model, x, radius, samples = quadratic(), normal(3, 5, seed=2), 0.1, 20
    explainer = IntegratedGradients(points=3, score="log-odds", reduce="signed")
    lower, upper = thickness_bounds(
        model, x, 2, radius, explainer=explainer, samples=samples, generator=generator(1)
    )
    A, b = model.A.detach(), model.b.detach()

    def slopes(point):
        return torch.diag(point @ A / 2 + b) + point[:, None] * A / 2

    drawn = UniformNeighbours(radius).draw(model, x, samples, generator(1))
    for r in range(3):
        values = x[r] * (x[r] @ A / 2 + b)
        ranked = naive_order(values.tolist())
        at_x = slopes(x[r])
        steepest = torch.stack([slopes(point).norm(dim=1) for point in [x[r], *drawn[:, r]]]).amax(0)
        low, high = [], []
        for i, j in itertools.product(ranked[:2], ranked[2:]):
            h = float(values[i] - values[j])
            low.append(h - radius / 2 * float((at_x[i] - at_x[j]).norm()))
            high.append(h + radius * float(steepest[i] + steepest[j]))
        assert float(lower[r]) == pytest.approx(sum(low) / 6, abs=1e-11)
        assert float(upper[r]) == pytest.approx(sum(high) / 6, abs=1e-11)


def test_bounds_of_one_neuron_take_the_maximum_over_the_ball():
    """||H_i(z)|| = v s(z)(1 - s(z)) |w_i| ||w||, and z varies by eps ||w|| in the ball."""
    w = normal(4)
    model, x, radius, samples = OneNeuron(w), normal(2, 4, seed=3), 0.5, 400
    with torch.no_grad():
        x = x - (x @ w + model.b - 1.0)[:, None] * w / (w @ w)  # z = 1: class 1 is predicted, off the maximum
    explainer = Gradient(reduce="signed")
    lower, upper = thickness_bounds(
        model, x, 2, radius, explainer=explainer, samples=samples, generator=generator(1)
    )
    drawn = UniformNeighbours(radius).draw(model, x, samples, generator(1))
    for r in range(2):
        g, H = model.gradient(x)[r].detach(), model.hessian(x)[r].detach()
        z = torch.cat([x[r][None], drawn[:, r]]) @ w + model.b
        bend = (torch.sigmoid(z) * (1 - torch.sigmoid(z))).max()
        steepest = model.v * bend * w.abs() * w.norm()
        ranked = naive_order(g.tolist())
        low, high = [], []
        for i, j in itertools.product(ranked[:2], ranked[2:]):
            low.append(float(g[i] - g[j] - radius / 2 * (H[i] - H[j]).norm()))
            high.append(float(g[i] - g[j] + radius * (steepest[i] + steepest[j])))
        assert float(lower[r]) == pytest.approx(sum(low) / 4, abs=1e-12)
        assert float(upper[r]) == pytest.approx(sum(high) / 4, abs=1e-12)


def test_bounds_of_a_pair_are_averaged_over_its_inputs():
    model, x, radius = Pair(normal(4, 4), c=50.0), normal(2, 2, 4, seed=3), 0.05
    lower, upper = thickness_bounds(model, x, 2, radius, explainer=Gradient(inputs=2, reduce="signed"))
    A = model.A.detach()
    g = model.gradient(x).detach()
    for r in range(2):
        # the first input's gradient A b moves with b only, the second's A^T a with a only
        sides = [closed_form_bounds(g[r, 0], A, 2, radius), closed_form_bounds(g[r, 1], A.T, 2, radius)]
        assert float(lower[r]) == pytest.approx((sides[0][0] + sides[1][0]) / 2, abs=1e-12)
        assert float(upper[r]) == pytest.approx((sides[0][1] + sides[1][1]) / 2, abs=1e-12)


def test_bounds_default_to_the_gradient_of_the_probability():
    model, x = mlp(), normal(3, 6)
    default = thickness_bounds(model, x, 2, 0.1, generator=generator(1))
    named = thickness_bounds(model, x, 2, 0.1, explainer=Gradient(score="probability"), generator=generator(1))
    assert torch.equal(default.lower, named.lower)
    assert torch.equal(default.upper, named.upper)


# Prop. 4.6 and 4.7, numerically on a quadratic score


def proposition_example(seed):
    model = quadratic(seed=seed)
    A, b = model.A.detach(), model.b.detach()
    x, k, n = normal(5, seed=seed + 2), 2, 5
    values = Gradient(reduce="signed")(model, x[None])[0]
    torch.testing.assert_close(values, x @ A + b)
    ranked = naive_order(values.tolist())
    labels = torch.tensor([n - k if i in ranked[:k] else -k for i in range(n)], dtype=torch.float64)
    return A, b, x, values, labels


def search_minimum(A, b, x, labels, radius, seed):
    """min over M+ of sum l_i I_i(x + a_i d_i): random weights on the simplex and directions on the sphere, plus
    the best direction for each feature alone (M-)."""
    values = x @ A + b
    weights = torch.distributions.Dirichlet(torch.full((5,), 0.3, dtype=torch.float64))
    torch.manual_seed(seed)
    best = float("inf")
    for _ in range(300):
        alpha = weights.sample()
        directions = torch.nn.functional.normalize(torch.randn(5, 5, dtype=torch.float64), dim=1)
        moved = torch.stack([(x + alpha[i] * radius * directions[i]) @ A[:, i] + b[i] for i in range(5)])
        best = min(best, float((labels * moved).sum()))
    for t in range(5):
        delta = -radius * labels[t].sign() * A[t] / A[t].norm()
        moved = values.clone()
        moved[t] = (x + delta) @ A[:, t] + b[t]
        best = min(best, float((labels * moved).sum()))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_proposition_4_6_needs_the_magnitude_of_the_weights(seed):
    """min over M of sum l_i I_i(x + delta_i) = sum l_i I_i(x) - eps max_t |l_t| ||H_t||: exact, I is linear."""
    A, b, x, values, labels = proposition_example(seed)
    radius = 0.4
    formula = float((labels * values).sum() - radius * (labels.abs() * A.norm(dim=1)).max())
    assert search_minimum(A, b, x, labels, radius, seed) == pytest.approx(formula, abs=1e-10)


def test_proposition_4_6_fails_as_printed():
    """Without |l_t| the formula misses perturbations of non-salient features: a counterexample."""
    A, b, x, values, labels = proposition_example(0)
    # make a non-salient feature the one that moves fastest
    other = int((labels < 0).nonzero()[0])
    A = A.clone()
    A[other, other] += 40
    b = values - x @ A  # the same explanation at x
    radius = 0.4
    printed = float((labels * values).sum() - radius * (labels * A.norm(dim=1)).max())
    corrected = float((labels * values).sum() - radius * (labels.abs() * A.norm(dim=1)).max())
    found = search_minimum(A, b, x, labels, radius, 0)
    assert found == pytest.approx(corrected, abs=1e-10)
    assert found < printed - 1


@pytest.mark.parametrize("seed", range(6))
def test_proposition_4_7(seed):
    """min over ||d|| <= eps of l_i I_i(x + d) = l_i I_i(x) - eps |l_i| ||H_i||: the margin R2ET keeps."""
    A, b, x, values, labels = proposition_example(seed)
    model, radius = Quadratic(A, b, 30.0), 0.4
    drawn = UniformNeighbours(radius).draw(model, x[None], 4000, generator(seed))[:, 0]
    explained = Gradient(reduce="signed")(model, drawn, torch.ones(4000, dtype=torch.int64))
    for i in range(5):
        formula = float(labels[i] * values[i] - radius * labels[i].abs() * A[i].norm())
        inside = float((labels[i] * explained[:, i]).min())
        assert inside >= formula - 1e-10
        worst = (x - radius * labels[i].sign() * A[i] / A[i].norm())[None]
        at_worst = Gradient(reduce="signed")(model, worst, torch.tensor([1]))[0, i]
        assert float(labels[i] * at_worst) == pytest.approx(formula, abs=1e-10)


def test_figure_1_on_a_model():
    """A perturbation that changes the explanation less (L2) and its top-k set more."""
    A = torch.diag(torch.tensor([1.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    model = Quadratic(A, torch.zeros(4, dtype=torch.float64), c=20.0)  # the explanation is |x|
    x = torch.tensor([[1.0, 0.95, 0.9, 0.1]], dtype=torch.float64)
    swap = torch.tensor([[1.0, 0.88, 0.92, 0.1]], dtype=torch.float64)
    stretch = torch.tensor([[2.0, 1.5, 0.9, 0.1]], dtype=torch.float64)
    explainer = Gradient()
    clean, near, far = (explainer(model, point) for point in (x, swap, stretch))
    assert float((near - clean).norm()) < float((far - clean).norm())
    assert float(r2et.precision_at_k(clean, near, 2)) == 0.5
    assert float(r2et.precision_at_k(clean, far, 2)) == 1.0


# threats


THREATS = ("domain", "tangent", "paper")


def by_hand(drawn, x, threat):
    """Neighbours brought within reach, coordinate by coordinate: what tests/domain says about DOMAIN."""
    moved = drawn.clone()
    if threat == "domain":
        moved[..., 1:7] = x[:, 1:7]
        moved[..., 0] = moved[..., 0].clamp(-3, 3)
        moved[..., 7] = x[:, 7] + ((moved[..., 7].clamp(-2, 2) - x[:, 7]) / 0.25).round() * 0.25
    if threat == "tangent":
        for group in GROUPS:
            step = moved[..., group] - x[:, group]
            moved[..., group] = x[:, group] + step - step.mean(-1, keepdim=True)
    return moved


def explained_without_gauge(model, threat):
    """The gradient of f o A written out: slopes of a group have no common part."""

    def explain(row, c):
        slopes = naive_gradient(model, row, c, "probability")
        for group in GROUPS if threat != "paper" else ():
            slopes[group] -= slopes[group].mean()
        return slopes.abs()

    return explain


@pytest.mark.parametrize("threat", THREATS)
def test_thickness_under_a_threat_against_loops(threat):
    model, x = mlp(n=8), table_rows(4)
    x[0, 0], x[1, 7] = 2.9, 2.0  # at the edge of the domain
    neighbours = GaussianNeighbours(0.8)
    moved = by_hand(neighbours.draw(model, x, 3, generator(5)), x, threat)
    expected = loop_thickness(model, x, 3, "gap", moved, 4, explain=explained_without_gauge(model, threat))
    options = {"neighbours": neighbours, "samples": 3, "steps": 4}
    under = [
        thickness(model, x, 3, variant="gap", **options, generator=generator(5), domain=DOMAIN, threat=other)
        for other in (threat, *(other for other in THREATS if other != threat))
    ]
    torch.testing.assert_close(under[0], expected, atol=1e-12, rtol=0)
    assert all((under[0] - other).abs().max() > 1e-3 for other in under[1:])
    if threat == "domain":  # the default where a domain is known
        again = thickness(model, x, 3, variant="gap", **options, generator=generator(5), domain=DOMAIN)
        assert torch.equal(again, under[0])


def test_the_pairwise_thickness_follows_the_threat():
    model, x, neighbours = mlp(n=8), table_rows(4), UniformNeighbours(0.5)
    gaps = [
        pairwise_thickness(
            model, x, 0, 3, neighbours=neighbours, generator=generator(2), domain=DOMAIN, threat=threat
        )
        for threat in THREATS
    ]
    assert all((a - b).abs().max() > 1e-4 for a, b in itertools.combinations(gaps, 2))


@pytest.mark.parametrize("method", ["enclosure", "estimate"])
@pytest.mark.parametrize("threat", ["domain", "tangent"])
def test_bounds_under_a_threat_hold_for_what_can_be_reached(method, threat):
    model, x, explainer = mlp(n=8), table_rows(6), Gradient(score="logit")
    here = {"explainer": explainer, "domain": DOMAIN, "threat": threat}
    bounds = thickness_bounds(model, x, 3, 0.3, method=method, samples=64, generator=generator(1), **here)
    gap = thickness(
        model, x, 3, variant="gap", neighbours=UniformNeighbours(0.3), samples=64, generator=generator(2), **here
    )
    assert bounds.sound == (method == "enclosure")
    slack = 0.0 if bounds.sound else 1e-3
    assert bool(((bounds.lower <= gap + slack) & (gap <= bounds.upper + slack)).all())
    # those of the model with its gauge are about another explanation
    assert (
        bounds.upper - thickness_bounds(model, x, 3, 0.3, explainer=explainer, method=method).upper
    ).abs().max() > 1e-3


def test_a_smaller_reach_has_tighter_estimates():
    model, x = mlp(n=8), table_rows(6)

    def width(threat):
        bounds = thickness_bounds(model, x, 3, 0.3, generator=generator(1), domain=DOMAIN, threat=threat)
        return float((bounds.upper - bounds.lower).mean())

    assert width("domain") < width("tangent")


def test_neighbours_found_by_attacks_respect_the_threat():
    model, x = mlp(n=8), table_rows(6)
    attack = r2et.attacks.ERAttack(k=3, radius=0.7, steps=5, keep="last")
    seen = []

    class Watched(AdversarialNeighbours):
        def each(self, *arguments):
            for points in super().each(*arguments):
                seen.append(points)
                yield points

    thickness(model, x, 3, neighbours=Watched(attack), domain=DOMAIN)
    assert torch.equal(seen[0], attack(without_gauge(model, DOMAIN, 8), x, domain=DOMAIN).x)
    assert torch.equal(seen[0][:, 1:7], x[:, 1:7])
    assert bool((seen[0] != x).any(1).all())


# bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threat": "tangent"}, 'threat="tangent".*domain='),
        ({"domain": r2et.Domain(frozen=[6])}, "feature 6"),
        ({"domain": r2et.Domain(groups=[[0, 1]])}, "row 0 is not a row that exists"),
        ({"k": 0}, "k=0"),
        ({"k": 6}, "k=6"),
        ({"variant": "gaps"}, r"'gaps'.*'gap'"),
        ({"samples": 0}, "samples=0"),
        ({"steps": 0}, "steps=0"),
        ({"x": normal(2, 6) / 0}, "x has"),
        ({"x": torch.ones(2, 6, dtype=torch.int64)}, "int64"),
        ({"x": normal(2, 6)[:0]}, "empty"),
    ],
)
def test_bad_input_of_thickness(change, message):
    arguments = {"x": normal(2, 6), "k": 2} | change
    with pytest.raises(ValueError, match=message):
        thickness(mlp(), **arguments)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianNeighbours(0.0), r"sigma=0\.0"),
        (lambda: GaussianNeighbours(float("inf")), "sigma=inf"),
        (lambda: UniformNeighbours(-1.0), r"radius=-1\.0"),
        (lambda: GaussianNeighbours(aggregate="min"), r"'min'.*minimum"),
        (lambda: UniformNeighbours(1.0, aggregate="average"), "'average'"),
        (
            lambda: AdversarialNeighbours(r2et.attacks.ERAttack(k=2, radius=1.0), aggregate="minimal"),
            r"'minimal'.*'minimum'",
        ),
    ],
)
def test_bad_neighbours(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_radius_of_the_bounds(radius):
    with pytest.raises(ValueError, match="radius"):
        thickness_bounds(mlp(), normal(2, 6), 2, radius)


@pytest.mark.parametrize(("i", "j"), [(0, 6), (-1, 2), (9, 0)])
def test_pairwise_features_out_of_range(i, j):
    with pytest.raises(ValueError, match="there is no feature"):
        pairwise_thickness(mlp(), normal(2, 6), i, j)


def test_probabilities_are_refused():
    with pytest.raises(ValueError, match="probabilities"):
        thickness(nn.Sequential(mlp(), nn.Softmax(1)), normal(2, 6), 2)
