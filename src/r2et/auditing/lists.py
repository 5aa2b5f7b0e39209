"""Whether the lists of an audit are about single inputs: counted, set beside what holds, and said in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from r2et.auditing.samples import Samples
from r2et.certificates import Bracket
from r2et.explainers import Activation, ByColumns, Explainer
from r2et.individuality import LIST_PER_CLASS, ONE_LIST, Individuality, Kappa
from r2et.numerics.rounding import one_digit, percent


@dataclass(frozen=True)
class KappaBracket:
    """Kappa at one radius, from below and from above.

    Attributes:
        radius: L2 budget of attack and proof.
        proven: of the P@k that no change undercuts; None unless all rows are certified.
        attacked: of the P@k under WorstCase.
    """

    radius: float
    proven: Kappa | None
    attacked: Kappa

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        proven = None if self.proven is None else self.proven.to_dict()
        return {"radius": self.radius, "proven": proven, "attacked": self.attacked.to_dict()}

    def in_words(self) -> str:
        """The bracket, and how far the interval of each end reaches outwards.

        >>> KappaBracket(1.0, Kappa(0.2, 0.1, 0.3), Kappa(0.6, 0.5, 0.7)).in_words()
        '0.20 to 0.60 (95 %: 0.10 to 0.70) at 1'
        >>> KappaBracket(1.0, None, Kappa(0.6, 0.5, 0.7)).in_words()
        'at most 0.60 (95 %: 0.50 to 0.70) at 1'
        """
        start = "at most" if self.proven is None else f"{self.proven.value:.2f} to"
        low, high = (self.proven or self.attacked).low, self.attacked.high
        # with very few rows there is none
        interval = f" (95 %: {low:.2f} to {high:.2f})" if low <= high else ""
        return f"{start} {self.attacked.value:.2f}{interval} at {self.radius:g}"


def count_lists(
    samples: Samples, features: int, *, bracket: Bracket | None, signed: bool, seed: int
) -> tuple[Individuality, tuple[KappaBracket, ...]]:
    """The lists of all rows, and a bracket per radius; none where there is one list for everybody."""
    precision = samples.precision
    certified = bracket is not None and len(bracket) == len(samples)
    if bracket is not None and certified:
        # the same two ends as of P@k
        precision = torch.cat([bracket.attacked.T, bracket.proven.T])
    individuality = Individuality.of(
        samples.top, features, classes=samples.predicted, precision=precision, signed=signed
    )
    kappas = individuality.kappas(seed=seed) or ()
    count = len(samples.radii)
    below: Sequence[Kappa | None] = kappas[count:] if certified else [None] * len(kappas)
    return individuality, tuple(map(KappaBracket, samples.radii, below, kappas[:count]))


def movable_features(movable: Tensor, explainer: Explainer, x: Tensor, features: int) -> Tensor | None:
    """Which of what is ranked can be moved, bool (features,); None if it is no part of an input.

    Args:
        movable: which features of an input an attacker may change, bool (n,).
        explainer: that ranks.
        x: (N, *features of an input).
        features: how many are ranked.
    """
    if isinstance(explainer, Activation):
        return None
    if isinstance(explainer, ByColumns):
        owners = explainer.columns.owner[movable]
        movable = torch.zeros(len(explainer.columns), dtype=torch.bool).index_fill(0, owners, value=True)
    elif explainer.reduce == "abs-sum":
        movable = movable.reshape(x.shape[explainer.inputs], -1).any(0)
    return movable if len(movable) == features else None


def lists_in_words(individuality: Individuality, kappas: Sequence[KappaBracket], movable: float) -> list[str]:
    """How alike the lists are, and kappa, a paragraph each, for a summary."""
    if not individuality.comparable:
        if individuality.total == 1:
            return ["lists: one only, with no other to compare it with"]
        return [f"lists: {individuality.total:,}, of which no two can be compared"]
    shared = f"two share {_percent(individuality.overlap)}"
    if not individuality.signed and _several_classes(individuality):
        shared += f", {_percent(individuality.overlap_in_class)} within a predicted class"
    text = (
        f"lists: {individuality.distinct:,} distinct of {individuality.total:,}, {individuality.effective:.1f} in "
        f"effect; {shared}, {_percent(individuality.chance)} by chance"
    )
    if movable < 1:
        text += f"; {_percent(movable)} of what they name can be moved"
    if individuality.one_for_everybody:
        return [f"{text}: {ONE_LIST}, no kappa"]
    if individuality.one_per_class:
        text += f": {LIST_PER_CLASS}"
    return [text, f"kappa: {', '.join(bracket.in_words() for bracket in kappas)}"]


def _several_classes(individuality: Individuality) -> bool:
    """Whether lists are of several predicted classes, and two of one class can be compared."""
    within = individuality.overlap_in_class
    return within == within and len(individuality.classes.unique()) > 1


def individuality_clause(individuality: Individuality, bracket: KappaBracket | None, names: str = "inputs") -> str:
    """Whether the lists are about single inputs, in a sentence; "" if no two lists can be compared.

    >>> lists = Individuality.of(torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]]), 5)
    >>> individuality_clause(lists, KappaBracket(1.0, None, Kappa(0.6, 0.5, 0.7)), names="rows")
    'The lists differ between rows: 4.0 in effect for 4, two share 33 %, kappa at most 0.60 (95 %: 0.50 to 0.70).'
    """
    if not individuality.comparable:
        return ""
    alike = f"two share {percent(individuality.overlap)}"
    if bracket is None:
        return f"It is {ONE_LIST} ({alike}): it says nothing about a single input."
    kappa = bracket.in_words().removesuffix(f" at {bracket.radius:g}")
    figures = f"{individuality.effective:.1f} in effect for {individuality.total:,}, {alike}, kappa {kappa}"
    if individuality.one_per_class:
        return f"It is {LIST_PER_CLASS} ({figures}), and says nothing more about a single input."
    return f"The lists differ between {names}: {figures}."


def lists_as_json(individuality: Individuality, kappas: Sequence[KappaBracket], movable: float) -> dict[str, Any]:
    """Figures and brackets as plain JSON values; kappa is None where there is one list for everybody."""
    brackets = None if individuality.one_for_everybody else [bracket.to_dict() for bracket in kappas]
    return {**individuality.to_dict(), "movable": movable, "kappa": brackets}


def _percent(share: float) -> str:
    return f"{one_digit(share)} %"
