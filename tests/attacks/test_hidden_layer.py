"""The formulas of one hidden layer: against autograd."""

import pytest
import torch
from torch import nn

from r2et.attacks.hidden_layer import Around, HiddenLayer
from r2et.enclosure.reading import extract
from r2et.scores import log_odds, predicted_class
from tests.models_with_answers import mlp, normal

ACTIVATIONS = {
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.2),
    "softplus": lambda: nn.Softplus(3.0),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def around(model, x, order):
    layer = HiddenLayer.of(extract(model, x.shape[1:]), torch.float64)
    target = predicted_class(model(x))
    return Around.of(layer, x, target, order, layer.w1), target


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_values_and_slopes_are_those_of_autograd(kind, classes):
    model, x = mlp(5, classes, hidden=7, activation=ACTIVATIONS[kind], seed=3), normal(6, 5, seed=1)
    with torch.no_grad():  # all classes occur
        model[2].bias -= model(x).mean(0)
    order = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(r)) for r in range(6)])
    place, target = around(model, x, order)
    delta, v, weight = 2 * normal(6, 3, 5, seed=2), normal(6, 3, 5, seed=5), normal(6, 3, 1, seed=6)
    z = place.inner(delta)
    activation = place.layer.activation
    seen = place.look(z, activation)
    slopes = place.turned(seen, activation.curvature_at(z, seen.slope), v, weight)
    for number in range(3):
        point = (x + delta[:, number]).requires_grad_()
        odds = log_odds(model(point), target)
        (gradient,) = torch.autograd.grad(odds.sum(), point, create_graph=True)
        torch.testing.assert_close(seen.odds[:, number], odds)
        torch.testing.assert_close(seen.g[:, number], gradient.gather(1, order))
        assert torch.equal(seen.kept[:, number], predicted_class(model(point)) == target)
        loss = (gradient.gather(1, order) * v[:, number]).sum() - (weight[:, number, 0] * odds).sum()
        (expected,) = torch.autograd.grad(loss, point)
        torch.testing.assert_close(slopes[:, number], expected)
    assert not seen.kept.all()


@pytest.mark.parametrize("classes", [2, 4])
def test_searches_follow_activations_of_their_own(classes):
    model, x = mlp(5, classes, activation=nn.ReLU, seed=3), normal(4, 5, seed=1)
    place, _ = around(model, x, torch.arange(5).expand(4, 5))
    softer = [mlp(5, classes, activation=lambda b=b: nn.Softplus(b), seed=3) for b in (2.0, 9.0)]
    layers = [HiddenLayer.of(extract(other, x.shape[1:]), torch.float64) for other in softer]
    assert all(layer.alike(place.layer) for layer in layers)
    z = place.inner(0.3 * normal(4, 3, 5, seed=2))
    judged = place.look(z, place.layer.activation)
    both = place.follow(z, judged, [(layers[0].activation, slice(0, 1)), (layers[1].activation, slice(1, 3))])
    for layer, own in zip(layers, (slice(0, 1), slice(1, 3)), strict=True):
        alone = place.look(z[:, own], layer.activation)
        torch.testing.assert_close(both.g[:, own], alone.g)
        if classes > 2:
            torch.testing.assert_close(both.odds[:, own], alone.odds)
    if classes == 2:  # the class is that of the model itself
        assert torch.equal(both.odds, judged.odds)


class Skip(nn.Module):
    """A hidden layer, and the input beside it."""

    def __init__(self):
        super().__init__()
        self.deep, self.direct = mlp(4), nn.Linear(4, 2).double()

    def forward(self, x):
        return self.deep(x) + self.direct(x)


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(4, 2),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(4, 8), nn.Unflatten(1, (2, 4)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(4, 2)),
    ],
)
def test_other_networks_have_no_formulas(model):
    assert HiddenLayer.of(extract(model.double(), torch.Size([4]))) is None


def test_neither_has_one_with_a_way_past_the_layer():
    assert HiddenLayer.of(extract(Skip(), torch.Size([4]))) is None
    assert HiddenLayer.of(None) is None


def test_other_weights_are_not_alike():
    one, other = (HiddenLayer.of(extract(mlp(4, seed=seed), torch.Size([4]))) for seed in (0, 1))
    assert one.alike(one)
    assert not one.alike(other)
