"""Effects of the columns of a table, with bounds of how fast they change while its numbers move.

A number's effect is a slope of the score, so its derivative is a row of the Hessian. The effect of a discrete
column is s(x) - sum_v p_v s(x with value v): its derivative is a difference of gradients of the score, at the row
itself and at the rows that differ from it in this column. All of them are base^T v with a box for v; boxes are
added up before a norm is taken, so that what is common to these rows cancels.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.columns import Columns
from r2et.enclosure.attributions import Attributions, Enclosed, Functionals, copies_of, pick
from r2et.enclosure.ball import Ball, march
from r2et.enclosure.box import Box
from r2et.enclosure.head import Head
from r2et.enclosure.jacobian import norm_bound
from r2et.enclosure.network import INPUT, ROUNDING, SMALLEST, Network, preactivation, rounding_of


@dataclass(frozen=True)
class Variants:
    """The rows that differ from each of N rows in one discrete column, V of them for a row.

    Attributes:
        points: (N * V, n), float64.
        head: the score at the points.
        share: how much each counts, (N, V).
        column: which column differs, int64 (N, V).
        columns: how many columns there are.
    """

    points: Tensor
    head: Head
    share: Tensor
    column: Tensor
    columns: int

    def only(self, rows: Tensor) -> "Variants":
        """The variants of some rows, by their numbers (M,)."""
        points = copies_of(rows, self.share.shape[1])
        return Variants(
            self.points[points], self.head.only(points), self.share[rows], self.column[rows], self.columns
        )

    def summed(self, values: Tensor) -> Tensor:
        """Sums over the variants of each column, weighted by their share: (N * V, ...) to (N, columns, ...)."""
        return self._summed(values, self.column, self.columns)

    def in_slots(self, values: Tensor) -> Tensor:
        """The same for the columns that variants differ in alone, and a slot of zeros: (N, slots, ...)."""
        return self._summed(values, self.slot[self.column], int(self.slot.max()) + 1)

    @cached_property
    def slot(self) -> Tensor:
        """The slot of each column, the last one for columns that no variant differs in, (columns,)."""
        differ = torch.zeros(self.columns, dtype=torch.bool, device=self.column.device)
        differ[self.column.flatten()] = True
        return torch.where(differ, differ.cumsum(0) - 1, differ.sum())

    def _summed(self, values: Tensor, place: Tensor, places: int) -> Tensor:
        rows, count = self.share.shape
        each = values.unflatten(0, (rows, count)) * self.share.reshape(rows, count, *[1] * (values.ndim - 1))
        place = place.reshape(rows, count, *[1] * (values.ndim - 1)).expand_as(each)
        sums: Tensor = each.new_zeros(rows, places, *values.shape[1:]).scatter_add(1, place, each)
        return sums

    @cached_property
    def weight(self) -> Tensor:
        """What the row itself counts in the effect of each column, (N, columns)."""
        return self.summed(torch.ones_like(self.share).flatten())


class ColumnAttributions(Attributions):
    """Signed effects of columns of one chunk, e(x) (N, columns), with enclosures.

    Args:
        network: the model, on balls of the numbers.
        x: (N, n), float64.
        head: the score at x.
        values: e at x, (N, columns).
        columns: of the table.
        variants: the rows that discrete columns are compared with.
        differences: the effects of discrete columns at x by the network, 0 for numbers, (N, columns).
        weights: what the slope of each feature counts, 0 for what is no number, (n,).
    """

    def __init__(
        self,
        network: Network,
        x: Tensor,
        head: Head,
        values: Tensor,
        *,
        columns: Columns,
        variants: Variants,
        differences: Tensor,
        weights: Tensor,
    ) -> None:
        super().__init__(network, x, x, head, values, times_input=False)
        self.variants, self.differences = variants, differences
        self.columns = columns
        #: the column of each feature, and what its slope counts, (n,) each
        self.owner, self.numbers = columns.owner.to(x.device), weights.to(x)

    def only(self, rows: Tensor) -> "ColumnAttributions":
        """The effects of some rows, by their numbers (M,)."""
        return ColumnAttributions(
            self.network,
            self.x[rows],
            self.head.only(rows),
            self.values[rows],
            columns=self.columns,
            variants=self.variants.only(rows),
            differences=self.differences[rows],
            weights=self.numbers,
        )

    @cached_property
    def directions(self) -> Tensor:
        """base @ d of the direction along which each column is a slope, 0 for discrete ones, (columns, K)."""
        return self.by_columns(self.network.base).T

    def by_columns(self, values: Tensor) -> Tensor:
        """Sums over the features of each column that is a number: (..., n) to (..., columns)."""
        sums = values.new_zeros(*values.shape[:-1], len(self.columns))
        return sums.scatter_add(-1, self.owner.expand(values.shape), values * self.numbers)

    @cached_property
    def lengths(self) -> Tensor:
        """Norms of these directions d, (columns,)."""
        lengths: Tensor = self.by_columns(self.numbers).sqrt()
        return lengths

    @property
    def all_points(self) -> tuple[Tensor, ...]:
        """Everywhere the network is looked at."""
        return self.x, self.variants.points

    def read(self) -> Tensor:
        """The effects as the enclosed network has them, (N, columns)."""
        return self.by_columns(self.gradient) + self.differences

    def floor(self) -> Tensor:
        """What rounding may leave of a vanishing effect, (N, columns)."""
        own = _logarithm_error(self.head)
        here, there = (own + _score_rounding(self.network, points) for points in self.all_points)
        differences = self.variants.weight * here.unsqueeze(1) + self.variants.summed(there)
        return self.by_columns(super().floor()) + differences + SMALLEST

    def unsure_at_x(self) -> Tensor:
        """How far slopes of numbers may be from PyTorch's, (N, columns); differences of scores have no hinges."""
        return self.by_columns(super().unsure_at_x())

    def _rows_of(self, numbers: Tensor, frame: Tensor) -> Tensor:
        """Derivatives of effects, by the numbers of columns (N, m), (N, m, d)."""
        own = self.variants.weight.gather(1, numbers).unsqueeze(2) * self._start.cotangent.center.unsqueeze(1)
        other = pick(self._others_at_x, self.variants.slot[numbers])
        return super()._rows_of(numbers, frame) + (own - other) @ frame

    @cached_property
    def _others_at_x(self) -> Tensor:
        """What the variants add at x, (N, slots, K)."""
        start = next(march(self.network, self.variants.points, self.variants.head, self._nowhere, frozen=True))
        return self.variants.in_slots(start.cotangent.center)

    @property
    def _nowhere(self) -> Tensor:
        return self.variants.points.new_zeros(len(self.variants.points), 1)

    def on_balls(self, times: Tensor, *, frozen: bool = False, tilted: bool = False) -> "EnclosedColumns":
        """Enclosures on the balls of radii `times` (N, T), in increasing order."""
        return EnclosedColumns(self, times, frozen=frozen, tilted=tilted)


class EnclosedColumns(Enclosed):
    """Bounds on the balls of radii `times` (N, T) around each row of `of`."""

    of: ColumnAttributions

    def __init__(self, of: ColumnAttributions, times: Tensor, *, frozen: bool, tilted: bool) -> None:
        super().__init__(of, times, frozen=frozen, tilted=tilted)
        # inside one linear region the slopes stay and the differences do not
        self.flat = of.network.still or (of.head.linear and not of.network.layers)
        variants = of.variants
        repeated = times.repeat_interleave(variants.share.shape[1], 0)
        #: what the variants add to each column on each ball, boxes (N, slots, K), with tilts
        self.others: list[Box] = []
        self.tilted_others: list[tuple[Box, Tensor]] = []
        errors = []
        for ball, there in zip(
            self.balls, march(of.network, variants.points, variants.head, repeated, frozen), strict=True
        ):
            self.others.append(Box(*map(variants.in_slots, there.cotangent)))
            if tilted:
                box, tilt = there.tilted_cotangent()
                self.tilted_others.append((Box(*map(variants.in_slots, box)), variants.in_slots(tilt)))
            here = variants.weight * score_error(ball).unsqueeze(1)
            errors.append(here + variants.summed(score_error(there)))
        self.score_errors = torch.stack(errors, 2)

    def _vectors(self, number: int, tangent: Tensor, functionals: Functionals) -> Box:
        box = super()._vectors(number, tangent, functionals)
        return box.plus(self._differences(self.balls[number].cotangent, self.others[number], functionals))

    def _tilted_vectors(self, number: int, tangent: Tensor, functionals: Functionals) -> tuple[Box, Tensor]:
        box, tilt = super()._tilted_vectors(number, tangent, functionals)
        own, own_tilt = self.balls[number].tilted_cotangent()
        others, other_tilt = self.tilted_others[number]
        none = Box.point(own_tilt), Box.point(other_tilt)
        added = self._differences(own, others, functionals)
        return box.plus(added), tilt + self._differences(*none, functionals).center

    def _differences(self, own: Box, others: Box, functionals: Functionals) -> Box:
        """The box of v with base^T v the gradient of the discrete part of functionals, (N, D, K)."""
        i, a, j, b = functionals
        weight, slot = self.of.variants.weight, self.of.variants.slot
        here = (a * weight.gather(1, i) + b * weight.gather(1, j)).unsqueeze(2)
        first, second = (
            Box(*(pick(part, slot[column]) for part in others)).times(Box.point(factor.unsqueeze(2)))
            for column, factor in ((i, -a), (j, -b))
        )
        return Box(here * own.center.unsqueeze(1), here.abs() * own.radius.unsqueeze(1)).plus(first).plus(second)

    def drifted(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """Lower bounds of the discrete part of functionals on each ball, (N, D, T)."""
        discrete = self.of.differences
        start = a * discrete.gather(1, i) + b * discrete.gather(1, j)
        norms = []
        for piece in self.pieces(i.shape[1]):
            some = i[:, piece], a[:, piece], j[:, piece], b[:, piece]
            boxes = (
                self._differences(ball.cotangent, others, some)
                for ball, others in zip(self.balls, self.others, strict=True)
            )
            norms.append(torch.stack([norm_bound(self.of.network, box) for box in boxes], 2))
        return start.unsqueeze(2) - (torch.cat(norms, 1) * self.steps.unsqueeze(1)).cumsum(2)

    def turns(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """Upper bounds of ||H d|| for the numbers of functionals on each ball, (N, D, T)."""
        norms = []
        for piece in self.pieces(i.shape[1]):
            tangent = self.tangents(i[:, piece], a[:, piece], j[:, piece], b[:, piece])
            norms.append(torch.stack([ball.curvature(tangent) for ball in self.balls], 2))
        return torch.cat(norms, 1)

    def error_of(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """How much a e_i + b e_j may differ between the model and its enclosure, on each ball, (N, D, T)."""
        length = self.of.lengths
        slopes = self.error.unsqueeze(1) * torch.hypot(a * length[i], b * length[j]).unsqueeze(2)
        first, second = (
            pick(self.score_errors, column) * factor.abs().unsqueeze(2) for column, factor in ((i, a), (j, b))
        )
        loss: Tensor = slopes + first + second
        return loss


def score_error(ball: Ball) -> Tensor:
    """How far the score itself may be from PyTorch's on a ball, (N,)."""
    # the derivatives of log-odds by the logits add up to 2, in absolute values
    return ball.output_error.amax(1) * (1 if ball.head.linear else 2) + _logarithm_error(ball.head)


def _logarithm_error(head: Head) -> float:
    """What rounding may do to the logarithm of the sum over the other classes, however small all logits are."""
    return 0.0 if head.linear else ROUNDING * math.log(head.rows.shape[1])


def _score_rounding(network: Network, x: Tensor) -> Tensor:
    """By how much rounding may have moved the score at points x (N, n), (N,): as all logits together."""
    values: dict[int, Tensor] = {INPUT: x}
    errors: dict[int, Tensor] = {}

    def error_of(matrices: dict[int, Tensor], own: Tensor) -> Tensor:
        for source, matrix in matrices.items():
            own = own + errors[source] @ matrix.abs().T if source != INPUT else own
        return own

    for number, layer in enumerate(network.layers):
        assert layer.activation is not None
        z = preactivation(layer, values)
        error = error_of(layer.matrices, rounding_of(layer, values))
        steepest = torch.stack(layer.activation.slope(z - error, z + error)).abs().amax(0)
        values[number] = layer.activation.value(z)
        errors[number] = steepest * error + ROUNDING * values[number].abs()
    return error_of(network.logits.matrices, rounding_of(network.logits, values)).sum(1)
