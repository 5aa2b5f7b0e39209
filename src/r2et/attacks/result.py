"""What an attack found, and how results of chunks and of radii come together."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from r2et.attacks.task import rowwise


@dataclass(frozen=True)
class AttackResult:
    """What an attack found, row by row.

    Attributes:
        x: the perturbed inputs (N, *features).
        precision: P@k of the explanations before and after (N,), the mean over both inputs of a pair.
        kept: whether the predicted class is unchanged, bool (N,).
        distance: norm of the perturbation (N,), the joint norm of a pair.
        first_flip: the first iteration, counted from 1, whose P@k was below `flip_below` (N,), for either input of
            a pair; -1 = never.
        before: explanations of the clean inputs (N, ..., n).
        after: explanations of the perturbed inputs (N, ..., n).
        history: P@k at each iteration, the clean input first (iterations + 1, N); None unless asked for.
        details: what else an attack has to tell, by name, each (N, ...): see the attack. None for most of them.
        rejected: how many iterates of the batch were refused, by reason: not finite, outside the budget or the
            domain, or without a finite explanation.
        notes: what a reader of the figures must know about the search.
        positive: whether lists name only what scores above 0, see `r2et.ranking.list_mask`.
    """

    x: Tensor
    precision: Tensor
    kept: Tensor
    distance: Tensor
    first_flip: Tensor
    before: Tensor
    after: Tensor
    history: Tensor | None = None
    details: dict[str, Tensor] | None = None
    rejected: Counter[str] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()
    positive: bool = False

    def __repr__(self) -> str:
        return (
            f"AttackResult(rows={len(self.x)}, mean precision={float(self.precision.mean()):.4f}, "
            f"kept={float(self.kept.float().mean()):.1%}, mean distance={float(self.distance.mean()):.4g}"
            f"{''.join(f'; {note}' for note in self.notes)})"
        )


def joined(results: list[AttackResult]) -> AttackResult:
    """The results of one attack on several chunks, one after the other."""
    if len(results) == 1:
        return results[0]
    together = {
        name: torch.cat([getattr(result, name) for result in results])
        for name in ("x", "precision", "kept", "distance", "first_flip", "before", "after")
    }
    histories = [result.history for result in results if result.history is not None]
    details = None
    if results[0].details is not None:
        details = {name: torch.cat([(r.details or {})[name] for r in results]) for name in results[0].details}
    return AttackResult(
        **together,
        history=_side_by_side(histories) if histories else None,
        details=details,
        rejected=sum((result.rejected for result in results), Counter()),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
        positive=results[0].positive,
    )


def _side_by_side(histories: list[Tensor]) -> Tensor:
    """P@k of all chunks (most iterations + 1, N): a chunk that was through earlier stays where it ended."""
    longest = max(map(len, histories))
    filled = [torch.cat([part, part[-1:].expand(longest - len(part), -1)]) for part in histories]
    return torch.cat(filled, dim=1)


def better(first: AttackResult, second: AttackResult, *, nearest: bool) -> AttackResult:
    """The second result, with the rows of the first where that has the lower P@k or, if asked, the nearer flip."""
    rows = first.precision < second.precision
    if nearest:
        flipped = (first.precision < 1) & (first.precision <= second.precision)
        rows = rows | (flipped & (first.distance < second.distance))
    chosen: dict[str, Any] = {
        name: torch.where(rowwise(rows, getattr(second, name)), getattr(first, name), getattr(second, name))
        for name in ("x", "precision", "kept", "distance", "first_flip", "after")
    }
    details = second.details
    if first.details is not None and details is not None:
        pairs = {name: (first.details[name], value) for name, value in details.items()}
        details = {name: torch.where(rowwise(rows, a), a, b) for name, (a, b) in pairs.items()}
    return replace(second, details=details, **chosen)
