"""Tilted bands: between two parallel lines there is less room than between two values."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from r2et.enclosure.box import Box
from r2et.enclosure.ranges import INFLATION

#: parts of an interval on which a function's range is asked for
PARTS = 16


class Range(Protocol):
    """The smallest and largest value of a function on intervals."""

    def __call__(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Each (..., N, m)."""


class Band(NamedTuple):
    """f(z + y) is within `radius` of `center` + `tilt` y, for all |y| <= spread; each (N, m)."""

    center: Tensor
    tilt: Tensor
    radius: Tensor

    def times(self, factor: Box) -> "Band":
        """The band of a product with an independent factor from a box (N, m)."""
        return Band(self.center * factor.center, self.tilt * factor.center, self.radius * factor.center.abs())


def band(values: Range, z: Tensor, spread: Tensor) -> Band:
    """A band around a function on [z - spread, z + spread], (N, m), from its ranges on parts of the interval.

    >>> def square(lower, upper):
    ...     ends = torch.stack([lower**2, upper**2])
    ...     return torch.where((lower < 0) & (upper > 0), 0.0, ends.amin(0)), ends.amax(0)
    >>> around = band(square, torch.tensor([[3.0]]), torch.tensor([[1.0]]))
    >>> float(around.tilt), bool(around.radius < 2)            # the range alone is 9 +- 7
    (6.0, True)
    """
    cuts = torch.linspace(-1, 1, PARTS + 1, dtype=z.dtype, device=z.device).reshape(-1, 1, 1) * spread
    low, high = values(z + cuts[:-1], z + cuts[1:])
    ends = [values(z + side, z + side)[0] for side in (-spread, spread)]
    tilt = torch.where(spread > 0, (ends[1] - ends[0]) / (2 * spread).clamp_min(torch.finfo(z.dtype).tiny), 0.0)
    lines = tilt * cuts
    upper = (high - torch.minimum(lines[:-1], lines[1:])).amax(0)
    lower = (low - torch.maximum(lines[:-1], lines[1:])).amin(0)
    size = torch.maximum(upper.abs(), lower.abs())
    return Band((upper + lower) / 2, tilt, (upper - lower) / 2 * (1 + INFLATION) + INFLATION * size)
