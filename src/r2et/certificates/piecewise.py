"""Certificates of piecewise-linear networks: ReLU, LeakyReLU and max-pooling, whose Hessian says nothing."""

import torch
from torch import Tensor

from r2et.certificates.deterministic import grid
from r2et.certificates.integral import integral_radii, refined
from r2et.enclosure.attributions import Attributions, joint, pick
from r2et.enclosure.feature_pairs import FeaturePairs, first_order_radii
from r2et.enclosure.hinges import hinge_distances

#: balls up to the nearest hinges, and growing ones
NEAREST, GROWING, GROWTH = 64, 32, 1.12
#: a ball stops this share short of a hinge, more than the inflation of ranges
SHORT = 1e-7


def piecewise_radii(attributions: Attributions, pairs: FeaturePairs) -> Tensor:
    """The radius to which each functional is certainly positive, (N, D): the larger one of two bounds."""
    distances = [hinge_distances(attributions.network, points) for points in attributions.all_points]
    hinges = torch.cat([part.reshape(len(attributions.x), -1) for part in distances], 1)
    return torch.maximum(region_radii(attributions, pairs, hinges), interval_radii(attributions, pairs, hinges))


def region_radii(attributions: Attributions, pairs: FeaturePairs, hinges: Tensor) -> Tensor:
    """Inside one linear region only the log-odds of three or more classes, or x itself, move a gap, (N, D)."""
    region = hinges.amin(1, keepdim=True) * (1 - SHORT)
    first = first_order_radii(pairs, attributions.slopes_at_x())
    enclosed = attributions.on_balls(grid(first), frozen=True)
    return torch.minimum(integral_radii(enclosed, pairs, first), region)


def interval_radii(attributions: Attributions, pairs: FeaturePairs, hinges: Tensor) -> Tensor:
    """On a larger ball each neuron is on, off or open: a functional stays positive for every choice, (N, D).

    With D' the slopes at x + delta and p the derivative of the score by the logits,
    g(x + delta) - g(x) = [J(D') - J(D)]^T p(x) + J(D')^T [p(x + delta) - p(x)]: the first part is enclosed with p
    held at its value, the second is at most ||delta|| times a bound of ||J^T p' J||. Differences of scores, where
    an attribution is one, are continuous: they fall no faster than their enclosed gradients, of any choice, allow.
    """
    enclosed = attributions.on_balls(_times(hinges))
    times = enclosed.times.unsqueeze(1)
    held = [attributions.mean(ball.gradient()) for ball in enclosed.balls]
    center = torch.stack([box.center for box in held], 2)
    radius = torch.stack([box.radius for box in held], 2)
    full = [attributions.mean(ball.cotangent) for ball in enclosed.balls]
    base = attributions.network.base
    largest = torch.stack([(box.center @ base).abs() + box.radius @ base.abs() for box in full], 2)

    def scaled(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, a, j, b = pairs.select(numbers)
        if attributions.times_input:
            a, b = a * attributions.x.gather(1, i), b * attributions.x.gather(1, j)
        return i, a, j, b

    def values(numbers: Tensor) -> Tensor:
        """Lower bounds of the functionals with p held at x, on each ball, (N, D, T)."""
        i, a, j, b = scaled(numbers)
        bounds = []
        for piece in enclosed.pieces(numbers.shape[1]):
            tangents = enclosed.tangents(i[:, piece], a[:, piece], j[:, piece], b[:, piece])
            bounds.append(tangents @ center - tangents.abs() @ radius)
        lower = torch.cat(bounds, 1) - pairs.ties.gather(1, numbers).unsqueeze(2)
        lower = lower + enclosed.drifted(i, a, j, b)
        if attributions.times_input:
            i, a, j, b = pairs.select(numbers)
            moves = attributions.moves
            lower = lower - times * joint(largest, i, a * moves[i], j, b * moves[j])
        return lower

    def last(lower: Tensor) -> Tensor:
        """The largest radius up to which all lower bounds (N, D, T) are positive, (N, D)."""
        held = (lower > 0).cumprod(2).sum(2)
        return (
            torch.cat([torch.zeros_like(times[..., :1]), times], 2)
            .expand(-1, lower.shape[1], -1)
            .gather(2, held.unsqueeze(2))
            .squeeze(2)
        )

    def without_turn(numbers: Tensor) -> Tensor:
        return last(values(numbers))

    def together(numbers: Tensor) -> Tensor:
        i, a, j, b = scaled(numbers)
        turn = pick(enclosed.turn_rows, i) * a.abs().unsqueeze(2)
        turn = turn + pick(enclosed.turn_rows, j) * b.abs().unsqueeze(2)
        return last(values(numbers) - times * turn)

    def alone(numbers: Tensor) -> Tensor:
        return last(values(numbers) - times * enclosed.turns(*scaled(numbers)))

    numbers = torch.arange(pairs.values.shape[1], device=times.device).expand(len(times), -1)
    size = max(1, 2**21 // (len(times) * times.shape[2]))
    above = torch.cat([without_turn(part) for part in numbers.split(size, 1)], 1)
    if attributions.head.linear:
        return above
    return refined(pairs, together, alone, above, times.shape[2])


def _times(hinges: Tensor) -> Tensor:
    """Radii just short of the nearest hinges, where another neuron becomes open, and growing ones, (N, T)."""
    nearest = hinges.topk(min(NEAREST, hinges.shape[1]), 1, largest=False).values
    start = torch.where(nearest[:, :1].isfinite() & (nearest[:, :1] > 0), nearest[:, :1], 1e-3)
    growing = start * GROWTH ** torch.arange(GROWING, device=hinges.device, dtype=hinges.dtype)
    nearest = torch.where(nearest.isfinite(), nearest, growing[:, -1:])
    return torch.cat([nearest, growing], 1).sort(1).values * (1 - SHORT)
