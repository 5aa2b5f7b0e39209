"""Files as frames: the only place where a CSV or Parquet file is read."""

import csv
import gzip
import hashlib
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2et.errors import DataError, InputError, in_words
from r2et.files.reading import regular_file
from r2et.files.unpacking import allowed, copy_within, too_large, unreadable
from r2et.numerics.values import check_path, few, quoted

# pandas is imported when it is used: a data set of images needs none
if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".pq")


def is_table(text: str) -> bool:
    """Whether a text names a file rather than a registered data set.

    >>> is_table("people.csv"), is_table("adult")
    (True, False)
    """
    return text.lower().endswith(_SUFFIXES) or os.sep in text or os.path.isfile(text)


def read_frame(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """A person's own file as a frame, its columns typed by what they hold.

    Args:
        path: a CSV (separated by commas, semicolons or tabs, as its first line is) or a Parquet file.
    """
    return read_once(path)[0]


def read_once(path: str | os.PathLike[str]) -> "tuple[pd.DataFrame, str]":
    """A person's own file as a frame, and the SHA-256 of the very bytes that it was made from.

    Args:
        path: a CSV (separated by commas, semicolons or tabs, as its first line is) or a Parquet file.
    """
    check_path("path", path)
    path = regular_file(path)
    if not path.name.lower().endswith(_SUFFIXES):
        raise DataError(f"{quoted(path)} is neither a CSV nor a Parquet file by its name: {', '.join(_SUFFIXES)}")
    read = _read_parquet if path.suffix.lower() in (".parquet", ".pq") else _read_csv
    try:
        content = path.read_bytes()
        frame = read(path, content)
    except InputError:
        raise
    except UnicodeError as error:
        raise DataError(f"{quoted(path)} cannot be read as a table: it is not in UTF-8, save it so") from error
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise DataError(f"{quoted(path)} cannot be read as a table: {in_words(error)}") from error
    if frame.empty:
        raise DataError(f"{quoted(path)} has no rows")
    frame.columns = frame.columns.astype(str)
    _refuse_repeated(path, frame.columns.tolist())
    return frame.reset_index(drop=True), hashlib.sha256(content).hexdigest()


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


def _read_csv(path: Path, content: bytes) -> "pd.DataFrame":
    import pandas as pd

    if path.suffix.lower() == ".gz":
        content = _unpacked(path, content)
    header = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="").readline()
    # a name in quotes may hold any of them
    names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in (",", ";", "\t")}
    separator = max(names, key=lambda mark: len(names[mark]))
    # pandas would call the second one "age.1"
    _refuse_repeated(path, [name for name in names[separator] if name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # pandas would take the first column away as an index where rows are longer than the header
            return pd.read_csv(io.BytesIO(content), sep=separator, index_col=False)
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"{quoted(path)} has rows with more values than the {len(names[separator])} names of its first "
                "line: name every column"
            ) from error


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
    cells = text.count(b"\n") + max(map(text.count, (b",", b";", b"\t")))
    if 8 * cells > allowed(len(content)):
        raise too_large(path, f"{cells:,} values")
    return text


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"{quoted(path)} has several columns called {few(list(map(quoted, repeated)))}: give each a name of "
            "its own"
        )


def _read_parquet(path: Path, content: bytes) -> "pd.DataFrame":
    import pandas as pd

    try:
        from pyarrow import parquet, types
    except ImportError as error:
        raise DataError(
            f"{quoted(path)} needs pyarrow: pip install 'r2et[parquet]', or save the table as CSV"
        ) from error
    with parquet.ParquetFile(io.BytesIO(content)) as file:
        schema, stored = file.schema_arrow, file.metadata
    rows = stored.num_rows
    unpacked = sum(stored.row_group(number).total_byte_size for number in range(stored.num_row_groups))
    _refuse_repeated(path, schema.names)
    strange = [
        f"{quoted(entry.name)} ({entry.type})"
        for entry in schema
        if types.is_nested(entry.type)
        or types.is_binary(entry.type)
        or types.is_large_binary(entry.type)
        or types.is_fixed_size_binary(entry.type)
    ]
    if strange:
        raise DataError(
            f"{quoted(path)} has columns of lists, structures or bytes: {few(strange)}. Turn them into columns "
            "of numbers or text, or leave them out of the file"
        )
    # a value that repeats takes no room in the file, and eight bytes in memory
    if max(rows * len(schema.names) * 8, unpacked) > allowed(len(content)):
        raise too_large(path, f"{rows:,} rows of {len(schema.names)} columns, {unpacked:,} bytes")
    texts = [entry.name for entry in schema if types.is_string(entry.type) or types.is_large_string(entry.type)]
    _check_texts(path, content, texts)
    return pd.read_parquet(io.BytesIO(content))


def _check_texts(path: Path, content: bytes, names: Sequence[str]) -> None:
    """Refuse a text that is stored once and repeated in very many rows: it is written out in each of them."""
    from pyarrow import compute, parquet

    limit, seen = allowed(len(content)), 0
    for name in names:
        with parquet.ParquetFile(io.BytesIO(content), read_dictionary=[name]) as file:
            for batch in file.iter_batches(batch_size=2**16, columns=[name]):
                lengths = compute.binary_length(batch.column(0).dictionary)
                seen += compute.sum(compute.take(lengths, batch.column(0).indices)).as_py() or 0
                if seen > limit:
                    raise too_large(path, f"more than {limit:,} bytes of text")
