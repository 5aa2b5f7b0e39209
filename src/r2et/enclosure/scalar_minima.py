"""The smallest value of beta sigma'(z + y) - slope y - bend y^2 / 2 on an interval of y, neuron by neuron."""

from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import LeakyReLU
from r2et.enclosure.ranges import INFLATION, EnclosedActivation

#: pieces of an interval where the places of a given curvature are not known
PIECES = 16
#: nodes at which a search looks where there is a bend, and pieces for a proof
NODES, BENT_PIECES = 17, 32
#: numbers of all pieces that are worked on together: beyond that it only takes memory
TOGETHER = 2**16

#: a lower bound of the smallest value, and where it is about attained
Least = tuple[Tensor, Tensor]


class Neurons(NamedTuple):
    """beta sigma'(z + y) for low <= y <= high; all of one shape."""

    beta: Tensor
    z: Tensor
    low: Tensor
    high: Tensor


def has_minima(activation: EnclosedActivation | None) -> bool:
    """Whether `least` is for this activation: one function of one number, smooth or with one hinge at zero."""
    return activation is not None and (activation.smooth or isinstance(activation, LeakyReLU))


def least(activation: EnclosedActivation, neurons: Neurons, slope: Tensor) -> Least:
    """The smallest value of beta sigma'(z + y) - slope y over low <= y <= high, and its place.

    Exact up to rounding at ends and stationary points where the activation knows the places of a curvature, and
    for hinges; else from below, by pieces of the interval.

    >>> from r2et.enclosure.activations import Softplus
    >>> at = torch.tensor([0.0])
    >>> [round(float(part), 4) for part in least(Softplus(), Neurons(at + 1, at, at - 1, at + 1), at)]
    [0.2689, -1.0]
    """
    if isinstance(activation, LeakyReLU):
        return _with_hinge(activation.negative_slope, neurons, slope)
    beta, z, low, high = neurons
    places = activation.places(slope / beta)
    if places is None:
        return _by_pieces(activation, neurons, slope)
    inner = [torch.minimum(torch.maximum((place - z).nan_to_num(nan=0.0), low), high) for place in places]
    candidates = torch.stack([low, high, *inner])
    return _smallest(beta * activation.slope_at(z + candidates) - slope * candidates, candidates)


def _with_hinge(left: float, neurons: Neurons, slope: Tensor) -> Least:
    """Straight on either side of y = -z, where both sides count."""
    beta, z, low, high = neurons
    hinge = torch.minimum(torch.maximum(-z, low), high)
    values, places = [], []
    # what is not a number is on neither side, and counts
    for steep, absent, ends in ((left, z + low > 0, (low, hinge)), (1.0, z + high < 0, (hinge, high))):
        for end in ends:
            values.append(torch.where(absent, torch.inf, steep * beta - slope * end))
            places.append(end)
    return _smallest(torch.stack(values), torch.stack(places))


def _by_pieces(activation: EnclosedActivation, neurons: Neurons, slope: Tensor) -> Least:
    return _on_all_pieces(activation, neurons, (slope, torch.zeros_like(slope)), PIECES)


def least_bent(activation: EnclosedActivation, neurons: Neurons, slope: Tensor, bend: Tensor) -> Least:
    """A lower bound of the smallest value with a bend, by pieces of the interval, and a place, (F, h) each.

    >>> from r2et.enclosure.activations import Softplus
    >>> at = torch.tensor([0.0], dtype=torch.float64)
    >>> neurons = Neurons(at + 1, at, at - 1, at + 1)
    >>> bound, _ = least_bent(Softplus(), neurons, at, at - 1)    # sigmoid(y) + y^2 / 2
    >>> round(float(bound), 4), round(float(about_bent(Softplus(), neurons, at, at - 1)[0]), 4)
    (0.4691, 0.4691)
    """
    return _on_all_pieces(activation, neurons, (slope, bend), BENT_PIECES)


def about_bent(activation: EnclosedActivation, neurons: Neurons, slope: Tensor, bend: Tensor) -> Least:
    """Nearly the smallest value with a bend and its place, from nodes and a parabola: for a search, no bound.

    Args:
        activation: smooth.
        neurons: beta, z and the ends of y, (F, h) each.
        slope: (F, h).
        bend: (F, h).
    """
    width = (neurons.high - neurons.low) / (NODES - 1)
    numbers = torch.arange(NODES, dtype=width.dtype, device=width.device).reshape(-1, *[1] * width.ndim)
    places = neurons.low + numbers * width
    values = neurons.beta * activation.slope_at(neurons.z + places) - (slope + bend * places / 2) * places
    value, which = values.min(0)
    inner = which.clamp(1, NODES - 2).unsqueeze(0)
    left, middle, right = (values.gather(0, inner + step).squeeze(0) for step in (-1, 0, 1))
    turn = left - 2 * middle + right
    # at an end of the interval the parabola would leave it
    inside = (which > 0) & (which < NODES - 1) & (turn > 0)
    turn = turn.clamp_min(1e-300)
    step = torch.where(inside, (left - right) / (2 * turn), 0.0).clamp(-1, 1)
    lower = torch.where(inside, middle - (left - right).square() / (8 * turn), value)
    return torch.minimum(value, lower), neurons.low + (which + step) * width


def _on_all_pieces(
    activation: EnclosedActivation, neurons: Neurons, line: tuple[Tensor, Tensor], count: int
) -> Least:
    half = (neurons.high - neurons.low) / (2 * count)
    numbers = torch.arange(count, dtype=half.dtype, device=half.device).reshape(-1, *[1] * half.ndim)
    values, places = [], []
    for some in numbers.split(max(1, TOGETHER // max(1, half.numel()))):
        middle = neurons.low + (2 * some + 1) * half
        # a little longer than the piece, so that rounding leaves no gap between two
        value, place = _on_pieces(activation, neurons, line, middle, half * (1 + INFLATION))
        value, place = _smallest(value, place)
        values.append(value)
        places.append(place)
    value, place = _smallest(torch.stack(values), torch.stack(places))
    return value, torch.minimum(torch.maximum(place, neurons.low), neurons.high)


def _on_pieces(
    activation: EnclosedActivation, neurons: Neurons, line: tuple[Tensor, Tensor], middle: Tensor, half: Tensor
) -> Least:
    """Lower bounds on pieces around middles (P, ...) that reach half as far to both sides, and places."""
    beta, at = neurons.beta, neurons.z + middle
    slope, bend = line
    value = beta * activation.slope_at(at) - (slope + bend * middle / 2) * middle
    ends = at - half, at + half
    twist = activation.twist(*ends)
    steep = (slope + bend * middle).abs() + bend.abs() * half
    flat = torch.minimum(*(beta * end for end in wider(activation.slope(*ends)))) - steep * half
    flat = flat - (slope + bend * middle / 2) * middle
    if twist is None:
        curved = [beta * end - slope - bend * middle for end in wider(activation.curvature(*ends))]
        steepest = torch.maximum(curved[0].abs(), curved[1].abs()) + bend.abs() * half
        return torch.maximum(flat, value - steepest * half), middle
    tilt = beta * activation.curvature(at, at)[0] - slope - bend * middle
    turn = torch.minimum(*(beta * end for end in wider(twist))) - bend
    at_ends = value - tilt.abs() * half + turn * half.square() / 2
    vertex = (turn > 0) & (tilt.abs() <= turn * half)
    step = torch.where(vertex, -tilt / turn.clamp_min(1e-300), -half.copysign(tilt))
    # on a piece that is long, the range of sigma' says more
    return torch.maximum(torch.where(vertex, value + tilt * step / 2, at_ends), flat), middle + step


def wider(ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A range with a little more on both sides."""
    more = INFLATION * torch.maximum(ends[0].abs(), ends[1].abs())
    return ends[0] - more, ends[1] + more


def _smallest(values: Tensor, places: Tensor) -> Least:
    """Over the first axis; a value that is not a number stays one."""
    value, which = values.min(0)
    return value, places.gather(0, which.unsqueeze(0)).squeeze(0)
