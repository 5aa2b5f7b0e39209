"""The smallest value of beta sigma'(z + y) - slope y on an interval of y, neuron by neuron."""

from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import INFLATION, EnclosedActivation, LeakyReLU

#: pieces of an interval where the places of a given curvature are not known
PIECES = 16

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
    return _smallest(
        [beta * activation.slope_at(z + y) - slope * y for y in (low, high, *inner)], [low, high, *inner]
    )


def _with_hinge(left: float, neurons: Neurons, slope: Tensor) -> Least:
    """Straight on either side of y = -z, where both sides count."""
    beta, z, low, high = neurons
    hinge = torch.minimum(torch.maximum(-z, low), high)
    values, places = [], []
    for steep, there, ends in ((left, z + low <= 0, (low, hinge)), (1.0, z + high >= 0, (hinge, high))):
        for end in ends:
            values.append(torch.where(there, steep * beta - slope * end, torch.inf))
            places.append(end)
    return _smallest(values, places)


def _by_pieces(activation: EnclosedActivation, neurons: Neurons, slope: Tensor) -> Least:
    """On each piece the better one of two bounds: from the range of sigma', and from its middle and sigma''."""
    beta, z, low, high = neurons
    half = (high - low) / (2 * PIECES)
    values, places = [], []
    for number in range(PIECES):
        middle = low + (2 * number + 1) * half
        # a little longer than the piece, so that rounding leaves no gap between two
        ends = z + middle - half * (1 + INFLATION), z + middle + half * (1 + INFLATION)
        flat = torch.minimum(*(beta * end for end in _wider(activation.slope(*ends)))) - slope.abs() * half
        curved = [beta * end - slope for end in _wider(activation.curvature(*ends))]
        steepest = torch.maximum(curved[0].abs(), curved[1].abs())
        tangent = beta * activation.slope_at(z + middle) - steepest * half * (1 + INFLATION)
        values.append(torch.maximum(flat - slope * middle, tangent - slope * middle))
        places.append(middle)
    return _smallest(values, places)


def _wider(ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A range with a little more on both sides."""
    more = INFLATION * torch.maximum(ends[0].abs(), ends[1].abs())
    return ends[0] - more, ends[1] + more


def _smallest(values: list[Tensor], places: list[Tensor]) -> Least:
    value, place = values[0], places[0]
    for other, where in zip(values[1:], places[1:], strict=True):
        # written so that a NaN stays
        better = ~(other >= value)
        value, place = torch.where(better, other, value), torch.where(better, where, place)
    return value, place
