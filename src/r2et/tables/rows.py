"""`Rows`: what every table, array or tensor is in the end."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from r2et.columns import Columns
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.numerics.checks import check_inputs
from r2et.numerics.values import check_kind, check_text, quoted
from r2et.tables.units import Units

# pandas is imported when it is used: tensors need none
if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Labels = Tensor | NDArray[np.integer[Any]] | pd.Series[Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs, labels, and what is known about their features and rows.

    Attributes:
        x: (N, *features).
        y: class numbers, int64 (N,), or for a model with one output numbers (N,).
        names: of the features, or ().
        index: names of the rows, or ().
        domain: the values that the features can take; None if that is unknown.
        columns: which features make up which column of a table; None if that is unknown.
        units: the columns in a person's own units; None if these are unknown.
        target: what the classes are of, such as a column of a file; "" if that is unknown.

    >>> Rows(torch.zeros(2, 2), torch.tensor([0, 1]), ("age", "pay"))
    Rows(names=('age', 'pay'))
    """

    x: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    names: tuple[str, ...] = ()
    index: tuple[str, ...] = field(default=(), repr=False)
    domain: Domain | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)
    units: Units | None = field(default=None, repr=False)
    target: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        # what they hold is checked by whoever uses them: once, inside of one call
        for name in ("x", "y"):
            check_kind(name, getattr(self, name), Tensor, "torch.tensor([0, 1])")
        if self.domain is not None:
            check_kind("domain", self.domain, Domain, "r2et.Domain(lower=0.0)")
        if self.columns is not None:
            check_kind("columns", self.columns, Columns, "r2et.Columns.from_rows(x, domain)")
        if self.units is not None:
            check_kind("units", self.units, Units, "r2et.tables.Units.of(encoding.describe())")
        check_text("target", self.target)


if TYPE_CHECKING:
    Inputs = Tensor | NDArray[np.floating[Any]] | pd.DataFrame | Rows


def read_rows(x: "Inputs", y: "Labels | None", model: nn.Module) -> Rows:
    """Bring arrays and frames to the dtype and device of the model; tensors and `Rows` stay as they are.

    >>> import numpy as np
    >>> rows = read_rows(np.zeros((3, 2)), np.array([0, 1, 1]), nn.Linear(2, 2))
    >>> rows.x.dtype, rows.y
    (torch.float32, tensor([0, 1, 1]))
    """
    if isinstance(x, Rows):
        if y is not None:
            raise InputError(f"x are Rows, which have their labels: leave out y, got y={quoted(y)}")
        check_inputs(x.x)
        return x
    names: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    if not isinstance(x, Tensor):
        like = next(model.parameters(), torch.zeros(()))
        dtype = like.dtype if like.is_floating_point() else torch.float32
        values, names, index = _numbers(x)
        x = values.to(dtype).to(like.device)
    check_inputs(x)
    labels = y if isinstance(y, Tensor) else _told(y).to(x.device)
    return Rows(x, labels, names, index, target=series_name(y))


def series_name(y: object) -> str:
    """What a series is called; "" for what has no name."""
    # told without pandas, which tensors do not need
    name = getattr(y, "name", None) if hasattr(y, "iloc") else None
    return "" if name is None else str(name)


def row_names(frame: "pd.DataFrame") -> tuple[str, ...]:
    """The names of a frame's rows; () where they are only numbered from 0."""
    import pandas as pd

    numbered = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.step == 1
    return () if numbered else tuple(map(str, frame.index))


def _numbers(x: Any) -> tuple[Tensor, tuple[str, ...], tuple[str, ...]]:
    """An array or a frame as a tensor of float64, with the names of its columns and rows."""
    import numpy as np
    import pandas as pd

    from r2et.tables.columns import numeric_inputs, refuse_masked

    if isinstance(x, pd.DataFrame):
        return numeric_inputs(x, torch.float64, name="x"), tuple(map(str, x.columns)), row_names(x)
    refuse_masked(x, "x")
    try:
        array: NDArray[Any] = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"x cannot be read as an array of numbers, got {quoted(x)}: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"x must be numbers, got {type(x).__name__} of dtype {array.dtype}")
    return torch.from_numpy(np.array(array, dtype=np.float64)), (), ()


def _told(y: Any) -> Tensor:
    from r2et.tables.labels import classes_or_numbers

    return classes_or_numbers(y)
