"""The columns of a person's table as the numbers a network sees, and what each number is called."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.domain import Domain
from r2et.errors import CheckpointError, InputError
from r2et.files.reading import typed
from r2et.numerics.values import quoted
from r2et.tables.columns import Series, column_names, factorise, kind_of, label, numbers
from r2et.tables.declared import Category, Feature, Flag, Share
from r2et.tables.rows import Rows, row_names


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
    """A column of 0 and 1, or of False and True: it stays 0 and 1."""

    name: str

    @property
    def names(self) -> list[str]:
        """One feature."""
        return [self.name]

    def encode(self, column: Series) -> NDArray[np.float64]:
        """The values (N, 1)."""
        return numbers(column, self.name)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one feature of 0 and 1 for each, in sorted order."""

    name: str
    values: tuple[str | bool | int | float, ...]

    @property
    def names(self) -> list[str]:
        """One feature for each category."""
        return [f"{self.name}: {value}" for value in self.values]

    def encode(self, column: Series) -> NDArray[np.float64]:
        """One-hot rows (N, categories); all zero, with a warning, where the category is a new one."""
        codes, values = factorise(column, self.name)
        number = {value: j for j, value in enumerate(self.values)}
        known = np.array([number.get(value, -1) for value in values], dtype=np.int64)[codes]
        unknown = np.flatnonzero(known < 0)
        if len(unknown):
            first = unknown[0]
            warnings.warn(
                f"column {self.name!r} has values that were not there in fit, such as {values[codes[first]]!r} in "
                f"row {label(column, first)}; {len(unknown)} of {len(column)} rows have no known category",
                stacklevel=2,
            )
        matches = known[:, None] == np.arange(len(self.values))
        return np.asarray(matches, dtype=np.float64)


Column = NumberColumn | FlagColumn | CategoryColumn
_KINDS: dict[str, type[Column]] = {"number": NumberColumn, "flag": FlagColumn, "category": CategoryColumn}


@dataclass(frozen=True)
class Encoding:
    """From a frame to numbers (N, n), learned from the frame that a model is fitted on.

    Args:
        columns: one for each column of the frame, in order.

    >>> frame = pd.DataFrame({"age": [20, 40], "job": ["nurse", "cook"], "smokes": [True, False]})
    >>> encoding = Encoding.learn(frame)
    >>> encoding.names
    ('age', 'job: cook', 'job: nurse', 'smokes')
    >>> encoding.encode(frame).tolist()
    [[-1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
    >>> encoding.domain.groups
    ((1, 2),)
    >>> encoding.domain.frozen                               # a flag
    (3,)
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, frame: pd.DataFrame, categorical: Iterable[int] = ()) -> "Encoding":
        """Look at every column of a frame.

        Args:
            frame: what a model is fitted on.
            categorical: numbers of the columns that are categorical though they hold numbers. Columns of text,
                objects and pandas categories always are.
        """
        chosen = set(categorical)
        names = column_names(frame)
        columns = (_learn(frame.iloc[:, i], name, categorical=i in chosen) for i, name in enumerate(names))
        encoding = cls(tuple(columns))
        twice = next((name for name, count in Counter(encoding.names).items() if count > 1), None)
        if twice is not None:
            raise InputError(
                f"two features would be called {twice!r}: an explanation could not tell them apart. A category is "
                "called by its column and its value, such as 'job: cook': rename a column"
            )
        return encoding

    @classmethod
    def declared(cls, features: Sequence[Feature], frame: pd.DataFrame) -> "Encoding":
        """Of features whose kinds are known beforehand; only numbers are learned, from the rows of a frame.

        Shares keep 0 and 1 as bounds, whatever the rows hold; every category is a feature.

        Args:
            features: one for each column of the frame.
            frame: what `r2et.tables.declared.checked` returns, of the rows that a model is fitted on.
        """
        return cls(tuple(_declared(feature, frame[feature.name]) for feature in features))

    @property
    def column_names(self) -> list[str]:
        """Of the frame that this was learned from."""
        return [column.name for column in self.columns]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The n features."""
        return tuple(name for column in self.columns for name in column.names)

    @cached_property
    def domain(self) -> Domain:
        """What exists: numbers in the range seen in fit, some whole; flags are frozen, categories are groups."""
        lower, upper = torch.zeros(len(self.names)).double(), torch.ones(len(self.names)).double()
        unit = torch.zeros_like(lower)
        frozen: list[int] = []
        groups: list[tuple[int, ...]] = []
        start = 0
        for column in self.columns:
            features = tuple(range(start, start + len(column.names)))
            if isinstance(column, NumberColumn):
                lower[start], upper[start] = column.lower, column.upper
                unit[start] = 1 / column.scale if column.whole else 0.0
            elif len(features) > 1:
                groups.append(features)
            else:
                frozen.extend(features)
            start += len(features)
        return Domain(lower, upper, frozen, groups, unit=unit if unit.any() else None)

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The rows of a frame with the columns of fit, as numbers (N, n)."""
        return np.hstack([column.encode(frame.iloc[:, i]) for i, column in enumerate(self.columns)])

    def rows(self, frame: pd.DataFrame, y: Tensor, *, dtype: torch.dtype = torch.float64) -> Rows:
        """What a model sees of a frame (N rows) with class numbers y (N,), and what it needs to know about it.

        >>> frame = pd.DataFrame({"age": [20, 40], "job": ["nurse", "cook"]}, index=["ann", "bob"])
        >>> Encoding.learn(frame).rows(frame, torch.tensor([0, 1])).index
        ('ann', 'bob')
        """
        x = torch.from_numpy(self.encode(frame)).to(dtype)
        return Rows(x, y, self.names, row_names(frame), self.domain)

    def check_columns(self, frame: pd.DataFrame) -> None:
        """Raise for a frame whose columns are not those that this was learned from."""
        expected, there = self.column_names, column_names(frame)
        # an array has no names
        if there != expected and expected != [f"x{i}" for i in range(len(expected))]:
            raise InputError(
                f"X has the columns {quoted(there)}, fit had {quoted(expected)}: give the same ones in the same "
                "order"
            )

    def describe(self) -> list[dict[str, Any]]:
        """Plain JSON values that `from_description` makes the same encoding from."""
        kinds = {kind: name for name, kind in _KINDS.items()}
        return [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]

    @classmethod
    def from_description(cls, description: Sequence[dict[str, Any]]) -> "Encoding":
        """The encoding that `describe` described."""
        columns: list[Column] = []
        for entry in description:
            where = f"{quoted(entry)} does not describe a column"
            settings = typed(entry, dict[str, Any], where, CheckpointError)
            kind = _KINDS.get(str(settings.pop("kind", None)))
            if kind is None:
                raise CheckpointError(f"{where}: its kind is none of {', '.join(_KINDS)}")
            columns.append(typed(settings, kind, where, CheckpointError))
            if isinstance(columns[-1], NumberColumn) and not columns[-1].possible:
                raise CheckpointError(f"{where}: its numbers are not those of a column")
        return cls(tuple(columns))


def _learn(column: Series, name: str, *, categorical: bool) -> Column:
    kind = kind_of(column, name)
    if categorical or kind == "category":
        return CategoryColumn(name, tuple(sorted(factorise(column, name)[1])))
    if kind == "flag":
        return FlagColumn(name)
    values = numbers(column, name)
    return FlagColumn(name) if np.array_equal(np.unique(values), [0.0, 1.0]) else _standardised(values, name)


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


def _declared(feature: Feature, column: Series) -> Column:
    if isinstance(feature, Category):
        return CategoryColumn(feature.name, feature.categories)
    if isinstance(feature, Flag):
        return FlagColumn(feature.name)
    if isinstance(feature, Share):
        return NumberColumn(feature.name, mean=0.0, scale=1.0, lower=0.0, upper=1.0)
    return _standardised(numbers(column, feature.name), feature.name)
