"""How far a value may move while a list of reasons stays the same, in the words and units of its column."""

import math
from collections.abc import Callable
from typing import NamedTuple

from r2et.tables.columns import MISSING
from r2et.tables.kinds import Column, DateColumn, NumberColumn
from r2et.tables.units import DAY, as_date

#: of a width that is shown: its first so many digits
DIGITS = 3
#: what the arithmetic here may lose, as a share
ROUNDING = 1e-9


def holding_in_words(column: Column, text: str, encoded: float, proven: tuple[float, float]) -> str:
    """Between which values a column's value alone may move; "" where nothing is proven.

    Ends are rounded inwards, and lie inside the range that was seen in fit: beyond it nobody has such a value.

    Args:
        column: how it is encoded.
        text: the row's own value.
        encoded: the same, as the network sees it.
        proven: between these values, as the network sees them, the list stays the same; NaN where none are known.
            Infinite ends are where the range that was seen ends.

    >>> income = NumberColumn("income", mean=2000.0, scale=500.0, lower=-3.0, upper=4.0, whole=True)
    >>> holding_in_words(income, "1870", -0.26, (-0.56, 0.04))
    'income between 1721 and 2019, if nothing else changes'
    >>> holding_in_words(income, "1870", -0.26, (-0.2601, -0.2599))
    'income stays 1870'
    >>> joined = DateColumn("joined", mean=19000.0, scale=100.0, lower=-3.0, upper=4.0, whole=True)
    >>> holding_in_words(joined, "2022-01-08", 0.0, (-0.205, 0.104))
    'joined between 2021-12-19 and 2022-01-18, if nothing else changes'
    """
    if not proven[0] < encoded < proven[1]:
        return ""
    stays = f"{column.name} stays {text}"
    if not isinstance(column, NumberColumn) or text == MISSING:
        return stays
    # differences of large numbers lose digits
    lost = 1e-14 * (abs(encoded) + abs(column.mean) / column.scale)
    least = encoded - (encoded - proven[0]) * (1 - ROUNDING) + lost
    most = encoded + (proven[1] - encoded) * (1 - ROUNDING) - lost
    lower, upper = max(least, min(column.lower, encoded)), min(most, max(column.upper, encoded))
    width = (upper - lower) * column.scale
    if not width > ROUNDING * abs(column.mean):
        return stays
    value = encoded * column.scale + column.mean
    grain = _grain(column, width)
    low = -_below(-_own(column, least), -_own(column, min(column.lower, encoded)), grain)
    high = _below(_own(column, most), _own(column, max(column.upper, encoded)), grain)
    lowest = grain.text(low) if low < value else text
    highest = grain.text(high) if high > value else text
    return stays if lowest == highest else f"{column.name} between {lowest} and {highest}, if nothing else changes"


class _Grain(NamedTuple):
    """How finely values are told.

    Attributes:
        step: ends are whole multiples of it, or
        parts: of one over it: the other is 1.
        text: of an end.
    """

    step: float
    parts: float
    text: Callable[[float], str]


def _grain(column: NumberColumn, width: float) -> _Grain:
    if isinstance(column, DateColumn):
        # days, or seconds where dates have a time of day
        return _Grain(1.0, 1.0 if column.whole else float(DAY), as_date)
    exponent = math.floor(math.log10(width)) - DIGITS + 1
    exponent = max(0, exponent) if column.whole else exponent
    decimals = max(0, -exponent)
    # a positive power is exact, a negative one is not
    return _Grain(10.0 ** max(0, exponent), 10.0 ** max(0, -exponent), lambda value: f"{value + 0.0:.{decimals}f}")


def _own(column: NumberColumn, encoded: float) -> float:
    """In the units of the column."""
    return encoded * column.scale + column.mean


def _below(proven: float, seen: float, grain: _Grain) -> float:
    """The largest of the values that are told which is neither above what is proven nor above what was seen."""
    share = 1e-6  # what was seen is known up to rounding
    step, parts = grain.step, grain.parts
    return math.floor(min(proven * parts / step, seen * parts / step + share)) * step / parts
