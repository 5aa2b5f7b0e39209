"""Gradient magnitude by rank (Fig. 8)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from r2et.errors import InputError
from r2et.numerics.values import check_choice, check_kind, check_text
from r2et.report.common import INK, check_top, new_figure, read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from r2et.report.common import Values

RankScale = Literal["log", "linear"]
_DECADES = 1e-5
#: with four line styles, so that curves that coincide or are printed in grey are told apart
_CURVES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
_STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 0.8)))


def magnitude_by_rank(
    scores: "Mapping[str, Values]",
    k: int,
    *,
    rank_scale: RankScale = "log",
    title: str = "",
    ylabel: str = "magnitude",
) -> "Figure":
    """How fast the scores fall from the most to the least salient feature (Fig. 8): one curve per method.

    A curve is the mean over inputs of the magnitude at each rank, its band reaches from the 10th to the 90th
    percentile of the inputs. The step from rank k to k + 1 is the gap that keeps the top-k set together. The axis
    ends five decades below the largest mean.

    Args:
        scores: by the name of a method, explanations (N, n), or (N, 2, n) of pairs; N may differ.
        k: size of the salient set.
        rank_scale: "log" spreads out the first ranks, "linear" does not.
        title: such as the name of the data.
        ylabel: what the magnitude is of.

    >>> import torch
    >>> figure = magnitude_by_rank({"Vanilla": torch.tensor([[1.0, -4.0, 2.0], [2.0, 8.0, 4.0]])}, k=1)
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [6.0, 3.0, 1.5]
    """
    check_choice("rank_scale", rank_scale, get_args(RankScale))
    for name, text in (("title", title), ("ylabel", ylabel)):
        check_text(name, text)
    check_kind("scores", scores, Mapping, '{"Vanilla": scores}')
    if not scores:
        raise InputError("scores is empty: give explanations by the name of a method")
    by_method = {name: read(values, f"scores[{name!r}]") for name, values in scores.items()}
    shapes = {name: tuple(values.shape) for name, values in by_method.items()}
    if any(len(shape) < 2 for shape in shapes.values()) or len({shape[-1] for shape in shapes.values()}) > 1:
        raise InputError(f"explanations must be (N, n) with the same n, got {shapes}")
    n = next(iter(shapes.values()))[-1]
    check_top(k, n, next(iter(shapes.values())))

    figure = new_figure(6.4, 3.8)
    axis = figure.add_subplot()
    places = np.arange(1, n + 1)
    top = 0.0
    for number, (name, values) in enumerate(by_method.items()):
        ordered = values.reshape(-1, n).abs().sort(dim=-1, descending=True).values
        colour = _CURVES[number % len(_CURVES)]
        style = _STYLES[number % len(_STYLES)]
        low, high = np.quantile(ordered.numpy(), (0.1, 0.9), axis=0)
        axis.fill_between(places, low, high, color=colour, alpha=0.13, linewidth=0, gid=f"band {name}")
        mean = ordered.mean(0)
        top = max(top, float(mean[0]))
        axis.plot(places, mean.numpy(), color=colour, linestyle=style, linewidth=1.8, label=name)
    if top > 0:  # else there is nothing that a log scale could show
        axis.set_yscale("log", nonpositive="clip")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], _DECADES * top))
    axis.set_xscale(rank_scale)
    axis.set_xlim(*((1, n) if rank_scale == "log" else (0, n)))
    axis.axvline(k, color=INK, linewidth=1, linestyle=(0, (4, 2)), gid="k")
    axis.annotate(
        f"k = {k}",
        (k, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -4),
        textcoords="offset points",
        va="top",
        fontsize=9,
        color=INK,
    )
    axis.set_xlabel("rank of the feature, by magnitude", fontsize=9, color=INK)
    axis.set_ylabel(ylabel, fontsize=9, color=INK)
    axis.set_title(title, fontsize=10, color=INK)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(
        fontsize=8.5, frameon=False, title="mean over inputs; band: 10% to 90%", title_fontsize=8, alignment="left"
    )
    return figure
