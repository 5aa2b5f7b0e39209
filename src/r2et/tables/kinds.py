"""The kinds of column that a table is encoded by: numbers, dates, flags, and categories of two or more values."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from r2et.columns import Kind
from r2et.errors import InputError
from r2et.numerics.values import check_number, is_whole, quoted
from r2et.tables.columns import MISSING, Series, as_text, days, factorise, kind_of, label, numbers, refuse_missing
from r2et.tables.declared import Category, Feature, Flag, Share
from r2et.tables.plausible import Plausible, proposed

Value = str | bool | int | float
#: what values that are rare are called together
OTHERS = "other values"
#: in small tables a value is not rare because it has few rows, but if it has less than this share of them
SMALL_TABLE = 0.02


@dataclass(frozen=True)
class Pooling:
    """Which values of a category are rare, and pooled into one: "other values".

    Those with less than a share of the rows, and those with fewer than some number of rows, if these are no more
    than 2 % of the table: in a table of 100 rows, a value that 19 of them have is not rare. A single rare value
    stays by itself, and nothing is pooled where nothing else would be left.

    Args:
        share: of the rows.
        rows: their number.

    >>> Pooling().fewest(100_000), Pooling().fewest(4_000), Pooling().fewest(500), Pooling(0, 0).fewest(500)
    (500.0, 20.0, 10.0, 0)
    """

    share: float = 0.005
    rows: int = 20

    def __post_init__(self) -> None:
        check_number("share", self.share)
        if not 0 <= self.share < 1:
            raise InputError(f"the share of rare rows must be from 0 to 1, below 1, got {quoted(self.share)}")
        if not is_whole(self.rows) or self.rows < 0:
            raise InputError(f"the number of rare rows must be whole and at least 0, got {quoted(self.rows)}")

    def fewest(self, count: int) -> float:
        """How many of `count` rows a value needs so that it is not rare."""
        return max(self.share * count, min(float(self.rows), SMALL_TABLE * count))


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column, standardised.

    Args:
        name: of the column.
        mean, scale: subtracted, and divided by.
        lower, upper: smallest and largest value seen, standardised.
        whole: whether all values seen are whole numbers.
        median: what stands for a missing value, standardised; None = no value was missing in fit.
        plausible: one plausible change.
    """

    name: str
    mean: float
    scale: float
    lower: float
    upper: float
    whole: bool = False
    median: float | None = None
    plausible: Plausible = field(default_factory=lambda: Plausible(1.0))

    kind: ClassVar[Kind] = "number"
    frequencies: ClassVar[tuple[float, ...]] = ()

    @property
    def names(self) -> list[str]:
        """One feature, and another one that is 1 where the value is missing, if any was."""
        return [self.name] if self.median is None else [self.name, f"{self.name}: {MISSING}"]

    @property
    def may_miss(self) -> bool:
        """Whether rows may have no value."""
        return self.median is not None

    @property
    def must_have_value(self) -> bool:
        """Whether a row without one is an error."""
        return not self.may_miss

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        finite = np.isfinite([self.mean, self.scale, self.lower, self.upper, self.median or 0.0]).all()
        return bool(finite and self.scale > 0 and self.lower <= self.upper)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """Standardised values (N, 1), or (N, 2) with whether they are missing."""
        values = (self.read(column, self.name) - self.mean) / self.scale
        if self.median is None:
            refuse_missing([(self.name, column)])
            return values[:, None]
        missing = np.isnan(values)
        return np.stack([np.where(missing, self.median, values), missing.astype(np.float64)], axis=1)

    @staticmethod
    def read(column: Series, name: str) -> NDArray[np.float64]:
        """Its values (N,), NaN where one is missing."""
        return numbers(column, name)


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A column of dates, as days since 1970, standardised; arguments as of a number."""

    @staticmethod
    def read(column: Series, name: str) -> NDArray[np.float64]:
        """Days since 1970 (N,), NaN where a date is missing."""
        return days(column, name)


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
    may_miss: ClassVar[bool] = False
    must_have_value: ClassVar[bool] = True

    @property
    def names(self) -> list[str]:
        """One feature."""
        return [self.name]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        return _are_shares(self.frequencies, 2)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """The values (N, 1), with a warning where one is neither 0 nor 1."""
        values = numbers(column, self.name)
        refuse_missing([(self.name, column)])
        _warn(column, self.name, (values != 0) & (values != 1), "value, and cannot be explained")
        return values[:, None]


@dataclass(frozen=True)
class _Categories:
    """A column of categories.

    Args:
        name: of the column.
        values: the categories; "other values" are those that are pooled, "missing" those that are not there.
        frequencies: of each, as shares.
        rare: what is pooled.
    """

    name: str
    values: tuple[Value, ...]
    frequencies: tuple[float, ...]
    rare: tuple[Value, ...] = ()

    @property
    def may_miss(self) -> bool:
        """Whether rows had no value in fit."""
        return MISSING in self.values

    must_have_value: ClassVar[bool] = False

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        distinct = len({*self.values, *self.rare} - {OTHERS}) == len(self.values) + len(self.rare) - self._pools
        return bool(self.values) and distinct and _are_shares(self.frequencies, len(self.values))

    @property
    def _pools(self) -> int:
        return 2 if OTHERS in self.values and OTHERS in self.rare else 1 if OTHERS in self.values else 0

    def places(self, column: Series) -> NDArray[np.int64]:
        """The place of each row's value among the categories (N,); -1, with a warning, where it is none of them.

        A value is looked up as it is, then as the text of a file: a later file may hold 1 in place of "1". A
        missing value is a new one too, where none was missing in fit.
        """
        codes, there = factorise(column, self.name)
        pool = self.values.index(OTHERS) if self.rare else -1
        known = {value: place for place, value in enumerate(self.values)} | dict.fromkeys(self.rare, pool)
        texts = {as_text(value): place for value, place in known.items()}
        places = np.array([known.get(v, texts.get(as_text(v), -1)) for v in there], dtype=np.int64)[codes]
        _warn(column, self.name, places < 0, f"category, and count as {OTHERS!r}" if self.rare else "category")
        return np.where(places < 0, pool, places)


@dataclass(frozen=True)
class TwoValueColumn(_Categories):
    """A column of two categories: one feature, 0 for the first and 1 for the second.

    Two features would always be each other's complement, and half of each effect would go to either. Arguments
    as of a category.
    """

    kind: ClassVar[Kind] = "flag"

    @property
    def names(self) -> list[str]:
        """One feature, called by the value that it is 1 for."""
        return [f"{self.name}: {self.values[1]}"]

    @property
    def possible(self) -> bool:
        """Whether there can be such a column."""
        return len(self.values) == 2 and super().possible

    def encode(self, column: Series) -> NDArray[np.float64]:
        """0 and 1 (N, 1); 0.5, which is neither, with a warning, where the value is a new one."""
        places = self.places(column)
        return np.where(places < 0, 0.5, places)[:, None]


@dataclass(frozen=True)
class CategoryColumn(_Categories):
    """A column of categories: one feature of 0 and 1 for each.

    They are in sorted order, then what is pooled, then what is missing. Arguments as of `TwoValueColumn`.
    """

    kind: ClassVar[Kind] = "category"

    @property
    def names(self) -> list[str]:
        """One feature for each category."""
        return [f"{self.name}: {value}" for value in self.values]

    def encode(self, column: Series) -> NDArray[np.float64]:
        """One-hot rows (N, categories); all zero, with a warning, where the category is a new one."""
        matches = self.places(column)[:, None] == np.arange(len(self.values))
        return np.asarray(matches, dtype=np.float64)


Column = NumberColumn | DateColumn | FlagColumn | TwoValueColumn | CategoryColumn
#: what a file calls each kind
KINDS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "date": DateColumn,
    "flag": FlagColumn,
    "two-values": TwoValueColumn,
    "category": CategoryColumn,
}


def learned(column: Series, name: str, *, categorical: bool, pool: Pooling) -> Column:
    """The kind of a column that nothing is known about, with what its rows say."""
    kind = kind_of(column, name)
    if categorical or kind == "category":
        return _categories(column, name, pool)
    if kind == "date":
        return _standardised(days(column, name), name, DateColumn)
    entries = numbers(column, name)
    there = np.unique(entries[~np.isnan(entries)])
    if kind != "flag" and not np.array_equal(there, [0.0, 1.0]):
        return _standardised(entries, name, NumberColumn)
    return _categories(column, name, Pooling(0, 0)) if np.isnan(entries).any() else _flag(entries, name)


def declared(feature: Feature, column: Series) -> Column:
    """The column of a feature whose kind is known beforehand."""
    if isinstance(feature, Category):
        counts = np.bincount(
            CategoryColumn(feature.name, feature.categories, ()).places(column), minlength=len(feature.categories)
        )
        return CategoryColumn(feature.name, feature.categories, tuple((counts / len(column)).tolist()))
    if isinstance(feature, Flag):
        return _flag(numbers(column, feature.name), feature.name)
    if isinstance(feature, Share):
        return NumberColumn(feature.name, 0.0, 1.0, 0.0, 1.0, plausible=Plausible(0.01))
    return _standardised(numbers(column, feature.name), feature.name, NumberColumn)


def _flag(values: NDArray[np.float64], name: str) -> FlagColumn:
    ones = float(values.mean())
    return FlagColumn(name, (1 - ones, ones))


def _categories(column: Series, name: str, pool: Pooling) -> TwoValueColumn | CategoryColumn:
    codes, values = factorise(column, name)
    counts = dict(zip(values, np.bincount(codes).tolist(), strict=True))
    missing = [MISSING] if MISSING in counts and column.isna().any() else []
    own = sorted(value for value in counts if value not in missing)
    rare = [value for value in own if counts[value] < pool.fewest(len(column)) or value == OTHERS]
    if len(rare) < 2 or len(rare) == len(own):
        rare = []
    kept = [*(value for value in own if value not in set(rare)), *([OTHERS] if rare else []), *missing]
    if rare:
        counts[OTHERS] = sum(counts[value] for value in rare)
    shares = tuple(counts[value] / len(column) for value in kept)
    kind = TwoValueColumn if len(kept) == 2 else CategoryColumn
    return kind(name, tuple(kept), shares, tuple(rare))


def _are_shares(frequencies: Sequence[float], count: int) -> bool:
    inside = len(frequencies) == count and all(0 <= share <= 1 for share in frequencies)
    return inside and math.isclose(math.fsum(frequencies), 1.0, abs_tol=1e-6)


def _warn(column: Series, name: str, unknown: NDArray[np.bool_], what: str) -> None:
    """Say which rows of a column have a value that was not there in fit."""
    places = np.flatnonzero(unknown)
    if len(places):
        value = column.iloc[places[0]]
        value = value.item() if isinstance(value, np.generic) else value
        shown = "a missing one" if pd.isna(value) else repr(value)
        warnings.warn(
            f"column {name!r} has values that were not there in fit, such as {shown} in row "
            f"{label(column, places[0])}; {len(places)} of {len(column)} rows have no known {what}",
            stacklevel=4,
        )


def _standardised(values: NDArray[np.float64], name: str, kind: type[NumberColumn]) -> NumberColumn:
    from sklearn.preprocessing import StandardScaler

    there = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        scaler = StandardScaler().fit(there[:, None])  # it knows a constant column from one that hardly varies
    mean, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    if not np.isfinite([mean, scale]).all():
        raise InputError(f"column {name!r} has values as large as {np.abs(there).max():g}: divide or log them")
    scaled = (there - mean) / scale
    return kind(
        name,
        mean,
        scale,
        float(scaled.min()),
        float(scaled.max()),
        whole=bool((there == np.round(there)).all()),
        median=float(np.median(scaled)) if len(there) < len(values) else None,
        plausible=Plausible(1.0, step=1.0) if kind is DateColumn else proposed(there),
    )
