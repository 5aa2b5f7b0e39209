"""Columns that say the same: equal, scaled, renamed value by value, or nearly so."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import rankdata

from r2et.tables.checks.profile import Profile
from r2et.tables.checks.remarks import Remark

#: correlation above which numbers are nearly copies, and of their ranks
NEARLY, NEARLY_RANKS = 0.9999, 0.999
#: rows that correlations are computed on, spread over the table
ROWS = 10_000
#: columns agree by chance with a smaller probability than this, whatever pair is looked at
BY_CHANCE = 1e-6
#: numbers of more values are compared as numbers alone
FEW = 50
#: numbers of no more values are compared value by value alone
LEAST = 10


def copies(profiles: Sequence[Profile], named: Set[str] = frozenset()) -> Iterator[Remark]:
    """Columns that say the same as another one.

    Args:
        profiles: of the columns that a model would see.
        named: those that a person wants: of two copies the other one goes.
    """
    ordered = sorted(profiles, key=lambda profile: profile.name not in named)
    renamed = list(_renamed(ordered, named))
    yield from renamed
    told = {remark.column for remark in renamed}
    yield from _alike([profile for profile in ordered if profile.name not in told])


# --- value by value ---------------------------------------------------------------------------------------------


def _renamed(profiles: Sequence[Profile], named: Set[str]) -> Iterator[Remark]:
    """Categories, flags and numbers of few values that divide the rows as another column does.

    Of a text and the number that stands for it, the text says more.
    """
    groups: dict[bytes, list[Profile]] = defaultdict(list)
    for profile in profiles:
        if not profile.numeric or profile.distinct <= FEW:
            groups[profile.codes.tobytes()].append(profile)
    limit = -math.log(BY_CHANCE / max(1, len(profiles)) ** 2)
    for group in groups.values():
        first, *others = group if group[0].name in named else sorted(group, key=lambda profile: profile.numeric)
        for other in others:
            equal = first.distinct > 2 and list(other.values) == list(first.values)
            if equal or log_ways(first) > limit:
                yield _as_remark(first, other)


def _as_remark(first: Profile, other: Profile) -> Remark:
    """What to say of two columns that divide the rows alike."""
    figures = {"of": first.name}
    if list(other.values) == list(first.values):
        return Remark("copy", other.name, f"the same as {first.name!r} in every row", figures)
    seen = f"each value goes with one value of {first.name!r}"
    if first.numeric and other.numeric and first.distinct > 2:
        x, y = (np.array(profile.values_as_numbers) for profile in (first, other))
        if not (np.isfinite(x).all() and np.isfinite(y).all() and _in_other_units(x, y)):
            return Remark("near copy", other.name, seen, figures)
        seen = f"{first.name!r} in other units"
    return Remark("copy", other.name, seen, figures)


def log_ways(profile: Profile) -> float:
    """Logarithm of how many ways there are to divide the rows into values of these frequencies.

    Columns of which every row has a value of its own divide the rows alike, but there is only one way to do so.
    """
    sizes = profile.counts
    alike = np.bincount(sizes)
    ways = gammaln(sizes.sum() + 1) - gammaln(sizes + 1).sum() - gammaln(alike + 1).sum()
    return float(ways)


# --- numbers of many values -------------------------------------------------------------------------------------


def _alike(profiles: Sequence[Profile]) -> Iterator[Remark]:
    """Numbers that are others in other units, nearly so, or rise whenever the others do."""
    numeric = [profile for profile in profiles if profile.numeric and profile.distinct > LEAST]
    if len(numeric) < 2 or numeric[0].rows < 2 * LEAST:
        return
    take = np.unique(np.linspace(0, numeric[0].rows - 1, ROWS).astype(np.int64))
    columns = [profile.numbers[take] for profile in numeric if profile.numbers is not None]
    by_value, by_rank = _correlations(columns), _correlations([_ranks(column) for column in columns])
    told: set[int] = set()
    for i, j in np.argwhere(np.triu((by_value > NEARLY - 0.005) | (by_rank > 1 - 1e-3), 1)):
        # of many alike, each is told beside the first
        if {i, j} & told:
            continue
        remark = _beside(numeric[i], numeric[j], columns[i], columns[j])
        if remark is not None:
            told.add(j)
            yield remark


def _beside(first: Profile, other: Profile, x: NDArray[np.float64], y: NDArray[np.float64]) -> Remark | None:
    """What to say of two columns of numbers, after looking at some of their rows."""
    assert first.numbers is not None
    assert other.numbers is not None
    figures: dict[str, Any] = {"of": first.name}
    if np.array_equal(first.codes < 0, other.codes < 0) and _in_other_units(first.numbers, other.numbers):
        equal = np.array_equal(first.numbers, other.numbers, equal_nan=True)
        seen = f"the same as {first.name!r} in every row" if equal else f"{first.name!r} in other units"
        return Remark("copy", other.name, seen, figures)
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 2 * LEAST:
        return None
    r, rank = (_correlation(*pair) for pair in ((x[both], y[both]), (rankdata(x[both]), rankdata(y[both]))))
    figures["correlation"] = round(r, 6)
    if abs(r) > NEARLY and abs(rank) > NEARLY_RANKS:
        return Remark("near copy", other.name, f"correlation {r:.6f} with {first.name!r}", figures)
    if abs(rank) > 1 - 1e-12:
        way = "rises" if rank > 0 else "falls"
        return Remark("near copy", other.name, f"{way} whenever {first.name!r} rises", figures)
    return None


def _in_other_units(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Whether y is a x + b in every row where both have a value, but for rounding."""
    present = np.isfinite(x) & np.isfinite(y)
    x, y = x[present], y[present]
    if len(x) < 2 or x.min() == x.max():
        return False
    low, high = x.argmin(), x.argmax()
    with np.errstate(all="ignore"):
        line = y[low] + (x - x[low]) / (x[high] - x[low]) * (y[high] - y[low])
        return bool(np.abs(y - line).max() <= 1e-9 * np.abs(y).max() and y[low] != y[high])


def _ranks(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks, missing where the value is."""
    present = np.isfinite(column)
    ranks = np.full(len(column), np.nan)
    ranks[present] = rankdata(column[present])
    return ranks


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    first, second = _standardised([x, y])
    return float(first @ second)


def _correlations(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Magnitudes of the correlations of columns, each in the rows where both have a value (columns, columns)."""
    present = np.isfinite(np.stack(columns)).astype(np.float64)
    values = _standardised(columns)
    count = np.maximum(present @ present.T, 1)
    sums, squares = values @ present.T, values**2 @ present.T
    products = values @ values.T - sums * sums.T / count
    spreads = np.maximum(squares - sums**2 / count, 1e-12)
    magnitudes: NDArray[np.float64] = np.abs(products) / np.sqrt(spreads * spreads.T)
    return magnitudes


def _standardised(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Columns of norm 1 around 0, missing values at the mean (columns, rows)."""
    table = np.stack(columns)
    present = np.isfinite(table)
    table = np.where(present, table, 0.0)
    table /= _or_one(np.abs(table).max(1, keepdims=True))
    means = table.sum(1, keepdims=True) / _or_one(present.sum(1, keepdims=True))
    table = np.where(present, table - means, 0.0)
    unit: NDArray[np.float64] = table / _or_one(np.linalg.norm(table, axis=1, keepdims=True))
    return unit


def _or_one(sizes: NDArray[Any]) -> NDArray[Any]:
    """What can be divided by."""
    return np.where(sizes > 0, sizes, 1)
