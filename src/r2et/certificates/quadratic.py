"""The quadratic certificate: slope and curvature at x, and how far that changes.

It is for two hidden layers and a score that is linear in the logits, and for one and the log-odds of many classes.

phi(x + delta) = phi(x) + grad phi . delta + the integral of (1 - t) phi''(x + t delta) over 0 < t < 1. With the
curvature at x this is a quadratic function, whose smallest value on a ball is known. What the curvature may change
by, the more the larger t is, is bounded by another one, which is subtracted.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from r2et.certificates.trust_region import least_on_balls
from r2et.enclosure.attributions import Attributions
from r2et.enclosure.class_expansion import ClassDrift, ClassExpansion, why_not_classes
from r2et.enclosure.drift import Drift
from r2et.enclosure.expansion import Expansion, why_not_expanded
from r2et.enclosure.feature_pairs import FeaturePairs, first_order_radii
from r2et.enclosure.network import Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.second_order import Errors, SecondOrder
from r2et.explainers import Explainer, Gradient

#: balls on the way to a radius that was asked for
ON_THE_WAY = 8
#: functionals of an input that are looked at together, how often, and how many at a radius that was asked for
TOGETHER, ROUNDS, AT_MOST = 16, 4, 512
#: multiplications of a matrix product up to which that many are affordable; of larger ones fewer
AFFORDABLE = 10**6
#: where to look first if nothing is known, as a share of the first-order radius
SHARE = 0.3
#: even steps up to a multiple of the smallest radius known, and geometric ones beyond it
FINE, COARSE, BEYOND = 10, 6, 1.6
#: trial radii of a functional, the share of a guess that is tried, and how exactly it is guessed
TRIALS, CAREFUL, HALVINGS = 4, 0.999, 16
#: entries of the largest tensor that is kept for a group of functionals
ENTRIES = 2**21


def why_not_quadratic(network: Network, explainer: Explainer) -> str | None:
    """Why this bound says nothing about an explanation of a network; None if it does."""
    if type(explainer) is not Gradient:
        return f"it is for Gradient, not for {type(explainer).__name__}"
    if len(network.logits.bias) > 2 and explainer.score not in ("logit", "margin"):
        return why_not_classes(network)
    return why_not_expanded(network)


def expansion_of(attributions: Attributions) -> Expansion | ClassExpansion:
    """What functionals are to second order around the inputs."""
    return Expansion(attributions) if attributions.head.linear else ClassExpansion(attributions)


class Level:
    """Functionals of N inputs on growing balls."""

    def __init__(self, expansion: Expansion | ClassExpansion, pairs: FeaturePairs, times: Tensor) -> None:
        self.expansion, self.pairs = expansion, pairs
        self.drift: Drift | ClassDrift = expansion.drift(times)

    def pieces(self, rows: Tensor, numbers: Tensor) -> list["Piece"]:
        """Functionals by input and number (F,), in groups that stay small."""
        widest = max(self.expansion.second.shape[-2:]) * max(
            self.expansion.first.shape[1], self.drift.times.shape[1]
        )
        size = max(1, ENTRIES // widest)
        return [Piece(self, *part) for part in zip(rows.split(size), numbers.split(size), strict=True)]


class Piece:
    """F functionals of a level."""

    def __init__(self, level: Level, rows: Tensor, numbers: Tensor) -> None:
        i, a, j, b = level.pairs.at(rows, numbers)
        self.rows, self.numbers = rows, numbers
        self.values = level.pairs.values[rows, numbers]
        self.times = level.drift.times[rows]
        self.loss = level.drift.loss[rows] * torch.hypot(a, b).unsqueeze(1)
        self.expanded: SecondOrder = level.expansion.expanded(rows, i, a, j, b)
        self.level = level

    @cached_property
    def errors(self) -> Errors:
        """How far the curvatures move on each ball."""
        return self.expanded.errors(self.level.drift)

    def bounds(self, radius: Tensor) -> Tensor:
        """Lower bounds of the functionals on balls of radii (F,) above 0 and up to the largest, (F,)."""
        errors = self.errors.mean(shares(self.times, radius))
        curvature, slope = self.expanded.curvature(errors), self.expanded.slope
        # the loss on the first ball that holds this one
        reached = (self.times < radius.unsqueeze(1)).sum(1, keepdim=True).clamp_max(self.times.shape[1] - 1)
        lost = self.loss.gather(1, reached).squeeze(1) + radius * self.expanded.slope_error
        bounds = self.values + least_on_balls(slope, curvature, radius) - lost
        # beyond the last ball nothing is known
        return torch.where(radius <= self.times[:, -1], bounds, torch.nan)

    def along(self, radius: Tensor) -> Tensor:
        """The functionals along their steepest descent, to second order, at radii (F,): no bound is above it."""
        along: Tensor = self.values - radius * (self._length - radius * self._bend / 2)
        return along

    @cached_property
    def _length(self) -> Tensor:
        length: Tensor = self.expanded.slope.norm(dim=1)
        return length

    @cached_property
    def _bend(self) -> Tensor:
        """The curvature at x in the direction of the slope, (F,)."""
        unit = self.expanded.slope / self._length.clamp_min(1e-300).unsqueeze(1)
        at_x = self.expanded.curvature(self.expanded.no_errors())
        bend: Tensor = (unit * (at_x @ unit.unsqueeze(2)).squeeze(2)).sum(1)
        return bend

    def crossing(self, cube: Tensor, far: Tensor) -> Tensor:
        """Where `along` less cube r^3 crosses zero, at most `far`, (F,)."""
        low, high = torch.zeros_like(far), far
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            above = self.along(middle) - cube * middle**3 > 0
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        return high


def shares(times: Tensor, radius: Tensor) -> Tensor:
    """The integral of 2 (1 - t) over the part of 0 < t < 1 in which t radius is in each step, (F, T).

    >>> shares(torch.tensor([[1.0, 2.0]]), torch.tensor([2.0]))
    tensor([[0.7500, 0.2500]])
    """
    ends = torch.minimum(times / radius.unsqueeze(1), torch.ones_like(times))
    whole = 2 * ends - ends.square()
    return whole.diff(dim=1, prepend=torch.zeros_like(whole[:, :1]))


def quadratic_at(
    attributions: Attributions, pairs: FeaturePairs, known: Tensor, asked: Sequence[float], *, every: bool = False
) -> Tensor:
    """Radii (N, D) to which functionals are certainly positive: known ones, or larger ones among the asked.

    They are a hair larger than asked: inside of it lies the whole of the ball that was asked about.

    Args:
        attributions: of N inputs.
        pairs: the functionals.
        known: certified radii, (N, D).
        asked: radii.
        every: look at all functionals, not only at those that are the first to turn.
    """
    expansion, radii = expansion_of(attributions), known
    most = known.shape[1] if every else affordable(expansion, AT_MOST)
    shape = torch.arange(1, ON_THE_WAY + 1, dtype=known.dtype, device=known.device) / ON_THE_WAY
    for radius in sorted(asked):
        hair = radius * (1 + INFLATION)
        rows, numbers = smallest(radii, (radii < hair) & (pairs.values > 0), most)
        level = Level(expansion, pairs, hair * shape.expand(len(known), -1))
        for whole in level.pieces(rows, numbers):
            # what turns on the way straight down needs no bound
            hopeful = whole.along(torch.full_like(whole.values, hair)) > 0
            piece = Piece(level, whole.rows[hopeful], whole.numbers[hopeful])
            proven = piece.bounds(torch.full_like(piece.values, hair)) > 0
            radii = radii.index_put((piece.rows[proven], piece.numbers[proven]), radii.new_tensor(hair))
    return radii


def affordable(expansion: Expansion | ClassExpansion, count: int) -> int:
    """How many functionals of an input to look at: `count`, or fewer where each of them is dear."""
    size: int = expansion.first.shape[1]
    dear: int = size * size * max(size, *expansion.second.shape[-2:])
    return max(1, min(count, count * AFFORDABLE // dear))


def smallest(radii: Tensor, wanted: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Inputs and numbers (F,) of the wanted functionals with the smallest radii, at most `count` of each input."""
    order = torch.where(wanted, radii, torch.inf)
    # a hint that is not a number is none
    order = order.nan_to_num(nan=torch.inf, posinf=torch.inf)
    numbers = order.topk(min(count, order.shape[1]), 1, largest=False).indices
    rows, places = wanted.gather(1, numbers).nonzero(as_tuple=True)
    return rows, numbers[rows, places]


def quadratic_radii(
    attributions: Attributions, pairs: FeaturePairs, known: Tensor, *, every: bool = False
) -> Tensor:
    """Radii (N, D) to which functionals are certainly positive, from known ones on: the smallest first.

    See `quadratic_at` for the arguments.
    """
    expansion, radii = expansion_of(attributions), known
    together = -(-known.shape[1] // ROUNDS) if every else affordable(expansion, TOGETHER)
    around = guesses(attributions, pairs, known)
    left = (around > 0) & around.isfinite()
    for _ in range(ROUNDS):
        rows, numbers = smallest(around, left, together)
        if not len(rows):
            break
        chosen = torch.zeros_like(around).index_put((rows, numbers), around[rows, numbers])
        level = Level(expansion, pairs, steps(chosen))
        for piece in level.pieces(rows, numbers):
            at = piece.rows, piece.numbers
            found = searched(piece, radii[at])
            radii, around = radii.index_put(at, found), around.index_put(at, torch.maximum(found, around[at]))
            # one that was cut short by the last ball has its turn again
            left = left.index_put(at, found >= piece.times[:, -1])
    return radii


def guesses(attributions: Attributions, pairs: FeaturePairs, known: Tensor) -> Tensor:
    """Where to look for radii, (N, D): at known ones, or at shares of first-order ones; 0 = nowhere."""
    nothing = (pairs.values > 0) & ~(known > 0)
    if bool(nothing.any()):
        first = first_order_radii(pairs, attributions.slopes_at_x())
        known = torch.where(nothing, SHARE * first, known)
    return torch.where(pairs.values > 0, known, 0.0).nan_to_num(nan=0.0, posinf=torch.inf)


def steps(known: Tensor) -> Tensor:
    """Radii of balls (N, T) for functionals whose known radii, or guesses of them, (N, D) are not 0."""
    least = torch.where(known > 0, known, torch.inf).amin(1, keepdim=True)
    near = BEYOND * torch.where(least.isfinite(), least, 1.0)
    far = BEYOND * torch.maximum(known.amax(1, keepdim=True), near)
    fine, coarse = (
        torch.arange(1, count + 1, dtype=known.dtype, device=known.device) / count for count in (FINE, COARSE)
    )
    return torch.cat([near * fine, near * (far / near) ** coarse], 1)


def searched(piece: Piece, known: Tensor) -> Tensor:
    """The largest radius found at which each functional is certainly positive, from known ones (F,) on, (F,).

    Trials are where a cubic model of the bound crosses zero: what it is along the steepest descent, less a cube
    that fits the last trial. Only what a bound proves counts.
    """
    low, high = known, piece.times[:, -1]
    cube = torch.zeros_like(low)
    for number in range(TRIALS):
        trial = piece.crossing(cube, high) * CAREFUL
        trial = torch.where((trial > low) & (trial < high), trial, high if number == 0 else (low + high) / 2)
        bound = piece.bounds(trial)
        proven = bound > 0
        low, high = torch.where(proven, trial, low), torch.where(proven, high, trial)
        cube = ((piece.along(trial) - bound) / trial**3).nan_to_num(nan=0.0, posinf=0.0).clamp_min(0)
    return low
