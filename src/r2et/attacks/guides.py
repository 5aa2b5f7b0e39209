"""Which models a search follows: the model itself, and softer copies where its slopes turn within the radius."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et.attacks.judge import Judge
from r2et.attacks.task import Task, rowwise
from r2et.numerics.autograd import derivative
from r2et.numerics.row_noise import row_normal

#: softplus sharpness of the copies that one search follows, one after the other
SCHEDULES: tuple[tuple[float, ...], ...] = ((3.0, 10.0, 30.0), (10.0, 30.0, 100.0), (1.0, 3.0))
#: random steps of half the radius at which the linearised explanation is compared with the real one
PROBES = 4
#: a row is sharp where the linearised explanation misses more than this share of the change
SHARP = 0.05
#: the draw of the random numbers of a probe
DRAW = 2**20


@dataclass(frozen=True)
class Turning:
    """How the slopes of the explanation behave inside the budget, row by row.

    Attributes:
        missed: the share of the change of the explanation that its linearisation at x misses, (N,); 1 where
            there is no change.
        sloped: whether the explanation has a derivative other than zero at x, bool (N,).
        moves: whether the explanation changes at all, bool (N,).
    """

    missed: Tensor
    sloped: Tensor
    moves: Tensor

    @property
    def sharp(self) -> Tensor:
        """Whether slopes turn too fast to be followed as they are, bool (N,)."""
        return ~(self.missed <= SHARP)


def turning(task: Task) -> Turning:
    """Compare a random combination of the scores with its linearisation at x, at random steps of half the radius.

    A row gets the same answer alone and in any batch.
    """
    judge = Judge(task)
    clean = judge.evaluate(task.x, create_graph=True)
    numbers = row_normal(task.x, task.seed, draw=DRAW, samples=PROBES + 1, extra=clean.scores[0].numel())
    features = task.x[0].numel()
    signs = numbers[0, :, features:].sign().reshape(clean.scores.shape)
    with torch.enable_grad():
        slope = derivative((clean.scores * signs).sum(), clean.x)
    total = missed = clean.precision.new_zeros(len(task.x))
    for probe in numbers[1:]:
        step = rowwise(task.budget / 2, task.x) * task.direction(probe[:, :features].reshape(task.x.shape))
        point = judge.evaluate(task.project(task.x + step))
        moved = point.x.detach() - task.x
        change = ((point.scores.detach() - clean.scores.detach()) * signs).flatten(start_dim=1).sum(1)
        expected = (slope * moved).flatten(start_dim=1).sum(1)
        total, missed = total + change.abs(), missed + (change - expected).abs()
    # where nothing moved at random, what there is to find is hidden
    share = torch.where(total > 0, missed / total.clamp_min(torch.finfo(total.dtype).tiny), 1.0)
    return Turning(share, slope.flatten(start_dim=1).abs().amax(1) > 0, total > 0)


def guides(task: Task, *, sharp: bool) -> Sequence[tuple[nn.Module, ...]]:
    """The models that searches follow, each a sequence of models in order.

    Args:
        task: what is attacked.
        sharp: whether softer copies are to be followed too.
    """
    inspected = task.inspected
    own: tuple[nn.Module, ...] = (inspected.model,)
    if not sharp:
        return [own]
    copies = [tuple(map(inspected.surrogate, schedule)) for schedule in SCHEDULES]
    chosen = [*copies] if inspected.piecewise_linear else [own, *copies]
    return list(dict.fromkeys(chosen))
