"""Texts that are numbers: which marks they have, and what they say."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from r2et.tables.formats_columns import matches

Series: TypeAlias = "pd.Series[Any]"


class Marks(NamedTuple):
    """The decimal mark of a column's numbers, and what stands between thousands ("" = nothing)."""

    decimal: str
    thousands: str


#: that numbers may have
EVERY = tuple(
    Marks(decimal, thousands) for decimal, other in ((".", ","), (",", ".")) for thousands in ("", other, "'", " ")
)
_DIGITS = "[0-9]+"
_INFINITE = "[+-]?(?:inf|Inf|INF|infinity|Infinity)"
_NUMBERISH = rf"[+-]?[0-9.,' ]*[0-9][0-9.,' ]*(?:[eE][+-]?[0-9]+)?-?|{_INFINITE}"
_CURRENCIES = (
    r"US\$|A\$|C\$|R\$|[€$£¥₹₽₺₩฿₫₴]|EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK|HUF|INR|AUD|CAD|NZD|BRL|ZAR|TRY|"
    r"RUB|MXN|SGD|HKD|KRW|Fr\.|kr\.?|zł|Kč|Ft|Rs\.?"
)
_SIGNED = rf"^([+-]?)\s*({_CURRENCIES})?\s*([+-]?[0-9.,][0-9.,' ]*?)\s*({_CURRENCIES})?(-?)$"
_SAME = {"EUR": "€", "USD": "$", "US$": "$", "GBP": "£", "JPY": "¥"}
#: a whole number of more digits has no exact float, and is a code rather than a quantity
_MOST_DIGITS = 18
#: this many digits that begin with a zero are a code, such as a zip
_CODE_DIGITS = 4
#: texts that are looked at before all of them are
_FEW = 200
#: so many numbers that all have three digits after their mark are no accident
_MANY = 10


def plain(texts: Series) -> Series:
    """The same with ASCII signs for minus, blanks and apostrophes.

    >>> plain(pd.Series(["−1 000’5"])).tolist()
    ["-1 000'5"]
    """
    if matches(texts, "[\\x20-\\x7e]*").all():
        return texts
    for signs, ascii_sign in (
        ("[\u2212\u2013]", "-"),
        ("[\u00a0\u202f\u2009\u2007]", " "),
        ("[\u2019\u02bc`\u00b4]", "'"),
    ):
        texts = texts.str.replace(signs, ascii_sign, regex=True)
    return texts


def numberish(texts: Series) -> NDArray[np.bool_]:
    """Which of N texts look like numbers of some kind (N,)."""
    return matches(texts, _NUMBERISH)


def unsigned(texts: Series) -> tuple[Series, str]:
    """Texts without the percent or currency sign that all, or of money some, of them have, and that sign.

    >>> bodies, sign = unsigned(pd.Series(["EUR 5", "7,50 €", "3"]))
    >>> bodies.tolist(), sign
    (['5', '7,50', '3'], '€')
    """
    percent = texts.str.endswith("%")
    if percent.any():
        # beside "12 %" a bare 0.3 may be a share
        bare = np.asarray(percent | (texts == "0"), dtype=bool)
        return (texts.str.rstrip("%").str.strip(), "%") if bare.all() else (texts, "")
    if not texts.str.contains(_CURRENCIES, regex=True).any():
        return texts, ""
    parts = texts.str.extract(_SIGNED).fillna("")
    lead, tail = parts[1].replace(_SAME), parts[3].replace(_SAME)
    signs = (set(lead) | set(tail)) - {""}
    if len(signs) != 1 or ((lead != "") & (tail != "")).any() or (parts[2] == "").any():
        return texts, ""
    return parts[0] + parts[2] + parts[4], signs.pop()


def number_pattern(decimal: str, thousands: str) -> str:
    """Of the numbers that marks allow."""
    point = "\\" + decimal
    simple = rf"[+-]?(?:{_DIGITS}(?:{point}[0-9]*)?|{point}{_DIGITS})(?:[eE][+-]?[0-9]+)?-?"
    if thousands:
        mark = "\\." if thousands == "." else thousands
        simple = rf"{simple}|[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]*)?-?"
    return f"{simple}|{_INFINITE}"


def fits(bodies: Series, marks: Marks) -> NDArray[np.bool_]:
    """Which of N texts are numbers with these marks (N,)."""
    return matches(bodies, number_pattern(*marks))


def possible(bodies: Series) -> tuple[Marks, ...]:
    """The marks with which all texts are numbers: none, one, or two where they can be read in two ways.

    >>> possible(pd.Series(["1.234,5", "7"])), possible(pd.Series(["1 234", "x"]))
    ((Marks(decimal=',', thousands='.'),), ())
    >>> possible(pd.Series(["1,234"]))
    (Marks(decimal='.', thousands=','), Marks(decimal=',', thousands=''))
    """
    # most columns of texts are told by their first few
    first = bodies.iloc[:_FEW]
    if whole(first) and whole(bodies):
        return (Marks(".", ""),)
    options: list[Marks] = []
    for marks in EVERY:
        if any(marks.decimal == option.decimal for option in options):
            continue
        if fits(first, marks).all() and fits(bodies, marks).all():
            options.append(marks)
    # 1'234 has no decimal mark at all
    return tuple(options[:1] if len({marks.thousands for marks in options}) == 1 else options)


def whole(bodies: Series) -> bool:
    """Whether all texts are whole numbers without any mark."""
    return bool(matches(bodies, "[+-]?[0-9]+-?").all())


def code(bodies: Series) -> int | None:
    """The place of a whole number that is a code: it begins with zeros, or has more digits than a float holds.

    >>> code(pd.Series(["12", "01067"])), code(pd.Series(["07", "12"]))
    (1, None)
    """
    zeros = matches(bodies, f"[+-]?0[0-9]{{{_CODE_DIGITS - 1},}}")
    codes = np.flatnonzero(zeros | np.asarray(bodies.str.len() > _MOST_DIGITS, dtype=bool))
    return int(codes[0]) if len(codes) else None


def grouped(bodies: Series, counts: NDArray[np.int64]) -> bool:
    """Whether "1,234" must be thousands: beside many such stand whole numbers below 1000.

    As decimals they would have other numbers of digits too.
    """
    small = matches(bodies, "[+-]?[0-9]{1,3}")
    return bool(small.any() and counts[~small].sum() >= _MANY)


def parsed(bodies: Series, marks: Marks) -> NDArray[np.int64] | NDArray[np.float64]:
    """The numbers that N texts say: int64 where all are whole and written so, else float64 (N,).

    >>> parsed(pd.Series(["1.234,5", "7-"]), Marks(",", "."))
    array([1234.5,   -7. ])
    """
    if marks.thousands:
        bodies = bodies.str.replace(marks.thousands, "", regex=False)
    if marks.decimal != ".":
        bodies = bodies.str.replace(marks.decimal, ".", regex=False)
    if bodies.str.endswith("-").any():
        bodies = bodies.str.replace("^[+]?(.*)-$", r"-\1", regex=True)
    exact = whole(bodies) and bool((bodies.str.len() <= _MOST_DIGITS).all())
    texts = bodies.to_numpy(dtype=object)
    # Python's own conversion is exact, that of pandas is not in the last digit
    return texts.astype(np.int64) if exact else texts.astype(np.float64)
