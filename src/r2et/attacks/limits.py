"""What the judge of iterates holds every attack to: finite numbers, inside the budget and the domain."""

from collections import Counter
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Norm = Literal["l2", "linf"]
#: why an iterate is refused, in the order in which the reasons are looked at
FAULTS = ("not finite", "outside the budget", "outside the domain", "with logits or scores that are not finite")


class Limits:
    """Which iterates of one batch may be accepted, and how many were not and why.

    What is outside by rounding alone is accepted: a small share of the radius, and the last digits of the inputs.

    Args:
        start: the clean inputs (N, *features).
        radius: of the budget; a number, or one for each row (N,).
        norm: of the budget.
        cap: L-infinity budget on top; None = none.
        inside: the nearest inputs in the domain, from iterates (N, *features); None = everything is in it.
        tied: which features of one input move only together with others, bool (features,): they round as the
            largest of them does. None = none.

    >>> limits = Limits(torch.zeros(3, 2), radius=1.0, norm="l2")
    >>> limits.accept(torch.tensor([[1.0, 0.0], [1.0, 1.0], [torch.nan, 0.0]]))
    tensor([ True, False, False])
    >>> in_words(limits.rejected)
    '2 iterates were not accepted: 1 not finite, 1 outside the budget'
    """

    def __init__(
        self,
        start: Tensor,
        radius: float | Tensor,
        norm: Norm,
        cap: float | None = None,
        inside: Callable[[Tensor], Tensor] | None = None,
        *,
        tied: Tensor | None = None,
    ) -> None:
        self.start, self.norm, self.inside = start, norm, inside
        self.tied = None if tied is None or not tied.any() else tied.to(start.device)
        self.rejected: Counter[str] = Counter()
        self.digits = 2 * torch.finfo(start.dtype).eps
        flat = start.flatten(start_dim=1)
        share = 1 + tolerance(start.dtype)
        self.reach = radius * share + self.digits * self._length(flat)
        self.most = None if cap is None else cap * share + self.digits * flat.abs().amax(1)

    def accept(self, x: Tensor, readable: Tensor | None = None) -> Tensor:
        """Which iterates (N, *features) are legal, bool (N,); the others are counted by their first fault.

        Args:
            x: (N, *features).
            readable: whether logits and explanation of the iterates are numbers, bool (N,); None = they all are.
        """
        near, allowed = self._in_budget(x), self._in_domain(x)
        readable = torch.ones_like(near) if readable is None else readable
        legal = near & allowed & readable
        if not legal.all():
            left = torch.ones_like(legal)
            for fault, holds in zip(FAULTS, (_finite(x), near, allowed, readable), strict=True):
                self.rejected[fault] += int((left & ~holds).sum())
                left = left & holds
        return legal

    def _length(self, flat: Tensor) -> Tensor:
        length: Tensor = flat.norm(dim=1) if self.norm == "l2" else flat.abs().amax(1)
        return length

    def _in_budget(self, x: Tensor) -> Tensor:
        moved = (x - self.start).flatten(start_dim=1)
        # written so that NaN is outside
        near = self._length(moved) <= self.reach
        return near if self.most is None else near & (moved.abs().amax(1) <= self.most)

    def _in_domain(self, x: Tensor) -> Tensor:
        if self.inside is None:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
        size = torch.maximum(x.abs(), self.start.abs())
        if self.tied is not None:
            # sums of a group's terms, one after the other
            flat = size.reshape(len(x), -1, len(self.tied))
            largest = torch.where(self.tied, flat, 0.0).amax(-1, keepdim=True).clamp_min(1) * 8
            size = torch.where(self.tied, largest, flat).reshape(x.shape)
        rounding = self.digits * size
        return ((x - self.inside(x)).abs() <= rounding).flatten(start_dim=1).all(1)


def tolerance(dtype: torch.dtype) -> float:
    """How far beyond the radius rounding may carry an iterate, as a share of it.

    >>> tolerance(torch.float64), tolerance(torch.float32)
    (1e-09, 1e-05)
    """
    return 1e-9 if dtype == torch.float64 else max(1e-5, 4 * torch.finfo(dtype).eps)


def in_words(rejected: Counter[str]) -> str:
    """How many iterates were refused and why.

    >>> in_words(Counter({"not finite": 2, "outside the domain": 1}))
    '3 iterates were not accepted: 2 not finite, 1 outside the domain'
    """
    parts = ", ".join(f"{number} {fault}" for fault, number in rejected.items() if number)
    return f"{rejected.total()} iterates were not accepted: {parts}"


def _finite(x: Tensor) -> Tensor:
    return x.flatten(start_dim=1).isfinite().all(1)
