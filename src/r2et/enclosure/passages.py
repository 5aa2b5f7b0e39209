"""First passages: how far columns have to move until functions of them, bounded by tables, may be at a level."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.tables import ANCHOR, Tables, lowest

#: all but the last, all but the first
ENDS = (slice(None, -1), slice(1, None))


class Reached(NamedTuple):
    """Where levels are reached, each (N, m, P, S).

    Attributes:
        distance: inf if they are not.
        cell: of the table.
        slope: how fast the bound falls there; 0 if it jumps there, which it may where a cell begins.
    """

    distance: Tensor
    cell: Tensor
    slope: Tensor


@dataclass(frozen=True)
class Passages:
    """How far each of m columns has to move to the right until its function may be at or below a level.

    Attributes:
        table: of the functions.
        x: (N, m).
        own: the cells in which they are, (N, m).
        here: the bound at x, (N, m).
        rest: the smallest bound from x to the end of its cell, (N, m).
        column, function: where a column's cells, and those of its function, begin in flattened tables, (N, m).
        shift: what is added to a function of a row, (N, m).
    """

    table: Tables
    x: Tensor
    own: Tensor
    here: Tensor
    rest: Tensor
    column: Tensor
    function: Tensor
    shift: Tensor

    @staticmethod
    def of(table: Tables, x: Tensor, kind: Tensor, worth: Tensor, shift: Tensor | None = None) -> "Passages":
        """From x (N, m), for functions of these kinds (N, m), which may be as low as `worth` (N, m) at x.

        Args:
            table: of the functions.
            x: (N, m).
            kind: which of its functions, (N, m).
            worth: (N, m).
            shift: what is added to a function of a row, (N, m); None = nothing.
        """
        shift = torch.zeros_like(x) if shift is None else shift
        m, cells = table.begin.shape
        number = torch.arange(m, device=x.device)
        column, function = (number * cells).expand_as(kind), (kind * m + number) * cells
        # cell c ends at edge c
        own = torch.searchsorted(table.end[:, :-1].contiguous(), x.T.contiguous(), right=True).T
        curve = table.curve.flatten(0, 2)[function + own]
        here = torch.minimum(lowest(curve, x, x), worth - shift)
        rest = torch.minimum(lowest(curve, x, table.end.take(column + own)), here)
        return Passages(table, x, own, here, rest, column, function, shift)

    def at(self, rows: Tensor, columns: Tensor | None = None) -> "Passages":
        """Of some rows (R,), and of some columns of each (R, K), by their numbers; None = of all columns."""
        which = rows if columns is None else (rows.unsqueeze(1), columns)
        parts = (self.x, self.own, self.here, self.rest, self.column, self.function, self.shift)
        return Passages(self.table, *(part[which] for part in parts))

    def reached(self, level: Tensor) -> Reached:
        """Where levels (N, m, P, S) are reached, which decrease along the last axis."""
        cells, x, function = self.table.begin.shape[1], self.x[..., None, None], self.function[..., None, None]
        level = level - self.shift[..., None, None]
        cell = self._cells(level)
        never = cell == cells
        cell = cell.clamp_max(cells - 1)
        curve = torch.nn.functional.embedding(function + cell, self.table.curve.flatten(0, 2))
        # the anchor of the left tail is its end; whoever is in it starts at x
        start = torch.where(cell == 0, x, torch.maximum(curve[..., ANCHOR], x))
        along, slope = _to_the_level(curve, start, level)
        distance = (start - x).add_(along).masked_fill_(level >= self.here[..., None, None], 0.0)
        return Reached(distance.masked_fill_(never, torch.inf), cell, slope.masked_fill_(along <= 0, 0.0))

    def _cells(self, level: Tensor) -> Tensor:
        """In which cells levels (N, m, P, S) are reached; that after the last = never."""
        ends = self._sought((..., None, None), level[..., [0, -1]])
        cell = ends[..., :1].repeat(1, 1, 1, level.shape[3])
        cell[..., -1] = ends[..., 1]
        # what is between two levels that are reached in one cell is reached there too
        several = (ends[..., 0] != ends[..., 1]).nonzero(as_tuple=True)
        inner = several[0], several[1], several[2], slice(1, -1)
        cell[inner] = self._sought((several[0], several[1], None), level[inner])
        return cell

    def _sought(self, which: tuple[Any, ...], level: Tensor) -> Tensor:
        own = self.own[which]
        cell = self.table.first_at(self.function[which], own + 1, level)
        return torch.where(level >= self.rest[which], own, cell)

    def affine(self, reached: Reached, gaps: Tensor) -> Tensor:
        """Where affine functions of the level may end that begin at a distance and are not above later ones.

        Args:
            reached: levels (N, m, P, S + 1), each lower than the one before.
            gaps: how much, (N, m, P, S).

        Returns:
            For all but the last level what the function is at the next one, (N, m, P, S).
        """
        (near, first, slope), (far, last, later) = (Reached(*(part[..., at] for part in reached)) for at in ENDS)
        # on one cell the bound falls fastest at one of its ends
        inside = (slope > 0) & (first == last)
        steep = torch.where(inside, torch.maximum(slope, later), torch.inf)
        # at x itself the function may be anywhere below the level
        others = (~inside & (near > 0) & (last > first)).nonzero(as_tuple=True)
        column = self.column[others[0], others[1]]
        steep[others] = self.table.steepest(column, first[others], last[others])
        # a function that falls from the one level to the other takes this long
        end = torch.minimum(near + gaps / steep.clamp_min_(torch.finfo(gaps.dtype).tiny), far)
        return torch.where((near > 0) & end.isfinite(), end, near)


def _to_the_level(curve: Tensor, start: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """How far from `start` parabolas (..., 4) are at a level (...), 0 if below it, and how fast they fall."""
    anchor, value, slope, bend = curve.unbind(-1)
    along = start - anchor
    above = value + along * (slope + along * bend) - level
    slope = slope + 2 * along * bend
    falls = (slope.square() - 4 * bend * above).clamp_min_(0).sqrt_()
    # of both forms of the solution the one without a difference of near numbers
    down = slope < 0
    way = torch.where(down, 2 * above, slope + falls) / torch.where(down, falls - slope, -2 * bend)
    # what is no number is as near as it can be
    way = torch.where(above > 0, way, 0.0).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0).clamp_min_(0)
    return way, falls
