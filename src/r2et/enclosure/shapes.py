"""Functions of one feature that are sums over units, enclosed between edges by parabolas.

On a cell from a to b a function is nowhere below chord - M / 2 (x - a) (b - x) if its second derivative is nowhere
above M, which is enclosed unit by unit. At the edges that is exact; in between it is as far off as the second
derivative changes on the cell.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import Softplus
from r2et.enclosure.network import ROUNDING
from r2et.enclosure.ranges import extent

#: how close to a function its parabolas need not come, as a share of its size
FINEST = 1e-14
#: where the first cells of a unit end, in beta (w x + b): beyond the last its slope is as good as constant
PLACES = (0.0, 2.0, 5.0, 12.0, 40.0)
#: no edge lies beyond
FARTHEST = 1e12
#: secants after which the zero of a function on a short cell is known
SECANTS = 5
#: charged for sums of many terms, as a share of the largest they can be
SUMS = 1e-12


class Grading(NamedTuple):
    """How a table is divided.

    Attributes:
        cells: how many, about.
        flat: a function that is this share as steep as where it is steepest counts as flat: flatter parts get no
            shorter cells.
    """

    cells: int
    flat: float


#: for all rows, and for those whose lists depend on where a curve is nearly flat
COARSE, FINER = Grading(1000, 1e-2), (Grading(6000, 1e-5), Grading(30000, 1e-6))


class Pieces(NamedTuple):
    """What is known of one function on M cells and the two tails.

    Attributes:
        edges: (M + 1,).
        values: there, (M + 1,).
        bends: the smallest and the largest second derivative on each cell, (M, 2).
        charges: how far the function may be from what is said here, (M,).
        tails: smallest and largest value where the left and the right tail begin, then the same of slopes, (2, 4).
    """

    edges: Tensor
    values: Tensor
    bends: Tensor
    charges: Tensor
    tails: Tensor


@dataclass(frozen=True)
class Shape:
    """shift + tilt x + sum of size * phi(steep x + bias) over units (U,); phi is softplus, or its slope.

    Above its switch PyTorch's softplus is straight, and so is phi here.
    """

    shift: float
    tilt: float
    size: Tensor
    steep: Tensor
    bias: Tensor
    activation: Softplus
    of_slopes: bool

    def at(self, x: Tensor) -> Tensor:
        """Its values at x (M,)."""
        return self.shift + self.tilt * x + (self._phi(self._arguments(x)) * self.size).sum(1)

    def edges(self, grading: Grading) -> Tensor:
        """Cells that are short where the second derivative changes; some end at zeros, (M + 1,)."""
        edges = self._first_edges()
        bends = self.bends(edges)
        off = ((bends[1] - bends[0]) * edges.diff().square() / 8).nan_to_num(nan=0.0, posinf=1e300)
        steep = (self.at(edges).diff() / edges.diff()).abs().nan_to_num(nan=0.0, posinf=0.0)
        # where a function hardly changes, a small error in it is a large one in where it is at a level
        steepest = steep.amax().clamp_min(1e-300)
        root = (off / (steep / steepest + grading.flat)) ** (1 / 3)
        coarsest = float(root.sum()) / max(1, grading.cells - len(edges))
        finest = (FINEST * self._total()) ** (1 / 3)
        parts = (root / max(coarsest, finest, 1e-300)).ceil().clamp(1, grading.cells).long()
        width = edges.diff() / parts
        number = torch.arange(int(parts.sum()), device=edges.device)
        number = number - (parts.cumsum(0) - parts).repeat_interleave(parts)
        inner = edges[:-1].repeat_interleave(parts) + number * width.repeat_interleave(parts)
        edges = torch.cat([inner, edges[-1:], *self._zeros_beyond(edges[[0, -1]])]).sort().values
        # sorted: rounding must not put an edge behind the next one
        return torch.cat([edges, self._zeros(edges)]).sort().values

    def _first_edges(self) -> Tensor:
        switch = self.activation.switch * self.activation.beta
        places = torch.tensor([*(-place for place in PLACES[1:]), *PLACES, switch]).to(self.steep)
        z = places / self.activation.beta
        start = ((z.unsqueeze(1) - self.bias) / self.steep).clamp(-FARTHEST, FARTHEST).nan_to_num(nan=0.0)
        edges = start.flatten().unique() if start.numel() else start.new_zeros(1)
        return edges if len(edges) > 1 else torch.stack([edges[0] - 1, edges[0] + 1])

    def _zeros_beyond(self, ends: Tensor) -> list[Tensor]:
        """Where a function that is straight beyond its cells is zero there, nearly."""
        if self.of_slopes:
            return []
        limits = torch.stack([(self.steep < 0), (self.steep > 0)]).to(ends)
        places = ends - self.at(ends) / (self.tilt + (limits * self.size * self.steep).sum(1))
        beyond = (torch.stack([places[0] < ends[0], places[1] > ends[1]])) & (places.abs() < FARTHEST)
        return [places[beyond]]

    def _zeros(self, edges: Tensor) -> Tensor:
        """Where the function is zero between two edges at which it has different signs, nearly."""
        values = self.at(edges)
        cells = ((values[1:] > 0) != (values[:-1] > 0)).nonzero().flatten()
        (low, high), (before, after) = ((part[cells], part[cells + 1]) for part in (edges, values))
        place = low
        for _ in range(SECANTS if len(cells) else 0):
            place = (low + (high - low) * (before / (before - after)).nan_to_num(nan=0.5)).clamp(low, high)
            value = self.at(place)
            same = (value > 0) == (before > 0)
            low, before = torch.where(same, place, low), torch.where(same, value, before)
            high, after = torch.where(same, high, place), torch.where(same, after, value)
        return place

    def bends(self, edges: Tensor) -> Tensor:
        """The smallest and the largest second derivative on each cell, (2, M)."""
        beta = self.activation.beta

        def second(z: Tensor) -> Tensor:
            return beta * torch.sigmoid(beta * z) * torch.sigmoid(-beta * z)

        def third(z: Tensor) -> Tensor:
            return beta * second(z) * (1 - 2 * torch.sigmoid(beta * z))

        turn = math.log(2 + math.sqrt(3)) / beta
        low, high = self._ranges(edges)
        ends = extent(third, low, high, (-turn, turn)) if self.of_slopes else extent(second, low, high, (0.0,))
        # nothing bends above the switch
        straight = low > self.activation.switch + self._blur(edges)
        factor = self.size * self.steep.square()
        least, most = (torch.where(straight, 0.0, end) * factor for end in ends)
        room = SUMS * torch.maximum(least.abs(), most.abs()).sum(1)
        return torch.stack([torch.minimum(least, most).sum(1) - room, torch.maximum(least, most).sum(1) + room])

    def pieces(self, edges: Tensor) -> Pieces:
        """What is known between these edges (M + 1,)."""
        return Pieces(edges, self.at(edges), self.bends(edges).T, self._charges(edges), self._tails(edges))

    def _tails(self, edges: Tensor) -> Tensor:
        ends = edges[[0, -1]]
        # what the slope of softplus is at the end of the cells, and what it tends to
        limits = torch.stack([(self.steep < 0), (self.steep > 0)]).to(edges)
        slopes = torch.stack([torch.sigmoid(self.activation.beta * self._arguments(ends)), limits])
        factor = self.size if self.of_slopes else self.size * self.steep
        offset = self.shift if self.of_slopes else self.tilt
        low, high = (offset + end.sum(1) for end in ((slopes * factor).amin(0), (slopes * factor).amax(0)))
        room = self.activation.slope_jump * factor.abs().sum() + SUMS * (factor.abs().sum() + abs(offset))
        rounding = self._rounding(ends.abs())
        if self.of_slopes:
            room = room + rounding
            return torch.stack([low - room, high + room, torch.zeros_like(low), torch.zeros_like(low)], 1)
        values, jump = self.at(ends), rounding + self.activation.value_jump * self.size.abs().sum()
        return torch.stack([values - jump, values + jump, low - room, high + room], 1)

    def _arguments(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1) * self.steep + self.bias

    def _phi(self, z: Tensor) -> Tensor:
        if not self.of_slopes:
            return self.activation.value(z)
        return torch.where(z > self.activation.switch, 1.0, torch.sigmoid(self.activation.beta * z))

    def _ranges(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """The arguments of units on each cell, smallest and largest, (M, U) each."""
        z = self._arguments(edges)
        return torch.minimum(z[:-1], z[1:]), torch.maximum(z[:-1], z[1:])

    def _blur(self, edges: Tensor) -> Tensor:
        """What rounding may do to arguments on each cell, (M, U)."""
        far = torch.maximum(edges[:-1].abs(), edges[1:].abs())
        return ROUNDING * (far.unsqueeze(1) * self.steep.abs() + self.bias.abs())

    def _charges(self, edges: Tensor) -> Tensor:
        """What rounding and the switch of softplus may do on each cell, (M,)."""
        low, high = self._ranges(edges)
        blur, switch = self._blur(edges), self.activation.switch
        near = (low <= switch + blur) & (high >= switch - blur)
        jump = self.activation.slope_jump if self.of_slopes else self.activation.value_jump
        far = torch.maximum(edges[:-1].abs(), edges[1:].abs())
        return (near * self.size.abs()).sum(1) * jump + self._rounding(far)

    def _rounding(self, far: Tensor) -> Tensor:
        """What rounding may do to values up to |x| = far (M,), (M,)."""
        size = self.size.abs()
        arguments = far.unsqueeze(1) * self.steep.abs() + self.bias.abs()
        if self.of_slopes:
            # a unit whose argument is rounded has another slope; it changes by no more than all of it
            rounded = (size * (self.activation.beta * ROUNDING * arguments).clamp_max(1.0)).sum(1)
            return rounded + SUMS * self._total()
        heights = arguments + 1 / self.activation.beta
        return SUMS * ((size * heights).sum(1) + abs(self.tilt) * far + abs(self.shift))

    def _total(self) -> float:
        return float(self.size.abs().sum()) + abs(self.shift)
