"""The exact certificate of additive scores: the attribution of a column depends on this column alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.certificates.prices import Moves
from r2et.certificates.thresholds import FIRST, Lists, squared_limits
from r2et.enclosure.activations import Softplus
from r2et.enclosure.additive import slopes_at, tables
from r2et.enclosure.feature_pairs import TIE
from r2et.enclosure.network import ROUNDING, Network
from r2et.enclosure.problems import Problem
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.shapes import COARSE, FINER, Grading
from r2et.enclosure.tables import Tables
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Explainer

#: prices of columns that are looked up together
ENTRIES_AT_ONCE = 2**19
#: farther than that, differences of scores are made of rounding
FARTHEST = 1e6
#: a radius is close if something longer by this share changes the list
LOOSE = 5e-5
#: cells of all columns together, at most, of tables that are finer than those for all rows
LONGEST = 2**18


class AdditiveLimits:
    """Limits (N, k), as a certificate has them, of one network; its tables are made once.

    Args:
        network: additive, see `why_not_additive`.
        explainer: Gradient or ColumnEffects.
    """

    def __init__(self, network: Network, explainer: Explainer) -> None:
        self.network, self.explainer = network, explainer
        self._tables: dict[tuple[Grading, tuple[float, ...]], Tables | None] = {}

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
            for part in own.split(_rows_at_once(problem)):
                some = _Rows(part, direction, blur[part], opposite[part])
                limits[part] = self._closest(problem, some)
        return limits

    def _closest(self, problem: Problem, rows: "_Rows") -> Tensor:
        """Limits (N, k), by finer tables where coarser ones leave the radius open."""
        table = self._of(rows.direction, COARSE)
        limits, steps = self._limits(problem, rows, table)
        loose = self._loose(problem, rows, limits[:, 0], steps)
        for grading in FINER:
            if not len(loose) or table is None or grading.cells * len(table.features) > LONGEST:
                break
            finer, steps[loose] = self._limits(problem, rows.only(loose), self._of(rows.direction, grading))
            limits[loose] = torch.maximum(limits[loose], finer)
            still = self._loose(problem, rows.only(loose), limits[loose, 0], steps[loose])
            loose = loose[still]
        return limits

    def _loose(self, problem: Problem, rows: "_Rows", radius: Tensor, steps: Tensor) -> Tensor:
        """Rows for which a perturbation (N, n) that is hardly longer than the radius does not change the list."""
        attributions, number = problem.attributions, rows.number
        x = attributions.x[number] + (1 + LOOSE) * steps
        moved, _, _ = slopes_at(self.network, x, attributions.head.rows[number, 0])
        if isinstance(self.explainer, ColumnEffects):
            moved = self._by_columns(moved, attributions.values[number])
        pairs = problem.pairs.only(number)
        others = moved.abs() if pairs.both else moved
        changed = (pairs.sign * moved.gather(1, pairs.top)).amin(1) <= others.gather(1, pairs.rest).amax(1)
        close: Tensor = changed & (steps.norm(dim=1) <= (1 + LOOSE) * radius)
        return (~close & (radius > 0) & radius.isfinite()).nonzero().flatten()

    def _of(self, direction: Tensor, grading: Grading) -> Tables | None:
        key = grading, tuple(direction.tolist())
        if key not in self._tables:
            weights = self.explainer.weights if isinstance(self.explainer, ColumnEffects) else None
            self._tables[key] = tables(self.network, direction, grading=grading, weights=weights)
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
        own = slopes[:, numbers] * self.explainer.weights.to(slopes)[numbers]
        return others.expand(-1, len(columns)).index_copy(1, owner, own)

    def _limits(self, problem: Problem, rows: "_Rows", table: Tables | None) -> tuple[Tensor, Tensor]:
        """Limits (N, k), and perturbations (N, n) that change lists, as far as tables tell."""
        attributions, pairs = problem.attributions, problem.pairs.only(rows.number)
        lists = Lists.of(pairs, attributions.values[rows.number], rows.blur, rows.opposite)
        x = attributions.x[rows.number]
        if table is None:
            return limits_of(lists, lists.frozen())[0], torch.zeros_like(x)
        owner = table.features
        if isinstance(self.explainer, ColumnEffects):
            owner = self.explainer.columns.owner.to(owner.device)[owner]
        limits, steps = limits_of(lists, lists.moves(table, x[:, table.features], owner))
        if isinstance(self.explainer, ColumnEffects):
            limits = limits.clamp_max(FARTHEST)
        return limits, torch.zeros_like(x).index_copy(1, table.features, steps)


@dataclass(frozen=True)
class _Rows:
    """Rows of a problem that share a table.

    Attributes:
        number: in the problem, (N,).
        direction: of whose slopes the table is, (C,).
        blur: what rounding may have made of attributions, (N, columns).
        opposite: whether attributions are the negatives of these slopes, bool (N,).
    """

    number: Tensor
    direction: Tensor
    blur: Tensor
    opposite: Tensor

    def only(self, rows: Tensor) -> "_Rows":
        """Some of them."""
        return _Rows(self.number[rows], self.direction, self.blur[rows], self.opposite[rows])


def limits_of(lists: Lists, moves: Moves) -> tuple[Tensor, Tensor]:
    """Radii below which at most 0, 1, ... k - 1 columns leave, (N, k), and moves (N, m) after which one does."""
    squares, level = squared_limits(lists, moves)
    # whoever displaces more has displaced fewer
    limits = squares.nan_to_num(nan=0.0, posinf=torch.inf).sqrt().cummax(1).values * (1 - INFLATION)
    never = limits.new_full((len(limits), lists.top.shape[1] - lists.most), torch.inf)
    return torch.cat([limits, never], 1), moves.cheapest(level)


def _opposite(rows: Tensor) -> Tensor:
    """Whether the first entry of each direction (N, C) that is not zero is negative, (N,)."""
    first = (rows != 0).to(torch.uint8).argmax(1, keepdim=True)
    return rows.gather(1, first).squeeze(1) < 0


def _rows_at_once(problem: Problem) -> int:
    pairs = problem.pairs
    levels = 2 * FIRST * min(pairs.top.shape[1], pairs.rest.shape[1])
    return max(1, ENTRIES_AT_ONCE // (problem.attributions.x.shape[1] * levels))
