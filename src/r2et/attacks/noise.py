"""Untargeted noise of the same norm: what happens by chance, beside what an attacker can do."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Judge
from r2et.attacks.task import Task
from r2et.numerics.values import check_choice

NoiseKind = Literal["gaussian", "uniform"]


@ATTACKS.register("noise")
@dataclass(frozen=True, kw_only=True)
class NoiseAttack(Attack):
    """Random perturbations; each of `steps` draws is one iteration.

    `keep="last"` with one step is the effect of chance; `keep="best"` the worst of several draws that keep the
    prediction.

    Args:
        kind: "gaussian": a random direction of the full length of the budget; "uniform": uniform in the ball of
            the budget (for "linf": random signs of the full budget, and uniform in the box).

    >>> model = torch.nn.Linear(6, 2)
    >>> result = NoiseAttack(k=2, radius=0.5, keep="last")(model, torch.randn(4, 6))
    >>> bool(torch.allclose(result.distance, torch.tensor(0.5)))
    True
    """

    steps: int = 1
    kind: NoiseKind = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kind", self.kind, get_args(NoiseKind))

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Draw, judge, hand in."""
        for draw in range(1, self.steps + 1):
            best.submit(judge.evaluate(task.project(task.x + self.radius * self._draw(task, draw))))

    def _draw(self, task: Task, draw: int) -> Tensor:
        if self.kind == "gaussian":
            return task.random_directions(draw)
        if self.norm == "linf":
            return task.allowed(torch.erf(task.random_numbers(draw) / 2**0.5))
        # of n + 2 Gaussian numbers, normalised, the first n are uniform in the unit ball
        numbers = task.random_numbers(draw, extra=2)
        moving = task.allowed(numbers[:, :-2].reshape(task.x.shape)).flatten(start_dim=1)
        length = torch.cat([moving, numbers[:, -2:]], dim=1).norm(dim=1, keepdim=True)
        inside: Tensor = moving / length
        return inside.reshape(task.x.shape)
