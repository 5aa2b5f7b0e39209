"""The paper's two attacks: projected gradient steps of a fixed length on a loss of the explanation (Sec. 6.1)."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.task import Task, rowwise
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
    def loss(self, scores: Tensor, task: Task, clean: Tensor) -> Tensor:
        """What is minimised, (N,), from explanations (N, ..., n) of the iterates and of the clean inputs."""

    def start(self, task: Task) -> Tensor:
        """The first iterate (N, *features)."""
        return task.x

    def value(self, judge: Judge) -> Callable[[Evaluation], Tensor]:
        """The loss of judged iterates, (N,), as a function of them; called once per run."""
        task = judge.task
        clean = self._explanation(task, judge.evaluate(task.x, create_graph=True)).detach()

        def value(evaluation: Evaluation) -> Tensor:
            with torch.enable_grad():
                return self.loss(self._explanation(task, evaluation), task, clean)

        return value

    def slope(self, judge: Judge) -> Callable[[Evaluation], Tensor]:
        """The slope that a step goes against, (N, *features), as a function of judged iterates.

        Called once per run: the function may remember what it has seen.
        """
        value = self.value(judge)

        def slope(evaluation: Evaluation) -> Tensor:
            with torch.enable_grad():
                total = value(evaluation).sum()
            return derivative(total, evaluation.x)

        return slope

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Take the steps; each iterate is judged by the same pass that gives its gradient."""
        slope = self.slope(judge)
        length = self.radius / self.steps
        x = self.start(task)
        current = judge.evaluate(x, create_graph=True)
        first = 0
        if x is not task.x:
            best.submit(current)
            first = 1
        for step in range(first, self.steps):
            # from the iterate itself: what is judged is rounded where the threat has whole numbers
            x = task.project(x - length * task.direction(slope(current)))
            # the last iterate is judged, not left again
            current = judge.evaluate(x, create_graph=step + 1 < self.steps)
            best.submit(current)

    def _explanation(self, task: Task, evaluation: Evaluation) -> Tensor:
        """The explanation of `self.score` at judged iterates, without a second pass where that is possible."""
        explainer, scores, logits = self.explainer, evaluation.scores, evaluation.logits
        if explainer.score == self.score:
            return scores
        if explainer.pointwise and (explainer.score, self.score) == ("log-odds", "probability"):
            return scores * rowwise(probability_slope(logits, task.target), scores)
        other = replace(explainer, score=self.score)
        with torch.enable_grad():
            attributions = other.attribute(
                task.model, evaluation.x, task.target, create_graph=scores.requires_grad, logits=logits
            )
            return task.ranked(attributions)


@ATTACKS.register("er")
@dataclass(frozen=True, kw_only=True)
class ERAttack(GradientDescentAttack):
    """The explanation ranking attack: minimises the sum of gaps between salient and other features (Sec. 6.1).

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> result = ERAttack(k=2, radius=0.5, steps=20)(model, torch.randn(4, 6))
    >>> result.x.shape, bool((result.distance <= 0.5 + 1e-6).all()), bool(result.kept.all())
    (torch.Size([4, 6]), True, True)
    """

    def loss(self, scores: Tensor, task: Task, clean: Tensor) -> Tensor:
        """The mean gap over all k(n-k) pairs, (N,)."""
        return (task.pair_weights * scores).flatten(start_dim=1).sum(1)


@ATTACKS.register("mse")
@dataclass(frozen=True, kw_only=True)
class MSEAttack(GradientDescentAttack):
    """The attack by L2 distance: maximises ||I(x') - I(x)||^2 (Sec. 6.1).

    The distance has no slope at x itself, so the first step goes in a random direction.

    >>> model = torch.nn.Linear(6, 2)
    >>> MSEAttack(k=2, radius=0.5, steps=20)(model, torch.randn(4, 6)).precision
    tensor([1., 1., 1., 1.])
    """

    def start(self, task: Task) -> Tensor:
        """One step in a random direction."""
        return task.project(task.x + self.radius / self.steps * task.random_directions())

    def loss(self, scores: Tensor, task: Task, clean: Tensor) -> Tensor:
        """Minus the squared distance in units of the largest score, (N,).

        Probabilities of a sure model have gradients whose squares underflow; a step has a fixed length, so the
        unit, held constant, changes nothing else. A unit that is negligible would make slopes overflow instead.
        """
        scale = torch.maximum(scores.detach().abs(), clean.abs()).flatten(start_dim=1).amax(1, keepdim=True)
        difference: Tensor = (scores - clean).flatten(start_dim=1) / scale.clamp_min(negligible(clean.dtype))
        return -difference.square().sum(1)
