"""A network read into affine maps computes what the model computes."""

import pytest
import torch
from torch import nn

from r2et.enclosure import extract
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
