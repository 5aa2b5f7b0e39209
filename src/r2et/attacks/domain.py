"""What an attacker may touch: per-feature bounds, frozen features, one-hot groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from r2et._checks import InputError


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

    def check(self, n: int) -> None:
        """Raise if the domain does not fit inputs of n features."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if isinstance(bound, Tensor) and bound.numel() not in (1, n):
                raise InputError(f"the domain's {name} bound has {bound.numel()} values for {n} features")
        if self.lower is not None and self.upper is not None:
            low, high = torch.as_tensor(self.lower).flatten(), torch.as_tensor(self.upper).flatten()
            wrong = (low > high).expand(n)
            if wrong.any():
                i = int(wrong.nonzero()[0])
                raise InputError(
                    f"the domain is empty for feature {i}: lower {float(low.expand(n)[i])} is above "
                    f"upper {float(high.expand(n)[i])}"
                )
        for i in (*self.frozen, *(j for group in self.groups for j in group)):
            if not 0 <= i < n:
                raise InputError(f"the domain names feature {i}, but inputs have features 0..{n - 1}")

    def movable(self, n: int, device: torch.device | None = None) -> Tensor:
        """Which features an attack may change, bool (n,)."""
        mask = torch.ones(n, dtype=torch.bool, device=device)
        fixed = list(self.frozen)
        if not self.move_groups:
            fixed += [i for group in self.groups for i in group]
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
