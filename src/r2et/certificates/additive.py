"""The exact certificate of additive scores: how many columns a perturbation of a given length can displace.

The attribution of a column depends on this column alone, so every column has a price of its own: how far it has
to move until a member of the list is at or below a threshold, or another column at or above it. q columns are
displaced by a perturbation if and only if, for some threshold, it pays for the q cheapest members and the q
cheapest others; prices are distances, and their squares add up. A lower bound over all thresholds is found by
cutting their range into cells and looking into the cheapest ones again.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.activations import INFLATION, Softplus
from r2et.enclosure.additive import MINUS, PLUS, SIZE, Tables, slopes_at, tables
from r2et.enclosure.feature_pairs import TIE
from r2et.enclosure.network import ROUNDING, Network
from r2et.enclosure.passages import Passages
from r2et.enclosure.problems import Problem
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Explainer

#: cells of thresholds between two attributions at first, and into how many parts a cell is cut
FIRST, PARTS = 3, 6
#: how many cells are cut, and how often: at first, and for radii that are not yet within a share of the truth
QUICK, THOROUGH, CLOSE = (2, 3), (10, 5), 1e-4
#: the same for parts of a list
PART = (2, 1)
#: entries of tables that are kept for the rows that are worked on together
ENTRIES_AT_ONCE = 2**21
#: farther than that, differences of scores are made of rounding
FARTHEST = 1e6


class AdditiveLimits:
    """Limits (N, k), as a certificate has them, of one network; its tables are made once.

    Args:
        network: additive, see `why_not_additive`.
        explainer: Gradient or ColumnEffects.
    """

    def __init__(self, network: Network, explainer: Explainer) -> None:
        self.network, self.explainer = network, explainer
        self._tables: dict[tuple[float, ...], Tables | None] = {}

    def __call__(self, problem: Problem) -> Tensor:
        """Radii below which at most 0, 1, ... k - 1 columns are displaced, (N, k)."""
        rows = problem.attributions.head.rows[:, 0]
        blur = self._checked(problem, rows)
        limits = problem.pairs.sign.new_zeros(problem.pairs.top.shape)
        directions, which = rows.unique(dim=0, return_inverse=True)
        for number, direction in enumerate(directions):
            own = (which == number).nonzero().flatten()
            table = self._of(direction)
            for part in own.split(_rows_at_once(table)):
                limits[part] = self._limits(problem, table, part, blur[part])
        return limits

    def _of(self, direction: Tensor) -> Tables | None:
        key = tuple(direction.tolist())
        if key not in self._tables:
            self._tables[key] = tables(self.network, direction)
        return self._tables[key]

    def _checked(self, problem: Problem, rows: Tensor) -> Tensor:
        """What rounding may have made of attributions, (N, columns), after a check that they are the network's."""
        values, x = problem.attributions.values, problem.attributions.x
        gradient, of_slopes, of_score = slopes_at(self.network, x, rows)
        if isinstance(self.explainer, ColumnEffects):
            gradient, of_slopes = self._by_columns(gradient, values), self._by_columns(of_slopes, 4 * of_score)
        size = values.abs().amax(1, keepdim=True)
        activation = self.network.layers[0].activation
        assert isinstance(activation, Softplus)
        apart = (gradient - values).abs() > 1e-6 * size + (1 + activation.slope_jump / ROUNDING) * of_slopes
        if apart.any():
            row, column = apart.nonzero()[0].tolist()
            raise ModelError(
                f"the model gives attribution {column} of input {row} the value "
                f"{float(values[row, column]):.6g}, its layers, one by one, {float(gradient[row, column]):.6g}: "
                'its backward pass is another one; use method="smoothing"'
            )
        return of_slopes + TIE * values.abs()

    def _by_columns(self, slopes: Tensor, others: Tensor) -> Tensor:
        """Slopes (N, n) as those of number columns, with `others` (N, columns or 1) for flags and categories."""
        assert isinstance(self.explainer, ColumnEffects)
        columns = self.explainer.columns
        numbers = columns.continuous.nonzero().flatten().to(slopes.device)
        owner = columns.owner.to(slopes.device)[numbers]
        return others.expand(-1, len(columns)).index_copy(1, owner, slopes[:, numbers])

    def _limits(self, problem: Problem, table: Tables | None, rows: Tensor, blur: Tensor) -> Tensor:
        lists = _Lists.of(problem, rows, blur)
        moves = self._moves(problem, lists, table, rows)
        k, others = lists.top.shape[1], lists.rest.shape[1]
        most = min(k, others)
        # whoever displaces more has displaced fewer
        limits = _search(lists, moves, most).sqrt().nan_to_num(nan=0.0, posinf=torch.inf).cummax(1).values
        limits = limits * (1 - INFLATION)
        if isinstance(self.explainer, ColumnEffects) and table is not None:
            limits = limits.clamp_max(FARTHEST)
        return torch.cat([limits, limits.new_full((len(limits), k - most), torch.inf)], 1)

    def _moves(self, problem: Problem, lists: "_Lists", table: Tables | None, rows: Tensor) -> "_Moves":
        if table is None:
            nothing = lists.top.new_zeros(0)
            return _Moves(lists.member[:, :0], lists.still(nothing), ())
        features = table.features
        owner = features
        if isinstance(self.explainer, ColumnEffects):
            owner = self.explainer.columns.owner.to(features.device)[features]
        kind = lists.kind[:, owner]
        x = problem.attributions.x[rows][:, features]
        member, worth = lists.member[:, owner], lists.worth[:, owner]
        worth = torch.where(member, worth, -worth)
        sides = (Passages.of(table, x, kind, worth), Passages.of(table.mirrored, -x, kind, worth))
        return _Moves(member, lists.still(owner), sides)


def _rows_at_once(table: Tables | None) -> int:
    return 4096 if table is None else max(1, ENTRIES_AT_ONCE // table.begin.numel())


@dataclass(frozen=True)
class _Lists:
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
    def of(problem: Problem, rows: Tensor, blur: Tensor) -> "_Lists":
        """Of some of the rows of a problem; rounding may have made `blur` (N, n) of their attributions."""
        pairs, values = problem.pairs, problem.attributions.values[rows]
        top, rest, sign = pairs.top[rows], pairs.rest[rows], pairs.sign[rows]
        member = torch.zeros_like(values, dtype=torch.bool).scatter(1, top, value=True)
        signs = torch.ones_like(values).scatter(1, top, sign)
        others = values.abs() if pairs.both else values
        kind = torch.full_like(member, SIZE if pairs.both else MINUS, dtype=torch.int64)
        kind = torch.where(member, torch.where(signs < 0, MINUS, PLUS), kind)
        worth = torch.where(member, signs * values - blur, others + blur)
        return _Lists(top, rest, member, kind, worth)

    def thresholds(self, most: int) -> tuple[Tensor, Tensor]:
        """The weakest members, weakest first, and the strongest others, strongest first, each (N, most)."""
        weakest = self.worth.gather(1, self.top).sort(1).values[:, :most]
        return weakest, self.worth.gather(1, self.rest).sort(1, descending=True).values[:, :most]

    def still(self, moving: Tensor) -> tuple[Tensor, Tensor]:
        """What members that stay are worth, and minus what others are, in increasing order, (N, n) each."""
        stays = torch.ones_like(self.member).index_fill(1, moving, value=False)
        members = self.worth.masked_fill(~stays | ~self.member, torch.inf)
        others = (-self.worth).masked_fill(~stays | self.member, torch.inf)
        return members.sort(1).values, others.sort(1).values


@dataclass(frozen=True)
class _Moves:
    """Columns that move.

    Attributes:
        member: which of them are on the list, bool (N, m).
        still: what the columns that stay are worth, see `_Lists.still`.
        sides: how far they have to move to the right and to the left; () if none moves.
    """

    member: Tensor
    still: tuple[Tensor, Tensor]
    sides: tuple[Passages, ...]

    def of_rows(self, rows: Tensor) -> "_Moves":
        """Of some rows, by their numbers."""
        members, others = (part[rows] for part in self.still)
        return _Moves(self.member[rows], (members, others), tuple(side.of_rows(rows) for side in self.sides))


def _search(lists: _Lists, moves: _Moves, most: int) -> Tensor:
    """Lower bounds of the squared length that displaces q = 1..most columns, (N, most)."""
    weakest, strongest = lists.thresholds(most)
    # the threshold of the cheapest change of q columns is between the q-th of these and the q-th of those
    breaks = torch.cat([weakest, strongest], 1).sort(1).values
    q = torch.arange(1, most + 1, device=breaks.device).unsqueeze(1)
    # at a threshold itself, columns that stay there count as well
    above, below = (breaks.nextafter(breaks.new_tensor(far)) for far in (torch.inf, -torch.inf))
    bound = _together(moves, _squares(moves, breaks), (above, below), q).amin(2)
    shares = torch.arange(FIRST, dtype=breaks.dtype, device=breaks.device) / FIRST
    inner = (breaks[:, :-1, None] + breaks.diff(dim=1).unsqueeze(2) * shares).flatten(1)
    levels = torch.cat([inner, breaks[:, -1:]], 1)
    begin, end = levels[:, :-1], levels[:, 1:]
    costs = _costs(moves, levels[:, None], q)
    begin, end = (part.unsqueeze(1).expand_as(costs) for part in (begin, end))
    cells = _Cells(begin, end, costs)
    bounds = [_whole(moves, bound[:, :1], cells.part(slice(0, 1)), q[:1])]
    if most > 1:
        bounds.append(_refined(moves, bound[:, 1:], cells.part(slice(1, most)), q[1:], PART)[0])
    # where nothing has to move
    return torch.where(strongest < weakest, torch.cat(bounds, 1), 0.0)


def _whole(moves: _Moves, bound: Tensor, cells: "_Cells", q: Tensor) -> Tensor:
    """The bound for one column, (N, 1): rows for which a quick search leaves something open get a thorough one."""
    quick, at = _refined(moves, bound, cells, q, QUICK)
    above, below = (at.nextafter(at.new_tensor(far)) for far in (torch.inf, -torch.inf))
    reached = torch.minimum(bound, _together(moves, _squares(moves, at), (above, below), q)[:, 0])
    rows = (~(quick >= (1 - CLOSE) * reached)).flatten().nonzero().flatten()
    if not len(rows):
        return quick
    some = _Cells(*(part[rows] for part in cells))
    thorough, _ = _refined(moves.of_rows(rows), bound[rows], some, q, THOROUGH)
    return quick.index_copy(0, rows, torch.maximum(thorough, quick[rows]))


class _Cells(NamedTuple):
    """Cells of thresholds of each q, where they begin and end, and what they cost at least, each (N, Q, T)."""

    begin: Tensor
    end: Tensor
    costs: Tensor

    def part(self, which: slice) -> "_Cells":
        """Those of some q."""
        return _Cells(*(entry[:, which] for entry in self))


def _refined(
    moves: _Moves, bound: Tensor, cells: _Cells, q: Tensor, effort: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Lower bounds (N, Q), at most `bound`, by cutting cells into smaller ones, and the cheapest thresholds."""
    shares = torch.linspace(0, 1, PARTS + 1, dtype=bound.dtype, device=bound.device)
    most, rounds = effort
    for _ in range(rounds):
        order = cells.costs.sort(2)
        if cells.costs.shape[2] > most:
            bound = torch.minimum(bound, order.values[..., most])
        kept = order.indices[..., :most]
        count = kept.shape[2]
        left, right = cells.begin.gather(2, kept).unsqueeze(3), cells.end.gather(2, kept).unsqueeze(3)
        # the ends as they are: no threshold may fall between two cells
        levels = torch.where(shares == 1, right, left + (right - left) * shares)
        own = q.expand(-1, count * PARTS).flatten().unsqueeze(0)
        costs = _costs(moves, levels.flatten(1, 2), own).reshape(*levels.shape[:2], -1)
        cells = _Cells(levels[..., :-1].flatten(2), levels[..., 1:].flatten(2), costs)
    least, place = cells.costs.min(2)
    return torch.minimum(bound, least), cells.begin.gather(2, place.unsqueeze(2)).squeeze(2)


def _costs(moves: _Moves, levels: Tensor, q: Tensor) -> Tensor:
    """Lower bounds (N, Q, P * S) of what q members and q others cost on cells between levels (N, P, S + 1)."""
    # strictly between them; the levels themselves are in other cells, or were looked at before
    ends = levels[..., 1:].flatten(1), levels[..., :-1].flatten(1)
    costs = torch.minimum(*(_together(moves, prices, ends, q) for prices in _prices(moves, levels)))
    # what is no number costs nothing: as a large one it would be passed over
    return costs.nan_to_num(nan=0.0, posinf=torch.inf)


def _squares(moves: _Moves, levels: Tensor) -> Tensor:
    """Squared distances at which columns are at thresholds (N, T) or beyond, (N, m, T)."""
    among, at = moves.member.unsqueeze(2), levels.unsqueeze(1)
    wanted = torch.where(among, at, -at)
    if not moves.sides:
        return wanted
    return torch.minimum(*(side.distance(wanted)[0] for side in moves.sides)).square()


def _prices(moves: _Moves, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Affine lower bounds of squared distances at both ends of cells between levels (N, P, S + 1).

    The sum of the q smallest of affine functions is concave: between the ends it is not below both of them.

    Returns:
        At the lower and at the upper ends, each (N, m, P * S).
    """
    among, wanted = moves.member[..., None, None], levels.unsqueeze(1)
    wanted = torch.where(among, wanted, -wanted).flatten(2)
    if not moves.sides:
        nothing = wanted[..., : levels.shape[1] * (levels.shape[2] - 1)]
        return nothing, nothing
    least, more = [], []
    before, after = slice(None, -1), slice(1, None)
    for side in moves.sides:
        distance, cell, inside = (part.unflatten(2, levels.shape[1:]) for part in side.distance(wanted))
        # a member is cheaper at the upper end of a cell, another column at the lower one
        near = torch.where(among, distance[..., after], distance[..., before])
        far = torch.where(among, distance[..., before], distance[..., after])
        inside = torch.where(among, inside[..., after], inside[..., before])
        first = torch.where(among, cell[..., after], cell[..., before])
        last = torch.where(among, cell[..., before], cell[..., after])
        far = side.affine(near, far, inside, (first, last), levels.diff(dim=2).unsqueeze(1))
        least.append(near.square())
        # the tangent of the square where it is smallest
        more.append(torch.where(near.isfinite(), near * (2 * far - near), torch.inf))
    cheap, dear = torch.minimum(*least), torch.minimum(*more)
    return torch.where(among, dear, cheap).flatten(2), torch.where(among, cheap, dear).flatten(2)


def _sums(prices: Tensor, free: Tensor, q: Tensor) -> Tensor:
    """The sum of the q cheapest, from prices (N, m, T) of what moves and how many (N, T) others are free.

    Args:
        prices: of columns that move.
        free: how many columns that do not move are where they are wanted.
        q: (Q, 1), or (Q, T) where each q has thresholds of its own.

    Returns:
        (N, Q, T).
    """
    missing = (q - free.unsqueeze(1)).clamp_min(0)
    if not prices.shape[1]:
        return torch.where(missing == 0, 0.0, torch.inf).to(prices)
    totals = prices.sort(1).values.cumsum(1)
    sums = totals.gather(1, (missing - 1).clamp(0, prices.shape[1] - 1).expand(-1, -1, prices.shape[2]))
    return torch.where(missing == 0, 0.0, torch.where(missing <= prices.shape[1], sums, torch.inf))


def _together(moves: _Moves, prices: Tensor, ends: tuple[Tensor, Tensor], q: Tensor) -> Tensor:
    """What q members and q others cost together, (N, Q, T), from prices (N, m, T).

    Args:
        moves: the columns that have prices.
        prices: of these.
        ends: columns that stay are free if they are below (members), or above (others), these, each (N, T).
        q: as in `_sums`.
    """
    total = prices.new_zeros(())
    for member, below in ((True, ends[0]), (False, ends[1])):
        own = prices.masked_fill((moves.member != member).unsqueeze(2), torch.inf)
        free = torch.searchsorted(moves.still[0 if member else 1], (below if member else -below).contiguous())
        total = total + _sums(own, free, q)
    return total
