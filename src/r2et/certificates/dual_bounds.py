"""Lower bounds of functionals of one hidden layer on balls, by weak duality.

phi(x + delta) = constant + sum_m beta_m sigma'(z_m + w_m . delta). With y_m = w_m . delta as variables of their
own and a multiplier lambda_m for each, the smallest value on the ball of radius r is at least

    L(lambda) = constant + sum_m min_y [beta_m sigma'(z_m + y) - lambda_m y] - r ||W^T lambda||,

y between the ends that the ball, or a branch of it, allows. Every lambda gives a bound: nothing has to converge.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from r2et.enclosure.ranges import INFLATION, EnclosedActivation
from r2et.enclosure.scalar_minima import Neurons, about_bent, least, least_bent

#: what rounding may take from a sum, as a share of the sum of its absolute terms
ROUNDING = 1e-11
#: a step goes to this share of what the functional is at the best point found: it can hardly be more than that
TARGET = 0.3


@dataclass(frozen=True)
class Bound:
    """L(lambda) of F functionals, with what shows where it is loose.

    Attributes:
        value: L, less what rounding may have added, (F,).
        places: y_m where each neuron's own minimum is, (F, h).
        moves: w_m . delta for the point of the ball that lambda points to, (F, h).
        gaps: by how much each neuron's term is larger at `moves` than at its minimum, (F, h).
        reached: the functional at that point, (F,): an upper bound of the minimum.
    """

    value: Tensor
    places: Tensor
    moves: Tensor
    gaps: Tensor
    reached: Tensor


@dataclass(frozen=True)
class Terms:
    """F functionals, each on a ball or a branch of one; scaled so that the largest beta of each is 1.

    Attributes:
        activation: of the hidden layer.
        weights: of the features that move, or rows with their lengths and angles, (h, n).
        lengths: norms of their rows, (h,).
        beta: (F, h).
        z: pre-activations at x, (F, h).
        low, high: ends of y, (F, h).
        radius: (F,).
        constant: what does not move, less every charge, (F,).
    """

    activation: EnclosedActivation
    weights: Tensor
    lengths: Tensor
    beta: Tensor
    z: Tensor
    low: Tensor
    high: Tensor
    radius: Tensor
    constant: Tensor

    def only(self, which: Tensor) -> "Terms":
        """Some of them, by a mask (F,) or by numbers (M,)."""
        parts = {name: getattr(self, name)[which] for name in self._parts()}
        return replace(self, **parts)

    def _parts(self) -> tuple[str, ...]:
        return "beta", "z", "low", "high", "radius", "constant"

    @property
    def neurons(self) -> Neurons:
        """What the terms are functions of."""
        return Neurons(self.beta, self.z, self.low, self.high)

    def least(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest value of each neuron's term less slope y, and its place, (F, h) each."""
        return least(self.activation, self.neurons, slopes)

    @property
    def bendable(self) -> bool:
        """Whether the terms have minima with a bend too."""
        return self.activation.smooth

    def least_bent(self, slopes: Tensor, bends: Tensor) -> tuple[Tensor, Tensor]:
        """A lower bound of each neuron's term less slope y and bend y^2 / 2, and a place, (F, h) each."""
        return least_bent(self.activation, self.neurons, slopes, bends)

    def about_bent(self, slopes: Tensor, bends: Tensor) -> tuple[Tensor, Tensor]:
        """About the same, in less time, (F, h) each; no bound."""
        return about_bent(self.activation, self.neurons, slopes, bends)

    def at(self, moves: Tensor) -> Tensor:
        """The terms at y = moves, (F, h)."""
        return self.beta * self.activation.slope_at(self.z + moves)

    def chord(self) -> Tensor:
        """Slopes from end to end, (F, h)."""
        width = self.high - self.low
        rise = self.at(self.high) - self.at(self.low)
        return torch.where(width > 0, rise / width, 0.0)

    def tangent(self) -> Tensor:
        """Slopes at x, (F, h)."""
        low, high = self.activation.curvature(self.z, self.z)
        return self.beta * (low + high) / 2

    def bound(self, slopes: Tensor) -> Bound:
        """L at multipliers (F, h)."""
        values, places = self.least(slopes)
        pull = slopes @ self.weights
        norm = pull.norm(dim=1)
        moves = (pull @ self.weights.T) * (-self.radius / norm.clamp_min(1e-300)).unsqueeze(1)
        terms = self.at(moves)
        return Bound(
            value=self._charged(values, slopes, norm),
            places=places,
            moves=moves,
            gaps=terms - slopes * moves - values,
            reached=self.constant + terms.sum(1),
        )

    def _charged(self, values: Tensor, slopes: Tensor, norm: Tensor) -> Tensor:
        """Sums of the terms of L, less what the ball takes and what rounding may have added, (F,)."""
        ends = torch.maximum(self.low.abs(), self.high.abs())
        # the term at its minimum is value + slope y: both parts were rounded
        size = values.abs() + slopes.abs() * (2 * ends + self.radius.unsqueeze(1) * self.lengths)
        lost = ROUNDING * (size.sum(1) + self.constant.abs())
        return self.constant + values.sum(1) - self.radius * norm * (1 + INFLATION) - lost


@dataclass(frozen=True)
class Proof:
    """What is known of F functionals.

    Attributes:
        value: the best lower bound, (F,).
        slopes: its multipliers, (F, h).
        reached: the smallest value that was found at a point, (F,).
        bends: multipliers of parabolas, (F, h), see `parabolas.py`; None = there are none.
    """

    value: Tensor
    slopes: Tensor
    reached: Tensor
    bends: Tensor | None = None

    @property
    def bent(self) -> Tensor:
        """The bends, 0 where there are none, (F, h)."""
        return torch.zeros_like(self.slopes) if self.bends is None else self.bends

    def only(self, which: Tensor) -> "Proof":
        """Of some functionals, by a mask (F,) or by numbers (M,)."""
        bends = None if self.bends is None else self.bends[which]
        return Proof(self.value[which], self.slopes[which], self.reached[which], bends)

    @property
    def open(self) -> Tensor:
        """Neither proven to be positive nor found not to be, (F,)."""
        return ~(self.value > 0) & (self.reached > 0)


def started(terms: Terms) -> Proof:
    """The best of three guesses of the multipliers: from end to end, at x, and between the two."""
    chord, tangent = terms.chord(), terms.tangent()
    proof: Proof | None = None
    for slopes in map(snapped, (chord, (chord + tangent) / 2, tangent)):
        bound = terms.bound(slopes)
        proof = _better(proof, bound, slopes)
    assert proof is not None
    return proof


def ascended(terms: Terms, proof: Proof, steps: int) -> Proof:
    """The multipliers of open functionals moved along supergradients of L, until they are decided."""
    chosen = proof.open.nonzero().squeeze(1)
    if not len(chosen):
        return proof
    value, slopes, reached = proof.value.clone(), proof.slopes.clone(), proof.reached.clone()
    part, now = terms.only(chosen), Proof(value[chosen], slopes[chosen], reached[chosen])
    lengths = terms.lengths.square()
    metric = torch.where(lengths > 0, 1 / lengths, 0.0)
    current = now.slopes
    for number in range(steps):
        bound = part.bound(current)
        now = _better(now, bound, current)
        value[chosen], slopes[chosen], reached[chosen] = now.value, now.slopes, now.reached
        rest = now.open
        if not bool(rest.any()):
            break
        uphill = bound.moves - bound.places
        size = (uphill.square() * metric).sum(1)
        length = (TARGET * now.reached - bound.value) / size.clamp_min(1e-300) / (1 + number / 16)
        current = snapped(current + length.unsqueeze(1) * uphill * metric)[rest]
        chosen, part = chosen[rest], part.only(rest)
        now = Proof(now.value[rest], now.slopes[rest], now.reached[rest])
    return Proof(value, slopes, reached)


def snapped(values: Tensor) -> Tensor:
    """The nearest numbers of single precision, in double precision.

    Sums of a row differ in their last digits with the number of rows beside it, and steps of an ascent amplify
    that until another functional is proven. Multipliers and trial radii may be any: on a coarser grid they are the
    same ones again.
    """
    return values.float().to(values.dtype)


def _better(before: Proof | None, bound: Bound, slopes: Tensor) -> Proof:
    if before is None:
        return Proof(bound.value, slopes, bound.reached)
    # a bound that is not a number proves nothing
    wins = bound.value > before.value
    return Proof(
        torch.where(wins | before.value.isnan(), bound.value, before.value),
        torch.where(wins.unsqueeze(1), slopes, before.slopes),
        torch.minimum(bound.reached, before.reached),
    )
