"""Branch and bound: a functional is positive on a ball if it is on each of its branches."""

from dataclasses import replace

import torch
from torch import Tensor

from r2et.certificates.dual_bounds import Proof, Terms, ascended, snapped

#: steps of ascent on a new branch
STEPS = 8
#: a cut keeps this share of an interval on both sides
AT_LEAST = 0.1


def branched(terms: Terms, proof: Proof, budget: int) -> Tensor:
    """Which of F functionals are positive on their balls, bool (F,), after at most `budget` cuts each.

    The branch with the lowest bound is cut next, at the neuron whose term is loosest. A branch only narrows the
    interval of that neuron's own minimum: what the cut means for the ball is not used, which is sound.
    """
    proven = proof.value > 0
    chosen = proof.open.nonzero().squeeze(1)
    if budget < 1 or not len(chosen):
        return proven
    leaves = _Leaves(terms.only(chosen), _at(proof, chosen), budget)
    for _ in range(budget):
        if not leaves.cut():
            break
    proven[chosen[leaves.numbers[leaves.done]]] = True
    return proven


class _Leaves:
    """Branches of F functionals, at most `budget` + 1 each."""

    def __init__(self, terms: Terms, proof: Proof, budget: int) -> None:
        self.terms = terms
        count, width = len(proof.value), budget + 1
        shape = (count, width, terms.beta.shape[1])
        self.low, self.high, self.slopes = (terms.beta.new_zeros(shape) for _ in range(3))
        self.low[:, 0], self.high[:, 0], self.slopes[:, 0] = terms.low, terms.high, proof.slopes
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
        low, high, slopes = (part[rows, leaf] for part in (self.low, self.high, self.slopes))
        terms = replace(self.terms.only(rows), low=low, high=high)
        neuron, at = _where_to_cut(terms, slopes)
        for place, end in ((leaf, "high"), (torch.full_like(leaf, self.used), "low")):
            half = replace(terms, **{end: getattr(terms, end).scatter(1, neuron, at)})
            bound = half.bound(slopes)
            proof = ascended(half, Proof(bound.value, slopes, self.reached[rows]), STEPS)
            self.low[rows, place], self.high[rows, place] = half.low, half.high
            self.slopes[rows, place], self.value[rows, place] = proof.slopes, proof.value
        self.used += 1
        return True


def _where_to_cut(terms: Terms, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """The neuron with the largest gap and a place in its interval, (F, 1) each."""
    bound = terms.bound(slopes)
    neuron = bound.gaps.nan_to_num(nan=0.0).argmax(1, keepdim=True)
    low, high = terms.low.gather(1, neuron), terms.high.gather(1, neuron)
    between = (bound.places.gather(1, neuron) + bound.moves.gather(1, neuron)) / 2
    least = AT_LEAST * (high - low)
    return neuron, snapped(torch.minimum(torch.maximum(between, low + least), high - least))


def _at(proof: Proof, rows: Tensor) -> Proof:
    return Proof(proof.value[rows], proof.slopes[rows], proof.reached[rows])
