"""The columns of a frame, checked: what cannot be used is refused with its column and row."""

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

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


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
            f"{name} has {missing} masked values, which are missing: leave these rows out, or put a "
            "sklearn.impute.SimpleImputer in front of x.filled(numpy.nan)"
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


def kind_of(column: Series, name: str) -> Literal["number", "flag", "category"]:
    """Whether a column is a "number", a "flag" or a "category": by its dtype, or by what its objects are."""
    _refuse_missing(column, name)
    if isinstance(column.dtype, pd.CategoricalDtype):
        kind_of(column.astype(object), name)
        return "category"
    inferred = pd.api.types.infer_dtype(column, skipna=False)
    if inferred in _NUMBERS:
        return "number"
    if inferred == "boolean":
        return "flag"
    if inferred == "string":
        return "category"
    if inferred in ("mixed", "mixed-integer"):
        _refuse_mixture(column, name)
    raise InputError(
        f"column {name!r} holds {inferred} values such as {column.iloc[0]!r}: turn them into numbers, text or "
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


def numbers(column: Series, name: str) -> NDArray[np.float64]:
    """A column as finite numbers (N,)."""
    _refuse_missing(column, name)
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    if not (pd.api.types.is_numeric_dtype(plain.dtype) or kind_of(plain, name) in ("number", "flag")):
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


def factorise(column: Series, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Number of the value of each row (N,), and the values as plain Python objects."""
    _refuse_missing(column, name)
    try:
        codes, values = pd.factorize(column.astype(object))
    except TypeError as error:
        raise ColumnTypeError(f"column {name!r} holds what cannot be a category: {error}") from error
    return codes.astype(np.int64), [value.item() if isinstance(value, np.generic) else value for value in values]
