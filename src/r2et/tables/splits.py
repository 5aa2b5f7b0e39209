"""Parts of a data set by class and seed: the only place where rows are drawn apart."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from r2et.errors import DataError, InputError
from r2et.numerics.values import as_number, check_seed, quoted

#: of train, validation and test
FRACTIONS = (0.70, 0.15, 0.15)

Numbers = NDArray[np.int64]


def split_rows(y: Numbers, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """Row numbers of train, validation and test: 70:15:15, each class in the same proportion.

    Args:
        y: class numbers (N,).
        seed: which split.

    >>> [len(rows) for rows in split_rows(np.array([0, 1] * 50), seed=0)]
    [70, 15, 15]
    """
    from sklearn.model_selection import train_test_split

    train, rest = train_test_split(np.arange(len(y)), test_size=0.30, stratify=y, random_state=seed)
    validation, test = train_test_split(rest, test_size=0.5, stratify=y[rest], random_state=seed)
    return train, validation, test


def hold_out(y: Numbers, fraction: float, *, seed: int, least: int = 0, keep: int = 2) -> tuple[Numbers, Numbers]:
    """Row numbers of those that stay and of those that are held out, a share of each class, both in their order.

    scikit-learn refuses classes of one or two rows; people's tables have them.

    Args:
        y: class numbers (N,).
        fraction: share of each class that is held out.
        seed: which split.
        least: hold out at least this many rows of a class,
        keep: but leave this many of them. A class with fewer rows stays whole.

    >>> hold_out(np.array([0] * 8 + [1] * 4), 0.25, seed=0)[1].tolist()
    [2, 4, 9]
    >>> hold_out(np.array([0, 0, 0, 1, 1, 2]), 0.1, seed=0, least=1, keep=1)[1].tolist()
    [2, 4]
    """
    rng = np.random.default_rng(seed)
    parts = []
    for rows in _shuffled_classes(y, np.unique(y), rng):
        count = min(max(round(fraction * len(rows)), least), max(0, len(rows) - keep))
        parts.append(rows[:count])
    held_out = np.sort(np.concatenate(parts)).astype(np.int64)
    return np.setdiff1d(np.arange(len(y)), held_out), held_out


def split_groups(
    y: Numbers,
    groups: ArrayLike | None = None,
    *,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    what: str = "the data set",
) -> tuple[Numbers, ...]:
    """Row numbers of each part, in random order: each class in the same proportion, no group in two parts.

    scikit-learn divides groups by class into equal folds only, not into parts of a size that one chooses.

    Args:
        y: class numbers (N,).
        groups: what each row belongs to (N,), such as a patient; None: each row is a group of its own.
        fractions: of the rows, one for each part; they sum to 1. A part is off by at most one group per class.
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
        raise InputError(f"groups must name one group per row, got shape {names.shape} for {len(y)} rows")
    _, number, size = np.unique(names, return_inverse=True, return_counts=True)
    # a group of several classes counts as its most frequent one
    table = np.zeros((len(size), int(y.max()) + 1), dtype=np.int64)
    np.add.at(table, (number, y), 1)
    rng = np.random.default_rng(seed)
    part_of_group = np.zeros(len(size), dtype=np.int64)
    for members in _shuffled_classes(table.argmax(1), np.unique(y), rng):
        middle = np.cumsum(size[members]) - size[members] / 2
        ends = np.cumsum(fractions)[:-1] * size[members].sum()
        part_of_group[members] = np.searchsorted(ends, middle, side="right")
    part_of_row = part_of_group[number]
    for part, fraction in enumerate(fractions):
        missing = np.setdiff1d(y, y[part_of_row == part])
        if len(missing):
            kind = "rows" if groups is None else "groups"
            count = len(np.unique(number[y == missing[0]]))
            raise DataError(
                f"{what} has too few {kind} for parts of {', '.join(f'{f:g}' for f in fractions)}: class "
                f"{missing[0]} has {count}, and the part of {fraction:g} got none of them; bring more, choose "
                "other fractions or another seed"
            )
    return tuple(rng.permutation(np.flatnonzero(part_of_row == part)) for part in range(len(fractions)))


def _shuffled_classes(y: Numbers, classes: Numbers, rng: np.random.Generator) -> Iterator[Numbers]:
    """The numbers of the members of each class, in random order."""
    for label in classes:
        yield rng.permutation(np.flatnonzero(y == label))


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
