"""Attacks that hold the predictions by a Lagrangian, and the sweep that chooses among them (App. B.2.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations
from operator import attrgetter
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et.attacks.attack import ATTACKS
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.pgd import ERAttack, GradientDescentAttack
from r2et.attacks.task import Task
from r2et.domain import Domain, Threat
from r2et.errors import InputError, ModelError
from r2et.numerics.autograd import derivative, forward
from r2et.numerics.checks import check_differentiable, check_logits
from r2et.numerics.values import check_choice, check_positive
from r2et.scores import single

#: how the terms of the Lagrangian are weighted
Weights = Literal["none", "fixed", "gda", "hedge", "qp"]
#: a Siamese net's: the explanation and S = 3 predictions
MOST_GRADIENTS = 4


@ATTACKS.register("constrained")
@dataclass(frozen=True, kw_only=True)
class ConstrainedAttack(GradientDescentAttack):
    """Steps of fixed length down the Lagrangian gamma_0 g_0 + sum_s gamma_s g_s (App. B.2.3).

    g_0 is the loss of another attack; g_s = KL(f_s(x) || f_s(x')) of each of the S predictions, the model's own
    and those of `predictions`. Each row has weights gamma (S + 1,) of its own that sum to 1 and start equal:

    - "fixed": they stay equal.
    - "gda": gamma_s += eta g_s for s >= 1, then normalised, which alone moves gamma_0. A KL is never negative, so
      gamma_0 only falls.
    - "hedge": gamma_s *= exp(eta g_s) for all s, then normalised: the larger g_s, the larger its weight.
    - "qp": those of the shortest vector of the hull of the S + 1 gradients; an L2 step along it raises no term to
      first order. A prediction that has not moved has no gradient and is left out: with it the hull holds 0 and no
      attack would start. Where the others cancel, the row stays where it is.
    - "none": gamma_0 = 1, the unconstrained attack.

    A step uses the weights, then they learn from the values at the point it left. Values and gradients are taken
    as they are, not brought to one scale: ERAttack's g_0 is a mean gap of the explanation of `score`, MSEAttack's
    is negative, in units of the largest score, so that Hedge drops it unless `rate` is small. A prediction may
    still change: `keep` decides what is returned, as in every attack.

    Args:
        objective: the class of attack whose loss and start are used: ERAttack, MSEAttack or another subclass of
            GradientDescentAttack. It gets the settings of this attack.
        weights: "none", "fixed", "gda", "hedge" or "qp".
        rate: at which "gda" and "hedge" learn: eta = rate / steps, so that it means the same for any steps.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> attack = ConstrainedAttack(k=2, radius=0.5, steps=20, weights="hedge", keep="last")
    >>> bool((attack(model, torch.randn(4, 6)).distance <= 0.5 + 1e-6).all())
    True
    """

    objective: type[GradientDescentAttack] = ERAttack
    weights: Weights = "qp"
    rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weights", self.weights, get_args(Weights))
        check_positive("rate", self.rate)
        if not isinstance(self.objective, type) or not issubclass(self.objective, GradientDescentAttack):
            raise InputError(f"objective must be a class such as ERAttack or MSEAttack, got {self.objective!r}")

    @cached_property
    def _goal(self) -> GradientDescentAttack:
        """The attack whose loss is g_0, with the settings of this one."""
        return self.objective(**{f.name: getattr(self, f.name) for f in fields(GradientDescentAttack)})

    def loss(self, scores: Tensor, task: Task, clean: Tensor) -> Tensor:
        """g_0, (N,)."""
        return self._goal.loss(scores, task, clean)

    def start(self, task: Task) -> Tensor:
        """The objective's first iterate (N, *features)."""
        return self._goal.start(task)

    def slope(self, judge: Judge) -> Callable[[Evaluation], Tensor]:
        """The slope of the Lagrangian, (N, *features), with weights that remember the iterates before."""
        if self.weights == "none":
            return super().slope(judge)
        explanation, predictions = self.value(judge), _divergences(judge.task)
        weights: Tensor | None = None

        def slope(evaluation: Evaluation) -> Tensor:
            nonlocal weights
            with torch.enable_grad():
                terms = [explanation(evaluation), *predictions(evaluation)]
                if self.weights == "qp":
                    gradients = [derivative(term.sum(), evaluation.x, retain_graph=True) for term in terms]
                    movable = torch.stack([judge.task.allowed(g).flatten(start_dim=1) for g in gradients], dim=1)
                    return _common_slope(movable).reshape(evaluation.x.shape)
                values = torch.stack(terms, dim=1)
                if weights is None:
                    weights = torch.full_like(values.detach(), 1 / len(terms))
                total = (weights * values).sum()
            weights = self._learn(weights, values.detach())
            return derivative(total, evaluation.x)

        return slope

    def _learn(self, weights: Tensor, values: Tensor) -> Tensor:
        """The weights (N, S + 1) after one iteration with values g (N, S + 1)."""
        gain = self.rate / self.steps * values
        if self.weights == "gda":
            raised = weights + torch.cat([torch.zeros_like(gain[:, :1]), gain[:, 1:]], dim=1)
            # large logits make a divergence negative by rounding; a weight never is
            raised = raised.clamp_min(0)
            return raised / raised.sum(1, keepdim=True).clamp_min(torch.finfo(raised.dtype).tiny)
        return (weights.log() + gain).softmax(1) if self.weights == "hedge" else weights


def divergence(clean: Tensor, logits: Tensor) -> Tensor:
    """KL(f(x) || f(x')) of logits (N, C) at the clean and the perturbed inputs, (N,).

    Of single outputs (N, 1) half of the squared difference, the divergence of normal distributions of variance 1.
    As the gap of logsumexp over its tangent: its derivative is then f(x') - f(x), exactly 0 at the clean logits.

    >>> divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
    tensor([0.4338])
    """
    if single(clean):
        return (logits - clean).square().sum(1) / 2
    level = clean.logsumexp(1)
    p = (clean - level[:, None]).exp()
    return logits.logsumexp(1) - level - (p * (logits - clean)).sum(1)


def min_norm_point(gradients: Tensor) -> Tensor:
    """The weights of the point of the gradients' convex hull that is nearest to zero (the QP of App. B.2.3).

    Exact: one small linear system for each face of the simplex, all samples at once.

    Args:
        gradients: (N, M, d), M at most 4. They may be zero, equal or linearly dependent.

    Returns:
        (N, M), non-negative, each row sums to 1. The point is unique, its weights need not be.

    >>> min_norm_point(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [3.0, 1.0]]]))
    tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]])
    """
    count = gradients.shape[1] if gradients.ndim == 3 else 0
    if not 1 <= count <= MOST_GRADIENTS:
        shape = tuple(gradients.shape)
        raise InputError(f"the QP takes gradients (N, M, d) with M from 1 to {MOST_GRADIENTS}, got {shape}")
    # coordinates in the span of the gradients, at most M of them, have the same lengths and angles
    gradients = torch.linalg.qr(_unscaled(gradients).mT, mode="r")[1].mT
    # differences from the shortest gradient keep the digits of gradients of very different lengths
    order = gradients.norm(dim=2).argsort(dim=1)
    ranked = gradients.gather(1, order[:, :, None].expand_as(gradients))
    weights = torch.zeros_like(ranked[:, :, 0])
    least = torch.full_like(weights[:, 0], torch.inf)
    for face in (list(face) for size in range(1, count + 1) for face in combinations(range(count), size)):
        candidate = torch.zeros_like(weights)
        candidate[:, face] = _face_weights(ranked[:, face])
        length = (candidate[:, None] @ ranked).squeeze(1).norm(dim=1)
        better = length < least
        weights = torch.where(better[:, None], candidate, weights)
        least = torch.where(better, length, least)
    return torch.zeros_like(weights).scatter(1, order, weights)


def _face_weights(corners: Tensor) -> Tensor:
    """Where the plane through corners (N, m, d) comes nearest to zero, pulled onto the simplex, (N, m).

    The nearest point of the hull lies inside a face with independent corners (Caratheodory), where nothing is
    pulled. What is pulled, or solves a singular system, is in the hull too and can only lose by its length.
    """
    edges = corners[:, 1:] - corners[:, :1]
    length = edges.norm(dim=2, keepdim=True).clamp_min(torch.finfo(corners.dtype).tiny)
    edges = edges / length
    solved = torch.linalg.solve_ex(edges @ edges.mT, -(edges @ corners[:, 0, :, None]))[0]
    rest = (solved / length).squeeze(2)
    rest = torch.where(rest.isfinite().all(1, keepdim=True), rest, 0)
    weights = torch.cat([1 - rest.sum(1, keepdim=True), rest], dim=1).clamp_min(0)
    return weights / weights.sum(1, keepdim=True)


def _divergences(task: Task) -> Callable[[Evaluation], list[Tensor]]:
    """The S values g_s (N,) as a function of judged iterates; raises if a prediction cannot be constrained."""
    others = task.attack.predictions

    def all_logits(x: Tensor, logits: Tensor) -> list[Tensor]:
        with torch.enable_grad():
            return [logits, *(others(x) if others else ())]

    clean = all_logits(*forward(task.model, task.x))
    for i, logits in enumerate(clean[1:]):
        try:
            check_logits(logits, len(task.x))
            check_differentiable(logits)
        except ModelError as error:
            raise ModelError(f"predictions, number {i + 1} of {len(clean) - 1}: {error}") from error
    clean = [logits.detach() for logits in clean]
    return lambda evaluation: [
        divergence(a, b) for a, b in zip(clean, all_logits(evaluation.x, evaluation.logits), strict=True)
    ]


def _common_slope(gradients: Tensor) -> Tensor:
    """The shortest vector of the hull of gradients (N, M, d), up to a positive factor per row, (N, d)."""
    # a second copy of g_0 leaves a constraint without a gradient out of the hull
    still = (gradients == 0).all(2, keepdim=True)
    gradients = _unscaled(torch.where(still, gradients[:, :1], gradients))
    parts = min_norm_point(gradients)[:, :, None] * gradients
    point = parts.sum(1)
    # what is left where the parts cancel is rounding, and a step of fixed length would follow it
    rounding = torch.finfo(point.dtype).eps ** 0.5 * parts.norm(dim=2).sum(1)
    return torch.where((point.norm(dim=1) > rounding)[:, None], point, 0)


def _unscaled(gradients: Tensor) -> Tensor:
    """Gradients (N, M, d) in units of the largest entry of their row, so that squares do not underflow."""
    return gradients / gradients.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(gradients.dtype).tiny)


@dataclass(frozen=True)
class SweepPoint:
    """One attack of a sweep: its rule of weights and length of a step, and means over the rows.

    `precision` is P@k; `sensitivity` the share of rows where any of the S predictions changed.
    """

    weights: Weights
    step: float
    precision: float
    sensitivity: float
    distance: float


def sweep(
    attack: ConstrainedAttack,
    model: nn.Module,
    x: Tensor,
    step_sizes: Sequence[float],
    *,
    domain: Domain | None = None,
    threat: Threat | None = None,
    seed: int | None = None,
    weights: Sequence[Weights] = get_args(Weights),
    chunk_size: int | None = None,
) -> list[SweepPoint]:
    """P@k and sensitivity of every rule of weights at every step size: the scatter of App. B.2.3, rule by rule.

    `attack` gives everything but weights, the radius, which is a step size times its steps, and keep, which is
    "last", because with "best" no prediction changes. `model`, `x` (N, *features), `domain`, `threat`, `seed`
    and `chunk_size` are those of an attack's call; `weights` names the rules to compare.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> attack = ConstrainedAttack(k=2, radius=1.0, steps=5)
    >>> points = sweep(attack, model, torch.randn(4, 6), [0.01, 0.1], weights=["none", "qp"])
    >>> [(point.weights, point.step) for point in points]
    [('none', 0.01), ('none', 0.1), ('qp', 0.01), ('qp', 0.1)]
    """
    if not len(step_sizes) or not len(weights):
        raise InputError(f"{'weights' if len(step_sizes) else 'step_sizes'} is empty: name at least one")
    for step in step_sizes:
        check_positive("step", step)
    points = []
    for run in [replace(attack, weights=rule, keep="last") for rule in weights]:
        results = run(
            model,
            x,
            domain=domain,
            threat=threat,
            seed=seed,
            chunk_size=chunk_size,
            radii=[step * run.steps for step in step_sizes],
        )
        for step, result in zip(step_sizes, results, strict=True):
            means = (float(v.double().mean()) for v in (result.precision, ~result.kept, result.distance))
            points.append(SweepPoint(run.weights, step, *means))
    return points


_coordinates = attrgetter("sensitivity", "precision")


def pareto_front(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """The points that no other beats in sensitivity or P@k without losing in the other, by rising sensitivity.

    Equal points are all kept.

    >>> a, b, c = (SweepPoint("qp", 0.1, p, s, 1.0) for p, s in ((0.9, 0.0), (0.7, 0.1), (0.95, 0.1)))
    >>> pareto_front([c, b, a]) == [a, b]
    True
    """
    front: list[SweepPoint] = []
    for point in sorted(points, key=_coordinates):
        if not front or point.precision < front[-1].precision or _coordinates(point) == _coordinates(front[-1]):
            front.append(point)
    return front


def chosen(points: Sequence[SweepPoint], max_sensitivity: float = 0.02) -> SweepPoint:
    """The paper's choice: the lowest P@k at a sensitivity of at most 2 % (App. B.2.3).

    Of equal ones that with the lower sensitivity, then the smaller distance; InputError if none is that gentle.

    >>> chosen([SweepPoint("none", 0.1, 0.5, 0.3, 1.0), SweepPoint("qp", 0.1, 0.8, 0.01, 1.0)]).weights
    'qp'
    """
    feasible = [point for point in points if point.sensitivity <= max_sensitivity]
    if not feasible:
        raise InputError(
            f"none of {len(points)} points has a sensitivity of at most {max_sensitivity:.2%}: sweep over smaller "
            f"steps or allow more; the gentlest is {min(points, key=_coordinates, default=None)}"
        )
    return min(feasible, key=lambda point: (point.precision, point.sensitivity, point.distance))
