"""Branch and bound: a functional is positive on a ball if it is on each of its branches."""

from dataclasses import replace

import torch
from torch import Tensor

from r2et.certificates.dual_bounds import Proof, Terms, ascended, snapped
from r2et.certificates.parabolas import curved, loosest

#: steps of ascent on a new branch, and on the whole ball before the first cut: a poor start is cut again and again
STEPS, BEFORE = 50, 100
#: a cut keeps this share of an interval on both sides
AT_LEAST = 0.1


def branched(terms: Terms, proof: Proof, budget: int, narrow: Tensor | None = None) -> Tensor:
    """Which of F functionals are positive on their balls, bool (F,), after at most `budget` cuts each.

    With `narrow` (see `parabolas.directions_of`) the branches have parabolas as multipliers too.

    The branch with the lowest bound is cut next, at the neuron whose term is loosest. A branch only narrows the
    interval of that neuron's own minimum: what the cut means for the ball is not used, which is sound.
    """
    if budget < 1:
        return proof.value > 0
    if narrow is not None:
        proof = curved(terms, narrow, proof, BEFORE)
    proven = proof.value > 0
    chosen = proof.open.nonzero().squeeze(1)
    if not len(chosen):
        return proven
    leaves = _Leaves(terms.only(chosen), proof.only(chosen), budget, narrow)
    for _ in range(budget):
        if not leaves.cut():
            break
    proven[chosen[leaves.numbers[leaves.done]]] = True
    return proven


class _Leaves:
    """Branches of F functionals, at most `budget` + 1 each."""

    def __init__(self, terms: Terms, proof: Proof, budget: int, narrow: Tensor | None) -> None:
        self.terms, self.narrow = terms, narrow
        count, width = len(proof.value), budget + 1
        shape = (count, width, terms.beta.shape[1])
        self.low, self.high, self.slopes, self.bends = (terms.beta.new_zeros(shape) for _ in range(4))
        self.low[:, 0], self.high[:, 0] = terms.low, terms.high
        self.slopes[:, 0], self.bends[:, 0] = proof.slopes, proof.bent
        self.value = terms.beta.new_full((count, width), torch.inf)
        self.value[:, 0] = proof.value
        self.reached = proof.reached.clone()
        self.used = 1
        self.numbers = torch.arange(count, device=terms.beta.device)

    @property
    def done(self) -> Tensor:
        """Whether every branch of a functional is proven, (F,)."""
        return (self.value > 0).all(1)

    def cut(self) -> bool:
        """Cut the lowest branch of every functional that is open; False if none is."""
        rows = (~self.done & (self.reached > 0)).nonzero().squeeze(1)
        if not len(rows):
            return False
        # a NaN bound counts as the lowest
        leaf = self.value[rows].nan_to_num(nan=-torch.inf).argmin(1)
        low, high = self.low[rows, leaf], self.high[rows, leaf]
        terms = replace(self.terms.only(rows), low=low, high=high)
        before = Proof(self.value[rows, leaf], self.slopes[rows, leaf], self.reached[rows], self.bends[rows, leaf])
        neuron, at = _where_to_cut(terms, self._gaps(terms, before))
        for place, end in ((leaf, "high"), (torch.full_like(leaf, self.used), "low")):
            half = replace(terms, **{end: getattr(terms, end).scatter(1, neuron, at)})
            proof = self._bounded(half, before)
            self.low[rows, place], self.high[rows, place] = half.low, half.high
            self.slopes[rows, place], self.bends[rows, place] = proof.slopes, proof.bent
            self.value[rows, place] = proof.value
            self.reached[rows] = torch.minimum(self.reached[rows], proof.reached)
        self.used += 1
        return True

    def _gaps(self, terms: Terms, proof: Proof) -> tuple[Tensor, Tensor, Tensor]:
        """How loose each neuron is, where its minimum is, and where the ball's is, (F, h) each."""
        if self.narrow is not None:
            return loosest(terms, self.narrow, proof)
        bound = terms.bound(proof.slopes)
        return bound.gaps, bound.places, bound.moves

    def _bounded(self, half: Terms, before: Proof) -> Proof:
        """What is known of one half of a branch: at least what was known of the whole."""
        if self.narrow is not None:
            return curved(half, self.narrow, before, STEPS)
        bound = half.bound(before.slopes)
        return ascended(half, Proof(bound.value, before.slopes, before.reached), STEPS)


def _where_to_cut(terms: Terms, seen: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The neuron with the largest gap and a place in its interval, (F, 1) each."""
    gaps, places, moves = seen
    neuron = gaps.nan_to_num(nan=0.0).argmax(1, keepdim=True)
    low, high = terms.low.gather(1, neuron), terms.high.gather(1, neuron)
    between = (places.gather(1, neuron) + moves.gather(1, neuron)) / 2
    least = AT_LEAST * (high - low)
    return neuron, snapped(torch.minimum(torch.maximum(between, low + least), high - least))
