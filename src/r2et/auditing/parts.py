"""What a run gives, chunk by chunk: figures, samples, pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from r2et import ranking, validate
from r2et.attacks import AttackResult
from r2et.auditing.inputs import Names
from r2et.auditing.own_rows import Moves
from r2et.auditing.samples import Picture, Samples
from r2et.certificates import Bracket
from r2et.data.layouts import ImageLayout
from r2et.explainers import Explainer
from r2et.scores import predicted_class, presented

if TYPE_CHECKING:
    from r2et.auditing.planning import Plan

#: input features of a row whose change is remembered
MOVED = 10


@dataclass(frozen=True, eq=False)
class Part:
    """What was found for a chunk of N rows; A attacks, R radii.

    Attributes:
        samples: row by row.
        precision, displaced, kept, distance: of each attack, radius and row, (A, R, N).
        thickness: (N,).
        faithfulness: means over the rows.
        bracket: of the rows that were to be certified; None = there is none.
        moves: what WorstCase changed, in own units; None = these are unknown.
    """

    samples: Samples
    precision: Tensor
    displaced: Tensor
    kept: Tensor
    distance: Tensor
    thickness: Tensor
    faithfulness: dict[str, float] = field(default_factory=dict)
    bracket: Bracket | None = None
    moves: Moves | None = None

    def uncertified(self) -> "Part":
        """The same without what is proven."""
        certified = torch.full_like(self.samples.certified, torch.nan)
        return replace(self, samples=replace(self.samples, certified=certified), bracket=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditRun:
    """What came of a plan; M of its N rows are done.

    Attributes:
        plan: as it was carried out.
        logits: (N, C), of all rows.
        features: how many are ranked.
        names: of features and classes.
        validation: what `r2et.validate.check` found.
        parts: what was found in each chunk.
        pictures: of the most fragile rows.
        uncertified: why there is no certificate, or not one of all rows.
    """

    plan: "Plan"
    logits: Tensor
    features: int
    names: Names
    validation: validate.Report
    parts: Sequence[Part]
    pictures: Sequence[Picture]
    uncertified: str


def sample_rows(
    x: Tensor,
    logits: Tensor,
    labels: Tensor,
    *,
    k: int,
    explainer: Explainer,
    radii: Sequence[float],
    worst: Sequence[AttackResult],
    noise: Sequence[AttackResult],
) -> Samples:
    """The samples of a chunk x (N, *features), from attacks at each radius; nothing is certified yet."""
    before = _by_member(worst[0].before, explainer)
    after = torch.stack([_by_member(result.after, explainer) for result in worst])
    top, tops = _named(before, k, explainer), _named(after, k, explainer)
    mask, masks = (ranking.list_mask(scores, k, positive=explainer.positive) for scores in (before, after))
    delta = (worst[-1].x - x).flatten(start_dim=1)
    moved = delta.abs().topk(min(MOVED, delta.shape[1]), dim=1).indices
    predicted = predicted_class(logits)
    return Samples(
        radii=tuple(radii),
        labels=labels.cpu(),
        predicted=predicted.cpu(),
        probability=presented(logits, predicted).cpu(),
        top=top.int().cpu(),
        top_scores=_scores_of(top, before).cpu(),
        after=tops.int().cpu(),
        after_scores=_scores_of(tops, after).cpu(),
        precision=torch.stack([result.precision for result in worst]).cpu(),
        distance=torch.stack([result.distance for result in worst]).cpu(),
        noise=torch.stack([result.precision for result in noise]).cpu(),
        moved=moved.int().cpu(),
        moved_from=x.flatten(start_dim=1).gather(1, moved).cpu(),
        moved_by=delta.gather(1, moved).cpu(),
        certified=torch.full((len(x),), torch.nan, dtype=torch.float64),
        in_top=mask.sum((0, 1)).cpu(),
        leaves=(mask & ~masks).sum((1, 2)).cpu(),
        enters=(masks & ~mask).sum((1, 2)).cpu(),
    )


def _named(scores: Tensor, k: int, explainer: Explainer) -> Tensor:
    """What a list of scores (..., n) names, most salient first, int64 (..., k); -1 for an empty place."""
    top = ranking.top_k(scores, k)
    return torch.where(scores.gather(-1, top) > 0, top, -1) if explainer.positive else top


def _scores_of(named: Tensor, scores: Tensor) -> Tensor:
    """Scores (..., n) of what is named, (..., k); 0 for an empty place."""
    return torch.where(named < 0, 0.0, scores.gather(-1, named.clamp_min(0)))


def _by_member(scores: Tensor, explainer: Explainer) -> Tensor:
    """(N, n) or (N, 2, n) as (N, M, n)."""
    return scores if explainer.inputs == 2 else scores.unsqueeze(1)


def draw(
    x: Tensor, result: AttackResult, rows: Sequence[int], *, first: int, layout: ImageLayout, members: int
) -> list[Picture]:
    """Pictures of some rows of a chunk whose first row has the number `first`; none if no pixel is ranked."""
    _, height, width = layout.shape
    shape = (members, *layout.shape)

    def importance(scores: Tensor) -> Tensor | None:
        flat = scores.reshape(members, -1)
        if flat.shape[1] == layout.features:
            flat = flat.reshape(shape).abs().sum(1).flatten(1)
        return flat.reshape(members, height, width).cpu() if flat.shape[1] == height * width else None

    pictures = []
    for row in rows:
        before, after = importance(result.before[row]), importance(result.after[row])
        clean, moved = x[row].reshape(shape), result.x[row].reshape(shape)
        if before is None or after is None:
            return []
        pictures.append(
            Picture(
                row=first + row,
                pixels=layout.pixels(clean).clamp(0, 1).cpu(),
                before=before,
                after=after,
                change=(layout.pixels(moved) - layout.pixels(clean)).sum(1).cpu(),
            )
        )
    return pictures
