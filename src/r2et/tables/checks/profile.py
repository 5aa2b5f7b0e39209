"""One column as every check sees it: looked at once, whatever asks about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Series: TypeAlias = "pd.Series[Any]"
#: "mixed" holds what no model takes: texts beside numbers, lists, bytes
Kind = Literal["number", "whole number", "yes or no", "text", "date", "mixed", "empty"]

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_DATES = ("datetime", "datetime64", "date")
_DAY = 86_400


@dataclass(frozen=True, eq=False)
class Profile:
    """What is known of a column of N rows.

    Attributes:
        name: of the column.
        kind: what it holds.
        codes: for each row the number of its value, in order of appearance; -1 where it is missing (N,).
        values: the different values, in that order.
        numbers: its values as numbers, dates in days, NaN where missing (N,); None for texts.
    """

    name: str
    kind: Kind
    codes: NDArray[np.int32]
    values: Sequence[Any]
    numbers: NDArray[np.float64] | None = None

    @property
    def rows(self) -> int:
        """N."""
        return len(self.codes)

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.values)

    @cached_property
    def missing(self) -> int:
        """How many rows have none."""
        return int((self.codes < 0).sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """In how many rows each value is."""
        return np.bincount(self.codes[self.codes >= 0], minlength=self.distinct)

    @property
    def numeric(self) -> bool:
        """Whether its values lie on a line."""
        return self.kind in ("number", "whole number", "date")

    @property
    def words(self) -> str:
        """The kind, and how many categories a text has.

        >>> profiled(pd.Series(["a", "b", "a"]), "job").words
        'category (2 values)'
        """
        return f"category ({self.distinct} values)" if self.kind == "text" else self.kind

    @property
    def values_as_numbers(self) -> list[float]:
        """The different values of a column of numbers or dates, as numbers."""
        assert self.numbers is not None
        places = np.full(self.distinct, -1)
        places[self.codes[::-1]] = np.arange(self.rows)[::-1]
        return [float(self.numbers[place]) for place in places]

    def commonest(self, count: int) -> list[tuple[Any, int]]:
        """The values that most rows have, with how many these are.

        >>> profiled(pd.Series([3, 4, 4]), "age").commonest(1)
        [(4, 2)]
        """
        order = np.argsort(-self.counts, kind="stable")[:count]
        return [(plain(self.values[place]), int(self.counts[place])) for place in order]


def profiled(column: Series, name: str) -> Profile:
    """Look at a column.

    >>> profiled(pd.Series([1.0, None, 3.0]), "rooms").kind
    'whole number'
    """
    kind, numbers = _kind(column)
    if kind == "mixed":
        # lists cannot be told apart by their hash
        column = column.astype(object).map(lambda value: value if _is_missing(value) else repr(value))
    elif isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    codes, values = pd.factorize(column)
    return Profile(name, kind, codes.astype(np.int32), list(values), numbers)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and np.isnan(value))


def _kind(column: Series) -> tuple[Kind, NDArray[np.float64] | None]:
    if column.isna().all():
        return "empty", None
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred == "string":
        return "text", None
    if inferred in _DATES:
        return "date", _days(column)
    if inferred == "boolean" or inferred in _NUMBERS:
        try:
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError, OverflowError):
            return "mixed", None
        return _kind_of_numbers(numbers), numbers
    return "mixed", None


def _kind_of_numbers(numbers: NDArray[np.float64]) -> Kind:
    present = numbers[~np.isnan(numbers)]
    if np.isin(present, (0.0, 1.0)).all() and len(np.unique(present)) == 2:
        return "yes or no"
    finite = present[np.isfinite(present)]
    return "whole number" if len(finite) and bool((finite == np.round(finite)).all()) else "number"


def _days(column: Series) -> NDArray[np.float64] | None:
    """Days since 1970."""
    moments = pd.to_datetime(column, errors="coerce", utc=True)
    # in seconds: nanoseconds end in the year 2262
    days = moments.to_numpy(dtype="datetime64[s]").astype(np.int64) / _DAY
    return np.where(moments.isna().to_numpy(), np.nan, days)


def plain(value: Any) -> Any:
    """A value as JSON has it.

    >>> plain(np.float64(2.0)), plain(np.int64(3)), plain(pd.Timestamp("2020-01-31"))
    (2.0, 3, '2020-01-31')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return str(value).removesuffix(" 00:00:00")


def shown(value: Any) -> str:
    """A value as a sentence quotes it: short, and without a trailing ".0".

    >>> shown(12.0), shown("cook"), shown(0.25)
    ('12', "'cook'", '0.25')
    """
    value = plain(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, str):
        text = " ".join(value.split())
        return repr(text if len(text) <= 40 else f"{text[:37]}...")
    return str(value)
