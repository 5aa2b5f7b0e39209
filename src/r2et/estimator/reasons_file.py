"""Reasons for the rows of a file of any size: read in chunks, written in one piece."""

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, Unpack

import pandas as pd

from r2et.errors import DataError, InputError
from r2et.files.writing import check_writable, writing
from r2et.numerics.values import check_path, few, quoted, suggestion
from r2et.tables.files import load, read_chunks, recognise_first
from r2et.tables.formats import ColumnFormat, Format, Hints
from r2et.tables.origins import Origin
from r2et.tables.text_files import FormatError

if TYPE_CHECKING:
    from r2et.estimator.classifier import StableClassifier
    from r2et.estimator.regressor import StableRegressor

#: rows that are explained together: what is in memory, and how often a bar moves
ROWS_AT_ONCE = 2000
#: rows that are read together
ROWS_OF_A_CHUNK = 10_000
#: rows that a summary names
NAMED = 20


class Options(TypedDict, total=False):
    """What `StableClassifier.reasons` and `StableRegressor.reasons` take by name."""

    toward: Any
    exclude: Sequence[str] | None
    phrases: Mapping[str, str] | None
    proven: bool
    plausible: str | None


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
        ignored: columns of the file that the model does not know, and that the training did not leave out.
        notes: what was recognised in the file, as sentences without their full stop.
        proven: lists with a radius that is proven.
        method: of the proof.
        why_not: nothing is proven, where it is so.
        background: SHA-256 of what contributions are measured against.
        plausible: one plausible change of each number, as an amount, if that was asked for.
    """

    rows: int = 0
    reasons: int = 0
    without_reasons: int = 0
    first_without: list[int] = field(default_factory=list)
    not_explained: int = 0
    first_not_explained: list[int] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    proven: int = 0
    method: str | None = None
    why_not: str | None = None
    background: str = ""
    plausible: dict[str, Any] | None = None

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
        self.background, self.plausible = said["background"], said["plausible"]

    def pass_over(self, rows: list[int]) -> None:
        """Count rows that cannot be explained, by their numbers."""
        self.not_explained += len(rows)
        self.first_not_explained = sorted([*self.first_not_explained, *rows])[:NAMED]


def write_reasons(
    fitted: "StableClassifier | StableRegressor",
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    n: int = 4,
    *,
    origin: Origin | None = None,
    hints: Hints | None = None,
    advance: Callable[[int], None] = lambda rows: None,
    **options: Unpack[Options],
) -> Summary:
    """Write the `reasons` of every row of a file; `row` is its number in the file, from 0.

    Memory is bounded by the chunk; a file whose later rows are written otherwise than its first is recognised as a
    whole. The output appears when it is complete, or not at all.

    Args:
        fitted: a StableClassifier or StableRegressor.
        source: a CSV or Parquet file with the columns of the model; others are ignored.
        output: .csv, .parquet or .jsonl.
        n: most reasons of a row.
        origin: of the training: the file is read as that of the training was, unless it contradicts that.
        hints: what a person says about how the file is written.
        advance: is told of every number of rows that is done.
        options: of `StableClassifier.reasons`.
    """
    check_output(source, output)
    like = _format_before(fitted, origin)
    ignored: list[str] = []

    def choose(there: list[str]) -> list[str]:
        ignored[:] = _ignored(fitted, there, origin)
        return fitted.encoding_.column_names

    def written(format: Format) -> Summary:
        summary = Summary(ignored=ignored, notes=list(format.said))
        chunks = read_chunks(source, format, ROWS_OF_A_CHUNK, fitted.encoding_.column_names)
        tables = _tables(fitted, chunks, n, options)
        # what cannot be explained is told before a file is made
        first = next(tables)
        try:
            with writing(output) as file, _SINKS[_suffix(output)](file) as sink:
                for rows, table in itertools.chain([first], tables):
                    summary.take(rows, table)
                    sink.write(table)
                    advance(rows)
        except FormatError:
            advance(-summary.rows)
            raise
        return summary

    try:
        return written(recognise_first(source, like, hints, choose))
    except FormatError:
        return written(load(source, like, hints, choose).format)


def _tables(
    fitted: "StableClassifier | StableRegressor", chunks: Iterable[pd.DataFrame], n: int, options: Options
) -> Iterator[tuple[int, pd.DataFrame]]:
    """Numbers of rows, and their reasons."""
    # a network of layers takes so much longer that a bar would stand still
    size = ROWS_AT_ONCE if callable(getattr(fitted.model_, "parts", None)) else max(1, ROWS_AT_ONCE // 20)
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            part = chunk.iloc[start : start + size]
            with warnings.catch_warnings():
                # they are counted instead: a note for every chunk is noise
                warnings.filterwarnings("ignore", message=".*were not there in fit", category=UserWarning)
                yield _explained(fitted, part, n, options)


def _explained(
    fitted: "StableClassifier | StableRegressor", part: pd.DataFrame, n: int, options: Options
) -> tuple[int, pd.DataFrame]:
    """The reasons of the rows that have a value wherever all rows of fit had one; the others are told.

    If there is no such row, something is wrong with the file: the error of the estimator says what.
    """
    gone = fitted.encoding_.new_gaps(part).any(axis=1).to_numpy()
    if gone.all() or not gone.any():
        return len(part), fitted.reasons(part, n, **options)
    table = fitted.reasons(part[~gone], n, **options)
    table.attrs["rows_not_explained"] = sorted([*table.attrs["rows_not_explained"], *part.index[gone].tolist()])
    return len(part), table


def check_output(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Say so before an hour of work if the output cannot be written, or would take the place of the input."""
    for name, path in (("data", source), ("output", output)):
        check_path(name, path)
    if _suffix(output) not in _SINKS:
        raise InputError(f"reasons are written to {few(sorted(_SINKS))}, got {quoted(os.fspath(output))}")
    check_writable(output)
    if os.path.exists(output) and os.path.exists(source) and os.path.samefile(source, output):
        raise InputError(f"{quoted(os.fspath(output))} is the file of the rows: give the reasons another name")


def _format_before(fitted: "StableClassifier | StableRegressor", origin: Origin | None) -> Format:
    """How the file of the training was written; columns of text are text, however much they look like numbers."""
    known = Format("") if origin is None or origin.format is None else origin.format
    texts = [
        column.name
        for column in fitted.encoding_.columns
        if known.column(column.name) is None
        and any(isinstance(value, str) for value in getattr(column, "values", ()))
    ]
    return replace(known, columns=(*known.columns, *(ColumnFormat(name, "text") for name in texts)))


def _ignored(fitted: "StableClassifier | StableRegressor", there: list[str], origin: Origin | None) -> list[str]:
    """Columns of a file that the model does not know; raises if it lacks one that the model needs."""
    names = fitted.encoding_.column_names
    missing = [name for name in names if name not in there]
    if missing:
        raise DataError(
            f"the file has no column {few([repr(name) for name in missing])}, which the model needs"
            f"{suggestion(missing[0], there[:40])}"
        )
    known = {*names, *(() if origin is None else (*origin.dropped, origin.target))}
    return [name for name in there if name not in known]


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
        self.file.write(table.to_csv(index=False, header=self.header, lineterminator="\n").encode())
        self.header = False


class _JsonLines(_Sink):
    def write(self, table: pd.DataFrame) -> None:
        if len(table):
            lines = table.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)
            self.file.write(lines.encode())


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
        self.make = parquet.ParquetWriter
        self.kinds = {"row": pa.int64(), "rank": pa.int64(), "contribution": pa.float64()}
        self.number, self.text = pa.float64(), pa.string()
        self.writer: Any = None

    def write(self, table: pd.DataFrame) -> None:
        import pyarrow as pa

        if self.writer is None:
            kinds = {**self.kinds, **dict.fromkeys(("holds_within", "holds_within_plausible"), self.number)}
            self.schema = pa.schema([(name, kinds.get(name, self.text)) for name in table.columns])
            self.writer = self.make(self.file, self.schema)
        self.writer.write_table(pa.Table.from_pandas(table, self.schema, preserve_index=False))

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.close()


_SINKS: dict[str, type[_Sink]] = {
    ".csv": _Csv,
    ".jsonl": _JsonLines,
    ".ndjson": _JsonLines,
    ".parquet": _Parquet,
    ".pq": _Parquet,
}
