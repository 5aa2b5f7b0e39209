"""Ranges of activations: they hold what a fine grid holds, and no more."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et.enclosure import Smooth, register
from r2et.enclosure.activations import _KNOWN, LeakyReLU, MaxPool, activation, known
from r2et.errors import InputError, ModelError

SMOOTH = {
    "softplus 1": nn.Softplus(),
    "softplus 5": nn.Softplus(5.0),
    "softplus 1, threshold 2": nn.Softplus(1.0, threshold=2.0),
    "softplus 5, threshold 2": nn.Softplus(5.0, threshold=2.0),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
}
#: where PyTorch's softplus and its derivative jump, by name
SWITCH = {"softplus 1": 20.0, "softplus 5": 4.0, "softplus 1, threshold 2": 2.0, "softplus 5, threshold 2": 0.4}


class Square(nn.Module):
    def forward(self, z):
        return z * z


@pytest.fixture
def square():
    before = dict(_KNOWN)
    register(
        Square,
        lambda layer: Smooth(lambda z: z * z, lambda z: 2 * z, lambda z: torch.full_like(z, 2.0)),
    )
    yield Square()
    _KNOWN.clear()
    _KNOWN.update(before)


def derivatives(layer, z):
    """sigma', sigma'' and sigma''' of what PyTorch computes, by autograd."""
    z = z.clone().requires_grad_()
    first = torch.autograd.grad(layer(z).sum(), z, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), z, create_graph=True)[0]
    third = torch.autograd.grad(second.sum(), z)[0]
    return first.detach(), second.detach(), third


def interval(lower, upper):
    return torch.tensor([[lower]], dtype=torch.float64), torch.tensor([[upper]], dtype=torch.float64)


def check_ranges(name, low, high, points=4001):
    """Slope, curvature and twist hold all of a grid's values, and the grid comes close to both ends."""
    layer, found = SMOOTH[name], activation(SMOOTH[name])
    grid = torch.linspace(low, high, points, dtype=torch.float64)
    ranges = (
        found.slope(*interval(low, high)),
        found.curvature(*interval(low, high)),
        found.twist(*interval(low, high)),
    )
    below = grid < SWITCH.get(name, math.inf)
    tolerance = 1e-6 + (high - low) / points * 20
    for (least, most), values in zip(ranges, derivatives(layer, grid), strict=True):
        inside = values[below] if bool(below.any()) else None
        if inside is None:
            continue
        assert float(inside.min()) >= float(least) - 1e-14
        assert float(inside.max()) <= float(most) + 1e-14
        if bool(below.all()):
            assert float(inside.min()) <= float(least) + tolerance
            assert float(inside.max()) >= float(most) - tolerance


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=40, deadline=None)
@given(center=st.floats(-12, 12), width=st.floats(0, 8))
def test_ranges_hold_a_fine_grid_and_are_tight(name, center, width):
    check_ranges(name, center - width / 2, center + width / 2)


@pytest.mark.parametrize("name", SMOOTH)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_narrow_ranges_around_turning_points(name, data):
    """Here tightness is checked to 1e-6: the grid is as fine as the interval is narrow."""
    found = activation(SMOOTH[name])
    turn = data.draw(st.sampled_from((*found.slope_turns, *found.curvature_turns, *found.twist_turns)))
    shift, width = data.draw(st.floats(-1e-4, 1e-4)), data.draw(st.floats(1e-9, 3e-4))
    check_ranges(name, turn + shift - width / 2, turn + shift + width / 2)


@pytest.mark.parametrize("name", SMOOTH)
def test_turning_points_are_zeros_of_the_next_derivative(name):
    found = activation(SMOOTH[name])
    assert found.smooth
    for function, turns in (
        (found._slope, found.slope_turns),
        (found._curvature, found.curvature_turns),
        (found._twist, found.twist_turns),
    ):
        grid = torch.linspace(-9.0, 9.0, 180_001, dtype=torch.float64)
        values = function(grid)
        steps = values.diff()
        turned = (steps[1:] * steps[:-1] < 0) & (steps[1:].abs() + steps[:-1].abs() > 1e-12)
        seen = grid[1:-1][turned].tolist()
        assert len(seen) == len(turns)
        for one, other in zip(seen, sorted(turns), strict=True):
            assert one == pytest.approx(other, abs=2e-4)
        for turn in turns:
            z = torch.tensor(turn, dtype=torch.float64, requires_grad=True)
            slope = torch.autograd.grad(function(z), z)[0]
            assert float(slope) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_end_points(name):
    layer, found = SMOOTH[name], activation(SMOOTH[name])
    z = torch.linspace(-30, 30, 997, dtype=torch.float64)
    assert torch.equal(found.value(z), layer(z))
    below = z < SWITCH.get(name, math.inf)
    ranges = found.slope(z, z), found.curvature(z, z), found.twist(z, z)
    for (least, most), values in zip(ranges, derivatives(layer, z), strict=True):
        assert torch.equal(least, most)
        assert torch.allclose(least[below], values[below], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", SWITCH)
def test_what_pytorch_leaves_out_of_softplus_is_bounded_and_attained(name):
    layer, found = SMOOTH[name], activation(SMOOTH[name])
    z = torch.linspace(SWITCH[name] - 2, SWITCH[name] + 3, 20_001, dtype=torch.float64)
    exact = torch.nn.functional.softplus(z, layer.beta, 1e9)
    slope = derivatives(layer, z)[0]
    for error, bound in (
        ((layer(z) - exact).abs(), found.value_error(z)),
        ((slope - torch.sigmoid(layer.beta * z)).abs(), found.slope_error(z)),
    ):
        assert (error <= bound + 1e-14).all()
        assert float(error.max()) >= 0.99 * float(bound.max()) - 1e-14
        assert float(bound[0]) == 0.0 < float(bound[-1])


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "gelu", "silu"])
def test_pytorch_computes_the_others_as_they_are(name):
    z = torch.zeros(3)
    assert activation(SMOOTH[name]).value_error(z) is None
    assert activation(SMOOTH[name]).slope_error(z) is None


@pytest.mark.parametrize("slope", [0.0, 0.01, 0.3, -0.5, 2.0])
@settings(max_examples=40, deadline=None)
@given(low=st.floats(-3, 3), width=st.floats(0, 3))
def test_kinked_slopes(slope, low, width):
    found = activation(nn.LeakyReLU(slope))
    assert not found.smooth
    grid = torch.linspace(low, low + width, 101, dtype=torch.float64)
    values = torch.where(grid > 0, torch.ones_like(grid), slope)
    if low <= 0 <= low + width:
        values = torch.tensor([slope, 1.0], dtype=torch.float64)
    least, most = found.slope(*interval(low, low + width))
    assert float(least) == float(values.min())
    assert float(most) == float(values.max())
    assert torch.equal(found.value(grid), nn.functional.leaky_relu(grid, slope))
    assert all(float(end) == 0.0 for end in found.curvature(*interval(low, low + width)))


def test_relu_is_leaky_with_slope_zero():
    assert activation(nn.ReLU()) == LeakyReLU(0.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 2))
def test_max_pool_slopes_hold_every_choice(seed, spread):
    source = torch.Generator().manual_seed(seed)
    valid = torch.rand(5, 4, generator=source) < 0.8
    valid[:, 0] = True
    pool = MaxPool(valid)
    z = torch.randn(1, 20, generator=source, dtype=torch.float64)
    width = spread * torch.rand(1, 20, generator=source, dtype=torch.float64)
    least, most = pool.slope(z - width, z + width)
    drawn = z + (2 * torch.rand(500, 20, generator=source, dtype=torch.float64) - 1) * width
    winners = pool.winner(drawn).flatten(1).double()
    assert (winners >= least).all()
    assert (winners <= most).all()
    # attained: with an entry at its top and the rest at their bottom it wins, if it can
    for entry in (most[0] == 1).nonzero().squeeze(1).tolist():
        corner = (z - width).clone()
        corner[0, entry] = (z + width)[0, entry]
        assert bool(pool.winner(corner).flatten(1)[0, entry]) or float(width.max()) == 0.0
    for entry in ((least[0] == 0) & (most[0] == 1)).nonzero().squeeze(1).tolist():
        corner = (z + width).clone()
        corner[0, entry] = (z - width)[0, entry]
        assert not bool(pool.winner(corner).flatten(1)[0, entry])
    values = pool.value(drawn).unflatten(1, (5, 4)).sum(-1)
    assert torch.equal(values, drawn.unflatten(1, (5, 4)).masked_fill(~valid, -math.inf).amax(-1))


def test_a_tie_in_a_window_is_open():
    pool = MaxPool(torch.ones(1, 3, dtype=torch.bool))
    z = torch.tensor([[1.0, 1.0, 0.0]])
    least, most = pool.slope(z, z)
    assert least.tolist() == [[0.0, 0.0, 0.0]]
    assert most.tolist() == [[1.0, 1.0, 0.0]]


def test_gelu_by_tanh_is_an_error():
    with pytest.raises(ModelError, match=r"GELU\(approximate='tanh'\) has no enclosure"):
        activation(nn.GELU("tanh"))


def test_register_makes_an_activation_known(square):
    assert known(square)
    ends = interval(-1.0, 3.0)
    assert [float(end) for end in activation(square).slope(*ends)] == [-2.0, 6.0]
    assert [float(end) for end in activation(square).curvature(*ends)] == [2.0, 2.0]


@pytest.mark.parametrize("kind", [Square(), "Square", int])
def test_register_takes_classes_of_modules(kind):
    with pytest.raises(InputError, match="register takes a class of modules"):
        register(kind, lambda layer: LeakyReLU())


def test_a_subclass_may_do_something_else():
    class Odd(nn.Tanh):
        pass

    assert known(nn.Tanh())
    assert not known(Odd())
    assert not known(nn.ELU())
