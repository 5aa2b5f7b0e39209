"""CIFAR-10: small colour photographs of ten things; the whole set, or a balanced subset of it."""

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from r2et.data.arrays import check_classes, check_pixels, read_npz
from r2et.data.base import Dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.images import Labels, Pixels, image_dataset, with_validation
from r2et.data.sources import ManualFile, RemoteFile
from r2et.errors import DataError
from r2et.files.unpacking import check_gzip, unreadable

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# of the 50,000 training images, also for the subset, so that models can be exchanged
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CITATION = "Krizhevsky. Learning multiple layers of features from tiny images. 2009"
RECORD = 1 + 3 * 32 * 32

# Not the better known cifar-10-python.tar.gz: reading that one means to unpickle it.
WHOLE = RemoteFile(
    "cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
SUBSET = ManualFile(
    "cifar10_10k2k.npz",
    "It holds 10,000 training and 2,000 test images of CIFAR-10, the same number of each class: x_train uint8 "
    "(10000, 32, 32, 3), y_train, x_test, y_test. Without it, load 'cifar10', which is downloaded as a whole.",
)
SUBSET_INFO = Info(
    name="cifar10-10k2k",
    description="CIFAR-10, balanced subset of 10,000 training and 2,000 test images of 32 x 32 pixels",
    citation=CITATION,
    licence="none stated",
    rows=12_000,
    features=3072,
    classes=10,
    files=(SUBSET,),
    folder="cifar10",
    k=50,
    kind="cifar10",
)


@register(
    Info(
        name="cifar10",
        description="CIFAR-10: 32 x 32 colour photographs of ten things",
        citation=CITATION,
        licence="none stated",
        rows=60_000,
        features=3072,
        classes=10,
        files=(WHOLE,),
        stand_in=SUBSET,
        k=50,
        kind="cifar10",
    )
)
def cifar10(request: Request) -> Dataset:
    """The whole set where it is on this machine, else the subset where that is, else the whole set, downloaded.

    The data set's own name says which one it is; a tenth of the training images is held out for validation.
    """
    if request.paths[0].name == SUBSET.name:
        return subset(replace(request, info=SUBSET_INFO))
    return _dataset(request, *read_archive(request.paths[0]))


@register(SUBSET_INFO)
def subset(request: Request) -> Dataset:
    """The subset, whether or not the whole set is there."""
    path = request.paths[0]
    arrays = read_npz(path, ("x_train", "y_train", "x_test", "y_test"))
    parts = []
    for half in ("train", "test"):
        pixels = check_pixels(path, f"x_{half}", arrays[f"x_{half}"], (32, 32, 3))
        y = check_classes(path, f"y_{half}", arrays[f"y_{half}"], len(pixels), 10)
        parts.append((pixels.transpose(0, 3, 1, 2), y))
    return _dataset(request, *parts)


def read_archive(path: Path) -> tuple[tuple[Pixels, Labels], tuple[Pixels, Labels]]:
    """Training and test images (N, 3, 32, 32) and labels from the binary version; nothing is extracted."""
    batches: dict[str, NDArray[np.uint8]] = {}
    check_gzip(path)
    try:
        with tarfile.open(path, "r:gz") as archive:
            # one pass, in the archive's own order: going back would unpack it again
            for member in archive:
                name = Path(member.name).name
                # a link can lead nowhere or to itself, a sparse file to more than there is
                if not name.endswith(".bin") or not member.isreg() or member.issparse():
                    continue
                content = archive.extractfile(member)
                if content is not None:
                    batches[name] = np.frombuffer(content.read(), np.uint8)
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise unreadable(path, error) from error

    def part(*names: str) -> tuple[Pixels, Labels]:
        for name in names:
            if name not in batches or len(batches[name]) == 0 or len(batches[name]) % RECORD:
                raise DataError(
                    f"{path} must hold {name} with {RECORD} bytes an image; it has "
                    + (
                        f"{len(batches[name])} bytes"
                        if name in batches
                        else ", ".join(sorted(batches)) or "nothing"
                    )
                )
        records = np.concatenate([batches[name] for name in names]).reshape(-1, RECORD)
        y = check_classes(path, f"the labels of {names[0]}", records[:, 0], len(records), 10)
        return records[:, 1:].reshape(-1, 3, 32, 32), y

    return part(*(f"data_batch_{number}.bin" for number in range(1, 6))), part("test_batch.bin")


def _dataset(request: Request, train: tuple[Pixels, Labels], test: tuple[Pixels, Labels]) -> Dataset:
    parts = with_validation(train, test, 0.1, request.seed, request.info.name)
    return image_dataset(request.info, parts, CLASSES, (MEAN, STD), shift=4)
