"""What many searches per row have found so far, and how they come to the rows of an attack."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.attacks.attack import Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Evaluation
from r2et.attacks.task import Task
from r2et.numerics.autograd import negligible
from r2et.numerics.memory import at_once

#: larger than any iteration
NEVER = 2**40
#: gaps are compared in units of this, as shares of the explanation
GRAIN = 1e-5


@dataclass(frozen=True, eq=False)
class Found:
    """The best points of R searches of each of M rows.

    Attributes:
        x: (R, M, *features).
        level: as in `Chains`, (R, M).
        lost: the most features that a row has lost at its starts and at each step, int64 (steps + 1, M).
        sloped: whether a search of the row had a slope to follow, bool (M,).
    """

    x: Tensor
    level: Tensor
    lost: Tensor
    sloped: Tensor


class Chains:
    """The best judged iterate of each search of each row; of equal ones that nearest to the next feature.

    Args:
        task: the rows; their radii are their own.
        count: searches per row.
        iterations: steps in all, of one search after the other.

    Attributes:
        x: (count, N, *features).
        level: P@k plus a fraction of the gap that the next feature has to close, (count, N).
        history: the lowest P@k at each iteration, (iterations, N); without rows unless the attack records it.
        sloped: whether a search of the row had a slope to follow, bool (N,).
        moved: whether the explanation of a row has changed by more than rounding, bool (N,).
    """

    def __init__(self, task: Task, count: int, iterations: int) -> None:
        self.task = task
        rows, like = len(task.x), task.before
        self.x = task.x.repeat(count, *[1] * task.x.ndim)
        self.level = torch.full((count, rows), 2.0, dtype=like.dtype, device=like.device)
        self._reached = self.level.clone()
        self._first = torch.full((rows,), NEVER, device=like.device)
        recorded = iterations if task.attack.history else 0
        self.history = torch.ones((recorded, rows), dtype=like.dtype, device=like.device)
        self.sloped = torch.zeros((rows,), dtype=torch.bool, device=like.device)
        self.moved = self.sloped.clone()
        self._scale = like.flatten(start_dim=1).abs().amax(1) * torch.finfo(like.dtype).eps ** 0.5
        self._done = 0
        # smaller than what two P@k differ by: of lists with fewer names they are fractions of their own lengths
        self._unit = 1 / (4 * task.attack.k * (task.attack.k if task.blanks else 1))

    @property
    def first_flip(self) -> Tensor:
        """The first iteration with a flip, (N,), -1 = never."""
        return torch.where(self._first < NEVER, self._first, -1)

    @property
    def precision(self) -> Tensor:
        """The lowest P@k of each row, (N,)."""
        return self._at_best(self._reached).clamp_max(1)

    @property
    def gap(self) -> Tensor:
        """What the next feature has to close at the best point of each row, a share of the explanation, (N,)."""
        return self._at_best(self.level - self._reached) / self._unit

    @property
    def best(self) -> Tensor:
        """The best point of each row, (N, *features)."""
        return self._at_best(self.x)

    def _at_best(self, values: Tensor) -> Tensor:
        """Of values (count, N, ...) those of the best search of each row, (N, ...)."""
        number = self.level.argsort(dim=0, stable=True)[0]
        return values[number, torch.arange(len(number), device=number.device)]

    def keep(self, count: int) -> None:
        """Keep the best searches of each row, best first."""
        order = self.level.argsort(dim=0, stable=True)[:count]
        rows = torch.arange(order.shape[1], device=order.device)
        self.x, self.level, self._reached = (of[order, rows] for of in (self.x, self.level, self._reached))

    def begin(self, count: int) -> None:
        """A wave of this many searches begins: room for them."""
        missing = count - len(self.level)
        if missing > 0:
            self.x = torch.cat([self.x, self.task.x.repeat(missing, *[1] * self.task.x.ndim)])
            none = torch.full_like(self.level[:1], 2.0).repeat(missing, 1)
            self.level, self._reached = torch.cat([self.level, none]), torch.cat([self._reached, none])

    def end(self, iterations: int) -> None:
        """The wave is over: later iterations come after its own."""
        self._done += iterations

    def note(
        self, chain: Tensor, rows: Tensor, evaluation: Evaluation, lost: Tensor, iteration: int | Tensor
    ) -> None:
        """One iterate of some searches, int64 (M,), of some rows, int64 (M,).

        Args:
            chain: numbers of searches; no search of a row is there twice.
            rows: of the task.
            evaluation: of the iterates.
            lost: how many features each of them has displaced, (M, ...).
            iteration: of the wave, from 1 on; one for all or (M,).
        """
        gap = self.fraction(self._gap(evaluation, lost))
        level = torch.where(evaluation.kept, evaluation.precision + gap, 2.0)
        better = level < self.level[chain, rows]
        own = chain[better], rows[better]
        self.x[own] = evaluation.x.detach()[better]
        self.level[own], self._reached[own] = level[better], evaluation.precision[better]
        number = self._done + torch.as_tensor(iteration, device=rows.device).expand_as(rows)
        flips = evaluation.kept & (evaluation.lowest < self.task.attack.flip_below)
        self._first.scatter_reduce_(0, rows[flips], number[flips], "amin")
        if not self.moved[rows].all():
            change = (evaluation.scores.detach() - self.task.clean[rows]).flatten(start_dim=1).abs().amax(1)
            self.moved[rows[change > self._scale[rows]]] = True
        if len(self.history):
            precision = torch.where(evaluation.kept, evaluation.precision, 1.0)
            place = (number - 1) * len(self._first) + rows
            self.history.view(-1).scatter_reduce_(0, place, precision, "amin")

    def take(self, chain: Tensor, rows: Tensor, found: "Found") -> None:
        """What searches, int64 (R,), of some rows, int64 (M,), have found; no search of a row is there twice."""
        level = found.level.to(self.level.dtype)
        better = level < self.level[chain[:, None], rows]
        own = chain[:, None].expand_as(better)[better], rows.expand_as(better)[better]
        self.x[own], self.level[own] = found.x[better], level[better]
        self._reached[own] = (level[better] * self.task.attack.k).round() / self.task.attack.k
        # a start counts as the first step
        lost = torch.cat([found.lost[:2].amax(0, keepdim=True), found.lost[2:]])
        lowest = 1 - lost.to(self.level.dtype) / self.task.attack.k
        number = torch.arange(self._done, self._done + len(lowest), device=rows.device)[:, None]
        first = torch.where(lowest < self.task.attack.flip_below, number + 1, NEVER).amin(0)
        self._first[rows] = torch.minimum(self._first[rows], first)
        self.moved[rows] |= found.sloped
        self.sloped[rows] |= found.sloped
        if len(self.history):
            self.history[number, rows] = torch.minimum(self.history[number, rows], lowest)

    def fraction(self, gap: Tensor) -> Tensor:
        """The part of a level that comes from gaps of the next feature, which are shares of the explanation."""
        # what differs by rounding alone is equal, or a row would get other points in another batch
        return (gap.clamp(-1, 1) / GRAIN).round().mul_(GRAIN * self._unit)

    def _gap(self, evaluation: Evaluation, lost: Tensor) -> Tensor:
        """What the next feature has to close, as a share of the explanation, (M,)."""
        scores = evaluation.scores.detach()
        total = scores.abs().sum(-1).clamp_min(negligible(scores.dtype))
        place = lost.clamp_max(evaluation.weakest.shape[-1] - 1)[..., None]
        below, above = (
            scores.gather(-1, features.gather(-1, place)).squeeze(-1)
            for features in (evaluation.weakest, evaluation.strongest)
        )
        gap = (below - above) / total
        return gap.mean(1) if gap.ndim > 1 else gap


def search_together(
    attack: Attack,
    bests: Sequence[Best],
    search: Callable[[Task], Chains],
    *,
    copies: int,
    without_slope: str | None = None,
) -> None:
    """Search for the rows of several radii at once, as many as memory allows, and hand in the best points.

    Args:
        attack: whose search it is.
        bests: one per radius.
        search: from rows with radii of their own to what was found.
        copies: of a row that a search holds.
        without_slope: the note for a reader where the explanation changes and no search had a slope.
    """
    whole = Task.together([best.judge.task for best in bests])
    size = at_once(whole.x[0].numel(), copies=4 * copies)
    parts = [search(whole.for_attack(attack, rows)) for rows in _numbers(whole.x).split(size)]
    x, first_flip, moved, sloped = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("best", "first_flip", "moved", "sloped")
    )
    history = torch.cat([part.history for part in parts], dim=1)
    begin = 0
    for best in bests:
        own = slice(begin, begin + len(best.x))
        begin = own.stop
        best.adopt(_numbers(best.x), x[own], first_flip[own])
        best.history += list(history[:, own])
        if without_slope is not None and moved[own].any() and not sloped[own].any():
            best.notes[without_slope] = None
        best.iteration += attack.iterations()
        best.advance(attack.iterations())


def _numbers(x: Tensor) -> Tensor:
    return torch.arange(len(x), device=x.device)
