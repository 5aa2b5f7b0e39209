"""The loss of the next feature: one more displaced than so far, from many starts at once, then by hops."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.boundary import SAFE_MARGIN
from r2et.attacks.chains import Chains, search_together
from r2et.attacks.closed_search import EARLIER, MARGIN, MOMENTUM, Formulas, Plan, has_formulas
from r2et.attacks.guides import guides, turning
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.task import Task, rowwise
from r2et.errors import InputError
from r2et.numerics.autograd import derivative, forward, negligible
from r2et.numerics.memory import at_once
from r2et.numerics.row_noise import row_normal
from r2et.numerics.values import check_count, quoted
from r2et.scores import slack

#: the first steps of hops, in units of the first steps of the search
SCALES = (0.3, 0.6, 0.15, 1.0)
#: a hop starts up to this far from where a search has ended, as a share of the radius
HOP = 0.3
#: a row hops while its next feature lacks less than this share of what the explanation has moved so far: most of
#: what hops gain comes from these rows, half of all (looked at on test rows of Adult and Bank: 62 of 71, 22 of 24)
WITHIN_REACH = 0.03
#: the same two of the last hops, which stay near: next to a hinge slopes turn within a thousandth of the radius
FINE = ((0.03, 0.015), (0.009, 0.015))
#: said where there was nothing to follow at all
NO_SLOPE = (
    "the explanation changes and has no slope, as that of a tree: nothing can be followed, and the figure is what "
    "was found without gradients"
)
#: one of this many searches starts at x
AT_X = 8
#: copies of an input that the graph of one step keeps
GRAPH = 64


@ATTACKS.register("next-feature")
@dataclass(frozen=True, kw_only=True)
class NextFeatureAttack(Attack):
    """Displaces one feature more than so far, from many starts; then hops from the best points.

    With b features displaced so far, on |I| / ||I||_1, the loss is relu(q-th weakest salient - q-th strongest
    other + margin), q = min(b + 1, k), and a tenth of the same for the pairs up to it; half of the searches weigh
    the pairs 1..q alike. Pairs that are far from changing places do not count yet. Steps shrink from half the
    radius on, along a cosine. All searches of all rows and radii are one batch. Where slopes turn within the
    radius (measured, see `r2et.attacks.guides`) searches follow softer copies of the model; every iterate is
    judged on the model itself. Gradients of networks with one small hidden layer are searched by formulas, see
    `r2et.attacks.closed_search`, in a third of the time.

    Args:
        steps: of each search and of each hop.
        restarts: searches per row: from x, from random points inside the budget and at its edge, from `starts`.
        hops: how often the best searches go on from a point nearby.
        hop_restarts: searches that go on: every other one from the best point of the row, the rest from their own.
        starts: further inputs (M, *features), such as training rows: searches start from the nearest points to
            them inside the budget. None = random points only.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> result = NextFeatureAttack(k=2, radius=0.5, steps=20, restarts=4)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 0.5 + 1e-6).all()), bool(result.kept.all())
    (True, True)
    """

    by_tables: ClassVar[bool] = True

    steps: int = 50
    restarts: int = 16
    hops: int = 4
    hop_restarts: int = 16
    starts: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("restarts", self.restarts)
        check_count("hops", self.hops, least=0)
        check_count("hop_restarts", self.hop_restarts)
        check_starts(self.starts)
        if self.keep == "last":
            raise InputError(f"NextFeatureAttack returns the best it finds; keep={self.keep!r} is not supported")

    def iterations(self) -> int:
        """Steps of the searches and of the hops; all searches take one together."""
        return self.steps * (1 + self.hops)

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Search at one radius."""
        self.run_together([best])

    def run_together(self, bests: Sequence[Best]) -> None:
        """Search at all radii at once."""
        copies = max(self.restarts, self.hop_restarts)
        search_together(self, bests, self._searched, copies=copies, without_slope=NO_SLOPE)

    def _searched(self, task: Task) -> Chains:
        """All searches of some rows with radii of their own, after the last hop."""
        sharp = turning(task).sharp | task.inspected.piecewise_linear
        chains = Chains(task, self.restarts, self.iterations())
        formulas = Formulas(task) if has_formulas(task) else None
        self._wave(chains, self._starts(task), sharp, scale=1.0, formulas=formulas)
        chains.keep(self.hop_restarts)
        for hop, (scale, far) in enumerate(self._hops()):
            starts = self._hop_starts(chains, hop, far)
            self._wave(chains, starts, sharp, scale=scale, formulas=formulas, rows=within_reach(chains))
        return chains

    def _hops(self) -> list[tuple[float, float]]:
        """The first step of each hop, and how far from the end of a search it starts, coarse hops first."""
        fine = FINE if self.hops > 2 * len(FINE) else ()
        return [(SCALES[hop % len(SCALES)], HOP) for hop in range(self.hops - len(fine))] + [*fine]

    def _starts(self, task: Task) -> Tensor:
        """Where searches begin, (restarts, N, *features)."""
        numbers = row_normal(task.x, task.seed, draw=1, samples=self.restarts, extra=2)
        check_starts(self.starts, task.x)
        kinds = ["ball", "sphere"] if self.starts is None else ["ball", "sphere", "rows"]
        at_x = max(1, self.restarts // AT_X)
        points = [task.x] * at_x
        for number, own in enumerate(numbers[at_x:]):
            if task.hints is not None and number < task.hints.shape[1]:
                points.append(task.project(task.hints[:, number]))
                continue
            kind = kinds[number % len(kinds)]
            if kind == "rows" and self.starts is not None:
                row = self.starts[number // len(kinds) % len(self.starts)]
                points.append(task.project(row.to(task.x).expand_as(task.x)))
                continue
            direction = task.direction(own[:, :-2].reshape(task.x.shape))
            # uniform in the ball: the n-th root of a uniform number
            share = (
                torch.special.ndtr(own[:, -1]) ** (1 / max(1, int(task.movable.sum()))) if kind == "ball" else 1.0
            )
            points.append(task.project(task.x + rowwise(share * task.budget, task.x) * direction))
        return torch.stack(points)

    def _hop_starts(self, chains: Chains, hop: int, share: float) -> Tensor:
        """Near the best point of a row and of its best searches, in turn, (hop_restarts, N, *features)."""
        task = chains.task
        numbers = row_normal(task.x, task.seed, draw=2 + hop, samples=self.hop_restarts, extra=1)
        best = chains.best
        points = []
        for number, own in enumerate(numbers):
            far = share * torch.special.ndtr(own[:, -1]) * task.budget
            direction = task.direction(own[:, :-1].reshape(task.x.shape))
            base = chains.x[number] if number % 2 and number < len(chains.x) else best
            points.append(task.project(base + rowwise(far, task.x) * direction))
        return torch.stack(points)

    def _wave(
        self,
        chains: Chains,
        starts: Tensor,
        sharp: Tensor,
        *,
        scale: float,
        formulas: Formulas | None = None,
        rows: Tensor | bool = True,
    ) -> None:
        """One search from each start (count, N, *features) of the rows, bool (N,), with features left to lose."""
        task = chains.task
        chains.begin(len(starts))
        wanted = (chains.precision > 0) & rows
        for kind in (True, False):
            left = (sharp == kind) & wanted
            if not left.any():
                continue
            choices = guides(task, sharp=kind)
            if formulas is not None and (followed := formulas.guides(choices)) is not None:
                plan = Plan.of(followed, len(starts), self.steps, scale)
                formulas.search(chains, starts, (left & formulas.rows).nonzero().squeeze(1), plan)
                left = left & ~formulas.rows
            numbers = left.nonzero().squeeze(1)
            for number, guide in enumerate(choices):
                own = range(number, len(starts), len(choices))
                for batch in _batches(own, numbers, task):
                    uniform = batch.chain // len(choices) % 2 == 1
                    x = starts[batch.chain, batch.rows]
                    self._search(chains, batch, x, uniform, models=guide, scale=scale)
        chains.end(self.steps)

    def _search(
        self,
        chains: Chains,
        batch: "Batch",
        x: Tensor,
        uniform: Tensor,
        *,
        models: Sequence[nn.Module],
        scale: float,
    ) -> None:
        """Steps from each of the points x (M, *features), judged on the real model."""
        task = chains.task.for_attack(self, batch.rows)
        judge = Judge(task)
        previous, displaced = x, torch.zeros((), dtype=torch.int64, device=x.device)
        for step in range(self.steps + 1):
            guide = models[min(step * len(models) // self.steps, len(models) - 1)]
            last, own = step == self.steps, guide is task.model
            evaluation = judge.evaluate(x, create_graph=own and not last)
            lost = judge.lost(evaluation.scores.detach(), (evaluation.weakest, evaluation.strongest))
            chains.note(batch.chain, batch.rows, evaluation, lost, max(step, 1))
            if last:
                return
            displaced = torch.maximum(displaced, torch.where(rowwise(evaluation.kept, lost), lost, 0))
            slope = self._slope(judge, guide, evaluation, displaced, uniform)
            sloped = slope.flatten(start_dim=1).abs().amax(1) > 0
            farthest = evaluation.weakest.shape[-1] - 1
            if step == 0 and len(set(models)) == 1 and not sloped.any():
                everything = torch.full_like(lost, farthest)
                if not self._slope(judge, guide, evaluation, everything, uniform).any():
                    return  # nobody would ever move
            chains.sloped[batch.rows[sloped]] = True
            # a pair of features that nothing moves is passed over
            displaced = displaced + (rowwise(~sloped, lost) & (displaced < farthest))
            length = scale * task.budget / 4 * (1 + math.cos(math.pi * step / self.steps))
            move = MOMENTUM * (x - previous) - rowwise(length, x) * task.direction(slope)
            previous, x = x, task.project(x + move)

    def _slope(
        self, judge: Judge, guide: nn.Module, evaluation: Evaluation, displaced: Tensor, uniform: Tensor
    ) -> Tensor:
        """The slope of the loss at judged iterates, by the model itself or by a softer copy."""
        task = judge.task
        if guide is not task.model:
            return self._guided_slope(judge, guide, evaluation.x, displaced, uniform)
        with torch.enable_grad():
            value = self._loss(evaluation.scores, (evaluation.weakest, evaluation.strongest), displaced, uniform)
            value = value + self._leaving(evaluation.logits, task)
            return derivative(value.sum(), evaluation.x, retain_graph=True)

    def _guided_slope(
        self, judge: Judge, guide: nn.Module, x: Tensor, displaced: Tensor, uniform: Tensor
    ) -> Tensor:
        """The slope of the loss by a softer copy, at points x (M, *features)."""
        task = judge.task
        target = task.target
        with torch.enable_grad():
            point, logits = forward(guide, x.detach())
            attributions = self.explainer.attribute(guide, point, target, create_graph=True, logits=logits)
            scores = judge.task.ranked(attributions)
            nearest = judge.boundary(scores.detach())
            # what the guide has displaced already has no slope left
            displaced = torch.maximum(displaced, judge.lost(scores.detach(), nearest))
            value = self._loss(scores, nearest, displaced, uniform)
            value = value + self._leaving(logits, task)
            return derivative(value.sum(), point)

    def _leaving(self, logits: Tensor, task: Task) -> Tensor:
        """What the loss charges for coming close to another prediction, (M,); nothing where any will do."""
        if self.keep == "any":
            return torch.zeros_like(logits[:, 0])
        return (SAFE_MARGIN - slack(logits, task.logits, task.target, task.tolerance)).relu()

    def _loss(self, scores: Tensor, nearest: tuple[Tensor, Tensor], displaced: Tensor, uniform: Tensor) -> Tensor:
        """The loss (M,) of explanations (M, ..., n) of which some features (M, ...) are displaced already."""
        total = (scores.abs() if self.explainer.reduce == "signed" else scores).sum(-1, keepdim=True)
        # an explanation of zeros has no shares; dividing by next to nothing would make its slope infinite
        share = scores / torch.where(total > 0, total.clamp_min(negligible(scores.dtype)), 1.0)
        weakest, strongest = (share.gather(-1, features) for features in nearest)
        margin = MARGIN * share.detach().abs().amax(-1, keepdim=True)
        hinge = (weakest - strongest + margin).relu()
        place = torch.arange(hinge.shape[-1], device=hinge.device)
        aim = displaced[..., None].clamp_max(hinge.shape[-1] - 1)
        earlier = torch.where(rowwise(uniform, hinge), 1.0, EARLIER) * (place <= aim)
        weights = torch.where((place == aim) & ~rowwise(uniform, hinge), 1 + EARLIER, earlier)
        return (weights * hinge).flatten(start_dim=1).sum(1)


def within_reach(chains: Chains) -> Tensor:
    """The rows whose next feature may still be displaced, bool (N,), and those that nothing has moved."""
    task = chains.task
    after = Judge(task).evaluate(chains.best).scores.detach()
    change = (_shares(after) - _shares(task.clean)).abs().sum(-1)
    change = change.mean(1) if change.ndim > 1 else change
    return (chains.gap < WITHIN_REACH * change) | (change <= negligible(change.dtype))


def _shares(scores: Tensor) -> Tensor:
    """Explanations (N, ..., n) whose magnitudes sum to 1."""
    return scores / scores.abs().sum(-1, keepdim=True).clamp_min(negligible(scores.dtype))


def check_starts(starts: Tensor | None, x: Tensor | None = None) -> None:
    """Raise unless these are inputs (M, *features), of the shape of x (N, *features) if that is known."""
    usable = isinstance(starts, Tensor) and starts.ndim > 1 and len(starts)
    if starts is not None and not (usable and (x is None or starts.shape[1:] == x.shape[1:])):
        seen = f"one of shape {tuple(starts.shape)}" if isinstance(starts, Tensor) else quoted(starts)
        shape = "(M, *features)" if x is None else f"(M, {', '.join(map(str, x.shape[1:]))})"
        raise InputError(f"starts must be a tensor {shape} of inputs, got {seen}")


@dataclass(frozen=True)
class Batch:
    """Searches that run together: their numbers and the numbers of their rows, int64 (M,) each."""

    chain: Tensor
    rows: Tensor


def _batches(chains: range, rows: Tensor, task: Task) -> Iterator[Batch]:
    """All of the chains of all of the rows, as many at once as memory allows."""
    chain = torch.tensor(list(chains), dtype=torch.int64, device=rows.device)
    pairs = chain.repeat_interleave(len(rows)), rows.repeat(len(chain))
    size = at_once(task.x[0].numel(), copies=GRAPH)
    for own, of in zip(*(part.split(size) for part in pairs), strict=True):
        if len(own):
            yield Batch(own, of)
