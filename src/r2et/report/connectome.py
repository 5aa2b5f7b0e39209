"""Explanations over the edges of a graph: as a matrix, and as arcs between regions on a circle."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2et.data.layouts import GraphLayout
from r2et.errors import InputError
from r2et.numerics.values import check_kind, check_text, quoted
from r2et.report.common import (
    COLOURS,
    INK,
    STYLES,
    Change,
    change_handles,
    check_top,
    colour_scale,
    mark_cells,
    new_figure,
    read_both,
    strip,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from r2et.report.common import Values

#: the lobes of the AAL atlas, by how the names of its regions begin
_AAL = {
    "frontal": ("Precentral", "Frontal", "Rolandic", "Supp_Motor", "Olfactory", "Rectus", "Paracentral"),
    "insula, limbic": ("Insula", "Cingul", "Hippocampus", "ParaHippocampal", "Amygdala"),
    "occipital": ("Calcarine", "Cuneus", "Lingual", "Occipital", "Fusiform"),
    "parietal": ("Postcentral", "Parietal", "SupraMarginal", "Angular", "Precuneus"),
    "deep nuclei": ("Caudate", "Putamen", "Pallidum", "Thalamus"),
    "temporal": ("Heschl", "Temporal"),
    "cerebellum": ("Cerebel", "Vermis"),
}
_SIDE = re.compile(r"(?:^|[\s_.-])(L|R|l|r|lh|rh|LH|RH|[Ll]eft|[Rr]ight)(?:$|[\s_.-])")
_MOST_NAMES = 40
_MOST_GROUPS = 20


def lobes(regions: Sequence[str]) -> tuple[str, ...]:
    """The group of each region: its lobe in the AAL atlas, else the first word of its name.

    >>> lobes(["Precentral_L", "Cuneus_R", "DMN_PCC", "DMN_mPFC"])
    ('frontal', 'occipital', 'DMN', 'DMN')
    """
    if isinstance(regions, str | Tensor) or not isinstance(regions, Iterable):
        raise InputError(f"regions must be a list of names, got regions={quoted(regions)}")
    listed = tuple(regions)
    for region in listed:
        check_text("region", region)
    return tuple(_lobe(region) for region in listed)


def _lobe(region: str) -> str:
    for lobe, beginnings in _AAL.items():
        if region.startswith(beginnings):
            return lobe
    words = [word for word in re.split(r"[\s_.\-]+", _SIDE.sub(" ", region)) if word]
    return re.sub(r"\d+$", "", words[0] if words else region) or region


def _side(region: str) -> int:
    """-1 = left hemisphere, 1 = right, 0 = the name does not say."""
    side = _SIDE.search(region)
    return 0 if side is None else -1 if side[1].lower().startswith("l") else 1


def connectome_matrix(
    before: "Values",
    after: "Values",
    layout: GraphLayout,
    k: int,
    *,
    groups: Sequence[str] | None = None,
    title: str = "",
) -> "Figure":
    """Scores of edges before and after an attack as symmetric matrices, the top-k edges outlined.

    Both share one scale: scores are divided by the largest of both. Regions are put together by group; up to 40 of
    them are named, of more the groups are. "tied" after P@k says that a tie decides a top-k set.

    Args:
        before: explanation of the original graph, one score per edge, (edges,).
        after: explanation of the attacked graph, likewise.
        layout: the regions and their edges.
        k: how many edges to mark; each is outlined in both triangles.
        groups: one name per region; None = `lobes(layout.regions)`.
        title: such as the name of a method.

    >>> layout = GraphLayout(("a", "b", "c"), torch.zeros(3), torch.ones(3))
    >>> figure = connectome_matrix(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([3.0, 1.0, 2.0]), layout, k=2)
    >>> [axis.get_title() for axis in figure.axes]
    ['original', 'attacked: P@2 50%', '']
    """
    check_text("title", title)
    scores, change, names = _read(before, after, layout, k, groups)
    order = _grouped(names)
    grouped = [names[i] for i in order]
    place = torch.empty(len(order), dtype=torch.int64)
    place[torch.tensor(order)] = torch.arange(len(order))
    ends = place[layout.ends]

    side = 3.5
    figure = new_figure(2 * side + 1.6, side + (1.3 if len(order) > _MOST_NAMES else 1.75))
    axes = figure.subplots(1, 2, sharey=True)
    shown, look = colour_scale(scores)
    matrices = layout.matrix(shown)[:, order][:, :, order]
    painted = None
    for when, axis in enumerate(axes):
        painted = axis.imshow(matrices[when].numpy(), **look)
        cells = {kind: ends[:, mask] for kind, mask in change.of(when).items()}
        both = {kind: torch.cat([pair, pair.flip(0)], dim=1) for kind, pair in cells.items()}
        mark_cells(axis, both, 72 * side / len(order))
        text = f"attacked: {change.title()}" if when else "original"
        axis.set_title(text, fontsize=10, color=INK)
        strip(axis)
        _name_axis(axis, [layout.regions[i] for i in order], grouped, first=when == 0)
    assert painted is not None
    bar = figure.colorbar(painted, ax=list(axes), shrink=0.8, pad=0.015, aspect=25)
    bar.set_label("score / largest", fontsize=8, color=INK)
    bar.ax.tick_params(labelsize=7)
    figure.legend(
        handles=change_handles(k, "edges"), loc="outside lower center", ncols=3, fontsize=8.5, frameon=False
    )
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    return figure


def connectome_circle(
    before: "Values",
    after: "Values",
    layout: GraphLayout,
    k: int,
    *,
    groups: Sequence[str] | None = None,
    title: str = "",
) -> "Figure":
    """The top-k edges before and after an attack as arcs between regions on a circle.

    Left and right hemispheres are on the left and on the right where the names tell ("Insula_L", "lh.insula"),
    regions of neither below. A region is named if one of these edges ends in it. "tied" after P@k says that a tie
    decides a top-k set.

    Args:
        before: explanation of the original graph, one score per edge, (edges,).
        after: explanation of the attacked graph, likewise.
        layout: the regions and their edges.
        k: size of the salient set.
        groups: one name per region, to put regions together; None = `lobes(layout.regions)`.
        title: such as the name of a method.

    >>> layout = GraphLayout(("a_L", "a_R", "b_L"), torch.zeros(3), torch.ones(3))
    >>> figure = connectome_circle(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([3.0, 1.0, 2.0]), layout, k=2)
    >>> figure.axes[0].get_title(), [arc.get_gid() for arc in figure.axes[0].patches]
    ('P@2 50%', ['lost 1', 'entered 2', 'kept 0'])
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    check_text("title", title)
    _, change, names = _read(before, after, layout, k, groups)
    angles = _angles(layout.regions, _grouped(names))
    spots = torch.stack([angles.cos(), angles.sin()], dim=1)
    figure = new_figure(7.6, 7.2)
    axis = figure.add_subplot()
    first, second = layout.ends.tolist()
    for kind in ("lost", "entered", "kept"):  # the kept ones on top
        for edge in getattr(change, kind).nonzero().flatten().tolist():
            a, b = spots[first[edge]], spots[second[edge]]
            # neighbours bow a little, opposite regions cross near the middle
            bow = (a + b) / 2 * (1 - 0.85 * min(1.0, float((a - b).norm())))
            path = Path([a.tolist(), bow.tolist(), b.tolist()], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
            width = 1.2 if kind == "kept" else 1.6
            arc = PathPatch(
                path,
                facecolor="none",
                edgecolor=COLOURS[kind],
                linestyle=STYLES[kind],
                linewidth=width,
                alpha=0.75 if kind == "kept" else 1.0,
                gid=f"{kind} {edge}",
            )
            axis.add_patch(arc)
    drawn = change.kept | change.lost | change.entered
    involved = set(layout.ends[:, drawn].flatten().tolist())
    _draw_regions(axis, layout.regions, names, angles, involved)
    axis.set_aspect("equal")
    axis.set_xlim(-1.5, 1.5)
    axis.set_ylim(-1.4, 1.4)
    axis.set_axis_off()
    axis.set_title(" · ".join(part for part in (title, change.title()) if part), fontsize=11)
    handles = change_handles(k, "edges", arcs=True)
    for handle, count in zip(handles, change.counts().values(), strict=True):
        handle.set_label(f"{handle.get_label()} ({count})")
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, fontsize=9, frameon=False, handlelength=2.6
    )
    return figure


def _read(
    before: "Values", after: "Values", layout: GraphLayout, k: int, groups: Sequence[str] | None
) -> tuple[Tensor, Change, Sequence[str]]:
    """Both explanations (2, edges), what changes, and the group of each region."""
    first, second = read_both(before, after)
    check_kind("layout", layout, GraphLayout, "r2et.data.GraphLayout(regions, mean, std)")
    if first.shape != (layout.features,):
        raise InputError(
            f"explanations of shape {tuple(first.shape)} do not fit {len(layout.regions)} regions: one score "
            f"for each of {layout.features} edges, ({layout.features},), is needed; of a batch or a pair, pick one"
        )
    check_top(k, layout.features, tuple(first.shape))
    names = lobes(layout.regions) if groups is None else groups
    check_kind("groups", names, (tuple, list), "a list of one name per region")
    if len(names) != len(layout.regions):
        raise InputError(f"{len(names)} groups for {len(layout.regions)} regions")
    return torch.stack([first, second]), Change.between(first, second, k), names


def _grouped(groups: Sequence[str]) -> list[int]:
    """Region numbers, those of a group together, groups in the order in which they first come."""
    first = {name: place for place, name in reversed(list(enumerate(groups)))}
    return sorted(range(len(groups)), key=lambda i: (first[groups[i]], i))


def _name_axis(axis: "Axes", regions: Sequence[str], groups: Sequence[str], *, first: bool) -> None:
    """Names of regions in the order they are drawn, or of their groups with lines between them."""
    starts = [i for i, name in enumerate(groups) if i == 0 or name != groups[i - 1]]
    if len(regions) <= _MOST_NAMES or len(starts) > _MOST_GROUPS:
        every = math.ceil(len(regions) / _MOST_NAMES)
        ticks: list[float] = [float(i) for i in range(0, len(regions), every)]
        words = [_plain(name) for name in regions[::every]]
        size, turn = (7.5, 90)
    else:
        stops = [*starts[1:], len(regions)]
        ticks = [(start + stop - 1) / 2 for start, stop in zip(starts, stops, strict=True)]
        words, size, turn = [groups[start] for start in starts], 8.5, 35
        for start in starts[1:]:
            for line in (axis.axhline, axis.axvline):
                line(start - 0.5, color="#bbbbbb", linewidth=0.5, zorder=1.5)
    axis.set_xticks(ticks, words, rotation=turn, fontsize=size, ha="center" if turn == 90 else "right")
    if turn != 90:
        for text in axis.get_xticklabels():
            text.set_rotation_mode("anchor")
    axis.set_yticks(ticks, words, fontsize=size)
    axis.tick_params(length=2, color="#bbbbbb", labelcolor=INK, labelleft=first)


def _plain(region: str) -> str:
    return region.replace("_", " ")


def _angles(regions: Sequence[str], order: Sequence[int]) -> Tensor:
    """Where each region lies on the circle, in radians from the right, (R,)."""
    sides = {side: [i for i in order if _side(regions[i]) == side] for side in (-1, 0, 1)}
    left, middle, right = sides[-1], sides[0], sides[1]
    if not (left and right):
        walk, start = list(order), math.pi / 2
    else:
        # clockwise from the top: the right side down, the middle from right to left, the left side up
        walk, start = [*right, *middle, *reversed(left)], math.pi / 2
        if len(left) != len(right):
            start += math.pi * (len(right) - len(left)) / len(walk)
    step = 2 * math.pi / len(walk)
    angles = torch.empty(len(walk), dtype=torch.float64)
    angles[torch.tensor(walk)] = start - step * (torch.arange(len(walk), dtype=torch.float64) + 0.5)
    return angles


def _draw_regions(
    axis: "Axes", regions: Sequence[str], groups: Sequence[str], angles: Tensor, involved: set[int]
) -> None:
    """Dots on the circle in the grey of their group, names of the regions that are involved."""
    shades = {name: ("#555555", "#aaaaaa")[i % 2] for i, name in enumerate(dict.fromkeys(groups))}
    x, y = angles.cos(), angles.sin()
    around = torch.linspace(0, 2 * math.pi, 361)
    axis.plot(around.cos(), around.sin(), color="#dddddd", linewidth=0.8, zorder=0.5)
    if {-1, 1} <= {_side(region) for region in regions}:
        for where, word in ((-1.45, "left"), (1.45, "right")):
            axis.text(where, 1.3, word, fontsize=10, color=INK, ha=word)
    sizes = [22.0 if i in involved else 7.0 for i in range(len(regions))]
    axis.scatter(x, y, s=sizes, c=[shades[name] for name in groups], zorder=3, linewidths=0)
    size = min(9.0, max(5.5, 800 / len(regions)))
    for i in sorted(involved):
        turned = math.degrees(float(angles[i])) % 360
        outward = not 90 < turned < 270
        axis.text(
            1.04 * float(x[i]),
            1.04 * float(y[i]),
            _plain(regions[i]),
            rotation=turned if outward else turned - 180,
            rotation_mode="anchor",
            ha="left" if outward else "right",
            va="center",
            fontsize=size,
            color=INK,
        )
