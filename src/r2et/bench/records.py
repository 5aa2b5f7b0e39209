"""Where results are kept: one JSON record a cell, written in one piece, and what is too large for it beside it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2et._checks import InputError
from r2et._files import write_text, writing
from r2et.bench.cells import Cell

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "r2et-benchmark"
VERSION = 1
#: the parts of a record that differ from run to run
TIMING = "timing"

Record = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The folders of a benchmark.

    Args:
        records: small JSON files, one a cell and one a search, in a folder a plan: what is committed.
        work: models, unfinished training runs and per-sample arrays: what is not.
    """

    records: Path
    work: Path

    def path(self, plan: str, name: str) -> Path:
        """Of a record."""
        return self.records / plan / f"{name}.json"

    def read(self, plan: str, name: str) -> Record | None:
        """A record, or None if there is none yet."""
        return read_record(self.path(plan, name))

    def write(self, plan: str, name: str, record: Mapping[str, Any]) -> None:
        """Keep a record: whoever reads it sees all of it or none."""
        write_json(self.path(plan, name), {"format": FORMAT, "version": VERSION, **record})

    def model(self, cell: Cell) -> Path:
        """The folder of a trained model."""
        return self.work / "models" / cell.digest

    def run(self, cell: Cell) -> Path:
        """The folder of a training run that may still be going on."""
        return self.work / "unfinished" / cell.digest

    def rung(self, cell: Cell, epochs: int) -> Path:
        """What the search found out about a cell after so many epochs."""
        return self.work / "search" / f"{cell.digest}-{epochs}.json"

    def keep_arrays(self, cell: Cell, study: str, arrays: "Mapping[str, Tensor]") -> None:
        """Values of each input, for whoever wants to look closer."""
        import numpy as np

        if not arrays:
            return
        values: dict[str, Any] = {name: value.cpu().numpy() for name, value in arrays.items()}
        with writing(self.work / "arrays" / f"{cell.digest}-{study}.npz") as file:
            np.savez_compressed(file, **values)

    def all(self, plan: str) -> Iterator[Record]:
        """Every record of a plan, in the order of their names."""
        for path in sorted((self.records / plan).glob("*.json")):
            record = read_record(path)
            if record is not None:
                yield record

    def plans(self) -> list[str]:
        """Names of the plans that have records."""
        return sorted(path.name for path in self.records.glob("*") if path.is_dir())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file in one piece: a crash leaves the old one, or none."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def read_record(path: Path) -> Record | None:
    """A record, or None if there is no file; another file is an InputError."""
    try:
        record: Record = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{str(path)!r} is not a benchmark record: {error}. Delete it to compute it anew"
        ) from error
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise InputError(
            f"{str(path)!r} is not a benchmark record of version {VERSION}: it says format "
            f"{record.get('format')!r}, version {record.get('version')!r}"
        )
    return record


def without_timing(record: Mapping[str, Any]) -> Record:
    """What must be the same whoever computed it, and wherever.

    >>> without_timing({"auc": 0.9, "timing": {"seconds": 3.0}})
    {'auc': 0.9}
    """
    return {name: value for name, value in record.items() if name != TIMING}
