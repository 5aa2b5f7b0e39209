"""What scikit-learn hands over, checked: parameters, tables, labels, weights."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_array, column_or_1d

from r2et.errors import InputError
from r2et.models.architecture import whole_numbers
from r2et.numerics.values import (
    check_columns,
    check_count,
    check_number,
    check_positive,
    check_weight,
    quoted,
)
from r2et.recipes import find_method
from r2et.tables.encoding import column_names


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise unless the parameters of a StableClassifier are possible."""
    method = find_method(given["method"], given["objective"])
    for name in ("settings", "grid"):
        values = given[name]
        if values is not None and not isinstance(values, Mapping):
            raise InputError(f"{name} must be a dict of hyper-parameters, got {quoted(values)}")
        method.settings(dict.fromkeys(values or {}, 0.0))
    for name, value in (given["settings"] or {}).items():
        check_number(f"settings[{name!r}]", value)
    for name, choices in (given["grid"] or {}).items():
        if np.ndim(choices) != 1 or len(choices) == 0:
            raise InputError(f"grid[{name!r}] must be a list of values to choose from, got {choices!r}")
        for value in choices:
            check_number(f"grid[{name!r}]", value)
    if np.ndim(given["hidden"]) != 1 or len(given["hidden"]) == 0:
        raise InputError(f"hidden must be a list of widths such as (32,), got {given['hidden']!r}")
    whole_numbers("hidden", [whole(width) for width in given["hidden"]])
    for name in ("k", "epochs", "attack_steps", "patience", "batch_size"):
        if (name, given[name]) not in (("patience", None), ("batch_size", "auto")):
            check_count(name, whole(given[name]))
    for name in ("lr", "radius", "validation_fraction"):
        check_positive(name, given[name])
    if given["validation_fraction"] >= 1:
        raise InputError(
            f"validation_fraction must be a share below 1, got validation_fraction={given['validation_fraction']}"
        )


def whole(value: Any) -> Any:
    """numpy's whole numbers as Python's, as a grid search hands them over; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


@contextmanager
def as_input_errors() -> Iterator[None]:
    """What scikit-learn says about a table, in its words, as an InputError, which is a ValueError too."""
    try:
        yield
    except (InputError, NotFittedError):
        raise
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(str(error)) from error


def check_same_columns(x: Any, expected: list[str]) -> None:
    """Raise for a frame whose columns are not those of fit; scikit-learn compares names only if all are text."""
    if not isinstance(x, pd.DataFrame) or expected == [f"x{i}" for i in range(len(expected))]:
        return
    given = column_names(x)
    if given != expected:
        raise InputError(
            f"X has the columns {quoted(given)}, fit had {quoted(expected)}: give the same ones in the same order"
        )


def as_frame(x: Any) -> pd.DataFrame:
    """Anything like a table of N rows as a frame.

    Args:
        x: a frame, or what numpy makes an array (N, columns) of; its columns are called x0, x1 and so on.

    >>> as_frame([[1, 2], [3, 4]]).columns.tolist()
    ['x0', 'x1']
    """
    if not isinstance(x, pd.DataFrame):
        if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
            missing = int(np.ma.getmaskarray(x).sum())
            raise InputError(
                f"X has {missing} masked values, which are missing: leave these rows out, or "
                "put a sklearn.impute.SimpleImputer in front of x.filled(numpy.nan)"
            )
        # of strings and objects as they are: a column may be categorical
        with as_input_errors():
            values = check_array(x, dtype=None, ensure_all_finite=False, estimator="StableClassifier")
        return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    for count, what in zip(x.shape, ("row", "column"), strict=True):
        if count == 0:
            raise InputError(f"X is a frame of shape {x.shape}: it needs at least one {what}")
    check_columns("X", x.columns)
    return x


def row_weights(
    sample_weight: Any,
    class_weight: Mapping[Any, float] | str | None,
    y: NDArray[Any],
) -> NDArray[np.float64]:
    """The weight of each row (N,): its own times its class's."""
    if sample_weight is None:
        weights = np.ones(len(y))
    else:
        given = np.asarray(sample_weight)
        if given.shape != y.shape:
            raise InputError(
                f"sample_weight must be one weight for each of {len(y)} rows, got shape {given.shape}"
            )
        with as_input_errors():
            weights = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight").copy()
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise InputError(f"sample_weight must not be negative, got {weights[row]} in row {row}")
    if class_weight is not None:
        weights *= _class_weights(class_weight, y)
    if not weights.any():
        raise InputError("all weights of rows are zero: give at least some rows a positive weight")
    return weights


def _class_weights(class_weight: Mapping[Any, float] | str, y: NDArray[Any]) -> NDArray[np.float64]:
    classes = np.unique(y).tolist()
    if isinstance(class_weight, Mapping):
        for label, weight in class_weight.items():
            if label not in classes:
                raise InputError(f"class_weight names {label!r}, the classes are {_listed(classes)}")
            check_weight(f"class_weight[{label!r}]", weight)
    elif class_weight != "balanced":
        raise InputError(f'class_weight is "balanced" or a dict of classes, got {class_weight!r}')
    found: NDArray[np.float64] = compute_sample_weight(class_weight, y)
    return found


def check_classes(classes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
    """There must be two classes to tell apart, with rows to train and rows to validate on."""
    counts, labels = np.bincount(numbers).tolist(), classes.tolist()
    if len(labels) < 2:
        raise InputError(
            f"all {len(numbers)} rows of positive weight have one class, {labels[0]!r}: a classifier needs two"
        )
    if sum(count > 1 for count in counts) < 2:
        found = ", ".join(f"{label!r} {count}" for label, count in zip(labels, counts, strict=True))
        raise InputError(f"two classes need at least two rows each, to train and to validate; got {found}")


def lowered_k(k: int, names: Sequence[str]) -> int:
    """k, or with a warning one less than there are features."""
    n = len(names)
    if n < 2:
        raise InputError(
            f"X has 1 feature(s) after encoding ({names[0]!r}): there is nothing to rank; bring at least two"
        )
    if k < n:
        return k
    warnings.warn(
        f"k={k} is lowered to k_={n - 1}: there are {n} encoded features, and a list of all of them says nothing",
        stacklevel=3,
    )
    return n - 1


def class_numbers(y: Any, classes: NDArray[Any], rows: int) -> NDArray[np.int64]:
    """The number of each label (N,) among the sorted classes; a new label is an error that quotes it."""
    with as_input_errors():
        labels = column_or_1d(y)
    if len(labels) != rows:
        raise InputError(f"{len(labels)} labels for {rows} rows of X")
    number = {label: c for c, label in enumerate(classes.tolist())}
    found = np.array([number.get(label, -1) for label in labels.tolist()], dtype=np.int64)
    if (found < 0).any():
        row = int(np.flatnonzero(found < 0)[0])
        raise InputError(
            f"label {labels.tolist()[row]!r} in row {row} was not there in fit, the classes are "
            f"{_listed(classes.tolist())}"
        )
    return found


def _listed(classes: list[Any]) -> str:
    return ", ".join(map(repr, classes))
