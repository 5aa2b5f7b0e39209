"""Straight lines around sigma(z + y) and sigma'(z + y) on pieces of an interval of y.

On each piece y = middle + t, |t| <= half, a function is value + slope t plus a remainder between two numbers.
Lines of several functions add up: what is common to functions of one y cancels before anything is bounded.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import LeakyReLU
from r2et.enclosure.network import ROUNDING, SMALLEST
from r2et.enclosure.ranges import INFLATION, EnclosedActivation
from r2et.enclosure.scalar_minima import Neurons, least


class Lines(NamedTuple):
    """A function on pieces: value + slope t + [low, high], up to `blur`; all of one shape, (..., P).

    Remainders of smooth functions are curvatures times half^2 / 2: they add up as such, and `closed` is what holds
    for every t.
    """

    value: Tensor
    slope: Tensor
    low: Tensor
    high: Tensor
    blur: Tensor

    def times(self, factor: Tensor) -> "Lines":
        """The function times a number, (..., 1)."""
        ends = self.low * factor, self.high * factor
        return Lines(
            self.value * factor,
            self.slope * factor,
            torch.minimum(*ends),
            torch.maximum(*ends),
            self.blur * factor.abs(),
        )

    def plus(self, other: "Lines") -> "Lines":
        """The sum of two functions with remainders of one kind."""
        return Lines(*(mine + its for mine, its in zip(self, other, strict=True)))

    def closed(self) -> "Lines":
        """With remainders for every t, the middle included, and for what rounding may have moved."""
        low, high = self.low.clamp_max(0.0) - self.blur, self.high.clamp_min(0.0) + self.blur
        return Lines(self.value, self.slope, low, high, torch.zeros_like(low))


class Pieces(NamedTuple):
    """Equal pieces of intervals from -end to end.

    Attributes:
        middle: (..., P).
        half: (..., 1), a little longer than needed, so that rounding leaves no gap between two.
    """

    middle: Tensor
    half: Tensor

    @staticmethod
    def of(ends: Tensor, count: int) -> "Pieces":
        """`count` of them for each of the ends (...)."""
        numbers = torch.arange(count, dtype=ends.dtype, device=ends.device)
        share = (2 * numbers + 1) / count - 1
        return Pieces(ends.unsqueeze(-1) * share, ends.unsqueeze(-1) * ((1 + INFLATION) / count))


def value_lines(activation: EnclosedActivation, z: Tensor, pieces: Pieces) -> Lines:
    """Lines around sigma(z + y), (..., P), for z (...); not closed.

    >>> from r2et.enclosure.activations import Softplus
    >>> lines = value_lines(Softplus(), torch.zeros(1), Pieces.of(torch.ones(1), 1))
    >>> [round(float(part), 3) for part in lines[:4]]
    [0.693, 0.5, 0.098, 0.125]
    """
    at = z.unsqueeze(-1) + pieces.middle
    if isinstance(activation, LeakyReLU):
        return _with_hinge(activation, at, pieces.half)
    # the longest t and a little more: a curvature on a range that is too wide is a bound too
    low, high = activation.curvature(at - pieces.half, at + pieces.half)
    much, more = pieces.half.square() / 2, INFLATION * torch.maximum(low.abs(), high.abs())
    value, slope = activation.value(at), activation.slope_at(at)
    # in a tail, 1 + erf(z) and the like keep the precision of 1
    far = at.abs() + z.abs().unsqueeze(-1)
    blur = ROUNDING * (value.abs() + (1 + slope.abs()) * far) + SMALLEST
    return Lines(value, slope, (low - more) * much, (high + more) * much, blur)


def _with_hinge(activation: EnclosedActivation, at: Tensor, half: Tensor) -> Lines:
    """The chord of each piece; between the ends the function is farthest from it where the hinge is."""
    ends = activation.value(at - half), activation.value(at + half)
    slope = torch.where(half > 0, (ends[1] - ends[0]) / (2 * half), activation.slope_at(at))
    hinge = torch.minimum(torch.maximum(-at, -half), half)
    value = (ends[0] + ends[1]) / 2
    apart = activation.value(at + hinge) - slope * hinge - value
    blur = ROUNDING * (ends[0].abs() + ends[1].abs() + slope.abs() * half + at.abs())
    return Lines(value, slope, apart.clamp_max(0.0), apart.clamp_min(0.0), blur)


def slope_lines(activation: EnclosedActivation, z: Tensor, pieces: Pieces) -> Lines:
    """Lines around sigma'(z + y), (..., P), for z (...); closed.

    >>> from r2et.enclosure.activations import Softplus
    >>> lines = slope_lines(Softplus(), torch.zeros(1), Pieces.of(torch.ones(1), 1))
    >>> [round(float(part), 3) for part in lines[:4]]
    [0.5, 0.25, -0.019, 0.019]
    """
    at = z.unsqueeze(-1) + pieces.middle
    half = pieces.half.expand_as(at)
    value = activation.slope_at(at)
    if isinstance(activation, LeakyReLU):
        low, high = activation.slope(at - half, at + half)
        none = torch.zeros_like(at)
        return Lines(value, none, low - value, high - value, none)
    slope = torch.stack(activation.curvature(at, at)).mean(0)
    one = torch.ones_like(at)
    below = least(activation, Neurons(one, at, -half, half), slope)[0]
    above = -least(activation, Neurons(-one, at, -half, half), -slope)[0]
    # not smaller than what is left of sums of numbers of size 1
    blur = ROUNDING * (1 + value.abs() + slope.abs() * half)
    return Lines(value, slope, below - value, above - value, blur).closed()
