"""R2ET (Eq. 5): enlarge the gaps between salient and other features, and flatten the explanation."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import unit
from r2et.numerics.values import (
    check_choice,
    check_count,
    check_flag,
    check_k,
    check_kind,
    check_positive,
    check_share,
    check_weight,
)
from r2et.objectives.explained_batch import Direction, ExplainedBatch
from r2et.objectives.objective import OBJECTIVES
from r2et.objectives.regularised import Regularised, Term, check_reference
from r2et.stability import Neighbours, UniformNeighbours, path_explanations
from r2et.stability.ranking_thickness import attacked_within

PairChoice = Literal["all", "boundary"]


@OBJECTIVES.register("r2et")
@dataclass(frozen=True, kw_only=True)
class R2ET(Regularised):
    """Cross-entropy - gap * (mean gap of the top-k pairs) + curvature * ||H v|| (Eq. 5).

    The paper's four variants: `R2ET()`, `R2ET(curvature=0)` (R2ET without H), `R2ET(pairs="boundary")` (R2ET-mm)
    and both. The gap is a mean over pairs, so that a weight means the same for every k and n: the paper's
    lambda_1 is ours / (k (n - k)).

    Args:
        k: size of the salient set.
        gap: weight of the gap (lambda_1).
        curvature: weight of the curvature (lambda_2).
        pairs: "all" k(n-k) pairs, or the "boundary" ones of ranks (k-i+1, k+i).
        boundary_pairs: how many of the latter (k'); None = as many as there are.
        scale_free: both terms on grad s / ||grad s||. The gap of the paper can be enlarged by moving p (1 - p)
            or by growing all gradients; this one cannot.
        reference: a frozen model whose ranking is to be kept (retraining); None = the current ranking.
        direction: of the finite difference: "gradient" (the paper's), "random", or "adversarial", the direction of
            the fastest change, which costs about half as much again. None = "random" if scale-free, else
            "gradient".
        every: regularise once in this many steps, with as many times the weight.
        curvature_fraction: share of the batch that the curvature is measured on.
        difference: length of the finite difference (kappa in Table 4).

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> loss = R2ET(k=3)(model, torch.randn(16, 9), torch.randint(0, 2, (16,)))
    >>> loss.backward()
    """

    k: int = 8
    gap: float = 1.0
    curvature: float = 0.1
    pairs: PairChoice = "all"
    boundary_pairs: int | None = None
    scale_free: bool = False
    reference: nn.Module | None = field(default=None, repr=False)
    direction: Direction | None = None
    every: int = 1
    curvature_fraction: float = 1.0
    difference: float = 1e-2
    _calls: Iterator[int] = field(default_factory=itertools.count, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("k", self.k)
        check_weight("gap", self.gap)
        check_weight("curvature", self.curvature)
        check_choice("pairs", self.pairs, get_args(PairChoice))
        if self.boundary_pairs is not None:
            check_count("boundary_pairs", self.boundary_pairs)
        check_flag("scale_free", self.scale_free)
        check_reference(self.reference)
        check_positive("difference", self.difference)
        if self.direction is not None:
            check_choice("direction", self.direction, get_args(Direction))
        check_count("every", self.every)
        check_share("curvature_fraction", self.curvature_fraction)

    def default_explainer(self) -> Explainer:
        """Log-odds for the scale-free form, whose p (1 - p) cancels; else the probability."""
        return Gradient() if self.scale_free else Gradient(score="probability")

    def active(self, step: int | None) -> bool:
        """Every `every`-th step."""
        return self.every == 1 or (next(self._calls) if step is None else step) % self.every == 0

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean gap and the mean curvature."""
        terms = {}
        if self.gap:
            terms["gap"] = Term(self._gap(batch).mean(), -self.gap * self.every)
        if self.curvature:
            kind = self.direction or ("random" if self.scale_free else "gradient")
            norms = batch.difference_quotient(
                kind, size=self.difference, fraction=self.curvature_fraction, scale_free=self.scale_free
            )
            terms["curvature"] = Term(norms.mean(), self.curvature * self.every)
        return terms

    def _gap(self, batch: ExplainedBatch) -> Tensor:
        scores = batch.scores
        if self.scale_free:
            scores = batch.explainer.flatten(unit(batch.attributions))
        kept = batch.ranking_to_keep(self.reference)
        batch.explainer.check_k(self.k, kept.shape[-1])
        weights = pair_weights(
            batch.explainer.ranked(kept, self.k),
            self.k,
            pairs=self.pairs,
            boundary_pairs=self.boundary_pairs,
            blanks=self.k if batch.explainer.positive else 0,
        )
        return (weights * batch.explainer.ranked(scores, self.k)).sum(-1)


@OBJECTIVES.register("thickness")
@dataclass(frozen=True, kw_only=True)
class DirectThickness(Regularised):
    """Cross-entropy - weight * gap thickness (Eq. 4): the objective that R2ET replaces by cheap bounds.

    Args:
        k: size of the salient set.
        weight: of the thickness (lambda).
        neighbours: the distribution D; None = uniform in a ball of radius 0.1.
        samples: neighbours per sample and step (M_1).
        steps: points on the path to each (M_2).

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> DirectThickness(k=3)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    k: int = 8
    weight: float = 1.0
    neighbours: Neighbours = field(default_factory=lambda: UniformNeighbours(0.1))
    samples: int = 4
    steps: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("k", self.k)
        check_weight("weight", self.weight)
        check_kind("neighbours", self.neighbours, Neighbours, "r2et.stability.UniformNeighbours(0.1)")
        check_count("samples", self.samples)
        check_count("steps", self.steps)

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The mean gap thickness."""
        explainer = batch.explainer
        explainer.check_k(self.k, batch.scores.shape[-1])
        weights = ranking.all_pair_weights(explainer.ranked(batch.scores.detach(), self.k), self.k)
        paths = path_explanations(
            batch.model,
            batch.x.detach(),
            batch.target,
            explainer=batch.explainer,
            neighbours=attacked_within(self.neighbours, self.domain, self.threat),
            samples=self.samples,
            steps=self.steps,
            generator=batch.generator,
            chunk_size=None,
            reach=batch.reach,
            create_graph=True,
        )
        value = torch.cat([(explainer.ranked(scores, self.k) * weights).sum(-1) for scores in paths]).mean()
        return {"thickness": Term(value, -self.weight)}


def pair_weights(
    scores: Tensor, k: int, *, pairs: PairChoice = "all", boundary_pairs: int | None = None, blanks: int = 0
) -> Tensor:
    """Weights (N, ..., n) of the mean gap over all or over the boundary pairs of the ranking of these scores.

    Args:
        scores: (N, ..., n).
        k: size of the salient set.
        pairs: as in `R2ET`.
        boundary_pairs: as in `R2ET`.
        blanks: how many empty places stand first (`r2et.ranking.with_blanks`). The boundary of a list that has
            some is 0: names are paired with empty places.
    """
    check_k(k, scores.shape[-1])
    if pairs == "all":
        return ranking.all_pair_weights(scores, k)
    weights = ranking.boundary_pair_weights(scores, k, boundary_pairs)
    if not blanks:
        return weights
    top = ranking.list_mask(scores.detach(), k)
    count = k if boundary_pairs is None else boundary_pairs
    zero = torch.zeros_like(weights)
    for numbers, share in zip(
        ranking.across_zero(scores.detach()[..., k:], top[..., k:], k), (1, -1), strict=True
    ):
        near = numbers[..., :count]
        zero = zero.scatter_add(-1, near, torch.full_like(scores, share / count)[..., :count])
    return torch.where(top[..., :1], zero, weights)
