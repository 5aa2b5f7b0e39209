"""The smallest perturbation that changes the top-k set: the upper end of the bracket around the true radius."""

from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.boundary import BoundaryAttack
from r2et.attacks.judge import Judge
from r2et.attacks.task import Task, rowwise
from r2et.enclosure.hinges import nearest_hinges
from r2et.errors import InputError
from r2et.numerics.autograd import derivative, forward, negligible, unit
from r2et.numerics.values import check_count, check_positive

#: softplus sharpness of the copies of a piecewise-linear net
BETAS = (3.0, 10.0, 30.0)
#: of BoundaryAttack on rows for which the pairs led nowhere
SEARCH_STEPS = 50
#: hinges of a piecewise-linear net that are crossed, if inputs and matrices are not larger
HINGES, HINGE_FEATURES, HINGE_ENTRIES = 48, 512, 2**22


@ATTACKS.register("minimal")
@dataclass(frozen=True, kw_only=True)
class MinimalFlip(Attack):
    """Steps onto the linearised boundary of the nearest pairs, then bisects towards x.

    For a pair with gap phi the next iterate is x0 - 1.01 (phi + grad phi . (x0 - x)) grad phi / ||grad phi||^2:
    the point nearest to x0 where the gap, linearised at x, crosses zero. Each of the `pairs` nearest pairs is
    followed on its own; where none of them leads to a flip, BoundaryAttack looks for one. A small net also steps
    just over each of the nearest hinges of ReLU and max-pooling, where its gradient jumps. `distance` is the norm
    of the smallest flip found within `radius`; a row without one keeps its clean input and a P@k of 1.

    Args:
        radius: no flip farther away than this is looked for.
        steps: iterations for each pair.
        pairs: how many of the nearest pairs are followed.
        width: the pairs come from this many of the weakest salient and of the strongest other features.
        halvings: of the bisection at the end.
        beta: of the softplus copy whose slopes are followed; None = 3, 10 and 30 in turn for a piecewise-linear
            net, no copy for a smooth one.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> result = MinimalFlip(k=2, radius=3.0)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 3.0 + 1e-6).all())
    True
    """

    nearest: ClassVar[bool] = True

    by_tables: ClassVar[bool] = True

    steps: int = 15
    pairs: int = 6
    width: int = 3
    halvings: int = 12
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pairs", "width", "halvings"):
            check_count(name, getattr(self, name))
        if self.beta is not None:
            check_positive("beta", self.beta)
        if self.norm != "l2":
            raise InputError(f"MinimalFlip looks for the smallest L2 norm; norm={self.norm!r} is not supported")
        if self.keep == "last":
            raise InputError(f"MinimalFlip returns the best it finds; keep={self.keep!r} is not supported")

    def iterations(self) -> int:
        """Steps of all pairs and copies, the search for what they missed, and the bisection, at most."""
        return self.steps * self.pairs * len(BETAS) + HINGES + SEARCH_STEPS + self.halvings

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Follow the nearest pairs, then bisect between x and the nearest flip."""
        several = self.beta is None and task.inspected.piecewise_linear
        for beta in BETAS if several else (self.beta,):
            guide = task.inspected.surrogate(beta)
            for weights in self._nearest_gaps(judge, guide):
                x = task.x
                for _ in range(self.steps):
                    x = self._step(task, guide, x, weights)
                    best.submit(judge.evaluate(x))
        self._cross_hinges(best)
        self._search_for_missed(best)
        self._bisect(best)

    def _cross_hinges(self, best: Best) -> None:
        """One step over each of the nearest hinges, where the network is small enough to be read."""
        task = best.judge.task
        flat = task.x.flatten(start_dim=1)
        if self.explainer.inputs != 1 or flat.shape[1] > HINGE_FEATURES:
            return
        network = task.inspected.network
        if network is None or network.smooth:
            return
        widest = max((len(layer.bias) for layer in network.layers), default=0)
        if flat.shape[1] * widest > HINGE_ENTRIES:
            return
        movable = task.movable.to(flat).double()
        hinges = [nearest_hinges(network, row, HINGES, movable) for row in flat.double().split(1)]
        distances, steps = (torch.cat(parts).to(flat) for parts in zip(*hinges, strict=True))
        over = 1.001 * distances + torch.finfo(flat.dtype).eps ** 0.5
        over = torch.where(over.isfinite(), over, 0.0)
        for number in range(HINGES):
            step = (over[:, number, None] * steps[:, number]).reshape(task.x.shape)
            best.submit(best.judge.evaluate(task.project(task.x + step)))

    def _search_for_missed(self, best: Best) -> None:
        """Rows without a flip so far get one from BoundaryAttack, if it finds any."""
        rows = (best.precision == 1).nonzero().squeeze(1)
        if len(rows):
            shared = {entry.name: getattr(self, entry.name) for entry in fields(Attack) if entry.name != "steps"}
            attack = BoundaryAttack(**shared, steps=SEARCH_STEPS, beta=self.beta)
            result = attack.attack(best.judge.task.for_attack(attack, rows))
            flips = result.precision < 1
            best.judge.rejected.update(result.rejected)
            best.adopt(rows[flips], result.x[flips], result.first_flip[flips])

    def _ends(self, judge: Judge) -> tuple[Tensor, Tensor]:
        """The weakest salient features and the strongest others, int64 (N, ..., width or fewer) each."""
        task = judge.task
        if task.blanks:
            weakest, strongest = judge.boundary(task.clean)
            return weakest[..., : self.width], strongest[..., : self.width]
        weakest = task.salient.gather(
            -1, (-task.before.gather(-1, task.salient)).topk(min(self.width, self.k)).indices
        )
        others = task.before.gather(-1, task.contenders)
        return weakest, task.contenders.gather(-1, others.topk(min(self.width, others.shape[-1])).indices)

    def _nearest_gaps(self, judge: Judge, guide: nn.Module) -> list[Tensor]:
        """The gaps that vanish nearest to x, by their linearisation there: weights (N, ..., n) of values, each.

        A gap is s_i g_i - g_j, and for magnitudes s_i g_i + g_j too, with s_i the sign of a salient feature: one
        of them vanishes where a feature enters with either sign.
        """
        task = judge.task
        values, point = self._explain(task, guide, task.x)
        flat = values.flatten(start_dim=1)
        signs = flat.detach().sign() if self.explainer.reduce == "abs" else torch.ones_like(flat)
        weakest, strongest = self._ends(judge)
        if values.ndim > 2:
            # the two inputs of a pair have features of their own: number them one after the other
            shift = torch.arange(values.shape[1], device=values.device)[:, None] * values.shape[-1]
            weakest, strongest = weakest + shift, strongest + shift
        weakest, strongest = (ids.reshape(len(flat), -1, ids.shape[-1]) for ids in (weakest, strongest))
        slopes = {
            (number, part, place): self._slope(task, flat, point, ids[:, part, place])
            for number, ids in enumerate((weakest, strongest))
            for part in range(ids.shape[1])
            for place in range(ids.shape[2])
        }
        gaps = []
        for part in range(weakest.shape[1]):
            for a in range(weakest.shape[2]):
                for b in range(strongest.shape[2]):
                    inside, outside = weakest[:, part, a], strongest[:, part, b]
                    rise = rowwise(_at(signs, inside), task.x) * slopes[0, part, a]
                    for side in (1.0, -1.0) if self.explainer.reduce == "abs" else (1.0,):
                        gap = _at(signs, inside) * _at(flat, inside) - side * _at(flat, outside)
                        steep = (rise - side * slopes[1, part, b]).flatten(start_dim=1).norm(dim=1)
                        weights = torch.zeros_like(flat)
                        weights.scatter_(1, inside[:, None], _at(signs, inside)[:, None])
                        weights.scatter_(1, outside[:, None], -side)
                        far = gap.detach() / steep.clamp_min(torch.finfo(gap.dtype).tiny)
                        # two empty places never change places
                        gaps.append((torch.where(steep > 0, far, torch.inf), weights))
        distance = torch.stack([entry[0] for entry in gaps], dim=1)
        best = distance.topk(min(self.pairs, len(gaps)), dim=1, largest=False).indices
        stacked = torch.stack([entry[1] for entry in gaps], dim=1)
        chosen = stacked.gather(1, best[..., None].expand(-1, -1, flat.shape[1]))
        return [weights.reshape(values.shape) for weights in chosen.unbind(1)]

    def _step(self, task: Task, guide: nn.Module, x: Tensor, weights: Tensor) -> Tensor:
        """One step onto the linearised boundary of one gap per row."""
        values, point = self._explain(task, guide, x)
        gap = (weights * values).flatten(start_dim=1).sum(1)
        slope, scale = _scaled(task.allowed(derivative(gap.sum(), point)))
        gap = gap.detach() / scale + (slope * (task.x - x)).flatten(start_dim=1).sum(1)
        square = slope.flatten(start_dim=1).square().sum(1)
        # what is farther away than any budget needs no length of its own
        farthest = torch.finfo(gap.dtype).max ** 0.25
        length = torch.where(square > 0, gap / square, 0.0).clamp(-farthest, farthest)
        if task.reach.bounded:
            length = self._length_in_bounds(task, gap, slope, length)
        return task.project(task.x - rowwise(1.01 * length, x) * slope)

    def _length_in_bounds(self, task: Task, gap: Tensor, slope: Tensor, length: Tensor) -> Tensor:
        """How far to go along a slope for the gap to vanish when features stop at their bounds, (N,)."""
        low, high = length, length * 2**12
        for _ in range(40):
            middle = (low + high) / 2
            moved = task.inside(task.x - rowwise(middle, slope) * slope) - task.x
            left = gap + (slope * moved).flatten(start_dim=1).sum(1) > 0
            low, high = torch.where(left, middle, low), torch.where(left, high, middle)
        return high

    def _bisect(self, best: Best) -> None:
        """Shrink the nearest flip towards x while it stays one."""
        judge, start = best.judge, best.judge.task.x
        low, high = torch.zeros_like(best.precision), torch.ones_like(best.precision)
        far = best.x
        for _ in range(self.halvings):
            middle = (low + high) / 2
            evaluation = judge.evaluate(start + rowwise(middle, far) * (far - start))
            flips = best.submit(evaluation) & evaluation.kept & (evaluation.lowest < self.flip_below)
            low, high = torch.where(flips, low, middle), torch.where(flips, middle, high)

    def _explain(self, task: Task, guide: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """The guide's signed explanation (N, ..., n) with its graph, and the point it is made at.

        In units of each row's largest value: the squares of a sure model's gradients underflow. Summed magnitudes
        have no sign and stay as they are.
        """
        point, logits = forward(guide, x)
        attributions = self.explainer.attribute(guide, point, task.target, create_graph=True, logits=logits)
        if self.explainer.reduce == "abs-sum":
            values = self.explainer.flatten(attributions)
        else:
            values = self.explainer.ranked(attributions.flatten(start_dim=self.explainer.inputs), self.k)
        largest = values.detach().flatten(start_dim=1).abs().amax(1)
        return values / rowwise(largest.clamp_min(negligible(values.dtype)), values), point

    def _slope(self, task: Task, flat: Tensor, point: Tensor, column: Tensor) -> Tensor:
        """The gradient of one value per row, in the shape of x, along what can move."""
        return task.allowed(derivative(_at(flat, column).sum(), point, retain_graph=True))


def _scaled(slope: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes (N, *features) whose squares neither underflow nor overflow, and the powers of two taken out, (N,).

    A power of two rounds nothing. Slopes that are not finite become directions of length 1, or zero.
    """
    largest = slope.flatten(start_dim=1).abs().amax(1)
    slope = torch.where(rowwise(largest.isfinite(), slope), slope, unit(slope))
    usual = largest.isfinite() & (largest > 0)
    exponent = torch.frexp(torch.where(usual, largest, 1.0)).exponent
    scale = torch.ldexp(torch.ones_like(largest), exponent - 1)
    return slope / rowwise(scale, slope), scale


def _at(flat: Tensor, column: Tensor) -> Tensor:
    """One entry of each row of (N, m), at (N,)."""
    return flat.gather(1, column[:, None]).squeeze(1)
