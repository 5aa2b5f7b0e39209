"""Features of a file whose columns are known: every value is understood, or refused with its row and column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r2et.errors import DataError

# pandas is imported when it is used: a data set of images needs none
if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Series = pd.Series[Any]


@dataclass(frozen=True)
class Number:
    """A numeric feature: a column, and what to do with it before it is standardised."""

    name: str
    column: str
    transform: "Callable[[NDArray[np.float64]], NDArray[np.float64]] | None" = None


@dataclass(frozen=True)
class Share:
    """A numeric feature that lies between 0 and 1 by nature, such as a grey value, and stays as it is."""

    name: str
    column: str


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

    @property
    def categories(self) -> tuple[str, ...]:
        """In order of mention."""
        return tuple(dict.fromkeys(self.values.values()))


Feature = Number | Share | Flag | Category


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
    meanings = frame[column].map(dict(values))
    _refuse(frame, column, meanings.isna(), f"one of {', '.join(map(repr, values))}")
    return meanings


def checked(frame: "pd.DataFrame", features: Sequence[Feature]) -> "pd.DataFrame":
    """One column for each feature, by its name and in order: numbers, 0 and 1, or categories.

    Args:
        frame: N rows of raw values.
        features: what to make of them.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": ["1", "3"], "hue": ["teal", "red"]})
    >>> checked(frame, [Number("size", "size"), Category("colour", "hue", {"red": "warm", "teal": "cold"})])
       size colour
    0   1.0   cold
    1   3.0   warm
    """
    import pandas as pd

    return pd.DataFrame({feature.name: _column(frame, feature) for feature in features}, index=frame.index)


def _column(frame: "pd.DataFrame", feature: Feature) -> "Series | NDArray[np.float64]":
    if isinstance(feature, Category):
        return codes(frame, feature.column, feature.values)
    if isinstance(feature, Flag):
        return codes(frame, feature.column, feature.values).astype("float64")
    values = numbers(frame, feature.column)
    if isinstance(feature, Share):
        _refuse(frame, feature.column, (values < 0) | (values > 1), "a number from 0 to 1")
        return values
    return values if feature.transform is None else _transformed(frame, feature, values.to_numpy())


def _transformed(frame: "pd.DataFrame", feature: Number, raw: "NDArray[np.float64]") -> "NDArray[np.float64]":
    import numpy as np

    assert feature.transform is not None
    with np.errstate(all="ignore"):
        values = feature.transform(raw)
    _refuse(frame, feature.column, ~np.isfinite(values), f"a possible value of {feature.name!r}")
    return values


def _refuse(frame: "pd.DataFrame", column: str, bad: "Series | NDArray[np.bool_]", expected: str) -> None:
    import numpy as np

    rows = np.flatnonzero(np.asarray(bad))
    if len(rows):
        raise DataError(
            f"{frame.index[rows[0]]} has {frame[column].iloc[rows[0]]!r} in column {column!r}, which is not "
            f"{expected} ({len(rows)} such rows): the file may be cut short or changed"
        )
