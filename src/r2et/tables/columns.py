"""The columns of a frame, checked: what cannot be used is refused with its column and row."""

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_columns, check_kind, check_text, few, quoted

Series: TypeAlias = "pd.Series[Any]"

#: what a missing value is called, as a category and in lists
MISSING = "missing"

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_DATES = ("datetime64", "datetime", "date")
#: how files write flags
_FLAGS = {"True": 1, "False": 0, "true": 1, "false": 0, "TRUE": 1, "FALSE": 0}


class ColumnTypeError(InputError, TypeError):
    """A column holds something that is neither text nor a number; scikit-learn expects a TypeError."""


@contextmanager
def as_input_errors() -> Iterator[None]:
    """What scikit-learn says about a table, in its words, as an InputError, which is a ValueError too."""
    from sklearn.exceptions import NotFittedError

    try:
        yield
    except (InputError, NotFittedError):
        raise
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(str(error)) from error


def as_frame(x: Any) -> pd.DataFrame:
    """Anything like a table of N rows as a frame.

    Args:
        x: a frame, or what numpy makes an array (N, columns) of; its columns are called x0, x1 and so on.

    >>> as_frame([[1, 2], [3, 4]]).columns.tolist()
    ['x0', 'x1']
    """
    if not isinstance(x, pd.DataFrame):
        refuse_masked(x, "X")
        from sklearn.utils.validation import check_array

        with as_input_errors():
            # of strings and objects as they are: a column may be categorical
            values = check_array(x, dtype=None, ensure_all_finite=False, estimator="StableClassifier")
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    for count, what in zip(x.shape, ("row", "column"), strict=True):
        if count == 0:
            raise InputError(f"X is a frame of shape {x.shape}: it needs at least one {what}")
    check_columns("X", x.columns)
    return x


def refuse_masked(values: object, name: str) -> None:
    """Raise for a masked array of numpy: what it masks is missing, and would be taken for what lies beneath."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        missing = int(np.ma.getmaskarray(values).sum())
        raise InputError(
            f"{name} has {missing} masked values, which are missing: a StableClassifier takes "
            "x.astype(float).filled(numpy.nan); for other models leave these rows out"
        )


def numeric_inputs(frame: pd.DataFrame, dtype: torch.dtype = torch.float32, *, name: str = "the frame") -> Tensor:
    """Numeric columns as the tensor (N, columns) that a model sees; anything else is an error that names it.

    >>> numeric_inputs(pd.DataFrame({"age": [30, 40], "smokes": [True, False]}))
    tensor([[30.,  1.],
            [40.,  0.]])
    """
    check_kind("frame", frame, pd.DataFrame, "a pandas.DataFrame")
    check_kind("dtype", dtype, torch.dtype, "torch.float32")
    check_columns(name, frame.columns)
    wrong = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column].dtype)]
    if wrong:
        example = frame[wrong[0]].dropna()
        shown = f" (such as {example.iloc[0]!r} in {wrong[0]!r})" if len(example) else ""
        raise InputError(
            f"{len(wrong)} of {frame.shape[1]} columns of {name} do not hold numbers: {few(wrong)}{shown}. This "
            "model takes numbers: encode them as in its training, or choose columns (--columns). "
            "r2et.StableClassifier, and what r2et train fits to a file, take text as it is"
        )
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        names = [str(column) for column, any_bad in zip(frame.columns, bad.any(0), strict=True) if any_bad]
        row = int(np.flatnonzero(bad.any(1))[0])
        raise InputError(
            f"{int(bad.sum())} values of {name} are missing (NaN) or infinite, in {few(names)}, first in row "
            f"{label(frame.iloc[:, 0], row)}: fill them in or leave the rows out"
        )
    # a copy: pandas may hand out its own memory
    return torch.from_numpy(np.array(values)).to(dtype)


def listed_names(name: str, values: object) -> list[str]:
    """The texts of a list of names.

    >>> listed_names("columns", ("age", "pay"))
    ['age', 'pay']
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray | pd.Index | pd.Series):
        raise InputError(f"{name} must be a list of names, got {name}={quoted(values)}")
    listed = list(values)
    for each in listed:
        check_text(f"a name in {name}", each)
    return listed


def which_columns(frame: pd.DataFrame, chosen: Any) -> list[int]:
    """The numbers of the columns that a list of names, of numbers, or a mask stands for.

    >>> frame = pd.DataFrame({"age": [1], "zip": [2]})
    >>> which_columns(frame, ["zip"]), which_columns(frame, [1]), which_columns(frame, [False, True])
    ([1], [1], [1])
    """
    if chosen is None:
        return []
    entries = [chosen] if isinstance(chosen, str) or np.ndim(chosen) == 0 else list(chosen)
    names = column_names(frame)
    if entries and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != len(names):
            raise InputError(f"categorical_features is a mask of {len(entries)} for {len(names)} columns")
        return [i for i, entry in enumerate(entries) if entry]
    places = []
    for entry in entries:
        if isinstance(entry, str) and entry in names:
            places.append(names.index(entry))
        elif isinstance(entry, int | np.integer) and 0 <= entry < len(names):
            places.append(int(entry))
        else:
            raise InputError(
                f"categorical_features names {entry!r}, but the columns are {', '.join(map(repr, names))}: give "
                "names, numbers from 0, or one True or False for each"
            )
    return places


def column_names(frame: pd.DataFrame) -> list[str]:
    """The names of a frame's columns as text; a list has plain numbers where pandas' index has numpy's."""
    return [str(name) for name in frame.columns.tolist()]


def label(column: Series, place: int | np.integer[Any]) -> str:
    """What the row at a place is called, as an error message shows it.

    >>> label(pd.Series([3.0, 4.0], index=[10, 20]), 1)
    '20'
    """
    name = column.index[int(place)]
    return repr(name.item() if isinstance(name, np.generic) else name)


def kind_of(column: Series, name: str) -> Literal["number", "flag", "category", "date"]:
    """What the values of a column are, missing ones aside: by its dtype, or by what its objects are."""
    there = _present(column, name)
    if isinstance(column.dtype, pd.CategoricalDtype):
        kind_of(there.astype(object), name)
        return "category"
    inferred = pd.api.types.infer_dtype(there, skipna=False)
    if inferred in _NUMBERS:
        return "number"
    if inferred == "boolean":
        return "flag"
    if inferred == "string":
        return "category"
    if inferred in _DATES:
        return "date"
    if inferred in ("mixed", "mixed-integer"):
        _refuse_mixture(there, name)
    raise InputError(
        f"column {name!r} holds {inferred} values such as {there.iloc[0]!r}: turn them into numbers, text, dates "
        "or categories"
    )


def _present(column: Series, name: str) -> Series:
    there = column[column.notna()]
    if not len(there):
        raise InputError(f"column {name!r} has no value in any of {len(column)} rows: leave it out")
    return there


def refuse_missing(columns: Sequence[tuple[str, Series]]) -> None:
    """Raise if values are missing in columns that may miss none, with all of them, counted.

    >>> refuse_missing([("age", pd.Series([1.0, None])), ("job", pd.Series(["cook", "nurse"]))])
    Traceback (most recent call last):
    r2et.errors.InputError: values are missing in a column that missed none in fit: 'age' (1 of 2, first in row 1).
    Fill them in, leave these rows out, or fit on rows of which some miss them
    """
    told = []
    for name, column in columns:
        missing = np.flatnonzero(column.isna().to_numpy())
        if len(missing):
            told.append(f"{name!r} ({len(missing)} of {len(column)}, first in row {label(column, missing[0])})")
    if told:
        which = "a column that missed none" if len(told) == 1 else f"{len(told)} columns that missed none"
        raise InputError(
            f"values are missing in {which} in fit: {', '.join(told)}. Fill them in, leave these rows out, or fit "
            "on rows of which some miss them"
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


def numbers(column: Series, name: str) -> NDArray[np.float64]:
    """A column as finite numbers (N,), NaN where one is missing; numbers that are written as text are read."""
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    if not pd.api.types.is_numeric_dtype(plain.dtype):
        plain = _as_numeric(plain, name)
    try:
        values = plain.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name!r} cannot be read as numbers: {error}") from error
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise InputError(
            f"column {name!r} has infinite values, first {values[infinite[0]]} in row "
            f"{label(column, infinite[0])}: leave these rows out or replace the values"
        )
    return values


def _as_numeric(column: Series, name: str) -> Series:
    """Objects that are numbers, or all of which are texts of numbers."""
    if not column.notna().any() or kind_of(column, name) in ("number", "flag"):
        return column.where(column.notna(), np.nan)
    texts = column.map(lambda value: _FLAGS.get(value, value) if isinstance(value, str) else value)
    values = pd.to_numeric(texts, errors="coerce")
    wrong = np.flatnonzero((values.isna() & column.notna()).to_numpy())
    if len(wrong):
        raise InputError(
            f"column {name!r} held numbers in fit and holds {column.iloc[wrong[0]]!r} in row "
            f"{label(column, wrong[0])} now, which is none ({len(wrong)} such rows): convert the column, for "
            "example by pandas.to_numeric"
        )
    return values


def days(column: Series, name: str) -> NDArray[np.float64]:
    """A column of dates, or of ISO dates as text, as days since 1970 (N,), NaN where one is missing.

    >>> days(pd.Series(["1970-01-02", None, "1971-01-01 12:00"]), "since")
    array([  1. ,   nan, 365.5])
    """
    kind = kind_of(column, name) if column.notna().any() else "date"
    if kind not in ("date", "category"):
        raise InputError(
            f"column {name!r} held dates in fit and holds {_present(column, name).iloc[0]!r} now: convert it by "
            "pandas.to_datetime"
        )
    # of any time zone as of UTC, so that a column may have several
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        dates = pd.to_datetime(column, utc=True)
    else:
        dates = pd.to_datetime(column.astype(object), errors="coerce", format="ISO8601", utc=True)
    wrong = np.flatnonzero((dates.isna() & column.notna()).to_numpy())
    if len(wrong):
        raise InputError(
            f"column {name!r} holds {column.iloc[wrong[0]]!r} in row {label(column, wrong[0])}, which is no date "
            f"such as 2024-12-31 ({len(wrong)} such rows): convert the column by pandas.to_datetime"
        )
    since = dates - pd.Timestamp(0, tz="UTC")
    return np.asarray((since / pd.Timedelta(days=1)).to_numpy(na_value=np.nan), dtype=np.float64)


def factorise(column: Series, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Number of the value of each row (N,), and the values as plain Python objects; a missing one is "missing".

    Whole numbers are whole, also where missing values beside them made floats of them; a date is a text.
    """
    try:
        codes, values = pd.factorize(column.astype(object).where(column.notna(), MISSING))
    except TypeError as error:
        raise ColumnTypeError(f"column {name!r} holds what cannot be a category: {error}") from error
    return codes.astype(np.int64), [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, datetime.date):
        return as_text(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_text(value: Any) -> str:
    """A value as a file has it: whole numbers without a fraction, dates without a time that is midnight.

    >>> as_text(30.0), as_text(True), as_text(pd.NaT), as_text(pd.Timestamp("2024-12-31"))
    ('30', 'True', 'missing', '2024-12-31')
    """
    if value is None or value is pd.NA or value != value:  # NaN and NaT are not equal to themselves
        return MISSING
    if isinstance(value, datetime.datetime):
        return date_text(value)
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def date_text(value: datetime.datetime) -> str:
    """A date as ISO 8601, without a time that is midnight."""
    whole = value.time() == datetime.time() and value.tzinfo is None
    return value.date().isoformat() if whole else value.isoformat(sep=" ")
