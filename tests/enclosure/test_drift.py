"""How far derivatives of activations drift: no point of an interval is farther from the middle."""

import pytest
import torch
from torch import nn

from r2et.enclosure.activations import activation
from r2et.enclosure.drift import Derivatives, at_point, drifted
from tests.models_with_answers import normal

SMOOTH = (nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU())


@pytest.mark.parametrize("module", SMOOTH, ids=repr)
def test_no_point_drifts_farther(module):
    found, z = activation(module), 2 * normal(40, 3, seed=1)
    spread = torch.tensor([1e-3, 0.1, 1.0, 5.0], dtype=torch.float64).reshape(1, -1, 1) * normal(40, 1, 3).abs()
    at = at_point(found, z)
    far = drifted(found, at, z, spread)
    largest = [torch.zeros_like(part) for part in far]
    for share in torch.linspace(-1, 1, 401, dtype=torch.float64):
        there = at_point(found, z.unsqueeze(1) + share * spread)
        for part, (now, before) in enumerate(zip(there, at, strict=True)):
            largest[part] = torch.maximum(largest[part], (now - before.unsqueeze(1)).abs())
    for bound, seen in zip(far, largest, strict=True):
        # a slope is rounded to the precision of 1
        assert (seen <= bound + 1e-15).all()
        # and not much farther than a fine grid shows
        assert (bound <= seen * 1.05 + 1e-4).all()


def test_where_nothing_moves_only_the_last_digits_are_charged():
    found, z = activation(nn.Tanh()), normal(4, 3)
    far = drifted(found, at_point(found, z), z, torch.zeros(4, 1, 3, dtype=torch.float64))
    assert all(0 < float(part.max()) < 1e-11 for part in far)


def test_derivatives_of_some_inputs():
    all_of_them = Derivatives(normal(4, 2), normal(4, 2, seed=1), normal(4, 2, seed=2))
    some = all_of_them.of(torch.tensor([3, 3, 0]))
    assert torch.equal(some.bend, all_of_them.bend[[3, 3, 0]])
