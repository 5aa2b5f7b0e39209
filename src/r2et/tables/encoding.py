"""The columns of a person's table as the numbers a network sees, and what each number is called."""

from collections import Counter
from collections.abc import Iterable, Sequence
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
from r2et.tables.columns import column_names
from r2et.tables.declared import Feature
from r2et.tables.kinds import KINDS, Column, NumberColumn, declared, learned
from r2et.tables.rows import Rows, row_names
from r2et.tables.units import Units


@dataclass(frozen=True)
class Encoding:
    """From a frame to numbers (N, n), learned from the frame that a model is fitted on.

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
    def learn(cls, frame: pd.DataFrame, categorical: Iterable[int] = ()) -> "Encoding":
        """Look at every column of a frame.

        Args:
            frame: what a model is fitted on.
            categorical: numbers of the columns that are categorical though they hold numbers. Columns of text,
                objects and pandas categories always are.
        """
        chosen = set(categorical)
        names = column_names(frame)
        columns = (learned(frame.iloc[:, i], name, categorical=i in chosen) for i, name in enumerate(names))
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

    @cached_property
    def as_columns(self) -> Columns:
        """Which features make up which column, and how often each value of a discrete one occurs.

        >>> frame = pd.DataFrame({"age": [20, 40, 50], "job": ["nurse", "cook", "pilot"]})
        >>> Encoding.learn(frame).as_columns.features
        ((0,), (1, 2, 3))
        """
        ends = [0, *accumulate(len(column.names) for column in self.columns)]
        return Columns(
            names=self.column_names,
            features=[range(start, end) for start, end in pairwise(ends)],
            kinds=[column.kind for column in self.columns],
            frequencies=[column.frequencies for column in self.columns],
        )

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
                "order"
            )

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
            columns.append(typed(settings, kind, where, CheckpointError))
            if not columns[-1].possible:
                raise CheckpointError(f"{where}: its numbers are not those of a column")
        return cls(tuple(columns))
