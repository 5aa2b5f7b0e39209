"""What is attacked: a model, rows, their explanation and what may change. An attack changes nothing in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.attacks.inspected import InspectedModel
from r2et.attacks.limits import tolerance as rounding
from r2et.domain import Domain, Reach
from r2et.errors import InputError
from r2et.explainers import Explainer
from r2et.numerics.autograd import forward, unit
from r2et.numerics.checks import check_logits
from r2et.numerics.row_noise import row_normal
from r2et.scores import TOLERANCE, predicted_class

if TYPE_CHECKING:
    from r2et.attacks.attack import Attack

#: further predictions that must not change: inputs (N, *features) to a list of logits (N, C) each
Predictions = Callable[[Tensor], Sequence[Tensor]]

#: of a move whose whole numbers were almost one more step away than they are
SHORTER = 0.999
#: what a task holds for each of its rows
TENSORS = ("x", "logits", "target", "before")


@dataclass(frozen=True, eq=False)
class Task:
    """One batch for one attack.

    Attributes:
        attack: the attack itself: k, radius, norm and so on are its own.
        model: maps (N, *features) to logits (N, C).
        x: the clean inputs (N, *features).
        logits: of the clean inputs (N, C).
        target: the class that is explained and held, int64 (N,).
        before: the explanation of the clean inputs (N, ..., n).
        reach: what may be perturbed, under the threat.
        seed: of everything that is drawn.
        inspected: what is known about the model beside its values; shared by all tasks of one call.
        radii: the budget of each row (N,), for rows that are attacked at radii of their own; None = that of the
            attack for all of them.
        hints: places to start from that somebody else found for each row, (N, M, *features), in the budget or not;
            None = none.
    """

    attack: "Attack"
    model: nn.Module
    x: Tensor
    logits: Tensor
    target: Tensor
    before: Tensor
    reach: Reach
    seed: int
    inspected: InspectedModel
    radii: Tensor | None = None
    hints: Tensor | None = None

    @classmethod
    def prepare(
        cls,
        attack: "Attack",
        model: nn.Module,
        x: Tensor,
        *,
        reach: Reach | None = None,
        seed: int = 0,
        inspected: InspectedModel | None = None,
        hints: Tensor | None = None,
    ) -> "Task":
        """Explain the clean inputs (N, *features), in one pass; call it inside `measuring`.

        Args:
            attack: whose explainer is used; `for_attack` hands the task to others with the same one.
            model: maps (N, *features) to logits (N, C): what `r2et.domain.under_threat` gives for the threat.
            x: (N, *features), checked.
            reach: what may be perturbed, from there too; None = everything.
            seed: of everything that is drawn.
            inspected: of the same model, from another task; None = a new one.
            hints: places to start from, (N, M, *features).
        """
        reach = Domain().reach("paper", x[0].numel() // attack.explainer.inputs) if reach is None else reach
        attack.explainer.refuse_moves(reach.movable)
        x = x.detach()
        point, logits = forward(model, x)
        check_logits(logits, len(x))
        target = predicted_class(logits)
        with torch.enable_grad():
            attributions = attack.explainer.attribute(model, point, target, logits=logits)
        before = attack.explainer.flatten(attributions).detach()
        known = InspectedModel(model, x) if inspected is None else inspected
        return cls(attack, model, x, logits.detach(), target, before, reach, seed, known, hints=hints)

    def for_attack(self, attack: "Attack", rows: Tensor | None = None) -> "Task":
        """The same for another attack with the same explainer, and with some rows alone, int64 (M,)."""
        mine, other = self.attack.explainer, attack.explainer
        if not _alike(mine, other):
            raise InputError(f"the task was prepared for {mine!r}, and {type(attack).__name__} attacks {other!r}")
        if rows is None:
            return replace(self, attack=attack)
        parts = {name: getattr(self, name)[rows] for name in TENSORS}
        for name in ("radii", "hints"):
            values = getattr(self, name)
            parts[name] = None if values is None else values[rows]
        return replace(self, attack=attack, **parts)

    @classmethod
    def together(cls, tasks: Sequence["Task"]) -> "Task":
        """The rows of several tasks of one model as one, each with the radius of its own attack."""
        parts: dict[str, Any] = {name: torch.cat([getattr(task, name) for task in tasks]) for name in TENSORS}
        hints = [task.hints for task in tasks if task.hints is not None]
        parts["hints"] = torch.cat(hints) if len(hints) == len(tasks) else None
        return replace(tasks[0], radii=torch.cat([task.budget for task in tasks]), **parts)

    def copied(self) -> "Task":
        """With tensors of its own: whoever writes to them changes nobody else's."""
        return replace(self, **{name: getattr(self, name).clone() for name in TENSORS})

    @property
    def tolerance(self) -> float:
        """How far a single output may move while the prediction counts as kept."""
        return TOLERANCE if self.attack.tolerance is None else float(self.attack.tolerance)

    @cached_property
    def budget(self) -> Tensor:
        """The radius of each row, (N,)."""
        if self.radii is not None:
            return self.radii
        return torch.full((len(self.x),), self.attack.radius, dtype=self.x.dtype, device=self.x.device)

    @property
    def blanks(self) -> int:
        """How many empty places stand in front of ranked scores: k where lists may have fewer names, else 0."""
        return self.attack.k if self.attack.explainer.positive else 0

    def ranked(self, attributions: Tensor) -> Tensor:
        """The scores (N, ..., blanks + n) that a list is the top k of, from attributions (N, ...)."""
        explainer = self.attack.explainer
        return explainer.ranked(explainer.flatten(attributions), self.attack.k)

    @cached_property
    def clean(self) -> Tensor:
        """The ranked scores of the clean inputs, (N, ..., blanks + n)."""
        return self.attack.explainer.ranked(self.before, self.attack.k)

    @cached_property
    def top(self) -> Tensor:
        """Which of the ranked scores are in the top-k set of the clean input, bool (N, ..., blanks + n)."""
        return ranking.top_k_mask(self.clean, self.attack.k)

    @cached_property
    def pair_weights(self) -> Tensor:
        """Weights of ranked scores whose sum is the mean gap over all pairs, (N, ..., blanks + n)."""
        return ranking.all_pair_weights(self.clean, self.attack.k)

    @cached_property
    def salient(self) -> Tensor:
        """Numbers of the ranked scores in the top-k set, int64 (N, ..., k), in rising order."""
        return _members(self.top)

    @cached_property
    def contenders(self) -> Tensor:
        """Numbers of those outside of it, int64 (N, ..., blanks + n - k), in rising order."""
        return _members(~self.top)

    @cached_property
    def movable(self) -> Tensor:
        """Which features of one input may change, bool (features,)."""
        return self.reach.movable.to(self.x.device)

    def project(self, x: Tensor) -> Tensor:
        """The iterates inside the budget and within reach; whole numbers are rounded when they are judged."""
        budget = rowwise(self.budget, x)
        cap = self._cap(budget)
        delta = x - self.x
        if cap is not None:
            delta = torch.minimum(torch.maximum(delta, -cap), cap)
        delta = self.inside(self.x + delta) - self.x
        if cap is not None and self.reach.groups:
            # keeping a sum may have lengthened a component
            largest = rowwise(delta.flatten(start_dim=1).abs().amax(1), x)
            delta = delta * (cap / torch.maximum(largest, cap))
        if self.attack.norm == "linf":
            return self.inside(self.x + delta)
        length = delta.flatten(start_dim=1).norm(dim=1)
        factor = budget / torch.maximum(rowwise(length, x), budget)
        # shrinking towards the clean input leaves the domain by rounding at most
        return self.inside(self.x + delta * factor)

    def _cap(self, budget: Tensor) -> Tensor | None:
        """How far one feature may move, in the shape of the budget; None = the length of the step decides."""
        cap, linf = self.attack.cap, self.attack.norm == "linf"
        return (budget if linf else None) if cap is None else budget.clamp_max(cap) if linf else budget * 0 + cap

    def inside(self, x: Tensor) -> Tensor:
        """The nearest inputs within reach, whatever the budget; whole numbers may still be broken."""
        if self.reach.everywhere:
            return x
        inputs = self.attack.explainer.inputs
        return self.reach.clamp(x.flatten(inputs), self.x.flatten(inputs)).reshape(self.x.shape)

    def rounded(self, x: Tensor) -> Tensor:
        """Iterates whose whole numbers are whole: to the nearest, or towards x where that leaves the budget."""
        if self.reach.unit is None:
            return x
        inputs = self.attack.explainer.inputs
        flat, start = x.flatten(inputs), self.x.flatten(inputs)
        nearest, inwards = (
            self.reach.rounded(flat, start, inwards=side).reshape(x.shape) for side in (False, True)
        )
        chosen = torch.where(rowwise(self._within(nearest), x), nearest, inwards)
        if not (within := self._within(chosen)).all():
            # what was a step up to rounding, and now is one
            shorter = self.reach.rounded(start + SHORTER * (flat - start), start, inwards=True).reshape(x.shape)
            chosen = torch.where(rowwise(within, x), chosen, shorter)
        return chosen

    def _within(self, x: Tensor) -> Tensor:
        """Which iterates are inside the budget, bool (N,)."""
        within = self.distance(x) <= self.budget * (1 + rounding(x.dtype))
        if self.attack.cap is not None:
            within = within & ((x - self.x).flatten(start_dim=1).abs().amax(1) <= self.attack.cap)
        return within

    def allowed(self, step: Tensor) -> Tensor:
        """The part of directions (N, *features) that may be followed."""
        if self.reach.all_movable:
            return step
        inputs = self.attack.explainer.inputs
        start = self.x.flatten(inputs) if step.shape == self.x.shape else None
        return self.reach.allowed(step.flatten(start_dim=inputs), start).reshape(step.shape)

    def direction(self, slope: Tensor) -> Tensor:
        """The step of length 1 in the attack's norm that follows a slope (N, *features) best; 0 if it has NaN."""
        slope = self.allowed(slope)
        if self.attack.norm == "l2":
            return unit(slope)
        unknown = slope.flatten(start_dim=1).isnan().any(1)
        return torch.where(rowwise(unknown, slope), 0.0, slope.sign())

    def distance(self, x: Tensor) -> Tensor:
        """How far iterates are from the clean inputs, in the attack's norm, (N,)."""
        delta = (x - self.x).flatten(start_dim=1)
        distance: Tensor = delta.norm(dim=1) if self.attack.norm == "l2" else delta.abs().amax(1)
        return distance

    def random_directions(self, draw: int = 0) -> Tensor:
        """One vector of length 1 in the attack's norm per row, (N, *features); the same for a row in any batch."""
        return self.direction(self.random_numbers(draw))

    def random_numbers(self, draw: int = 0, *, extra: int = 0) -> Tensor:
        """Standard normal numbers (N, *features) from the seed, the draw and each row's own values.

        With `extra` there are this many more of them behind, as (N, features + extra).
        """
        numbers = row_normal(self.x, self.seed, draw=draw, extra=extra).squeeze(0)
        return numbers if extra else numbers.reshape(self.x.shape)


def _alike(a: Explainer, b: Explainer) -> bool:
    """Whether two explainers explain alike; a baseline may be a tensor."""
    if a is b:
        return True
    pairs = [(getattr(a, entry.name), getattr(b, entry.name)) for entry in fields(a)] if type(a) is type(b) else []
    return bool(pairs) and all(one is other or _equal(one, other) for one, other in pairs)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):  # something with other tensors or arrays inside
        return False


def rowwise(values: Tensor, like: Tensor) -> Tensor:
    """(N,) shaped to multiply (N, *features)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _members(mask: Tensor) -> Tensor:
    """The numbers of the members of sets (..., n) of one size, int64 (..., size)."""
    return mask.nonzero()[:, -1].reshape(*mask.shape[:-1], -1)
