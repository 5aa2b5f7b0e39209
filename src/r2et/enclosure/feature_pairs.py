"""The linear functionals that hold a top-k set together: it stays while all of them are positive."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2et import ranking
from r2et.enclosure.slopes import Slopes, SlopesBeside

#: a gap below this share of the two values it is between counts as a tie: rounding alone could turn it
TIE = 1e-9


@dataclass(frozen=True)
class FeaturePairs:
    """phi = a e_i + b e_j > 0 for every salient feature i and other feature j, e the signed attributions.

    For magnitudes there are two for each pair, s_i e_i - e_j and s_i e_i + e_j with s_i the sign of e_i; for
    signed attributions one. They are numbered by (sign, salient, other), the other feature fastest.

    Attributes:
        top: salient features, most salient first, (N, k).
        rest: the others, most salient first, (N, n - k).
        sign: of the salient attributions, (N, k); ones for signed attributions.
        values: phi at x, reduced by `ties`, (N, D).
        ties: what rounding may take, (N, D).
        both: whether there are two functionals for each pair.
    """

    top: Tensor
    rest: Tensor
    sign: Tensor
    values: Tensor
    ties: Tensor
    both: bool

    @staticmethod
    def of(attributions: Tensor, k: int, signed: bool, floor: Tensor | None = None) -> "FeaturePairs":
        """From signed attributions (N, n) at x, of which rounding may have made up to `floor` (N, n)."""
        plain = FeaturePairs.lists(attributions, k, signed)
        top, rest, sign = plain.top, plain.rest, plain.sign
        salient, other = attributions.gather(1, top), attributions.gather(1, rest)
        strong = (sign * salient).unsqueeze(2)
        weak = other.unsqueeze(1)
        tie = TIE * (strong.abs() + weak.abs())
        if floor is not None:
            tie = tie + floor.gather(1, top).unsqueeze(2) + floor.gather(1, rest).unsqueeze(1)
        gaps = [strong - weak] if signed else [strong - weak, strong + weak]
        ties = tie.flatten(1).repeat(1, len(gaps))
        return FeaturePairs(top, rest, sign, torch.stack(gaps, 1).flatten(1) - ties, ties, not signed)

    @staticmethod
    def lists(attributions: Tensor, k: int, signed: bool) -> "FeaturePairs":
        """The lists alone, without functionals, from signed attributions (N, n) at x."""
        order = ranking.order(attributions if signed else attributions.abs())
        salient = attributions.gather(1, order[:, :k])
        sign = torch.ones_like(salient) if signed else torch.where(salient < 0, -1.0, 1.0).to(salient)
        none = salient.new_zeros(len(salient), 0)
        return FeaturePairs(order[:, :k], order[:, k:], sign, none, none, not signed)

    def only(self, rows: Tensor) -> "FeaturePairs":
        """The functionals of some inputs, by their numbers (M,)."""
        values, ties = self.values[rows], self.ties[rows]
        return FeaturePairs(self.top[rows], self.rest[rows], self.sign[rows], values, ties, self.both)

    def select(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """i, a, j, b of functionals by number (N, D), each (N, D)."""
        k, others = self.top.shape[1], self.rest.shape[1]
        rest = numbers % others
        salient = numbers // others % k
        second = numbers // (others * k)
        a = self.sign.gather(1, salient)
        b = torch.where(second == 0, -1.0, 1.0).to(a)
        return self.top.gather(1, salient), a, self.rest.gather(1, rest), b

    def at(self, rows: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """i, a, j, b of functionals by input and number (F,), each (F,)."""
        k, others = self.top.shape[1], self.rest.shape[1]
        salient = numbers // others % k
        a = self.sign[rows, salient]
        b = torch.where(numbers // (others * k) == 0, -1.0, 1.0).to(a)
        return self.top[rows, salient], a, self.rest[rows, numbers % others], b

    def limits(self, radii: Tensor) -> Tensor:
        """Radii below which at most 0, 1, ... k - 1 features are displaced, (N, k), from radii (N, D).

        Every displaced feature has lost to every newcomer: if m are displaced, then m salient and m other features
        each have at least m pairs that are not certified.
        """
        k, others = self.top.shape[1], self.rest.shape[1]
        pairs = radii.nan_to_num(nan=0.0, posinf=torch.inf).unflatten(1, (-1, k, others)).amin(1)
        most = min(k, others)
        by_salient = pairs.sort(2).values[:, :, :most].sort(1).values
        by_other = pairs.sort(1).values[:, :most, :].sort(2).values
        steps = torch.arange(most, device=radii.device)
        limits = torch.maximum(by_salient[:, steps, steps], by_other[:, steps, steps])
        never = limits.new_full((len(limits), k - most), torch.inf)
        return torch.cat([limits, never], 1)


def first_order_radii(pairs: FeaturePairs, slopes: Slopes | SlopesBeside) -> Tensor:
    """phi / ||grad phi|| at x for every functional, (N, D), from the derivative of the attributions."""
    salient: Any = slopes.of(pairs.top)
    sides = (-1.0, 1.0) if pairs.both else (-1.0,)
    # made before the loop: a small result kept after each step would pin the heap, step by step, to n x n numbers
    norms = pairs.values.new_empty(len(pairs.top), len(sides), pairs.top.shape[1], pairs.rest.shape[1])
    for part, into in zip(pairs.rest.split(slopes.at_once, 1), norms.split(slopes.at_once, 3), strict=True):
        other: Any = slopes.of(part)
        for place, side in enumerate(sides):
            into[:, place] = slopes.apart(salient, pairs.sign, other, side)
    return torch.where(pairs.values > 0, pairs.values / norms.flatten(1), 0.0)
