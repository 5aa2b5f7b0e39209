"""Labels as class numbers: the only place where a label becomes a number."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import as_number, check_count, check_kind, few, quoted
from r2et.tables.columns import as_input_errors, label, listed_names

Series: TypeAlias = "pd.Series[Any]"


def class_order(labels: Series, count: int | None = None, order: Sequence[str] | None = None) -> list[Any]:
    """The labels that stand for classes 0, 1 and so on.

    Args:
        labels: of all rows.
        count: how many classes the model has; None = as many as there are labels.
        order: the labels in the order of the classes, as text; None = sorted. Whole numbers from 0 below count
            stand for themselves.

    >>> class_order(pd.Series(["yes", "no", "yes"]))
    ['no', 'yes']
    >>> class_order(pd.Series(["yes", "no", "yes"]), order=["yes", "no"])
    ['yes', 'no']
    >>> class_order(pd.Series([2, 0, 2]), count=3)
    [0, 1, 2]
    """
    check_kind("labels", labels, pd.Series, "a pandas.Series")
    if count is not None:
        check_count("count", count)
    order = None if order is None else listed_names("order", order)
    values = [value.item() if isinstance(value, np.generic) else value for value in labels.unique()]
    if order is not None:
        by_text = {_text(value): value for value in values}
        unknown = [text for text in by_text if text not in order]
        if unknown:
            raise InputError(
                f"label {unknown[0]!r} is not among the classes {', '.join(map(repr, order))}: name all of them, "
                "in the order of the model's outputs"
            )
        if len(set(order)) < len(order):
            raise InputError(f"a class is named twice in {', '.join(map(repr, order))}")
        classes = [by_text.get(text, text) for text in order]
    elif count is not None and len(values) != count and all(_whole(value, count) for value in values):
        classes = list(range(count))
    else:
        try:
            classes = sorted(values)
        except TypeError as error:
            raise InputError(f"the labels mix text and numbers, {few(list(map(repr, values)))}") from error
    if count is not None and len(classes) != count:
        raise InputError(
            f"the model has {count} classes, the labels are {len(classes)}: {few(list(map(_text, classes)))}. "
            "Name all classes in the order of the model's outputs by --classes"
        )
    return classes


def class_numbers(labels: Any, classes: Sequence[Any] | None = None) -> Tensor:
    """The number of each label among the classes, int64 (N,).

    Args:
        labels: N labels, a series, an array or a list.
        classes: the labels of class 0, 1 and so on; None = the labels are class numbers.

    >>> class_numbers(pd.Series(["yes", "no", "yes"]), ["no", "yes"])
    tensor([1, 0, 1])
    >>> class_numbers([1.0, 0.0])
    tensor([1, 0])
    """
    if classes is None:
        return _whole_numbers(labels)
    column = _column(labels)
    number = _places(classes)
    values = column.tolist()
    unknown = [place for place, value in enumerate(values) if value not in number]
    if unknown:
        where = "" if column.name is None else f" of column {column.name!r}"
        raise InputError(
            f"label {values[unknown[0]]!r} in row {label(column, unknown[0])}{where} is not among the classes "
            f"{', '.join(map(repr, number))}"
        )
    return torch.tensor([number[value] for value in values], dtype=torch.int64)


def as_numbers(labels: Any) -> Tensor:
    """Numbers that are to be predicted, float64 (N,): finite, and no text.

    >>> as_numbers(pd.Series([1, 2.5]))
    tensor([1.0000, 2.5000], dtype=torch.float64)
    """
    column = _column(labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels)
    where = "" if column.name is None else f" of column {column.name!r}"
    values = column.tolist()
    for place, value in enumerate(values):
        if isinstance(value, str | bytes) or as_number(value) is None:
            raise InputError(
                f"a number is predicted, but {quoted(value)} in row {label(column, place)}{where} is none"
            )
    numbers = np.array(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        place = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(
            f"a number is predicted, but that in row {label(column, place)}{where} is missing or infinite, "
            f"{numbers[place]}"
        )
    return torch.from_numpy(numbers)


def classes_or_numbers(labels: Any) -> Tensor:
    """Class numbers, int64 (N,), or where there are fractions numbers, float64 (N,).

    >>> classes_or_numbers([1.0, 0.0]), classes_or_numbers([1.0, 0.5])
    (tensor([1, 0]), tensor([1.0000, 0.5000], dtype=torch.float64))
    """
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        return _whole_numbers(labels)  # which says what is wrong
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array != np.round(array)).any():
        return torch.from_numpy(array.astype(np.float64))
    return _whole_numbers(labels)


def _places(classes: Sequence[Any]) -> dict[Any, int]:
    """The number of each class, by its label."""
    if isinstance(classes, str | bytes) or not isinstance(classes, Sequence | np.ndarray):
        raise InputError(f"classes must be a list of labels, got classes={quoted(classes)}")
    try:
        return {value: place for place, value in enumerate(np.asarray(classes, dtype=object).tolist())}
    except TypeError as error:
        raise InputError(f"classes must be a list of labels, got classes={quoted(classes)}") from error


def _column(labels: Any) -> Series:
    """One label per row, of whatever holds them."""
    if isinstance(labels, pd.Series):
        return labels
    from sklearn.utils.validation import column_or_1d

    with as_input_errors():
        return pd.Series(column_or_1d(labels))


def _whole_numbers(labels: Any) -> Tensor:
    """Labels that are class numbers, of any type of number."""
    try:
        array: NDArray[Any] = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"y cannot be read as an array of numbers, got {quoted(labels)}: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"labels must be class numbers 0, 1, ..., got {array.ravel()[:1].tolist()} of dtype {array.dtype}; "
            "turn names into numbers in the order of the model's outputs, and pass the names as class_names="
        )
    numbers = array.astype(np.int64)
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (numbers == array).all()):
        raise InputError("labels must be whole class numbers 0, 1, ...; got fractions or missing values")
    return torch.from_numpy(numbers)


def _whole(value: Any, count: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value in range(count)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
