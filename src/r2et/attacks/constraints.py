"""Attacks that hold the predictions by a Lagrangian, and the sweep that chooses among them (App. B.2.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et._checks import (
    InputError,
    ModelError,
    check_choice,
    check_differentiable,
    check_logits,
    check_positive,
)
from r2et.attacks.base import Attack
from r2et.attacks.domain import Domain
from r2et.attacks.pgd import ERAttack, GradientDescentAttack
from r2et.attacks.search import Evaluation, Search
from r2et.explain.base import derivative, forward

Weights = Literal["none", "fixed", "gda", "hedge", "qp"]
MOST_GRADIENTS = 4


def divergence(clean: Tensor, logits: Tensor) -> Tensor:
    """KL(f(x) || f(x')) of logits (N, C) at the clean and the perturbed inputs, (N,).

    Written as the gap of logsumexp over its tangent at the clean logits, because its derivative is then
    f(x') - f(x), exactly 0 while nothing has moved.

    >>> clean = torch.tensor([[0.0, 0.0]])
    >>> divergence(clean, torch.tensor([[0.0, 0.0]])), divergence(clean, torch.tensor([[0.0, 2.0]]))
    (tensor([0.]), tensor([0.4338]))
    """
    level = clean.logsumexp(1)
    p = (clean - level[:, None]).exp()
    return logits.logsumexp(1) - level - (p * (logits - clean)).sum(1)


def min_norm_point(gradients: Tensor) -> Tensor:
    """The weights of the point of the gradients' convex hull that is nearest to zero (the QP of App. B.2.3).

    Exact: one small linear system for each face of the simplex, all samples at once.

    Args:
        gradients: (N, M, d), M at most 4. They may be zero, equal or linearly dependent.

    Returns:
        (N, M), non-negative, each row sums to 1. The point is unique, its weights need not be.

    >>> min_norm_point(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [3.0, 1.0]]]))
    tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]])
    """
    if gradients.ndim != 3 or not 1 <= gradients.shape[1] <= MOST_GRADIENTS:
        raise InputError(
            f"min_norm_point takes gradients (N, M, d) with M from 1 to {MOST_GRADIENTS}, got "
            f"{tuple(gradients.shape)}"
        )
    count = gradients.shape[1]
    # squares must not underflow; a factor common to the gradients of a sample leaves its weights as they are
    gradients = gradients / gradients.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(gradients.dtype).tiny)
    # differences from the shortest gradient keep the digits of gradients of very different lengths
    order = gradients.norm(dim=2).argsort(dim=1)
    ranked = gradients.gather(1, order[:, :, None].expand_as(gradients))
    weights = torch.zeros_like(ranked[:, :, 0])
    least = torch.full_like(weights[:, 0], torch.inf)
    for face in (face for size in range(1, count + 1) for face in combinations(range(count), size)):
        candidate = torch.zeros_like(weights)
        candidate[:, list(face)] = _face_weights(ranked[:, list(face)])
        length = (candidate[:, None] @ ranked).squeeze(1).norm(dim=1)
        better = length < least
        weights = torch.where(better[:, None], candidate, weights)
        least = torch.where(better, length, least)
    return torch.zeros_like(weights).scatter(1, order, weights)


def _face_weights(corners: Tensor) -> Tensor:
    """Where the plane through corners (N, m, d) comes nearest to zero, pulled onto the simplex, (N, m).

    The answer of `min_norm_point` lies inside a face with independent corners (Caratheodory). There nothing is
    pulled; a point that is pulled, or comes from a singular system, is a point of the hull all the same and can
    only lose the comparison of lengths.
    """
    first, edges = corners[:, 0], corners[:, 1:] - corners[:, :1]
    length = edges.norm(dim=2, keepdim=True).clamp_min(torch.finfo(corners.dtype).tiny)
    edges = edges / length
    solved = torch.linalg.solve_ex(edges @ edges.mT, -(edges @ first[:, :, None]))[0]
    rest = (solved / length).squeeze(2)
    rest = torch.where(rest.isfinite().all(1, keepdim=True), rest, 0)
    weights = torch.cat([1 - rest.sum(1, keepdim=True), rest], dim=1).clamp_min(0)
    return weights / weights.sum(1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class ConstrainedAttack(GradientDescentAttack):
    objective: Callable[..., GradientDescentAttack] = ERAttack
    weights: Weights = "qp"
    rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, get_args(Weights))
        check_positive("rate", self.rate)

    def loss(self, scores: Tensor, search: Search, clean: Tensor) -> Tensor:
        """g_0: the objective's loss, (N,)."""
        return self._attack().loss(scores, search, clean)

    def start(self, search: Search) -> Tensor:
        """Where the objective's attack starts."""
        return self._attack().start(search)

    def _attack(self) -> GradientDescentAttack:
        shared = {f.name: getattr(self, f.name) for f in fields(GradientDescentAttack)}
        return self.objective(**shared)

    def slope(self, search: Search) -> Callable[[Evaluation], Tensor]:
        if self.weights == "none":
            return super().slope(search)
        value = self.value(search)
        clean = [l.detach() for l in self._logits(search, *forward(search.model, search.x))]
        gamma = torch.full((len(search.x), len(clean) + 1), 1 / (len(clean) + 1)).to(search.before)
        import os
        MODE = os.environ.get("MODE", "raw")

        def slope(found: Evaluation) -> Tensor:
            nonlocal gamma
            with torch.enable_grad():
                logits = self._logits(search, found.x, found.logits)
                values = [value(found), *map(divergence, clean, logits)]
                total = (gamma * torch.stack(values, 1)).sum()
            if self.weights == "qp":
                grads = [search.allowed(derivative(v.sum(), found.x, retain_graph=True)).flatten(1) for v in values]
                g = torch.stack(grads, 1)
                zero = (g == 0).all(2, keepdim=True)
                g = torch.where(zero, g[:, :1], g)
                if MODE == "unit":
                    g = g / g.norm(dim=2, keepdim=True).clamp_min(1e-300)
                w = min_norm_point(g)
                self.__dict__.setdefault("log", []).append(w)
                pt = (w[:, None] @ g).squeeze(1)
                return pt.reshape(search.x.shape)
            step = derivative(total, found.x)
            v = torch.stack(values, 1).detach()
            if self.weights == "gda":
                gamma = gamma + self.rate * torch.cat([torch.zeros_like(v[:, :1]), v[:, 1:]], 1)
                gamma = gamma / gamma.sum(1, keepdim=True)
            elif self.weights == "hedge":
                gamma = (gamma.log() + self.rate * v).softmax(1)
            self.__dict__["log"] = gamma
            return step

        return slope

    def _logits(self, search, point, logits):
        more = [] if search.predictions is None else search.predictions(point)
        return [logits, *more]
