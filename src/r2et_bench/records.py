"""Where results are kept: one JSON record per cell, written in one piece, and beside it what is too large."""

import copy
import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from r2et.errors import InputError
from r2et.files.reading import read_json, typed
from r2et.files.serialising import to_strict_json
from r2et.files.writing import write_text, writing
from r2et.numerics.values import check_kind, quoted
from r2et_bench.cells import Cell, key_of

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "r2et-benchmark"
#: 1 named cells after the text of a preset: `r2et_bench.migration` renames those
VERSION = 2
#: the parts of a record that differ from run to run
TIMING = "timing"

Record = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The folders of a benchmark.

    Args:
        records: small JSON files, one per cell and one per search, in a folder per plan: what is committed.
        work: models, unfinished training runs and per-sample arrays: what is not.
    """

    records: Path
    work: Path

    def __post_init__(self) -> None:
        for name in ("records", "work"):
            check_kind(name, getattr(self, name), Path, 'pathlib.Path("results")')

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
        return self.work / "models" / cell.key

    def run(self, cell: Cell) -> Path:
        """The folder of a training run that may still be going on."""
        return self.work / "unfinished" / cell.key

    def rung(self, cell: Cell, epochs: int, selection: Mapping[str, int]) -> Path:
        """What a search that judges by `selection` found out about a cell after this many epochs."""
        judged = key_of({"cell": cell.key, "selection": selection})
        return self.work / "search" / f"{judged}-{epochs}.json"

    def keep_arrays(self, cell: Cell, study: str, arrays: "Mapping[str, Tensor]") -> None:
        """Values of each input, for whoever wants to look closer."""
        import numpy as np

        if not arrays:
            return
        values: dict[str, Any] = {name: value.cpu().numpy() for name, value in arrays.items()}
        with writing(self.work / "arrays" / f"{cell.key}-{study}.npz") as file:
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
    write_text(path, to_strict_json(content))


def read_record(path: Path) -> Record | None:
    """A record, or None if there is no file; another file is an InputError. It is read once until it changes."""
    if not os.path.lexists(path):
        return None
    stamp: tuple[int, ...] = ()
    if path.exists():
        # every write puts a new file in the place of the old one
        state = path.stat()
        stamp = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
    return copy.deepcopy(read_state(path, stamp))


@functools.lru_cache(maxsize=2048)
def read_state(path: Path, stamp: tuple[int, ...]) -> Record:
    """The record of a file in the state that a stamp is of."""
    where = f"{quoted(path)} is not a benchmark record"
    try:
        record = typed(read_json(path), Record, where)
        if record.get("format") != FORMAT or record.get("version") != VERSION:
            told = f"it says format {quoted(record.get('format'))}, version {quoted(record.get('version'))}"
            hint = ". `python -m r2et_bench.migration RECORDS` renames old ones" if _is_old(record) else ""
            raise InputError(f"{where} of version {VERSION}: {told}{hint}")
        kind = typed(record, _Kind, where)["kind"]
        typed(record, {"cell": _CellRecord, "search": _SearchRecord, "index": _Index}[kind], where)
    except InputError as error:
        raise InputError(f"{error}. Delete it to compute it anew") from error
    return record


def _is_old(record: Record) -> bool:
    return record.get("format") == FORMAT and record.get("version") == 1


class _Kind(TypedDict):
    kind: Literal["cell", "search", "index"]


_Training = TypedDict(
    "_Training",
    {
        "error": str,
        "validation auc": float,
        "passed": bool,
        "threshold": float | None,
        "epochs": int,
        "selected epoch": int,
        "stopped": str,
    },
    total=False,
)
_Timing = TypedDict(
    "_Timing",
    {"studies": dict[str, float], "training": NotRequired[float], "seconds an epoch": NotRequired[float]},
)


class _StudyEntry(TypedDict):
    settings: dict[str, Any]
    values: NotRequired[dict[str, Any]]
    error: NotRequired[str]


class _CellRecord(TypedDict):
    cell: Cell
    training: _Training
    studies: dict[str, _StudyEntry]
    timing: _Timing


class _SearchRecord(TypedDict):
    data: str
    method: str
    key: NotRequired[str]
    chosen: dict[str, float]
    tried: list[dict[str, Any]]


class _IndexEntry(TypedDict):
    name: str
    data: str
    method: str
    role: str


class _Index(TypedDict):
    plan: str
    cells: list[_IndexEntry]


def without_timing(record: Mapping[str, Any]) -> Record:
    """What must be the same whoever computed it, and wherever.

    >>> without_timing({"auc": 0.9, "timing": {"seconds": 3.0}})
    {'auc': 0.9}
    """
    return {name: value for name, value in record.items() if name != TIMING}
