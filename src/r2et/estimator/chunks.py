"""A file of rows, chunk by chunk. (`r2et.tables` is to read chunks itself; this is what stands in for it.)"""

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pandas as pd

from r2et.errors import DataError, InputError, in_words
from r2et.files.reading import regular_file
from r2et.numerics.values import quoted

ROWS = 10_000


def read_chunks(
    path: str | os.PathLike[str], texts: Sequence[str] = (), *, rows: int = ROWS
) -> Iterator[pd.DataFrame]:
    """Frames of at most `rows` rows of a CSV or Parquet file, numbered through."""
    path = regular_file(path)
    read = _of_parquet if path.suffix.lower() in (".parquet", ".pq") else _of_csv
    start = 0
    try:
        for chunk in read(path, texts, rows):
            chunk.index = pd.RangeIndex(start, start + len(chunk))
            start += len(chunk)
            yield chunk
    except (InputError, OSError):
        raise
    except (ValueError, EOFError) as error:  # parsers of damaged files
        raise DataError(f"{quoted(path)} cannot be read as a table: {in_words(error)}") from error
    if not start:
        raise DataError(f"{quoted(path)} has no rows")


def count_rows(path: str | os.PathLike[str]) -> int:
    """About how many rows a file has, for a progress bar: the lines of a CSV."""
    path = regular_file(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        return int(parquet.ParquetFile(path).metadata.num_rows)
    with _opened(path) as file:
        return max(1, sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b"")) - 1)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # type: ignore[return-value]


def _of_csv(path: Path, texts: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
    with _opened(path) as file:
        header = file.readline().decode("utf-8-sig")
    separator = max((",", ";", "\t"), key=header.count)
    with pd.read_csv(
        path,
        sep=separator,
        chunksize=rows,
        index_col=False,
        dtype=dict.fromkeys(texts, "str"),
        encoding="utf-8-sig",
    ) as reader:
        yield from reader


def _of_parquet(path: Path, texts: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"{quoted(path)} needs pyarrow: pip install 'r2et[parquet]', or save it as CSV") from error
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield batch.to_pandas()
