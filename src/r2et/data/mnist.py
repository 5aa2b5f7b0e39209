"""MNIST: handwritten digits, one by one or as pairs of the digits 3 and 8."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from r2et.data.arrays import check_classes, check_pixels, read_npz
from r2et.data.base import Dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.images import image_dataset, image_domain, to_tensor, with_validation
from r2et.data.layouts import ImageLayout
from r2et.data.pairs import PAIR_CLASSES, Pool, draw_pairs
from r2et.data.sources import ManualFile, RemoteFile
from r2et.errors import DataError
from r2et.files.reading import regular_file
from r2et.files.unpacking import unreadable
from r2et.tables.splits import split_groups

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
CITATION = "LeCun, Bottou, Bengio, Haffner. Gradient-based learning applied to document recognition. 1998"
MEAN, STD = (0.1307,), (0.3081,)
DIGITS = (3, 8)
# of training, validation and test pairs (App. B.1)
TRAIN_PAIRS, VALIDATION_PAIRS, TEST_PAIRS = 2400, 300, 600


def _remote(name: str, md5: str, sha256: str) -> RemoteFile:
    return RemoteFile(name, f"{MIRROR}{name}.gz", md5, sha256=sha256, gzipped=True)


FILES = (
    _remote(
        "train-images-idx3-ubyte",
        "6bbc9ace898e44ae57da46a324031adb",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _remote(
        "train-labels-idx1-ubyte",
        "a25bea736e30d166cdddb491f175f624",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _remote(
        "t10k-images-idx3-ubyte",
        "2646ac647ad5339dbf082846283269ea",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _remote(
        "t10k-labels-idx1-ubyte",
        "27ae3e4e09519cfbb04c329615203637",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
STAND_IN = ManualFile("mnist.npz", "It holds x_train, y_train, x_test and y_test, as the file of Keras does.")


@dataclass(frozen=True)
class Images:
    """The published halves: images (N, 28, 28) of grey values 0..255 and digits (N,)."""

    train: NDArray[np.uint8]
    train_y: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_y: NDArray[np.int64]


@register(
    Info(
        name="mnist",
        description="MNIST: 28 x 28 grey images of handwritten digits",
        citation=CITATION,
        licence="CC BY-SA 3.0",
        rows=70_000,
        features=784,
        classes=10,
        files=FILES,
        stand_in=STAND_IN,
        k=50,
        kind="mnist",
    )
)
def mnist(request: Request) -> Dataset:
    """All ten digits; a sixth of the training images is held out for validation."""
    images = read_images(request.paths)
    train, test = images.train[:, None], images.test[:, None]
    parts = with_validation((train, images.train_y), (test, images.test_y), 1 / 6, request.seed, "mnist")
    return image_dataset(request.info, parts, tuple("0123456789"), (MEAN, STD))


@register(
    Info(
        name="mnist-pairs",
        description="MNIST, pairs of the digits 3 and 8: are both the same digit?",
        citation=CITATION,
        licence="CC BY-SA 3.0",
        rows=TRAIN_PAIRS + VALIDATION_PAIRS + TEST_PAIRS,
        features=784,
        classes=2,
        files=FILES,
        stand_in=STAND_IN,
        folder="mnist",
        k=50,
        kind="mnist",
        inputs=2,
    )
)
def mnist_pairs(request: Request) -> Dataset:
    """Training pairs of training images; validation and test pairs of test images, which they do not share.

    A third of the test images of each digit is set aside for validation pairs, the rest is for test pairs.
    """
    images, layout = read_images(request.paths), ImageLayout((1, 28, 28), MEAN, STD)
    train = np.flatnonzero(np.isin(images.train_y, DIGITS))
    test = np.flatnonzero(np.isin(images.test_y, DIGITS))
    for rows, y, half in ((train, images.train_y, "training"), (test, images.test_y, "test")):
        missing = np.setdiff1d(DIGITS, y[rows])
        if len(missing):
            raise DataError(
                f"{request.paths[0]} and its companions have no {half} image of the digit {missing[0]}"
            )
    held_out = split_groups(
        images.test_y[test], fractions=(1 / 3, 2 / 3), seed=request.seed, what="mnist-pairs (test images)"
    )

    def pool(rows: NDArray[np.int64], pixels: NDArray[np.uint8], y: NDArray[np.int64], offset: int) -> Pool:
        members = torch.from_numpy((y[rows] == DIGITS[1]).astype(np.int64))
        return Pool(to_tensor(pixels[rows][:, None], layout), members, torch.from_numpy(rows + offset))

    pools = [pool(train, images.train, images.train_y, 0)]
    # numbered after the training images, so that a number is one image
    pools += [pool(test[part], images.test, images.test_y, len(images.train)) for part in held_out]
    splits = [
        draw_pairs(pool, count, np.random.default_rng([request.seed, number]))
        for number, (pool, count) in enumerate(
            zip(pools, (TRAIN_PAIRS, VALIDATION_PAIRS, TEST_PAIRS), strict=True)
        )
    ]
    info = request.info
    return Dataset(
        name=info.name,
        train=splits[0],
        validation=splits[1],
        test=splits[2],
        feature_names=layout.names,
        class_names=PAIR_CLASSES,
        domain=image_domain(layout),
        k=info.k,
        description=info.description,
        citation=info.citation,
        licence=info.licence,
        kind=info.kind,
        inputs=2,
        layout=layout,
        member_class_names=tuple(map(str, DIGITS)),
    )


def read_images(paths: tuple[Path, ...]) -> Images:
    """From the four public files, or from the one that stands in for them."""
    if len(paths) == 1:
        arrays = read_npz(paths[0], ("x_train", "y_train", "x_test", "y_test"))
        parts = [(paths[0], name, arrays[name]) for name in ("x_train", "y_train", "x_test", "y_test")]
    else:
        parts = [(path, "its content", read_idx(path)) for path in paths]
    train, test = check_pixels(*parts[0], (28, 28)), check_pixels(*parts[2], (28, 28))
    return Images(
        train=train,
        train_y=check_classes(*parts[1], len(train), 10),
        test=test,
        test_y=check_classes(*parts[3], len(test), 10),
    )


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the format of the public files: 0, 0, 8, dimensions, sizes (big-endian), values."""
    try:
        content = regular_file(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an idx file of bytes: it begins with {content[:4].hex(' ') or 'nothing'}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataError(f"{path} ends after {len(content)} bytes, inside its header: it may be cut short")
    shape = tuple(map(int, np.frombuffer(content, ">u4", count=content[3], offset=4)))
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} announces an array of shape {shape}, but has {len(content) - start} values: it may be "
            "cut short"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # more axes than numpy has, or long ones of nothing
        raise DataError(f"{path} announces an array of {len(shape)} axes that cannot be: {error}") from error
