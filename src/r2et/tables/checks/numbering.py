"""Columns that number or name the rows: they say nothing about a row that was not there."""

import math
import re

import numpy as np
from numpy.typing import NDArray

from r2et.numerics.values import few
from r2et.tables.checks.profile import Profile, shown
from r2et.tables.checks.remarks import Remark

#: fewer different values than this are no numbering
LEAST = 8
#: of pairs of rows that would share a value by chance; e^-14 is less than one in a million
EXPECTED_TIES = 14.0
#: whole numbers that are all of at least this many digits are those of people and accounts
DIGITS = 8
#: an identifier that repeats has more values than this; those with fewer are categories
MOST_CATEGORIES = 50

_CAMEL_ID = re.compile(r"[a-z](ID|Id|UID|Uid|UUID)$")
_SEPARATE_ID = re.compile(r"(^|[^a-z])(id|ids|uid|uuid|guid)($|[^a-z])", re.IGNORECASE)
_ROWS = re.compile(
    r"(rows?|index|idx|record|account|unnamed: ?\d+)|row[ _.]?(names?|numbers?|nr|no|num|id)", re.IGNORECASE
)
#: at the end: what begins with "number of" is a count
_NUMBERED = re.compile(r"(^|[^a-z])(key|nr|no|number|num|ssn|iban)$|[a-z](Key|Nr|No|Number|Num)$")


def named_as_id(name: str) -> bool:
    """Whether a column is called an identifier.

    >>> [named_as_id(name) for name in ("id", "customer_id", "loanId", "paid", "grid", "idle")]
    [True, True, True, False, False, False]
    """
    return bool(_SEPARATE_ID.search(name) or _CAMEL_ID.search(name))


def named_as_number(name: str) -> bool:
    """Whether a column is called an identifier or the number of something.

    >>> [named_as_number(name) for name in ("rownames", "Unnamed: 0", "account_no", "no_of_rooms", "price_index")]
    [True, True, True, False, False]
    """
    lower = _NUMBERED.search(name) or _NUMBERED.search(name.lower())
    return named_as_id(name) or bool(lower) or _ROWS.fullmatch(name) is not None


def numbering(profile: Profile, first: NDArray[np.int64] | None = None) -> Remark | None:
    """Whether a column numbers or names the rows.

    Args:
        profile: of the column.
        first: places of the rows that are not copies of an earlier one; None = all. A row that is in a file twice
            does not make its number a measurement.
    """
    codes = profile.codes if first is None else profile.codes[first]
    present = codes >= 0
    count = int(present.sum())
    if count < LEAST or 2 * count < len(codes):
        return None
    if profile.distinct == count:
        return _unique(profile, codes, count)
    if (
        named_as_id(profile.name)
        and profile.distinct > MOST_CATEGORIES
        and profile.kind in ("whole number", "text")
    ):
        return Remark(
            "group",
            profile.name,
            f"is called an identifier and has {profile.distinct} different values in {profile.rows} rows, "
            f"{profile.rows / profile.distinct:.1f} rows each",
            {"distinct": profile.distinct},
        )
    return None


def _unique(profile: Profile, codes: NDArray[np.int32], count: int) -> Remark | None:
    """Of a column that has another value in each row."""
    if profile.kind == "text":
        seen = f"another text in each row, such as {few([shown(value) for value in profile.values[:3]])}"
        return Remark("identifier", profile.name, seen, {"distinct": count, "examples": profile.values[:3]})
    if profile.kind != "whole number" or profile.numbers is None:
        return None
    numbers = np.array([float(value) for value in profile.values])
    if not np.isfinite(numbers).all():
        return None
    examples = ", ".join(shown(number) for number in numbers[:3])
    figures = {"distinct": count, "smallest": float(numbers.min()), "largest": float(numbers.max())}
    steps = np.diff(numbers)
    named = named_as_number(profile.name)
    if bool((steps > 0).all() or (steps < 0).all()) and len(codes) == count:
        if named or bool((steps == steps[0]).all()) or _too_unique(numbers):
            way = "rises" if steps[0] > 0 else "falls"
            return Remark("row number", profile.name, f"{way} from row to row: {examples} and so on", figures)
        return None
    if named or _too_unique(numbers) or _long(numbers):
        return Remark(
            "identifier", profile.name, f"another whole number in each row: {examples} and so on", figures
        )
    return None


def _too_unique(numbers: NDArray[np.float64]) -> bool:
    """Whether N different whole numbers lie so close together that a measurement would have repeated some.

    Of N values drawn from R possible ones, N (N - 1) / 2R pairs or more are expected to be equal.
    """
    unit = _unit(numbers)
    possible = (numbers.max() - numbers.min()) / unit + 1
    return bool(len(numbers) * (len(numbers) - 1) / (2 * possible) > EXPECTED_TIES)


def _unit(numbers: NDArray[np.float64]) -> float:
    """The greatest common divisor of all differences: amounts may be in hundreds."""
    differences = np.abs(numbers - numbers[0])
    if differences.max() >= 2**53:
        return 1.0
    return float(np.gcd.reduce(differences.astype(np.int64))) or 1.0


def _long(numbers: NDArray[np.float64]) -> bool:
    """Whether all have the same number of digits, and that is a large one."""
    smallest, largest = numbers.min(), numbers.max()
    return bool(
        len(numbers) >= 20
        and smallest >= 10 ** (DIGITS - 1)
        and math.floor(math.log10(smallest)) == math.floor(math.log10(largest))
    )
