"""Pictures of the rows of images, as PNG files that are written into the page itself."""

import base64
import io
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from r2et.auditing import Audit, Picture

#: larger pictures are made smaller
SIDE = 96
#: Okabe and Ito's colours, which the colour-blind tell apart
KEPT, LOST, ENTERED = (0, 114, 178), (213, 94, 0), (0, 158, 115)


@dataclass(frozen=True)
class Shown:
    """One input of a row in four pictures, each a data URI.

    Attributes:
        row, member: numbers of the row and of the input in it.
        pixels, change, before, after: data URIs.
        amplified: what the change was multiplied by to be seen; 0 if there was none.
    """

    row: int
    member: int
    pixels: str
    change: str
    before: str
    after: str
    amplified: float


@dataclass(frozen=True)
class Map:
    """How often something happens at each pixel.

    Attributes:
        title: what happens.
        picture: a data URI.
        most: how often it happens at the pixel where it happens most.
    """

    title: str
    picture: str
    most: int


def data_uri(pixels: Tensor) -> str:
    """A picture (height, width, 3) of bytes as a PNG in a data URI.

    >>> data_uri(torch.zeros(2, 2, 3, dtype=torch.uint8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    png = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(png, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()


def pictures(audit: Audit) -> list[Shown]:
    """The pictures of the most fragile rows, row by row."""
    return [
        _shown(audit, picture, member)
        for picture in audit.samples.pictures
        for member in range(audit.samples.members)
    ]


def _shown(audit: Audit, picture: Picture, member: int) -> Shown:
    height, width = picture.before.shape[1:]
    samples = audit.samples
    before, after = (_members(ids[picture.row, member], height, width) for ids in (samples.top, samples.after[-1]))
    change = picture.change[member]
    largest = float(change.abs().max())
    scaled = change / largest if largest else change
    return Shown(
        row=picture.row,
        member=member,
        pixels=data_uri(_photograph(picture.pixels[member])),
        change=data_uri(_bytes(_smaller(_signed(scaled)))),
        before=data_uri(_importance(picture.before[member], (before & after, KEPT), (before & ~after, LOST))),
        after=data_uri(_importance(picture.after[member], (before & after, KEPT), (after & ~before, ENTERED))),
        amplified=1 / largest if largest else 0.0,
    )


def maps(audit: Audit) -> list[Map]:
    """Where reasons are, where they are lost and where new ones appear; none unless pixels are ranked."""
    if audit.image is None:
        return []
    height, width = audit.image
    samples = audit.samples
    shown_maps = []
    for title, counts in (
        ("among the reasons", samples.in_top),
        ("leave them", samples.leaves[-1]),
        ("enter them", samples.enters[-1]),
    ):
        shown = counts.double().reshape(-1, height, width).sum(0)
        most = float(shown.max())
        dark = 1 - (shown / most if most else shown)
        shown_maps.append(Map(title, data_uri(_bytes(_smaller(dark.expand(3, -1, -1)))), int(most)))
    return shown_maps


def _members(ids: Tensor, height: int, width: int) -> Tensor:
    """Ranked features as pixels, bool (height, width); channels of one pixel fall together."""
    mask = torch.zeros(height * width, dtype=torch.bool)
    mask[ids.long() % (height * width)] = True
    return mask.reshape(height, width)


def _photograph(pixels: Tensor) -> Tensor:
    shown = pixels.float()
    if len(shown) != 3:
        shown = shown.mean(0).expand(3, -1, -1)
    return _bytes(_smaller(shown))


def _signed(values: Tensor) -> Tensor:
    """Brown for less, white for nothing, purple for more, as (3, height, width)."""
    less, more = torch.tensor([179, 88, 6]) / 255, torch.tensor([84, 39, 136]) / 255
    size = values.float().abs().clamp(max=1) ** 0.7  # small changes are to be seen too
    colour = torch.where((values < 0)[None], less[:, None, None], more[:, None, None])
    return 1 - size * (1 - colour)


def _importance(values: Tensor, *marked: tuple[Tensor, tuple[int, int, int]]) -> Tensor:
    """Darker grey for more important, and sets of pixels in colours."""
    size = values.float().abs()
    largest = float(size.max())
    shown = (1 - 0.45 * (size / largest if largest else size)).expand(3, -1, -1)
    shown = _smaller(shown)
    for mask, colour in marked:
        small = _smaller(mask.float().expand(3, -1, -1), largest=True) > 0
        shown = torch.where(small, (torch.tensor(colour) / 255)[:, None, None], shown)
    return _bytes(shown)


def _smaller(values: Tensor, *, largest: bool = False) -> Tensor:
    """(3, height, width) with no side above the limit: means, or largest values so that no mark is lost."""
    factor = -(-max(values.shape[1:]) // SIDE)
    if factor == 1:
        return values
    pool = F.max_pool2d if largest else F.avg_pool2d
    smaller: Tensor = pool(values[None].float(), factor, ceil_mode=True)[0]
    return smaller


def _bytes(values: Tensor) -> Tensor:
    """(3, height, width) in [0, 1] as bytes (height, width, 3)."""
    return (values.clamp(0, 1) * 255).round().byte().permute(1, 2, 0)
