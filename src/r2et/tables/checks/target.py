"""What the column to predict says: whether there are classes, and enough rows of each."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from r2et.numerics.values import few
from r2et.tables.checks.profile import Profile, plain, shown
from r2et.tables.checks.remarks import Remark

#: a class of fewer rows, or of a smaller share of them, is a rare one
FEW_ROWS, SMALL_SHARE = 20, 0.01


def unpredictable(profile: Profile) -> Remark | None:
    """Why the values of a column cannot be classes; None if they can.

    Args:
        profile: of the target.
    """
    if profile.distinct < 2:
        seen = f"{shown(profile.values[0])} in each of the {profile.rows} rows" if profile.values else "no values"
        return Remark("one class", profile.name, f"has one value, {seen}", {"classes": profile.distinct})
    if profile.distinct > max(20, profile.rows // 10):
        examples = ", ".join(shown(value) for value in profile.values[:3])
        return Remark(
            "target is a number",
            profile.name,
            f"has {profile.distinct} different values in {profile.rows} rows, such as {examples}: it is not "
            "a class",
            {"classes": profile.distinct},
        )
    return None


def no_number(profile: Profile) -> Remark | None:
    """Why the values of a column cannot be predicted as numbers; None if they can.

    Args:
        profile: of the target.
    """
    if profile.distinct < 2:
        return unpredictable(profile)
    if profile.numbers is None:
        seen = f"holds values such as {shown(profile.values[0])}, which are no numbers"
        return Remark("target is no number", profile.name, seen, {"kind": profile.kind})
    return None


def fifths(profile: Profile) -> tuple[NDArray[np.int64], list[str]]:
    """Which fifth of all values each one of a numeric column is in, by size (N,), and what these are called."""
    assert profile.numbers is not None
    ends = np.unique(np.quantile(profile.numbers, [0.2, 0.4, 0.6, 0.8]))
    groups = np.searchsorted(ends, profile.numbers, side="left").astype(np.int64)
    return groups, [f"part {number + 1} of its range" for number in range(len(ends) + 1)]


def balance(profile: Profile) -> Iterator[Remark]:
    """The classes that have few rows."""
    rare = [
        (shown(value), int(count))
        for value, count in zip(profile.values, profile.counts, strict=True)
        if count < FEW_ROWS or count < SMALL_SHARE * profile.rows
    ]
    if rare:
        listed = few([f"{value} in {count} rows" for value, count in rare])
        yield Remark("rare class", profile.name, f"{listed} of {profile.rows}", {"classes": dict(rare)})


def class_counts(profile: Profile) -> dict[str, int]:
    """How many rows each class has, the commonest first."""
    return {str(plain(value)): count for value, count in profile.commonest(profile.distinct)}


def numbers_of(profile: Profile) -> NDArray[np.int64]:
    """The class of each row, by the order of appearance (N,)."""
    return profile.codes.astype(np.int64)
