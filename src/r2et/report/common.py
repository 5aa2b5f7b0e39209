"""What the pictures share: reading arrays, which features stay in the top-k set, colours, legends."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from r2et.errors import InputError, in_words
from r2et.numerics.values import check_k
from r2et.ranking import boundary_gap, overlap, top_k_mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    Values = Tensor | NDArray[Any]

INK = "#333333"
#: Okabe and Ito's colours, which the colour-blind tell apart; line styles tell them apart in grey print
COLOURS = {"kept": "#0072b2", "lost": "#d55e00", "entered": "#009e73"}
STYLES = {"kept": "-", "lost": (0, (3, 1.5)), "entered": (0, (1, 1))}
#: the smallest mark that can be seen, in points
SMALLEST = 3.2


@dataclass(frozen=True, eq=False)
class Change:
    """The top-k sets of two explanations of n features.

    Args:
        kept, lost, entered: bool (n,): in both sets, in the first alone, in the second alone.
        precision: P@k.
        tied: whether a tie decides one of the sets (it goes to the smaller index).

    >>> change = Change.between(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([3.0, 1.0, 2.0]), k=2)
    >>> change.kept.tolist(), change.lost.tolist(), change.precision
    ([True, False, False], [False, True, False], 0.5)
    """

    kept: Tensor
    lost: Tensor
    entered: Tensor
    precision: float
    tied: bool

    @classmethod
    def between(cls, before: Tensor, after: Tensor, k: int) -> "Change":
        """Compare two explanations (n,)."""
        first, second = top_k_mask(before, k), top_k_mask(after, k)
        precision = float(overlap(first, second, torch.float64))
        tied = any(float(boundary_gap(scores, k)) == 0 for scores in (before, after))
        return cls(first & second, first & ~second, second & ~first, precision, tied)

    def of(self, when: int) -> dict[str, Tensor]:
        """The parts of the first (0) or the second (1) top-k set, by name."""
        return {"kept": self.kept, **({"entered": self.entered} if when else {"lost": self.lost})}

    def title(self) -> str:
        """P@k in words; a set that a tie decides is not passed over in silence."""
        k = int((self.kept | self.lost).sum())
        return precision_text(self.precision, k) + (", tied" if self.tied else "")

    def counts(self) -> dict[str, int]:
        """How many features of each kind."""
        return {name: int(getattr(self, name).sum()) for name in COLOURS}


def read(values: "Values", name: str) -> Tensor:
    """Finite numbers as a float64 tensor; the order of float32 scores and their ties stay as they are."""
    try:
        numbers = torch.as_tensor(values).detach().cpu().double()
        # sparse and nested ones have operations of their own
        numbers = numbers.to_dense() if numbers.layout != torch.strided else numbers
        bad = ~torch.isfinite(numbers)
    except (TypeError, ValueError, RuntimeError) as error:
        told = in_words(error)
        raise InputError(f"{name} must be a tensor or an array, got {type(values).__name__}: {told}") from error
    if numbers.numel() == 0 or bad.any():
        what = f"{int(bad.sum())} values that are NaN or infinite" if numbers.numel() else "no values"
        raise InputError(f"{name} of shape {tuple(numbers.shape)} has {what}: there is nothing to rank or draw")
    return numbers


def read_both(before: "Values", after: "Values") -> tuple[Tensor, Tensor]:
    """Two explanations of one shape."""
    first, second = read(before, "before"), read(after, "after")
    if first.shape != second.shape:
        raise InputError(f"before has shape {tuple(first.shape)}, but after {tuple(second.shape)}")
    return first, second


def precision_text(precision: float, k: int) -> str:
    """For titles.

    >>> precision_text(5 / 8, k=8)
    'P@8 62.5%'
    """
    return f"P@{k} {100 * precision:.3g}%"


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches, that no window or global state knows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("pictures need matplotlib, which is not installed: pip install r2et[plots]") from error
    return Figure(figsize=(width, height), layout="constrained", facecolor="white", dpi=150)


def colour_scale(scores: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Scores divided by the largest of them, and what imshow needs to know: darker = more important.

    Grey ends before black, so that an outline can be seen on it. With negative scores the scale goes from brown
    over white to purple.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    largest = scores.abs().max()
    shown = scores / largest if largest > 0 else scores
    if bool((scores < 0).any()):
        return shown, {"cmap": "PuOr", "vmin": -1.0, "vmax": 1.0, "interpolation": "nearest"}
    greys = LinearSegmentedColormap.from_list("greys", colormaps["Greys"]([0.0, 0.2, 0.4, 0.6, 0.75]))
    return shown, {"cmap": greys, "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}


def mark_cells(axis: "Axes", cells: Mapping[str, Tensor], cell_points: float) -> None:
    """Outline cells of an image drawn with imshow.

    Args:
        axis: where.
        cells: by the name of a kind of change, (row, column) of each cell, (2, m).
        cell_points: side of a cell in points, as it is drawn; a mark is never smaller than `SMALLEST`.
    """
    from matplotlib.collections import PolyCollection

    # inside its own cell, so that neighbours do not share a line
    half = max(0.42, SMALLEST / 2 / cell_points)
    for kind, (rows, columns) in cells.items():
        squares = [
            [(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)]
            for y, x in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        outlines = PolyCollection(
            squares,
            facecolors="none",
            edgecolors=COLOURS[kind],
            linewidths=min(1.2, max(0.7, 0.2 * cell_points)),
            gid=kind,
        )
        axis.add_collection(outlines, autolim=False)


def change_handles(k: int, what: str, kinds: Iterable[str] = COLOURS, *, arcs: bool = False) -> "list[Line2D]":
    """Entries of a legend: an outlined square or a line for each kind of change."""
    from matplotlib.lines import Line2D

    words = {
        "kept": f"top {k} {what} of both",
        "lost": "of the original only",
        "entered": "of the attacked only",
    }
    look: dict[str, Any] = {"linewidth": 1.8} if arcs else {"linestyle": "none", "marker": "s", "markersize": 6}
    return [
        Line2D(
            [],
            [],
            color=COLOURS[kind],
            markerfacecolor="none",
            markeredgewidth=1.3,
            label=words[kind],
            **({**look, "linestyle": STYLES[kind]} if arcs else look),
        )
        for kind in kinds
    ]


def strip(axis: "Axes") -> None:
    """No ticks, a thin grey frame."""
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color("#bbbbbb")
        spine.set_linewidth(0.6)


def check_top(k: int, n: int, shape: tuple[int, ...]) -> None:
    """k must fit n features; the message quotes the shape that they came in."""
    try:
        check_k(k, n)
    except InputError as error:
        raise InputError(f"{error} (explanations of shape {shape})") from error
