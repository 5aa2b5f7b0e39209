"""Lines on pieces against a fine grid, alone and in sums; and controls that must be caught."""

import pytest
import torch
from torch import nn

from r2et.enclosure.activations import activation
from r2et.enclosure.linear_pieces import Lines, Pieces, slope_lines, value_lines
from tests.models_with_answers import generator

ACTIVATIONS = (
    nn.Softplus(),
    nn.Softplus(5.0),
    nn.Softplus(1000.0),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.SiLU(),
    nn.ReLU(),
    nn.LeakyReLU(0.2),
)
RELU, COUNT = ACTIVATIONS[7], 8


def drawn(count, seed=0):
    """Pre-activations and ends (count,), some of them zero."""
    source = generator(seed)
    z = 3 * torch.randn(count, generator=source, dtype=torch.float64)
    ends = 10 ** (3 * torch.rand(count, generator=source, dtype=torch.float64) - 2)
    z[::9], ends[::11] = 0.0, 0.0
    return z, ends


def grid(pieces):
    """Places t on every piece, from end to end, (G, ..., 1), and y, (G, ..., P)."""
    t = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None, None] * pieces.half
    return t, t + pieces.middle


def apart(function, lines, pieces):
    """The smallest and the largest distance of a function from its lines, (..., P)."""
    t, y = grid(pieces)
    rest = function(y) - lines.value - lines.slope * t
    return rest.amin(0), rest.amax(0)


def charge(known, z, pieces):
    """What PyTorch's softplus may differ by, charged elsewhere."""
    jump = known.value_error(z[:, None] + pieces.middle + pieces.half)
    return 0.0 if jump is None else 2 * jump


def both(known, z, pieces):
    return (
        (lambda y: known.value(z[:, None] + y), value_lines(known, z, pieces).closed()),
        (lambda y: known.slope_at(z[:, None] + y), slope_lines(known, z, pieces)),
    )


@pytest.mark.parametrize("module", ACTIVATIONS, ids=repr)
def test_functions_stay_around_their_lines(module):
    known = activation(module)
    z, ends = drawn(400)
    pieces = Pieces.of(ends, COUNT)
    for function, lines in both(known, z, pieces):
        low, high = apart(function, lines, pieces)
        assert (lines.low <= low + charge(known, z, pieces)).all()
        assert (high <= lines.high + charge(known, z, pieces)).all()


@pytest.mark.parametrize("module", ACTIVATIONS[:7], ids=repr)
def test_remainders_shrink_with_the_square_of_a_piece(module):
    known = activation(module)
    z, ends = torch.zeros(1).double() + 0.01, torch.ones(1).double() / getattr(module, "beta", 1.0)
    for number in range(2):
        wide, narrow = (both(known, z, Pieces.of(ends, count))[number][1] for count in (16, 64))
        before, after = ((lines.high - lines.low).amax() for lines in (wide, narrow))
        assert float(after) < float(before) / 8


@pytest.mark.parametrize("module", ACTIVATIONS, ids=repr)
def test_sums_stay_around_sums_of_lines_and_what_is_common_cancels(module):
    known = activation(module)
    z, ends = drawn(300)
    near, far = z + 0.01, z + 1.0
    pieces = Pieces.of(ends, COUNT)
    parts = ((z, 1.0), (near, -0.7), (far, -0.3))
    total, loose = None, 0.0
    for place, share in parts:
        each = value_lines(known, place, pieces).times(torch.full((300, 1), share, dtype=torch.float64))
        total = each if total is None else total.plus(each)
        loose = loose + (each.closed().high - each.closed().low)
    lines = total.closed()
    low, high = apart(lambda y: sum(share * known.value(p[:, None] + y) for p, share in parts), lines, pieces)
    assert (lines.low <= low + charge(known, far, pieces)).all()
    assert (high <= lines.high + charge(known, far, pieces)).all()
    assert ((lines.high - lines.low) <= loose * (1 + 1e-9)).all()
    if known.smooth and getattr(module, "beta", 1.0) < 100:
        assert ((lines.high - lines.low) < 0.9 * loose).any()


@pytest.mark.parametrize("part", ["low", "high"])
@pytest.mark.parametrize("module", [ACTIVATIONS[3], RELU], ids=repr)
def test_remainders_that_are_left_out_are_caught(module, part):
    known = activation(module)
    z, ends = drawn(400)
    pieces = Pieces.of(ends, COUNT)
    caught = []
    for function, lines in both(known, z, pieces):
        wrong = lines._replace(**{part: getattr(lines, part) * 0.5})
        low, high = apart(function, wrong, pieces)
        caught.append(bool(((low < wrong.low) | (high > wrong.high)).any()))
    # nothing is above a chord of ReLU itself
    assert caught == [part == "low" or module != RELU, True]


def test_rounding_is_kept_when_remainders_are_closed():
    one = torch.ones(1)
    lines = Lines(one, one, one, 2 * one, 0.25 * one).closed()
    assert [float(part) for part in lines] == [1.0, 1.0, -0.25, 2.25, 0.0]


def test_what_is_not_a_number_stays_so():
    lines = value_lines(activation(nn.Tanh()), torch.tensor([torch.nan]), Pieces.of(torch.ones(1), 2)).closed()
    assert lines.low.isnan().all()
