"""What one attack on one batch knows: what is attacked, what is allowed, and the best found so far."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.attacks.limits import Limits, Norm
from r2et.domain import Domain
from r2et.errors import InputError, ModelError, in_words
from r2et.explainers import Explainer
from r2et.numerics.autograd import forward, unit
from r2et.numerics.checks import check_logits
from r2et.numerics.values import check_kind, quoted
from r2et.scores import predicted_class

Keep = Literal["best", "last"]
#: further predictions that must not change: inputs (N, *features) to a list of logits (N, C) each
Predictions = Callable[[Tensor], Sequence[Tensor]]
#: up to so many features a stable sort is quicker than a search for the first few with their ties in order
SORTED_WHOLE = 512


@dataclass(frozen=True)
class Evaluation:
    """One set of iterates, judged on the real model.

    Attributes:
        x: the iterates (N, *features); require gradients if the explanation is to be differentiated.
        logits: (N, C).
        scores: the judged explanation (N, ..., n).
        weakest: its salient features from the weakest on, see `Search.boundary`.
        strongest: its other features from the strongest on.
        precision: (N,), the mean over both inputs of a pair.
        lowest: (N,), the lower of the two.
        kept: bool (N,).
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
        return _sealed(Evaluation(**merged)) if _genuine(self) and _genuine(by) else Evaluation(**merged)


_JUDGED = tuple(entry.name for entry in fields(Evaluation) if entry.name != "_seal")


def _sealed(found: Evaluation) -> Evaluation:
    """What the judge found, with a note of it that a changed copy does not fit."""
    tensors = [getattr(found, name).detach() for name in _JUDGED]
    return replace(found, _seal=tuple((tensor, tensor._version) for tensor in tensors))


def _genuine(found: Evaluation) -> bool:
    """Whether these are the numbers of the judge: no tensor was exchanged, and none written to."""
    return len(found._seal) == len(_JUDGED) and all(
        tensor.data_ptr() == noted.data_ptr() and tensor.shape == noted.shape and noted._version == version
        for tensor, (noted, version) in zip((getattr(found, n) for n in _JUDGED), found._seal, strict=True)
    )


@dataclass
class Search:
    """The state of one attack on one batch: what is attacked, what is allowed, and the best found so far.

    The best iterate of a row is the one with the lowest P@k, or with `nearest` the flip that is nearest to x.
    """

    model: nn.Module
    x: Tensor
    target: Tensor
    before: Tensor
    k: int
    radius: float
    norm: Norm
    cap: float | None
    keep: Keep
    flip_below: float
    explainer: Explainer
    domain: Domain
    record: bool
    advance: Callable[[int], None]
    seed: int
    predictions: Predictions | None = None
    nearest: bool = False
    iteration: int = 0
    best: Tensor = field(init=False)
    precision: Tensor = field(init=False)
    kept: Tensor = field(init=False)
    first_flip: Tensor = field(init=False)
    history: list[Tensor] = field(init=False, default_factory=list)
    details: dict[str, Tensor] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.top = ranking.top_k_mask(self.before, self.k)
        self.pair_weights = ranking.all_pair_weights(self.before, self.k)
        self.best = self.x.clone()
        self.precision = torch.ones(len(self.x), dtype=self.before.dtype, device=self.x.device)
        self.kept = torch.ones_like(self.target, dtype=torch.bool)
        self.first_flip = torch.full_like(self.target, -1)
        self.history = [self.precision] if self.record else []
        inputs = self.explainer.inputs
        self.movable = self.domain.movable(self.x.flatten(start_dim=inputs).shape[-1], self.x.device)
        self.all_movable = bool(self.movable.all())
        self.bounded = self.domain.lower is not None or self.domain.upper is not None
        self.other_targets = self._other_classes()
        everywhere = self.all_movable and not self.bounded
        self.limits = Limits(self.x, self.radius, self.norm, self.cap, None if everywhere else self.inside)

    @cached_property
    def salient(self) -> Tensor:
        """Numbers of the features in the top-k set, int64 (N, ..., k), in rising order."""
        return _members(self.top)

    @cached_property
    def contenders(self) -> Tensor:
        """Numbers of the features outside of it, int64 (N, ..., n - k), in rising order."""
        return _members(~self.top)

    def evaluate(self, x: Tensor, create_graph: bool = False) -> Evaluation:
        """Explain and judge iterates; with `create_graph` the scores can be differentiated by `x`."""
        self._check_iterates(x)
        point, logits = forward(self.model, x)
        with torch.enable_grad():
            attributions = self.explainer.attribute(self.model, point, self.target, create_graph, logits)
            scores = self.explainer.flatten(attributions)
        boundary = self.boundary(scores.detach())
        overlap = 1 - self.lost(scores.detach(), boundary).to(scores.dtype) / self.k
        precision, lowest = (overlap.mean(1), overlap.amin(1)) if overlap.ndim > 1 else (overlap, overlap)
        kept = predicted_class(logits) == self.target
        for now, clean in zip(self.other_logits(x), self.other_targets, strict=True):
            kept = kept & (predicted_class(now) == clean) & now.isfinite().all(1)
        return _sealed(Evaluation(point, logits, scores, *boundary, precision, lowest, kept))

    def _check_iterates(self, x: Tensor) -> None:
        """Raise unless these could be inputs of the model: what they are worth is another question."""
        like = self.x
        if not isinstance(x, Tensor) or (x.shape, x.dtype, x.device) != (like.shape, like.dtype, like.device):
            seen = f"{x.dtype} of shape {tuple(x.shape)} on {x.device}" if isinstance(x, Tensor) else quoted(x)
            raise InputError(
                f"an attack must judge and hand in iterates such as x, {like.dtype} of shape {tuple(like.shape)} "
                f"on {like.device}, got {seen}"
            )

    def boundary(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The salient features from the weakest on, and the others from the strongest on, as far as they can meet.

        Of explanations (N, ..., n): feature numbers, int64 (N, ..., min(k, n - k)) each. Ties are ordered as in a
        ranking, the smaller number first.
        """
        pairs = min(self.k, scores.shape[-1] - self.k)
        inside = scores.gather(-1, self.salient).sort(dim=-1, descending=True, stable=True).indices.flip(-1)
        outside = scores.gather(-1, self.contenders)
        if outside.shape[-1] <= SORTED_WHOLE:
            first = outside.sort(dim=-1, descending=True, stable=True).indices[..., :pairs]
        else:
            first = ranking.top_k(outside, pairs)
        return self.salient.gather(-1, inside[..., :pairs]), self.contenders.gather(-1, first)

    def lost(self, scores: Tensor, boundary: tuple[Tensor, Tensor]) -> Tensor:
        """How many salient features are no longer in the top k of explanations (N, ..., n), (N, ...).

        The q-th strongest other feature takes the place of the q-th weakest salient one if it ranks higher.
        """
        weakest, strongest = boundary
        below, above = scores.gather(-1, weakest), scores.gather(-1, strongest)
        return ((above > below) | ((above == below) & (strongest < weakest))).sum(-1)

    def other_logits(self, x: Tensor) -> list[Tensor]:
        """What further predictions say about inputs (N, *features): logits (N, C) each."""
        if self.predictions is None:
            return []
        with torch.no_grad():
            return list(self.predictions(x.detach()))

    def _other_classes(self) -> list[Tensor]:
        """The classes that further predictions assign to the clean inputs, int64 (N,) each."""
        try:
            logits = self.other_logits(self.x)
        # a person's own function
        except Exception as error:
            raise ModelError(
                f"predictions must map inputs (N, *features) to a list of logits (N, C), but it raised "
                f"{in_words(error)}"
            ) from error
        for number, values in enumerate(logits, 1):
            try:
                check_logits(values, len(self.x))
            except ModelError as error:
                raise ModelError(f"predictions, number {number} of {len(logits)}: {error}") from error
        return [predicted_class(values) for values in logits]

    def submit(self, found: Evaluation) -> Tensor:
        """Hand in the iterates of one iteration: the best feasible one of each row is remembered.

        Returns:
            Which of them count, bool (N,). An iterate that is not finite, that is outside of the budget or the
            domain, or whose logits or explanation are not finite, is never remembered and is no flip, whatever
            `keep` says. What `evaluate` did not give, or what was changed since, is judged again.
        """
        check_kind("found", found, Evaluation, "what search.evaluate(x) returns")
        if not _genuine(found):
            found = self.evaluate(found.x)
        self.iteration += 1
        legal = self.accept(found)
        if self.keep == "last":
            better = legal
        elif self.nearest:
            nearer = (self.precision == 1) | (self.distance(found.x.detach()) < self.distance(self.best))
            better = found.kept & (found.lowest < self.flip_below) & nearer
        else:
            better = found.kept & (found.precision < self.precision)
        better = better & legal
        counts = legal & (found.lowest < self.flip_below)
        if self.keep == "best":
            counts = counts & found.kept
        self.first_flip[counts & (self.first_flip < 0)] = self.iteration
        self.best = torch.where(rowwise(better, self.x), found.x.detach(), self.best)
        self.precision = torch.where(better, found.precision, self.precision)
        self.kept = torch.where(better, found.kept, self.kept)
        if self.record:
            self.history.append(torch.where(legal, found.precision, self.history[-1]))
        self.advance(1)
        return legal

    def accept(self, found: Evaluation) -> Tensor:
        """Which iterates are legal, bool (N,); the others are counted."""
        logits, scores = found.logits.detach(), found.scores.detach().flatten(start_dim=1)
        return self.limits.accept(found.x.detach(), logits.isfinite().all(1) & scores.isfinite().all(1))

    def adopt(self, rows: Tensor, x: Tensor, first_flip: Tensor) -> None:
        """Take over what an attack found for some rows (M,) where it is better; it is judged once more.

        Args:
            rows: their numbers, int64 (M,).
            x: perturbed inputs (M, *features).
            first_flip: in iterations of that attack (M,), -1 = never.
        """
        if not len(rows):
            return
        found = self.evaluate(self.best.index_copy(0, rows, x))
        named = torch.zeros_like(self.kept).index_fill(0, rows, True)
        better = self.accept(found) & found.kept & named
        flips = torch.full_like(self.first_flip, -1).index_copy(0, rows, first_flip)
        earlier = better & (found.lowest < self.flip_below) & (flips >= 0) & (self.first_flip < 0)
        self.first_flip = torch.where(earlier, self.iteration + flips, self.first_flip)
        better = better & (found.precision < self.precision)
        self.best = torch.where(rowwise(better, self.x), found.x.detach(), self.best)
        self.precision = torch.where(better, found.precision, self.precision)

    def project(self, x: Tensor) -> Tensor:
        """The iterates inside the budget and the domain."""
        delta = x - self.x
        if self.cap is not None:
            delta = delta.clamp(-self.cap, self.cap)
        if self.norm == "linf":
            return self.inside(self.x + delta.clamp(-self.radius, self.radius))
        delta = self.inside(self.x + delta) - self.x
        length = delta.flatten(start_dim=1).norm(dim=1)
        factor = (self.radius / length.clamp_min(self.radius)).to(x.dtype)
        # shrinking towards the clean input leaves the domain by rounding at most
        return self.inside(self.x + delta * rowwise(factor, x))

    def inside(self, x: Tensor) -> Tensor:
        """The nearest inputs in the domain, whatever the budget."""
        if self.all_movable and not self.bounded:
            return x
        inputs = self.explainer.inputs
        return self.domain.clamp(x.flatten(inputs), self.x.flatten(inputs)).reshape(self.x.shape)

    def allowed(self, step: Tensor) -> Tensor:
        """A direction without its components along features that cannot move."""
        if self.all_movable:
            return step
        flat = step.flatten(start_dim=self.explainer.inputs)
        # selected, not multiplied: an infinite component times zero would not be a number
        return torch.where(self.movable, flat, 0.0).reshape(step.shape)

    def direction(self, slope: Tensor) -> Tensor:
        """The step of length 1 in the attack's norm that follows a slope (N, *features) best; 0 if it has NaN."""
        slope = self.allowed(slope)
        if self.norm == "l2":
            return unit(slope)
        unknown = slope.flatten(start_dim=1).isnan().any(1)
        return torch.where(rowwise(unknown, slope), 0.0, slope.sign())

    def distance(self, x: Tensor) -> Tensor:
        """How far iterates are from the clean inputs, in the attack's norm, (N,)."""
        delta = (x - self.x).flatten(start_dim=1)
        distance: Tensor = delta.norm(dim=1) if self.norm == "l2" else delta.abs().amax(1)
        return distance

    def random_directions(self, draw: int = 0) -> Tensor:
        """A vector of length 1 in the attack's norm a row, (N, *features); the same for a row in any batch."""
        return self.direction(self.random_numbers(draw))

    def random_numbers(self, draw: int = 0, extra: int = 0) -> Tensor:
        """Standard normal numbers (N, *features) from the seed, the draw and each row's own values.

        With `extra` there are so many more of them behind, as (N, features + extra).
        """
        rows = self.x.detach().cpu().double().flatten(start_dim=1).numpy()
        draws = []
        for row in rows:
            digest = hashlib.blake2b(
                row.tobytes(), digest_size=7, key=str(self.seed).encode(), salt=draw.to_bytes(8, "little")
            ).digest()
            own = torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little"))
            draws.append(torch.randn(len(row) + extra, generator=own, dtype=torch.float64, device="cpu"))
        numbers = torch.stack(draws).to(self.x)
        return numbers if extra else numbers.reshape(self.x.shape)


def _members(mask: Tensor) -> Tensor:
    """The numbers of the members of sets (..., n) of one size, int64 (..., size)."""
    return mask.nonzero()[:, -1].reshape(*mask.shape[:-1], -1)


def rowwise(values: Tensor, like: Tensor) -> Tensor:
    """(N,) shaped to multiply (N, *features)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))
