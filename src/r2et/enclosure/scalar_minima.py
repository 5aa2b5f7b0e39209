"""The smallest value of beta sigma'(z + y) - slope y on an interval of y, neuron by neuron."""

from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import INFLATION, EnclosedActivation, LeakyReLU

#: pieces of an interval where the places of a given curvature are not known
PIECES = 16
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
    return _smallest(
        [beta * activation.slope_at(z + y) - slope * y for y in (low, high, *inner)], [low, high, *inner]
    )


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
    return _smallest(values, places)


def _by_pieces(activation: EnclosedActivation, neurons: Neurons, slope: Tensor) -> Least:
    """On each piece the better one of two bounds: from the range of sigma', and from its middle and sigma''."""
    half = (neurons.high - neurons.low) / (2 * PIECES)
    numbers = torch.arange(PIECES, dtype=half.dtype, device=half.device).reshape(-1, *[1] * half.ndim)
    values: list[Tensor] = []
    places: list[Tensor] = []
    for some in numbers.split(max(1, TOGETHER // max(1, half.numel()))):
        middle = neurons.low + (2 * some + 1) * half
        values += _on_pieces(activation, neurons, slope, middle, half).unbind()
        places += middle.unbind()
    return _smallest(values, places)


def _on_pieces(
    activation: EnclosedActivation, neurons: Neurons, slope: Tensor, middle: Tensor, half: Tensor
) -> Tensor:
    """Lower bounds on pieces around middles (P, ...) that reach half as far to both sides."""
    beta, z = neurons.beta, neurons.z
    # a little longer than the piece, so that rounding leaves no gap between two
    ends = z + middle - half * (1 + INFLATION), z + middle + half * (1 + INFLATION)
    flat = torch.minimum(*(beta * end for end in _wider(activation.slope(*ends)))) - slope.abs() * half
    curved = [beta * end - slope for end in _wider(activation.curvature(*ends))]
    steepest = torch.maximum(curved[0].abs(), curved[1].abs())
    tangent = beta * activation.slope_at(z + middle) - steepest * half * (1 + INFLATION)
    return torch.maximum(flat - slope * middle, tangent - slope * middle)


def _wider(ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A range with a little more on both sides."""
    more = INFLATION * torch.maximum(ends[0].abs(), ends[1].abs())
    return ends[0] - more, ends[1] + more


def _smallest(values: list[Tensor], places: list[Tensor]) -> Least:
    # a value that is not a number stays one
    value, which = torch.stack(values).min(0)
    return value, torch.stack(places).gather(0, which.unsqueeze(0)).squeeze(0)
