"""Derivatives of attributions at x, as far as distances between two of them go: never n x n numbers at once."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: entries of the derivatives that are kept at once
ENTRIES_AT_ONCE = 2**22


class Slopes:
    """Derivatives of attributions, in coordinates that keep lengths and angles.

    Args:
        rows_of: from numbers of attributions (N, m) to their derivatives (N, m, d).
        count: how many attributions there are, n.
        entries: of what is kept for one attribution of all N inputs.

    >>> slopes = Slopes.known(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
    >>> one, other = slopes.of(torch.tensor([[0]])), slopes.of(torch.tensor([[1]]))
    >>> slopes.apart(one, torch.ones(1, 1), other, -1.0)
    tensor([[[5.]]])
    """

    def __init__(self, rows_of: Callable[[Tensor], Tensor], count: int, entries: int) -> None:
        self.at_once = max(1, ENTRIES_AT_ONCE // max(1, entries))
        self._rows_of, self._count = rows_of, count
        self._whole: Tensor | None = None

    @staticmethod
    def known(rows: Tensor) -> "Slopes":
        """Of derivatives (N, n, d) that are there already."""
        return Slopes(lambda numbers: _picked(rows, numbers), rows.shape[1], rows[:, 0].numel())

    def of(self, numbers: Tensor) -> Tensor:
        """The derivatives of some attributions, by their numbers (N, m), (N, m, d)."""
        if self._count > self.at_once:
            return self._rows_of(numbers)
        if self._whole is None:
            everyone = torch.arange(self._count, device=numbers.device)
            self._whole = self._rows_of(everyone.expand(len(numbers), -1))
        return _picked(self._whole, numbers)

    def apart(self, first: Tensor, sign: Tensor, second: Tensor, side: float) -> Tensor:
        """||sign_i grad e_i + side grad e_j||, (N, a, b), for (N, a, d), signs (N, a) and (N, b, d)."""
        salient, other = first * sign.unsqueeze(2), second if side < 0 else -second
        return torch.cdist(salient, other, compute_mode="donot_use_mm_for_euclid_dist")


class Beside(NamedTuple):
    """Derivatives v @ base + own e_i of attributions i, of which e_i is not in the space of the base.

    Attributes:
        vectors: v, (N, m, K).
        own: (N, m).
        columns: base e_i, (N, m, K).
    """

    vectors: Tensor
    own: Tensor
    columns: Tensor


class SlopesBeside:
    """As `Slopes`, for derivatives v @ base + own e_i.

    Args:
        parts_of: from numbers of attributions (N, m) to their parts.
        frame: rows with the lengths and angles of those of the base, (K, d).
        entries: of what is kept for one attribution of all N inputs.
    """

    def __init__(self, parts_of: Callable[[Tensor], Beside], frame: Tensor, entries: int) -> None:
        self.at_once = max(1, ENTRIES_AT_ONCE // max(1, entries))
        self.of, self._frame = parts_of, frame

    def apart(self, first: Beside, sign: Tensor, second: Beside, side: float) -> Tensor:
        """||sign_i grad e_i + side grad e_j||, (N, a, b); the attributions of one are none of the other."""
        strong = first.vectors * sign.unsqueeze(2)
        weak = second.vectors * side
        inside = torch.cdist(
            strong @ self._frame, -weak @ self._frame, compute_mode="donot_use_mm_for_euclid_dist"
        )
        own, other = (first.own * sign).unsqueeze(2), (second.own * side).unsqueeze(1)
        # (strong + weak) . base (own e_i + other e_j), of which two products are of one feature each
        here = (strong * first.columns).sum(2).unsqueeze(2) + first.columns @ weak.mT
        there = strong @ second.columns.mT + (weak * second.columns).sum(2).unsqueeze(1)
        square = inside.square() + 2 * (own * here + other * there) + own.square() + other.square()
        return square.clamp_min(0).sqrt()


def _picked(rows: Tensor, numbers: Tensor) -> Tensor:
    return rows.gather(1, numbers.unsqueeze(2).expand(-1, -1, rows.shape[2]))
