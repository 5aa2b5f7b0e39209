"""Saliency maps before and after an attack, side by side (Fig. 3 and 5)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from r2et.data.layouts import ImageLayout
from r2et.errors import InputError
from r2et.numerics.values import check_kind, check_text
from r2et.report.common import (
    INK,
    Change,
    change_handles,
    check_top,
    colour_scale,
    mark_cells,
    new_figure,
    precision_text,
    read,
    read_both,
    strip,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from r2et.report.common import Values

_POINTS = 72  # in an inch


def saliency_pair(
    image: "Values",
    layout: ImageLayout,
    before: "Values",
    after: "Values",
    k: int,
    *,
    attacked: "Values | None" = None,
    title: str = "",
) -> "Figure":
    """An image and its explanations before and after an attack, side by side (one method of Fig. 3).

    Args:
        image: (C, H, W) in the units of the model's input; a Siamese pair (2, C, H, W).
        layout: of one image; undoes the standardisation.
        before: explanation of the image, (H*W,) or (H, W); of a pair (2, H*W) or (2, H, W).
        after: explanation of the attacked image, likewise.
        k: size of the salient set.
        attacked: the attacked image, like `image`, to be shown too.
        title: such as the name of a method.

    >>> layout = ImageLayout((1, 2, 2), mean=(0.5,), std=(0.5,))
    >>> before, after = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([4.0, 1.0, 2.0, 3.0])
    >>> figure = saliency_pair(torch.zeros(1, 2, 2), layout, before, after, k=2)
    >>> [axis.get_title() for axis in figure.axes]
    ['image', 'original', 'attacked: P@2 50%', '']
    """
    check_kind("layout", layout, ImageLayout, "r2et.data.ImageLayout((1, 28, 28), (0.1,), (0.3,))")
    check_text("title", title)
    first, second = read_both(before, after)
    lead = tuple(_maps(first, layout).shape[:-2])
    if lead not in ((), (2,)):
        raise InputError(
            f"explanations of shape {tuple(first.shape)} are not one map of an image of shape {layout.shape}, "
            "nor the two of a pair; for more use saliency_grid"
        )
    check_top(k, layout.shape[1] * layout.shape[2], tuple(first.shape))
    pictures = {"image": image} if attacked is None else {"image": image, "attacked": attacked}
    rows = {}
    for name, picture in pictures.items():
        rows[name] = read(picture, name)[None]
        if rows[name].shape[1:] != (*lead, *layout.shape):
            shape = tuple(rows[name].shape[1:])
            raise InputError(f"{name} of shape {shape} does not fit: {(*lead, *layout.shape)} is needed")
    return saliency_grid(
        rows["image"], layout, first[None], second[None], k, titles=[title], attacked=rows.get("attacked")
    )


def saliency_grid(
    images: "Values",
    layout: ImageLayout,
    before: "Values",
    after: "Values",
    k: int,
    *,
    titles: Sequence[str],
    attacked: "Values | None" = None,
) -> "Figure":
    """Explanations before and after an attack, a row for each method or sample (Fig. 3, Fig. 5).

    The maps before and after share one scale: scores are divided by the largest of both. The P@k beside the row of
    a pair is the mean over both images. "tied" after a P@k says that a tie decides a top-k set.

    Args:
        images: one image (C, H, W), explained by R methods, or one per row (R, C, H, W), in the units of the
            model's input; of Siamese pairs (2, C, H, W) or (R, 2, C, H, W).
        layout: of one image; undoes the standardisation.
        before: explanations of the images, (R, H*W) or (R, H, W); of pairs (R, 2, H*W) or (R, 2, H, W).
        after: explanations of the attacked images, likewise.
        k: size of the salient set.
        titles: R names, of methods or samples.
        attacked: the attacked images, one per row, to be shown too.

    >>> layout = ImageLayout((3, 4, 4), mean=(0.5,) * 3, std=(0.2,) * 3)
    >>> scores = torch.arange(32.0).reshape(2, 16)
    >>> figure = saliency_grid(torch.zeros(3, 4, 4), layout, scores, scores.flip(1), 5, titles=["SP", "R2ET"])
    >>> [axis.get_title() for axis in figure.axes]
    ['image', 'original', 'attacked: P@5 0%', '', 'P@5 0%', '']
    """
    check_kind("layout", layout, ImageLayout, "r2et.data.ImageLayout((1, 28, 28), (0.1,), (0.3,))")
    check_kind("titles", titles, (tuple, list), "a list of one name per row")
    first, second = (_maps(values, layout) for values in read_both(before, after))
    rows, members = _rows_and_members(first, layout)
    # (R, members, H, W): a single image is a pair of one
    first, second = (values.reshape(rows, members, *layout.shape[1:]) for values in (first, second))
    check_top(k, layout.shape[1] * layout.shape[2], tuple(read(before, "before").shape))
    if len(titles) != rows:
        raise InputError(f"{len(titles)} titles for {rows} rows of explanations: {list(titles)}")
    pixels = _pixels(images, "images", layout, rows, members)
    changed = None
    if attacked is not None:
        changed = _pixels(attacked, "attacked", layout, rows, members)
        if len(changed) != rows:
            raise InputError(f"attacked holds {len(changed)} images for {rows} rows: one per row is needed")
    return _Grid(layout, first, second, k, titles, pixels, changed).draw()


@dataclass(frozen=True, eq=False)
class _Grid:
    """A figure of R rows: of each image, the image, maybe the attacked one, and two maps.

    An image that all rows share stands above them; explanations are (R, members, H, W), images (R or 1, members,
    C, H, W).
    """

    layout: ImageLayout
    before: Tensor
    after: Tensor
    k: int
    titles: Sequence[str]
    pixels: Tensor
    attacked: Tensor | None

    def draw(self) -> "Figure":
        rows, members, height, width = self.before.shape
        shared = len(self.pixels) < rows
        kinds = [*([] if shared else ["image"]), *(["attacked"] if self.attacked is not None else []), "0", "1"]
        # members side by side under their image, or one below the other
        across = members if shared else 1
        columns, lines = across * len(kinds), rows * members // across + shared
        side = {2: 1.9, 3: 1.75, 4: 1.45}.get(columns, 1.15)
        tall = side * min(1.5, max(0.5, height / width))
        label = 0.2 + 0.075 * max(
            len(line) for title in [*self.titles, "mean P@ 100%"] for line in title.split("\n")
        )
        figure = new_figure(columns * (side + 0.06) + label + 0.75, lines * (tall + 0.24) + 0.55)
        grid = figure.add_gridspec(lines, columns)
        for member in range(members if shared else 0):
            axis = figure.add_subplot(grid[0, member * len(kinds) : (member + 1) * len(kinds)])
            _show_image(axis, self.pixels[0, member], self._title("image", member))
        maps: list[Axes] = []
        painted: Any = None
        for row, member in itertools.product(range(rows), range(members)):
            both = torch.stack([self.before[row, member], self.after[row, member]])
            shown, look = colour_scale(both)
            change = self.change(row, member)
            line, start = (row + shared, member * len(kinds)) if shared else (row * members + member, 0)
            for place, kind in enumerate(kinds):
                axis = figure.add_subplot(grid[line, start + place])
                if kind in ("image", "attacked"):
                    source = self.pixels if kind == "image" else self.attacked
                    assert source is not None
                    named = row == 0 or members == 2
                    _show_image(axis, source[row, member], self._title(kind, member) if named else "")
                else:
                    when = int(kind)
                    painted = axis.imshow(shown[when].numpy(), **look)
                    cells = {name: mask.view(height, width).nonzero().T for name, mask in change.of(when).items()}
                    mark_cells(axis, cells, _POINTS * side / width)
                    text = change.title() if when else ""
                    if row == 0:
                        text = f"attacked: {text}" if when else "original"
                    axis.set_title(text, fontsize=8.5, color=INK, pad=3)
                    axis.set_gid(f"map {row} {member} {kind}")
                    strip(axis)
                    maps.append(axis)
                if place == 0 and member == 0:
                    axis.set_ylabel(self._row_label(row), rotation=0, ha="right", va="center", fontsize=9)
        bar = figure.colorbar(painted, ax=maps, shrink=min(0.9, 2.2 / (lines * tall)), pad=0.015, aspect=18)
        bar.set_label("score / largest", fontsize=8, color=INK)
        bar.ax.tick_params(labelsize=7)
        handles = change_handles(self.k, "pixels")
        look = {"ncols": 3, "fontsize": 8, "frameon": False, "handletextpad": 0.3, "columnspacing": 1.2}
        figure.legend(handles=handles, loc="outside lower center", **look)
        return figure

    def change(self, row: int, member: int) -> Change:
        return Change.between(self.before[row, member].flatten(), self.after[row, member].flatten(), self.k)

    def _title(self, kind: str, member: int) -> str:
        word = "attacked image" if kind == "attacked" else "image"
        return word if self.before.shape[1] == 1 else f"{('first', 'second')[member]} {word}"

    def _row_label(self, row: int) -> str:
        members = self.before.shape[1]
        if members == 1:
            return self.titles[row]
        mean = sum(self.change(row, member).precision for member in range(members)) / members
        return f"{self.titles[row]}\nmean {precision_text(mean, self.k)}".strip()


def _show_image(axis: "Axes", pixels: Tensor, title: str) -> None:
    """Pixels (C, H, W) in [0, 1]: three channels in colour, any other number as the mean of them."""
    if len(pixels) == 3:
        axis.imshow(pixels.permute(1, 2, 0).numpy(), interpolation="nearest")
    else:
        axis.imshow(pixels.mean(0).numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set_title(title, fontsize=8.5, color=INK, pad=3)
    axis.set_gid("image")
    strip(axis)


def _maps(values: Tensor, layout: ImageLayout) -> Tensor:
    """Explanations (..., H*W) or (..., H, W) as (..., H, W)."""
    _, height, width = layout.shape
    if values.ndim and values.shape[-1] == height * width:
        return values.reshape(*values.shape[:-1], height, width)
    if values.shape[-2:] == (height, width):
        return values
    more = ""
    if values.ndim and values.shape[-1] == layout.features:
        more = '; sum over the channels first: Gradient(reduce="abs-sum")'
    raise InputError(
        f"explanations of shape {tuple(values.shape)} do not end in ({height * width},) or ({height}, {width}), "
        f"the pixels of an image of shape {layout.shape}{more}"
    )


def _rows_and_members(maps: Tensor, layout: ImageLayout) -> tuple[int, int]:
    lead = tuple(maps.shape[:-2])
    if len(lead) == 1:
        return lead[0], 1
    if len(lead) == 2 and lead[1] == 2:
        return lead[0], 2
    raise InputError(
        f"explanations of {lead} maps of {tuple(layout.shape[1:])} pixels: a map for each row, (rows,), or a pair "
        "of maps, (rows, 2), is needed"
    )


def _pixels(picture: "Values", name: str, layout: ImageLayout, rows: int, members: int) -> Tensor:
    """Images as pixels in [0, 1], (R, members, C, H, W), or (1, members, ...) if all rows share one."""
    values = read(picture, name)
    one = (*((2,) if members == 2 else ()), *layout.shape)
    if tuple(values.shape) not in (one, (rows, *one)):
        raise InputError(
            f"{name} of shape {tuple(values.shape)} do not fit: {one}, or one per row, {(rows, *one)}, is needed"
        )
    return layout.pixels(values).clamp(0, 1).reshape(-1, members, *layout.shape)
