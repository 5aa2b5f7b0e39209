"""What an attacker may touch: per-feature bounds, frozen features, one-hot groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_flag, is_whole, quoted


@dataclass(frozen=True)
class Domain:
    """The set of inputs that can occur.

    Features are numbered along the flattened axes of one input, 0..n-1; a two-input model has one domain for
    both of its inputs.

    Args:
        lower: smallest value a feature can take; a number for all of them, or a tensor (n,). None: no bound.
        upper: largest value, likewise.
        frozen: features that nobody can perturb.
        groups: one-hot groups of features. They stay as they are unless `move_groups` is set, because half a
            category does not exist.
        move_groups: let an attack move one-hot features like numbers.

    >>> domain = Domain(lower=0.0, upper=1.0, frozen=[2])
    >>> domain.clamp(torch.tensor([[1.5, -0.5, 9.0]]), start=torch.tensor([[0.5, 0.5, 0.5]]))
    tensor([[1.0000, 0.0000, 0.5000]])
    """

    lower: Tensor | float | None = None
    upper: Tensor | float | None = None
    frozen: Sequence[int] = ()
    groups: Sequence[Sequence[int]] = ()
    move_groups: bool = False

    def __post_init__(self) -> None:
        low, high = _bound("lower", self.lower), _bound("upper", self.upper)
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
        check_flag("move_groups", self.move_groups)
        # kept as tuples: what can be looked at once only would be empty afterwards
        object.__setattr__(self, "frozen", _features("frozen", self.frozen))
        if not _listed(self.groups):
            raise InputError(f"groups must be a list of lists of features, got groups={quoted(self.groups)}")
        groups = tuple(_features(f"groups[{number}]", group) for number, group in enumerate(self.groups))
        object.__setattr__(self, "groups", groups)
        members = [i for group in groups for i in group]
        if len(set(members)) < len(members):
            twice = next(i for i in members if members.count(i) > 1)
            raise InputError(f"feature {twice} is twice in groups={quoted(self.groups)}: it is of one category")

    def check(self, n: int) -> None:
        """Raise if the domain does not fit inputs of n features."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None and torch.as_tensor(bound).numel() not in (1, n):
                count = torch.as_tensor(bound).numel()
                raise InputError(f"the domain's {name} bound has {count} values for {n} features")
        for i in (*self.frozen, *(j for group in self.groups for j in group)):
            if not 0 <= i < n:
                raise InputError(f"the domain names feature {i}, but inputs have features 0..{n - 1}")

    def movable(self, n: int, device: torch.device | None = None) -> Tensor:
        """Which features an attack may change, bool (n,)."""
        mask = torch.ones(n, dtype=torch.bool, device=device)
        # a list of numpy's bytes would be taken for a mask
        fixed = [int(i) for i in self.frozen]
        if not self.move_groups:
            fixed += [int(i) for group in self.groups for i in group]
        mask[fixed] = False
        return mask

    def clamp(self, x: Tensor, start: Tensor) -> Tensor:
        """The nearest input to x (..., n) inside the domain.

        A start (..., n) that lies outside its bounds is not pulled in: it may stay where it is, not move
        farther out.
        """
        if self.lower is not None:
            x = torch.maximum(
                x,
                torch.minimum(
                    torch.as_tensor(self.lower, dtype=start.dtype, device=start.device).flatten(), start
                ),
            )
        if self.upper is not None:
            x = torch.minimum(
                x,
                torch.maximum(
                    torch.as_tensor(self.upper, dtype=start.dtype, device=start.device).flatten(), start
                ),
            )
        movable = self.movable(x.shape[-1], x.device)
        return x if movable.all() else torch.where(movable, x, start)


def _bound(name: str, bound: Tensor | float | None) -> Tensor | None:
    """A bound as real numbers (1,) or (n,), none of them NaN; None = there is none."""
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
