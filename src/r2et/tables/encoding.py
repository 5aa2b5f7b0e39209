"""The columns of a person's table as the numbers a network sees, and what each number is called."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from r2et.domain import Domain
from r2et.errors import CheckpointError, InputError
from r2et.files.reading import typed
from r2et.numerics.values import quoted

Series: TypeAlias = "pd.Series[Any]"

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


class ColumnTypeError(InputError, TypeError):
    """A column holds something that is neither text nor a number; scikit-learn expects a TypeError."""


@dataclass(frozen=True)
class Number:
    """A numeric column, standardised.

    Args:
        name: of the column.
        mean, scale: subtracted, and divided by.
        lower, upper: smallest and largest value seen, standardised.
    """

    name: str
    mean: float
    scale: float
    lower: float
    upper: float

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
        return ((_numbers(column, self.name) - self.mean) / self.scale)[:, None]


@dataclass(frozen=True)
class Flag:
    """A column of 0 and 1, or of False and True: it stays 0 and 1."""

    name: str

    @property
    def names(self) -> list[str]:
        """One feature."""
        return [self.name]

    def encode(self, column: Series) -> NDArray[np.float64]:
        """The values (N, 1)."""
        return _numbers(column, self.name)[:, None]


@dataclass(frozen=True)
class Category:
    """A column of categories: one feature of 0 and 1 for each, in sorted order."""

    name: str
    values: tuple[str | bool | int | float, ...]

    @property
    def names(self) -> list[str]:
        """One feature a category."""
        return [f"{self.name}: {value}" for value in self.values]

    def encode(self, column: Series) -> NDArray[np.float64]:
        """One-hot rows (N, categories); all zero, with a warning, where the category is a new one."""
        codes, found = _factorise(column, self.name)
        number = {value: j for j, value in enumerate(self.values)}
        known = np.array([number.get(value, -1) for value in found], dtype=np.int64)[codes]
        unknown = np.flatnonzero(known < 0)
        if len(unknown):
            first = unknown[0]
            warnings.warn(
                f"column {self.name!r} has values that were not there in fit, such as {found[codes[first]]!r} in "
                f"row {label(column, first)}; {len(unknown)} of {len(column)} rows have no known category",
                stacklevel=2,
            )
        matches = known[:, None] == np.arange(len(self.values))
        return np.asarray(matches, dtype=np.float64)


Column = Number | Flag | Category
_KINDS: dict[str, type[Column]] = {"number": Number, "flag": Flag, "category": Category}


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
    ((1, 2), (3,))
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
        made = cls(tuple(_learn(frame.iloc[:, i], name, i in chosen) for i, name in enumerate(names)))
        twice = next((name for name, count in Counter(made.names).items() if count > 1), None)
        if twice is not None:
            raise InputError(
                f"two features would be called {twice!r}: an explanation could not tell them apart. A category is "
                "called by its column and its value, such as 'job: cook': rename a column"
            )
        return made

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
        """What an attack may do: numbers stay in the range seen in fit, categories and flags as they are."""
        lower, upper = torch.zeros(len(self.names)).double(), torch.ones(len(self.names)).double()
        groups, start = [], 0
        for column in self.columns:
            features = range(start, start + len(column.names))
            if isinstance(column, Number):
                lower[start], upper[start] = column.lower, column.upper
            else:
                groups.append(tuple(features))
            start = features.stop
        return Domain(lower=lower, upper=upper, groups=tuple(groups))

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The rows of a frame with the columns of fit, as numbers (N, n)."""
        return np.hstack([column.encode(frame.iloc[:, i]) for i, column in enumerate(self.columns)])

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
            if isinstance(columns[-1], Number) and not columns[-1].possible:
                raise CheckpointError(f"{where}: its numbers are not those of a column")
        return cls(tuple(columns))


def which_columns(frame: pd.DataFrame, given: Any) -> list[int]:
    """The numbers of the columns that a list of names, of numbers, or a mask stands for.

    >>> frame = pd.DataFrame({"age": [1], "zip": [2]})
    >>> which_columns(frame, ["zip"]), which_columns(frame, [1]), which_columns(frame, [False, True])
    ([1], [1], [1])
    """
    if given is None:
        return []
    entries = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    names = column_names(frame)
    if entries and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != len(names):
            raise InputError(f"categorical_features is a mask of {len(entries)} for {len(names)} columns")
        return [i for i, entry in enumerate(entries) if entry]
    found = []
    for entry in entries:
        if isinstance(entry, str) and entry in names:
            found.append(names.index(entry))
        elif isinstance(entry, int | np.integer) and 0 <= entry < len(names):
            found.append(int(entry))
        else:
            raise InputError(
                f"categorical_features names {entry!r}, but the columns are {', '.join(map(repr, names))}: give "
                "names, numbers from 0, or one True or False for each"
            )
    return found


def column_names(frame: pd.DataFrame) -> list[str]:
    """The names of a frame's columns as text; a list has plain numbers where pandas' index has numpy's."""
    return [str(name) for name in frame.columns.tolist()]


def label(column: Series, place: int | np.integer[Any]) -> str:
    """What the row at a place is called, as an error message shows it.

    >>> label(pd.Series([3.0, 4.0], index=[10, 20]), 1)
    '20'
    """
    found = column.index[int(place)]
    return repr(found.item() if isinstance(found, np.generic) else found)


def _learn(column: Series, name: str, categorical: bool) -> Column:
    kind = _kind(column, name)
    if categorical or kind == "category":
        return Category(name, tuple(sorted(_factorise(column, name)[1])))
    if kind == "flag":
        return Flag(name)
    values = _numbers(column, name)
    if np.array_equal(np.unique(values), [0.0, 1.0]):
        return Flag(name)
    from sklearn.preprocessing import StandardScaler

    with np.errstate(all="ignore"):
        scaler = StandardScaler().fit(values[:, None])  # it knows a constant column from one that hardly varies
    mean, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    if not np.isfinite([mean, scale]).all():
        raise InputError(f"column {name!r} has values as large as {np.abs(values).max():g}: divide or log them")
    scaled = (values - mean) / scale
    return Number(name, mean, scale, float(scaled.min()), float(scaled.max()))


def _kind(column: Series, name: str) -> str:
    """Whether a column is a "number", a "flag" or a "category": by its dtype, or by what its objects are."""
    _refuse_missing(column, name)
    if isinstance(column.dtype, pd.CategoricalDtype):
        _kind(column.astype(object), name)
        return "category"
    found = pd.api.types.infer_dtype(column, skipna=False)
    if found in _NUMBERS:
        return "number"
    if found == "boolean":
        return "flag"
    if found == "string":
        return "category"
    if found in ("mixed", "mixed-integer"):
        _refuse_mixture(column, name)
    raise InputError(
        f"column {name!r} holds {found} values such as {column.iloc[0]!r}: turn them into numbers, text or "
        "categories"
    )


def _refuse_missing(column: Series, name: str) -> None:
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise InputError(
            f"column {name!r} misses {len(missing)} of {len(column)} values (NaN), first in row "
            f"{label(column, missing[0])}: leave these rows out, or put a sklearn.impute.SimpleImputer in "
            "front"
        )


def _refuse_mixture(column: Series, name: str) -> None:
    first: dict[bool, tuple[str, Any]] = {}
    for place, value in enumerate(column):
        row = label(column, place)
        if not isinstance(value, str | int | float | np.number):
            raise ColumnTypeError(
                f"column {name!r} holds {value!r} in row {row}: an argument must be a string or a number, not "
                f"{type(value).__name__!r}"
            )
        first.setdefault(isinstance(value, str), (row, value))
    told = " and ".join(f"{value!r} in row {row}" for row, value in first.values())
    raise ColumnTypeError(f"column {name!r} mixes text and numbers ({told}): use astype(str), or convert the text")


def _numbers(column: Series, name: str) -> NDArray[np.float64]:
    """A column as finite numbers (N,)."""
    _refuse_missing(column, name)
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    if not (pd.api.types.is_numeric_dtype(plain.dtype) or _kind(plain, name) in ("number", "flag")):
        raise InputError(
            f"column {name!r} was numeric in fit and holds text now, {column.iloc[0]!r} in row "
            f"{label(column, 0)}: convert it with pandas.to_numeric"
        )
    try:
        values = plain.to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name!r} cannot be read as numbers: {error}") from error
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        raise InputError(
            f"column {name!r} has infinite values, first {values[infinite[0]]} in row "
            f"{label(column, infinite[0])}: leave these rows out or replace the values"
        )
    return values


def _factorise(column: Series, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Number of the value of each row (N,), and the values as plain Python objects."""
    _refuse_missing(column, name)
    try:
        codes, found = pd.factorize(column.astype(object))
    except TypeError as error:
        raise ColumnTypeError(f"column {name!r} holds what cannot be a category: {error}") from error
    return codes.astype(np.int64), [value.item() if isinstance(value, np.generic) else value for value in found]
