"""The audited rows of a table in a person's own units: their values, and what an attack made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from r2et.domain import Threat
from r2et.tables.units import Change, Units

#: changed columns of a row that are remembered
REMEMBERED = 10


@dataclass(frozen=True, eq=False)
class Moves:
    """What WorstCase changed, in own units. R radii, N rows, m columns that are remembered.

    Attributes:
        columns: numbers of the changed columns, largest change first, int32 (R, N, m); -1 = none.
        becomes: their values afterwards, float64 (R, N, m).
        count: how many columns changed by at least their resolution, (R, N).
    """

    columns: Tensor
    becomes: Tensor
    count: Tensor


def moves(units: Units, x: Tensor, points: Sequence[Tensor]) -> Moves:
    """What of rows x (N, n) an attack changed at each radius.

    Columns that changed by less than they are measured are not among them.

    Args:
        units: of the columns.
        x: encoded rows, (N, n).
        points: the attacked rows of each radius, (N, n) each.
    """
    before, scale = units.own(x), units.resolutions
    spread = np.array([units.columns[place].scale for place in units.numbers])
    m = min(REMEMBERED, len(units.numbers))
    columns, becomes, count = [], [], []
    for point in points:
        after = units.own(point)
        changed = np.round(after / scale) != np.round(before / scale)
        size = np.where(changed, np.abs(after - before) / spread, -1.0)
        order = np.argsort(-size, axis=1, kind="stable")[:, :m]
        visible = np.take_along_axis(changed, order, 1)
        numbers = np.array(units.numbers, dtype=np.int32)[order]
        columns.append(torch.from_numpy(np.where(visible, numbers, -1).astype(np.int32)))
        becomes.append(torch.from_numpy(np.take_along_axis(after, order, 1)))
        count.append(torch.from_numpy(changed.sum(1)))
    return Moves(torch.stack(columns), torch.stack(becomes), torch.stack(count))


def join_moves(parts: Sequence[Moves]) -> Moves:
    """Of the rows of all parts."""
    return Moves(
        *(torch.cat([getattr(part, name) for part in parts], 1) for name in ("columns", "becomes", "count"))
    )


@dataclass(frozen=True, eq=False, repr=False)
class OwnRows:
    """The audited rows in their own units.

    Attributes:
        units: of the columns.
        x: the rows as the model sees them, (N, n).
        moves: what WorstCase changed at each radius; None where it may change what no row can have.
    """

    units: Units
    x: Tensor = field(repr=False)
    moves: Moves | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"OwnRows({len(self)} rows, {len(self.units.columns)} columns)"

    def value(self, row: int, column: int) -> str:
        """The value of a column in a row, as text."""
        return self.units.columns[column].of_row(self._encoded(row))

    def changes(self, row: int, radius: int) -> tuple[Change, ...]:
        """What was changed of a row at a radius (its number), largest change first."""
        if self.moves is None:
            return ()
        told = []
        for place, value in zip(
            self.moves.columns[radius, row].tolist(), self.moves.becomes[radius, row].tolist(), strict=True
        ):
            if place >= 0:
                column = self.units.columns[place]
                was = float(column.own(self._encoded(row)[column.features[0]]))
                told.append(Change(column.name, column.change(was), column.change(value)))
        return tuple(told)

    def more(self, row: int, radius: int) -> int:
        """How many columns changed that are not remembered."""
        if self.moves is None:
            return 0
        return int(self.moves.count[radius, row]) - int((self.moves.columns[radius, row] >= 0).sum())

    def _encoded(self, row: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return self.x[row].detach().cpu().double().numpy()


def column_of(own: OwnRows | None, ranked: int, features: int) -> int | None:
    """The column that a ranked feature belongs to; None where that is unknown.

    Args:
        own: the rows; None = they are no table.
        ranked: the number of the feature.
        features: how many are ranked.
    """
    if own is None:
        return None
    if features == len(own.units.columns):
        return ranked
    return own.units.owner.get(ranked) if features == own.units.features else None


def moves_of(units: Units | None, threat: Threat, x: Tensor, points: Sequence[Tensor]) -> Moves | None:
    """As `moves`; None where there are no units, or where attacks make rows that cannot exist."""
    fits = units is not None and x.ndim == 2 and x.shape[1] == units.features and bool(units.numbers)
    return moves(units, x, points) if fits and units is not None and threat == "domain" else None
