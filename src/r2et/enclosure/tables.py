"""Tables of lower bounds of functions of one feature each: a parabola on every cell, a line on both tails."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.shapes import Pieces

#: the tables of one direction: of g, of -g and of -|g|
PLUS, MINUS, SIZE = 0, 1, 2
#: which of them is that of the same function of -g
OPPOSITE = (MINUS, PLUS, SIZE)
#: a parabola, as the entries of its last axis: anchor, and value, slope and half of the second derivative there
ANCHOR, VALUE, SLOPE, BEND = range(4)


@dataclass(frozen=True)
class Tables:
    """Lower bounds of three functions of each of m features, on M cells and the two tails, left to right.

    Attributes:
        features: their numbers, (m,).
        begin, end: where cells begin and end, in increasing order, from -inf to inf, (m, M + 2).
        curve: for each of three functions the parabola of each cell, (3, m, M + 2, 4).
        steep: how fast the functions themselves change there at most, (m, M + 2).
    """

    features: Tensor
    begin: Tensor
    end: Tensor
    curve: Tensor
    steep: Tensor

    @staticmethod
    def of(features: Tensor, pieces: Sequence[Pieces]) -> "Tables":
        """From what is known of each of their functions."""
        longest = max(len(piece.edges) for piece in pieces)
        edges, values = (torch.stack([_padded(piece[i], longest) for piece in pieces]) for i in (0, 1))
        bends, charges = (torch.stack([_padded(piece[i], longest - 1) for piece in pieces]) for i in (2, 3))
        tails = torch.stack([piece.tails for piece in pieces])
        infinite = torch.full_like(edges[:, :1], torch.inf)
        begin, end = torch.cat([-infinite, edges], 1), torch.cat([edges, infinite], 1)
        steep = torch.cat([infinite, _steep(edges, values, bends, charges), infinite], 1)
        inner = _parabolas(edges, values, bends, charges)
        left, right = _lines(edges[:, :1], tails[:, :1], -1), _lines(edges[:, -1:], tails[:, 1:], 1)
        signed = torch.cat([left, inner, right], 2)
        return Tables(features, begin, end, torch.cat([signed, _sizes(signed, begin, end)]), steep)

    @cached_property
    def low(self) -> Tensor:
        """The smallest bound on each cell, (3, m, M + 2); one that is no number certifies nothing."""
        return lowest(self.curve, self.begin, self.end)

    @cached_property
    def mirrored(self) -> "Tables":
        """The same functions of -x."""
        # a parabola of the mirrored cell has its anchor at the other end, but for the tails
        other = torch.where(self.begin.isfinite() & self.end.isfinite(), self.end, self.curve[0, ..., ANCHOR])
        along = other - self.curve[..., ANCHOR]
        value = self.curve[..., VALUE] + along * (self.curve[..., SLOPE] + along * self.curve[..., BEND])
        slope = self.curve[..., SLOPE] + 2 * along * self.curve[..., BEND]
        curve = torch.stack([-other.expand_as(value), value, -slope, self.curve[..., BEND]], -1)
        return Tables(self.features, -self.end.flip(-1), -self.begin.flip(-1), curve.flip(-2), self.steep.flip(-1))

    @cached_property
    def _steepest(self) -> tuple[Tensor, Tensor]:
        """The steepest of 1, 2, 4, ... cells from each on, (levels, m, M + 2); the level of each length."""
        length = torch.arange(self.steep.shape[1] + 1, device=self.steep.device).clamp_min(1)
        return -_minima(-self.steep), length.to(self.steep).log2().floor().long()

    def steepest(self, column: Tensor, begin: Tensor, end: Tensor) -> Tensor:
        """The steepest cell from `begin` to `end`, both included, of columns that begin at `column` when flat."""
        levels, of_length = self._steepest
        level = of_length[end - begin + 1]
        at = level * self.steep.numel() + column
        return torch.maximum(levels.take(at + begin), levels.take(at + end + 1 - (1 << level)))

    @cached_property
    def _lowest(self) -> Tensor:
        """The lowest of 1, 2, 4, ... cells from each on, (levels, 3, m, M + 2)."""
        return _minima(self.low)

    def first_at(self, function: Tensor, cell: Tensor, level: Tensor) -> Tensor:
        """The first cell, from `cell` on, on which a bound is at a level or below it; M + 2 if there is none.

        Args:
            function: where its cells begin in flattened tables; it, and `cell`, broadcast to `level`.
            cell: where to begin.
            level: of any shape.
        """
        lows, count = self._lowest, self.begin.shape[1]
        place = cell.expand_as(level).clone()
        for step in reversed(range(len(lows))):
            # beyond the last cell it is that of the last, which does no harm
            found = lows[step].take((place + function).clamp_max_(self.low.numel() - 1))
            place.add_(found > level, alpha=1 << step).clamp_max_(count)
        return place


def _minima(values: Tensor) -> Tensor:
    """The smallest of 1, 2, 4, ... values from each on, (levels, ..., C), of values (..., C)."""
    levels, width = [values], 1
    while 2 * width <= values.shape[-1]:
        before = levels[-1]
        after = torch.nn.functional.pad(before[..., width:], (0, width), value=torch.inf)
        levels.append(torch.minimum(before, after))
        width *= 2
    return torch.stack(levels)


def lowest(curve: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """The smallest value of parabolas (..., 4) between `begin` and `end` (...); NaN counts as -inf."""
    anchor, value, slope, bend = curve.unbind(-1)

    def at(x: Tensor) -> Tensor:
        along = x - anchor
        # tails are infinitely long
        return value + along * (slope + torch.where(bend == 0, 0.0, along * bend))

    # a line that falls to one side has no smallest value there
    flat = (slope == 0) & (bend == 0)
    ends = [torch.where(flat, value, at(place)) for place in (begin, end)]
    turn = torch.where(bend > 0, anchor - slope / (2 * bend), begin)
    inside = (bend > 0) & (turn > begin) & (turn < end)
    bottom = torch.where(inside, value - slope.square() / (4 * bend), torch.inf)
    return torch.minimum(torch.minimum(*ends), bottom).nan_to_num(
        nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf
    )


def _padded(values: Tensor, longest: int) -> Tensor:
    """With its last entry again until it is as long; cells between them have no width."""
    return torch.cat([values, values[-1:].expand(longest - len(values), *values.shape[1:])])


def _steep(edges: Tensor, values: Tensor, bends: Tensor, charges: Tensor) -> Tensor:
    """How steep functions are at most, (m, M): a slope is h / 2 times the second derivative from the chord's."""
    width = edges.diff()
    chord = (values.diff().abs() + 2 * charges) / width.clamp_min(torch.finfo(width.dtype).tiny)
    steep = chord + width / 2 * bends.abs().amax(2)
    return torch.where(width > 0, steep.nan_to_num(nan=torch.inf) * (1 + 1e-9), 0.0)


def _parabolas(edges: Tensor, values: Tensor, bends: Tensor, charges: Tensor) -> Tensor:
    """Lower bounds of g and of -g on cells, (2, m, M, 4), from what `Pieces` has, stacked."""
    width = edges.diff()
    chord = torch.where(width > 0, values.diff() / width, 0.0)
    found = []
    for sign, bend in ((1, bends[..., 1]), (-1, -bends[..., 0])):
        bend = torch.where(width > 0, bend, 0.0)
        start = sign * values[:, :-1] - charges
        found.append(torch.stack([edges[:, :-1], start, sign * chord - bend * width / 2, bend / 2], -1))
    return torch.stack(found)


def _lines(edge: Tensor, tail: Tensor, side: int) -> Tensor:
    """Lower bounds of g and of -g on a tail, (2, m, 1, 4), from its edge (m, 1) and ranges (m, 1, 4)."""
    low, high, flattest, steepest = tail.unbind(2)
    if side < 0:
        flattest, steepest = steepest, flattest
    none = torch.zeros_like(edge)
    return torch.stack(
        [torch.stack([edge, low, flattest, none], -1), torch.stack([edge, -high, -steepest, none], -1)]
    )


def _sizes(signed: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Lower bounds of -|g|, (1, m, M + 2, 4): of -g if g is hardly negative, else of g.

    Where g is not below -a, -|g| is not below -g - 2 a.
    """
    plus, minus = lowest(signed, begin, end)
    hardly = plus >= minus
    curve = torch.where(hardly.unsqueeze(-1), signed[MINUS], signed[PLUS])
    below = 2 * torch.where(hardly, plus, minus).clamp_max(0)
    value = curve[..., VALUE] + below
    return torch.cat([curve[..., :VALUE], value.unsqueeze(-1), curve[..., SLOPE:]], -1).unsqueeze(0)
