"""A person's own CSV or Parquet file as columns and labels."""

import csv
import gzip
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.errors import DataError, InputError, in_words
from r2et.files.reading import file_digest, regular_file
from r2et.files.unpacking import allowed, check_gzip, too_large
from r2et.numerics.values import check_columns, check_count, check_kind, check_path, check_text, quoted, suggestion

Series: TypeAlias = "pd.Series[Any]"

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".pq")


@dataclass(frozen=True)
class LabelledTable:
    """Columns and labels.

    Attributes:
        path: the file they were read from.
        frame: the columns that a model sees, N rows labelled by their number in the file.
        target: the name of the column of labels.
        labels: N labels, as they are in the file.
        sha256: of the file's bytes.
    """

    path: Path
    frame: pd.DataFrame = field(repr=False)
    target: str
    labels: Series = field(repr=False)
    sha256: str = field(default="", repr=False)

    def rows(self, numbers: NDArray[np.int64]) -> "LabelledTable":
        """The same with some rows only, by their position."""
        return replace(self, frame=self.frame.iloc[numbers], labels=self.labels.iloc[numbers])


def is_table(text: str) -> bool:
    """Whether a text names a file rather than a registered data set.

    >>> is_table("people.csv"), is_table("adult")
    (True, False)
    """
    return text.lower().endswith(_SUFFIXES) or os.sep in text or os.path.isfile(text)


def read_frame(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A CSV (separated by commas, semicolons or tabs, as its first line is) or a Parquet file as a frame."""
    check_path("path", path)
    path = regular_file(path)
    if not path.name.lower().endswith(_SUFFIXES):
        raise DataError(f"{quoted(path)} is neither a CSV nor a Parquet file by its name: {', '.join(_SUFFIXES)}")
    try:
        frame = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
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
    return frame.reset_index(drop=True)


def read_table(
    path: str | os.PathLike[str], target: str | None, columns: Sequence[str] | None = None
) -> LabelledTable:
    r"""Read a file and take the labels apart from the columns.

    Args:
        path: a CSV or Parquet file with a line of names.
        target: the column to predict.
        columns: the columns that the model sees, in its order; None = all others, in the order of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/people.csv").write_text("age;bought;pay\n30;yes;10\n40;no;20\n")
    ...     table = read_table(f"{folder}/people.csv", "bought")
    >>> table.frame.columns.tolist(), table.labels.tolist()
    (['age', 'pay'], ['yes', 'no'])
    """
    check_path("path", path)
    path = Path(path)
    sha256 = file_digest(path) if path.is_file() else ""
    frame = read_frame(path)
    if sha256 and file_digest(path) != sha256:
        raise DataError(f"{str(path)!r} changed while it was read: wait until it is whole")
    known = frame.columns.tolist()
    if target is None:
        raise InputError(f"{str(path)!r} is a table: name the column to predict by --target; it has {_few(known)}")
    check_text("target", target)
    if target not in known:
        alone = " Columns are separated by commas, semicolons or tabs." if len(known) == 1 else ""
        raise InputError(
            f"{str(path)!r} has no column {quoted(target)} to predict{suggestion(target, known[:40])}{alone}"
        )
    others = [name for name in known if name != target]
    wanted = others if columns is None else names_given("columns", columns)
    for name in wanted:
        if name not in known:
            raise InputError(f"{str(path)!r} has no column {name!r}{suggestion(name, known[:40])}")
        if name == target:
            raise InputError(f"column {name!r} is the one to predict: leave it out of the columns")
    if len(set(wanted)) < len(wanted):
        raise InputError(f"a column is named twice in {', '.join(map(repr, wanted))}")
    if not wanted:
        raise InputError(f"{str(path)!r} has no column besides {target!r}")
    labels = frame[target]
    missing = np.flatnonzero(labels.isna().to_numpy())
    if len(missing):
        raise DataError(
            f"column {target!r} of {str(path)!r} misses {len(missing)} of {len(labels)} labels, first in row "
            f"{missing[0]} (counted from 0): leave these rows out"
        )
    return LabelledTable(path, frame[wanted], target, labels, sha256)


def numeric_inputs(frame: pd.DataFrame, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numeric columns as the tensor (N, columns) that a model sees; anything else is an error that names it.

    >>> numeric_inputs(pd.DataFrame({"age": [30, 40], "smokes": [True, False]}))
    tensor([[30.,  1.],
            [40.,  0.]])
    """
    check_kind("frame", frame, pd.DataFrame, "a pandas.DataFrame")
    check_kind("dtype", dtype, torch.dtype, "torch.float32")
    check_columns("frame", frame.columns)
    wrong = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    if wrong:
        example = frame[wrong[0]].dropna()
        shown = f" (such as {example.iloc[0]!r} in {wrong[0]!r})" if len(example) else ""
        raise InputError(
            f"{len(wrong)} of {frame.shape[1]} columns do not hold numbers: {_few(wrong)}{shown}. This model "
            "takes numbers: write a file with the columns encoded as in its training, or choose columns by "
            "--columns. A model that r2et train fitted to this file encodes text itself"
        )
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        names = [str(name) for name, any_bad in zip(frame.columns, bad.any(0), strict=True) if any_bad]
        row = int(np.flatnonzero(bad.any(1))[0])
        raise InputError(
            f"{int(bad.sum())} values are missing (NaN) or infinite, in {_few(names)}, first in row "
            f"{frame.index[row]} (counted from 0): fill them in or leave the rows out"
        )
    return torch.from_numpy(values).to(dtype)


def names_given(name: str, given: object) -> list[str]:
    """Names that somebody gave: a list of texts.

    >>> names_given("columns", ("age", "pay"))
    ['age', 'pay']
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray | pd.Index | pd.Series):
        raise InputError(f"{name} must be a list of names, got {name}={quoted(given)}")
    listed = list(given)
    for each in listed:
        check_text(f"a name in {name}", each)
    return listed


def class_order(labels: Series, count: int | None = None, order: Sequence[str] | None = None) -> list[Any]:
    """The labels that stand for classes 0, 1 and so on.

    Args:
        labels: of all rows.
        count: how many classes the model has; None = as many as there are labels.
        order: the labels in the order of the classes, as text; None = sorted. Whole numbers from 0 below count
            stand for themselves.

    >>> class_order(pd.Series(["yes", "no", "yes"]))
    ['no', 'yes']
    >>> class_order(pd.Series(["yes", "no", "yes"]), order=["yes", "no"])
    ['yes', 'no']
    >>> class_order(pd.Series([2, 0, 2]), count=3)
    [0, 1, 2]
    """
    check_kind("labels", labels, pd.Series, "a pandas.Series")
    if count is not None:
        check_count("count", count)
    order = None if order is None else names_given("order", order)
    values = [value.item() if isinstance(value, np.generic) else value for value in labels.unique()]
    if order is not None:
        by_text = {_text(value): value for value in values}
        unknown = [text for text in by_text if text not in order]
        if unknown:
            raise InputError(
                f"label {unknown[0]!r} is not among the classes {', '.join(map(repr, order))}: name all of them, "
                "in the order of the model's outputs"
            )
        if len(set(order)) < len(order):
            raise InputError(f"a class is named twice in {', '.join(map(repr, order))}")
        found = [by_text.get(text, text) for text in order]
    elif count is not None and len(values) != count and all(_whole(value, count) for value in values):
        found = list(range(count))
    else:
        try:
            found = sorted(values)
        except TypeError as error:
            raise InputError(f"the labels mix text and numbers, {_few(list(map(repr, values)))}") from error
    if count is not None and len(found) != count:
        raise InputError(
            f"the model has {count} classes, the labels are {len(found)}: {_few(list(map(_text, found)))}. Name "
            "all classes in the order of the model's outputs by --classes"
        )
    return found


def class_numbers(labels: Series, classes: Sequence[Any]) -> Tensor:
    """The number of each label among the classes, int64 (N,)."""
    check_kind("labels", labels, pd.Series, "a pandas.Series")
    if isinstance(classes, str | bytes) or not isinstance(classes, Sequence | np.ndarray):
        raise InputError(f"classes must be a list of labels, got classes={quoted(classes)}")
    try:
        number = {value: place for place, value in enumerate(list(classes))}
    except TypeError as error:
        raise InputError(f"classes must be a list of labels, got classes={quoted(classes)}") from error
    unknown = [value for value in labels.tolist() if value not in number]
    if unknown:
        raise InputError(f"label {unknown[0]!r} is not among the classes {', '.join(map(repr, classes))}")
    return torch.tensor([number[value] for value in labels.tolist()], dtype=torch.int64)


def _whole(value: Any, count: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value in range(count)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_csv(path: Path) -> pd.DataFrame:
    packed = path.suffix.lower() == ".gz"
    if packed:
        check_gzip(path)
        _check_cells(path)
    with (gzip.open if packed else open)(path, "rt", newline="", encoding="utf-8-sig") as file:
        header = file.readline()
    # a name in quotes may hold any of them
    names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in (",", ";", "\t")}
    separator = max(names, key=lambda mark: len(names[mark]))
    # pandas would call the second one "age.1"
    _refuse_repeated(path, [name for name in names[separator] if name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # pandas would take the first column away as an index where rows are longer than the header
            return pd.read_csv(path, sep=separator, index_col=False)
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"{quoted(path)} has rows with more values than the {len(names[separator])} names of its first "
                "line: name every column"
            ) from error


def _check_cells(path: Path) -> None:
    """Refuse a packed table of very many empty values: each takes one byte of text, and eight in memory."""
    limit, cells = allowed(path.stat().st_size), 0
    with gzip.open(path) as source:
        while piece := source.read(2**20):
            cells += piece.count(b"\n") + max(map(piece.count, (b",", b";", b"\t")))
            if 8 * cells > limit:
                raise too_large(path, f"more than {cells:,} values")


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"{quoted(path)} has several columns called {_few(list(map(quoted, repeated)))}: give each a name of "
            "its own"
        )


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        from pyarrow import parquet, types
    except ImportError as error:
        raise DataError(
            f"{quoted(path)} needs pyarrow: pip install 'r2et[parquet]', or save the table as CSV"
        ) from error
    with parquet.ParquetFile(path) as file:
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
            f"{quoted(path)} has columns of lists, structures or bytes: {_few(strange)}. Turn them into columns "
            "of numbers or text, or leave them out of the file"
        )
    # a value that repeats takes no room in the file, and eight bytes in memory
    if max(rows * len(schema.names) * 8, unpacked) > allowed(path.stat().st_size):
        raise too_large(path, f"{rows:,} rows of {len(schema.names)} columns, {unpacked:,} bytes")
    texts = [entry.name for entry in schema if types.is_string(entry.type) or types.is_large_string(entry.type)]
    _check_texts(path, texts)
    return pd.read_parquet(path)


def _check_texts(path: Path, names: Sequence[str]) -> None:
    """Refuse a text that is stored once and repeated in very many rows: it is written out in each of them."""
    from pyarrow import compute, parquet

    limit, seen = allowed(path.stat().st_size), 0
    for name in names:
        with parquet.ParquetFile(path, read_dictionary=[name]) as file:
            for batch in file.iter_batches(batch_size=2**16, columns=[name]):
                lengths = compute.binary_length(batch.column(0).dictionary)
                seen += compute.sum(compute.take(lengths, batch.column(0).indices)).as_py() or 0
                if seen > limit:
                    raise too_large(path, f"more than {limit:,} bytes of text")


def _few(names: Sequence[Any]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(map(str, names[:6])) + more
