"""Judges iterates on the real model: their explanation, their P@k, whether the prediction holds, what is legal."""

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from r2et import ranking
from r2et.attacks.limits import Limits
from r2et.attacks.task import Task, rowwise
from r2et.errors import InputError, ModelError, in_words
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_logits
from r2et.numerics.values import quoted
from r2et.scores import same_prediction

#: up to this many features a stable sort is quicker than a search for the first few with their ties in order
SORTED_WHOLE = 512


@dataclass(frozen=True)
class Evaluation:
    """One set of iterates, judged on the real model.

    Attributes:
        x: the iterates (N, *features); require gradients if the explanation is to be differentiated.
        logits: (N, C).
        scores: the judged explanation (N, ..., n); where lists may have fewer than k names, behind k zeros, which
            are empty places (`r2et.ranking.with_blanks`).
        weakest: its salient features from the weakest on, see `Judge.boundary`.
        strongest: its other features from the strongest on.
        precision: (N,), the mean over both inputs of a pair.
        lowest: (N,), the lower of the two.
        kept: whether the predictions are what they have to be, bool (N,): unchanged, or with keep="any" whatever
            they are.
    """

    x: Tensor
    logits: Tensor
    scores: Tensor
    weakest: Tensor
    strongest: Tensor
    precision: Tensor
    lowest: Tensor
    kept: Tensor
    _seal: tuple[tuple[Tensor, int], ...] = field(default=(), repr=False, compare=False)

    def detached(self) -> "Evaluation":
        """The same without the graph behind it."""
        return replace(self, **{name: getattr(self, name).detach() for name in _JUDGED})

    def replaced(self, rows: Tensor, by: "Evaluation") -> "Evaluation":
        """With some rows, bool (N,), taken from another one."""
        both = {name: (getattr(self, name), getattr(by, name)) for name in _JUDGED}
        merged: dict[str, Any] = {name: torch.where(rowwise(rows, a), b, a) for name, (a, b) in both.items()}
        return _sealed(Evaluation(**merged)) if self.genuine and by.genuine else Evaluation(**merged)

    @property
    def genuine(self) -> bool:
        """Whether these are the numbers of the judge: no tensor was exchanged, and none written to."""
        return len(self._seal) == len(_JUDGED) and all(
            tensor.data_ptr() == noted.data_ptr() and tensor.shape == noted.shape and noted._version == version
            for tensor, (noted, version) in zip((getattr(self, n) for n in _JUDGED), self._seal, strict=True)
        )


_JUDGED = tuple(entry.name for entry in fields(Evaluation) if entry.name != "_seal")


def _sealed(evaluation: Evaluation) -> Evaluation:
    """An evaluation of the judge, with a note of it that a changed copy does not fit."""
    tensors = [getattr(evaluation, name).detach() for name in _JUDGED]
    return replace(evaluation, _seal=tuple((tensor, tensor._version) for tensor in tensors))


class Judge:
    """Explains and judges the iterates of a task, by the same rules for every attack.

    Args:
        task: what is attacked.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        attack = task.attack
        inside = None if task.reach.everywhere else task.inside
        radius = attack.radius if task.radii is None else task.radii
        self.limits = Limits(task.x, radius, attack.norm, attack.cap, inside, tied=task.reach.tied)
        self._others = self._clean_others()

    @property
    def rejected(self) -> Counter[str]:
        """How many iterates were refused, by reason."""
        return self.limits.rejected

    def evaluate(self, x: Tensor, *, create_graph: bool = False) -> Evaluation:
        """Explain and judge iterates (N, *features), after rounding where the threat has whole numbers.

        Args:
            x: in the shape of the clean inputs; the `x` of the evaluation are the rounded ones.
            create_graph: make the scores differentiable by the `x` of the evaluation.
        """
        self._check_iterates(x)
        task, explainer = self.task, self.task.attack.explainer
        x = task.rounded(x.detach())
        point, logits = forward(task.model, x)
        with torch.enable_grad():
            attributions = explainer.attribute(
                task.model, point, task.target, create_graph=create_graph, logits=logits
            )
            scores = task.ranked(attributions)
        boundary = self.boundary(scores.detach())
        overlap = self._overlap(scores.detach(), boundary)
        precision, lowest = (overlap.mean(1), overlap.amin(1)) if overlap.ndim > 1 else (overlap, overlap)
        kept = self.unchanged(x, logits)
        if task.attack.keep == "any":
            kept = torch.ones_like(kept)
        return _sealed(Evaluation(point, logits, scores, *boundary, precision, lowest, kept))

    def unchanged(self, x: Tensor, logits: Tensor) -> Tensor:
        """Whether inputs (N, *features) with logits (N, C) have the predictions of the clean ones, bool (N,)."""
        tolerance = self.task.tolerance
        unchanged = same_prediction(logits, self.task.logits, tolerance)
        for now, clean in zip(self._other_logits(x), self._others, strict=True):
            unchanged = unchanged & same_prediction(now, clean, tolerance) & now.isfinite().all(1)
        return unchanged

    def accept(self, evaluation: Evaluation) -> Tensor:
        """Which iterates are legal, bool (N,); the others are counted."""
        logits, scores = evaluation.logits.detach(), evaluation.scores.detach().flatten(start_dim=1)
        return self.limits.accept(evaluation.x.detach(), logits.isfinite().all(1) & scores.isfinite().all(1))

    def boundary(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The salient features from the weakest on, and the others from the strongest on, as far as they can meet.

        Of ranked scores (N, ..., n): their numbers, int64 (N, ..., min(k, n - k)) each. Ties are ordered as in a
        ranking, the smaller number first. Where the clean list has empty places, what changes it is a name that
        falls to 0 or another that rises above: names are paired with empty places, the nearest to 0 first.
        """
        salient, contenders, k = self.task.salient, self.task.contenders, self.task.attack.k
        pairs = min(k, scores.shape[-1] - k)
        inside = scores.gather(-1, salient).sort(dim=-1, descending=True, stable=True).indices.flip(-1)
        outside = scores.gather(-1, contenders)
        if outside.shape[-1] <= SORTED_WHOLE:
            first = outside.sort(dim=-1, descending=True, stable=True).indices[..., :pairs]
        else:
            first = ranking.top_k(outside, pairs)
        weakest, strongest = salient.gather(-1, inside[..., :pairs]), contenders.gather(-1, first)
        if not self.task.blanks or not (short := self.task.top[..., :1]).any():
            return weakest, strongest
        across = ranking.across_zero(scores[..., k:], self.task.top[..., k:], k)
        return torch.where(short, across[0], weakest), torch.where(short, across[1], strongest)

    def _overlap(self, scores: Tensor, boundary: tuple[Tensor, Tensor]) -> Tensor:
        """P@k of ranked scores (N, ..., blanks + n), (N, ...)."""
        task, k = self.task, self.task.attack.k
        if not task.blanks:
            return 1 - self.lost(scores, boundary).to(scores.dtype) / k
        # what is no number is refused later
        now = ranking.top_k_mask(scores.nan_to_num(), k)
        return ranking.list_precision(task.top[..., k:], now[..., k:], scores.dtype)

    def lost(self, scores: Tensor, boundary: tuple[Tensor, Tensor]) -> Tensor:
        """How many salient features are no longer in the top k of ranked scores (N, ..., n), (N, ...).

        The q-th strongest other feature takes the place of the q-th weakest salient one if it ranks higher. Where
        the clean list has empty places: how many names have crossed 0, either way.
        """
        weakest, strongest = boundary
        below, above = scores.gather(-1, weakest), scores.gather(-1, strongest)
        return ((above > below) | ((above == below) & (strongest < weakest))).sum(-1)

    def _check_iterates(self, x: Tensor) -> None:
        """Raise unless these could be inputs of the model: what they are worth is another question."""
        like = self.task.x
        if not isinstance(x, Tensor) or (x.shape, x.dtype, x.device) != (like.shape, like.dtype, like.device):
            seen = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}" if isinstance(x, Tensor) else quoted(x)
            raise InputError(
                f"an attack must judge and hand in iterates such as x, {like.dtype} of shape {tuple(like.shape)} "
                f"on {like.device}, got {seen}"
            )

    def _other_logits(self, x: Tensor) -> list[Tensor]:
        """What further predictions say about inputs (N, *features): logits (N, C) each."""
        predictions = self.task.attack.predictions
        if predictions is None:
            return []
        with torch.no_grad():
            return list(predictions(x.detach()))

    def _clean_others(self) -> list[Tensor]:
        """What further predictions say about the clean inputs, logits (N, C) each."""
        x = self.task.x
        try:
            logits = self._other_logits(x)
        # a person's own function
        except Exception as error:
            raise ModelError(
                f"predictions must map inputs (N, *features) to a list of logits (N, C), but it raised "
                f"{in_words(error)}"
            ) from error
        for number, values in enumerate(logits, 1):
            try:
                check_logits(values, len(x))
            except ModelError as error:
                raise ModelError(f"predictions, number {number} of {len(logits)}: {error}") from error
        return [values.detach() for values in logits]
