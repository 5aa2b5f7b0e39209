"""The template of every attack: `__call__` is final (checks, judging, result); a subclass writes `run`."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, final, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et._checks import (
    InputError,
    check_choice,
    check_chunk_size,
    check_count,
    check_inputs,
    check_k,
    check_logits,
    check_positive,
)
from r2et._progress import progress_bar
from r2et.attacks.domain import Domain
from r2et.explain import Explainer, Gradient
from r2et.explain.base import forward, prediction, unit
from r2et.scores import predicted_class

Keep = Literal["best", "last"]


@dataclass(frozen=True)
class AttackResult:
    """What an attack found, row by row.

    Attributes:
        x: the perturbed inputs (N, *features).
        precision: P@k of the explanations before and after (N,), the mean over both inputs of a pair.
        kept: whether the predicted class is unchanged, bool (N,).
        distance: L2 norm of the perturbation (N,), the joint norm of a pair.
        first_flip: the first iteration, counted from 1, whose P@k was below `flip_below` (N,), for either input of
            a pair; -1 = never.
        before: explanations of the clean inputs (N, ..., n).
        after: explanations of the perturbed inputs (N, ..., n).
        history: P@k at each iteration, the clean input first (iterations + 1, N); None unless asked for.
    """

    x: Tensor
    precision: Tensor
    kept: Tensor
    distance: Tensor
    first_flip: Tensor
    before: Tensor
    after: Tensor
    history: Tensor | None = None

    def __repr__(self) -> str:
        return (
            f"AttackResult(rows={len(self.x)}, mean precision={float(self.precision.mean()):.4f}, "
            f"kept={float(self.kept.float().mean()):.1%}, mean distance={float(self.distance.mean()):.4g})"
        )


@dataclass(frozen=True)
class Evaluation:
    """One set of iterates, judged on the real model.

    Attributes:
        x: the iterates (N, *features); require gradients if the explanation is to be differentiated.
        logits: (N, C).
        scores: the judged explanation (N, ..., n).
        precision: (N,), the mean over both inputs of a pair.
        lowest: (N,), the lower of the two.
        kept: bool (N,).
    """

    x: Tensor
    logits: Tensor
    scores: Tensor
    precision: Tensor
    lowest: Tensor
    kept: Tensor


@dataclass
class Search:
    """The state of one attack on one batch: what is attacked, what is allowed, and the best found so far."""

    model: nn.Module
    x: Tensor
    target: Tensor
    before: Tensor
    k: int
    radius: float
    cap: float | None
    keep: Keep
    flip_below: float
    explainer: Explainer
    domain: Domain
    record: bool
    advance: Callable[[int], None]
    seed: int
    iteration: int = 0
    best: Tensor = field(init=False)
    precision: Tensor = field(init=False)
    kept: Tensor = field(init=False)
    first_flip: Tensor = field(init=False)
    history: list[Tensor] = field(init=False, default_factory=list)

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

    def evaluate(self, x: Tensor, create_graph: bool = False) -> Evaluation:
        """Explain and judge iterates; with `create_graph` the scores can be differentiated by `x`."""
        point, logits = forward(self.model, x)
        with torch.enable_grad():
            attributions = self.explainer.attribute(self.model, point, self.target, create_graph, logits)
            scores = self.explainer.flatten(attributions)
        overlap = ranking.overlap(self.top, ranking.top_k_mask(scores.detach(), self.k), scores.dtype)
        precision, lowest = (overlap.mean(1), overlap.amin(1)) if overlap.ndim > 1 else (overlap, overlap)
        kept = predicted_class(logits) == self.target
        return Evaluation(point, logits, scores, precision, lowest, kept)

    def submit(self, found: Evaluation) -> None:
        """Hand in the iterates of one iteration: the best feasible one of each row is remembered."""
        self.iteration += 1
        if self.keep == "last":
            better = torch.ones_like(self.kept)
        else:
            better = found.kept & (found.precision < self.precision)
        counts = found.lowest < self.flip_below
        if self.keep == "best":
            counts = counts & found.kept
        self.first_flip[counts & (self.first_flip < 0)] = self.iteration
        self.best = torch.where(_rows(better, self.x), found.x.detach(), self.best)
        self.precision = torch.where(better, found.precision, self.precision)
        self.kept = torch.where(better, found.kept, self.kept)
        if self.record:
            self.history.append(found.precision)
        self.advance(1)

    def project(self, x: Tensor) -> Tensor:
        """The iterates inside the budget and the domain."""
        delta = x - self.x
        if self.cap is not None:
            delta = delta.clamp(-self.cap, self.cap)
        delta = self._inside(self.x + delta) - self.x
        length = delta.flatten(start_dim=1).norm(dim=1)
        factor = (self.radius / length.clamp_min(self.radius)).to(x.dtype)
        # shrinking towards the clean input leaves the domain by rounding at most
        return self._inside(self.x + delta * _rows(factor, x))

    def _inside(self, x: Tensor) -> Tensor:
        inputs = self.explainer.inputs
        return self.domain.clamp(x.flatten(inputs), self.x.flatten(inputs)).reshape(self.x.shape)

    def allowed(self, step: Tensor) -> Tensor:
        """A direction without its components along features that cannot move."""
        if self.movable.all():
            return step
        flat = step.flatten(start_dim=self.explainer.inputs)
        return (flat * self.movable).reshape(step.shape)

    def random_directions(self) -> Tensor:
        """A unit vector a row (N, *features), from the seed and the row's own values.

        A row gets the same direction alone and in any batch.
        """
        rows = self.x.detach().cpu().double().flatten(start_dim=1).numpy()
        draws = []
        for row in rows:
            digest = hashlib.blake2b(row.tobytes(), digest_size=7, key=str(self.seed).encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
            draws.append(torch.randn(len(row), generator=generator, dtype=torch.float64))
        directions = self.allowed(torch.stack(draws).to(self.x).reshape(self.x.shape))
        return unit(directions)


@dataclass(frozen=True, kw_only=True)
class Attack(ABC):
    """The base class of attacks on the top-k set (Eq. 1).

    Args:
        k: size of the salient set.
        radius: L2 budget of the perturbation, in the units of x.
        steps: iterations.
        keep: "best" returns the iterate with the lowest P@k among those that keep the prediction; "last" the
            last iterate, whatever it predicts.
        flip_below: an iterate counts as a flip when its P@k is below this.
        cap: optional L-infinity budget on top.
        explainer: the explanation that is attacked and judged.
        history: record P@k at each iteration.
    """

    k: int
    radius: float
    steps: int = 1000
    keep: Keep = "best"
    flip_below: float = 1.0
    cap: float | None = None
    explainer: Explainer = field(default_factory=Gradient)
    history: bool = False

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)
        check_choice("keep", self.keep, get_args(Keep))
        check_count("steps", self.steps)
        if not 0 < self.flip_below <= 1:
            raise InputError(f"flip_below is a P@k, above 0 and at most 1; got {self.flip_below}")
        if self.cap is not None:
            check_positive("cap", self.cap)

    @final
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        domain: Domain | None = None,
        seed: int | None = None,
        chunk_size: int | None = None,
        progress: bool = False,
    ) -> AttackResult:
        """Attack a batch.

        Args:
            model: maps (N, *features) to logits (N, C).
            x: (N, *features), or (N, 2, *features) with a two-input explainer.
            domain: what may be perturbed; None = everything.
            seed: of random starts; None = 0. A row alone gets the same start as in a batch.
            chunk_size: how many rows are attacked at once; None = all.
            progress: show a progress bar.
        """
        check_inputs(x)
        self.explainer.check_shape(x)
        check_k(self.k, self._check_model(model, x))
        check_chunk_size(chunk_size)
        domain = domain or Domain()
        domain.check(x[0].numel() // self.explainer.inputs)
        parts = x.detach().split(chunk_size or len(x))
        with progress_bar(type(self).__name__, self.steps * len(parts), progress) as advance:
            results = [self._attack(model, part, domain, seed or 0, advance) for part in parts]
        return _join(results)

    @abstractmethod
    def run(self, search: Search) -> None:
        """Look for perturbations; hand every iterate to `search.submit`."""

    def _check_model(self, model: nn.Module, x: Tensor) -> int:
        """Fail early on a model that cannot be attacked; the number of features that are ranked."""
        point, logits = forward(model, x[:1])
        check_logits(logits, 1)
        with torch.enable_grad():
            attributions = self.explainer.attribute(model, point, predicted_class(logits), True, logits)
        return int(self.explainer.flatten(attributions).shape[-1])

    def _attack(
        self, model: nn.Module, x: Tensor, domain: Domain, seed: int, advance: Callable[[int], None]
    ) -> AttackResult:
        target = prediction(model, x)
        before = self.explainer(model, x, target)
        search = Search(
            model=model,
            x=x,
            target=target,
            before=before,
            k=self.k,
            radius=self.radius,
            cap=self.cap,
            keep=self.keep,
            flip_below=self.flip_below,
            explainer=self.explainer,
            domain=domain,
            record=self.history,
            advance=advance,
            seed=seed,
        )
        self.run(search)
        return AttackResult(
            x=search.best,
            precision=search.precision,
            kept=search.kept,
            distance=(search.best - x).flatten(start_dim=1).norm(dim=1),
            first_flip=search.first_flip,
            before=before,
            after=self.explainer(model, search.best, target),
            history=torch.stack(search.history) if search.record else None,
        )


def _rows(values: Tensor, like: Tensor) -> Tensor:
    """(N,) shaped to multiply (N, *features)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _join(results: list[AttackResult]) -> AttackResult:
    if len(results) == 1:
        return results[0]
    joined = {
        name: torch.cat([getattr(result, name) for result in results])
        for name in ("x", "precision", "kept", "distance", "first_flip", "before", "after")
    }
    histories = [result.history for result in results if result.history is not None]
    return AttackResult(**joined, history=torch.cat(histories, dim=1) if histories else None)
