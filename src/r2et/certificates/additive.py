"""The exact certificate of additive scores: the attribution of a column depends on this column alone."""

import torch
from torch import Tensor

from r2et.certificates.prices import Moves
from r2et.certificates.thresholds import FIRST, Lists, squared_limits
from r2et.enclosure.activations import INFLATION, Softplus
from r2et.enclosure.additive import slopes_at, tables
from r2et.enclosure.feature_pairs import TIE
from r2et.enclosure.network import ROUNDING, Network
from r2et.enclosure.problems import Problem
from r2et.enclosure.tables import Tables
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Explainer

#: prices of columns that are looked up together
ENTRIES_AT_ONCE = 2**19
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
        # of two classes each is the other's opposite: they share a table
        opposite = _opposite(rows)
        directions, which = torch.where(opposite.unsqueeze(1), -rows, rows).unique(dim=0, return_inverse=True)
        for number, direction in enumerate(directions):
            own = (which == number).nonzero().flatten()
            table = self._of(direction)
            for part in own.split(_rows_at_once(problem, table)):
                limits[part] = self._limits(problem, table, part, blur[part], opposite[part])
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

    def _limits(
        self, problem: Problem, table: Tables | None, rows: Tensor, blur: Tensor, opposite: Tensor
    ) -> Tensor:
        attributions, pairs = problem.attributions, problem.pairs.only(rows)
        lists = Lists.of(pairs, attributions.values[rows], blur, opposite)
        x = attributions.x[rows]
        features = torch.zeros(0, dtype=torch.int64, device=x.device) if table is None else table.features
        owner = features
        if isinstance(self.explainer, ColumnEffects):
            owner = self.explainer.columns.owner.to(features.device)[features]
        limits = limits_of(lists, lists.moves(table, x[:, features], owner))
        if isinstance(self.explainer, ColumnEffects) and table is not None:
            limits = limits.clamp_max(FARTHEST)
        return limits


def limits_of(lists: Lists, moves: Moves) -> Tensor:
    """Radii below which at most 0, 1, ... k - 1 columns are displaced, (N, k)."""
    squares = squared_limits(lists, moves).nan_to_num(nan=0.0, posinf=torch.inf)
    # whoever displaces more has displaced fewer
    limits = squares.sqrt().cummax(1).values * (1 - INFLATION)
    never = limits.new_full((len(limits), lists.top.shape[1] - lists.most), torch.inf)
    return torch.cat([limits, never], 1)


def _opposite(rows: Tensor) -> Tensor:
    """Whether the first entry of each direction (N, C) that is not zero is negative, (N,)."""
    first = (rows != 0).to(torch.uint8).argmax(1, keepdim=True)
    return rows.gather(1, first).squeeze(1) < 0


def _rows_at_once(problem: Problem, table: Tables | None) -> int:
    pairs = problem.pairs
    levels = 2 * FIRST * min(pairs.top.shape[1], pairs.rest.shape[1])
    return 4096 if table is None else max(1, ENTRIES_AT_ONCE // (len(table.features) * levels))
