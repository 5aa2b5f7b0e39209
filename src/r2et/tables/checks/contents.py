"""What the values of one column say about it."""

import re
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from r2et.numerics.values import few
from r2et.tables.checks.profile import Profile, shown
from r2et.tables.checks.remarks import Remark

#: of the rows: a column that misses more is left out
MOSTLY_MISSING = 0.95
#: of the rows that have a value: beyond it a column is almost constant
ALMOST_ALL = 0.999
#: of the rows: a column of one value says something if at least this many have none
SOME_MISSING = 0.05
#: of a text with more values, rare ones are looked at
FEW_CATEGORIES = 50
#: of a text with more values, these may be no more than a quarter of the rows
LEAST_CATEGORIES = 20
#: a category of fewer rows is rare
RARE = 20
#: in standard deviations of the values between
FAR = 50.0
#: times as far from the mean as the next value
GAP = 3.0
#: of different texts that must read as numbers or dates
MOSTLY = 0.5

_NUMBER = re.compile(r"[-+]?[$€£]?\s?\d[\d.,'\s]*([eE][-+]?\d+)?\s?[%$€£]?")
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
_CODE = re.compile(r"(^|[^a-z])(zip|zipcode|plz|postcode|postal|code|cd|type|class|kind|category)($|[^a-z])", re.I)


def decisive(profile: Profile) -> Remark | None:
    """Why a column cannot be used: no values, one value, values of no known type, too many texts; or None."""
    for check in (_empty, _constant, _mixed, _many_texts):
        remark = check(profile)
        if remark is not None:
            return remark
    return None


def remarks(profile: Profile) -> Iterator[Remark]:
    """What else is to be said of a column."""
    checks = (
        _infinite,
        _one_value_or_none,
        _missing,
        _almost_constant,
        _many_categories,
        _odd_texts,
        _dates,
        _codes,
        _outliers,
    )
    yield from (remark for remark in (check(profile) for check in checks) if remark is not None)


# --- what a column is left out for ------------------------------------------------------------------------------


def _empty(profile: Profile) -> Remark | None:
    if profile.missing <= MOSTLY_MISSING * profile.rows:
        return None
    return Remark("empty", profile.name, _misses(profile), {"missing": profile.missing})


def _constant(profile: Profile) -> Remark | None:
    if profile.distinct != 1 or profile.missing >= SOME_MISSING * profile.rows:
        return None
    others = f", {profile.missing} missing" if profile.missing else ""
    seen = f"{shown(profile.values[0])} in {profile.rows - profile.missing} of {profile.rows} rows{others}"
    return Remark("constant", profile.name, seen, {"missing": profile.missing})


def _mixed(profile: Profile) -> Remark | None:
    if profile.kind != "mixed":
        return None
    seen = f"such as {few(list(map(str, profile.values[:3])))}"
    return Remark("mixed types", profile.name, seen, {"examples": list(map(str, profile.values[:3]))})


def _many_texts(profile: Profile) -> Remark | None:
    if profile.kind != "text" or profile.distinct <= LEAST_CATEGORIES:
        return None
    rows = profile.rows - profile.missing
    common = int(profile.counts[profile.counts >= RARE].sum())
    if 4 * profile.distinct <= profile.rows and (profile.distinct <= FEW_CATEGORIES or 2 * common >= rows):
        return None
    like = reads_as(profile)
    reading = f", which look like {like}{_exceptions(profile) if like == 'numbers' else ''}" if like else ""
    seen = f"{profile.distinct} different texts in {profile.rows} rows, such as {_examples(profile)}{reading}"
    return Remark("many texts", profile.name, seen, {"distinct": profile.distinct, "like": like})


# --- what is only said ------------------------------------------------------------------------------------------


def _infinite(profile: Profile) -> Remark | None:
    if profile.numbers is None:
        return None
    count = int(np.isinf(profile.numbers).sum())
    return (
        Remark("infinite", profile.name, f"has infinite values in {_of(count, profile)}", {"rows": count})
        if count
        else None
    )


def _one_value_or_none(profile: Profile) -> Remark | None:
    if profile.distinct != 1 or not profile.missing:
        return None
    seen = f"{shown(profile.values[0])} in {profile.rows - profile.missing} of {profile.rows} rows, else missing"
    return Remark("one value or none", profile.name, seen, {"missing": profile.missing})


def _missing(profile: Profile) -> Remark | None:
    if not profile.missing or profile.distinct <= 1:
        return None
    return Remark("missing", profile.name, _misses(profile), {"missing": profile.missing})


def _almost_constant(profile: Profile) -> Remark | None:
    present = profile.rows - profile.missing
    if profile.distinct <= 1 or profile.counts.max() < ALMOST_ALL * present:
        return None
    ((value, count),) = profile.commonest(1)
    seen = f"{shown(value)} in all but {present - count} of {present} rows"
    return Remark("almost constant", profile.name, seen, {"value": value, "others": present - count})


def _many_categories(profile: Profile) -> Remark | None:
    if profile.kind != "text" or profile.distinct <= FEW_CATEGORIES:
        return None
    rare = int((profile.counts < RARE).sum())
    seen = f"{profile.distinct} different texts, {rare} of them in fewer than {RARE} rows"
    return Remark("many categories", profile.name, seen, {"distinct": profile.distinct, "rare": rare})


def reads_as(profile: Profile) -> Literal["dates", "numbers", ""]:
    """What most texts of a column look like; digits alone may be a name, such as 00317."""
    # numbers that a person calls categories are texts here
    if profile.kind != "text" or not isinstance(profile.values[0], str):
        return ""
    if _share(profile, _DATE) > MOSTLY:
        return "dates"
    bare = all(str(value).strip().isdigit() for value in profile.values)
    return "numbers" if not bare and _share(profile, _NUMBER) > MOSTLY else ""


def _odd_texts(profile: Profile) -> Remark | None:
    """Texts that are dates or, most of them, numbers."""
    like = reads_as(profile) if profile.distinct > 2 else ""
    figures = {"examples": list(profile.values[:3])}
    if like == "dates":
        return Remark("dates as text", profile.name, f"such as {_examples(profile)}", figures)
    if like == "numbers":
        seen = f"such as {_examples(profile)}{_exceptions(profile)}"
        return Remark("numbers as text", profile.name, seen, figures)
    return None


def _dates(profile: Profile) -> Remark | None:
    if profile.kind != "date" or profile.numbers is None:
        return None
    days = profile.numbers[~np.isnan(profile.numbers)]
    ends = [str(np.datetime64(int(day), "D")) for day in np.floor((days.min(), days.max()))]
    return Remark("date", profile.name, f"from {ends[0]} to {ends[1]}", {"from": ends[0], "to": ends[1]})


def _codes(profile: Profile) -> Remark | None:
    """Few different whole numbers with wide gaps and equally many digits, or whole numbers called a code."""
    if profile.kind != "whole number" or not 2 < profile.distinct <= profile.rows / 5:
        return None
    numbers = np.sort(np.array([float(value) for value in profile.values]))
    if not np.isfinite(numbers).all() or numbers[0] < 0:
        return None
    digits = {len(shown(number)) for number in (numbers[0], numbers[-1])}
    sparse = profile.distinct < 0.2 * (numbers[-1] - numbers[0] + 1)
    round_ones = bool((numbers % 10 == 0).mean() > 0.5)
    if not (_CODE.search(profile.name) or (digits in ({4}, {5}, {6}) and sparse and not round_ones)):
        return None
    if profile.distinct > FEW_CATEGORIES * 20:
        return None
    seen = f"{profile.distinct} different whole numbers, such as {', '.join(shown(n) for n in numbers[:3])}"
    return Remark("codes", profile.name, seen, {"distinct": profile.distinct})


def _outliers(profile: Profile) -> Remark | None:
    if not profile.numeric or profile.numbers is None or profile.kind == "date":
        return None
    numbers = profile.numbers[np.isfinite(profile.numbers)]
    far = far_values(numbers)
    if not len(far):
        return None
    usual = f"{shown(float(np.quantile(numbers, 0.01)))} to {shown(float(np.quantile(numbers, 0.99)))}"
    examples = few([shown(float(value)) for value in np.unique(far)[:3]])
    seen = f"{examples} in {_of(len(far), profile)}; 98 % of the values are {usual}"
    return Remark("outlier", profile.name, seen, {"rows": len(far), "largest": float(np.abs(far).max())})


def far_values(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those that lie more than 50 standard deviations from the mean of the others, with a wide gap below them.

    Half a per cent of the values on either side, at least one, is left out of mean and standard deviation: a value
    among N can never be further than the square root of N deviations from a mean that it is part of. Of a column
    that is mostly one value, such as 0, the others are looked at.

    >>> far_values(np.array([*range(100), 1e6]))
    array([1000000.])
    """
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) and 2 * counts.max() > len(numbers):
        numbers = numbers[numbers != values[counts.argmax()]]
    aside = max(1, round(0.005 * len(numbers)))
    if len(numbers) < 20 + 2 * aside:
        return numbers[:0]
    between = np.sort(numbers)[aside:-aside]
    with np.errstate(all="ignore"):
        distances = np.abs(numbers - between.mean())
        limit = FAR * between.std()
    if not (np.isfinite(limit) and limit > 1e-10 * np.abs(between).max()):
        return numbers[:0]
    order = np.argsort(distances)
    last = np.arange(len(numbers) - 2 * aside, len(numbers))
    apart = last[(distances[order[last]] > limit) & (distances[order[last]] > GAP * distances[order[last - 1]])]
    return np.sort(numbers[order[apart[0] :]]) if len(apart) else numbers[:0]


# --- words ------------------------------------------------------------------------------------------------------


def _misses(profile: Profile) -> str:
    share = 100 * profile.missing / profile.rows
    told = "less than 0.1" if share < 0.1 else f"{share:.{0 if share >= 10 else 1}f}"
    return f"{profile.missing} of {profile.rows} rows ({told} %)"


def _of(count: int, profile: Profile) -> str:
    return f"{count} of {profile.rows} rows"


def _examples(profile: Profile) -> str:
    return ", ".join(shown(value) for value in profile.values[:3])


def _share(profile: Profile, pattern: re.Pattern[str]) -> float:
    """Of the different texts, those that are a number, or a date."""
    values = profile.values[:1000]
    return sum(pattern.fullmatch(str(value).strip()) is not None for value in values) / max(1, len(values))


def _exceptions(profile: Profile) -> str:
    """Texts that are no numbers."""
    others = [value for value in profile.values if not _NUMBER.fullmatch(str(value).strip())]
    return f" (but not {', '.join(shown(value) for value in others[:3])})" if others else ""
