"""What people hand to an audit: tensors, arrays or frames, names, and radii that fit the data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import Activation, Explainer
from r2et.numerics.checks import check_inputs
from r2et.numerics.values import check_columns, check_names, check_radii, quoted

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Inputs = Tensor | NDArray[np.floating[Any]] | pd.DataFrame
    Labels = Tensor | NDArray[np.integer[Any]] | pd.Series[Any]

Layout = ImageLayout | GraphLayout
#: the default radii, in standard deviations of a typical feature
FRACTIONS = (0.1, 0.3, 1.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs, labels and what their columns and rows are called, if they say so.

    Attributes:
        x: (N, *features).
        y: int64 (N,).
        columns: names of the features, or ().
        index: names of the rows, or ().
    """

    x: Tensor
    y: Tensor
    columns: tuple[str, ...] = ()
    index: tuple[str, ...] = field(default=(), repr=False)


def read_rows(x: Any, y: Any, model: nn.Module) -> Rows:
    """Bring arrays and frames to the dtype and device of the model; tensors stay as they are.

    >>> import numpy as np
    >>> rows = read_rows(np.zeros((3, 2)), np.array([0, 1, 1]), nn.Linear(2, 2))
    >>> rows.x.dtype, rows.y
    (torch.float32, tensor([0, 1, 1]))
    """
    columns: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    if not isinstance(x, Tensor):
        columns, index = _names_of(x)
        like = next(model.parameters(), torch.zeros(()))
        x = _numbers(x, "x").to(like.dtype if like.is_floating_point() else torch.float32).to(like.device)
    check_inputs(x)
    if not isinstance(y, Tensor):
        y = _class_numbers(y).to(x.device)
    return Rows(x, y, columns, index)


def _names_of(frame: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        return (), ()
    check_columns("x", frame.columns)
    numbered = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.step == 1
    return tuple(map(str, frame.columns)), () if numbered else tuple(map(str, frame.index))


def _numbers(values: Any, name: str) -> Tensor:
    import numpy as np
    import pandas as pd

    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        missing = int(np.ma.getmaskarray(values).sum())
        raise InputError(f"{name} has {missing} masked values, which are missing: fill them in or leave them out")
    if isinstance(values, pd.DataFrame):
        twice = values.columns[values.columns.duplicated()]
        if len(twice):
            raise InputError(f"{name} has several columns called {twice[0]!r}: give each a name of its own")
        text = [column for column in values.columns if not pd.api.types.is_numeric_dtype(values[column])]
        if text:
            raise InputError(
                f"column {text[0]!r} of {name} is not numeric (dtype {values[text[0]].dtype}): encode it first, "
                "as the model was trained, or use r2et.StableClassifier, which takes tables as they are"
            )
        values = values.to_numpy(dtype=float, na_value=np.nan)
    array = _array(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers, got {type(values).__name__} of dtype {array.dtype}")
    return torch.from_numpy(np.array(array, dtype=np.float64))


def _array(values: Any, name: str) -> "NDArray[Any]":
    import numpy as np

    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as an array of numbers, got {quoted(values)}: {error}") from error


def _class_numbers(y: Any) -> Tensor:
    import numpy as np

    array = _array(y, "y")
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"labels must be class numbers 0, 1, ..., got {array.ravel()[:1].tolist()} of dtype {array.dtype}; "
            "turn names into numbers in the order of the model's outputs, and pass the names as class_names="
        )
    numbers = array.astype(np.int64)
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (numbers == array).all()):
        raise InputError("labels must be whole class numbers 0, 1, ...; got fractions or missing values")
    return torch.from_numpy(numbers)


# --- names ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """What features and classes are called.

    Attributes:
        ranked: of the n features that an explanation ranks.
        inputs: of the features of one input.
        classes: of the classes.
    """

    ranked: tuple[str, ...]
    inputs: tuple[str, ...]
    classes: tuple[str, ...]


def read_names(
    features: Iterable[Any] | None,
    classes: Iterable[Any] | None,
    layout: Layout | None,
    explainer: Explainer,
    ranked: int,
    inputs: int,
    logits: int,
) -> Names:
    """Names for `ranked` features of an explanation of `inputs` features, and for `logits` classes.

    Neurons, and pixels summed over channels, are not features of the input: given names are theirs only if there
    are as many names as of them, and not as of the input's features.
    """
    if layout is not None and layout.features != inputs:
        raise InputError(f"the layout has {layout.features} features, one input has {inputs}")
    of_inputs = _default_names(layout, inputs)
    of_ranked = of_inputs if ranked == inputs else tuple(f"feature {i}" for i in range(ranked))
    if isinstance(explainer, Activation):
        of_ranked = tuple(f"neuron {i}" for i in range(ranked))
    elif isinstance(layout, ImageLayout) and ranked == layout.shape[1] * layout.shape[2] != inputs:
        of_ranked = ImageLayout((1, *layout.shape[1:]), (0.0,), (1.0,)).names
    if features is not None:
        given = check_names("feature_names", features)
        if len(given) not in (inputs, ranked):
            ranks = "" if ranked == inputs else f", or {ranked} that are ranked"
            raise InputError(f"{len(given)} feature names for {inputs} features{ranks}")
        if len(given) == inputs:
            of_inputs = given
            of_ranked = given if ranked == inputs and not isinstance(explainer, Activation) else of_ranked
        else:
            of_ranked = given
    return Names(of_ranked, of_inputs, _class_names(classes, logits))


def _default_names(layout: Layout | None, count: int) -> tuple[str, ...]:
    return layout.names if layout is not None else tuple(f"feature {i}" for i in range(count))


def _class_names(given: Iterable[Any] | None, count: int) -> tuple[str, ...]:
    if given is None:
        return tuple(f"class {i}" for i in range(count))
    names = check_names("class_names", given)
    if len(names) != count:
        raise InputError(f"{len(names)} class names for {count} classes: {', '.join(map(repr, names[:10]))}")
    return names


# --- radii ------------------------------------------------------------------------------------------------------


def typical_spread(x: Tensor, domain: Domain | None, inputs: int) -> float | None:
    """The median standard deviation over the rows of x (N, *features), of features that vary and may be moved.

    >>> typical_spread(torch.tensor([[0.0, 5.0, 1.0], [2.0, 5.0, 5.0]]), Domain(frozen=[2]), inputs=1)
    1.0
    """
    flat = x.detach().flatten(start_dim=inputs).reshape(-1, x[0].numel() // inputs)
    domain = Domain() if domain is None else domain
    domain.check(flat.shape[1])
    deviations = flat.double().std(0, correction=0)
    varying = deviations[(deviations > 0) & domain.movable(flat.shape[1], x.device)]
    return float(varying.median()) if len(varying) else None


def choose_radii(given: Iterable[float] | None, spread: float | None) -> tuple[tuple[float, ...], str]:
    """The radii, and where they come from in a sentence.

    >>> choose_radii(None, 2.0)[0]
    (0.2, 0.6, 2.0)
    """
    if given is not None:
        return check_radii(given), "They were given by the person who ran the audit."
    shares = ", ".join(f"{share:g}" for share in FRACTIONS[:-1]) + f" and {FRACTIONS[-1]:g}"
    if spread is None:
        return FRACTIONS, (
            f"They are {shares}, because no feature that may be moved varies in these rows: there is no scale to "
            "take them from."
        )
    return tuple(float(f"{share * spread:.2g}") for share in FRACTIONS), (
        f"They are {shares} times the standard deviation of a typical feature in these rows ({spread:.3g}, the "
        "median over the features that vary and may be moved)."
    )
