"""From a text file to numbers: every value is either understood or refused with its row and column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2et.errors import DataError
from r2et.files.reading import regular_file

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Series = pd.Series[Any]


@dataclass(frozen=True)
class Table:
    """All rows of a data set as numbers, not yet split or scaled.

    Args:
        values: (N, n), float64.
        names: n feature names.
        numeric: bool (n,), the columns to standardise. The others lie in [0, 1] and stay as they are.
        groups: column numbers of each one-hot group.
    """

    values: "NDArray[np.float64]"
    names: tuple[str, ...]
    numeric: "NDArray[np.bool_]"
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Number:
    """A numeric feature: a column, and what to do with it before it is standardised."""

    name: str
    column: str
    transform: "Callable[[NDArray[np.float64]], NDArray[np.float64]] | None" = None


@dataclass(frozen=True)
class Flag:
    """A feature that is 0 or 1: every raw value of a column, with the one it stands for."""

    name: str
    column: str
    values: Mapping[str, int]


@dataclass(frozen=True)
class Category:
    """A one-hot group: every raw value of a column, with its category; features are in order of mention."""

    name: str
    column: str
    values: Mapping[str, str]


Feature = Number | Flag | Category


def read_table(
    path: Path,
    columns: Sequence[str],
    *,
    separator: str = ",",
    header: bool = True,
    comment: str | None = None,
) -> "pd.DataFrame":
    """The named columns of a text file as text, and no others; rows are labelled for error messages.

    Without a header the columns are the whole file, in order. A blank field is "".
    """
    options = {"sep": separator, "comment": comment, "header": 0 if header else None}
    present = _parse(path, nrows=0 if header else 1, **options).columns
    missing = [name for name in columns if name not in present] if header else columns[len(present) :]
    if missing:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}")
    if not header and len(present) > len(columns):
        raise DataError(f"{path} has {len(present)} columns, expected {len(columns)}: {', '.join(columns)}")
    # usecols keeps everything else, such as people's names, out of memory
    frame = _parse(path, usecols=list(columns) if header else None, **options)
    if header:
        frame = frame[list(columns)]
    else:
        frame.columns = list(columns)
    if frame.empty:
        raise DataError(f"{path} has no rows")
    frame.index = [f"row {number} of {path}" for number in range(1, len(frame) + 1)]
    return frame


def numbers(frame: "pd.DataFrame", column: str, *, blank: bool = False) -> "Series":
    """A column as finite numbers; with `blank`, an empty field is NaN."""
    import numpy as np
    import pandas as pd

    values = pd.to_numeric(frame[column], errors="coerce").astype("float64")
    allowed = np.isfinite(values)
    if blank:
        allowed |= frame[column] == ""
    _refuse(frame, column, ~allowed, "a number")
    return values


def codes(frame: "pd.DataFrame", column: str, values: Mapping[str, Any]) -> "Series":
    """What each value of a column stands for."""
    found = frame[column].map(dict(values))
    _refuse(frame, column, found.isna(), f"one of {', '.join(map(repr, values))}")
    return found


def encode(frame: "pd.DataFrame", features: Sequence[Feature]) -> Table:
    """All features of a frame (N rows) as numbers (N, n), in the order given."""
    import numpy as np

    columns: list[NDArray[np.float64]] = []
    names: list[str] = []
    numeric: list[bool] = []
    groups: list[tuple[int, ...]] = []
    for feature in features:
        if isinstance(feature, Category):
            found = codes(frame, feature.column, feature.values)
            categories = dict.fromkeys(feature.values.values())
            groups.append(tuple(range(len(names), len(names) + len(categories))))
            columns += [np.asarray(found == category, dtype=np.float64) for category in categories]
            names += [f"{feature.name}: {category}" for category in categories]
        else:
            columns.append(_column(frame, feature))
            names.append(feature.name)
        numeric += [isinstance(feature, Number)] * (len(names) - len(numeric))
    return Table(np.stack(columns, axis=1), tuple(names), np.array(numeric), tuple(groups))


def labels(frame: "pd.DataFrame", column: str, values: Mapping[str, int]) -> "NDArray[np.int64]":
    """Class numbers (N,) from every raw value of a column."""
    return codes(frame, column, values).to_numpy(dtype="int64")


def _column(frame: "pd.DataFrame", feature: Number | Flag) -> "NDArray[np.float64]":
    import numpy as np

    if isinstance(feature, Flag):
        return codes(frame, feature.column, feature.values).to_numpy(dtype="float64")
    raw = numbers(frame, feature.column).to_numpy(dtype="float64")
    if feature.transform is None:
        return raw
    with np.errstate(all="ignore"):
        values = feature.transform(raw)
    _refuse(frame, feature.column, ~np.isfinite(values), f"a possible value of {feature.name!r}")
    return values


def _parse(path: Path, **options: Any) -> "pd.DataFrame":
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


def _refuse(frame: "pd.DataFrame", column: str, bad: "Series | NDArray[np.bool_]", expected: str) -> None:
    import numpy as np

    rows = np.flatnonzero(np.asarray(bad))
    if len(rows):
        raise DataError(
            f"{frame.index[rows[0]]} has {frame[column].iloc[rows[0]]!r} in column {column!r}, which is not "
            f"{expected} ({len(rows)} such rows): the file may be cut short or changed"
        )
