"""What columns cost: how far they have to move until members of a list are at a threshold, and others as well.

A member costs less the higher a threshold is, another column the lower it is; squares of distances add up.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.passages import Passages


class Prices(NamedTuple):
    """Squared distances of m columns on cells of thresholds between levels (N, P, S + 1).

    Attributes:
        lower, upper: at both ends of each cell an affine function that is not above them, (N, m, P, S) each.
        there: at the levels themselves, (N, m, P, S + 1).
    """

    lower: Tensor
    upper: Tensor
    there: Tensor

    def least(self) -> Tensor:
        """What columns cost at least on each cell, (N, m, P * S)."""
        return torch.minimum(self.lower, self.upper).flatten(2)


@dataclass(frozen=True)
class Moves:
    """Columns that move.

    Attributes:
        member: which of them are on the list, bool (N, m).
        still: what members that stay are worth, and minus what others are, in increasing order, (N, n) each.
        sides: how far they have to move to the right and to the left; () if none moves.
    """

    member: Tensor
    still: tuple[Tensor, Tensor]
    sides: tuple[Passages, ...]

    def at(self, rows: Tensor, columns: Tensor | None = None) -> "Moves":
        """Of some rows (R,), and of some columns of each (R, K), by their numbers; None = of all columns."""
        members, others = (part[rows] for part in self.still)
        member = self.member[rows] if columns is None else self.member[rows.unsqueeze(1), columns]
        return Moves(member, (members, others), tuple(side.at(rows, columns) for side in self.sides))

    def cheapest(self, level: Tensor) -> Tensor:
        """How the cheapest member and the cheapest other get to a threshold (N,), (N, m); what is free stays."""
        steps = torch.zeros_like(self.member, dtype=level.dtype)
        if not self.sides:
            return steps
        wanted = torch.where(self.member, level.unsqueeze(1), -level.unsqueeze(1))[..., None, None]
        right, left = (side.reached(wanted).distance[..., 0, 0] for side in self.sides)
        nearest, ends = torch.minimum(right, left), (level.unsqueeze(1), -level.unsqueeze(1))
        for among, still, end in zip((self.member, ~self.member), self.still, ends, strict=True):
            least, place = nearest.masked_fill(~among, torch.inf).min(1, keepdim=True)
            least = torch.where((still[:, :1] <= end) | least.isinf(), 0.0, least)
            steps.scatter_add_(1, place, torch.where((right <= left).gather(1, place), least, -least))
        return steps

    def prices(self, levels: Tensor) -> Prices:
        """Of thresholds between levels (N, P, S + 1), in increasing order."""
        among = self.member[..., None, None]
        # from the level that is nearer for a column to those that are farther
        wanted = torch.where(among, levels.flip(2).unsqueeze(1), -levels.unsqueeze(1))
        if not self.sides:
            return Prices(wanted[..., 1:], wanted[..., 1:], wanted)
        gaps = -wanted.diff(dim=3)
        squares, tangents = [], []
        for side in self.sides:
            reached = side.reached(wanted)
            near = reached.distance[..., :-1]
            squares.append(reached.distance.square())
            # the tangent of the square where it is smallest
            tangent = near * (2 * side.affine(reached, gaps) - near)
            tangents.append(tangent.nan_to_num_(nan=torch.inf, posinf=torch.inf))
        there, dear = torch.minimum(*squares), torch.minimum(*tangents)
        cheap = there[..., :-1]
        back, forth = (dear.flip(3), cheap.flip(3)), (cheap, dear)
        lower, upper = (torch.where(among, *ends) for ends in zip(back, forth, strict=True))
        return Prices(lower, upper, torch.where(among, there.flip(3), there))


def costs(moves: Moves, prices: Prices, levels: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """What q members and q others cost together.

    The sum of the q smallest of affine functions is concave: between two ends it is not below both of them.

    Args:
        moves: the columns that have prices.
        prices: of these.
        levels: (N, P, S + 1).
        q: (Q, 1).

    Returns:
        At least on each cell, (N, Q, P * S), and at the levels themselves, (N, Q, P * (S + 1)).
    """
    at = levels.flatten(1)
    # at a threshold itself columns that stay there are free as well
    ends = tuple(at.nextafter(at.new_tensor(far)) for far in (torch.inf, -torch.inf))
    there = _together(moves, prices.there.flatten(2), ends, q)
    ends = levels[..., 1:].flatten(1), levels[..., :-1].flatten(1)
    inside = torch.minimum(*(_together(moves, part.flatten(2), ends, q) for part in prices[:2]))
    # what is no number costs nothing: as a large one it would be passed over
    return inside.nan_to_num(nan=0.0, posinf=torch.inf), there.nan_to_num(nan=0.0, posinf=torch.inf)


def _together(moves: Moves, prices: Tensor, ends: tuple[Tensor, ...], q: Tensor) -> Tensor:
    """What q members and q others cost together, (N, Q, T), from prices (N, m, T).

    Args:
        moves: the columns that have prices.
        prices: of these.
        ends: columns that stay are free if they are below (members), or above (others), these, each (N, T).
        q: (Q, 1).
    """
    total = prices.new_zeros(())
    for member, below in ((True, ends[0]), (False, ends[1])):
        own = prices.masked_fill((moves.member != member).unsqueeze(2), torch.inf)
        free = torch.searchsorted(moves.still[0 if member else 1], (below if member else -below).contiguous())
        total = total + _sums(own, free, q)
    return total


def _sums(prices: Tensor, free: Tensor, q: Tensor) -> Tensor:
    """The sum of the q cheapest, (N, Q, T), from prices (N, m, T) and how many (N, T) others cost nothing."""
    missing = (q - free.unsqueeze(1)).clamp_min(0)
    if not prices.shape[1]:
        return torch.where(missing == 0, 0.0, torch.inf).to(prices)
    if q[-1] == 1:
        return torch.where(missing == 0, 0.0, prices.amin(1, keepdim=True))
    totals = prices.sort(1).values.cumsum(1)
    sums = totals.gather(1, (missing - 1).clamp(0, prices.shape[1] - 1))
    return torch.where(missing == 0, 0.0, torch.where(missing <= prices.shape[1], sums, torch.inf))
