"""What ties features to each other in rows that exist: sums of 1 and equal values, as linear equations."""

from functools import lru_cache

import torch
from torch import Tensor

#: of features
Sets = tuple[tuple[int, ...], ...]


@lru_cache(maxsize=32)
def equations(groups: Sets, equal: Sets, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The equations C x = d of all groups and equal features, and the pseudo-inverse of C.

    A feature may be in a group and equal to another one: solved together, no equation undoes another.

    Args:
        groups: each sums to 1.
        equal: the members of each have one value.
        n: features of one input.

    Returns:
        C (r, n), d (r,) and its pseudo-inverse (n, r), float64. Coefficients are whole, so that C x - d is exactly
        zero in a row that exists.

    >>> rows, values, inverse = equations(((0, 1),), ((1, 2),), 3)
    >>> rows.tolist(), values.tolist()
    ([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], [1.0, 0.0])
    """
    rows: list[Tensor] = []
    values: list[float] = []
    for group in groups:
        row = torch.zeros(n, dtype=torch.float64, device="cpu")
        row[list(group)] = 1.0
        rows.append(row)
        values.append(1.0)
    for first, *others in equal:
        for other in others:
            row = torch.zeros(n, dtype=torch.float64, device="cpu")
            row[first], row[other] = -1.0, 1.0
            rows.append(row)
            values.append(0.0)
    matrix = torch.stack(rows) if rows else torch.zeros(0, n, dtype=torch.float64, device="cpu")
    return matrix, torch.tensor(values, dtype=torch.float64, device="cpu"), torch.linalg.pinv(matrix)


@lru_cache(maxsize=32)
def tied_part(groups: Sets, equal: Sets, n: int) -> tuple[Tensor, Tensor]:
    """The m features that are in an equation, int64 (m,), and the projector onto what breaks one, (m, m)."""
    rows, _, inverse = equations(groups, equal, n)
    places = rows.any(0).nonzero().flatten()
    return places, (inverse @ rows)[places][:, places]
