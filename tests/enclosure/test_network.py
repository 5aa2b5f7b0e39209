"""A network read into affine maps computes what the model computes."""

import pytest
import torch
from torch import nn

from r2et.enclosure import extract
from r2et.enclosure import network as networks
from r2et.enclosure.network import INPUT, preactivation
from tests.models_with_answers import mlp, normal


class Skipping(nn.Module):
    """The input, and the first activation, reach the logits past the second."""

    def __init__(self, activation):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.past, self.one, self.two = nn.Linear(6, 3), activation(), activation()
        self.double()

    def forward(self, x):
        inner = self.one(self.first(x))
        return self.last(inner + self.two(self.second(inner))) + self.past(x)


@pytest.mark.parametrize("activation", [nn.Softplus, nn.Tanh, nn.ReLU])
def test_the_forward_pass_is_the_model_s(activation):
    model, x = Skipping(activation).eval(), normal(7, 6)
    network = extract(model, x.shape[1:])
    inner, logits = network.forward(x)
    torch.testing.assert_close(logits, model(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(inner[0], model.first(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(inner[1], model.second(model.one(model.first(x))), rtol=0, atol=1e-12)
    assert network.inner == {0}
    assert INPUT in network.logits.matrices


def test_the_base_holds_every_matrix_that_multiplies_the_input():
    model, x = Skipping(nn.Tanh).eval(), normal(2, 6)
    network = extract(model, x.shape[1:])
    torch.testing.assert_close(network.base[network.blocks[0]], model.first.weight)
    torch.testing.assert_close(network.base[network.blocks[len(network.layers)]], model.past.weight)
    torch.testing.assert_close(network.lengths, network.base.norm(dim=1))
    torch.testing.assert_close(network.gram, network.base @ network.base.T)


@pytest.mark.parametrize(
    ("activation", "smooth", "piecewise"), [(nn.Softplus, True, False), (nn.ReLU, False, True)]
)
def test_kinds_of_networks(activation, smooth, piecewise):
    network = extract(mlp(activation=activation), torch.Size([6]))
    assert (network.smooth, network.piecewise_linear) == (smooth, piecewise)


def test_a_layer_that_does_not_see_the_input_is_the_same_for_every_row():
    network = extract(mlp(), torch.Size([6]))
    constant = preactivation(type(network.logits)("none", None, {}, normal(3)), {INPUT: normal(4, 6)})
    assert torch.equal(constant, normal(3).expand(4, 3))


def ugly(rows, features):
    """Rows of very different lengths, two of them equal, one nearly so and one zero."""
    weights = normal(rows, features) * torch.logspace(-3, 3, rows).double().unsqueeze(1)
    weights[1], weights[2], weights[3] = weights[0], weights[0] * (1 + 1e-9), 0.0
    model = mlp(features, hidden=rows)
    model[0].weight.data.copy_(weights)
    return extract(model, torch.Size([features]))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frame_keeps_lengths_and_angles(monkeypatch, frozen):
    monkeypatch.setattr(networks, "LONG", 0)
    network = ugly(7, 50)
    if frozen:
        network = network.where(torch.arange(50) % 3 > 0)
    assert network.frame.shape == (7, 7)
    v = torch.cat(
        [normal(9, 7, seed=4), torch.tensor([[1.0, -1, 0, 5, 0, 0, 0], [1.0, 0, -1, 0, 0, 0, 0]]).double()]
    )
    apart = ((v @ network.frame).norm(dim=1) - (v @ network.moving).norm(dim=1)).abs()
    # what the dual bound charges is ten times that, and as much again for the rounding of its terms
    assert (apart <= 1e-12 * (v.abs() @ network.lengths)).all()


def test_there_is_no_frame_where_it_would_not_be_shorter_or_not_close(monkeypatch):
    assert ugly(7, 50).frame.shape == (7, 50)
    monkeypatch.setattr(networks, "LONG", 0)
    assert ugly(7, 13).frame.shape == (7, 13)
    monkeypatch.setattr(networks, "CLOSE_FRAME", 0.0)
    assert ugly(7, 50).frame.shape == (7, 50)
