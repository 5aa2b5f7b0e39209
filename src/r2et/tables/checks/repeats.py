"""Rows that occur several times."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from r2et.tables.checks.profile import Profile
from r2et.tables.checks.remarks import Remark


def row_keys(profiles: Sequence[Profile]) -> NDArray[np.uint64]:
    """A number for each row (N,): equal for equal rows, different for others but for an accident of 1 in 2^63."""
    rng = np.random.default_rng(0)
    keys = np.zeros(profiles[0].rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for profile in profiles:
            factor, mask = rng.integers(1, 2**63, 2, dtype=np.uint64)
            keys += _mixed(profile.codes.astype(np.int64).astype(np.uint64) * (factor | np.uint64(1)) + mask)
    return keys


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of a key spread over all others, so that sums over columns do not cancel (splitmix64)."""
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def first_of_each(profiles: Sequence[Profile]) -> NDArray[np.int64]:
    """Places of the rows that are not copies of an earlier one."""
    return np.sort(np.unique(row_keys(profiles), return_index=True)[1])


def repeated(
    profiles: Sequence[Profile], target: Profile, numbers: NDArray[np.int64] | None = None
) -> Iterator[Remark]:
    """Rows that occur several times, and those that do with another label.

    Args:
        profiles: of the columns that a model would see.
        target: of the column to predict.
        numbers: of the rows in their file; None = it has no others.
    """
    if not profiles:
        return
    keys, group = np.unique(row_keys(profiles), return_inverse=True)
    numbers = np.arange(len(group)) if numbers is None else numbers
    sizes = np.bincount(group)
    # of groups with several labels
    pairs = np.unique(np.stack([group, target.codes]), axis=1)
    labels = np.bincount(pairs[0], minlength=len(keys))
    again = len(group) - len(keys)
    opposed = int(sizes[labels > 1].sum())
    if again:
        rows = len(group)
        seen = f"{again} of {rows} rows repeat an earlier one in every column that is used"
        first = int(np.flatnonzero(sizes[group] > 1)[0])
        places = np.flatnonzero(group == group[first])[:2].tolist()
        yield Remark(
            "duplicates",
            "",
            f"{seen}, such as rows {numbers[places[0]]} and {numbers[places[1]]} (counted from 0)",
            {"rows": again, "example": numbers[places].tolist()},
        )
    if opposed:
        first = int(np.flatnonzero((labels > 1)[group])[0])
        mine = np.flatnonzero(group == group[first])
        other = mine[target.codes[mine] != target.codes[first]][0]
        pair = numbers[[first, other]].tolist()
        yield Remark(
            "contradiction",
            "",
            f"{opposed} rows have a twin with another {target.name!r}, such as rows {pair[0]} and {pair[1]} "
            "(counted from 0)",
            {"rows": opposed, "example": pair},
        )
