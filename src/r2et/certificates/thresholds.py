"""How many columns a perturbation of a given length can displace from lists, where every column has its own price.

A price is how far a column has to move until a member of the list is at or below a threshold, or another column
at or above it. q columns are displaced by a perturbation if and only if, for some threshold, it pays for the q
cheapest members and the q cheapest others; prices are distances, and their squares add up. A lower bound over all
thresholds is found by cutting their range into cells and looking into the cheapest ones again.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2et.certificates.prices import Moves, costs
from r2et.enclosure.feature_pairs import FeaturePairs
from r2et.enclosure.passages import Passages
from r2et.enclosure.tables import MINUS, OPPOSITE, PLUS, SIZE, Tables

#: cells of thresholds between two attributions at first, and into how many parts a cell is cut
FIRST, PARTS = 2, 6
#: for this share of rows only so many columns are looked at again as matter to one of them
TYPICAL = 0.9


class Effort(NamedTuple):
    """How many cells of a row are cut at a time, how often at most, and how close, as a share, is enough."""

    kept: int
    rounds: int
    close: float


#: for the radius, and for parts of a list
WHOLE, PART = Effort(2, 12, 1e-5), Effort(2, 3, 1e-3)


@dataclass(frozen=True)
class Lists:
    """Which columns are on the lists of N rows, and what they are worth at the rows themselves.

    Attributes:
        top, rest: members, and others, (N, k) and (N, n - k).
        member: bool (N, n).
        kind: of which function of a column a lower bound is wanted, int64 (N, n).
        worth: s_i e_i of a member, at least; |e_j| (or e_j) of another column, at most, (N, n).
    """

    top: Tensor
    rest: Tensor
    member: Tensor
    kind: Tensor
    worth: Tensor

    @staticmethod
    def of(pairs: FeaturePairs, values: Tensor, blur: Tensor, opposite: Tensor) -> "Lists":
        """From signed attributions (N, n) at rows.

        Args:
            pairs: which columns are on the lists.
            values: attributions.
            blur: what rounding may have made of them, (N, n).
            opposite: whether a row's attributions are the negatives of what tables are of, bool (N,).
        """
        top, rest, sign = pairs.top, pairs.rest, pairs.sign
        member = torch.zeros_like(values, dtype=torch.bool).scatter(1, top, value=True)
        signs = torch.ones_like(values).scatter(1, top, sign)
        others = values.abs() if pairs.both else values
        kind = torch.full_like(member, SIZE if pairs.both else MINUS, dtype=torch.int64)
        kind = torch.where(member, torch.where(signs < 0, MINUS, PLUS), kind)
        kind = torch.where(opposite.unsqueeze(1), torch.tensor(OPPOSITE, device=kind.device)[kind], kind)
        worth = torch.where(member, signs * values - blur, others + blur)
        return Lists(top, rest, member, kind, worth)

    @property
    def most(self) -> int:
        """How many columns a list can lose."""
        return min(self.top.shape[1], self.rest.shape[1])

    def frozen(self) -> Moves:
        """Nothing happens to them."""
        nothing = torch.zeros(0, dtype=torch.int64, device=self.member.device)
        return Moves(self.member[:, :0], self._still(nothing), ())

    def moves(self, table: Tables, x: Tensor, owner: Tensor, beside: Tensor | None = None) -> Moves:
        """What may happen to them: features x (N, m) of a table move, of which each is that of a column (m,).

        Args:
            table: of the functions of features.
            x: (N, m).
            owner: (m,).
            beside: what the rest of a column adds to them, (N, m); None = nothing. Only of lists by value.
        """
        kind, member, worth = self.kind[:, owner], self.member[:, owner], self.worth[:, owner]
        worth = torch.where(member, worth, -worth)
        shift = None if beside is None else torch.where(kind == MINUS, -beside, beside)
        sides = (
            Passages.of(table, x, kind, worth, shift),
            Passages.of(table.mirrored, -x, kind, worth, shift),
        )
        return Moves(member, self._still(owner), sides)

    def thresholds(self) -> tuple[Tensor, Tensor]:
        """The weakest members, weakest first, and the strongest others, strongest first, each (N, most)."""
        weakest = self.worth.gather(1, self.top).sort(1).values[:, : self.most]
        return weakest, self.worth.gather(1, self.rest).sort(1, descending=True).values[:, : self.most]

    def _still(self, moving: Tensor) -> tuple[Tensor, Tensor]:
        """What members that stay are worth, and minus what others are, in increasing order, (N, n) each."""
        stays = torch.ones_like(self.member).index_fill(1, moving, value=False)
        members = self.worth.masked_fill(~stays | ~self.member, torch.inf)
        others = (-self.worth).masked_fill(~stays | self.member, torch.inf)
        return members.sort(1).values, others.sort(1).values


class _Best(NamedTuple):
    """The cheapest threshold that was seen, and what it costs, each (N,)."""

    cost: Tensor
    level: Tensor

    @staticmethod
    def of(costs: Tensor, levels: Tensor) -> "_Best":
        """Of levels (N, ...) with their costs (N, T)."""
        cost, place = costs.min(1, keepdim=True)
        return _Best(cost.squeeze(1), levels.flatten(1).gather(1, place).squeeze(1))

    def or_(self, other: "_Best") -> "_Best":
        """The cheaper one of both, row by row."""
        better = other.cost < self.cost
        return _Best(*(torch.where(better, theirs, own) for own, theirs in zip(self, other, strict=True)))

    def of_rows(self, rows: Tensor) -> "_Best":
        """Of some rows."""
        return _Best(self.cost[rows], self.level[rows])


class _Cells(NamedTuple):
    """Cells of thresholds, where they begin and end, and what they cost at least, each (N, T)."""

    begin: Tensor
    end: Tensor
    costs: Tensor

    def of_rows(self, rows: Tensor) -> "_Cells":
        """Those of some rows."""
        return _Cells(*(entry[rows] for entry in self))

    def cut(self, moves: Moves, q: Tensor, count: int) -> tuple["_Cells", _Best]:
        """The cheapest of them in `PARTS` parts each, with all others, and the cheapest threshold seen."""
        cheapest = self.costs.topk(min(count, self.costs.shape[1]), largest=False).indices
        left, right = self.begin.gather(1, cheapest).unsqueeze(2), self.end.gather(1, cheapest).unsqueeze(2)
        shares = torch.linspace(0, 1, PARTS + 1, dtype=left.dtype, device=left.device)
        # the ends as they are: no threshold may fall between two cells
        levels = torch.where(shares == 1, right, left + (right - left) * shares)
        inside, there = costs(moves, moves.prices(levels), levels, q)
        parts = _Cells(levels[..., :-1].flatten(1), levels[..., 1:].flatten(1), inside[:, 0])
        rest = self._replace(costs=self.costs.scatter(1, cheapest, torch.inf))
        return _Cells(*(torch.cat(both, 1) for both in zip(rest, parts, strict=True))), _Best.of(
            there[:, 0], levels
        )


def squared_limits(lists: Lists, moves: Moves) -> tuple[Tensor, Tensor]:
    """Lower bounds of the squared length that displaces q = 1..most columns, and a threshold for q = 1.

    Returns:
        (N, most) and (N,).
    """
    weakest, strongest = lists.thresholds()
    # the threshold of the cheapest change of q columns is between the q-th of these and the q-th of those
    breaks = torch.cat([weakest, strongest], 1).sort(1).values
    shares = torch.arange(FIRST, dtype=breaks.dtype, device=breaks.device) / FIRST
    inner = (breaks[:, :-1, None] + breaks.diff(dim=1).unsqueeze(2) * shares).flatten(1)
    levels = torch.cat([inner, breaks[:, -1:]], 1)
    q = torch.arange(1, lists.most + 1, device=breaks.device).unsqueeze(1)
    prices = moves.prices(levels.unsqueeze(1))
    inside, there = costs(moves, prices, levels.unsqueeze(1), q)
    least, bounds, thresholds = prices.least(), [], []
    for number in range(lists.most):
        cells = _Cells(levels[:, :-1], levels[:, 1:], inside[:, number])
        best = _Best.of(there[:, number], levels)
        found, best = _refined(moves, cells, best, least, q[number : number + 1])
        bounds.append(found)
        thresholds.append(best.level)
    # where nothing has to move
    return torch.where(strongest < weakest, torch.stack(bounds, 1), 0.0), thresholds[0]


def _refined(moves: Moves, cells: _Cells, best: _Best, least: Tensor, q: Tensor) -> tuple[Tensor, _Best]:
    """The bound for q columns, (N,): of rows for which it is not yet close the cheapest cells are cut.

    Args:
        moves: of columns.
        cells: of thresholds.
        best: what some threshold costs.
        least: what columns cost at least on each cell, (N, m, T).
        q: (1, 1).
    """
    effort = WHOLE if int(q) == 1 else PART
    found = torch.minimum(cells.costs.amin(1), best.cost)
    rows = (found < (1 - effort.close) * best.cost).nonzero().flatten()
    if not len(rows):
        return found, best
    best = _Best(*(part.clone() for part in best))
    matter = _columns_that_matter(least[rows], cells.costs[rows], best.cost[rows])
    many = matter.sum(1)
    typical = int(many.double().quantile(TYPICAL))
    for some, count in ((many <= typical, typical), (many > typical, least.shape[1])):
        own = rows[some]
        if not len(own):
            continue
        columns = matter[some].to(torch.uint8).topk(count).indices if count < least.shape[1] else None
        task = _Task(moves.at(own, columns), cells.of_rows(own), best.of_rows(own), q)
        found[own], better = task.done(effort)
        best.cost[own], best.level[own] = better
    return found, best


def _columns_that_matter(least: Tensor, costs: Tensor, reached: Tensor) -> Tensor:
    """Which may take part in something that is cheaper than `reached` (N,), bool (N, m)."""
    open_ = (costs < reached.unsqueeze(1)).unsqueeze(1)
    return ((least < reached[:, None, None]) & open_).any(2)


@dataclass(frozen=True)
class _Task:
    """Rows whose cells of thresholds are to be cut."""

    moves: Moves
    cells: _Cells
    best: _Best
    q: Tensor

    def at(self, rows: Tensor) -> "_Task":
        """Of some rows."""
        return _Task(self.moves.at(rows), self.cells.of_rows(rows), self.best.of_rows(rows), self.q)

    def done(self, effort: Effort) -> tuple[Tensor, _Best]:
        """The bound, (N,), and the cheapest threshold: a row is left when its bound is close to that."""
        found = torch.zeros_like(self.best.cost)
        cost, level = torch.zeros_like(found), torch.zeros_like(found)
        rows, task = torch.arange(len(found), device=found.device), self
        for _ in range(effort.rounds):
            cells, best = task.cells.cut(task.moves, self.q, effort.kept)
            best = task.best.or_(best)
            found[rows], cost[rows], level[rows] = torch.minimum(cells.costs.amin(1), best.cost), *best
            open_ = (found[rows] < (1 - effort.close) * best.cost).nonzero().flatten()
            task = _Task(task.moves, cells, best, self.q)
            if not len(open_):
                break
            if len(open_) < len(rows):
                rows, task = rows[open_], task.at(open_)
        return found, _Best(cost, level)
