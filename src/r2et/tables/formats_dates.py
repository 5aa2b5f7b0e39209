"""Texts that are dates: how they are written, decided only where the values decide it."""

import re
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Series: TypeAlias = "pd.Series[Any]"

_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_ISO = f"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}(?:[ T]{_CLOCK})?"
_MONTH = "[A-Z][a-z]{2,8}"
_DAY, _YEAR = "[0-9]{1,2}", "[0-9]{4}"
#: what a date may look like, and the formats that it may then have
_SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"{_DAY}\.{_DAY}\.{_YEAR}", ("%d.%m.%Y",)),
    (rf"{_DAY}\.{_DAY}\.[0-9]{{2}}", ("%d.%m.%y",)),
    (rf"{_YEAR}/{_DAY}/{_DAY}", ("%Y/%m/%d",)),
    (rf"{_DAY}/{_DAY}/{_YEAR}", ("%d/%m/%Y", "%m/%d/%Y")),
    (rf"{_DAY}/{_DAY}/[0-9]{{2}}", ("%d/%m/%y", "%m/%d/%y")),
    (rf"{_DAY}-{_DAY}-{_YEAR}", ("%d-%m-%Y", "%m-%d-%Y")),
    (rf"{_DAY}-{_MONTH}-{_YEAR}", ("%d-%b-%Y", "%d-%B-%Y")),
    (rf"{_DAY}-{_MONTH}-[0-9]{{2}}", ("%d-%b-%y",)),
    (rf"{_DAY} {_MONTH} {_YEAR}", ("%d %b %Y", "%d %B %Y")),
    (rf"{_MONTH} {_DAY}, {_YEAR}", ("%b %d, %Y", "%B %d, %Y")),
    (rf"{_MONTH}-{_YEAR}", ("%b-%Y", "%B-%Y")),
)
_CLOCKS = (("", ""), (" [0-9]{1,2}:[0-9]{2}", " %H:%M"), (" [0-9]{1,2}:[0-9]{2}:[0-9]{2}", " %H:%M:%S"))
#: what some programs write in place of no date
NOTHING = ("0000-00-00", "0000-00-00 00:00:00", "00.00.0000")


def date_formats(texts: Series) -> tuple[str, ...]:
    """The formats in which every text is a date; several where the values do not decide between them.

    >>> date_formats(pd.Series(["03/04/2024", "13/04/2024"])), date_formats(pd.Series(["03/04/2024"]))
    (('%d/%m/%Y',), ('%d/%m/%Y', '%m/%d/%Y'))
    """
    possible = _looks_like(str(texts.iloc[0]))
    return tuple(each for each in possible if not bool(np.isnat(dates(texts, each)).any()))


def nearly_dates(texts: Series) -> tuple[str, NDArray[np.bool_]]:
    """The format that most texts have, and which of N texts are no dates by it (N,)."""
    counts: dict[str, int] = {}
    best, worst = "", np.ones(len(texts), dtype=bool)
    for text in texts.iloc[:: max(1, len(texts) // 5)][:5]:
        for each in _looks_like(str(text)):
            if each not in counts:
                wrong = np.isnat(dates(texts, each))
                counts[each] = int(wrong.sum())
                if counts[each] < worst.sum():
                    best, worst = each, wrong
    return best, worst


def dates(texts: Series, written: str) -> "NDArray[np.datetime64]":
    """N texts as moments without a time zone (UTC where they have one); NaT where one is no date (N,)."""
    if written == "ISO":
        moments = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
        # 2024 alone, and 20240131, are numbers
        moments = moments.where(texts.str.fullmatch(_ISO).astype(bool))
    else:
        moments = pd.to_datetime(texts, format=written, errors="coerce")
        if getattr(moments.dtype, "tz", None) is not None:
            moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    return moments.to_numpy().astype("datetime64[us]")


def _looks_like(text: str) -> tuple[str, ...]:
    if re.fullmatch(_ISO, text):
        return ("ISO",)
    for shape, formats in _SHAPES:
        for pattern, clock in _CLOCKS:
            if re.fullmatch(shape + pattern, text):
                return tuple(each + clock for each in formats)
    return ()
