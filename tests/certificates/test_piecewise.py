"""Piecewise-linear networks: radii by hand, and the two bounds against searches."""

import pytest
import torch
from torch import nn

from r2et import ranking
from r2et.attacks import MinimalFlip
from r2et.certificates import certify
from r2et.certificates.piecewise import interval_radii, piecewise_radii, region_radii
from r2et.enclosure.hinges import hinge_distances
from r2et.enclosure.problems import Reading
from r2et.explainers import Gradient, GradientTimesInput
from tests.models_with_answers import generator, linear, mlp, normal


def problem_of(model, x, k, explainer=None):
    reading = Reading.of(model, x, explainer or Gradient())
    return next(reading.problems(x, model(x).argmax(1), k, None))


def around(x, radius, count, seed=0):
    """Points on the sphere of each row's radius, (count, N, n)."""
    steps = torch.randn(count, *x.shape, generator=generator(seed), dtype=torch.float64)
    return x + radius[:, None] * steps / steps.norm(dim=2, keepdim=True)


def changed(model, x, points, k, explainer=None):
    """Whether the top-k set at points (count, N, n) differs from the one at x."""
    explainer = explainer or Gradient()
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    after = explainer(model, points.flatten(0, 1), target.repeat(len(points))).unflatten(0, points.shape[:2])
    return ranking.precision_at_k(after, clean.expand_as(after), k) < 1


def two_neurons(weights, biases, out):
    """Log-odds sum_m out_m relu(w_m x + b_m) + 100 of class 1."""
    model = mlp(2, hidden=2, activation=nn.ReLU)
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(weights))
        model[0].bias.copy_(torch.tensor(biases))
        model[2].weight.copy_(torch.tensor([[0.0, 0.0], out]))
        model[2].bias.copy_(torch.tensor([0.0, 100.0]))
    return model


def test_the_region_radius_by_hand():
    """One hinge decides: beyond it the gradient is (0, 1) instead of (2, 1), and feature 1 takes over."""
    model = two_neurons([[1.0, 0.0], [0.0, 1.0]], [0.0, 50.0], [2.0, 1.0])
    x = torch.tensor([[0.3, 0.0]], dtype=torch.float64)
    certificate = certify(model, x, 1)
    assert certificate.method == "piecewise"
    assert float(certificate.radius) == pytest.approx(0.3, rel=1e-6)
    assert float(certificate.radius) <= 0.3
    # an attack succeeds just beyond, so no larger radius would be right
    beyond = torch.tensor([[[-1e-6, 0.0]]], dtype=torch.float64)
    assert changed(model, x, beyond, 1).all()


def test_a_hinge_that_changes_no_order_does_not_end_the_radius():
    """Here the first hinge moves the gradient from (3, 1) to (2, 1): the second one, at 0.9, decides."""
    model = two_neurons([[1.0, 0.0], [1.0, 0.0]], [0.0, 0.6], [1.0, 2.0])
    with torch.no_grad():
        model[2].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
    direct = nn.Linear(2, 2).double()
    with torch.no_grad():
        direct.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        direct.bias.zero_()

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.direct = model, direct

        def forward(self, x):
            return self.net(x) + self.direct(x)

    x = torch.tensor([[0.3, 0.0]], dtype=torch.float64)
    net = Sum()
    problem = problem_of(net, x, 1)
    hinges = hinge_distances(problem.attributions.network, x)
    assert sorted(hinges[0].tolist())[:2] == pytest.approx([0.3, 0.9])
    region = region_radii(problem.attributions, problem.pairs, hinges)
    interval = interval_radii(problem.attributions, problem.pairs, hinges)
    assert float(region.min()) == pytest.approx(0.3, rel=1e-6)
    assert float(interval.min()) == pytest.approx(0.9, rel=1e-6)
    best = piecewise_radii(problem.attributions, problem.pairs)
    assert torch.equal(best, torch.maximum(region, interval))
    assert float(certify(net, x, 1).radius) == pytest.approx(0.9, rel=1e-6)
    beyond = torch.tensor([[[-0.6 - 1e-6, 0.0]]], dtype=torch.float64)
    assert changed(net, x, beyond, 1).all()


def test_an_input_on_a_hinge():
    model = two_neurons([[1.0, 0.0], [0.0, 1.0]], [0.0, 50.0], [2.0, 1.0])
    x = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    assert float(certify(model, x, 1).radius) == 0.0
    # the same hinge does not matter where it changes no order
    model = two_neurons([[1.0, 0.0], [0.0, 1.0]], [0.0, 50.0], [0.5, 1.0])
    assert float(certify(model, x, 1).radius) == pytest.approx(50.0, rel=0.2)


def test_max_pooling_by_hand():
    """max(x_0, x_1) + ... : the gradient jumps where the two trade places, at |x_0 - x_1| / sqrt 2."""
    model = nn.Sequential(nn.Unflatten(1, (1, 1, 2)), nn.MaxPool2d((1, 2)), nn.Flatten(), nn.Linear(1, 2)).double()
    x = torch.tensor([[1.0, 0.2], [0.0, 0.5]], dtype=torch.float64)
    certificate = certify(model, x, 1)
    expected = torch.tensor([0.8, 0.5], dtype=torch.float64) / 2**0.5
    assert torch.allclose(certificate.radius, expected, rtol=1e-6)
    assert (certificate.radius <= expected).all()
    assert certificate.top.tolist() == [[0], [1]]


@pytest.mark.parametrize("explainer", [Gradient(), Gradient(reduce="signed"), GradientTimesInput()])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("activation", [nn.ReLU, lambda: nn.LeakyReLU(0.2)])
def test_both_bounds_hold_and_beyond_them_the_set_changes(activation, classes, explainer):
    model, x = mlp(5, classes, hidden=6, seed=4, activation=activation), normal(16, 5, seed=1)
    problem = problem_of(model, x, 2, explainer)
    hinges = hinge_distances(problem.attributions.network, x)
    for bound in (region_radii, interval_radii):
        radius = problem.pairs.limits(bound(problem.attributions, problem.pairs, hinges))[:, 0]
        radius = radius.clamp_max(1e3)
        assert not changed(model, x, around(x, 0.999 * radius, 1500), 2, explainer).any()
    found = certify(model, x, 2, explainer=explainer)
    flipped = changed(model, x, around(x, 5 * found.radius.clamp_max(1e3), 1500), 2, explainer).any(0)
    assert float(flipped.double().mean()) > 0.5


def test_the_region_alone_is_wrong_with_many_classes():
    """Inside one linear region the log-odds gradient of ten classes turns: the term of the softmax is needed."""
    torch.manual_seed(0)
    model = mlp(8, 10, hidden=12, seed=2, activation=nn.ReLU)
    x = normal(60, 8, seed=3)
    problem = problem_of(model, x, 3)
    hinges = hinge_distances(problem.attributions.network, x)
    region = hinges.amin(1)
    result = MinimalFlip(k=3, radius=5.0)(model, x)
    inside = (result.precision < 1) & (result.distance < 0.999 * region)
    assert float(inside.double().mean()) > 0.05, "the plain region radius is a wrong certificate here"
    certificate = certify(model, x, 3)
    assert not (result.distance < certificate.radius * (1 - 1e-9))[result.precision < 1].any()


def test_a_linear_net_of_ten_classes_has_no_hinge_and_still_a_radius():
    model, x = linear(12, classes=10, seed=1), normal(30, 12, seed=2)
    certificate = certify(model, x, 3)
    assert certificate.method == "deterministic"
    result = MinimalFlip(k=3, radius=20.0)(model, x)
    flipped = result.precision < 1
    assert float(flipped.double().mean()) > 0.8
    # a region without hinges would be certified for ever: the attack refutes that
    assert hinge_distances(problem_of(model, x, 3).attributions.network, x).isinf().all()
    assert (certificate.radius > 0).all()
    assert (certificate.radius[flipped] <= result.distance[flipped]).all()


def test_dead_networks_are_ties():
    model = two_neurons([[1.0, 0.0], [0.0, 1.0]], [-5.0, -5.0], [2.0, 1.0])
    assert certify(model, torch.zeros(1, 2, dtype=torch.float64), 1).radius.tolist() == [0.0]
