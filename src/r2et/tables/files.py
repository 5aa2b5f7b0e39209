"""Files as frames: the only place where a CSV or Parquet file is read."""

import codecs
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2et.errors import DataError, InputError, in_words
from r2et.files.reading import regular_file
from r2et.files.unpacking import allowed, check_gzip, copy_within, too_large, unreadable
from r2et.numerics.values import check_count, check_kind, check_path, quoted
from r2et.tables.formats import Format, Hints
from r2et.tables.text_files import Choice, read_text, text_chunks

# pandas is imported when it is used: a data set of images needs none
if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".pq")
_PARQUET = (".parquet", ".pq")
#: bytes by which a file that is read in pieces is recognised
HEAD = 2**20


def is_table(text: str) -> bool:
    """Whether a text names a file rather than a registered data set.

    >>> is_table("people.csv"), is_table("adult")
    (True, False)
    """
    return text.lower().endswith(_SUFFIXES) or os.sep in text or os.path.isfile(text)


def read_frame(path: str | os.PathLike[str], format: Format | None = None) -> "pd.DataFrame":
    r"""A person's own file as a frame, its columns typed by what they hold.

    Args:
        path: a text file with a line of names (CSV), perhaps packed by gzip, or a Parquet file.
        format: how an earlier file like this one was written; where this one clearly is written otherwise, it is
            recognised anew. None = recognise everything; `recognise` says what.

    Returns:
        Whole numbers, numbers, True and False, datetime64 and text; NaN (NaT) where a value is missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/people.csv").write_text("age;pay\n30;1.800,50\n;2.100,00\n")
    ...     read_frame(f"{folder}/people.csv")
        age     pay
    0  30.0  1800.5
    1   NaN  2100.0
    """
    return read_once(path, format)[0]


def read_once(path: str | os.PathLike[str], format: Format | None = None) -> "tuple[pd.DataFrame, str]":
    """A person's own file as a frame, and the SHA-256 of the very bytes that it was made from.

    Args:
        path: as for `read_frame`.
        format: as for `read_frame`.
    """
    loaded = load(path, format)
    return loaded.frame, loaded.sha256


def recognise(
    path: str | os.PathLike[str],
    *,
    like: Format | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    dates: Mapping[str, str] | None = None,
    missing: Sequence[str] | None = None,
) -> Format:
    r"""How a file is written, decided over all of its rows; `Format.said` tells it in sentences.

    Args:
        path: as for `read_frame`.
        like: how an earlier file was written: this one is read in the same way unless it contradicts it.
        separator: of values; this and the others are recognised where they are None.
        decimal: "." or ",".
        thousands: ".", ",", "'", " " or "" (none).
        encoding: such as "cp1252".
        dates: column -> how it writes its dates, such as "%d/%m/%Y".
        missing: texts that stand for a missing value beside the usual ones ("", "NA", "?" and so on).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/people.csv").write_text("age;pay\n30;1.800,50\n40;?\n")
    ...     for sentence in recognise(f"{folder}/people.csv").said:
    ...         print(sentence)
    values are separated by semicolons (else: --sep, --encoding)
    numbers have a decimal comma and dots between thousands: 1.234,56 is 1234.56 (column pay; else: --decimal,
    --thousands)
    values are missing in column pay 1 ('?'); further marks: --missing
    """
    marks = None if missing is None else (missing,) if isinstance(missing, str) else tuple(missing)
    hints = Hints(separator, decimal, thousands, encoding, dates, marks)
    return load(path, like, hints).format


def read_chunks(
    path: str | os.PathLike[str],
    format: Format,
    rows: int = 10_000,
    columns: Sequence[str] | None = None,
) -> "Iterator[pd.DataFrame]":
    r"""A file of any size as frames of the same types, in the memory of one of them.

    Args:
        path: as for `read_frame`.
        format: what `recognise` says of this file, or of an earlier one; a value that contradicts it is an error.
        rows: at most this many in each frame; they are labelled by their number in the file.
        columns: to read, in their order; None = all that the format knows and the file has (of Parquet all).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/people.csv").write_text("age;pay\n30;1,5\n40;2,5\n50;3\n")
    ...     written = recognise(f"{folder}/people.csv")
    ...     [part["pay"].tolist() for part in read_chunks(f"{folder}/people.csv", written, rows=2)]
    [[1.5, 2.5], [3.0]]
    """
    check_path("path", path)
    check_kind("format", format, Format, "r2et.tables.recognise(path)")
    check_count("rows", rows)
    file = _table_file(path)
    names = None if columns is None else list(columns)
    if file.suffix.lower() in _PARQUET:
        from r2et.tables.parquet_files import parquet_chunks

        return parquet_chunks(file, rows, names)
    return text_chunks(file, format, rows, names)


def recognise_first(
    path: str | os.PathLike[str],
    like: Format | None = None,
    hints: Hints | None = None,
    choose: Choice | None = None,
) -> Format:
    """How the first rows of a file of any size are written, for `read_chunks`, which refuses what is otherwise.

    Args:
        path: as for `read_frame`.
        like: how an earlier file was written.
        hints: what a person said about this one.
        choose: of the names of the columns those to read; None = all.
    """
    check_path("path", path)
    file, hints = _table_file(path), hints or Hints()
    with _as_data_errors(file):
        if file.suffix.lower() in _PARQUET:
            from r2et.tables.parquet_files import parquet_names, refuse_hints

            refuse_hints(file, hints)
            names = parquet_names(file)
            if choose is not None:
                choose(names)
            return Format("", "")
        content, complete = _head(file)
        written = read_text(file, content, like, hints, choose)[1]
    if complete or not written.said:
        return written
    return replace(written, said=(*written.said, "these are its first rows: the others are read in the same way"))


def _head(file: Path) -> tuple[bytes, bool]:
    """The first records of a text file, and whether they are all of it."""
    packed = file.suffix.lower() == ".gz"
    if packed:
        check_gzip(file)
    opener: Any = gzip.open if packed else open
    with opener(file, "rb") as stream:
        content = bytes(stream.read(HEAD))
        rest = bytes(stream.read(1))
        if rest and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            # a line of two bytes a character ends elsewhere
            return content + rest + stream.read(), True
        head = content[: _end_of_records(content)]
        if rest and not head[head.find(b"\n") :].strip():
            # names alone, or not even those
            return content + rest + stream.read(), True
    return (head, False) if rest else (content, True)


def _end_of_records(content: bytes) -> int:
    """Where the last line ends that is whole; inside of quotes an end of a line is none."""
    end = content.rfind(b"\n")
    quotes = content.count(b'"', 0, max(end, 0))
    while end > 0 and quotes % 2:
        before = content.rfind(b"\n", 0, end)
        quotes -= content.count(b'"', max(before, 0), end)
        end = before
    return end + 1


def count_rows(path: str | os.PathLike[str]) -> int:
    """About how many rows a file has, for a progress bar: the lines of a text file."""
    file = _table_file(path)
    if file.suffix.lower() in _PARQUET:
        from pyarrow import parquet

        return int(parquet.ParquetFile(file).metadata.num_rows)
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    with _as_data_errors(file), opener(file, "rb") as stream:
        lines = sum(bytes(block).count(b"\n") for block in iter(lambda: stream.read(HEAD), b""))
    return max(1, lines - 1)


@contextmanager
def _as_data_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise DataError(f"{quoted(file)} cannot be read as a table: {in_words(error)}") from error


@dataclass(frozen=True)
class Loaded:
    """A frame, the SHA-256 of the bytes that it was made from, and how they are written."""

    frame: "pd.DataFrame"
    sha256: str
    format: Format


def load(
    path: str | os.PathLike[str],
    like: Format | None = None,
    hints: Hints | None = None,
    choose: Choice | None = None,
) -> Loaded:
    """A person's own file, read once.

    Args:
        path: as for `read_frame`.
        like: how an earlier file was written.
        hints: what a person said about this one.
        choose: of the names of the columns those to read; None = all.
    """
    check_path("path", path)
    if like is not None:
        check_kind("format", like, Format, "r2et.tables.recognise(path)")
    file = _table_file(path)
    hints = hints or Hints()
    with _as_data_errors(file):
        content = file.read_bytes()
        if file.suffix.lower() in _PARQUET:
            from r2et.tables.parquet_files import read_parquet

            frame, written = read_parquet(file, content, hints, choose)
        else:
            text = _unpacked(file, content) if file.suffix.lower() == ".gz" else content
            frame, written = read_text(file, text, like, hints, choose)
    return Loaded(frame, hashlib.sha256(content).hexdigest(), written)


def _table_file(path: str | os.PathLike[str]) -> Path:
    file = regular_file(path)
    if not file.name.lower().endswith(_SUFFIXES):
        raise DataError(f"{quoted(file)} is neither a CSV nor a Parquet file by its name: {', '.join(_SUFFIXES)}")
    return file


def read_texts(
    path: Path,
    columns: Sequence[str],
    *,
    separator: str = ",",
    header: bool = True,
    comment: str | None = None,
) -> "pd.DataFrame":
    """The named columns of a file whose layout is known, as text, and no others: "?" and "" are values too.

    Args:
        path: a text file.
        columns: their names; without a header they are the whole file, in order.
        separator: of the fields.
        header: whether the first line names the columns.
        comment: what a line of comment opens with.

    Returns:
        N rows, labelled "row 1 of path" and so on for error messages.
    """
    check_path("path", path)
    options = {"sep": separator, "comment": comment, "header": 0 if header else None}
    present = _read_columns(path, nrows=0 if header else 1, **options).columns
    missing = [name for name in columns if name not in present] if header else columns[len(present) :]
    if missing:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}")
    if not header and len(present) > len(columns):
        raise DataError(f"{path} has {len(present)} columns, expected {len(columns)}: {', '.join(columns)}")
    # usecols keeps everything else, such as people's names, out of memory
    frame = _read_columns(path, usecols=list(columns) if header else None, **options)
    if header:
        frame = frame[list(columns)]
    else:
        frame.columns = list(columns)
    if frame.empty:
        raise DataError(f"{path} has no rows")
    frame.index = [f"row {number} of {path}" for number in range(1, len(frame) + 1)]
    return frame


def _read_columns(path: Path, **options: Any) -> "pd.DataFrame":
    import pandas as pd

    regular_file(path)
    try:
        # keep_default_na: "?" and "N/A" are values to be mapped, not silently missing
        frame = pd.read_csv(
            path, dtype=str, keep_default_na=False, skipinitialspace=True, encoding="utf-8-sig", **options
        )
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read, it may be cut short or not a table: {error}") from error
    assert isinstance(frame, pd.DataFrame)
    return frame


def _unpacked(path: Path, content: bytes) -> bytes:
    """What a gzip file holds, unless it is damaged or far larger than the file."""
    out = io.BytesIO()
    try:
        with gzip.open(io.BytesIO(content)) as source:
            copy_within(source, path, out)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error
    text = out.getvalue()
    # an empty value takes one byte of text, and eight in memory
    cells = text.count(b"\n") + max(map(text.count, (b",", b";", b"\t", b"|")))
    if 8 * cells > allowed(len(content)):
        raise too_large(path, f"{cells:,} values")
    return text
