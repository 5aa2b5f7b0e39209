import pytest
import torch

from r2et import data
from r2et.data.augmented import shifted
from r2et.errors import InputError


def naive(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    found = torch.empty_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            found[:, row, column] = image[
                :, min(max(row - down, 0), height - 1), min(max(column - right, 0), width - 1)
            ]
    return found


def test_shifts_by_hand() -> None:
    images = torch.rand(5, 2, 4, 6, generator=torch.Generator().manual_seed(0))
    down, right = torch.tensor([0, 1, -2, 3, -1]), torch.tensor([0, -3, 2, 1, 5])
    found = shifted(images, down, right)
    for number in range(5):
        assert torch.equal(found[number], naive(images[number], int(down[number]), int(right[number])))


def test_every_draw_is_a_shift_or_a_mirrored_shift_of_the_same_image() -> None:
    images = torch.rand(30, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    made = data.MovedImages(images, torch.arange(30) % 2, shift=1, mirror=True)
    drawn = made.redraw(torch.Generator().manual_seed(3))
    assert torch.equal(drawn.y, made.y)
    seen = set()
    for image, moved in zip(images, drawn.x, strict=True):
        matches = [
            (flip, down, right)
            for flip in (False, True)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if torch.equal(naive(image.flip(2) if flip else image, down, right), moved)
        ]
        assert len(matches) == 1
        seen.add(matches[0])
    assert {flip for flip, _, _ in seen} == {False, True}
    assert {down for _, down, _ in seen} == {right for _, _, right in seen} == {-1, 0, 1}


def test_draws_depend_on_the_generator_alone() -> None:
    made = data.MovedImages(torch.rand(8, 1, 6, 6), torch.zeros(8, dtype=torch.int64), shift=2, mirror=True)
    first, again, other = (made.redraw(torch.Generator().manual_seed(seed)).x for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    still = data.MovedImages(made.x, made.y).redraw(torch.Generator().manual_seed(0))
    assert torch.equal(still.x, made.x)


@pytest.mark.parametrize("shift", [-1, 6, True])
def test_bad_shift(shift: int) -> None:
    with pytest.raises(InputError, match="shift must be"):
        data.MovedImages(torch.rand(2, 1, 6, 6), torch.tensor([0, 1]), shift=shift)


def test_needs_images() -> None:
    with pytest.raises(InputError, match=r"\(2, 6\)"):
        data.MovedImages(torch.rand(2, 6), torch.tensor([0, 1]))
