"""Attributions of a chunk of inputs, with bounds of how fast they change on growing balls."""

from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.ball import Ball, march
from r2et.enclosure.box import Box
from r2et.enclosure.head import Head
from r2et.enclosure.jacobian import norm_bound
from r2et.enclosure.network import INPUT, ROUNDING, SMALLEST, Network
from r2et.enclosure.slopes import Beside, Slopes, SlopesBeside

#: entries of the largest tensor that is kept for a group of functionals: larger ones leave the processor's cache
ENTRIES_AT_ONCE = 2**17
#: i, a, j, b of functionals a e_i + b e_j, each (N, D)
Functionals = tuple[Tensor, Tensor, Tensor, Tensor]


class Attributions:
    """Signed attributions of one chunk, e(x) = g(x), x * g(x) or the mean of g over copies of x, with enclosures.

    Args:
        network: the model.
        x: (N, n), float64.
        points: where the score's gradient is taken, (N * copies, n): x, or x plus each of the fixed noise vectors.
        head: the score at the points.
        values: e at x, (N, n).
        times_input: whether e is gradient times input.
    """

    def __init__(
        self, network: Network, x: Tensor, points: Tensor, head: Head, values: Tensor, times_input: bool
    ) -> None:
        self.network, self.x, self.points, self.head = network, x, points, head
        self.values, self.times_input = values, times_input
        self.copies = len(points) // len(x)

    def only(self, rows: Tensor) -> "Attributions":
        """The attributions of some inputs, by their numbers (M,)."""
        points = copies_of(rows, self.copies)
        head = self.head.only(points)
        return Attributions(
            self.network, self.x[rows], self.points[points], head, self.values[rows], self.times_input
        )

    @cached_property
    def _start(self) -> Ball:
        """The ball of radius 0 around each point, with the slopes that the backward pass takes there."""
        at = self.points.new_zeros(len(self.points), 1)
        return next(march(self.network, self.points, self.head, at, frozen=True))

    @cached_property
    def gradient(self) -> Tensor:
        """The gradient of the score at x (the mean over copies), (N, n)."""
        return self.mean(self._start.cotangent).center @ self.network.base

    def floor(self) -> Tensor:
        """What rounding may leave of a vanishing attribution, (N, n).

        Slopes are rounded to the precision of 1, not of themselves: where all of them are tiny, a gradient is made
        of rounding errors. Their size follows from the absolute values of all weights on the way.
        """
        network, slopes = self.network, self._start.slopes
        pulls = [torch.zeros_like(slope.center) for slope in slopes]
        total = self.points.new_zeros(self.points.shape)
        last, rows = len(network.layers), self.head.rows.abs().sum(1)
        for source, matrix in network.logits.matrices.items():
            if source != INPUT:
                # not the head's own matrices: where the logits are alike, what is left of them is rounding itself
                pulls[source] = pulls[source] + rows @ matrix.abs()
        if last in network.blocks:
            total = total + rows @ network.base[network.blocks[last]].abs()
        for number in reversed(range(last)):
            back = pulls[number] * (1 + slopes[number].magnitude)
            for source, matrix in network.layers[number].matrices.items():
                if source == INPUT:
                    total = total + back @ matrix.abs()
                else:
                    pulls[source] = pulls[source] + back @ matrix.abs()
        # what is not far above the smallest number has few digits left
        floor = ROUNDING * self.mean(Box(total, total)).center + SMALLEST
        return floor * (1 + self.x.abs()) if self.times_input else floor

    def unsure_at_x(self) -> Tensor:
        """How far `gradient` may be from PyTorch's: at a hinge, or above softplus's switch, (N, n)."""
        error: Tensor = self._start.error.unflatten(0, (len(self.x), self.copies))
        # on a hinge, or as near to one as rounding can bring it, PyTorch may have taken any slope that is open
        near = ROUNDING * (1 + self.points.norm(dim=1, keepdim=True))
        either = self.mean(next(march(self.network, self.points, self.head, near)).cotangent)
        base = self.network.base
        apart = (either.center @ base - self.gradient).abs() + either.radius @ base.abs()
        return apart + 2 * error.mean(1).unsqueeze(1)

    def slopes_at_x(self) -> Slopes | SlopesBeside:
        """The derivatives of e at x by the features that move, as far as their distances go."""
        frame, widest = self.network.frame, max(self.network.widest, self.network.frame.shape[1])
        entries = len(self.points) * widest
        if self.times_input and frame is not self.network.moving:
            return SlopesBeside(self._parts_of, frame, entries)
        return Slopes(lambda numbers: self._rows_of(numbers, frame), self.values.shape[1], entries)

    def _vectors_of(self, numbers: Tensor) -> Tensor:
        """v with v @ base = H d for the directions d of attributions, by their numbers (N, m), (N, m, K)."""
        tangents = self.directions[numbers].repeat_interleave(self.copies, 0)
        return self.mean(self._start.product(tangents)).center

    def _rows_of(self, numbers: Tensor, frame: Tensor) -> Tensor:
        """Derivatives of attributions, by their numbers (N, m), (N, m, d)."""
        hessian = self._vectors_of(numbers) @ frame
        if not self.times_input:
            return hessian
        own = (self.gradient * self.moves).gather(1, numbers).unsqueeze(2)
        itself = torch.zeros_like(hessian).scatter(2, numbers.unsqueeze(2), own)
        return self.x.gather(1, numbers).unsqueeze(2) * hessian + itself

    def _parts_of(self, numbers: Tensor) -> Beside:
        """Derivatives of gradient times input, x_i H_i + g_i e_i, by numbers (N, m)."""
        vectors = self.x.gather(1, numbers).unsqueeze(2) * self._vectors_of(numbers)
        own = (self.gradient * self.moves).gather(1, numbers)
        return Beside(vectors, own, self.directions[numbers])

    @cached_property
    def directions(self) -> Tensor:
        """base @ d of the direction d along which each attribution is a slope, (n, K)."""
        return self.network.base.T

    @cached_property
    def lengths(self) -> Tensor:
        """Norms of these directions d, (n,)."""
        return self.x.new_ones(self.x.shape[1])

    @property
    def all_points(self) -> tuple[Tensor, ...]:
        """Everywhere the network is looked at, a number of points for each input each."""
        return (self.points,)

    def read(self) -> Tensor:
        """e at x by the enclosed network, (N, n)."""
        return self.gradient * self.x if self.times_input else self.gradient

    @cached_property
    def moves(self) -> Tensor:
        """1 for features that may move, else 0, (n,)."""
        movable = self.network.movable
        return self.x.new_ones(self.x.shape[1]) if movable is None else movable.to(self.x)

    def on_balls(self, times: Tensor, *, frozen: bool = False, tilted: bool = False) -> "Enclosed":
        """Enclosures on the balls of radii `times` (N, T), in increasing order.

        Args:
            times: (N, T).
            frozen: take every slope as the backward pass takes it at x, which holds inside one linear region.
            tilted: use tilted bands as well, which are closer and cost more.
        """
        return Enclosed(self, times, frozen=frozen, tilted=tilted)

    def mean(self, box: Box) -> Box:
        """The mean over the copies of each input."""
        if self.copies == 1:
            return box
        return Box(*(part.unflatten(0, (len(self.x), self.copies)).mean(1) for part in box))


class Enclosed:
    """Bounds on the balls of radii `times` (N, T) around each input of `of`."""

    def __init__(self, of: Attributions, times: Tensor, *, frozen: bool, tilted: bool) -> None:
        self.of, self.times, self.tilted = of, times, tilted
        self.steps = times.diff(dim=1, prepend=torch.zeros_like(times[:, :1]))
        repeated = times.repeat_interleave(of.copies, 0)
        self.balls = list(march(of.network, of.points, of.head, repeated, frozen))
        error = torch.stack([ball.error for ball in self.balls], 1)
        self.error = error.unflatten(0, (len(of.x), of.copies)).mean(1)
        #: whether the gradient of the score is constant on every ball
        self.flat = of.network.still or (of.head.linear and (frozen or not of.network.layers))

    @cached_property
    def hessian_rows(self) -> Tensor:
        """Upper bounds of the norm of each row of the Hessian of the score, (N, n, T)."""
        return self.hessian_slopes(*self._features())

    @cached_property
    def gradient_moved(self) -> Tensor:
        """How far each entry of the gradient of the score may have moved, (N, n, T)."""
        return (self.hessian_rows * self.steps.unsqueeze(1)).cumsum(2)

    @cached_property
    def feature_slopes(self) -> Tensor:
        """Upper bounds of ||grad e_i||, (N, n, T)."""
        return self.slopes(*self._features()) if self.of.times_input else self.hessian_rows

    def _features(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values = self.of.values
        numbers = torch.arange(values.shape[1], device=values.device).expand(len(values), -1)
        return numbers, torch.ones_like(values), numbers, torch.zeros_like(values)

    def slopes(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """Upper bounds of ||grad (a e_i + b e_j)|| on each ball, (N, D, T), for functionals (N, D)."""
        if not self.of.times_input:
            return self.hessian_slopes(i, a, j, b)
        # grad = d * g + H (d * x), where the gradient g and x itself move as well; frozen features do not
        inner_a, inner_b = a * self.of.x.gather(1, i), b * self.of.x.gather(1, j)
        a, b = a * self.of.moves[i], b * self.of.moves[j]
        shift = self.of.gradient.gather(1, i) * a, self.of.gradient.gather(1, j) * b
        inner = self.hessian_slopes(i, inner_a, j, inner_b, shift)
        moved = joint(self.gradient_moved, i, a, j, b)
        return inner + moved + self.times.unsqueeze(1) * joint(self.hessian_rows, i, a, j, b)

    def hessian_slopes(
        self, i: Tensor, a: Tensor, j: Tensor, b: Tensor, shift: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Upper bounds of ||H (a e_i + b e_j) + y|| on each ball, (N, D, T), y = shift[0] e_i + shift[1] e_j."""
        if self.flat and shift is None:
            return i.new_zeros(*i.shape, len(self.balls), dtype=a.dtype)
        norms = []
        for piece in self.pieces(i.shape[1]):
            functionals = i[:, piece], a[:, piece], j[:, piece], b[:, piece]
            added = None
            if shift is not None:
                first, second = shift[0][:, piece], shift[1][:, piece]
                added = self.tangents(i[:, piece], first, j[:, piece], second), torch.hypot(first, second)
            norms.append(torch.stack([self._norm(n, functionals, added) for n in range(len(self.balls))], 2))
        return torch.cat(norms, 1)

    def _norm(self, number: int, functionals: Functionals, shift: tuple[Tensor, Tensor] | None) -> Tensor:
        """An upper bound of ||H d + shift|| on a ball, by its number, for functionals (N, D), (N, D)."""
        tangent = self.tangents(*functionals).repeat_interleave(self.of.copies, 0)
        plain = norm_bound(self.of.network, self._vectors(number, tangent, functionals), shift)
        if not self.tilted:
            return plain
        box, tilt = self._tilted_vectors(number, tangent, functionals)
        tilts = tilt, self.times[:, number].unsqueeze(1)
        return torch.minimum(plain, norm_bound(self.of.network, box, shift, tilts))

    def _vectors(self, number: int, tangent: Tensor, functionals: Functionals) -> Box:
        """The box of v with base^T v the gradient of functionals (N, D) on a ball, (N, D, K)."""
        return self.of.mean(self.balls[number].product(tangent))

    def _tilted_vectors(self, number: int, tangent: Tensor, functionals: Functionals) -> tuple[Box, Tensor]:
        """The same around a tilt, (N, D, K) each."""
        box, tilt = self.balls[number].tilted_product(tangent)
        return self.of.mean(box), self.of.mean(Box(tilt, tilt)).center

    def pieces(self, count: int) -> list[slice]:
        """Slices of functionals, few enough that what is kept for one slice stays small."""
        network = self.of.network
        # without products of rows, norms are taken of as many numbers as there are features
        widest = network.widest if network.gram is not None else max(network.widest, network.base.shape[1])
        size = max(1, ENTRIES_AT_ONCE // (len(self.of.points) * widest))
        return [slice(start, start + size) for start in range(0, count, size)]

    def tangents(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """base @ (a d_i + b d_j) for the directions d of two attributions, (N, D, K)."""
        columns = self.of.directions
        return columns[i] * a.unsqueeze(2) + columns[j] * b.unsqueeze(2)

    def drifted(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor | float:
        """Lower bounds of what of functionals (N, D) is no slope of the score, on each ball, (N, D, T)."""
        return 0.0

    def turns(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """Upper bounds of ||H d|| for the slopes in functionals (N, D) on each ball, (N, D, T)."""
        return self.hessian_slopes(i, a, j, b)

    @cached_property
    def turn_rows(self) -> Tensor:
        """The same for single attributions, (N, n, T)."""
        return self.turns(*self._features())

    def error_of(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """How much a e_i + b e_j may differ between the model and its enclosure, on each ball, (N, D, T)."""
        if self.of.times_input:
            far = self.times[:, -1:]
            a, b = a * (self.of.x.gather(1, i).abs() + far), b * (self.of.x.gather(1, j).abs() + far)
        loss: Tensor = self.error.unsqueeze(1) * torch.hypot(a, b).unsqueeze(2)
        return loss


def joint(rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
    """sqrt((a rows_i)^2 + (b rows_j)^2), (N, D, T), from rows (N, n, T)."""
    return torch.hypot(pick(rows, i) * a.unsqueeze(2), pick(rows, j) * b.unsqueeze(2))


def pick(rows: Tensor, indices: Tensor) -> Tensor:
    """Rows by number: (N, n, T) and (N, D) to (N, D, T)."""
    return rows.gather(1, indices.unsqueeze(2).expand(-1, -1, rows.shape[2]))


def copies_of(rows: Tensor, copies: int) -> Tensor:
    """The numbers of the points of inputs that have `copies` of them each, from the inputs' numbers (M,)."""
    return (rows.unsqueeze(1) * copies + torch.arange(copies, device=rows.device)).flatten()
