"""The kinds of column that a table is encoded by: numbers, flags, and categories of two or more values."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from r2et.columns import Kind
from r2et.errors import InputError
from r2et.tables.columns import Series, factorise, kind_of, label, numbers
from r2et.tables.declared import Category, Feature, Flag, Share

Value = str | bool | int | float


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column, standardised.

    Args:
        name: of the column.
        mean, scale: subtracted, and divided by.
        lower, upper: smallest and largest value seen, standardised.
        whole: whether all values seen are whole numbers.
    """

    name: str
    mean: float
    scale: float
    lower: float
    upper: float
    whole: bool = False

    kind: ClassVar[Kind] = "number"
    frequencies: ClassVar[tuple[float, ...]] = ()

    @property
    def names(self) -> list[str]:
        """One feature."""
        return [self.name]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        finite = np.isfinite([self.mean, self.scale, self.lower, self.upper]).all()
        return bool(finite and self.scale > 0 and self.lower <= self.upper)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """Standardised values (N, 1)."""
        return ((numbers(column, self.name) - self.mean) / self.scale)[:, None]


@dataclass(frozen=True)
class FlagColumn:
    """A column of 0 and 1, or of False and True: it stays 0 and 1.

    Args:
        name: of the column.
        frequencies: of 0 and of 1, as shares.
    """

    name: str
    frequencies: tuple[float, float]

    kind: ClassVar[Kind] = "flag"

    @property
    def names(self) -> list[str]:
        """One feature."""
        return [self.name]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        return _are_shares(self.frequencies, 2)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """The values (N, 1)."""
        return numbers(column, self.name)[:, None]


@dataclass(frozen=True)
class TwoValueColumn:
    """A column of two categories: one feature, 0 for the first in sorted order and 1 for the second.

    Two features would always be each other's complement, and half of each effect would go to either.

    Args:
        name: of the column.
        values: both of them, sorted.
        frequencies: of each, as shares.
    """

    name: str
    values: tuple[Value, ...]
    frequencies: tuple[float, ...]

    kind: ClassVar[Kind] = "flag"

    @property
    def names(self) -> list[str]:
        """One feature, called by the value that it is 1 for."""
        return [f"{self.name}: {self.values[1]}"]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        return len(self.values) == 2 and self.values[0] != self.values[1] and _are_shares(self.frequencies, 2)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """0 and 1 (N, 1); 0.5, which is neither, with a warning, where the value is a new one."""
        places = _places(column, self.name, self.values)
        return np.where(places < 0, 0.5, places)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one feature of 0 and 1 for each, in sorted order.

    Args:
        name: of the column.
        values: the categories.
        frequencies: of each, as shares.
    """

    name: str
    values: tuple[Value, ...]
    frequencies: tuple[float, ...]

    kind: ClassVar[Kind] = "category"

    @property
    def names(self) -> list[str]:
        """One feature for each category."""
        return [f"{self.name}: {value}" for value in self.values]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        distinct = len(set(self.values)) == len(self.values) > 0
        return distinct and _are_shares(self.frequencies, len(self.values))

    def encode(self, column: Series) -> NDArray[np.float64]:
        """One-hot rows (N, categories); all zero, with a warning, where the category is a new one."""
        matches = _places(column, self.name, self.values)[:, None] == np.arange(len(self.values))
        return np.asarray(matches, dtype=np.float64)


Column = NumberColumn | FlagColumn | TwoValueColumn | CategoryColumn
#: what a file calls each kind
KINDS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "flag": FlagColumn,
    "two-values": TwoValueColumn,
    "category": CategoryColumn,
}


def learned(column: Series, name: str, *, categorical: bool) -> Column:
    """The kind of a column that nothing is known about, with what its rows say."""
    kind = kind_of(column, name)
    if categorical or kind == "category":
        values = tuple(sorted(factorise(column, name)[1]))
        shares = _shares(column, name, values)
        return TwoValueColumn(name, values, shares) if len(values) == 2 else CategoryColumn(name, values, shares)
    entries = numbers(column, name)
    if kind == "flag" or np.array_equal(np.unique(entries), [0.0, 1.0]):
        return _flag(entries, name)
    return _standardised(entries, name)


def declared(feature: Feature, column: Series) -> Column:
    """The column of a feature whose kind is known beforehand."""
    if isinstance(feature, Category):
        shares = _shares(column, feature.name, feature.categories)
        return CategoryColumn(feature.name, feature.categories, shares)
    if isinstance(feature, Flag):
        return _flag(numbers(column, feature.name), feature.name)
    if isinstance(feature, Share):
        return NumberColumn(feature.name, mean=0.0, scale=1.0, lower=0.0, upper=1.0)
    return _standardised(numbers(column, feature.name), feature.name)


def _flag(values: NDArray[np.float64], name: str) -> FlagColumn:
    ones = float(values.mean())
    return FlagColumn(name, (1 - ones, ones))


def _shares(column: Series, name: str, values: Sequence[Value]) -> tuple[float, ...]:
    """How often each value occurs, as shares."""
    counts = np.bincount(_places(column, name, values), minlength=len(values))
    return tuple((counts / len(column)).tolist())


def _are_shares(frequencies: Sequence[float], count: int) -> bool:
    inside = len(frequencies) == count and all(0 <= share <= 1 for share in frequencies)
    return inside and math.isclose(math.fsum(frequencies), 1.0, abs_tol=1e-6)


def _places(column: Series, name: str, known: Sequence[Value]) -> NDArray[np.int64]:
    """The place of each row's value among the known ones (N,); -1, with a warning, where it is none of them."""
    codes, values = factorise(column, name)
    number = {value: j for j, value in enumerate(known)}
    places = np.array([number.get(value, -1) for value in values], dtype=np.int64)[codes]
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        first = unknown[0]
        warnings.warn(
            f"column {name!r} has values that were not there in fit, such as {values[codes[first]]!r} in row "
            f"{label(column, first)}; {len(unknown)} of {len(column)} rows have no known category",
            stacklevel=3,
        )
    return places


def _standardised(values: NDArray[np.float64], name: str) -> NumberColumn:
    from sklearn.preprocessing import StandardScaler

    with np.errstate(all="ignore"):
        scaler = StandardScaler().fit(values[:, None])  # it knows a constant column from one that hardly varies
    mean, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    if not np.isfinite([mean, scale]).all():
        raise InputError(f"column {name!r} has values as large as {np.abs(values).max():g}: divide or log them")
    scaled = (values - mean) / scale
    whole = bool((values == np.round(values)).all())
    return NumberColumn(name, mean, scale, float(scaled.min()), float(scaled.max()), whole)
