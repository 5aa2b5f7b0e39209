"""How fast the attributions of a chunk of inputs can change on growing balls, and where that turns a gap."""

from collections.abc import Callable

import torch
from torch import Tensor

from r2et.certificates.pairs import Pairs
from r2et.enclosure.ball import march
from r2et.enclosure.box import Box
from r2et.enclosure.head import Head
from r2et.enclosure.jacobian import norm_bound
from r2et.enclosure.network import Network

#: entries of the largest tensor that is kept for a group of functionals: larger ones leave the processor's cache
ENTRIES_AT_ONCE = 2**17
#: functionals that are bounded one by one, beyond those that decide about the radius
AT_MOST = 256

Radii = Callable[[Tensor], Tensor]


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

    def slopes_at_x(self) -> Tensor:
        """The derivative of e at x, (N, n, n)."""
        ball = next(march(self.network, self.points, self.head, self.points.new_zeros(len(self.points), 1)))
        tangents = self.network.base.T.expand(len(self.points), -1, -1)
        hessian = self.mean(ball.product(tangents)).center @ self.network.base
        self.gradient = self.mean(ball.cotangent).center @ self.network.base
        if not self.times_input:
            return hessian
        return self.x.unsqueeze(2) * hessian + torch.diag_embed(self.gradient)

    def march(self, times: Tensor, frozen: bool = False) -> None:
        """Compute the balls of radii `times` (N, T), and how fast single attributions change on them."""
        self.times = times
        self.steps = times.diff(dim=1, prepend=torch.zeros_like(times[:, :1]))
        repeated = times.repeat_interleave(self.copies, 0)
        self.balls = list(march(self.network, self.points, self.head, repeated, frozen))
        error = torch.stack([ball.error for ball in self.balls], 1)
        self.error = error.unflatten(0, (len(self.x), self.copies)).mean(1)
        # whether the gradient of the score is constant on every ball
        self.flat = self.head.linear and (frozen or not self.network.layers)
        features = torch.arange(self.x.shape[1], device=self.x.device).expand(len(self.x), -1)
        one, zero = torch.ones_like(self.x), torch.zeros_like(self.x)
        self.hessian_rows = self.hessian_slopes(features, one, features, zero)
        self.gradient_moved = (self.hessian_rows * self.steps.unsqueeze(1)).cumsum(2)
        self.feature_slopes = self.slopes(features, one, features, zero)

    def slopes(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """Upper bounds of ||grad (a e_i + b e_j)|| on each ball, (N, D, T), for functionals (N, D)."""
        if not self.times_input:
            return self.hessian_slopes(i, a, j, b)
        # grad = d * g + H (d * x), where the gradient g and x itself move as well
        first, second = self.gradient.gather(1, i) * a, self.gradient.gather(1, j) * b
        shift = self.tangents(i, first, j, second), first**2 + second**2
        inner = self.hessian_slopes(i, a * self.x.gather(1, i), j, b * self.x.gather(1, j), shift)
        moved = joint(self.gradient_moved, i, a, j, b)
        return inner + moved + self.times.unsqueeze(1) * joint(self.hessian_rows, i, a, j, b)

    def hessian_slopes(
        self, i: Tensor, a: Tensor, j: Tensor, b: Tensor, shift: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Upper bounds of ||H (a e_i + b e_j) + shift|| on each ball, (N, D, T)."""
        if self.flat and shift is None:
            return i.new_zeros(*i.shape, len(self.balls), dtype=a.dtype)
        found = []
        for piece in self.pieces(i.shape[1]):
            tangent = self.tangents(i[:, piece], a[:, piece], j[:, piece], b[:, piece])
            repeated = tangent.repeat_interleave(self.copies, 0)
            added = None if shift is None else (shift[0][:, piece], shift[1][:, piece])
            bounds = [norm_bound(self.network, self.mean(ball.product(repeated)), added) for ball in self.balls]
            found.append(torch.stack(bounds, 2))
        return torch.cat(found, 1)

    def pieces(self, count: int) -> list[slice]:
        """Slices of so many functionals that what is kept for one slice stays small."""
        widest = max([len(self.network.base), *(len(layer.bias) for layer in self.network.layers)])
        size = max(1, ENTRIES_AT_ONCE // (len(self.points) * widest))
        return [slice(start, start + size) for start in range(0, count, size)]

    def tangents(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """base @ (a e_i + b e_j), (N, D, K)."""
        columns = self.network.base.T
        return columns[i] * a.unsqueeze(2) + columns[j] * b.unsqueeze(2)

    def mean(self, box: Box) -> Box:
        """The mean over the copies of each input."""
        if self.copies == 1:
            return box
        return Box(*(part.unflatten(0, (len(self.x), self.copies)).mean(1) for part in box))

    def error_of(self, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
        """How much a e_i + b e_j may differ between the model and its enclosure, on each ball, (N, D, T)."""
        if self.times_input:
            far = self.times[:, -1:]
            a, b = a * (self.x.gather(1, i).abs() + far), b * (self.x.gather(1, j).abs() + far)
        loss: Tensor = self.error.unsqueeze(1) * (a**2 + b**2).sqrt().unsqueeze(2)
        return loss


def joint(rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Tensor:
    """sqrt((a rows_i)^2 + (b rows_j)^2), (N, D, T), from rows (N, n, T)."""
    squares = rows * rows
    total: Tensor = pick(squares, i) * (a * a).unsqueeze(2) + pick(squares, j) * (b * b).unsqueeze(2)
    return total.sqrt()


def pick(rows: Tensor, indices: Tensor) -> Tensor:
    """Rows by number: (N, n, T) and (N, D) to (N, D, T)."""
    return rows.gather(1, indices.unsqueeze(2).expand(-1, -1, rows.shape[2]))


def integral_radii(problem: Attributions, pairs: Pairs, first: Tensor) -> Tensor:
    """Where each functional may reach zero, (N, D): phi(x + delta) >= phi(x) - integral of its slope.

    Functionals far from zero are bounded together, by the slopes of the two features they are between; the
    others by their own slope.

    Args:
        problem: with balls.
        pairs: the functionals.
        first: first-order radii (N, D), which bound from above what the integral can reach.
    """

    def radii(numbers: Tensor, slopes: Tensor) -> Tensor:
        loss = 2 * problem.error_of(*pairs.select(numbers))
        return crossing(pairs.values.gather(1, numbers), slopes, problem.steps, loss)

    def together(numbers: Tensor) -> Tensor:
        i, _, j, _ = pairs.select(numbers)
        return radii(numbers, pick(problem.feature_slopes, i) + pick(problem.feature_slopes, j))

    def alone(numbers: Tensor) -> Tensor:
        return radii(numbers, problem.slopes(*pairs.select(numbers)))

    if problem.flat and not problem.times_input:
        # nothing on any ball moves the gradient
        return torch.where(pairs.values > 0, torch.inf, 0.0)
    return refined(pairs, together, alone, first, problem.times.shape[1])


def refined(pairs: Pairs, together: Radii, alone: Radii, above: Tensor, times: int) -> Tensor:
    """Radii from joint bounds for all functionals, and from bounds of their own for those that matter, (N, D).

    Args:
        pairs: the functionals.
        together: from numbers of functionals (N, D) to radii (N, D), cheap.
        alone: the same, tight.
        above: upper bounds of the radii, (N, D): a functional that the joint bound certifies farther than its
            pair can reach does not matter.
        times: how many balls there are, for the size of what is computed at once.
    """
    rows = len(above)
    numbers = torch.arange(above.shape[1], device=above.device).expand(rows, -1)
    size = max(1, 2**21 // (rows * times))
    radii = torch.cat([together(part) for part in numbers.split(size, 1)], 1)
    of_pair = above.unflatten(1, (-1, pairs.top.shape[1] * pairs.rest.shape[1])).amin(1)
    matters = radii < of_pair.repeat(1, above.shape[1] // of_pair.shape[1])
    decides = radii < above.amin(1, keepdim=True)
    # as many for a row as it needs, whatever its neighbours in the batch need
    wanted = torch.maximum(decides.sum(1), matters.sum(1).clamp_max(AT_MOST))
    count = int(wanted.max())
    if count == 0:
        return radii
    chosen = torch.where(matters, radii, torch.inf).topk(count, 1, largest=False).indices
    own = torch.cat([alone(part) for part in chosen.split(size, 1)], 1)
    before = radii.gather(1, chosen)
    asked = torch.arange(count, device=above.device) < wanted.unsqueeze(1)
    return radii.scatter(1, chosen, torch.where(asked, torch.maximum(own, before), before))


def crossing(values: Tensor, slopes: Tensor, steps: Tensor, loss: Tensor) -> Tensor:
    """The radius at which value - (integral of slope) - loss reaches zero, (N, D); at most the last radius.

    The slope is constant over a step (the bound for the ball at its end), so the integral is piecewise linear. The
    loss at the end of a step is charged over the whole of it.

    Args:
        values: (N, D).
        slopes: on the ball at the end of each step, (N, D, T).
        steps: (N, T).
        loss: (N, D, T), never decreasing.

    >>> crossing(torch.tensor([[3.0]]), torch.ones(1, 1, 4), torch.ones(1, 4), torch.zeros(1, 1, 4))
    tensor([[3.]])
    """
    steps = steps.unsqueeze(1)
    grown = slopes * steps
    after = grown.cumsum(2)
    left = values.unsqueeze(2) - loss
    crossed = after >= left
    step = crossed.long().argmax(2, keepdim=True)
    share = (left - after + grown).gather(2, step) / slopes.gather(2, step).clamp_min(
        torch.finfo(slopes.dtype).tiny
    )
    times = steps.cumsum(2)
    begin = (times - steps).expand_as(after).gather(2, step)
    at = (begin + share.clamp_min(0)).squeeze(2)
    return torch.where(values > 0, torch.where(crossed.any(2), at, times[..., -1]), 0.0)
