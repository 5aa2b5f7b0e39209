"""The paper's multi-objective trust-region attack, corrected: how many iterations until the first pair flips."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.judge import Judge
from r2et.attacks.linearised import Point, View
from r2et.attacks.subproblem import Array, Local, load_solver, subproblem
from r2et.attacks.task import Task
from r2et.numerics.values import check_count, check_number, check_positive

#: the joint reduction, as a share of what the steepest pair alone would allow, below which pairs block each other
STALLED = 0.01
#: a gap that the whole budget changes by less than this, in units of the L1 norm, is constant up to rounding
FLAT = 1e-7
#: a pair blocks when its multiplier (they sum to 1) is above this
BLOCKS = 0.01
#: the trust radius, as a share of the first one, below which shrinking on gains nothing
SMALLEST = 1e-3


@ATTACKS.register("trust-region")
@dataclass(frozen=True, kw_only=True)
class TrustRegion(Attack):
    """Lowers the gaps of all active pairs at once, within a trust region, until one flips (Alg. 2, App. A.4).

    The gaps h_l are those of the explanation divided by its L1 norm at the clean input, the constraint is v(x)
    = [||f(x) - f(x0)|| / eps_f - 1]_+ with f the probabilities, and the merit of a pair is phi_l = v(x) +
    |h_l(x) - t_l|. Corrections of the paper: the merit has the residual of f, not f; a target is t_l = h_l(x) +
    v(x) - epsilon after each accepted step, so phi_l is epsilon at every iterate and what falls is the target;
    each trial point is tested for a flip, on the real model; criticality is measured relative to the slopes,
    since chi cannot exceed epsilon. The linearised margin of the predicted class is one more constraint, and
    steps that change the class are refused, so even the last iterate (`keep="last"`) keeps it. Pairs that block
    each other are set aside except for the one with the smallest gap, and come back when that one can fall no
    more; one that can fall no more on its own is removed.

    A row stops at its flip: `first_flip` counts iterations, refused steps too (Theorem 5.1). `details` has `pair`,
    int64 (N, 2): the salient feature and the other one that flipped (by the most, if several did), numbered along
    the flattened explanation, -1 = none; `gap_range` (N,): h_up - h_low over the active pairs at both ends of each
    step; `merit` (N, steps + 1), the clean input first: min_l t_l + epsilon, the smallest gap plus v.

    Args:
        steps: iterations at most.
        eps_f: tolerated L2 norm of the change of the probabilities.
        epsilon: what a step tries to take off each gap, in units of the L1 norm; also the relative excess over
            eps_f that is tolerated.
        eta: a step is accepted when each pair's reduction is more than this share of the predicted one.
        gamma: the trust radius shrinks by this factor after a refused step, and grows by 1 / gamma after one whose
            reductions are above 3/4 of the predicted ones.
        delta: the first trust radius, an L2 norm; None = a tenth of the radius.
        salient: how many of the weakest salient features of each input make the active pairs,
        others: with how many of the strongest others.
        beta: sharpness of the softplus copy whose explanation is followed; None = 10 for a piecewise-linear net,
            no copy for a smooth one. Flips and f are the real model's.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> result = TrustRegion(k=2, radius=1.0, steps=20)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 1.0 + 1e-6).all()), bool(result.kept.all()), result.details["merit"].shape
    (True, True, torch.Size([4, 21]))
    """

    slow: ClassVar[bool] = True  # it solves a cone program for each input and step

    steps: int = 50
    eps_f: float = 0.1
    epsilon: float = 0.05
    eta: float = 0.1
    gamma: float = 0.5
    delta: float | None = None
    salient: int = 3
    others: int = 3
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("eps_f", "epsilon", "delta", "beta"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        for name in ("salient", "others"):
            check_count(name, getattr(self, name))
        for name in ("eta", "gamma"):
            check_number(name, getattr(self, name), 0, 1, inside=True)

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """All rows in lock step; each has a trust radius and a list of pairs of its own."""
        load_solver()
        view = View(judge, eps_f=self.eps_f, salient=self.salient, others=self.others, beta=self.beta)
        now = view.at(task.x)
        delta = self.delta or self.radius / 10
        rows = [_Row(delta, done=len(view.columns) == 0) for _ in task.x]
        pair = torch.full((len(rows), 2), -1, device=task.x.device)
        low, high = torch.full_like(now.merit, torch.inf), torch.full_like(now.merit, -torch.inf)
        merit = [now.merit]
        for _ in range(self.steps):
            moving = torch.tensor([not row.done for row in rows], device=task.x.device)
            if moving.any():
                step = torch.zeros_like(task.x).flatten(start_dim=1)
                for number in moving.nonzero().flatten().tolist():
                    own = self._step(rows[number], view.row(now, number))
                    step[number, view.columns] = torch.from_numpy(own).to(step)
                trial = view.at(task.project(now.evaluation.x + step.reshape(task.x.shape)))
                taken = self._judge(rows, now, trial, delta)
                ends = torch.stack([now.gaps, torch.where(taken[:, None], now.gaps_at(trial), now.gaps)])
                counted = now.valid & moving[:, None]
                low = torch.minimum(low, ends.masked_fill(~counted, torch.inf).amin((0, 2)))
                high = torch.maximum(high, ends.masked_fill(~counted, -torch.inf).amax((0, 2)))
                now = now.replaced(taken, trial)
                first = (now.evaluation.lowest < 1) & (pair[:, 0] < 0)
                pair = torch.where(first[:, None], view.crossing(now), pair)
            merit.append(now.merit)
            best.submit(now.evaluation)
        spread = torch.where(low.isfinite(), high - low, 0.0)
        best.details = {"pair": pair, "gap_range": spread, "merit": torch.stack(merit, dim=1)}

    def _step(self, row: "_Row", local: Local) -> Array:
        """The step of one row (d,); pairs that block it are set aside until it exists or no pair is left."""
        pairs: list[tuple[int, ...]] = [tuple(pair) for pair in local.pairs.T.tolist()]
        steepness = np.linalg.norm(local.slopes, axis=1)
        while True:
            usable = local.valid & (steepness * local.radius > FLAT) & [pair not in row.removed for pair in pairs]
            row.active = usable & [pair not in row.aside for pair in pairs]
            row.done = not usable.any()
            if usable.any() and not row.active.any():
                row.aside.clear()
                continue
            solution = None if row.done else subproblem(local, row.active, self.epsilon, row.delta)
            if solution is None:
                return np.zeros_like(local.offset)
            # per unit of length and slope: a criticality that depends on neither the trust radius nor the scale
            reach = row.delta * float(steepness[row.active].max())
            if self.epsilon - solution.mu - solution.nu > STALLED * min(self.epsilon, reach):
                return solution.step
            blocking = np.flatnonzero(row.active & (solution.multipliers > BLOCKS)).tolist()
            blocking.sort(key=lambda number: float(local.gaps[number]))
            if len(blocking) > 1:
                row.aside.update(pairs[number] for number in blocking[1:])
            else:
                row.removed.update(pairs[number] for number in blocking or np.flatnonzero(row.active))

    def _judge(self, rows: list["_Row"], now: Point, trial: Point, first_delta: float) -> Tensor:
        """Which trial points are accepted, bool (N,); trust radii and pairs of the rows follow."""
        step = trial.moved - now.moved
        active = torch.tensor(np.stack([row.active for row in rows]), device=step.device)
        slack = (self.epsilon - now.violation)[:, None]
        linear = now.change + torch.einsum("ncd,nd->nc", now.jacobian, step)
        excess = (linear.norm(dim=1) / self.eps_f - 1).relu()[:, None]
        expected = excess + (slack + torch.einsum("nmd,nd->nm", now.slopes, step)).abs()
        actual = trial.violation[:, None] + (slack + now.gaps_at(trial) - now.gaps).abs()
        ratio = (self.epsilon - actual) / (self.epsilon - expected).clamp_min(torch.finfo(step.dtype).tiny)
        poor, fair = active & ~(ratio > self.eta), active & ~(ratio > 0.75)
        flipped = (trial.evaluation.lowest < self.flip_below) & (trial.violation <= self.epsilon)
        taken: Tensor = trial.evaluation.kept & active.any(1) & (flipped | ~poor.any(1))
        for number, row in enumerate(rows):
            if row.done:
                taken[number] = False
            elif taken[number]:
                row.done = bool(flipped[number])
                if not fair[number].any():
                    row.delta = max(row.delta, float(step[number].norm()) / self.gamma)
            else:
                row.delta *= self.gamma
                if row.delta < SMALLEST * first_delta:
                    row.delta = first_delta
                    refused = poor[number] if trial.evaluation.kept[number] else active[number]
                    row.removed.update(tuple(pair) for pair in now.pairs[number][:, refused].T.tolist())
        return taken


@dataclass
class _Row:
    """What the search of one row remembers: its trust radius, the pairs set aside, and the critical ones."""

    delta: float
    done: bool
    active: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, dtype=bool))
    aside: set[tuple[int, ...]] = field(default_factory=set)
    removed: set[tuple[int, ...]] = field(default_factory=set)
