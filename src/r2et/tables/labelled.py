"""A person's own CSV or Parquet file as columns and labels."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from r2et.errors import DataError, InputError
from r2et.numerics.values import check_path, check_text, few, quoted, suggestion
from r2et.tables.columns import listed_names
from r2et.tables.files import load
from r2et.tables.formats import Format, Hints

Series: TypeAlias = "pd.Series[Any]"


@dataclass(frozen=True)
class LabelledTable:
    """Columns and labels.

    Attributes:
        path: the file they were read from.
        frame: the columns that a model sees, N rows labelled by their number in the file.
        target: the name of the column of labels.
        labels: N labels, as they are in the file.
        sha256: of the file's bytes.
        format: how the file is written.
        unlabelled: how many rows of the file have no label: they are left out.
    """

    path: Path
    frame: pd.DataFrame = field(repr=False)
    target: str
    labels: Series = field(repr=False)
    sha256: str = field(default="", repr=False)
    format: Format | None = field(default=None, repr=False)
    unlabelled: int = field(default=0, repr=False)

    @property
    def said(self) -> tuple[str, ...]:
        """What was recognised in the file, as sentences without their full stop."""
        told = () if self.format is None else self.format.said
        if not self.unlabelled:
            return told
        verb = "has no" if self.unlabelled == 1 else "have no"
        return (*told, f"{self.unlabelled:,} of {self.file_rows:,} rows {verb} {self.target!r}: left out")

    @property
    def file_rows(self) -> int:
        """How many rows the file has, if this is all of its rows that have a label."""
        return len(self.frame) + self.unlabelled

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows in the file, from 0."""
        return self.frame.index.to_numpy(dtype=np.int64)

    def rows(self, numbers: NDArray[np.int64]) -> "LabelledTable":
        """The same with some rows only, by their position."""
        return replace(self, frame=self.frame.iloc[numbers], labels=self.labels.iloc[numbers])


def read_table(
    path: str | os.PathLike[str],
    target: str | None,
    columns: Sequence[str] | None = None,
    *,
    drop: Sequence[str] = (),
    like: Format | None = None,
    hints: Hints | None = None,
) -> LabelledTable:
    r"""Read a file and take the labels apart from the columns.

    Args:
        path: a CSV or Parquet file with a line of names.
        target: the column to predict.
        columns: the columns that the model sees, in its order; None = all others, in the order of the file.
        drop: columns that are left out.
        like: how an earlier file was written, which a saved classifier remembers.
        hints: what a person says about how this one is written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/people.csv").write_text("age;bought;pay\n30;yes;10,5\n40;no;20,5\n")
    ...     table = read_table(f"{folder}/people.csv", "bought")
    >>> table.frame.columns.tolist(), table.labels.tolist(), table.format.decimal
    (['age', 'pay'], ['yes', 'no'], ',')
    """
    check_path("path", path)
    path = Path(path)
    if target is not None:
        check_text("target", target)
    loaded = load(path, like, hints, lambda known: _chosen(path, known, target, columns, drop))
    labels = loaded.frame[target]
    missing = np.flatnonzero(labels.isna().to_numpy())
    if len(missing) == len(labels):
        raise DataError(f"column {target!r} of {str(path)!r} has no labels: all {len(labels)} are missing")
    there = labels.notna().to_numpy()
    frame = loaded.frame.drop(columns=str(target))
    if len(missing):
        frame, labels = frame[there], _without_traces(labels[there])
    return LabelledTable(path, frame, str(target), labels, loaded.sha256, loaded.format, len(missing))


def _without_traces(labels: Series) -> Series:
    """Labels of which some were missing, as if none had been: a gap makes 1 and True into 1.0 and objects."""
    if pd.api.types.is_float_dtype(labels) and (labels == labels.round()).all():
        return labels.astype(np.int64)
    return labels.infer_objects()


def _chosen(
    path: Path, known: list[str], target: str | None, columns: Sequence[str] | None, drop: Sequence[str]
) -> list[str]:
    """The columns to read: those that the model sees, and the one to predict."""
    if target is None:
        raise InputError(f"{str(path)!r} is a table: name the column to predict by --target; it has {few(known)}")
    if target not in known:
        alone = (
            " Columns are separated by commas, semicolons, tabs or pipes, or by --sep." if len(known) == 1 else ""
        )
        raise InputError(
            f"{str(path)!r} has no column {quoted(target)} to predict{suggestion(target, known[:40])}{alone}"
        )
    dropped = _dropped(path, known, target, drop)
    wanted = [name for name in known if name not in dropped | {target}]
    if columns is not None:
        wanted = listed_names("columns", columns)
    for name in wanted:
        if name not in known:
            raise InputError(f"{str(path)!r} has no column {name!r}{suggestion(name, known[:40])}")
        if name == target:
            raise InputError(f"column {name!r} is the one to predict: leave it out of the columns")
        if name in dropped:
            raise InputError(f"column {name!r} is both among the columns and left out (drop)")
    if len(set(wanted)) < len(wanted):
        raise InputError(f"a column is named twice in {', '.join(map(repr, wanted))}")
    if not wanted:
        raise InputError(f"{str(path)!r} has no column besides {target!r}")
    return [*wanted, target]


def _dropped(path: Path, known: list[str], target: str, drop: Sequence[str]) -> set[str]:
    for name in listed_names("drop", drop):
        if name not in known:
            raise InputError(f"{str(path)!r} has no column {name!r} to leave out{suggestion(name, known[:40])}")
        if name == target:
            raise InputError(f"column {name!r} is the one to predict: it cannot be left out")
    return set(drop)
