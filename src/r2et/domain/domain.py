"""The inputs that can occur: bounds, frozen features, one-hot groups, whole columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2et.domain.learning import always_equal, one_hot_groups, two_valued, whole_units, zero_or_one
from r2et.errors import InputError
from r2et.numerics.checks import check_inputs
from r2et.numerics.values import is_whole, quoted
from r2et.registry import storable

if TYPE_CHECKING:
    from r2et.domain.reach import Reach, Threat

#: how far the features of a group may be from a sum of 1
SUM_TOLERANCE = 1e-4


@storable("domain")
@dataclass(frozen=True, eq=False)
class Domain:
    """The set of inputs that can occur.

    Features are numbered along the flattened axes of one input, 0..n-1; a two-input model has one domain for
    both of its inputs. What an attacker may do in it depends on the threat: see `r2et.domain.Reach`.

    Args:
        lower: smallest value a feature can take; a number for all of them, or a tensor (n,). None: no bound.
        upper: largest value, likewise.
        frozen: features that nobody can perturb: flags, and what is known for certain.
        groups: one-hot groups of two or more features: on rows that exist, each sums to 1. What a model does off
            these sums is no property of any row, so it counts in no explanation (`without_gauge`).
        equal: sets of two or more features that have one value in every row that exists.
        unit: how far apart neighbouring values of a feature are where it takes whole numbers only, in the units of
            x: a number for all, or a tensor (n,); 0 or None: it takes any value.
        absent: pairs of a feature and of the one that is 1 where its value is missing. There, row by row, the
            value is a stand-in which nobody can perturb; the second one is frozen.
        scale: one plausible change of each feature, above 0, in the units of x: a number for all, or a tensor
            (n,). Radii can be multiples of it, see `r2et.domain.in_plausible_units`; None: that is unknown.

    >>> domain = Domain(lower=0.0, upper=1.0, frozen=[2])
    >>> domain.reach("domain", 3).clamp(torch.tensor([[1.5, -0.5, 9.0]]), start=torch.tensor([[0.5, 0.5, 0.5]]))
    tensor([[1.0000, 0.0000, 0.5000]])
    """

    lower: Tensor | float | None = None
    upper: Tensor | float | None = None
    frozen: Sequence[int] = ()
    groups: Sequence[Sequence[int]] = ()
    equal: Sequence[Sequence[int]] = ()
    unit: Tensor | float | None = None
    absent: Sequence[tuple[int, int]] = ()
    scale: Tensor | float | None = None

    def __post_init__(self) -> None:
        low, high = _numbers("lower", self.lower), _numbers("upper", self.upper)
        for name, bound, nowhere in (("lower", low, torch.inf), ("upper", high, -torch.inf)):
            if bound is not None and (bound == nowhere).any():
                raise InputError(f"the domain is empty: its {name} bound is {nowhere}, which no value can respect")
        if low is not None and high is not None and (len(low) == len(high) or 1 in (len(low), len(high))):
            low, high = torch.broadcast_tensors(low, high)
            if (low > high).any():
                i = int((low > high).nonzero()[0])
                raise InputError(
                    f"the domain is empty for feature {i}: lower {float(low[i])} is above upper {float(high[i])}"
                )
        unit = _numbers("unit", self.unit)
        if unit is not None and not ((unit >= 0) & unit.isfinite()).all():
            raise InputError(f"the domain's unit must be 0 or more and finite, got unit={quoted(self.unit)}")
        scale = _numbers("scale", self.scale)
        if scale is not None and not ((scale > 0) & scale.isfinite()).all():
            raise InputError(f"the domain's scale must be above 0 and finite, got scale={quoted(self.scale)}")
        # kept as tuples: what can be looked at once only would be empty afterwards
        object.__setattr__(self, "frozen", _features("frozen", self.frozen))
        for name in ("groups", "equal"):
            object.__setattr__(self, name, _sets(name, getattr(self, name)))
        object.__setattr__(self, "absent", _pairs(self.absent))

    @classmethod
    def from_rows(cls, x: Tensor) -> "Domain":
        """What rows that exist (N, n) show of their domain.

        Bounds are the smallest and largest values seen. Columns of two values are flags, which are frozen; those
        of 0 and 1 may make up one-hot groups: sets of them that sum to 1 in every row, side by side or found in
        the null space of the centred columns. Columns of 0 and 1 that are the same in every row are `equal`.
        Columns of whole numbers stay whole. Look at the result: in few rows sums may hold by chance.

        >>> x = torch.tensor([[25.0, 1, 0, 0, 1], [40.0, 0, 1, 0, 1], [31.0, 0, 0, 1, 0], [52.0, 1, 0, 0, 0]])
        >>> domain = Domain.from_rows(x)
        >>> domain.groups, domain.frozen, domain.unit.tolist()
        (((1, 2, 3),), (4,), [1.0, 0.0, 0.0, 0.0, 0.0])
        """
        check_inputs(x)
        rows = x.detach().flatten(start_dim=1).double().cpu()
        binary = zero_or_one(rows)
        groups = one_hot_groups(rows, binary)
        grouped = {i for group in groups for i in group}
        flags = {*binary, *two_valued(rows)} - grouped
        return cls(
            lower=rows.amin(0),
            upper=rows.amax(0),
            frozen=tuple(sorted(flags)),
            groups=groups,
            equal=always_equal(rows, binary),
            unit=whole_units(rows, [*flags, *grouped]),
        )

    def __eq__(self, other: object) -> bool:
        """Whether both say the same; bounds may be tensors."""
        if not isinstance(other, Domain):
            return NotImplemented
        return _plain(self) == _plain(other)

    def __hash__(self) -> int:
        return hash(_plain(self))

    def check(self, n: int) -> None:
        """Raise if the domain does not fit inputs of n features."""
        for name, numbers in (("lower bound", self.lower), ("upper bound", self.upper), *self._steps):
            if numbers is not None and torch.as_tensor(numbers).numel() not in (1, n):
                count = torch.as_tensor(numbers).numel()
                raise InputError(f"the domain's {name} has {count} values for {n} features")
        for i in (*self.frozen, *(j for members in (*self.groups, *self.equal, *self.absent) for j in members)):
            if not 0 <= i < n:
                raise InputError(f"the domain names feature {i}, but inputs have features 0..{n - 1}")

    @property
    def _steps(self) -> tuple[tuple[str, Tensor | float | None], ...]:
        return ("unit", self.unit), ("scale", self.scale)

    def check_rows(self, x: Tensor) -> None:
        """Raise unless the groups of rows (..., n) sum to 1 and features that are always equal are.

        What a model says off these sums is no property of a row that exists; such a row has no gauge-free
        explanation.
        """
        for group in self.groups:
            _refuse(x, (x[..., list(group)].sum(-1) - 1).abs(), f"features {quoted(list(group))}", "sum to 1")
        for members in self.equal:
            apart = x[..., list(members)].amax(-1) - x[..., list(members)].amin(-1)
            _refuse(x, apart, f"features {quoted(list(members))}", "are equal")

    def reach(self, threat: "Threat", n: int) -> "Reach":
        """What an attacker may do to inputs of n features under a threat."""
        from r2et.domain.reach import Reach

        return Reach.of(self, threat, n)


def _plain(domain: Domain) -> tuple[object, ...]:
    bounds = (_numbers(name, getattr(domain, name)) for name in ("lower", "upper", "unit", "scale"))
    numbers = tuple(None if bound is None else tuple(bound.tolist()) for bound in bounds)
    return (*numbers, domain.frozen, domain.groups, domain.equal, domain.absent)


def _refuse(x: Tensor, apart: Tensor, who: str, what: str) -> None:
    wrong = ~(apart <= SUM_TOLERANCE)
    if wrong.any():
        row = int(wrong.reshape(len(x), -1).any(1).nonzero()[0])
        raise InputError(
            f"row {row} is not a row that exists: by the domain {who} {what}, and there they do not (off by "
            f'{float(apart.reshape(len(x), -1)[row].max()):g}). Mend the row or the domain, or use threat="paper" '
            "which knows no categories"
        )


def _sets(name: str, sets: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    if not _listed(sets):
        raise InputError(f"{name} must be a list of lists of features, got {name}={quoted(sets)}")
    checked = tuple(_features(f"{name}[{number}]", members) for number, members in enumerate(sets))
    for number, members in enumerate(checked):
        if len(members) < 2:
            why = "a flag belongs in frozen" if name == "groups" else "one feature equals itself"
            raise InputError(f"{name}[{number}]={quoted(list(members))} has fewer than two features: {why}")
    features = [i for members in checked for i in members]
    if len(set(features)) < len(features):
        twice = next(i for i in features if features.count(i) > 1)
        raise InputError(f"feature {twice} is twice in {name}={quoted(sets)}: it is of one category")
    return checked


def _pairs(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Features and the flags that say where they are missing: each feature has one flag, and is none itself."""
    if not _listed(pairs):
        raise InputError(f"absent must be a list of pairs of features, got absent={quoted(pairs)}")
    checked = tuple(_features(f"absent[{number}]", pair) for number, pair in enumerate(pairs))
    values, flags = ({pair[side] for pair in checked if len(pair) == 2} for side in (0, 1))
    if len(values) < len(checked) or values & flags:
        raise InputError(
            "absent must be pairs of a feature and the other feature that is 1 where it is missing, one pair for "
            f"a feature, got absent={quoted(pairs)}"
        )
    return checked


def _numbers(name: str, bound: Tensor | float | None) -> Tensor | None:
    """Bounds or units as real numbers (1,) or (n,), none of them NaN; None = there are none."""
    if bound is None:
        return None
    try:
        values = torch.as_tensor(bound).detach().cpu().flatten()
        usable = not values.is_complex() and values.dtype != torch.bool and len(values) > 0
        missing = values.isnan()
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError):
        usable = False
    if not usable:
        raise InputError(
            f"the domain's {name} must be a number, or a tensor with a number for each feature, got "
            f"{name}={quoted(bound)}"
        )
    if missing.any():
        first = int(missing.nonzero()[0])
        raise InputError(
            f"the domain's {name} is NaN (entry {first}): use None, or an infinite bound, for no bound"
        )
    return values


def _listed(values: object) -> bool:
    # a tensor without axes, or of a layout of its own, cannot be gone through
    single = isinstance(values, Tensor) and (values.layout != torch.strided or values.ndim == 0)
    return isinstance(values, Iterable) and not isinstance(values, str | bytes) and not single


def _features(name: str, numbers: Sequence[int]) -> tuple[int, ...]:
    features = tuple(numbers) if _listed(numbers) else None
    if features is None or not all(is_whole(i) and i >= 0 for i in features):
        raise InputError(f"{name} must be a list of numbers of features, 0 or more, got {name}={quoted(numbers)}")
    return tuple(map(int, features))
