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
#: of whole numbers with more values, a renaming value by value may be a coincidence of ids
FEW = 50


def copies(profiles: Sequence[Profile], named: Set[str] = frozenset()) -> Iterator[Remark]:
    """Columns that say the same as an earlier one.

    Args:
        profiles: of the columns that a model would see.
        named: those that a person wants: of two copies the other one goes.
    """
    leaving: set[str] = set()
    near: set[frozenset[str]] = set()
    for group in _same_partition(profiles):
        first, *others = sorted(group, key=lambda profile: (profile.name not in named, profile.numeric))
        for other in others:
            how = _same(first, other)
            if how is None:
                continue
            exact, words = how
            near.add(frozenset((first.name, other.name)))
            if exact:
                leaving.add(other.name)
            yield Remark("copy" if exact else "near copy", other.name, words, {"of": first.name})
    rest = [profile for profile in profiles if profile.name not in leaving]
    yield from (
        remark for remark in _near_copies(rest) if frozenset((remark.column, remark.figures["of"])) not in near
    )


def _same_partition(profiles: Sequence[Profile]) -> list[list[Profile]]:
    """Groups of columns that divide the rows alike, where that is no accident."""
    groups: dict[bytes, list[Profile]] = defaultdict(list)
    for profile in profiles:
        groups[profile.codes.tobytes()].append(profile)
    limit = -math.log(BY_CHANCE / max(1, len(profiles)) ** 2)
    return [
        group
        for group in groups.values()
        if len(group) > 1 and (log_ways(group[0]) > limit or _equal_texts(group))
    ]


def log_ways(profile: Profile) -> float:
    """Logarithm of how many ways there are to divide the rows into values of these frequencies.

    Columns of which every row has a value of its own divide the rows alike, but there is only one way to do so.
    """
    sizes = profile.counts
    alike = np.bincount(sizes)
    ways = gammaln(sizes.sum() + 1) - gammaln(sizes + 1).sum() - gammaln(alike + 1).sum()
    return float(ways)


def _equal_texts(group: Sequence[Profile]) -> bool:
    """Whether the values of columns are the same, so that no renaming has to be thought of."""
    return group[0].distinct > 2 and all(list(other.values) == list(group[0].values) for other in group[1:])


def _same(first: Profile, other: Profile) -> tuple[bool, str] | None:
    """Whether a column is an exact copy, and in which way it is the same; None if it is not."""
    if list(first.values) == list(other.values):
        return True, f"the same as {first.name!r} in every row"
    if first.numbers is not None and other.numbers is not None and max(first.distinct, other.distinct) > 2:
        return _same_numbers(first, other)
    # a text, and the number that stands for it
    few = first.distinct <= FEW
    return few, f"each value goes with one value of {first.name!r}"


def _same_numbers(first: Profile, other: Profile) -> tuple[bool, str] | None:
    """Numbers that divide the rows alike: scaled, bent, or shuffled."""
    x, y = (np.array(profile.values_as_numbers) for profile in (first, other))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    if 1 - abs(_correlation(x, y)) < 1e-9:
        return True, f"{first.name!r} in other units"
    order = np.argsort(x)
    steps = np.diff(y[order])
    if bool((steps > 0).all() or (steps < 0).all()):
        return False, f"{'rises' if steps[0] > 0 else 'falls'} whenever {first.name!r} rises, in every row"
    return (True, f"each value goes with one value of {first.name!r}") if first.distinct <= FEW else None


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    first, second = _standardised([x, y])
    return float(first @ second)


def _near_copies(profiles: Sequence[Profile]) -> Iterator[Remark]:
    """Pairs of numbers whose correlation is above .9999, and that of their ranks above .999."""
    numeric = [profile for profile in profiles if profile.numeric and profile.distinct > 10]
    if len(numeric) < 2 or numeric[0].rows < 30:
        return
    take = np.unique(np.linspace(0, numeric[0].rows - 1, ROWS).astype(np.int64))
    columns = [profile.numbers[take] for profile in numeric if profile.numbers is not None]
    products = _standardised(columns)
    candidates = np.argwhere(np.triu(np.abs(products @ products.T) > NEARLY - 0.005, 1))
    said: set[int] = set()
    for i, j in candidates:
        # of many alike, each is told beside the first
        if {i, j} & said:
            continue
        both = np.isfinite(columns[i]) & np.isfinite(columns[j])
        if both.sum() < 30:
            continue
        x, y = columns[i][both], columns[j][both]
        r = _correlation(x, y)
        if abs(r) > NEARLY and abs(_correlation(rankdata(x), rankdata(y))) > NEARLY_RANKS:
            said.add(j)
            name = numeric[i].name
            seen = f"correlation {r:.6f} with {name!r}"
            yield Remark("near copy", numeric[j].name, seen, {"of": name, "correlation": r})


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
