"""The pipeline that every set of images goes through: standardise each channel, note bounds and layout."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.data.augmented import MovedImages
from r2et.data.base import Dataset, Split
from r2et.data.layouts import ImageLayout
from r2et.domain import Domain
from r2et.tables.splits import split_groups

if TYPE_CHECKING:
    from r2et.data.catalogue import Info

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]


def channel_statistics(pixels: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of images (N, C, H, W), for pixels in [0, 1].

    >>> channel_statistics(np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))
    """
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(pixels.shape[1]):
        # exact, and no copy of the images in floating point
        share = np.bincount(pixels[:, channel].ravel(), minlength=256) / pixels[:, channel].size
        mean = float(share @ values)
        deviation = float(np.sqrt(share @ (values - mean) ** 2))
        means.append(mean)
        # a channel that is constant in train has nothing to be divided by
        deviations.append(deviation if deviation > 0 else 1.0)
    return tuple(means), tuple(deviations)


def to_tensor(pixels: Pixels, layout: ImageLayout) -> Tensor:
    """Images (N, C, H, W) of grey values 0..255 as float32 in the units of x."""
    return layout.standardise(torch.from_numpy(np.ascontiguousarray(pixels)).float().div_(255))


def image_domain(layout: ImageLayout) -> Domain:
    """A pixel lies between 0 and 1: the same in the units of x."""
    lower, upper = layout.bounds()
    return Domain(lower=lower, upper=upper)


def image_dataset(
    info: "Info",
    parts: Sequence[tuple[Pixels, Labels]],
    class_names: Sequence[str],
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    shift: int = 0,
) -> Dataset:
    """A data set of images.

    Args:
        info: name, texts and preset k.
        parts: of train, validation and test: images (N, C, H, W) of grey values 0..255 and class numbers (N,).
        class_names: one per class.
        statistics: mean and standard deviation of each channel, where they are an agreed convention. None: those
            of train.
        shift: training images are mirrored, and shifted by up to this many pixels, anew in each epoch; 0: neither.
    """
    channels, height, width = parts[0][0].shape[1:]
    mean, std = statistics or channel_statistics(parts[0][0])
    layout = ImageLayout((channels, height, width), mean, std)
    train, validation, test = (Split(to_tensor(pixels, layout), torch.from_numpy(y)) for pixels, y in parts)
    return Dataset(
        name=info.name,
        train=MovedImages(train.x, train.y, shift=shift, mirror=True) if shift else train,
        validation=validation,
        test=test,
        feature_names=layout.names,
        class_names=tuple(class_names),
        domain=image_domain(layout),
        k=info.k,
        description=info.description,
        citation=info.citation,
        licence=info.licence,
        kind=info.kind,
        layout=layout,
    )


def with_validation(
    train: tuple[Pixels, Labels], test: tuple[Pixels, Labels], fraction: float, seed: int, what: str
) -> list[tuple[Pixels, Labels]]:
    """Train, validation and test, where validation is a fraction of the published training images.

    Test is shuffled, because its first rows need not be typical (those of MNIST are easier than its last).
    """
    rows = split_groups(train[1], fractions=(1 - fraction, fraction), seed=seed, what=what)
    order = np.random.default_rng(seed).permutation(len(test[1]))
    return [*((train[0][part], train[1][part]) for part in rows), (test[0][order], test[1][order])]
