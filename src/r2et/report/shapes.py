"""The shape functions of an additive model: what each column adds to the score, by its value."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_kind, check_text, quoted
from r2et.report.common import COLOURS, INK, new_figure, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from r2et.report.common import Values

    #: values of a number and what it adds there, or what each category adds
    Shape = tuple[Values, Values] | Mapping[str, float]

PANELS = 4
#: characters of a category's name that fit beside a bar
LONGEST = 18


def shape_functions(
    shapes: "Mapping[str, Shape]",
    *,
    rows: "Mapping[str, Values] | None" = None,
    title: str = "",
    ylabel: str = "adds to the log-odds",
) -> "Figure":
    """One panel for each column, all on one scale: what it adds to the score.

    Args:
        shapes: by the name of a column, (grid, values) of a number, each (G,), or what each category adds.
        rows: values (N,) that occur, by the name of a column, drawn as ticks below the curve: where there are
            none, the curve is a guess. A curve is moved to a mean of 0 over them: only differences mean something.
        title: such as the name of the data.
        ylabel: what the values are of.

    >>> grid = torch.linspace(-1, 1, 5)
    >>> figure = shape_functions({"age": (grid, grid**2), "job": {"cook": 0.3, "nurse": -0.3}})
    >>> [axis.get_title() for axis in figure.axes]
    ['age', 'job']
    """
    check_kind("shapes", shapes, Mapping, '{"age": (grid, values)}')
    for name, text in (("title", title), ("ylabel", ylabel)):
        check_text(name, text)
    if not shapes:
        raise InputError("shapes is empty: give (grid, values) by the name of a column")
    rows = {} if rows is None else rows
    check_kind("rows", rows, Mapping, '{"age": x[:, 0]}')
    curves = {name: _curve(name, shape, rows.get(name)) for name, shape in shapes.items()}
    spread = [values for _, values in curves.values()]
    low, high = min(float(v.min()) for v in spread), max(float(v.max()) for v in spread)
    across = min(PANELS, len(curves))
    down = math.ceil(len(curves) / across)
    figure = new_figure(2.6 * across + 0.4, 2.1 * down + 0.4)
    for number, (name, (places, values)) in enumerate(curves.items()):
        axis = figure.add_subplot(down, across, number + 1)
        if isinstance(places, Tensor):
            _draw_curve(axis, places, values, rows.get(name))
            _limit(axis.set_ylim, low, high)
        else:
            _draw_bars(axis, places, values)
            _limit(axis.set_xlim, low, high)
        _dress(axis, name)
    figure.suptitle(title, fontsize=10, color=INK)
    figure.supylabel(ylabel, fontsize=9, color=INK)
    return figure


def _curve(name: str, shape: "Shape", rows: "Values | None") -> tuple[Tensor | Sequence[str], Tensor]:
    if isinstance(shape, Mapping):
        return list(map(str, shape)), read(np.asarray(list(shape.values())), f"shapes[{name!r}]")
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise InputError(f"shapes[{name!r}] must be (grid, values) or values by category, got {quoted(shape)}")
    grid, values = (read(part, f"shapes[{name!r}]") for part in shape)
    if grid.ndim != 1 or grid.shape != values.shape:
        raise InputError(
            f"shapes[{name!r}] must be two lists of one length, got {tuple(grid.shape)} and {tuple(values.shape)}"
        )
    if rows is None:
        return grid, values
    order = grid.argsort()
    places = torch.searchsorted(grid[order], read(rows, f"rows[{name!r}]").flatten()).clamp_max(len(grid) - 1)
    return grid, values - values[order][places].mean()


def _draw_curve(axis: "Axes", grid: Tensor, values: Tensor, rows: "Values | None") -> None:
    axis.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
    axis.plot(grid.numpy(), values.numpy(), color=COLOURS["kept"], linewidth=1.6)
    if rows is None:
        return
    distinct = read(rows, "rows").flatten().unique()
    # enough to see where rows are
    shown = distinct[:: 1 + len(distinct) // 300]
    axis.plot(
        shown.numpy(),
        [0.03] * len(shown),
        "|",
        transform=axis.get_xaxis_transform(),
        color=INK,
        alpha=0.45,
        markersize=5,
        markeredgewidth=0.5,
        gid="rows",
    )


def _draw_bars(axis: "Axes", names: Sequence[str], values: Tensor) -> None:
    axis.axvline(0, color=INK, linewidth=0.6, alpha=0.5)
    axis.barh(range(len(names)), values.numpy(), color=COLOURS["entered"], height=0.7)
    short = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names]
    axis.set_yticks(range(len(names)), short)
    axis.invert_yaxis()


def _limit(set_limits: object, low: float, high: float) -> None:
    room = 0.12 * (high - low) or 1.0
    assert callable(set_limits)
    set_limits(low - room, high + room)


def _dress(axis: "Axes", name: str) -> None:
    axis.set_title(name, fontsize=8.5, color=INK)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
