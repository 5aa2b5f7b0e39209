"""What functionals that are known to second order have in common."""

import torch
from torch import nn

from r2et.enclosure import Smooth, extract, register
from r2et.enclosure.second_order import Errors, coordinates, inverse, known_twists
from tests.models_with_answers import mlp, normal


def test_errors_are_averaged_added_and_widened():
    errors = Errors(normal(2, 3, 4).abs(), normal(2, 3, 5).abs(), normal(2, 3, 5, seed=1).abs())
    weights = normal(2, 3, seed=2).abs()
    mean = errors.mean(weights)
    for part, whole in zip(mean, errors, strict=True):
        assert torch.allclose(part, (weights.unsqueeze(2) * whole).sum(1))
    for part, twice in zip(errors, errors.plus(errors).inflated(), strict=True):
        assert torch.allclose(2 * part, twice)
        assert (twice > 2 * part).all()


def test_fewer_coordinates_keep_all_products():
    for shape in ((3, 7), (7, 3)):
        rows = normal(*shape)
        fewer = coordinates(rows)
        assert fewer.shape[1] == min(shape)
        assert torch.allclose(fewer @ fewer.T, rows @ rows.T)


def test_what_has_no_length_has_no_scale():
    assert inverse(torch.tensor([2.0, 0.0])).tolist() == [0.5, 0.0]
    assert inverse(torch.tensor([torch.nan])).tolist() == [0.0]


def test_third_derivatives_are_known_or_the_layer_is_named():
    assert known_twists(extract(mlp(5), (5,))) is None
    assert "layer '1' is not known" in known_twists(extract(mlp(5, activation=nn.ReLU), (5,)))

    class Sine(nn.Module):
        def forward(self, x):
            return x.sin()

    register(Sine, lambda module: Smooth(torch.sin, torch.cos, lambda z: -z.sin()))
    assert "layer '1' is not known" in known_twists(extract(mlp(5, activation=Sine), (5,)))
