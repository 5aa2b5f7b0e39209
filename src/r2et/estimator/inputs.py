"""What scikit-learn hands over, checked: parameters, tables, labels, weights."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_array

from r2et.columns import Columns
from r2et.errors import InputError
from r2et.estimator.networks import method_of
from r2et.models.architecture import whole_numbers
from r2et.numerics.values import (
    check_count,
    check_number,
    check_positive,
    check_weight,
    quoted,
)
from r2et.recipes import find_method
from r2et.tables.columns import as_input_errors
from r2et.tables.kinds import Pooling

#: what need not be a number
_AUTOMATIC = (("patience", None), ("batch_size", "auto"), ("epochs", "auto"), ("lr", "auto"))


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise unless the parameters of a StableClassifier are possible."""
    name_of_method = method_of(parameters["method"], parameters["network"])
    method = find_method(name_of_method, parameters["objective"])
    for name in ("settings", "grid"):
        values = parameters[name]
        if values is not None and not isinstance(values, Mapping):
            raise InputError(f"{name} must be a dict of hyper-parameters, got {quoted(values)}")
        method.settings(dict.fromkeys(values or {}, 0.0))
    for name, value in (parameters["settings"] or {}).items():
        check_number(f"settings[{name!r}]", value)
    for name, choices in (parameters["grid"] or {}).items():
        if np.ndim(choices) != 1 or len(choices) == 0:
            raise InputError(f"grid[{name!r}] must be a list of values to choose from, got {choices!r}")
        for value in choices:
            check_number(f"grid[{name!r}]", value)
    if np.ndim(parameters["hidden"]) != 1 or len(parameters["hidden"]) == 0:
        raise InputError(f"hidden must be a list of widths such as (32,), got {parameters['hidden']!r}")
    whole_numbers("hidden", [whole(width) for width in parameters["hidden"]])
    for name in ("k", "epochs", "patience", "batch_size"):
        if (name, parameters[name]) not in _AUTOMATIC:
            check_count(name, whole(parameters[name]))
    Pooling(parameters["rare_share"], whole(parameters["rare_rows"]))
    for name in ("lr", "radius", "validation_fraction"):
        if (name, parameters[name]) not in _AUTOMATIC:
            check_positive(name, parameters[name])
    share = parameters["validation_fraction"]
    if share >= 1:
        raise InputError(f"validation_fraction must be a share below 1, got validation_fraction={share}")


def whole(value: Any) -> Any:
    """numpy's whole numbers as Python's, as a grid search hands them over; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def row_weights(
    sample_weight: Any,
    class_weight: Mapping[Any, float] | str | None,
    y: NDArray[Any],
) -> NDArray[np.float64]:
    """The weight of each row (N,): its own times its class's."""
    if sample_weight is None:
        weights = np.ones(len(y))
    else:
        of_rows = np.asarray(sample_weight)
        if of_rows.shape != y.shape:
            raise InputError(
                f"sample_weight must be one weight for each of {len(y)} rows, got shape {of_rows.shape}"
            )
        with as_input_errors():
            weights = check_array(of_rows, ensure_2d=False, dtype=np.float64, input_name="sample_weight").copy()
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
    weights: NDArray[np.float64] = compute_sample_weight(class_weight, y)
    return weights


def check_classes(classes: NDArray[Any], numbers: NDArray[np.int64]) -> None:
    """There must be two classes to tell apart, with rows to train and rows to validate on."""
    counts, labels = np.bincount(numbers).tolist(), classes.tolist()
    if len(labels) < 2:
        raise InputError(
            f"all {len(numbers)} rows of positive weight have one class, {labels[0]!r}: a classifier needs two"
        )
    if sum(count > 1 for count in counts) < 2:
        told = ", ".join(f"{label!r} {count}" for label, count in zip(labels, counts, strict=True))
        raise InputError(f"two classes need at least two rows each, to train and to validate; got {told}")


def lowered_k(k: int, columns: Columns) -> int:
    """k, or with a warning one less than there are columns."""
    n = len(columns)
    if n < 2:
        raise InputError(
            f"X has 1 feature(s) ({columns.names[0]!r}): there is nothing to rank; bring at least two"
        )
    if k < n:
        return k
    warnings.warn(
        f"k={k} is lowered to k_={n - 1}: there are {n} columns, and a list of all of them says nothing",
        stacklevel=3,
    )
    return n - 1


def _listed(classes: list[Any]) -> str:
    return ", ".join(map(repr, classes))
