"""Arrays from files, never unpickled: what is not as expected is refused with the file's name."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from r2et.errors import DataError
from r2et.files.unpacking import Array, array_names, read_arrays


def read_npz(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Array]:
    """The named arrays of a .npz file, and those of the optional ones that it has."""
    read = read_arrays(path, (*names, *optional))
    if "" in read:
        raise DataError(f"{path} is a single array, expected a .npz file with {', '.join(names)}")
    missing = [name for name in names if name not in read]
    if missing:
        there = ", ".join(array_names(path)) or "none"
        raise DataError(f"{path} has no array {', '.join(map(repr, missing))}; it has {there}")
    return read


def check_pixels(path: Path, name: str, pixels: Array, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Images (N, *shape) of whole grey values 0..255."""
    if pixels.dtype != np.uint8 or pixels.shape[1:] != tuple(shape) or len(pixels) == 0:
        raise DataError(
            f"{path}: {name} must be uint8 of shape (N, {', '.join(map(str, shape))}), got {pixels.dtype} of "
            f"shape {pixels.shape}"
        )
    return pixels


def check_classes(path: Path, name: str, y: Array, rows: int, classes: int) -> NDArray[np.int64]:
    """Class numbers (N,) in 0..classes-1, as int64."""
    if y.dtype.kind not in "iub" or y.shape != (rows,):
        raise DataError(f"{path}: {name} must be {rows} whole numbers, got {y.dtype} of shape {y.shape}")
    numbers = y.astype(np.int64)
    wrong = np.flatnonzero((numbers < 0) | (numbers >= classes))
    if len(wrong):
        raise DataError(
            f"{path}: {name}[{wrong[0]}] is {numbers[wrong[0]]}, but class numbers go from 0 to {classes - 1}"
        )
    return numbers
