"""Training images that are shifted and mirrored anew in each epoch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.data.base import Split
from r2et.errors import InputError
from r2et.numerics.values import check_flag, is_whole, quoted


@dataclass(frozen=True, eq=False, repr=False)
class MovedImages(Split):
    """Images of which every epoch sees other shifts; `x` itself holds them as they are.

    Args:
        x: (N, C, H, W).
        y: class numbers (N,).
        shift: largest shift up, down, left and right, in pixels; what comes in repeats the border.
        mirror: whether half of the images are flipped left to right.

    >>> images = MovedImages(torch.rand(4, 1, 6, 6), torch.tensor([0, 1, 1, 0]), shift=2, mirror=True)
    >>> images.redraw(torch.Generator().manual_seed(0)).x.shape
    torch.Size([4, 1, 6, 6])
    """

    shift: int = 0
    mirror: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.x.ndim != 4:
            raise InputError(f"images have shape (N, C, H, W), got {tuple(self.x.shape)}")
        if not is_whole(self.shift) or not 0 <= self.shift < min(self.x.shape[2:]):
            raise InputError(
                f"shift must be from 0 to less than the {min(self.x.shape[2:])} pixels, got {quoted(self.shift)}"
            )
        check_flag("mirror", self.mirror)

    def redraw(self, generator: torch.Generator) -> Split:
        """The same images in the same order, moved."""
        rows = len(self.x)
        offsets = torch.randint(0, 2 * self.shift + 1, (2, rows), generator=generator)
        flipped = (
            torch.rand(rows, generator=generator) < 0.5 if self.mirror else torch.zeros(rows, dtype=torch.bool)
        )
        images = torch.where(flipped[:, None, None, None], self.x.flip(3), self.x)
        return Split(shifted(images, offsets[0] - self.shift, offsets[1] - self.shift), self.y)


def shifted(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Images (N, C, H, W) moved by whole pixels (N,) each; what comes in repeats the border.

    >>> shifted(torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.tensor([0]), torch.tensor([1]))
    tensor([[[[1., 1., 2.]]]])
    """
    height, width = images.shape[2:]
    rows = (torch.arange(height) - down[:, None]).clamp(0, height - 1)
    columns = (torch.arange(width) - right[:, None]).clamp(0, width - 1)
    numbers = torch.arange(len(images))[:, None, None]
    return (
        images.permute(0, 2, 3, 1)[numbers, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
    )
