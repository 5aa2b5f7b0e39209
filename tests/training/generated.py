"""Images and connectomes in the layout of the real files, few pairs of them, and small parts of a data set."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from r2et.data import PairCounts, Split, abide, mnist
from tests.data import array_files


@contextmanager
def generated_data(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """R2ET_DATA is this folder, with generated files of mnist, cifar10, oct and abide."""
    for write in (
        array_files.write_mnist,
        array_files.write_cifar_subset,
        array_files.write_oct,
        array_files.write_abide,
    ):
        write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("R2ET_DATA", str(folder))
        patch.setattr(abide, "PAIRS", PairCounts(24, 8, 12))
        for name, count in (("TRAIN_PAIRS", 24), ("VALIDATION_PAIRS", 8), ("TEST_PAIRS", 12)):
            patch.setattr(mnist, name, count)
        yield patch


def few(split: Split, rows: int, classes: int) -> Split:
    """Some rows of a split, as many of each of the last classes as of any other."""
    present = split.y.unique().tolist()[-classes:]
    chosen = torch.stack([(split.y == c).nonzero().squeeze(1)[: rows // len(present)] for c in present], dim=1)
    return Split(split.x[chosen.flatten()], split.y[chosen.flatten()])
