"""Splits in which a group, such as the images of one patient, is never divided."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2et.errors import DataError, InputError
from r2et.numerics.values import as_number, check_seed, quoted

#: of train, validation and test
FRACTIONS = (0.70, 0.15, 0.15)


def split_groups(
    y: NDArray[np.int64],
    groups: ArrayLike | None = None,
    *,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    what: str = "the data set",
) -> tuple[NDArray[np.int64], ...]:
    """Row numbers of each part, in random order: each class in the same proportion, no group in two parts.

    Args:
        y: class numbers (N,).
        groups: what each row belongs to (N,); None: each row is a group of its own.
        fractions: of the rows, one a part; they sum to 1. A part is off by at most one group a class.
        seed: which split.
        what: for error messages.

    >>> people = ["ann", "ann", "bob", "cleo", "dan", "dan", "eve", "fay"]
    >>> train, test = split_groups(np.array([0, 0, 0, 0, 1, 1, 1, 1]), people, fractions=(0.5, 0.5))
    >>> {people[row] for row in train} & {people[row] for row in test}
    set()
    """
    check_fractions(fractions)
    check_seed(seed)
    names = np.arange(len(y)) if groups is None else np.asarray(groups)
    if names.shape != (len(y),):
        raise InputError(f"groups must name one group a row, got shape {names.shape} for {len(y)} rows")
    _, number, size = np.unique(names, return_inverse=True, return_counts=True)
    # a group of several classes counts as its most frequent one
    table = np.zeros((len(size), int(y.max()) + 1), dtype=np.int64)
    np.add.at(table, (number, y), 1)
    group_class = table.argmax(1)
    rng = np.random.default_rng(seed)
    part_of = np.zeros(len(size), dtype=np.int64)
    for c in np.unique(y):
        mine = rng.permutation(np.flatnonzero(group_class == c))
        middle = np.cumsum(size[mine]) - size[mine] / 2
        part_of[mine] = np.searchsorted(np.cumsum(fractions)[:-1] * size[mine].sum(), middle, side="right")
    found = part_of[number]
    for part, fraction in enumerate(fractions):
        missing = np.setdiff1d(y, y[found == part])
        if len(missing):
            kind = "rows" if groups is None else "groups"
            count = len(np.unique(number[y == missing[0]]))
            raise DataError(
                f"{what} has too few {kind} for parts of {', '.join(f'{f:g}' for f in fractions)}: class "
                f"{missing[0]} has {count}, and the part of {fraction:g} got none of them; bring more, choose "
                "other fractions or another seed"
            )
    return tuple(rng.permutation(np.flatnonzero(found == part)) for part in range(len(fractions)))


def check_fractions(fractions: Sequence[float]) -> None:
    """Positive numbers that sum to 1."""
    listed = isinstance(fractions, Iterable) and np.ndim(fractions) == 1
    values = [as_number(value) or 0.0 for value in fractions] if listed else []
    if len(values) < 2 or not all(value > 0 for value in values) or not abs(sum(values) - 1) <= 1e-6:
        raise InputError(f"fractions must be positive and sum to 1, such as {FRACTIONS}, got {quoted(fractions)}")


def check_three_fractions(fractions: Sequence[float]) -> None:
    """Those of train, validation and test."""
    check_fractions(fractions)
    if len(fractions) != 3:
        raise InputError(f"fractions are those of train, validation and test, got {quoted(fractions)}")
