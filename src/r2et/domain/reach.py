"""Threats, by name, and what an attacker may do under each of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et.domain.domain import Domain
from r2et.domain.gauge import without_gauge
from r2et.domain.ties import tied_part
from r2et.errors import InputError
from r2et.numerics.values import check_choice, check_kind

Threat = Literal["domain", "tangent", "paper"]

#: what an attacker may do, in a few words
IN_WORDS: dict[Threat, str] = {
    "domain": "numbers move inside their range, whole numbers in whole steps; categories, flags and missing stay",
    "tangent": "everything moves, but the sums of categories stay",
    "paper": "every number that the model sees moves, whether such a row exists or not",
}


def check_threat(threat: Threat) -> None:
    """Raise unless this is the name of a threat."""
    check_choice("threat", threat, get_args(Threat))


def chosen_threat(threat: Threat | None, domain: Domain | None) -> Threat:
    """The threat that was asked for: by default "domain" where a domain is known, else "paper".

    >>> chosen_threat(None, Domain(lower=0.0)), chosen_threat(None, None)
    ('domain', 'paper')
    """
    if domain is not None:
        check_kind("domain", domain, Domain, "r2et.Domain(lower=0.0)")
    if threat is None:
        return "paper" if domain is None else "domain"
    check_threat(threat)
    if threat != "paper" and domain is None:
        raise InputError(
            f'threat="{threat}" is about rows that exist: say which do by domain=, for example '
            "r2et.Domain.from_rows(x)"
        )
    return threat


def under_threat(
    model: nn.Module,
    x: Tensor,
    domain: Domain | None,
    threat: Threat | None,
    *,
    inputs: int = 1,
    checked: bool = False,
) -> tuple[nn.Module, "Reach"]:
    """The model that is explained under a threat, and what may be done to its inputs; all of it is checked.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features), or (N, 2, *features) for two inputs.
        domain: what exists; None = that is unknown.
        threat: None = "domain" where a domain is known, else "paper".
        inputs: of the model, 1 or 2.
        checked: whether the rows are known to exist: a training step does not look at them again.

    Returns:
        The model itself, or f o A where the domain has categories and the threat respects them.
    """
    name = chosen_threat(threat, domain)
    domain = Domain() if domain is None else domain
    n = x[0].numel() // inputs
    domain.check(n)
    reach = Reach.of(domain, name, n)
    if name == "paper":
        return model, reach
    if (domain.groups or domain.equal) and x.shape[inputs:] != (n,):
        raise InputError(f"groups and equal features are for rows of numbers (N, n), got {tuple(x.shape)}")
    if not checked:
        domain.check_rows(x.detach().flatten(start_dim=inputs))
    return without_gauge(model, domain, n, like=x), reach


@dataclass(frozen=True, eq=False)
class Reach:
    """What an attacker may do to inputs of n features.

    - "paper": everything moves, nothing is bounded. The paper's tables alone.
    - "tangent": everything moves, but the sums of one-hot groups stay, and equal features stay equal.
    - "domain": numbers move inside their bounds, and whole numbers stay whole; categories and flags stay as they
      are, and so does a number where it is missing. What is judged is the rounded input.

    Attributes:
        threat: its name.
        movable: which features may change, bool (n,).
        lower, upper: bounds (n,) in float64, or None.
        groups: of features that move in such a way that their sum stays.
        equal: sets of features that move together.
        unit: (n,), 0 = any value; None = of all features.
        absent: pairs of a feature and of the one that is not 0 in the rows in which it does not move.

    >>> domain = Domain(lower=0.0, groups=[[1, 2]])
    >>> step = torch.tensor([[1.0, 1.0, 0.0]])
    >>> domain.reach("tangent", 3).allowed(step), domain.reach("domain", 3).allowed(step)
    (tensor([[ 1.0000,  0.5000, -0.5000]]), tensor([[1., 0., 0.]]))
    """

    threat: Threat
    movable: Tensor
    lower: Tensor | None = None
    upper: Tensor | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    equal: tuple[tuple[int, ...], ...] = ()
    unit: Tensor | None = None
    absent: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, domain: Domain, threat: Threat, n: int) -> "Reach":
        """What a threat leaves open in a domain of n features."""
        check_threat(threat)
        domain.check(n)
        # whatever the default device is
        movable = torch.ones(n, dtype=torch.bool, device="cpu")
        groups, equal = (tuple(map(tuple, sets)) for sets in (domain.groups, domain.equal))
        if threat != "domain":
            return (
                cls(threat, movable, groups=groups, equal=equal) if threat == "tangent" else cls(threat, movable)
            )
        fixed = [*domain.frozen, *(i for group in groups for i in group), *(flag for _, flag in domain.absent)]
        movable[[int(i) for i in fixed]] = False
        # sets whose members are frozen do not move; the others move together
        moving = tuple(members for members in equal if bool(movable[list(members)].all()))
        movable[[i for members in equal if members not in moving for i in members]] = False
        lower, upper, unit = (_spread(numbers, n) for numbers in (domain.lower, domain.upper, domain.unit))
        for members in map(list, moving):
            _share(members, lower, upper, unit)
        if unit is not None:
            unit = torch.where(movable, unit, 0.0)
        # what is the same as something that is missing is missing with it
        together = {i: members for members in moving for i in members}
        absent = {(i, flag) for value, flag in domain.absent for i in together.get(value, (value,)) if movable[i]}
        unit = unit if unit is not None and unit.any() else None
        return cls(threat, movable, lower, upper, (), moving, unit, tuple(sorted(absent)))

    @cached_property
    def all_movable(self) -> bool:
        """Whether every feature may change, by itself."""
        return bool(self.movable.all()) and not self.groups and not self.equal

    @property
    def bounded(self) -> bool:
        """Whether values have bounds."""
        return self.lower is not None or self.upper is not None

    @property
    def everywhere(self) -> bool:
        """Whether an attacker may go anywhere."""
        return self.all_movable and not self.bounded and self.unit is None

    def missing(self, start: Tensor) -> Tensor | None:
        """Which values of inputs (..., n) are missing and stay, bool (..., n); None where none of them is.

        >>> domain = Domain(absent=[(0, 1)])
        >>> domain.reach("domain", 3).missing(torch.tensor([[0.5, 1.0, 2.0], [0.1, 0.0, 3.0]]))
        tensor([[ True, False, False],
                [False, False, False]])
        """
        if not self.absent:
            return None
        values, flags = (list(features) for features in zip(*self.absent, strict=True))
        gone = start.detach()[..., flags] != 0
        if not bool(gone.any()):
            return None
        stays = torch.zeros_like(start, dtype=torch.bool)
        stays[..., values] = gone
        return stays

    def allowed(self, step: Tensor, start: Tensor | None = None) -> Tensor:
        """The part of directions (..., n) that an attacker may follow, by orthogonal projection.

        Args:
            step: the directions.
            start: where the attacker begins, (..., n), whose missing values stay; None = nothing is missing.
        """
        if not bool(self.movable.all()):
            # selected, not multiplied: an infinite component times zero would not be a number
            step = torch.where(self.movable.to(step.device), step, 0.0)
        missing = None if start is None else self.missing(start)
        if missing is not None:
            step = torch.where(missing, 0.0, step)
        if not self.groups and not self.equal:
            return step
        places, broken = (part.to(step.device) for part in tied_part(self.groups, self.equal, len(self.movable)))
        tied = step.index_select(-1, places)
        return step.index_copy(-1, places, tied - tied @ broken.to(step.dtype))

    @cached_property
    def tied(self) -> Tensor:
        """Which features move only together with others, bool (n,)."""
        places, _ = tied_part(self.groups, self.equal, len(self.movable))
        return torch.zeros_like(self.movable).index_fill(0, places, value=True)

    def clamp(self, x: Tensor, start: Tensor) -> Tensor:
        """Inputs near x (..., n) that an attacker can reach from start (..., n), whatever the budget.

        The nearest ones, by the Euclidean distance, but for features that are always equal, which have one bound.
        A start that lies outside its bounds is not pulled in: it may stay where it is, not move farther out.
        """
        if self.groups or self.equal:
            # finite directions only: a step without end has no mean
            most = torch.finfo(x.dtype).max ** 0.5
            x = start + self.allowed((x - start).clamp(-most, most))
        if self.lower is not None:
            x = torch.maximum(x, torch.minimum(self.lower.to(start), start))
        if self.upper is not None:
            x = torch.minimum(x, torch.maximum(self.upper.to(start), start))
        missing = self.missing(start)
        if missing is not None:
            x = torch.where(missing, start, x)
        return x if bool(self.movable.all()) else torch.where(self.movable.to(x.device), x, start)

    def near(self, points: Tensor, x: Tensor, *, inputs: int = 1, inwards: bool = False) -> Tensor:
        """Points around inputs, both (N, *features) or (N, 2, *features), brought to where an attacker can get.

        Args:
            points: anywhere.
            x: where the attacker begins.
            inputs: of the model, 1 or 2.
            inwards: how to round, as in `rounded`.

        >>> reach = Domain(lower=0.0, frozen=[1], unit=torch.tensor([1.0, 0.0, 0.0])).reach("domain", 3)
        >>> reach.near(torch.tensor([[1.7, 0.5, -0.5]]), torch.tensor([[1.0, 1.0, 0.2]]))
        tensor([[2., 1., 0.]])
        """
        if self.everywhere:
            return points
        flat, start = points.flatten(start_dim=inputs), x.flatten(start_dim=inputs)
        inside = self.clamp(flat, start)
        return self.rounded(inside, start, inwards=inwards).reshape(points.shape)

    def along(self, directions: Tensor, *, axis: int = 1) -> Tensor:
        """The part of directions (..., *features) that an attacker may follow; features begin at this axis.

        >>> Domain(frozen=[1]).reach("domain", 2).along(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 0.]])
        """
        if self.all_movable:
            return directions
        return self.allowed(directions.flatten(start_dim=axis)).reshape(directions.shape)

    def rounded(self, x: Tensor, start: Tensor, *, inwards: bool = False) -> Tensor:
        """Inputs x (..., n) with a whole number of steps from start where a feature is whole.

        Args:
            x: inside the bounds.
            start: where the attacker begins, (..., n).
            inwards: round towards the start, which never lengthens a perturbation; else to the nearest.
        """
        if self.unit is None:
            return x
        unit = self.unit.to(x)
        steps = (x - start) / torch.where(unit > 0, unit, 1.0)
        # what is a step up to rounding counts as one
        whole = (steps + 1e-4 * steps.sign()).trunc() if inwards else steps.round()
        # a bound need not be a whole number of steps away
        if self.lower is not None:
            down = (torch.minimum(self.lower.to(start), start) - start) / torch.where(unit > 0, unit, 1.0)
            whole = torch.maximum(whole, (down - 1e-4).ceil())
        if self.upper is not None:
            up = (torch.maximum(self.upper.to(start), start) - start) / torch.where(unit > 0, unit, 1.0)
            whole = torch.minimum(whole, (up + 1e-4).floor())
        moved = torch.where(whole == 0, start, start + whole * unit)
        return torch.where(unit > 0, moved, x)


def _share(members: list[int], lower: Tensor | None, upper: Tensor | None, unit: Tensor | None) -> None:
    """Give features that are always equal the bounds and the unit of all of them, in place."""
    if lower is not None:
        lower[members] = lower[members].amax()
    if upper is not None:
        upper[members] = upper[members].amin()
    if unit is not None:
        units = set(unit[members].tolist()) - {0.0}
        if len(units) > 1:
            raise InputError(
                f"features {members} are always equal, but the domain's unit has {sorted(units)} there"
            )
        unit[members] = max(units, default=0.0)


def _spread(numbers: Tensor | float | None, n: int) -> Tensor | None:
    if numbers is None:
        return None
    return torch.as_tensor(numbers).detach().double().cpu().flatten().expand(n).clone()
