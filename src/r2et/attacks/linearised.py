"""What the trust-region attack sees of a batch: gaps, constraint and their slopes at one set of iterates."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from r2et import ranking
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.subproblem import Array, Local
from r2et.attacks.task import rowwise
from r2et.numerics.autograd import forward, negligible
from r2et.numerics.jacobian import jacobian
from r2et.scores import logit, single, slack


@dataclass(frozen=True)
class Point:
    """Iterates judged on the real model, with linear models of f and of the gaps of m active pairs."""

    evaluation: Evaluation
    moved: Tensor  # x - x0 where it can move, (N, d)
    scores: Tensor  # of the followed explanation, in units of its L1 norm at x0, (N, features)
    pairs: Tensor  # numbers of the salient and the other features, (N, 2, m)
    valid: Tensor  # (N, m)
    slopes: Tensor  # (N, m, d)
    change: Tensor  # f - f0, (N, C)
    jacobian: Tensor  # (N, C, d)
    violation: Tensor  # (N,)
    margin: Tensor  # logit of the predicted class minus the next one, (N,)
    margin_slope: Tensor  # (N, d)
    merit: Tensor  # (N,)

    @property
    def gaps(self) -> Tensor:
        """Of the active pairs, (N, m)."""
        return self.gaps_at(self)

    def gaps_at(self, other: "Point") -> Tensor:
        """The gaps of these active pairs at other iterates, (N, m)."""
        return other.scores.gather(1, self.pairs[:, 0]) - other.scores.gather(1, self.pairs[:, 1])

    def replaced(self, rows: Tensor, by: "Point") -> "Point":
        """With some rows, bool (N,), taken from other iterates."""
        names = [entry.name for entry in fields(self) if entry.name != "evaluation"]
        both = {name: (getattr(self, name), getattr(by, name)) for name in names}
        merged = {name: torch.where(rowwise(rows, b), b, a) for name, (a, b) in both.items()}
        return Point(evaluation=self.evaluation.replaced(rows, by.evaluation), **merged)


class View:
    """One batch as the algorithm sees it: the explanation that is followed, its unit, and what can move."""

    def __init__(self, judge: Judge, *, eps_f: float, salient: int, others: int, beta: float | None) -> None:
        task, attack = judge.task, judge.task.attack
        self.judge, self.task, self.eps_f = judge, task, eps_f
        self.guide = task.inspected.surrogate(beta)
        self.sizes = min(salient, attack.k), min(others, task.top.shape[-1] - attack.k)
        inputs = attack.explainer.inputs
        self.columns = task.movable.repeat(inputs).nonzero().flatten()
        start = task.x.flatten(start_dim=inputs)
        cap = min(attack.cap or torch.inf, attack.radius if attack.norm == "linf" else torch.inf)
        ends = [task.reach.clamp(torch.full_like(start, sign * torch.inf), start) - start for sign in (-1, 1)]
        self.low, self.high = (end.clamp(-cap, cap).flatten(start_dim=1)[:, self.columns] for end in ends)
        self.bounded = bool(self.low.isfinite().any() or self.high.isfinite().any())
        self.radius = attack.radius * (1 if attack.norm == "l2" else len(self.columns) ** 0.5)
        self.unit: Tensor | None = None
        self.start: Tensor | None = None

    def _predicted(self, logits: Tensor) -> Tensor:
        """Predictions f that are to change little, (N, C): probabilities, or a number in units of tolerance."""
        return logits * (self.eps_f / self.task.tolerance) if single(logits) else logits.softmax(1)

    def _margin(self, logits: Tensor) -> Tensor:
        """Above 0 where the prediction is kept, (N,)."""
        task = self.task
        if single(logits):
            return slack(logits, task.logits, task.target, task.tolerance)
        return logit(logits, task.target) - logits.scatter(1, task.target[:, None], -torch.inf).amax(1)

    def at(self, x: Tensor) -> Point:
        """Judge iterates on the real model; linearise f there and the gaps of the followed explanation."""
        task, explainer = self.task, self.task.attack.explainer
        evaluation = self.judge.evaluate(x, create_graph=True)
        point, scores = evaluation.x, evaluation.scores
        if self.guide is not task.model:
            point, logits = forward(self.guide, x)
            with torch.enable_grad():
                attributions = explainer.attribute(
                    self.guide, point, task.target, create_graph=True, logits=logits
                )
                scores = task.ranked(attributions)
        if self.unit is None or self.start is None:
            total = scores.detach().abs().sum(-1, keepdim=True)
            self.unit = torch.where(total > 0, total.clamp_min(negligible(total.dtype)), 1.0)
            self.start = self._predicted(evaluation.logits).detach()
        with torch.enable_grad():
            shares, probabilities = scores / self.unit, self._predicted(evaluation.logits)
            margin = self._margin(evaluation.logits)
        values = shares.detach()
        # where the model has no value the judge refuses the point; until then it needs some set
        top = ranking.top_k_mask(evaluation.scores.detach().nan_to_num(), task.attack.k)
        # a feature that has left or entered the set is not looked at again
        inside, outside = task.top & top, ~(task.top | top)
        if task.blanks:
            # empty places are alike: one of each kind will do
            inside[..., 1 : task.blanks], outside[..., : task.blanks - 1] = False, False
        weak = values.masked_fill(~inside, torch.inf).topk(self.sizes[0], largest=False)
        strong = values.masked_fill(~outside, -torch.inf).topk(self.sizes[1])
        shift = torch.arange(explainer.inputs, device=x.device)[:, None] * values.shape[-1]
        ids = [part.indices.reshape(len(x), -1, part.indices.shape[-1]) + shift for part in (weak, strong)]
        slopes = [self._slopes(shares, point, part) for part in ids]
        slope = (slopes[0][:, :, :, None] - slopes[1][:, :, None]).flatten(1, 3)
        ends = [part.values.reshape(*ids[0].shape[:2], -1).isfinite() for part in (weak, strong)]
        change = probabilities.detach() - self.start
        violation = (change.norm(dim=1) / self.eps_f - 1).relu()
        weakest = values.masked_fill(~task.top, torch.inf).amin(-1)
        smallest = (weakest - values.masked_fill(task.top, -torch.inf).amax(-1)).reshape(len(x), -1).amin(1)
        return Point(
            evaluation=evaluation.detached(),
            moved=(evaluation.x.detach() - task.x).flatten(start_dim=1)[:, self.columns],
            scores=values.flatten(start_dim=1),
            pairs=torch.stack([part.flatten(start_dim=1) for part in _grid(*ids)], dim=1),
            # the solver takes numbers alone: a pair without a finite slope cannot be followed
            valid=torch.logical_and(*_grid(*ends)).flatten(start_dim=1) & slope.isfinite().all(2),
            slopes=_or_zero(slope),
            change=change,
            jacobian=_or_zero(jacobian(probabilities, evaluation.x).detach()[..., self.columns]),
            violation=violation,
            margin=margin.detach(),
            margin_slope=_or_zero(jacobian(margin[:, None], evaluation.x).detach()[:, 0, self.columns]),
            merit=smallest + violation,
        )

    def _slopes(self, shares: Tensor, point: Tensor, ids: Tensor) -> Tensor:
        """Gradients (N, inputs, width, d) of the shares with these flat numbers (N, inputs, width)."""
        with torch.enable_grad():
            picked = shares.flatten(start_dim=1).gather(1, ids.flatten(start_dim=1))
        if not picked.requires_grad:  # a linear model with frozen parameters
            return picked.new_zeros(*ids.shape, len(self.columns))
        slopes = jacobian(picked, point).detach()
        return slopes[..., self.columns].reshape(*ids.shape, len(self.columns))

    def row(self, point: Point, number: int) -> Local:
        """One row for the solver."""

        def array(values: Tensor) -> Array:
            return values[number].double().cpu().numpy()

        moved = array(point.moved)
        return Local(
            pairs=point.pairs[number].cpu().numpy(),
            valid=point.valid[number].cpu().numpy(),
            gaps=array(point.gaps),
            slopes=array(point.slopes),
            change=array(point.change) / self.eps_f,
            jacobian=array(point.jacobian) / self.eps_f,
            violation=float(point.violation[number]),
            margin=float(point.margin[number]),
            margin_slope=array(point.margin_slope),
            offset=moved,
            radius=self.radius,
            bounds=(array(self.low) - moved, array(self.high) - moved) if self.bounded else None,
        )

    def crossing(self, point: Point) -> Tensor:
        """The salient feature that left and the other one that entered, farthest apart, int64 (N, 2).

        An empty place has the number n, that of no feature.
        """
        scores = point.evaluation.scores
        left = scores.masked_fill(~self.task.top, torch.inf).min(-1)
        entered = scores.masked_fill(self.task.top, -torch.inf).max(-1)
        gap = ((left.values - entered.values) / scores.abs().sum(-1)).reshape(len(scores), -1)
        side = gap.argmin(1, keepdim=True)
        both = [part.indices.reshape(len(scores), -1).gather(1, side) for part in (left, entered)]
        numbers = torch.cat(both, dim=1) + side * scores.shape[-1]
        blanks = self.task.blanks
        return torch.where(numbers < blanks, scores.shape[-1], numbers) - blanks


def _or_zero(slopes: Tensor) -> Tensor:
    """Slopes with zeros for what is not finite."""
    return torch.where(slopes.isfinite(), slopes, 0.0)


def _grid(salient: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """(N, inputs, a) and (N, inputs, b), spread over all pairs of each input: (N, inputs, a, b) twice."""
    first, second = torch.broadcast_tensors(salient[..., :, None], others[..., None, :])
    return first, second
