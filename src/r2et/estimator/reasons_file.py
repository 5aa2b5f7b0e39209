"""Reasons for the rows of a file of any size: read in chunks, written in one piece."""

import gzip
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, Unpack

import pandas as pd

from r2et.errors import DataError, InputError
from r2et.files.reading import regular_file
from r2et.files.writing import check_writable, writing
from r2et.numerics.values import check_path, few, quoted, suggestion
from r2et.tables.files import read_chunks, read_names, recognise
from r2et.tables.formats import ColumnFormat, Format

if TYPE_CHECKING:
    from r2et.estimator.classifier import StableClassifier

#: rows that are explained together: what is in memory, and how often a bar moves
ROWS_AT_ONCE = 2000
#: rows that a summary names
NAMED = 20


class Options(TypedDict, total=False):
    """What `StableClassifier.reasons` takes by name."""

    toward: Any
    exclude: Sequence[str] | None
    phrases: Mapping[str, str] | None
    proven: bool


@dataclass
class Summary:
    """What was written.

    Attributes:
        rows: of the file.
        reasons: altogether.
        without_reasons: rows in which no column speaks for the class.
        first_without: numbers of the first of them, counted from 0.
        not_explained: rows with a value that was not there in fit, or without one where all rows of fit had one.
        first_not_explained: numbers of the first of them.
        excluded: by column that must not be named, in how many lists it would have been.
        ignored: columns of the file that the model does not know.
        proven: lists with a radius that is proven.
        method: of the proof.
        why_not: nothing is proven, where it is so.
        background: SHA-256 of what contributions are measured against.
    """

    rows: int = 0
    reasons: int = 0
    without_reasons: int = 0
    first_without: list[int] = field(default_factory=list)
    not_explained: int = 0
    first_not_explained: list[int] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    proven: int = 0
    method: str | None = None
    why_not: str | None = None
    background: str = ""

    def take(self, rows: int, table: pd.DataFrame) -> None:
        """Count the reasons of further rows."""
        said = table.attrs
        self.rows += rows
        self.reasons += len(table)
        self.without_reasons += len(said["rows_without_reasons"])
        self.first_without = [*self.first_without, *said["rows_without_reasons"]][:NAMED]
        self.pass_over(said["rows_not_explained"])
        for name, count in said["excluded"].items():
            self.excluded[name] = self.excluded.get(name, 0) + count
        self.proven += int((table["holds_within"].to_numpy()[table["rank"].to_numpy() == 1] > 0).sum())
        self.method, self.why_not = said["proof"]["method"], said["proof"]["why_not"]
        self.background = said["background"]

    def pass_over(self, rows: list[int]) -> None:
        """Count rows that cannot be explained, by their numbers."""
        self.not_explained += len(rows)
        self.first_not_explained = sorted([*self.first_not_explained, *rows])[:NAMED]


def write_reasons(
    fitted: "StableClassifier",
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    n: int = 4,
    *,
    written: Format | None = None,
    advance: Callable[[int], None] = lambda rows: None,
    **options: Unpack[Options],
) -> Summary:
    """Write `StableClassifier.reasons` of every row of a file; `row` is its number in the file, from 0.

    Memory is bounded by the chunk. The output appears when it is complete, or not at all.

    Args:
        fitted: the classifier.
        source: a CSV or Parquet file with the columns of the model; others are ignored.
        output: .csv, .parquet or .jsonl.
        n: most reasons of a row.
        written: how the file is written, or an earlier one; None = that is recognised, for which the file is read
            as a whole.
        advance: is told of every number of rows that is done.
        options: of `StableClassifier.reasons`.
    """
    check_output(source, output)
    summary = Summary()
    # a network of layers takes so much longer that a bar would stand still
    size = ROWS_AT_ONCE if callable(getattr(fitted.model_, "parts", None)) else max(1, ROWS_AT_ONCE // 20)
    with writing(output) as file, _SINKS[_suffix(output)](file) as sink:
        written = recognised(fitted, source) if written is None else written
        for chunk in read_chunks(source, written, columns=_columns_of_model(fitted, source, written, summary)):
            known = _without_new_gaps(fitted, chunk, summary)
            for start in range(0, len(known), size):
                part = known.iloc[start : start + size]
                with warnings.catch_warnings():
                    # they are counted instead: a note for every chunk is noise
                    warnings.filterwarnings("ignore", message=".*were not there in fit", category=UserWarning)
                    table = fitted.reasons(part, n, **options)
                summary.take(len(part), table)
                sink.write(table)
                advance(len(part))
    return summary


def check_output(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Say so before an hour of work if the output cannot be written, or would take the place of the input."""
    for name, path in (("data", source), ("output", output)):
        check_path(name, path)
    if _suffix(output) not in _SINKS:
        raise InputError(f"reasons are written to {few(sorted(_SINKS))}, got {quoted(os.fspath(output))}")
    check_writable(output)
    if os.path.exists(output) and os.path.exists(source) and os.path.samefile(source, output):
        raise InputError(f"{quoted(os.fspath(output))} is the file of the rows: give the reasons another name")


def recognised(
    fitted: "StableClassifier", source: str | os.PathLike[str], remembered: Format | None = None
) -> Format:
    """How a file is written, decided over all of it.

    Args:
        fitted: the classifier: what was text for it stays text.
        source: the file.
        remembered: how the file of its training was written; None = that is not known.
    """
    if remembered is None:
        columns = fitted.encoding_.columns
        texts = [c.name for c in columns if any(isinstance(value, str) for value in getattr(c, "values", ()))]
        remembered = Format(columns=tuple(map(ColumnFormat, texts)))
    return recognise(source, like=remembered)


def count_rows(path: str | os.PathLike[str]) -> int:
    """About how many rows a file has, for a progress bar: the lines of a CSV."""
    file = regular_file(path)
    if file.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        return int(parquet.ParquetFile(file).metadata.num_rows)
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    with opener(file, "rb") as stream:
        lines: int = sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))
    return max(1, lines - 1)


def _without_new_gaps(fitted: "StableClassifier", chunk: pd.DataFrame, summary: Summary) -> pd.DataFrame:
    """The rows that have a value wherever all rows of fit had one; the others are counted."""
    gone = fitted.encoding_.new_gaps(chunk).any(axis=1)
    summary.pass_over(chunk.index[gone].tolist())
    summary.rows += int(gone.sum())
    return chunk[~gone] if gone.any() else chunk


def _columns_of_model(
    fitted: "StableClassifier", source: str | os.PathLike[str], written: Format, summary: Summary
) -> list[str]:
    names = fitted.encoding_.column_names
    there = read_names(source, written)
    missing = [name for name in names if name not in there]
    if missing:
        raise DataError(
            f"the file has no column {few([repr(name) for name in missing])}, which the model needs"
            f"{suggestion(missing[0], there[:40])}"
        )
    summary.ignored = [name for name in there if name not in set(names)]
    return names


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()


class _Sink:
    """Takes tables of reasons, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def __enter__(self) -> "_Sink":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to write."""

    def write(self, table: pd.DataFrame) -> None:
        raise NotImplementedError


class _Csv(_Sink):
    header = True

    def write(self, table: pd.DataFrame) -> None:
        table.to_csv(self.file, index=False, header=self.header, lineterminator="\n")
        self.header = False


class _JsonLines(_Sink):
    def write(self, table: pd.DataFrame) -> None:
        if len(table):
            table.to_json(self.file, orient="records", lines=True, force_ascii=False, double_precision=15)


class _Parquet(_Sink):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise DataError(
                "a Parquet file needs pyarrow: pip install 'r2et[parquet]', or write the reasons to a CSV file"
            ) from error
        whole, number, text = pa.int64(), pa.float64(), pa.string()
        kinds = {"row": whole, "rank": whole, "contribution": number, "holds_within": number}
        names = ("row", "rank", "column", "value", "contribution", "direction")
        every = (*names, "holds_within", "holds_within_units", "text")
        self.schema = pa.schema([(name, kinds.get(name, text)) for name in every])
        self.writer = parquet.ParquetWriter(file, self.schema)

    def write(self, table: pd.DataFrame) -> None:
        import pyarrow as pa

        self.writer.write_table(pa.Table.from_pandas(table, self.schema, preserve_index=False))

    def __exit__(self, *_: object) -> None:
        self.writer.close()


_SINKS: dict[str, type[_Sink]] = {
    ".csv": _Csv,
    ".jsonl": _JsonLines,
    ".ndjson": _JsonLines,
    ".parquet": _Parquet,
    ".pq": _Parquet,
}
