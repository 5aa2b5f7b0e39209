"""The best that an attack has found so far, row by row."""

from collections.abc import Callable

import torch
from torch import Tensor

from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.task import rowwise
from r2et.numerics.values import check_kind


class Best:
    """The best iterate of each row: the one with the lowest P@k, or for some attacks the flip nearest to x.

    Args:
        judge: decides what counts.
        advance: told of every iteration, for a progress bar; None = nobody is.

    Attributes:
        x: the best iterates (N, *features); at first the clean inputs.
        precision: their P@k (N,).
        kept: whether their predicted class is unchanged, bool (N,).
        first_flip: the first iteration with a flip (N,), -1 = never.
        iteration: how many sets of iterates were handed in.
        history: P@k at each iteration, the clean input first, (N,) each; empty unless the attack records it.
        details: what else an attack has to tell, by name, each (N, ...).
        notes: what a reader of the figures must know about the search, each once, in order.
    """

    def __init__(self, judge: Judge, advance: Callable[[int], None] | None = None) -> None:
        task = judge.task
        self.judge, self.advance = judge, advance or _nobody
        self.x = task.x.clone()
        self.precision = torch.ones(len(task.x), dtype=task.before.dtype, device=task.x.device)
        self.kept = torch.ones_like(task.target, dtype=torch.bool)
        self.first_flip = torch.full_like(task.target, -1)
        self.iteration = 0
        self.history: list[Tensor] = [self.precision] if task.attack.history else []
        self.details: dict[str, Tensor] | None = None
        self.notes: dict[str, None] = {}

    def submit(self, evaluation: Evaluation) -> Tensor:
        """Hand in the iterates of one iteration: the best feasible one of each row is remembered.

        Returns:
            Which of them count, bool (N,). An iterate that is not finite, that is outside of the budget or the
            domain, or whose logits or explanation are not finite, is never remembered and is no flip, whatever
            `keep` says. What `judge.evaluate` did not give, or what was changed since, is judged again.
        """
        check_kind("evaluation", evaluation, Evaluation, "what judge.evaluate(x) returns")
        if not evaluation.genuine:
            evaluation = self.judge.evaluate(evaluation.x)
        attack = self.judge.task.attack
        self.iteration += 1
        legal = self.judge.accept(evaluation)
        flips = legal & (evaluation.lowest < attack.flip_below)
        if attack.keep != "last":
            flips = flips & evaluation.kept
        better = self._better(evaluation) & legal
        self.first_flip[flips & (self.first_flip < 0)] = self.iteration
        self._take(better, evaluation)
        self.kept = torch.where(better, evaluation.kept, self.kept)
        if attack.history:
            self.history.append(torch.where(legal, evaluation.precision, self.history[-1]))
        self.advance(1)
        return legal

    def adopt(self, rows: Tensor, x: Tensor, first_flip: Tensor) -> None:
        """Take over what an attack found for some rows (M,) where it is better; it is judged once more.

        Args:
            rows: their numbers, int64 (M,).
            x: perturbed inputs (M, *features).
            first_flip: in iterations of that attack (M,), -1 = never.
        """
        if not len(rows):
            return
        evaluation = self.judge.evaluate(self.x.index_copy(0, rows, x))
        named = torch.zeros_like(self.kept).index_fill(0, rows, value=True)
        counts = self.judge.accept(evaluation) & evaluation.kept & named
        flips = torch.full_like(self.first_flip, -1).index_copy(0, rows, first_flip)
        flipped = counts & (evaluation.lowest < self.judge.task.attack.flip_below) & (flips >= 0)
        self.first_flip = torch.where(flipped & (self.first_flip < 0), self.iteration + flips, self.first_flip)
        self._take(counts & (evaluation.precision < self.precision), evaluation)

    def _better(self, evaluation: Evaluation) -> Tensor:
        """Which iterates are better than the best so far if they are legal, bool (N,)."""
        task, attack = self.judge.task, self.judge.task.attack
        if attack.keep == "last":
            return torch.ones_like(evaluation.kept)
        if not attack.nearest:
            return evaluation.kept & (evaluation.precision < self.precision)
        nearer = (self.precision == 1) | (task.distance(evaluation.x.detach()) < task.distance(self.x))
        return evaluation.kept & (evaluation.lowest < attack.flip_below) & nearer

    def _take(self, rows: Tensor, evaluation: Evaluation) -> None:
        self.x = torch.where(rowwise(rows, self.x), evaluation.x.detach(), self.x)
        self.precision = torch.where(rows, evaluation.precision, self.precision)


def _nobody(units: int) -> None:
    """Tells nobody about progress."""
