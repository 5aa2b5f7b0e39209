"""The template of every attack: `__call__` is final (checks, judging, result); a subclass writes `run`."""

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final, get_args, overload

import torch
from torch import Tensor, nn

from r2et.attacks.limits import Norm, in_words
from r2et.attacks.search import Keep, Predictions, Search, rowwise
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_inputs, check_logits
from r2et.numerics.modes import weights_kept
from r2et.numerics.preflight import apart, measuring
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
    check_k,
    check_kind,
    check_positive,
    check_radii,
    check_seed,
    check_share,
    plain_numbers,
    quoted,
)
from r2et.progress import progress_bar
from r2et.registry import Registry
from r2et.scores import logits_of, predicted_class


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

    def __repr__(self) -> str:
        return (
            f"AttackResult(rows={len(self.x)}, mean precision={float(self.precision.mean()):.4f}, "
            f"kept={float(self.kept.float().mean()):.1%}, mean distance={float(self.distance.mean()):.4g})"
        )


@dataclass(frozen=True, kw_only=True)
class Attack(ABC):
    """The base class of attacks on the top-k set (Eq. 1).

    Args:
        k: size of the salient set.
        radius: budget of the perturbation, in the units of x.
        norm: of the budget, "l2" or "linf".
        steps: iterations.
        keep: "best" returns the iterate with the lowest P@k among those that keep the prediction; "last" the
            last iterate, whatever it predicts.
        flip_below: an iterate counts as a flip when its P@k is below this.
        cap: optional L-infinity budget on top.
        predictions: further predictions that must be kept: inputs to a list of logits (the two single-input
            classifiers beside a Siamese net; S = 3 in App. B.2.3). None = the model's own alone.
        explainer: the explanation that is attacked and judged.
        history: record P@k at each iteration.
    """

    k: int
    radius: float
    steps: int = 1000
    keep: Keep = "best"
    flip_below: float = 1.0
    norm: Norm = "l2"
    cap: float | None = None
    predictions: Predictions | None = None
    explainer: Explainer = field(default_factory=Gradient)
    history: bool = False

    #: whether the attack looks for the nearest flip, not for the lowest P@k
    nearest: ClassVar[bool] = False
    #: whether it runs only when asked for by name, not among all attacks
    slow: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count("k", self.k)
        check_positive("radius", self.radius)
        check_choice("keep", self.keep, get_args(Keep))
        check_choice("norm", self.norm, get_args(Norm))
        check_count("steps", self.steps)
        check_share("flip_below", self.flip_below)
        if self.cap is not None:
            check_positive("cap", self.cap)
        if self.predictions is not None and not callable(self.predictions):
            raise InputError(f"predictions must be a function of the inputs, got {quoted(self.predictions)}")
        check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        check_flag("history", self.history)

    @overload
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        domain: Domain | None = ...,
        seed: int | None = ...,
        chunk_size: int | None = ...,
        progress: bool = ...,
        *,
        radii: None = ...,
    ) -> AttackResult: ...

    @overload
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        domain: Domain | None = ...,
        seed: int | None = ...,
        chunk_size: int | None = ...,
        progress: bool = ...,
        *,
        radii: Sequence[float],
    ) -> list[AttackResult]: ...

    @final
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        domain: Domain | None = None,
        seed: int | None = None,
        chunk_size: int | None = None,
        progress: bool = False,
        *,
        radii: Sequence[float] | None = None,
    ) -> AttackResult | list[AttackResult]:
        """Attack a batch.

        Args:
            model: maps (N, *features) to logits (N, C); it is attacked in evaluation mode and left as it was.
            x: (N, *features), or (N, 2, *features) with a two-input explainer.
            domain: what may be perturbed; None = everything.
            seed: of random starts; None = 0. A row alone gets the same start as in a batch.
            chunk_size: how many rows are attacked at once; None = all.
            progress: show a progress bar.
            radii: attack at each of these radii instead of `radius`. What a smaller one found counts for a larger
                one too, so that P@k never rises with the radius.

        Returns:
            A result, or with `radii` a list of results in the order of the radii.
        """
        check_inputs(x)
        self.explainer.check_shape(x)
        check_chunk_size(chunk_size)
        check_flag("progress", progress)
        if seed is not None:
            check_seed(seed)
        domain = Domain() if domain is None else domain
        check_kind("domain", domain, Domain, "r2et.Domain(lower=0.0)")
        domain.check(x[0].numel() // self.explainer.inputs)
        radii = None if radii is None else check_radii(radii)
        attacks = {radius: replace(self, radius=radius) for radius in sorted(radii or [self.radius])}
        parts = x.detach().split(int(chunk_size or len(x)))
        found: dict[float, AttackResult] = {}
        work = len(attacks) * self.iterations() * len(parts)
        name = type(self).__name__
        with measuring(model, x), weights_kept(model, name), progress_bar(name, work, progress) as advance:
            check_k(self.k, self._check_model(model, x))
            smaller = None
            for radius, attack in attacks.items():
                result = _join([attack.attack(model, part, domain, seed or 0, advance) for part in parts])
                if smaller is not None and self.keep == "best":
                    result = _better(smaller, result, self.nearest)
                found[radius] = smaller = result
        self._warn_of(sum((result.rejected for result in found.values()), Counter()))
        return found[self.radius] if radii is None else [found[radius] for radius in radii]

    def _warn_of(self, rejected: Counter[str]) -> None:
        if rejected:
            # told to whoever called the attack
            warnings.warn(f"{type(self).__name__}: {in_words(rejected)}", stacklevel=3)

    def iterations(self) -> int:
        """How many times `search.submit` is called, for the progress bar."""
        return self.steps

    @abstractmethod
    def run(self, search: Search) -> None:
        """Look for perturbations; hand every iterate to `search.submit`, which refuses what is not legal."""

    def _check_model(self, model: nn.Module, x: Tensor) -> int:
        """Fail early on a model that cannot be attacked; the number of features that are ranked."""
        point, logits = forward(model, x[:1])
        check_logits(logits, 1)
        with torch.enable_grad():
            attributions = self.explainer.attribute(model, point, predicted_class(logits), True, logits)
        return int(self.explainer.flatten(attributions).shape[-1])

    def attack(
        self, model: nn.Module, x: Tensor, domain: Domain, seed: int, advance: Callable[[int], None]
    ) -> AttackResult:
        """Attack one chunk at one radius, without checks: what `__call__` and attacks made of attacks use."""
        with measuring(model, x):
            clean = logits_of(model, x)
            target = predicted_class(clean)
            before = self.explainer(model, x, target)
            # an attack gets copies: what it writes to is its own
            search = self._new_search(model, x.clone(), target.clone(), before.clone(), domain, seed, advance)
            with torch.enable_grad():
                self.run(search)
            if self._foreign:
                self._check_model_kept(model, x, clean)
            return self._judged(self._new_search(model, x, target, before, domain, seed, advance), search)

    def _new_search(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        before: Tensor,
        domain: Domain,
        seed: int,
        advance: Callable[[int], None],
    ) -> Search:
        return Search(
            model=model,
            x=x,
            target=target,
            before=before,
            k=self.k,
            radius=self.radius,
            norm=self.norm,
            cap=self.cap,
            keep=self.keep,
            flip_below=self.flip_below,
            explainer=self.explainer,
            domain=domain,
            record=self.history,
            advance=advance,
            seed=seed,
            predictions=self.predictions,
            nearest=self.nearest,
        )

    @property
    def _foreign(self) -> bool:
        """Whether somebody else wrote the attack: the tests say that ours leave a model alone."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    def _check_model_kept(self, model: nn.Module, x: Tensor, clean: Tensor) -> None:
        """Raise if the model has other logits at x (N, *features) than before the search."""
        now = logits_of(model, x)
        if apart(clean, now, x):
            row = int((clean - now).abs().amax(1).argmax())
            raise InputError(
                f"{type(self).__name__} changed the model while it searched: row {row} had logits "
                f"{clean[row].tolist()} and has {now[row].tolist()}; attack a copy, copy.deepcopy(search.model)"
            )

    def _judged(self, judge: Search, search: Search) -> AttackResult:
        """What the model shows at the inputs that a search ended with, whatever the search says about them.

        Args:
            judge: the same search before its first iteration, which nobody has touched.
            search: after its last one.
        """
        found = judge.evaluate(search.best)
        counts = judge.accept(found)
        if self.keep == "best":
            counts = counts & found.kept & (found.precision < 1)
        first_flip = search.first_flip
        if self.keep == "best":
            first_flip = torch.where(counts, first_flip, -1)
        best = torch.where(rowwise(counts, judge.x), found.x.detach(), judge.x)
        return AttackResult(
            x=best,
            precision=torch.where(counts, found.precision, 1.0),
            kept=found.kept | ~counts,
            distance=judge.distance(best),
            first_flip=first_flip,
            before=judge.before,
            after=torch.where(rowwise(counts, judge.before), found.scores.detach(), judge.before),
            history=torch.stack(search.history) if search.record else None,
            details=search.details,
            rejected=search.limits.rejected + judge.limits.rejected,
        )


ATTACKS: Registry[type[Attack]] = Registry("attack", "r2et.attacks", package="r2et.attacks", base=Attack)


def _join(results: list[AttackResult]) -> AttackResult:
    if len(results) == 1:
        return results[0]
    joined = {
        name: torch.cat([getattr(result, name) for result in results])
        for name in ("x", "precision", "kept", "distance", "first_flip", "before", "after")
    }
    histories = [result.history for result in results if result.history is not None]
    details = None
    if results[0].details is not None:
        details = {name: torch.cat([(r.details or {})[name] for r in results]) for name in results[0].details}
    return AttackResult(
        **joined,
        history=torch.cat(histories, dim=1) if histories else None,
        details=details,
        rejected=sum((result.rejected for result in results), Counter()),
    )


def _better(first: AttackResult, second: AttackResult, nearest: bool) -> AttackResult:
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
