"""Inputs on hinges: equal entries of a window, neurons at exactly zero, neurons that are copies of each other."""

import pytest
import torch
from torch import nn

from benchmarks.hunting import drawn_case
from r2et import ranking
from r2et.certificates import certify
from r2et.certificates.deterministic import order_radii, other_classes
from r2et.enclosure.activations import LeakyReLU, MaxPool
from r2et.enclosure.problems import Reading
from r2et.explainers import Gradient, GradientTimesInput, SmoothGrad
from tests.models_with_answers import generator, mlp, normal

EXPLAINERS = [Gradient(), GradientTimesInput(), SmoothGrad(samples=3, sigma=1e-3, score="log-odds")]


def fixed(layer, weight, bias):
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight, dtype=torch.float64))
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return layer


class Pooled(nn.Module):
    """Max-pooling of linear units, a ReLU neuron that reads the maxima and the input, and a linear skip.

    The ReLU neuron is max(x_0, x_0, ...) - slope x_0 + bias. Above zero it adds to the gradient by x_0.
    """

    def __init__(self, equal=3, slope=1.5, bias=0.51):
        super().__init__()
        own, others = [1.0, 0.0, 0.0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        rows = [own] * equal + [own] + others + [[0.0, 0.0, 0.0]] * (equal - 3)
        self.units = fixed(nn.Linear(3, len(rows)), rows, [0.0] * (equal + 1) + [-3000.0] * (equal - 1))
        self.pool, self.act = nn.MaxPool1d(equal), nn.ReLU()
        self.inner = fixed(nn.Linear(2, 1), [[1.0, 0.0]], [bias])
        self.direct = fixed(nn.Linear(3, 1), [[-slope, 0.0, 0.0]], [0.0])
        self.out = fixed(nn.Linear(1, 2), [[0.0], [-1.0]], [0.0, 5.0])
        self.skip = fixed(nn.Linear(3, 2), [[0.0] * 3, [1.0, 1.2, 0.0]], [0.0, 0.0])
        self.double()

    def forward(self, x):
        maxima = self.pool(self.units(x).unsqueeze(1)).flatten(1)
        return self.out(self.act(self.inner(maxima) + self.direct(x))) + self.skip(x)


def top(model, x, explainer, k=1):
    return ranking.top_k(explainer(model, x), k).tolist()


@pytest.mark.parametrize("explainer", EXPLAINERS)
@pytest.mark.parametrize("equal", [3, 4, 5])
def test_equal_entries_of_a_window_count_once(explainer, equal):
    """With 1.5 x the true gradient the ReLU neuron would never reach its hinge, which is at a distance of .02."""
    model, x = Pooled(equal, slope=equal / 2), torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        model.inner.bias.fill_((equal / 2 - 1) * 1.02)
    beyond = torch.tensor([[0.03, 0.0, 0.0]], dtype=torch.float64)
    assert top(model, x, explainer) != top(model, x + beyond, explainer), "the list flips at a norm of .03"
    radius = float(certify(model, x, 1, explainer=explainer).radius)
    assert radius <= 0.02 + 4e-3 * isinstance(explainer, SmoothGrad)
    assert radius > 0.01


@pytest.mark.parametrize("equal", [3, 4, 5])
def test_the_gradient_at_a_tie_is_the_models(equal):
    model, x = Pooled(equal), normal(4, 3, seed=equal)
    (problem,) = Reading.of(model, x, Gradient()).problems(x, model(x).argmax(1), 1, None)
    assert torch.allclose(problem.attributions.gradient, problem.attributions.values, atol=1e-12)


def windows(rows, biases, skip):
    """Logits (0, max of linear units + skip . x)."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            n = len(rows[0])
            self.units, self.pool = fixed(nn.Linear(n, len(rows)), rows, biases), nn.MaxPool1d(len(rows))
            self.out = fixed(nn.Linear(1, 2), [[0.0], [1.0]], [0.0, 9.0])
            self.skip = fixed(nn.Linear(n, 2), [[0.0] * n, skip], [0.0, 0.0])
            self.double()

        def forward(self, x):
            return self.out(self.pool(self.units(x).unsqueeze(1)).flatten(1)) + self.skip(x)

    return Net()


@pytest.mark.parametrize("explainer", EXPLAINERS[:2])
def test_equal_values_with_different_slopes_leave_no_radius(explainer):
    model = windows([[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]], [0.0, 0.0, 0.0], [1.0, 1.0])
    x = torch.tensor([[1.0, 1.0], [1.0, 1.1]], dtype=torch.float64)
    radius = certify(model, x, 1, explainer=explainer).radius
    assert radius[0] == 0
    assert radius[1] > 0.01, "without a tie there is one"
    nudges = torch.tensor([[1e-12, 0.0], [0.0, 1e-12]], dtype=torch.float64)
    assert top(model, x[:1] + nudges[:1], explainer) != top(model, x[:1] + nudges[1:], explainer)


def test_a_tie_by_all_but_rounding_leaves_no_radius():
    """.1 + .2 and .3 are equal numbers that are not equal in float64; which one wins is not to be relied on."""
    model = windows([[3.0, 3.0, 0.0], [0.0, 0.0, 3.0]], [0.0, 0.0], [1.0, 1.5, 1.0])
    x = torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64) * torch.arange(1, 40).unsqueeze(1)
    apart = model.units(x).diff().abs().detach()
    assert (apart < 1e-13).all()
    assert (apart > 0).any()
    assert not certify(model, x, 1).radius.any()


def test_a_tie_of_losers_does_no_harm():
    rows = [[3.0, 0.0], [0.0, 2.0], [0.0, 2.0], [2.0, 0.0]]
    tied = windows(rows, [0.0, -1.0, -1.0, 0.0], [1.0, 1.0])
    alone = windows(rows[:2], [0.0, -1.0], [1.0, 1.0])
    x = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    assert float(certify(tied, x, 1).radius) == pytest.approx(float(certify(alone, x, 1).radius), rel=1e-6)


def two_layers(first, biases, second, inner):
    """Logits (0, relu(second relu(first x + biases) + inner) + x_0 + 1.2 x_1) on two features."""
    net = nn.Sequential(
        fixed(nn.Linear(2, len(first)), first, biases),
        nn.ReLU(),
        fixed(nn.Linear(len(first), 1), [second], [inner]),
        nn.ReLU(),
        fixed(nn.Linear(1, 2), [[0.0], [0.5]], [0.0, 9.0]),
    )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.skip = net, fixed(nn.Linear(2, 2), [[0.0, 0.0], [1.0, 1.2]], [0.0, 0.0])
            self.double()

        def forward(self, x):
            return self.net(x) + self.skip(x)

    return Net()


@pytest.mark.parametrize("explainer", EXPLAINERS[:2])
def test_neurons_that_are_always_zero_change_nothing(explainer):
    """Whatever slope they have at zero: their weights vanish, or they are the difference of two copies."""
    x = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    plain = two_layers([[1.0, 0.0]], [0.0], [1.0], -0.5)
    dead = two_layers([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [0.0] * 3, [1.0, -7.0, 9.0], -0.5)
    copies = two_layers([[1.0, 0.0], [1.0, 0.0]], [0.0] * 2, [2.0, -1.0], -0.5)
    expected = float(certify(plain, x, 1, explainer=explainer).radius)
    assert expected > 0.01
    for model in (dead, copies):
        assert float(certify(model, x, 1, explainer=explainer).radius) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weight", [-1.0, 1.0, 7.0])
def test_a_neuron_on_its_hinge_in_an_earlier_layer(weight):
    """x_1 = 0 is the hinge of the first layer, and the second layer's hinge depends on the side."""
    model = two_layers([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [1.0, weight], -0.99)
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    radius = float(certify(model, x, 1).radius)
    steps = torch.randn(20_000, 2, generator=generator(1), dtype=torch.float64)
    reach = torch.rand(20_000, 1, generator=generator(2), dtype=torch.float64)
    near = x + 0.05 * reach * steps / steps.norm(dim=1, keepdim=True)
    changed = torch.tensor(top(model, near, Gradient())) != torch.tensor(top(model, x, Gradient()))
    assert changed.any()
    assert float((near - x).norm(dim=1)[changed.squeeze(1)].min()) >= radius


@pytest.mark.parametrize("explainer", EXPLAINERS)
@pytest.mark.parametrize("activation", [nn.GELU, nn.ReLU])
def test_logits_that_are_copies_of_each_other_rank_nothing(explainer, activation):
    """The log-odds are constant; what is left of their gradient is rounding, and no list of it is certified."""
    model = mlp(4, 4, hidden=5, seed=3, activation=activation)
    with torch.no_grad():
        model[2].weight[1:], model[2].bias[1:] = model[2].weight[0].clone(), model[2].bias[0].clone()
    assert not certify(model, normal(20, 4, seed=2), 2, explainer=explainer).radius.any()


def test_runner_up_classes_that_tie_leave_no_margin_to_certify():
    """Rounding names one of them in the model and the other in its layers: no reason to refuse the batch."""
    case = drawn_case(127, 10)
    logits = case.model(case.x)
    second, third = logits.scatter(1, logits.argmax(1, keepdim=True), -torch.inf).topk(2).values.T
    tied = (second - third).abs() < 1e-12
    assert case.explainer.score == "margin"
    assert 0 < int(tied.sum()) < len(tied)
    radius = certify(case.model, case.x, case.k, explainer=case.explainer).radius
    assert float(radius[tied].max()) < 1e-12
    assert float(radius[~tied].max()) > 1e-3


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.Identity])
def test_classes_that_are_copies_of_each_other_hold_no_prediction(activation):
    """They are apart by rounding, which names another one elsewhere; nothing moves the difference of weights."""
    model, x = mlp(11, 10, hidden=63, seed=3, activation=activation), normal(20, 11, seed=2)
    with torch.no_grad():
        logits = model(x)
        # in half of the rows they are ahead of the others
        model[2].bias[3] += (logits[:, :3].amax(1) - logits[:, 3]).median()
        model[2].weight[4:], model[2].bias[4:] = model[2].weight[3].clone(), model[2].bias[3].clone()
    copies = model(x).argmax(1) >= 3
    assert 0 < int(copies.sum()) < len(x)
    held = certify(model, x, 3, prediction=True).details["prediction"]
    assert not held[copies].any()
    assert (held[~copies] > 0).sum() > 5


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gap_of_rounding_between_classes_is_a_tie(layers):
    model, x = (nn.Linear(4, 3).double() if layers == 1 else mlp(4, 3, hidden=5, seed=1)), normal(6, 4, seed=2)
    last = model if layers == 1 else model[2]
    with torch.no_grad():
        last.weight[1], last.bias[1], last.bias[2] = last.weight[0], last.bias[0], -1e3
    network = Reading.of(model, x, Gradient()).network
    above = other_classes(torch.zeros(6, dtype=torch.int64), 3)
    logits = network.forward(x)[1]
    for gap, certain in ((4e-15, False), (1e-3, True)):
        apart = logits + torch.tensor([gap, 0.0, 0.0])
        assert bool((order_radii(network, x, apart, above) > 0).all()) is certain


def sparse(*shape, seed):
    """Small whole numbers, so that windows are full of ties and zeros."""
    return torch.randint(-1, 2, shape, generator=generator(seed)).double()


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels last"])
@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(3, 1, 1), nn.MaxPool2d((1, 3), 2, (0, 1), (1, 2))])
def test_the_winner_of_a_tied_window_is_pytorchs(pool, last):
    for seed in range(10):
        x = sparse(2, 3, 5, 6, seed=seed)
        weight = normal(*pool(x).shape, seed=seed)
        point = (x.to(memory_format=torch.channels_last) if last else x.clone()).requires_grad_()
        (expected,) = torch.autograd.grad((pool(point) * weight).sum(), point)
        (layer,) = Reading.of(nn.Sequential(pool, nn.Flatten()), x, Gradient()).network.layers
        assert isinstance(layer.activation, MaxPool)
        entries = x.flatten(1) @ layer.matrices[-1].T
        taken = layer.activation.slope_at(entries).unflatten(1, layer.activation.valid.shape)
        spread = (taken * weight.flatten(1).unsqueeze(2)).flatten(1) @ layer.matrices[-1]
        assert torch.allclose(spread, expected.flatten(1))


@pytest.mark.parametrize("slope", [0.0, 0.2, -0.3, 1.5])
def test_the_slope_at_zero_is_pytorchs(slope):
    layer = nn.LeakyReLU(slope) if slope else nn.ReLU()
    z = sparse(3, 8, seed=1).requires_grad_()
    assert torch.equal(LeakyReLU(slope).slope_at(z.detach()), torch.autograd.grad(layer(z).sum(), z)[0])
