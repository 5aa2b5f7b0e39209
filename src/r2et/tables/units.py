"""What encoded rows are in a person's own units: names and numbers, nothing that knows a model or a frame."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    import pandas as pd

#: of a value that is not there, and of a category that fit did not have
MISSING, NEW = "missing", "(a new value)"
#: seconds
DAY = 24 * 60 * 60
#: digits of a standard deviation that are told, where nothing says how finely a column is measured
DIGITS = 4
#: digits of a value that are told, at least
VALUE_DIGITS = 6


@dataclass(frozen=True)
class ColumnUnits:
    """One column in its own units.

    Args:
        name: of the column.
        kind: a date is a number of days since 1970; a flag is one feature, 0 or 1; a category one for each value.
        features: that hold its value.
        mean, scale: of a number or a date: encoded, it is what it is less `mean`, divided by `scale`.
        step: how far neighbouring values are apart, 1 for whole numbers; 0 = any.
        values: of a flag or category, as the file has them.
        missing: the feature that is 1 where a number is missing; -1 = there is none.

    >>> pay = ColumnUnits("pay", "number", (0,), mean=2000.0, scale=500.0, step=0.01)
    >>> pay.text(1870.5), pay.resolution
    ('1870.50', 0.01)
    """

    name: str
    kind: Literal["number", "date", "flag", "category"]
    features: tuple[int, ...]
    mean: float = 0.0
    scale: float = 1.0
    step: float = 0.0
    values: tuple[str, ...] = ()
    missing: int = -1

    @property
    def moves(self) -> bool:
        """Whether an attacker who leaves discrete columns alone can change it."""
        return self.kind in ("number", "date")

    @property
    def resolution(self) -> float:
        """What changes by less has not changed, in the column's units."""
        if self.step > 0:
            return self.step
        return float(10.0 ** (math.floor(math.log10(self.scale)) - DIGITS + 1)) if self.scale > 0 else 1.0

    def own(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Encoded numbers in the column's units; whole steps where the column has them."""
        values = encoded * self.scale + self.mean
        return values if self.step <= 0 else np.round(values / self.step) * self.step

    def text(self, value: float) -> str:
        """A number of the column as a file has it."""
        if self.kind == "date":
            return as_date(value)
        if self.step > 0:
            return _fixed(value, self.step)
        # all digits before the point
        digits = max(VALUE_DIGITS, math.floor(math.log10(abs(value))) + 1) if value else 1
        return f"{float(f'{value:.{min(digits, 17)}g}'):.15g}" if abs(value) < 1e15 else f"{value:.6g}"

    def change(self, value: float) -> str:
        """A number as it is told beside another one: no finer than the resolution."""
        if self.kind == "date" or self.step > 0:
            return self.text(value)
        return _fixed(round(value / self.resolution) * self.resolution, self.resolution)

    def of_row(self, row: NDArray[np.float64]) -> str:
        """The value of one encoded row (n,), as text."""
        if self.missing >= 0 and row[self.missing] > 0.5:
            return MISSING
        held = row[list(self.features)]
        if self.moves:
            return self.text(float(self.own(held[0])))
        if self.kind == "flag":
            return self.values[int(held[0])] if held[0] in (0.0, 1.0) else NEW
        return self.values[int(held.argmax())] if held.max() == 1.0 else NEW


@dataclass(frozen=True)
class Change:
    """What was changed of one column of a row, as text in its own units."""

    column: str
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.column} {self.was} → {self.becomes}"


@dataclass(frozen=True)
class Units:
    """The columns of a table in their own units.

    Args:
        columns: one for each column, in order.

    >>> import pandas as pd, torch
    >>> from r2et.tables import Encoding
    >>> frame = pd.DataFrame({"age": [20, 40], "job": ["nurse", "cook"], "smokes": [True, False]})
    >>> encoding = Encoding.learn(frame)
    >>> units = Units.of(encoding.describe(), frame)
    >>> units.texts(torch.from_numpy(encoding.encode(frame)))
    [['20', 'nurse', 'True'], ['40', 'cook', 'False']]
    """

    columns: tuple[ColumnUnits, ...]

    @classmethod
    def of(cls, description: Sequence[Mapping[str, Any]], frame: "pd.DataFrame | None" = None) -> "Units":
        """Of an encoding, by what `Encoding.describe` says.

        Args:
            description: one entry for each column.
            frame: rows as a person has them: flags are called True and False where it has truth values.
        """
        ends = pairwise(accumulate((_width(entry) for entry in description), initial=0))
        truths = set() if frame is None else _truths(frame)
        return cls(
            tuple(_column(entry, start, truths) for entry, (start, _) in zip(description, ends, strict=True))
        )

    def counted_in(self, scale: Tensor) -> "Units":
        """The same where one of each feature (n,) is so much of what it was: for rows in multiples of a change."""
        numbers = scale.double().cpu().tolist()
        columns = (
            replace(column, scale=column.scale * numbers[column.features[0]]) if column.moves else column
            for column in self.columns
        )
        return Units(tuple(columns))

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Which columns can move."""
        return tuple(place for place, column in enumerate(self.columns) if column.moves)

    @cached_property
    def owner(self) -> dict[int, int]:
        """The column of each feature."""
        return {
            feature: place
            for place, column in enumerate(self.columns)
            for feature in (*column.features, column.missing)
            if feature >= 0
        }

    @property
    def features(self) -> int:
        """How many encoded features there are."""
        return len(self.owner)

    def texts(self, x: Tensor) -> list[list[str]]:
        """The values of encoded rows (N, n), one list for each row."""
        return [[column.of_row(row) for column in self.columns] for row in x.detach().cpu().double().numpy()]

    def own(self, x: Tensor) -> NDArray[np.float64]:
        """The columns that can move, in their own units: float64 (N, numbers)."""
        rows = x.detach().cpu().double().numpy()
        empty = np.empty((len(rows), 0))
        return np.stack([self._own(place, rows) for place in self.numbers], 1) if self.numbers else empty

    def _own(self, place: int, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.columns[place].own(rows[:, self.columns[place].features[0]])

    @cached_property
    def resolutions(self) -> NDArray[np.float64]:
        """Of the columns that can move, (numbers,)."""
        return np.array([self.columns[place].resolution for place in self.numbers])


def _width(entry: Mapping[str, Any]) -> int:
    """How many features a described column has."""
    if entry["kind"] == "category":
        return len(entry["values"])
    return 1 if entry.get("median") is None else 2


def _column(entry: Mapping[str, Any], start: int, truths: set[str]) -> ColumnUnits:
    name, kind = str(entry["name"]), entry["kind"]
    if kind in ("number", "date"):
        return ColumnUnits(
            name,
            kind,
            (start,),
            mean=float(entry["mean"]),
            scale=float(entry["scale"]),
            step=1.0 if entry["whole"] else _step(entry),
            missing=-1 if _width(entry) == 1 else start + 1,
        )
    if kind == "flag":
        return ColumnUnits(name, "flag", (start,), values=("False", "True") if name in truths else ("0", "1"))
    values = tuple(map(_as_text, entry["values"]))
    if kind == "two-values":
        return ColumnUnits(name, "flag", (start,), values=values)
    return ColumnUnits(name, "category", tuple(range(start, start + len(values))), values=values)


def _step(entry: Mapping[str, Any]) -> float:
    """How far apart values are by what the encoding knows of it; dates with a time are told to the second."""
    if entry["kind"] == "date":
        return 1 / DAY
    plausible = entry.get("plausible") or {}
    return float(plausible.get("step", 0.0))


def _truths(frame: "pd.DataFrame") -> set[str]:
    """The columns that hold truth values."""
    from pandas.api.types import infer_dtype

    return {str(name) for name in frame.columns if infer_dtype(frame[name], skipna=True) == "boolean"}


def _as_text(value: Any) -> str:
    # pandas is imported when it is used: tensors need none
    from r2et.tables.columns import as_text

    return as_text(value)


def _fixed(value: float, step: float) -> str:
    """With the decimals of a step.

    >>> _fixed(-0.2, 1.0), _fixed(1.5, 0.5), _fixed(2.0, 0.001)
    ('0', '1.5', '2.000')
    """
    decimals = max(0, math.ceil(-math.log10(step) - 1e-9))
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def as_date(days: float) -> str:
    """ISO: the day, and the time to the second where there is one.

    >>> as_date(0.0), as_date(19000.5)
    ('1970-01-01', '2022-01-08 12:00:00')
    """
    seconds = round(days * DAY)
    if seconds % DAY == 0:
        return str(np.datetime64(seconds // DAY, "D"))
    return str(np.datetime64(seconds, "s")).replace("T", " ")
