"""Boxes: arrays of intervals as centres and radii, with the few operations that enclosures need."""

from typing import NamedTuple

import torch
from torch import Tensor


class Box(NamedTuple):
    """All arrays within `radius` of `center`, entry by entry.

    >>> Box(torch.tensor([1.0]), torch.tensor([0.5])).times(Box(torch.tensor([2.0]), torch.tensor([0.0])))
    Box(center=tensor([2.]), radius=tensor([1.]))
    """

    center: Tensor
    radius: Tensor

    @staticmethod
    def between(lower: Tensor, upper: Tensor) -> "Box":
        """The box with these ends."""
        return Box((lower + upper) / 2, (upper - lower) / 2)

    @staticmethod
    def point(center: Tensor) -> "Box":
        """A box without extent."""
        return Box(center, torch.zeros_like(center))

    @property
    def lower(self) -> Tensor:
        """The lower ends."""
        return self.center - self.radius

    @property
    def upper(self) -> Tensor:
        """The upper ends."""
        return self.center + self.radius

    @property
    def magnitude(self) -> Tensor:
        """The largest absolute value of each entry."""
        return self.center.abs() + self.radius

    def plus(self, other: "Box | None") -> "Box":
        """Sums of members of both."""
        return self if other is None else Box(self.center + other.center, self.radius + other.radius)

    def times(self, other: "Box") -> "Box":
        """Products of members of both, entry by entry, by a cheap bound: the centre is the product of centres."""
        radius = self.center.abs() * other.radius + self.radius * other.magnitude
        return Box(self.center * other.center, radius)

    def exact_times(self, other: "Box") -> "Box":
        """The smallest box with all products of members of both, entry by entry."""
        ends = [a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        lower = torch.minimum(torch.minimum(ends[0], ends[1]), torch.minimum(ends[2], ends[3]))
        upper = torch.maximum(torch.maximum(ends[0], ends[1]), torch.maximum(ends[2], ends[3]))
        return Box.between(lower, upper)

    def mapped(self, matrix: Tensor, absolute: Tensor) -> "Box":
        """v @ matrix for the rows v of members; `absolute` is the matrix's absolute value."""
        return Box(self.center @ matrix, self.radius @ absolute)
