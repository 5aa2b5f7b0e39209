"""The integral certificate against closed forms and fine searches."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et import ranking
from r2et.certificates import certify, deterministic
from r2et.certificates.deterministic import geometric, grid, order_radii, other_classes
from r2et.certificates.integral import crossing
from r2et.enclosure import Smooth, extract, register
from r2et.enclosure.activations import _KNOWN
from r2et.explainers import Gradient, GradientTimesInput
from tests.attacks.test_minimal import functionals
from tests.models_with_answers import generator, linear, mlp, normal


class Square(nn.Module):
    def forward(self, z):
        return z * z


@pytest.fixture(autouse=True)
def known_square():
    before = dict(_KNOWN)
    register(Square, lambda layer: Smooth(lambda z: z * z, lambda z: 2 * z, lambda z: torch.full_like(z, 2.0)))
    yield
    _KNOWN.clear()
    _KNOWN.update(before)


@pytest.mark.parametrize("explainer", [Gradient(), Gradient(reduce="signed"), Gradient(score="probability")])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_two_class_linear_net_never_changes(explainer, k):
    model, x = linear(6, seed=3), normal(7, 6, seed=1)
    certificate = certify(model, x, k, explainer=explainer)
    assert certificate.method == "deterministic"
    assert certificate.limits.isinf().all()
    assert (certificate.precision_at(1e9) == 1).all()


def test_its_prediction_does_change_at_a_known_distance():
    model, x = linear(6, seed=3), normal(7, 6, seed=1)
    certificate = certify(model, x, 2, prediction=True)
    w, b = (model.weight[0] - model.weight[1]).detach(), (model.bias[0] - model.bias[1]).detach()
    distance = (x @ w + b).abs() / w.norm()
    assert torch.allclose(certificate.radius, distance, rtol=1e-7)
    assert (certificate.radius <= distance).all()
    assert torch.equal(certificate.details["prediction"], certificate.radius)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_times_input_of_a_linear_net_is_exact(seed):
    """e_i = x_i w_i is linear: the distance to |e_i| = |e_j| has a closed form."""
    model, x = linear(6, seed=seed), normal(9, 6, seed=seed + 50)
    certificate = certify(model, x, 2, explainer=GradientTimesInput())
    w = (model.weight[1] - model.weight[0]).detach()
    for row in range(len(x)):
        g = w * (1 if int(model(x[row : row + 1]).argmax()) == 1 else -1)
        exact = min(float(d @ (x[row] * g) / (d * g).norm()) for d in functionals(x[row] * g, 2, "abs"))
        assert float(certificate.radius[row]) == pytest.approx(exact, rel=1e-6)
        assert float(certificate.radius[row]) <= exact


def squares(n, hidden, seed):
    """Two classes, log-odds sum_m v_m (w_m x + b_m)^2 + c: gradient A x + b, Hessian A = 2 W^T diag(v) W."""
    model = mlp(n, hidden=hidden, seed=seed, activation=Square)
    with torch.no_grad():
        model[2].weight[0].zero_()
        model[2].bias.copy_(torch.tensor([0.0, 500.0]))
    w, v = model[0].weight.detach(), model[2].weight[1].detach()
    return model, 2 * w.T @ (v[:, None] * w), 2 * w.T @ (v * model[0].bias.detach())


@pytest.mark.parametrize("reduce", ["abs", "signed"])
@pytest.mark.parametrize(("n", "k", "hidden"), [(4, 1, 3), (6, 2, 8), (9, 4, 5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_quadratic_score_has_the_exact_radius(n, k, hidden, seed, reduce):
    model, A, b = squares(n, hidden, seed)
    x = normal(12, n, seed=seed + 9)
    found = certify(model, x, k, explainer=Gradient(reduce=reduce))
    for row in range(len(x)):
        g = A @ x[row] + b
        exact = min(float(d @ g / (A @ d).norm()) for d in functionals(g, k, reduce))
        assert float(found.radius[row]) == pytest.approx(exact, rel=1e-5)
        assert float(found.radius[row]) <= exact


def neuron(w, v, b, slope):
    """Two classes, log-odds v softplus(w x + b) + slope x."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(len(w), 1), nn.Linear(1, 2, bias=False)
            self.direct, self.act = nn.Linear(len(w), 2), nn.Softplus()

        def forward(self, x):
            return self.outer(self.act(self.inner(x))) + self.direct(x)

    net = Net().double()
    with torch.no_grad():
        net.inner.weight.copy_(w[None])
        net.inner.bias.fill_(b)
        net.outer.weight.copy_(torch.tensor([[0.0], [v]]))
        net.direct.weight.copy_(torch.stack([torch.zeros_like(w), slope]))
        net.direct.bias.copy_(torch.tensor([0.0, 300.0]))
    return net


def searched(scores_at, at, length, k):
    """The distance to the nearest z at which the top-k set is another one, by a fine search; inf if none is."""
    z = at + torch.linspace(-12, 12, 96_001, dtype=torch.float64)
    scores = scores_at(z)
    changed = (ranking.top_k_mask(scores, k) != ranking.top_k_mask(scores_at(z.new_tensor([at])), k)).any(1)
    return float((z[changed] - at).abs().min() / length) if changed.any() else math.inf


@pytest.mark.parametrize(
    ("start", "end"), [(-2.0, -1.0), (-1.0, -0.2), (-2.5, -1.8), (-0.5, 0.0), (2.0, 0.7), (1.0, 0.1)]
)
def test_one_softplus_neuron_agrees_with_a_fine_search_to_one_percent(start, end):
    """The gap v sigmoid(z) (w_0 - w_1) + s_0 - s_1 closes at z = end, on the side where the slope of it grows."""
    v, side = 4.0, 1.0 if end > start else -1.0
    w = torch.tensor([0.6, 0.6 + side, 0.9], dtype=torch.float64)
    slope = torch.tensor(
        [side * v * float(torch.sigmoid(torch.tensor(end, dtype=torch.float64))), 0.0, -9.0]
    ).double()
    x = torch.zeros(1, 3, dtype=torch.float64)
    radius = float(certify(neuron(w, v, start, slope), x, 1, explainer=Gradient(reduce="signed")).radius)
    exact = searched(lambda z: v * torch.sigmoid(z)[:, None] * w + slope, start, float(w.norm()), 1)
    assert exact == pytest.approx(abs(end - start) / float(w.norm()), rel=1e-3)
    assert 0.99 * exact <= radius <= exact * (1 + 1e-4)


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_one_softplus_neuron_is_never_certified_beyond_a_fine_search(reduce):
    """g = v sigmoid(z) w + slope turns along w only; often the certificate is close, never is it too large."""
    k, v, ratios = 2, 4.0, []
    for seed in range(8):
        w, slope, x = normal(5, seed=seed), normal(5, seed=seed + 20), normal(1, 5, seed=seed + 40)
        b = float(normal(1, seed=seed + 60))
        radius = float(certify(neuron(w, v, b, slope), x, k, explainer=Gradient(reduce=reduce)).radius)

        def scores(z, w=w, slope=slope):
            found = v * torch.sigmoid(z)[:, None] * w + slope
            return found if reduce == "signed" else found.abs()

        exact = searched(scores, float(x[0] @ w) + b, float(w.norm()), k)
        assert 0 < radius <= exact * (1 + 1e-4)
        ratios.append(min(radius / exact, 1.0))
    assert sorted(ratios)[4] > 0.85


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_a_ten_class_linear_net_has_a_finite_radius_that_noise_respects(reduce):
    model, x = linear(12, classes=10, seed=1), normal(20, 12, seed=2)
    explainer = Gradient(reduce=reduce)
    certificate = certify(model, x, 3, explainer=explainer)
    assert certificate.limits.isfinite().all()
    assert (certificate.radius > 0).all()
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    steps = torch.randn(400, 20, 12, generator=generator(1), dtype=torch.float64)
    steps = steps / steps.norm(dim=2, keepdim=True)
    inside = x + 0.999 * certificate.radius[:, None] * steps
    after = explainer(model, inside.flatten(0, 1), target.repeat(400)).unflatten(0, (400, 20))
    assert (ranking.precision_at_k(after, clean.expand_as(after), 3) == 1).all()


def test_other_classes_and_their_order():
    rows = other_classes(torch.tensor([1, 0]), 3)
    assert rows.tolist() == [[[-1, 1, 0], [0, 1, -1]], [[1, -1, 0], [1, 0, -1]]]
    assert other_classes(torch.tensor([1]), 3, leave=torch.tensor([0])).tolist() == [[[0, 1, -1]]]
    model, x = linear(5, classes=4, seed=2), normal(6, 5, seed=3)
    network = extract(model, torch.Size([5]))
    logits = network.forward(x)[1].detach()
    target = logits.argmax(1)
    found = order_radii(network, x, logits, other_classes(target, 4))
    weight = model.weight.detach()
    for row in range(6):
        c = int(target[row])
        exact = min(
            float((logits[row, c] - logits[row, j]) / (weight[c] - weight[j]).norm()) for j in range(4) if j != c
        )
        assert float(found[row]) == pytest.approx(exact, rel=1e-6)
        assert float(found[row]) <= exact


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 6), lossy=st.booleans())
def test_crossing_against_a_walk(seed, steps, lossy):
    """value - integral - loss, walked step by step, is positive below the radius and not beyond it."""
    source = generator(seed)
    slopes = torch.rand(1, 1, steps, generator=source, dtype=torch.float64)
    widths = torch.rand(1, steps, generator=source, dtype=torch.float64)
    loss = (0.2 * torch.rand(1, 1, steps, generator=source, dtype=torch.float64)).cumsum(2) * lossy
    value = torch.rand(1, 1, generator=source, dtype=torch.float64) * 2 - 0.3
    radius = float(crossing(value, slopes, widths, loss))
    left, at, expected = float(value), 0.0, None
    for t in range(steps):
        reach = left - float(loss[0, 0, t])
        if reach <= float(slopes[0, 0, t] * widths[0, t]):
            expected = at + max(reach, 0.0) / float(slopes[0, 0, t])
            break
        left -= float(slopes[0, 0, t] * widths[0, t])
        at += float(widths[0, t])
    expected = at if expected is None else expected
    assert radius == pytest.approx(0.0 if float(value) <= 0 else expected, abs=1e-12)


def test_the_grid_ends_beyond_the_first_order_radius():
    times = grid(torch.tensor([[0.0, 3.0, math.inf, 2.0], [math.inf, math.inf, 0.0, 0.0]], dtype=torch.float64))
    assert (times.diff(dim=1) > 0).all()
    assert (times > 0).all()
    assert 2.0 in times[0].tolist()
    assert times[0, -1] > 10


def flat():
    """A gap that hardly moves at x and closes at a known distance, far below its first-order radius."""
    start, end, v = -10.0, -1.0, 4.0
    w = torch.tensor([0.6, 1.6, 0.9], dtype=torch.float64)
    slope = torch.tensor([v / (1 + math.exp(-end)), 0.0, -9.0], dtype=torch.float64)
    return neuron(w, v, start, slope), (end - start) / float(w.norm())


def test_radii_of_a_flat_model_come_from_a_geometric_grid(monkeypatch):
    model, exact = flat()
    x, signed = torch.zeros(1, 3, dtype=torch.float64), Gradient(reduce="signed")
    radius = float(certify(model, x, 1, explainer=signed, method="integral").radius)
    assert 0.9 * exact < radius <= exact
    monkeypatch.setattr(deterministic, "LAYINGS", 0)
    assert float(certify(model, x, 1, explainer=signed, method="integral").radius) < 0.7 * exact


def test_a_row_gets_its_grid_whatever_its_neighbours_need():
    model = flat()[0]
    x = torch.tensor([[0.0, 0.0, 0.0], [4.0, 3.0, 0.0], [-3.0, 0.0, 1.0]], dtype=torch.float64)
    together = certify(model, x, 1, explainer=Gradient(reduce="signed"), method="integral").limits
    for row in range(len(x)):
        alone = certify(model, x[row : row + 1], 1, explainer=Gradient(reduce="signed"), method="integral").limits
        assert torch.allclose(alone[0], together[row], rtol=1e-9)


def test_a_geometric_grid_grows_by_one_factor():
    times = geometric(torch.tensor([0.1, 2.0]), torch.tensor([1.0, 50.0]))
    ratios = times[:, 1:] / times[:, :-1]
    assert torch.allclose(ratios, ratios[:, :1].expand_as(ratios), rtol=1e-4)
    assert torch.allclose(times[:, [0, -1]], torch.tensor([[0.1, 1.0], [2.0, 50.0]]))
