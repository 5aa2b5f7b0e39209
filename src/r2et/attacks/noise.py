"""Untargeted noise of the same norm: what happens by chance, beside what an attacker can do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Judge
from r2et.attacks.task import Task
from r2et.numerics.memory import at_once
from r2et.numerics.row_noise import row_normal
from r2et.numerics.values import check_choice

#: draws that are made at once
BLOCK = 64
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
        for numbers in noise_numbers(task, self.steps, extra=0 if self.kind == "gaussian" else 2):
            for own in numbers:
                best.submit(judge.evaluate(task.project(task.x + self.radius * self._scaled(task, own))))

    def _scaled(self, task: Task, numbers: Tensor) -> Tensor:
        """Noise for a budget of 1 (N, *features) from normal numbers (N, features + extra)."""
        own = numbers[:, : task.x[0].numel()].reshape(task.x.shape)
        if self.kind == "gaussian":
            return task.direction(own)
        if self.norm == "linf":
            return task.allowed(torch.erf(own / 2**0.5))
        # of n + 2 Gaussian numbers, normalised, the first n are uniform in the unit ball
        moving = task.allowed(own).flatten(start_dim=1)
        length = torch.cat([moving, numbers[:, -2:]], dim=1).norm(dim=1, keepdim=True)
        inside: Tensor = moving / length
        return inside.reshape(task.x.shape)


def noise_numbers(task: Task, draws: int, *, extra: int = 0) -> Iterator[Tensor]:
    """Normal numbers (some, N, features + extra) of one draw after the other; more draws begin with the same ones.

    The first draw has numbers of its own, whatever their number; the others come in blocks of one size.
    """
    yield row_normal(task.x, task.seed, draw=1, extra=extra)
    size = min(BLOCK, at_once(task.x[0].numel() + extra, copies=64))
    for number, first in enumerate(range(1, draws, size)):
        yield row_normal(task.x, task.seed, draw=2 + number, samples=size, extra=extra)[: draws - first]
