"""The template of every attack: `__call__` is final (checks, judging, result); a subclass writes `run`."""

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, final, get_args, overload

import torch
from torch import Tensor, nn

from r2et.attacks.best import Best
from r2et.attacks.inspected import InspectedModel
from r2et.attacks.judge import Judge
from r2et.attacks.limits import Norm, in_words
from r2et.attacks.quick_contributions import quickened
from r2et.attacks.result import AttackResult, better, joined
from r2et.attacks.task import Predictions, Task, rowwise
from r2et.domain import Domain, Threat, under_threat
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_inputs
from r2et.numerics.modes import weights_kept
from r2et.numerics.preflight import apart, check_module, measuring
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
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

#: where a flip next to the boundary may be one
FARTHER = 1.01

Keep = Literal["best", "last", "any"]


@dataclass(frozen=True, kw_only=True)
class Attack(ABC):
    """The base class of attacks on the top-k set (Eq. 1).

    Args:
        k: size of the salient set.
        radius: budget of the perturbation, in the units of x.
        norm: of the budget, "l2" or "linf".
        steps: iterations.
        keep: "best" returns the iterate with the lowest P@k among those that keep the prediction; "any" the one
            with the lowest P@k, whatever it predicts; "last" the last iterate, whatever it predicts.
        flip_below: an iterate counts as a flip when its P@k is below this.
        cap: optional L-infinity budget on top.
        predictions: further predictions that must be kept: inputs to a list of logits (the two single-input
            classifiers beside a Siamese net; S = 3 in App. B.2.3). None = the model's own alone.
        explainer: the explanation that is attacked and judged.
        tolerance: how far the output of a model with one output may move while its prediction counts as kept, in
            the units of the output; None = `r2et.scores.TOLERANCE`, a tenth of a standard deviation of what is
            predicted if that is standardised. Where classes are predicted it means nothing.
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
    tolerance: float | None = None

    #: whether the attack looks for the nearest flip, not for the lowest P@k
    nearest: ClassVar[bool] = False
    #: whether the search may follow tables of contributions, which are nearly right
    by_tables: ClassVar[bool] = False
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
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)

    @overload
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        *,
        domain: Domain | None = ...,
        threat: Threat | None = ...,
        seed: int | None = ...,
        chunk_size: int | None = ...,
        progress: bool = ...,
        radii: None = ...,
    ) -> AttackResult: ...

    @overload
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        *,
        domain: Domain | None = ...,
        threat: Threat | None = ...,
        seed: int | None = ...,
        chunk_size: int | None = ...,
        progress: bool = ...,
        radii: Sequence[float],
    ) -> list[AttackResult]: ...

    @final
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        *,
        domain: Domain | None = None,
        threat: Threat | None = None,
        seed: int | None = None,
        chunk_size: int | None = None,
        progress: bool = False,
        radii: Sequence[float] | None = None,
    ) -> AttackResult | list[AttackResult]:
        """Attack a batch.

        Args:
            model: maps (N, *features) to logits (N, C); it is attacked in evaluation mode and left as it was.
            x: (N, *features), or (N, 2, *features) with a two-input explainer.
            domain: the inputs that exist; None = that is unknown.
            threat: what an attacker may do: "domain": move numbers inside their bounds, whole numbers in whole
                steps, categories and flags not at all; "tangent": everything, but sums of one-hot groups stay;
                "paper": everything, and categories are features like others. None = "domain" where a domain is
                known, else "paper". But for "paper", the model is explained without its gauge
                (`r2et.domain.without_gauge`).
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
        radii = None if radii is None else check_radii(radii)
        check_module(model)
        model, reach = under_threat(model, x, domain, threat, inputs=self.explainer.inputs)
        with measuring(model, x):
            self.explainer.check_k(self.k, self._ranked_features(model, x))
            known = InspectedModel(model, x.detach())
            tasks = [
                Task.prepare(self, model, part, reach=reach, seed=seed or 0, inspected=known)
                for part in x.detach().split(int(chunk_size or len(x)))
            ]
            results = self._run_all(tasks, radii or [self.radius], progress=progress)
        self._warn_of(results)
        return results[0] if radii is None else results

    def on(self, tasks: Sequence[Task], radii: Sequence[float], *, progress: bool = False) -> list[AttackResult]:
        """What `__call__` does with `radii`, for tasks that were prepared before: attacks share them.

        Args:
            tasks: of one model, by `Task.prepare`, for attacks with the explainer and k of this one.
            radii: checked.
            progress: show a progress bar.
        """
        results = self._run_all(tasks, radii, progress=progress)
        self._warn_of(results)
        return results

    def _run_all(self, tasks: Sequence[Task], radii: Sequence[float], *, progress: bool) -> list[AttackResult]:
        """The results at each radius, in the order of the radii."""
        attacks = [replace(self, radius=radius) for radius in sorted(set(radii))]
        work, name = len(attacks) * self.iterations() * len(tasks), type(self).__name__
        with weights_kept(tasks[0].model, name), progress_bar(name, work, progress) as advance:
            parts = [self.attack_together([task.for_attack(a) for a in attacks], advance) for task in tasks]
        results: dict[float, AttackResult] = {}
        smaller: AttackResult | None = None
        for attack, chunks in zip(attacks, zip(*parts, strict=True), strict=True):
            result = joined(list(chunks))
            if smaller is not None and self.keep != "last":
                result = better(smaller, result, nearest=self.nearest)
            results[attack.radius] = smaller = result
        return [results[radius] for radius in radii]

    def _warn_of(self, results: list[AttackResult]) -> None:
        different = {id(result): result.rejected for result in results}
        rejected = sum(different.values(), Counter[str]())
        if rejected:
            # told to whoever called the attack
            warnings.warn(f"{type(self).__name__}: {in_words(rejected)}", stacklevel=3)
        for note in dict.fromkeys(note for result in results for note in result.notes):
            warnings.warn(f"{type(self).__name__}: {note}", stacklevel=3)

    def iterations(self) -> int:
        """How many times `best.submit` is called, for the progress bar."""
        return self.steps

    @abstractmethod
    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Look for perturbations.

        Args:
            task: what is attacked; `task.project` brings iterates into the budget and the domain.
            judge: `judge.evaluate` explains and judges iterates.
            best: every evaluation is handed to `best.submit`, which refuses what is not legal.
        """

    def run_together(self, bests: Sequence[Best]) -> None:
        """Look for perturbations at several radii: one after the other, unless a subclass knows better.

        Args:
            bests: one per radius, from the smallest on; `best.judge.task` is what is attacked, by this attack with
                a radius of its own.
        """
        for best in bests:
            task = best.judge.task
            task.attack.run(task, best.judge, best)

    def _ranked_features(self, model: nn.Module, x: Tensor) -> int:
        """The number of features that are ranked; fails early on a model that has no second derivative."""
        point, logits = forward(model, x[:1])
        target = predicted_class(logits)
        with torch.enable_grad():
            attributions = self.explainer.attribute(model, point, target, create_graph=True, logits=logits)
        return int(self.explainer.flatten(attributions).shape[-1])

    def attack(self, task: Task, advance: Callable[[int], None] | None = None) -> AttackResult:
        """Attack one task at one radius, without checks: what attacks made of attacks use."""
        return self.attack_together([task], advance)[0]

    def attack_together(
        self, tasks: Sequence[Task], advance: Callable[[int], None] | None = None
    ) -> list[AttackResult]:
        """Attack tasks of one model, without checks; each is for this attack at a radius of its own."""
        with measuring(tasks[0].model, tasks[0].x):
            quick = quickened(tasks) if self.by_tables else None
            # an attack gets copies: what it writes to is its own
            own = [task.copied() if quick is None else _explained_by(quick, task.copied()) for task in tasks]
            bests = [Best(Judge(task), advance) for task in own]
            search = self if quick is None else replace(self, explainer=quick)
            with torch.enable_grad():
                search.run_together(bests)
            if self._foreign:
                for task in tasks:
                    self._check_model_kept(task)
            judged = self._judged if quick is None else self._judged_again
            return [judged(Judge(task), best) for task, best in zip(tasks, bests, strict=True)]

    def _judged_again(self, judge: Judge, best: Best) -> AttackResult:
        """As `_judged`; where what a table calls a flip is none, also a little farther away."""
        task, result = judge.task, self._judged(judge, best)
        missed = (best.precision < 1) & (result.precision == 1)
        if not missed.any():
            return result
        farther = task.project(task.x + FARTHER * (best.x - task.x))
        best.x = torch.where(rowwise(missed, task.x), farther, best.x)
        return better(result, self._judged(Judge(task), best), nearest=self.nearest)

    @property
    def _foreign(self) -> bool:
        """Whether somebody else wrote the attack: the tests say that ours leave a model alone."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    def _check_model_kept(self, task: Task) -> None:
        """Raise if the model has other logits at the clean inputs than before the search."""
        clean, now = task.logits, logits_of(task.model, task.x)
        if apart(clean, now, task.x):
            row = int((clean - now).abs().amax(1).argmax())
            raise InputError(
                f"{type(self).__name__} changed the model while it searched: row {row} had logits "
                f"{clean[row].tolist()} and has {now[row].tolist()}; attack a copy, copy.deepcopy(task.model)"
            )

    def _judged(self, judge: Judge, best: Best) -> AttackResult:
        """What the model shows at the inputs that a search ended with, whatever the search says about them.

        Args:
            judge: of the task as it was before, which nobody has touched.
            best: after the last iteration.
        """
        task = judge.task
        evaluation = judge.evaluate(best.x)
        counts = judge.accept(evaluation)
        first_flip = best.first_flip
        if self.keep != "last":
            counts = counts & evaluation.kept & (evaluation.precision < 1)
            first_flip = torch.where(counts, first_flip, -1)
        x = torch.where(rowwise(counts, task.x), evaluation.x.detach(), task.x)
        return AttackResult(
            x=x,
            precision=torch.where(counts, evaluation.precision, 1.0),
            kept=judge.unchanged(evaluation.x, evaluation.logits) | ~counts,
            distance=task.distance(x),
            first_flip=first_flip,
            before=task.before,
            after=torch.where(
                rowwise(counts, task.before), evaluation.scores.detach()[..., task.blanks :], task.before
            ),
            history=torch.stack(best.history) if self.history else None,
            details=best.details,
            rejected=best.judge.rejected + judge.rejected,
            notes=tuple(best.notes),
            positive=self.explainer.positive,
        )


def _explained_by(explainer: Explainer, task: Task) -> Task:
    """A task with another explainer that explains nearly alike."""
    return replace(task, attack=replace(task.attack, explainer=explainer))


ATTACKS: Registry[type[Attack]] = Registry("attack", "r2et.attacks", package="r2et.attacks", base=Attack)
