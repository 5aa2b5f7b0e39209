"""Ranges from end points and turning points, against fine grids."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.enclosure.ranges import Smooth, extent
from r2et.errors import InputError


@settings(max_examples=50, deadline=None)
@given(low=st.floats(-7, 7), width=st.floats(0, 14))
def test_extent_of_a_cosine(low, width):
    turns = [i * math.pi for i in range(-7, 8)]
    least, most = extent(
        torch.cos, *(torch.tensor([end], dtype=torch.float64) for end in (low, low + width)), turns
    )
    values = torch.linspace(low, low + width, 5001, dtype=torch.float64).cos()
    assert float(least) == pytest.approx(float(values.min()), abs=1e-5)
    assert float(most) == pytest.approx(float(values.max()), abs=1e-5)
    assert float(least) <= float(values.min()) + 1e-15
    assert float(most) >= float(values.max()) - 1e-15


def test_a_third_derivative_is_known_only_where_it_is_given():
    cube = {
        "value": lambda z: z**3,
        "slope": lambda z: 3 * z**2,
        "curvature": lambda z: 6 * z,
        "slope_turns": (0.0,),
    }
    ends = torch.tensor([-1.0]), torch.tensor([2.0])
    assert Smooth(**cube).twist(*ends) is None
    low, high = Smooth(**cube, twist=lambda z: torch.full_like(z, 6.0)).twist(*ends)
    assert float(low) == float(high) == 6.0


@pytest.mark.parametrize("name", ["value", "slope", "curvature", "twist", "places"])
def test_formulas_are_functions(name):
    formulas = dict.fromkeys(("value", "slope", "curvature"), torch.sin) | {name: 3.0}
    with pytest.raises(InputError, match=name):
        Smooth(**formulas)
