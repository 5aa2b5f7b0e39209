"""How far a value may move while a list of reasons stays the same, in the words and units of its column."""

import math

from r2et.tables.columns import MISSING
from r2et.tables.kinds import Column, NumberColumn

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
    exponent = math.floor(math.log10(width)) - DIGITS + 1
    exponent = max(0, exponent) if column.whole else exponent
    value = encoded * column.scale + column.mean
    low = -_below(-_own(column, least), -_own(column, min(column.lower, encoded)), exponent)
    high = _below(_own(column, most), _own(column, max(column.upper, encoded)), exponent)
    lowest = _as_text(low, exponent) if low < value else text
    highest = _as_text(high, exponent) if high > value else text
    return stays if lowest == highest else f"{column.name} between {lowest} and {highest}, if nothing else changes"


def _own(column: NumberColumn, encoded: float) -> float:
    """In the units of the column."""
    return encoded * column.scale + column.mean


def _below(proven: float, seen: float, exponent: int) -> float:
    """The largest multiple of a power of ten that is neither above what is proven nor above what was seen."""
    # a positive power is exact, a negative one is not
    step = 10.0 ** abs(exponent)
    share = 1e-6  # what was seen is known up to rounding
    if exponent < 0:
        return math.floor(min(proven * step, seen * step + share)) / step
    return math.floor(min(proven / step, seen / step + share)) * step


def _as_text(value: float, exponent: int) -> str:
    return f"{value + 0.0:.{max(0, -exponent)}f}"
