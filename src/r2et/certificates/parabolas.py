"""Closer lower bounds of functionals of one hidden layer on balls: a line and a parabola for each neuron.

A line alone leaves of every neuron the gap between its term and the convex hull of it. With a parabola as well,

    L(lambda, c) = constant + sum_m min_y [beta_m sigma'(z_m + y) - lambda_m y - c_m y^2 / 2]
                   + min over the ball of [(W^T lambda) . delta + delta^T W^T diag(c) W delta / 2],

c of either sign. The last minimum is a trust-region problem: its own dual, in one number mu, has no gap, and every
mu that makes W^T diag(c) W + mu I positive gives a lower bound of it. Again nothing has to converge.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.certificates.dual_bounds import ROUNDING, TARGET, Proof, Terms, snapped
from r2et.certificates.trust_region import lowest_on_balls
from r2et.enclosure.network import CLOSE_FRAME
from r2et.enclosure.ranges import INFLATION

#: how much faster parabolas move than lines
FASTER = 10.0
#: how many directions of the input a layer may read: beyond that, their matrices are too large
MOST_DIRECTIONS = 96
#: entries of matrices that are kept together
ENTRIES = 2**20


def directions_of(weights: Tensor) -> Tensor | None:
    """What a layer (h, n) reads of the input, in as few directions as features move, or as it has rows, (h, d).

    |delta| <= r holds for the part of delta in these directions if and only if it holds for some delta. None if
    they are too many, or if rounding has taken more from a row than it is charged for, however short the row is.
    """
    moving = weights[:, (weights != 0).any(0)]
    if min(moving.shape) > MOST_DIRECTIONS:
        return None
    if moving.shape[1] <= len(moving):
        return moving
    basis, upper = torch.linalg.qr(moving.T)
    skew = (basis.T @ basis - torch.eye(len(moving)).to(basis)).abs().sum(1).amax()
    apart = (moving.T - basis @ upper).norm(dim=0)
    close = bool(skew <= CLOSE_FRAME) and bool((apart <= CLOSE_FRAME * moving.norm(dim=1)).all())
    return upper.T.contiguous() if close else None


@dataclass(frozen=True)
class Multipliers:
    """Slopes and bends of F functionals, (F, h) each."""

    slopes: Tensor
    bends: Tensor

    def only(self, which: Tensor) -> "Multipliers":
        """Some of them."""
        return Multipliers(self.slopes[which], self.bends[which])


def curved(terms: Terms, narrow: Tensor, proof: Proof, steps: int) -> Proof:
    """Open functionals with parabolas as multipliers too, moved along supergradients until they are decided.

    Args:
        terms: F functionals.
        narrow: see `directions_of`, (h, d).
        proof: what is known so far.
        steps: at most.
    """
    chosen = proof.open.nonzero().squeeze(1)
    if not len(chosen) or steps < 1 or not narrow.shape[1]:
        return proof
    value, reached = proof.value.clone(), proof.reached.clone()
    slopes, bends = proof.slopes.clone(), proof.bent.clone()
    for some in chosen.split(max(1, ENTRIES // max(1, narrow.shape[1] ** 2))):
        value[some], reached[some], slopes[some], bends[some] = _ascended(
            terms.only(some), narrow, proof.only(some), steps
        )
    return Proof(value, slopes, reached, bends)


def _ascended(terms: Terms, narrow: Tensor, proof: Proof, steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Proven bounds, smallest values reached, and the best slopes and bends, of functionals that are all open."""
    proven, reached = proof.value.clone(), proof.reached.clone()
    slopes, bends = proof.slopes.clone(), proof.bent.clone()
    highest = proven.clone()
    lengths = terms.lengths.square()
    metric = torch.where(lengths > 0, 1 / lengths, 0.0)
    left = torch.arange(len(proven), device=proven.device)
    at = Multipliers(slopes, bends)
    for number in range(steps):
        part = terms.only(left)
        seen = _looked(part, narrow, at)
        reached[left] = torch.minimum(reached[left], seen.reached)
        better = seen.value > highest[left]
        some = left[better]
        highest[some], slopes[some], bends[some] = seen.value[better], at.slopes[better], at.bends[better]
        # only what looks proven is worth a proof
        hopeful = (better & (seen.value > 0)).nonzero().squeeze(1)
        if len(hopeful):
            bound = _proven(part.only(hopeful), narrow, at.only(hopeful))
            proven[left[hopeful]] = torch.fmax(proven[left[hopeful]], bound)
        rest = ~(proven[left] > 0) & (reached[left] > 0)
        if not bool(rest.any()):
            break
        at = _moved(at, seen, (reached[left], metric, part.radius), number).only(rest)
        left = left[rest]
    return proven, reached, slopes, bends


@dataclass(frozen=True)
class _Look:
    """What a search sees at multipliers.

    Attributes:
        value: about L, (F,).
        reached: the functional at a point of the ball, (F,).
        lines, parabolas: supergradients by slopes and bends, (F, h).
    """

    value: Tensor
    reached: Tensor
    lines: Tensor
    parabolas: Tensor


def loosest(terms: Terms, narrow: Tensor, proof: Proof) -> tuple[Tensor, Tensor, Tensor]:
    """By how much each term is above its minimum where the ball has its own, and both places, (F, h) each."""
    values, places = terms.about_bent(proof.slopes, proof.bent)
    _, delta = _on_ball(terms, narrow, Multipliers(proof.slopes, proof.bent))
    moves = delta @ narrow.T
    return terms.at(moves) - (proof.slopes + proof.bent * moves / 2) * moves - values, places, moves


def _looked(terms: Terms, narrow: Tensor, at: Multipliers) -> _Look:
    values, places = terms.about_bent(at.slopes, at.bends)
    least, delta = _on_ball(terms, narrow, at)
    moves = delta @ narrow.T
    return _Look(
        terms.constant + values.sum(1) + least,
        terms.constant + terms.at(moves).sum(1),
        moves - places,
        (moves.square() - places.square()) / 2,
    )


def _moved(at: Multipliers, seen: _Look, beside: tuple[Tensor, Tensor, Tensor], number: int) -> Multipliers:
    """The next multipliers: a step to where L would be a share of what the functional was seen to be."""
    reached, metric, radius = beside
    bending = FASTER * metric.square() / radius.square().clamp_min(1e-300).unsqueeze(1)
    size = (seen.lines.square() * metric).sum(1) + (seen.parabolas.square() * bending).sum(1)
    length = (TARGET * reached - seen.value) / size.clamp_min(1e-300) / (1 + number / 16)
    length = length.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).unsqueeze(1)
    return Multipliers(
        snapped(at.slopes + length * seen.lines * metric), snapped(at.bends + length * seen.parabolas * bending)
    )


def _proven(terms: Terms, narrow: Tensor, at: Multipliers) -> Tensor:
    """L from below, less what rounding may have added, (F,)."""
    values, _ = terms.least_bent(at.slopes, at.bends)
    least, _ = _on_ball(terms, narrow, at)
    ends = torch.maximum(terms.low.abs(), terms.high.abs())
    far = terms.radius.unsqueeze(1) * terms.lengths
    size = values.abs() + at.slopes.abs() * (2 * ends + far) + at.bends.abs() * (ends.square() + far.square())
    lost = ROUNDING * (size.sum(1) + terms.constant.abs())
    return terms.constant + values.sum(1) + least * (1 + INFLATION) - lost


def _on_ball(terms: Terms, narrow: Tensor, at: Multipliers) -> tuple[Tensor, Tensor]:
    matrix = torch.einsum("fh,hi,hj->fij", at.bends, narrow, narrow)
    return lowest_on_balls(at.slopes @ narrow, matrix, terms.radius.clamp_min(1e-300))
