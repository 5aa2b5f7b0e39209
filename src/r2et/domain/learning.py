"""What a set of rows shows about its columns: which are 0 or 1, which make up a category, which are whole."""

from collections.abc import Sequence

import torch
from torch import Tensor

#: columns of 0 and 1 among which categories are looked for, at most; and rows, whose number does not matter much
MOST_COLUMNS, MOST_ROWS = 512, 20_000
#: a singular value this much smaller than the largest is zero
NOTHING = 1e-9


def zero_or_one(rows: Tensor) -> tuple[int, ...]:
    """The columns of rows (N, n) that hold 0 and 1, both.

    >>> zero_or_one(torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0]]))
    (0,)
    """
    both = ((rows == 0) | (rows == 1)).all(0) & (rows.amin(0) < rows.amax(0))
    return tuple(both.nonzero().flatten().tolist())


def one_hot_groups(rows: Tensor, binary: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Disjoint sets of columns of 0 and 1 that sum to 1 in every row, two or more columns each.

    Such a set is an element of the null space of the centred columns; the reduced echelon form of a basis shows
    disjoint ones as rows of 0 and 1. Each candidate is checked against the rows themselves.

    Args:
        rows: (N, n).
        binary: the columns that hold 0 and 1.

    >>> rows = torch.tensor([[1.0, 0, 0, 1], [0.0, 1, 0, 0], [0.0, 0, 1, 1], [1.0, 0, 0, 0]])
    >>> one_hot_groups(rows, range(4))
    ((0, 1, 2),)
    """
    columns = list(binary)
    if not 2 <= len(columns) <= MOST_COLUMNS:
        return ()
    values = rows[:, columns].double()
    # equal columns would be in a group in place of each other
    first = [j for j in range(len(columns)) if not (values[:, :j] == values[:, j : j + 1]).all(0).any()]
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for vector in _echelon(_null_space(values[:, first])):
        members = [first[j] for j in (vector.abs() > 0.5).nonzero().flatten().tolist()]
        apart = taken.isdisjoint(members)
        if apart and len(members) > 1 and bool((values[:, members].sum(1) == 1).all()):
            groups.append(tuple(columns[j] for j in members))
            taken.update(members)
    return tuple(sorted(groups))


def _null_space(values: Tensor) -> Tensor:
    """A basis (d, m) of the combinations of columns (N, m) that are the same in every row."""
    centred = values[:MOST_ROWS] - values[:MOST_ROWS].mean(0)
    eigenvalues, vectors = torch.linalg.eigh(centred.T @ centred)
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
    by_values: dict[bytes, list[int]] = {}
    for i in columns:
        by_values.setdefault(rows[:, i].numpy().tobytes(), []).append(i)
    return tuple(tuple(members) for members in by_values.values() if len(members) > 1)


def whole_units(rows: Tensor, binary: Sequence[int]) -> Tensor | None:
    """1 for columns of whole numbers that are not of 0 and 1, 0 for others, (n,); None if there are none."""
    whole = (rows == rows.round()).all(0) & (rows.amin(0) < rows.amax(0))
    whole[list(binary)] = False
    return whole.to(rows.dtype) if whole.any() else None
