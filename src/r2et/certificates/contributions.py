"""The exact certificate of lists by contributions to a score that is a sum over columns.

phi_c = f_c(x_c) - mean of f_c over the background: these are its interventional Shapley values. Like a slope, a
contribution depends on its column alone, so the same search over thresholds is exact for it, with tables of values
instead of slopes.

A list of reasons has L <= k names, those with positive contributions. It changes if q of its columns and q others
trade places, where "nobody", who is worth 0, may be any number of these: either nobody comes to the list (it gets
shorter, or stays as long), or nobody leaves it (it gets longer, or stays as long), and never both. Both are looked
at, each with as many nobodies as there can be. In either case q names of the longer list are not on the other.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from r2et import ranking
from r2et.certificates.additive import limits_of
from r2et.certificates.thresholds import Lists
from r2et.enclosure.additive import Sum, by_coordinates, tables_of
from r2et.enclosure.feature_pairs import TIE, FeaturePairs
from r2et.enclosure.network import ROUNDING, Network
from r2et.enclosure.tables import Tables
from r2et.explainers import Contributions

#: farther than that, differences of scores are made of rounding
FARTHEST = 1e6


@dataclass(frozen=True)
class Column:
    """What columns of rows contribute.

    Attributes:
        values: (N, columns).
        blur: what rounding may have made of them, (N, columns).
        beside: of each feature of a table what the rest of its column adds, (N, m); None = there are none.
    """

    values: Tensor
    blur: Tensor
    beside: Tensor | None

    def only(self, rows: Tensor) -> "Column":
        """Of some rows."""
        beside = None if self.beside is None else self.beside[rows]
        return Column(self.values[rows], self.blur[rows], beside)


class ContributionLimits:
    """Limits (N, k) of lists by contributions to one score of a network; its tables are made once.

    Args:
        network: a sum over columns, see `why_not_sum`, in float64; `network.movable` alone move.
        direction: the score as a combination of logits, (C,).
        explainer: which columns, background and order.
    """

    def __init__(self, network: Network, direction: Tensor, explainer: Contributions) -> None:
        coordinates, self.onto = by_coordinates(network, explainer.columns)
        self.score, self.explainer = Sum.of(coordinates, direction), explainer
        # features of one coordinate are of one column
        owner = explainer.columns.owner.to(self.onto)
        self.owner = ((owner @ self.onto) / self.onto.sum(0)).round().long()
        background = explainer.background.tensor.to(self.onto) @ self.onto
        values, sizes = self._values(background)
        self.means, self.mean_sizes = values.mean(0), sizes.mean(0)
        self._tables: dict[tuple[float, ...], Tables | None] = {}

    def table(self, beside: Tensor | None = None) -> Tables | None:
        """Of what moving features contribute, together with a constant for each of them, (n,)."""
        key = () if beside is None else tuple(beside.tolist())
        if key not in self._tables:
            self._tables[key] = tables_of(self.score, self.means if beside is None else self.means - beside)
        return self._tables[key]

    def contributions(self, x: Tensor) -> Column:
        """Of the columns of rows x (N, n)."""
        values, sizes = self._values(x @ self.onto)
        of_features = values - self.means
        blur = ROUNDING * (sizes + self.mean_sizes).sum(1, keepdim=True)
        totals = self._by_columns(of_features)
        never = self.explainer.never(x)
        beside, table = None, self.table()
        if table is not None:
            own = totals[:, self.owner[table.features]] - of_features[:, table.features]
            beside = own if bool((own.abs() > blur).any()) else None
        totals = totals.masked_fill(never, 0.0)
        return Column(totals, (blur + TIE * totals.abs()).masked_fill(never, 0.0), beside)

    def __call__(self, x: Tensor, k: int, opposite: Tensor | None = None) -> Tensor:
        """Radii below which at most 0, 1, ... k - 1 names of the list of a row are displaced, (N, k).

        Args:
            x: rows (N, n).
            k: length of the lists.
            opposite: of which rows the score is minus this one, bool (N,); None = of none.
        """
        opposite = torch.zeros(len(x), dtype=torch.bool, device=x.device) if opposite is None else opposite
        known, y = self.contributions(x), x @ self.onto
        signs = torch.where(opposite, -1.0, 1.0).to(x).unsqueeze(1)
        own = replace(known, values=signs * known.values)
        if not self.explainer.positive:
            return self._by_size(own, y, k, opposite)
        own = replace(own, values=_below_nobody(own, self.explainer.never(x)))
        length = (own.values > 0).sum(1).clamp_max(k)
        limits = own.values.new_full((len(x), k), torch.inf)
        for number in length.unique().tolist():
            rows = (length == number).nonzero().flatten()
            some, at, turned = own.only(rows), y[rows], opposite[rows]
            if number:
                limits[rows, :number] = self._of(some, _comes(some, number), at, turned)
            if number < k and number < own.values.shape[1]:
                longer = self._of(some, _leaves(some, number, k), at, turned)
                limits[rows] = torch.minimum(limits[rows], longer)
        return limits

    def _of(self, own: Column, pairs: FeaturePairs, y: Tensor, opposite: Tensor) -> Tensor:
        """Limits (N, k') of lists among columns that come after nobodies."""
        nobodies = int(pairs.top.shape[1] + pairs.rest.shape[1] - own.values.shape[1])
        values, blur = (torch.nn.functional.pad(part, (nobodies, 0)) for part in (own.values, own.blur))
        lists = Lists.of(pairs, values, blur, opposite)
        table = self.table()
        if table is None:
            return limits_of(lists, lists.frozen())[0]
        moves = lists.moves(table, y[:, table.features], self.owner[table.features] + nobodies, own.beside)
        return limits_of(lists, moves)[0].clamp_max(FARTHEST)

    def _by_size(self, own: Column, y: Tensor, k: int, opposite: Tensor) -> Tensor:
        """Limits (N, k) of lists by magnitude."""
        limits = own.values.new_zeros(len(y), k)
        for rows, table in self._with_their_tables(own):
            some = own.only(rows)
            lists = Lists.of(
                FeaturePairs.lists(some.values, k, signed=False), some.values, some.blur, opposite[rows]
            )
            if table is None:
                limits[rows] = limits_of(lists, lists.frozen())[0]
                continue
            moves = lists.moves(table, y[rows][:, table.features], self.owner[table.features])
            limits[rows] = limits_of(lists, moves)[0].clamp_max(FARTHEST)
        return limits

    def _with_their_tables(self, own: Column) -> list[tuple[Tensor, Tables | None]]:
        """Rows that share what is beside moving features, with tables that have it in them."""
        every = torch.arange(len(own.values), device=own.values.device)
        table = self.table()
        if own.beside is None or table is None:
            return [(every, table)]
        kinds, which = own.beside.unique(dim=0, return_inverse=True)
        return [
            (every[which == number], self.table(torch.zeros_like(self.means).index_copy(0, table.features, kind)))
            for number, kind in enumerate(kinds)
        ]

    def _values(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """What coordinates add to the score, and the sizes of the terms that make it, each (N, n)."""
        score = self.score
        # a unit reads one coordinate, or none, and then it is a constant of the score
        owner = (score.weights != 0).to(y)
        units = score.activation.value(y @ score.weights.T + score.bias)
        reach = y.abs() @ score.weights.abs().T + score.bias.abs() + 1 / score.activation.beta
        return (
            y * score.linear + (units * score.heights) @ owner,
            y.abs() * score.linear.abs() + (reach * score.heights.abs()) @ owner,
        )

    def _by_columns(self, values: Tensor) -> Tensor:
        """Sums over the coordinates of each column, (N, columns)."""
        sums = values.new_zeros(len(values), len(self.explainer.columns))
        return sums.index_add(1, self.owner, values)


def _below_nobody(own: Column, never: Tensor) -> Tensor:
    """Values (N, columns), those of columns that never say anything a little below 0, where nobody minds."""
    little = own.blur.amax(1, keepdim=True) + torch.finfo(own.values.dtype).tiny
    return torch.where(never, -little, own.values)


def _comes(own: Column, length: int) -> FeaturePairs:
    """Lists of columns alone, to which nobody may come: nobodies are the first of those that are ranked."""
    order = ranking.order(own.values)
    nobody = torch.arange(length, device=order.device).expand(len(order), -1)
    return _listed(order[:, :length] + length, torch.cat([nobody, order[:, length:] + length], 1), own.values)


def _leaves(own: Column, length: int, k: int) -> FeaturePairs:
    """Lists that are filled up with nobodies, who may leave them."""
    order = ranking.order(own.values)
    nobody = torch.arange(k - length, device=order.device).expand(len(order), -1)
    top = torch.cat([nobody, order[:, :length] + k - length], 1)
    return _listed(top, order[:, length:] + k - length, own.values)


def _listed(top: Tensor, rest: Tensor, like: Tensor) -> FeaturePairs:
    none = like.new_zeros(len(like), 0)
    return FeaturePairs(top, rest, torch.ones_like(top, dtype=like.dtype), none, none, both=False)
