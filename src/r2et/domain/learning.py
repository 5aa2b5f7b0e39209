"""What a set of rows shows about its columns: which are 0 or 1, which make up a category, which are whole."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

#: columns of 0 and 1 among which scattered categories are looked for, at most; rows that are looked at together
MOST_COLUMNS, ROWS_AT_ONCE = 1024, 20_000
#: a singular value this much smaller than the largest is zero
NOTHING = 1e-9


def zero_or_one(rows: Tensor) -> tuple[int, ...]:
    """The columns of rows (N, n) that hold 0 and 1, both.

    >>> zero_or_one(torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0]]))
    (0,)
    """
    both = ((rows == 0) | (rows == 1)).all(0) & (rows.amin(0) < rows.amax(0))
    return tuple(both.nonzero().flatten().tolist())


def two_valued(rows: Tensor) -> tuple[int, ...]:
    """The columns of rows (N, n) that hold two values, whichever they are.

    >>> two_valued(torch.tensor([[-1.0, 1.0, 2.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 7.0]]))
    (0,)
    """
    low, high = rows.amin(0), rows.amax(0)
    return tuple((((rows == low) | (rows == high)).all(0) & (low < high)).nonzero().flatten().tolist())


def one_hot_groups(rows: Tensor, binary: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Disjoint sets of columns of 0 and 1 that sum to 1 in every row, two or more columns each.

    First those that stand side by side, as encoders write them, shortest first; then, among the other columns,
    those in the null space of the centred columns, whose reduced echelon form shows disjoint sets as rows of 0
    and 1. Each is checked against the rows themselves.

    Args:
        rows: (N, n).
        binary: the columns that hold 0 and 1, in rising order.

    >>> rows = torch.tensor([[1.0, 0, 0, 1], [0.0, 1, 0, 0], [0.0, 0, 1, 1], [1.0, 0, 0, 0]])
    >>> one_hot_groups(rows, range(4))
    ((0, 1, 2),)
    """
    groups = _side_by_side(rows, list(binary))
    taken = {i for group in groups for i in group}
    return tuple(sorted([*groups, *_scattered(rows, [i for i in binary if i not in taken])]))


def _side_by_side(rows: Tensor, binary: list[int]) -> list[tuple[int, ...]]:
    """Groups of neighbouring columns, from left to right."""
    groups: list[tuple[int, ...]] = []
    known, start = set(binary), 0
    while start < rows.shape[1]:
        total, end = torch.zeros(len(rows), dtype=rows.dtype), start
        while end in known and float(total.max()) <= 1 and float(total.min()) < 1:
            total = total + rows[:, end]
            end += 1
        if end - start > 1 and bool((total == 1).all()):
            groups.append(tuple(range(start, end)))
            start = end
        else:
            start += 1
    return groups


def _scattered(rows: Tensor, columns: list[int]) -> list[tuple[int, ...]]:
    """Groups among columns that are anywhere."""
    # equal columns would be in a group in place of each other
    columns = sorted(min(members) for members in _alike(rows, columns))
    if len(columns) < 2:
        return []
    if len(columns) > MOST_COLUMNS:
        warnings.warn(
            f"there are {len(columns)} columns of 0 and 1 that make up no category side by side, too many to look "
            "for categories among them: name them by r2et.Domain(groups=...)",
            stacklevel=4,
        )
        return []
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for vector in _echelon(_null_space(rows[:, columns])):
        members = [columns[j] for j in (vector.abs() > 0.5).nonzero().flatten().tolist()]
        apart = taken.isdisjoint(members)
        if apart and len(members) > 1 and bool((rows[:, members].sum(1) == 1).all()):
            groups.append(tuple(members))
            taken.update(members)
    return groups


def _null_space(values: Tensor) -> Tensor:
    """A basis (d, m) of the combinations of columns (N, m) that are the same in every row."""
    mean = values.mean(0)
    gram = sum((part - mean).T @ (part - mean) for part in values.split(ROWS_AT_ONCE))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    basis: Tensor = vectors[:, eigenvalues <= NOTHING * eigenvalues[-1].clamp_min(1)].T
    return basis


def _echelon(basis: Tensor) -> Tensor:
    """The reduced echelon form of a basis (d, m), pivots chosen by size for the sake of rounding."""
    basis = basis.clone()
    for row in range(len(basis)):
        rest = basis[row:].abs()
        if float(rest.max()) < 1e-6:
            return basis[:row]
        # of a group the last column is free, so that the others stand beside it with the same sign
        place = int((rest > 0.1 * rest.max()).any(0).nonzero()[-1])
        pivot = row + int(rest[:, place].argmax())
        basis[[row, pivot]] = basis[[pivot, row]]
        basis[row] /= basis[row, place].clone()
        others = torch.arange(len(basis)) != row
        basis[others] -= basis[others, place, None] * basis[row]
    return basis


def always_equal(rows: Tensor, columns: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Sets of columns that have one value in every row, two or more columns each.

    >>> always_equal(torch.tensor([[0.0, 0, 1], [1.0, 1, 1], [0.0, 0, 0]]), [0, 1, 2])
    ((0, 1),)
    """
    return tuple(tuple(members) for members in _alike(rows, columns) if len(members) > 1)


def _alike(rows: Tensor, columns: Sequence[int]) -> list[list[int]]:
    """Columns by what they hold."""
    by_values: dict[bytes, list[int]] = {}
    for i in columns:
        by_values.setdefault(rows[:, i].contiguous().numpy().tobytes(), []).append(i)
    return list(by_values.values())


def whole_units(rows: Tensor, discrete: Sequence[int]) -> Tensor | None:
    """1 for columns of whole numbers that are not discrete, 0 for others, (n,); None if there are none."""
    whole = (rows == rows.round()).all(0) & (rows.amin(0) < rows.amax(0))
    whole[list(discrete)] = False
    return whole.to(rows.dtype) if whole.any() else None
