"""The attack to believe first: the scale-free explanation, the pairs next to the boundary, adaptive steps."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.task import Task, rowwise
from r2et.numerics.autograd import derivative, forward, negligible
from r2et.numerics.values import check_choice, check_count, check_positive
from r2et.scores import slack

BoundaryLoss = Literal["hinge", "soft"]
#: pairs next to the boundary that the hinge sees; farther ones weigh less than exp(-5)
MOST_PAIRS = 16
#: slack of the prediction (its log-odds, see `r2et.scores.slack`) below which an iterate is pushed back
SAFE_MARGIN = 0.1


@ATTACKS.register("boundary")
@dataclass(frozen=True, kw_only=True)
class BoundaryAttack(Attack):
    """Pushes the weakest salient features below the strongest others.

    Three differences from ERAttack, in the order of what they bring. It works on |grad s| / ||grad s||_1: the loss
    of ERAttack is lowered most easily by moving p (1 - p), which reorders nothing. It looks at the pairs next to
    the boundary, not at the mean over all pairs. And where a net is piecewise linear, with no curvature to follow,
    the slope comes from a softplus copy; every iterate is judged on the real net. Steps adapt as in APGD: they are
    halved when progress stalls, and the search goes on from the best point.

    Args:
        loss: "hinge": sum_q exp(-(q-1)/3) relu(q-th weakest salient - q-th strongest other + margin); "soft": a
            smooth count of the salient features above the boundary.
        restarts: how many searches, of `steps` each: the first from x, further ones from random points.
        beta: sharpness of the softplus copy; None = 10 for a piecewise-linear net, no copy for a smooth one.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> result = BoundaryAttack(k=2, radius=0.5, steps=20)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 0.5 + 1e-6).all()), bool(result.kept.all())
    (True, True)
    """

    by_tables: ClassVar[bool] = True

    steps: int = 100
    loss: BoundaryLoss = "hinge"
    restarts: int = 1
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loss", self.loss, get_args(BoundaryLoss))
        check_count("restarts", self.restarts)
        if self.beta is not None:
            check_positive("beta", self.beta)

    def iterations(self) -> int:
        """Steps of all restarts."""
        return self.steps * self.restarts

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Search from x, then from random points at half the radius."""
        guide = task.inspected.surrogate(self.beta)
        for restart in range(self.restarts):
            start = task.x
            if restart:
                start = task.project(task.x + self.radius / 2 * task.random_directions(restart))
            self._search(best, guide, start)

    def _search(self, results: Best, guide: nn.Module, start: Tensor) -> None:
        judge = results.judge
        task = judge.task
        x = previous = start
        step = torch.full((len(x),), self.radius, dtype=x.dtype, device=x.device)
        value, slope, _ = self._value_and_slope(judge, guide, x)
        best, best_value, best_slope = x, value, slope
        improved, at_last_check, last_best = torch.zeros_like(value), step.clone(), value.clone()
        checks = checkpoints(self.steps)
        since = 0
        for number in range(1, self.steps + 1):
            momentum = 0.25 if number > 1 else 0.0
            move = momentum * (x - previous) - (1 - momentum) * rowwise(step, x) * task.direction(slope)
            previous, x = x, task.project(x + move)
            old = value
            value, slope, evaluation = self._value_and_slope(judge, guide, x, last=number == self.steps)
            results.submit(evaluation)
            improved += (value < old).to(value.dtype)
            better = value < best_value
            best = torch.where(rowwise(better, x), x, best)
            best_slope = torch.where(rowwise(better, x), slope, best_slope)
            best_value = torch.where(better, value, best_value)
            if number in checks:
                stalled = improved < 0.75 * (number - since)
                stuck = (step == at_last_check) & (best_value >= last_best)
                halve = stalled | stuck
                at_last_check, last_best, since = step, best_value, number
                step = torch.where(halve, step / 2, step)
                x = torch.where(rowwise(halve, x), best, x)
                previous = torch.where(rowwise(halve, x), best, previous)
                slope = torch.where(rowwise(halve, x), best_slope, slope)
                value = torch.where(halve, best_value, value)
                improved = torch.zeros_like(improved)

    def _value_and_slope(
        self, judge: Judge, guide: nn.Module, x: Tensor, *, last: bool = False
    ) -> tuple[Tensor, Tensor, Evaluation]:
        """The loss of iterates (N,), its gradient, and what the judge says about them on the real model."""
        task = judge.task
        if guide is task.model:
            evaluation = judge.evaluate(x, create_graph=not last)
            point, logits, scores = evaluation.x, evaluation.logits, evaluation.scores
            nearest = evaluation.weakest, evaluation.strongest
        else:
            evaluation = judge.evaluate(x)
            point, logits = forward(guide, x)
            with torch.enable_grad():
                attributions = self.explainer.attribute(
                    guide, point, task.target, create_graph=not last, logits=logits
                )
                scores = task.ranked(attributions)
            nearest = judge.boundary(scores.detach())
        with torch.enable_grad():
            value = self.boundary_loss(scores, judge, nearest)
            shortfall = SAFE_MARGIN - slack(logits, task.logits, task.target, task.tolerance)
            if self.keep != "any" and bool((shortfall > 0).any()):
                value = value + shortfall.relu()
        # what cannot be compared is no improvement
        level = value.detach().nan_to_num(nan=torch.inf, posinf=torch.inf)
        slope = torch.zeros_like(x) if last else derivative(value.sum(), point)
        return level, slope, evaluation.detached()

    def boundary_loss(self, scores: Tensor, judge: Judge, nearest: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """The loss of explanations (N, ..., n), (N,); `nearest` saves another look for `judge.boundary`."""
        signed = self.explainer.reduce == "signed"
        total = (scores.abs() if signed else scores).sum(-1, keepdim=True)
        # an explanation of zeros has no shares; dividing by next to nothing would make its slope infinite
        share = scores / torch.where(total > 0, total.clamp_min(negligible(scores.dtype)), 1.0)
        if self.loss == "soft":
            level = share.detach().topk(self.k, dim=-1).values[..., -1:]
            largest = share.detach().abs().amax(-1, keepdim=True).clamp_min(torch.finfo(share.dtype).eps)
            count = torch.sigmoid((share - level) / (0.02 * largest)) * judge.task.top
            return count.flatten(start_dim=1).sum(1)
        nearest = nearest or judge.boundary(scores.detach())
        weakest, strongest = (share.gather(-1, features[..., :MOST_PAIRS]) for features in nearest)
        margin = 0.02 * share.detach().abs().amax(-1, keepdim=True)
        weights = scores.new_tensor([math.exp(-q / 3) for q in range(weakest.shape[-1])])
        hinge = (weakest - strongest + margin).relu() * weights
        return hinge.flatten(start_dim=1).sum(1)


def checkpoints(steps: int) -> set[int]:
    """The iterations at which progress is looked at, ever closer to each other (Croce and Hein 2020).

    >>> sorted(checkpoints(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    places, width, place = set(), 0.22, 0.22
    while place < 1:
        places.add(max(1, round(place * steps)))
        width = max(width - 0.03, 0.06)
        place += width
    return places
