"""First passages: how far columns have to move until functions of them, bounded by tables, may be at a level."""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.enclosure.additive import Tables


@dataclass(frozen=True)
class Passages:
    """How far each of m columns has to move to the right until its function may be at or below a level.

    Attributes:
        table: of the functions.
        x: (N, m).
        here: the bound at x, (N, m).
        column, function: where a column's cells, and those of its function, begin in flattened tables, (N, m).
        falling: minus the smallest bound between x and the end of each cell, never decreasing, (N, m, cells).
    """

    table: Tables
    x: Tensor
    here: Tensor
    column: Tensor
    function: Tensor
    falling: Tensor

    @staticmethod
    def of(table: Tables, x: Tensor, kind: Tensor, worth: Tensor) -> "Passages":
        """From x (N, m), for functions of these kinds (N, m), which may be as low as `worth` (N, m) at x."""
        m, cells = table.begin.shape
        number = torch.arange(m, device=x.device)
        column, function = (number * cells).expand_as(kind), (kind * m + number) * cells
        # cell c ends at edge c
        own = torch.searchsorted(table.end[:, :-1].contiguous(), x.T.contiguous(), right=True).T
        begin, end = table.begin.take(column + own), table.end.take(column + own)
        first, last = table.first.take(function + own), table.last.take(function + own)
        between = begin.isfinite() & end.isfinite() & (end > begin)
        here = first + (last - first) * torch.where(between, (x - begin) / (end - begin), 0.0).clamp(0, 1)
        here = torch.minimum(here, worth).nan_to_num(nan=-torch.inf)
        low = table.low.flatten(0, 1)[kind * m + number]
        low.masked_fill_(torch.arange(cells, device=x.device) < own.unsqueeze(2), torch.inf)
        low.scatter_(2, own.unsqueeze(2), torch.minimum(here, last).nan_to_num(nan=-torch.inf).unsqueeze(2))
        return Passages(table, x, here, column, function, low.cummin(2).values.neg_())

    def of_rows(self, rows: Tensor) -> "Passages":
        """Of some rows, by their numbers."""
        parts = (part[rows] for part in (self.x, self.here, self.column, self.function, self.falling))
        return Passages(self.table, *parts)

    def distance(self, level: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """To levels (N, m, L): distances, the cells in which they are reached, and whether inside of them."""
        cells = self.falling.shape[2]
        cell = torch.searchsorted(self.falling, -level)
        reached = cell < cells
        cell = cell.clamp_max_(cells - 1)
        start = torch.maximum(self.table.begin.take(self.column.unsqueeze(2) + cell), self.x.unsqueeze(2))
        at = self.function.unsqueeze(2) + cell
        place, rate = self.table.inverse
        position = place.take(at) + rate.take(at) * level
        distance = torch.maximum(position, start) - self.x.unsqueeze(2)
        distance = distance.masked_fill_(level >= self.here.unsqueeze(2), 0.0)
        return distance.masked_fill_(~reached, torch.inf), cell, (position > start) & reached

    def affine(
        self, near: Tensor, far: Tensor, inside: Tensor, cells: tuple[Tensor, Tensor], levels: Tensor
    ) -> Tensor:
        """From `near`, where an affine function may end that is nowhere above the distance in between.

        Args:
            near: the distance to one level, (N, m, P, S).
            far: to a lower one.
            inside: whether the nearer is reached inside of its cell.
            cells: in which both are reached.
            levels: how far apart they are.
        """
        column = self.column[..., None, None]
        steep = self.table.steepest(column, *cells).clamp_min(torch.finfo(near.dtype).tiny)
        # a function that falls from the one level to the other takes this long
        end = torch.minimum(near + levels / steep, far)
        end = torch.where(inside & (cells[0] == cells[1]), far, end)
        # at x itself the function may be anywhere below the level; an infinite distance has no slope
        return torch.where((near > 0) & near.isfinite() & end.isfinite(), end, near)
