"""The paper's two attacks: projected gradient steps of a fixed length on a loss of the explanation (Sec. 6.1)."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from r2et.attacks.base import ATTACKS, Attack
from r2et.attacks.search import Evaluation, Search
from r2et.numerics.autograd import derivative, negligible
from r2et.scores import Score, check_score, probability_slope


@dataclass(frozen=True, kw_only=True)
class GradientDescentAttack(Attack):
    """Steps of length radius / steps, in the norm of the budget, that lower a loss of the explanation.

    Args:
        score: the score whose explanation the loss sees; the paper's is the probability. Success is judged on
            the explainer's own score, whatever this is.
    """

    score: Score = "probability"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score)

    @abstractmethod
    def loss(self, scores: Tensor, search: Search, clean: Tensor) -> Tensor:
        """What is minimised, (N,), from explanations (N, ..., n) of the iterates and of the clean inputs."""

    def start(self, search: Search) -> Tensor:
        """The first iterate (N, *features)."""
        return search.x

    def value(self, search: Search) -> Callable[[Evaluation], Tensor]:
        """The loss of judged iterates, (N,), as a function of them; called once a run."""
        clean = self._explanation(search, search.evaluate(search.x, create_graph=True)).detach()

        def value(found: Evaluation) -> Tensor:
            with torch.enable_grad():
                return self.loss(self._explanation(search, found), search, clean)

        return value

    def slope(self, search: Search) -> Callable[[Evaluation], Tensor]:
        """The slope that a step goes against, (N, *features), as a function of judged iterates.

        Called once a run: the function may remember what it has seen.
        """
        value = self.value(search)

        def slope(found: Evaluation) -> Tensor:
            with torch.enable_grad():
                total = value(found).sum()
            return derivative(total, found.x)

        return slope

    def run(self, search: Search) -> None:
        """Take the steps; each iterate is judged by the same pass that gives its gradient."""
        slope = self.slope(search)
        length = self.radius / self.steps
        x = self.start(search)
        current = search.evaluate(x, create_graph=True)
        first = 0
        if x is not search.x:
            search.submit(current)
            first = 1
        for step in range(first, self.steps):
            x = search.project(current.x.detach() - length * search.direction(slope(current)))
            # the last iterate is judged, not left again
            current = search.evaluate(x, create_graph=step + 1 < self.steps)
            search.submit(current)

    def _explanation(self, search: Search, found: Evaluation) -> Tensor:
        """The explanation of `self.score` at judged iterates, without a second pass where that is possible."""
        explainer = search.explainer
        if explainer.score == self.score:
            return found.scores
        if explainer.pointwise and (explainer.score, self.score) == ("log-odds", "probability"):
            factor = probability_slope(found.logits, search.target)
            return found.scores * factor.reshape(-1, *[1] * (found.scores.ndim - 1))
        other = replace(explainer, score=self.score)
        with torch.enable_grad():
            return other.flatten(
                other.attribute(search.model, found.x, search.target, found.scores.requires_grad, found.logits)
            )


@ATTACKS.register("er")
@dataclass(frozen=True, kw_only=True)
class ERAttack(GradientDescentAttack):
    """The explanation ranking attack: minimises the sum of gaps between salient and other features (Sec. 6.1).

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> result = ERAttack(k=2, radius=0.5, steps=20)(model, torch.randn(4, 6))
    >>> result.x.shape, bool((result.distance <= 0.5 + 1e-6).all()), bool(result.kept.all())
    (torch.Size([4, 6]), True, True)
    """

    def loss(self, scores: Tensor, search: Search, clean: Tensor) -> Tensor:
        """The mean gap over all k(n-k) pairs, (N,)."""
        return (search.pair_weights * scores).flatten(start_dim=1).sum(1)


@ATTACKS.register("mse")
@dataclass(frozen=True, kw_only=True)
class MSEAttack(GradientDescentAttack):
    """The attack by L2 distance: maximises ||I(x') - I(x)||^2 (Sec. 6.1).

    The distance has no slope at x itself, so the first step goes in a random direction.

    >>> model = torch.nn.Linear(6, 2)
    >>> MSEAttack(k=2, radius=0.5, steps=20)(model, torch.randn(4, 6)).precision
    tensor([1., 1., 1., 1.])
    """

    def start(self, search: Search) -> Tensor:
        """One step in a random direction."""
        return search.project(search.x + self.radius / self.steps * search.random_directions())

    def loss(self, scores: Tensor, search: Search, clean: Tensor) -> Tensor:
        """Minus the squared distance in units of the largest score, (N,).

        Probabilities of a sure model have gradients whose squares underflow; a step has a fixed length, so the
        unit, held constant, changes nothing else. A unit that is negligible would make slopes overflow instead.
        """
        scale = torch.maximum(scores.detach().abs(), clean.abs()).flatten(start_dim=1).amax(1, keepdim=True)
        difference: Tensor = (scores - clean).flatten(start_dim=1) / scale.clamp_min(negligible(clean.dtype))
        return -difference.square().sum(1)
