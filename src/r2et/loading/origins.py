"""Which rows of which file a classifier was trained on, so that an audit can take the others."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from r2et._checks import CheckpointError

FILE = "origin.json"


@dataclass(frozen=True)
class Origin:
    """The file of a training and its rows that were held out. No data is kept, only numbers of rows.

    Attributes:
        target: the column that was predicted.
        sha256: of the file's bytes; another file is another table.
        rows: how many the file has.
        held_out: numbers of the rows, from 0, that training did not see.
    """

    target: str
    sha256: str
    rows: int
    held_out: tuple[int, ...]


def save_origin(origin: Origin, folder: str | os.PathLike[str]) -> None:
    """Write `origin.json` beside a saved classifier."""
    (Path(folder) / FILE).write_text(json.dumps(asdict(origin)) + "\n")


def read_origin(folder: str | os.PathLike[str]) -> Origin | None:
    """What `save_origin` wrote; None where there is none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_origin(Origin("bought", "ab", 4, (1, 3)), folder)
    ...     read_origin(folder)
    Origin(target='bought', sha256='ab', rows=4, held_out=(1, 3))
    """
    path = Path(folder) / FILE
    if not path.exists():
        return None
    try:
        read = json.loads(path.read_bytes())
        held_out = tuple(int(row) for row in read["held_out"])
        return Origin(str(read["target"]), str(read["sha256"]), int(read["rows"]), held_out)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{str(path)!r} cannot be read: {error}. Train again, or delete this file"
        ) from error


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hold_out(labels: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.int64]:
    """Numbers of the rows to hold out: a share of each class, at most all but two of its rows.

    >>> hold_out(np.array([0] * 8 + [1] * 4), 0.25, seed=0).tolist()
    [2, 4, 9]
    """
    drawn = np.random.default_rng(seed)
    found = []
    for label in np.unique(labels):
        rows = drawn.permutation(np.flatnonzero(labels == label))
        found.append(rows[: max(0, min(round(fraction * len(rows)), len(rows) - 2))])
    return np.sort(np.concatenate(found)).astype(np.int64)
