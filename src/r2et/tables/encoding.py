"""The columns of a person's table as the numbers a network sees, and what each number is called."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.columns import Columns
from r2et.domain import Domain
from r2et.errors import CheckpointError, InputError
from r2et.files.reading import typed
from r2et.numerics.values import quoted
from r2et.tables.columns import column_names, refuse_missing
from r2et.tables.declared import Feature
from r2et.tables.kinds import KINDS, Column, NumberColumn, Pooling, declared, learned
from r2et.tables.plausible import Plausible
from r2et.tables.rows import Rows, row_names
from r2et.tables.units import Units

USUAL = Pooling()


@dataclass(frozen=True)
class Encoding:
    """From a frame to numbers (N, n), learned from the frame that a model is fitted on.

    Values may be missing. A number has another feature then, which is 1 where it is, and its median stands for it;
    of a flag or a category "missing" is a category of its own. Dates are numbers of days.

    Args:
        columns: one for each column of the frame, in order.

    >>> frame = pd.DataFrame({"age": [1, 3], "job": ["nurse", "cook"], "smokes": [True, False]})
    >>> encoding = Encoding.learn(frame)
    >>> encoding.names                                       # two categories are one feature
    ('age', 'job: nurse', 'smokes')
    >>> encoding.encode(frame).tolist()
    [[-1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    >>> encoding.domain.frozen
    (1, 2)
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, frame: pd.DataFrame, categorical: Iterable[int] = (), pool: Pooling = USUAL) -> "Encoding":
        """Look at every column of a frame.

        Args:
            frame: what a model is fitted on.
            categorical: numbers of the columns that are categorical though they hold numbers. Columns of text,
                objects and pandas categories always are.
            pool: which values of a category are rare, and count as one.

        >>> frame = pd.DataFrame({"age": [1, None, 3], "job": ["nurse", "cook", None]})
        >>> encoding = Encoding.learn(frame)
        >>> encoding.names
        ('age', 'age: missing', 'job: cook', 'job: nurse', 'job: missing')
        >>> encoding.encode(frame).tolist()
        [[-1.0, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]]
        """
        chosen = set(categorical)
        names = column_names(frame)
        encoding = cls(
            tuple(
                learned(frame.iloc[:, i], name, categorical=i in chosen, pool=pool) for i, name in enumerate(names)
            )
        )
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
        return cls(tuple(declared(feature, frame[feature.name]) for feature in features))

    @property
    def column_names(self) -> list[str]:
        """Of the frame that this was learned from."""
        return [column.name for column in self.columns]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The n features."""
        return tuple(name for column in self.columns for name in column.names)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first feature of each column, and the number of features."""
        return tuple(accumulate((len(column.names) for column in self.columns), initial=0))

    @cached_property
    def domain(self) -> Domain:
        """What exists: numbers in the range seen in fit, some whole, where they are not missing.

        Flags are frozen, categories are groups, and the scale is one plausible change of each number.
        """
        lower, upper = torch.zeros(len(self.names)).double(), torch.ones(len(self.names)).double()
        unit = torch.zeros_like(lower)
        frozen: list[int] = []
        groups: list[tuple[int, ...]] = []
        absent: list[tuple[int, int]] = []
        for column, (start, end) in zip(self.columns, pairwise(self._starts), strict=True):
            if isinstance(column, NumberColumn):
                lower[start], upper[start] = column.lower, column.upper
                unit[start] = 1 / column.scale if column.whole else 0.0
                absent.extend([(start, start + 1)] if column.may_miss else [])
                frozen.extend(range(start + 1, end))
            elif end - start > 1:
                groups.append(tuple(range(start, end)))
            else:
                frozen.append(start)
        unit_or_none = unit if unit.any() else None
        return Domain(lower, upper, frozen, groups, unit=unit_or_none, absent=absent, scale=self.scale())

    @property
    def plausible(self) -> dict[str, Plausible]:
        """One plausible change of each number, as the rows of fit propose it.

        >>> frame = pd.DataFrame({"age": [23, 35, 48, 61], "pay": [1500.5, 1870.2, 2900.1, 9000.9]})
        >>> {name: str(change) for name, change in Encoding.learn(frame).plausible.items()}
        {'age': '1', 'pay': '2 % (47.703)'}
        """
        return {column.name: column.plausible for column in self.columns if isinstance(column, NumberColumn)}

    def scale(self, changes: Mapping[str, Plausible] | None = None) -> Tensor:
        """One plausible change of each feature in encoded units, float64 (n,); 1 for what is no number.

        Args:
            changes: of columns of numbers; None, or what is left out, is as proposed.
        """
        chosen = {**self.plausible, **(changes or {})}
        scale = torch.ones(len(self.names), dtype=torch.float64)
        for column, start in zip(self.columns, self._starts, strict=False):
            if isinstance(column, NumberColumn):
                # whatever people say, it is a number in single precision too
                scale[start] = min(max(chosen[column.name].amount / column.scale, 1e-30), 1e30)
        return scale

    @cached_property
    def as_columns(self) -> Columns:
        """Which features make up which column, and how often each value of a discrete one occurs.

        >>> frame = pd.DataFrame({"age": [20, 40, 50], "job": ["nurse", "cook", "pilot"]})
        >>> Encoding.learn(frame).as_columns.features
        ((0,), (1, 2, 3))
        """
        numbers = zip(self.columns, self._starts, strict=False)
        return Columns(
            names=self.column_names,
            features=[range(start, end) for start, end in pairwise(self._starts)],
            kinds=[column.kind for column in self.columns],
            frequencies=[column.frequencies for column in self.columns],
            missing=[start + 1 if len(c.names) > 1 and c.kind == "number" else -1 for c, start in numbers],
        )

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The rows of a frame with the columns of fit, as numbers (N, n).

        A value that was not there in fit counts as rare, if rare ones were pooled; else it is none of the
        categories, and cannot be explained. Both are said by a warning. Numbers written as text are read, and
        categories are recognised as numbers and as text. A missing value where none was missing in fit is such a
        value too, of a category; of a number it is an error.
        """
        strict = [(i, c) for i, c in enumerate(self.columns) if c.must_have_value]
        refuse_missing([(c.name, frame.iloc[:, i]) for i, c in strict])
        return np.hstack([column.encode(frame.iloc[:, i]) for i, column in enumerate(self.columns)])

    def new_gaps(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Where a value is missing in a column that had all of its values in fit, (N, such columns).

        Args:
            frame: N rows with names of columns, of which some may not be of fit.

        >>> encoding = Encoding.learn(pd.DataFrame({"age": [1, 3], "job": ["nurse", None]}))
        >>> encoding.new_gaps(pd.DataFrame({"age": [None, 2], "job": [None, "cook"]})).values.tolist()
        [[True], [False]]
        """
        return frame[[c.name for c in self.columns if not c.may_miss and c.name in frame]].isna()

    def rows(self, frame: pd.DataFrame, y: Tensor, *, dtype: torch.dtype = torch.float64) -> Rows:
        """What a model sees of a frame (N rows) with class numbers y (N,), and what it needs to know about it.

        >>> frame = pd.DataFrame({"age": [20, 40], "job": ["nurse", "cook"]}, index=["ann", "bob"])
        >>> Encoding.learn(frame).rows(frame, torch.tensor([0, 1])).index
        ('ann', 'bob')
        """
        x = torch.from_numpy(self.encode(frame)).to(dtype)
        # in the dtype of the rows: a rounded value may lie outside of the exact bound that it is
        lower, upper = (torch.as_tensor(bound, dtype=dtype) for bound in (self.domain.lower, self.domain.upper))
        domain = replace(self.domain, lower=lower, upper=upper)
        return Rows(x, y, self.names, row_names(frame), domain, self.as_columns, Units.of(self.describe(), frame))

    def check_columns(self, frame: pd.DataFrame) -> None:
        """Raise for a frame whose columns are not those that this was learned from."""
        expected, there = self.column_names, column_names(frame)
        # an array has no names
        if there != expected and expected != [f"x{i}" for i in range(len(expected))]:
            raise InputError(
                f"X has the columns {quoted(there)}, fit had {quoted(expected)}: give the same ones in the same "
                f"order{self.gaps(there)}"
            )

    def gaps(self, there: Sequence[str]) -> str:
        """A sentence that names every column of fit that is not among these; empty if all are."""
        missing = [name for name in self.column_names if name not in set(there)]
        return f". X has no column {', '.join(map(repr, missing))}" if missing else ""

    def describe(self) -> list[dict[str, Any]]:
        """Plain JSON values that `from_description` makes the same encoding from."""
        kinds = {kind: name for name, kind in KINDS.items()}
        return [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]

    @classmethod
    def from_description(cls, description: Sequence[dict[str, Any]]) -> "Encoding":
        """The encoding that `describe` described."""
        columns: list[Column] = []
        for entry in description:
            where = f"{quoted(entry)} does not describe a column"
            settings = typed(entry, dict[str, Any], where, CheckpointError)
            kind = KINDS.get(str(settings.pop("kind", None)))
            if kind is None:
                raise CheckpointError(f"{where}: its kind is none of {', '.join(KINDS)}")
            try:
                columns.append(typed(settings, kind, where, CheckpointError))
            except InputError as error:
                raise CheckpointError(f"{where}: {error}" if where not in str(error) else str(error)) from error
            if not columns[-1].possible:
                raise CheckpointError(f"{where}: its numbers are not those of a column")
        return cls(tuple(columns))
