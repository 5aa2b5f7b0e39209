"""A search without gradients: many draws of noise, then changes of a few features, kept where they help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.chains import Chains, search_together
from r2et.attacks.judge import Judge
from r2et.attacks.noise import BLOCK, noise_numbers
from r2et.attacks.task import Task, rowwise
from r2et.errors import InputError
from r2et.numerics.memory import at_once
from r2et.numerics.row_noise import row_normal
from r2et.numerics.values import check_count

#: copies of an input that one judgement keeps
GRAPH = 64
#: how far a change of a few features goes, in units of the radius
LENGTHS = (1.0, 0.5, 2.0, 0.25)
#: the first draw of the random numbers of changes
DRAW = 2**16


@ATTACKS.register("random-search")
@dataclass(frozen=True, kw_only=True)
class RandomSearchAttack(Attack):
    """Draws noise, then changes a few features at a time, up or down; what displaces more is kept.

    It needs no derivative: the attack on explanations that are piecewise constant, and a check on the others. The
    noise is that of NoiseAttack with as many steps, so its result is never kinder.

    Args:
        steps: draws of noise.
        rounds: of changes, each from the best point so far,
        proposals: with this many changes per row.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> result = RandomSearchAttack(k=2, radius=0.5, steps=50)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 0.5 + 1e-6).all()), bool(result.kept.all())
    (True, True)
    """

    by_tables: ClassVar[bool] = True

    steps: int = 1000
    rounds: int = 20
    proposals: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("rounds", self.rounds, least=0)
        check_count("proposals", self.proposals)
        if self.keep == "last":
            raise InputError(f"RandomSearchAttack returns the best it finds; keep={self.keep!r} is not supported")

    def iterations(self) -> int:
        """Draws and rounds."""
        return self.steps + self.rounds

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Search at one radius."""
        self.run_together([best])

    def run_together(self, bests: Sequence[Best]) -> None:
        """Search at all radii at once."""
        search_together(self, bests, self._searched, copies=max(self.proposals, BLOCK))

    def _searched(self, task: Task) -> Chains:
        chains = Chains(task, 1, self.iterations())
        for numbers in noise_numbers(task, self.steps):
            shape = len(numbers), *task.x.shape
            self._try(chains, task.x.expand(shape), numbers.reshape(shape), torch.ones(len(numbers)), noise=True)
        for number in range(self.rounds):
            steps, lengths = self._changes(task, number)
            self._try(chains, chains.best.expand(len(steps), *task.x.shape), steps, lengths)
        return chains

    def _changes(self, task: Task, number: int) -> tuple[Tensor, Tensor]:
        """Signs of a few features, (proposals, N, *features), 0 elsewhere, and lengths in units of the radius."""
        numbers = row_normal(task.x, task.seed, draw=DRAW + number, samples=self.proposals)
        numbers = torch.where(task.movable.repeat(task.attack.explainer.inputs), numbers, 0)
        signs = torch.zeros_like(numbers)
        most = numbers.shape[-1]
        for place, own in enumerate(numbers):
            # one feature, two, four and so on, then one again
            count = 2 ** (place % (most.bit_length()))
            chosen = own.abs().topk(min(count, most), dim=-1).indices
            signs[place].scatter_(-1, chosen, own.sign().gather(-1, chosen))
        lengths = torch.tensor([LENGTHS[(place + number) % len(LENGTHS)] for place in range(len(signs))])
        return signs.reshape(len(signs), *task.x.shape), lengths

    def _try(self, chains: Chains, base: Tensor, steps: Tensor, lengths: Tensor, *, noise: bool = False) -> None:
        """Judge steps (count, N, *features) of some lengths (count,) from base points of the same shape."""
        task = chains.task
        chains.begin(len(steps))
        alive = (chains.precision > 0).nonzero().squeeze(1)
        count = torch.arange(len(steps), device=alive.device)
        pairs = count.repeat_interleave(len(alive)), alive.repeat(len(count))
        size = at_once(task.x[0].numel(), copies=GRAPH)
        for chain, rows in zip(*(part.split(size) for part in pairs), strict=True):
            if not len(rows):
                continue
            own = task.for_attack(self, rows)
            judge = Judge(own)
            far = lengths.to(own.x)[chain] * own.budget
            x = base[chain, rows] + rowwise(far, own.x) * own.direction(steps[chain, rows])
            evaluation = judge.evaluate(own.project(x))
            lost = judge.lost(evaluation.scores, (evaluation.weakest, evaluation.strongest))
            chains.note(chain, rows, evaluation, lost, chain + 1 if noise else 1)
        chains.end(len(steps) if noise else 1)
        chains.keep(1)
