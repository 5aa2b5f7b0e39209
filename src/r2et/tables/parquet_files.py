"""Parquet files as typed frames: they say their types themselves."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from r2et.errors import DataError, InputError
from r2et.files.unpacking import allowed, too_large
from r2et.numerics.values import few, quoted
from r2et.tables.formats import Format, Hints
from r2et.tables.text_files import Choice, refuse_repeated

if TYPE_CHECKING:
    import pandas as pd


def read_parquet(path: Path, content: bytes, hints: Hints, choose: Choice | None) -> "tuple[pd.DataFrame, Format]":
    """A typed frame, and a format without separator; what a person says about text has no meaning here.

    Args:
        path: for messages.
        content: of the file.
        hints: must be empty.
        choose: the columns to read, of those that there are; None = all.
    """
    refuse_hints(path, hints)
    import pandas as pd

    _check(path, content)
    frame = pd.read_parquet(io.BytesIO(content)).reset_index(drop=True)
    if frame.empty:
        raise DataError(f"{quoted(path)} has no rows")
    frame.columns = frame.columns.astype(str)
    refuse_repeated(path, frame.columns.tolist())
    wanted = frame.columns.tolist() if choose is None else list(choose(frame.columns.tolist()))
    return _plain(frame[wanted]), Format("", "")


def refuse_hints(path: Path, hints: Hints) -> None:
    """Raise if a person says how numbers are written in a file that holds no text."""
    if replace(hints, texts=()) != Hints():
        raise InputError(
            f"{quoted(path)} is a Parquet file, which says its types itself: leave out --sep, --decimal, "
            "--thousands, --encoding, --dates and --missing"
        )


def parquet_names(path: Path) -> list[str]:
    """Of the columns."""
    content = path.read_bytes()
    _check(path, content)
    from pyarrow import parquet

    with parquet.ParquetFile(io.BytesIO(content)) as file:
        if not file.metadata.num_rows:
            raise DataError(f"{quoted(path)} has no rows")
        return [str(name) for name in file.schema_arrow.names]


def parquet_chunks(path: Path, rows: int, columns: Sequence[str] | None) -> "Iterator[pd.DataFrame]":
    """Frames of at most `rows` rows; the memory of one at a time, and of the file's own groups of rows."""
    content = path.read_bytes()
    _check(path, content)
    from pyarrow import parquet

    with parquet.ParquetFile(io.BytesIO(content)) as file:
        missing = [name for name in columns or [] if name not in file.schema_arrow.names]
        if missing:
            raise InputError(f"{quoted(path)} has no column {few(list(map(repr, missing)))}")
        gaps = _with_gaps(file)
        start = 0
        for batch in file.iter_batches(batch_size=rows, columns=None if columns is None else list(columns)):
            frame = batch.to_pandas()
            frame = _plain(frame if columns is None else frame[list(columns)])
            for name in gaps & set(frame.columns):
                # a piece without gaps has the type of the whole
                kind = frame[name].dtype.kind
                frame[name] = frame[name].astype(
                    {"i": np.float64, "u": np.float64, "b": object}.get(kind, frame[name].dtype)
                )
            frame.index = np.arange(start, start + len(frame))
            start += len(frame)
            yield frame


def _with_gaps(file: Any) -> set[str]:
    """Columns that miss a value anywhere; without statistics the values are looked at."""
    gaps = set()
    for place, name in enumerate(file.schema_arrow.names):
        groups = [file.metadata.row_group(number).column(place) for number in range(file.metadata.num_row_groups)]
        if all(group.is_stats_set and group.statistics.has_null_count for group in groups):
            count = sum(group.statistics.null_count for group in groups)
        else:
            count = sum(batch.column(0).null_count for batch in file.iter_batches(columns=[name]))
        if count:
            gaps.add(name)
    return gaps


def _plain(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Dates as moments without a time zone, decimals as floats."""
    import pandas as pd

    frame = frame.copy()
    for name in frame.columns:
        column = frame[name]
        inferred = pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else ""
        if inferred in ("date", "datetime"):
            column = pd.to_datetime(column, errors="coerce")
        elif inferred == "decimal":
            frame[name] = column.astype(np.float64)
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        if pd.api.types.is_datetime64_dtype(column.dtype):
            frame[name] = column.astype("datetime64[us]")
    return frame


def _check(path: Path, content: bytes) -> None:
    """Refuse a file without pyarrow, with columns that are no table's, or that would fill the memory."""
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
    refuse_repeated(path, schema.names)
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
