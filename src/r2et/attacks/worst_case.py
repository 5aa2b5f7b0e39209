"""The number to report: the worst that a fixed, versioned set of attacks finds for each input."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.boundary import BoundaryAttack, BoundaryLoss
from r2et.attacks.closed_search import has_formulas
from r2et.attacks.judge import Judge
from r2et.attacks.minimal import MinimalFlip
from r2et.attacks.next_feature import NextFeatureAttack, check_starts
from r2et.attacks.pgd import ERAttack, MSEAttack
from r2et.attacks.random_search import RandomSearchAttack
from r2et.attacks.task import Task
from r2et.errors import InputError
from r2et.numerics.values import check_choice, quoted

Budget = Literal["fast", "standard", "thorough"]
Version = Literal[1, 2]
#: steps of ERAttack and of each BoundaryAttack, and restarts of the latter
EFFORT: dict[str, tuple[int, int, int]] = {
    "fast": (50, 30, 1),
    "standard": (200, 100, 2),
    "thorough": (1000, 300, 5),
}
#: of version 2: steps, restarts, hops and searches that hop
SEARCHES: dict[str, tuple[int, int, int, int]] = {
    "fast": (20, 4, 1, 2),
    "standard": (50, 24, 4, 12),
    "thorough": (50, 128, 16, 48),
}
#: the same where there are formulas; "standard" was chosen on validation rows of Adult and Bank
BY_FORMULAS: dict[str, tuple[int, int, int, int]] = {
    "fast": (25, 16, 2, 8),
    "standard": (50, 64, 6, 24),
    "thorough": (100, 256, 16, 64),
}
#: draws and rounds without gradients
DRAWS: dict[str, tuple[int, int]] = {"fast": (50, 5), "standard": (1000, 20), "thorough": (2000, 50)}
#: softplus sharpness of the surrogates of piecewise-linear nets
BETAS: dict[str, tuple[float, ...]] = {
    "fast": (10.0,),
    "standard": (3.0, 10.0, 30.0),
    "thorough": (1.0, 3.0, 10.0, 30.0, 100.0),
}


@ATTACKS.register("worst-case")
@dataclass(frozen=True, kw_only=True)
class WorstCase(Attack):
    """For each input the lowest P@k that a fixed set of attacks finds.

    Version 2 is NextFeatureAttack, RandomSearchAttack, BoundaryAttack (both losses; "fast": the soft one) and, for
    rows that none has flipped, MinimalFlip; all radii of a call are searched together, and networks that have
    formulas (`r2et.attacks.closed_search`) longer than others. Version 1, of older records, is
    ERAttack, MSEAttack, BoundaryAttack (both losses, several surrogates and restarts) and MinimalFlip. Rows that
    have lost all of their top-k features are not attacked again.

    The set of attacks is fixed by `recipe` and `budget`, so that figures stay comparable: quote both. `steps` does
    not apply.

    Args:
        budget: "fast", "standard" or "thorough".
        members: attacks in place of the recipe's: names, `package.module:Class`, classes, or objects; "worst-case"
            is the recipe itself. They get k, radius, norm, explainer and so on from here.
        version: of the recipe, 1 or 2.
        starts: further inputs (M, *features), such as training rows, towards which version 2 begins some searches;
            None = random points only.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> attack = WorstCase(k=2, radius=0.5, budget="fast")
    >>> attack.recipe, attack(model, torch.randn(4, 6)).x.shape
    ('WorstCase-2', torch.Size([4, 6]))
    >>> WorstCase(k=2, radius=0.5, members=["worst-case", BoundaryAttack]).recipe
    'WorstCase of WorstCase-2, BoundaryAttack'
    """

    budget: Budget = "standard"
    members: Sequence[str | type[Attack] | Attack] | None = None
    version: Version = 2
    starts: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("budget", self.budget, get_args(Budget))
        if self.version not in get_args(Version) or isinstance(self.version, bool):
            raise InputError(f"version must be 1 or 2, got {quoted(self.version)}")
        check_starts(self.starts)
        if self.keep == "last":
            raise InputError(f"WorstCase returns the worst it finds; keep={self.keep!r} is not supported")
        if self.members is not None:
            object.__setattr__(self, "members", self._built(self.members))

    def __repr__(self) -> str:
        # version 1 reads as it did before there were others: audits and records quote it
        usual = {"members": None, "version": 1, "tolerance": None}
        shown = [e.name for e in fields(self) if e.repr and getattr(self, e.name) != usual.get(e.name, _UNUSUAL)]
        return f"WorstCase({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def recipe(self) -> str:
        """Name and version of the set of attacks."""
        if self.members is None:
            return f"WorstCase-{self.version}" + (", prediction free" if self.keep == "any" else "")
        own = [member.recipe if isinstance(member, WorstCase) else type(member).__name__ for member in self._own]
        return f"WorstCase of {', '.join(own)}"

    def iterations(self) -> int:
        """The most that is done; rows that are through are left out."""
        return sum(attack.iterations() for attack in self.attacks(piecewise=True, formulas=True))

    @property
    def _shared(self) -> dict[str, Any]:
        """What all members have in common."""
        names = (
            "k",
            "radius",
            "keep",
            "norm",
            "cap",
            "predictions",
            "explainer",
            "flip_below",
            "history",
            "tolerance",
        )
        return {name: getattr(self, name) for name in names}

    def _built(self, members: Sequence[str | type[Attack] | Attack]) -> tuple[Attack, ...]:
        if isinstance(members, str) or not isinstance(members, Iterable) or not members:
            raise InputError(f'members must be a list of attacks such as ["worst-case"], got {quoted(members)}')
        return tuple(map(self._member, members))

    def _member(self, attack: str | type[Attack] | Attack) -> Attack:
        recipe = not isinstance(attack, Attack) and ATTACKS.find(attack).thing is WorstCase
        own = {"budget": self.budget, "version": self.version, "starts": self.starts} if recipe else {}
        member: Attack = ATTACKS.create(attack, **self._shared, **own)
        return member

    @property
    def _own(self) -> Sequence[Attack]:
        return self.members or ()  # type: ignore[return-value]  # built when this attack was

    def attacks(self, *, piecewise: bool, formulas: bool = False) -> list[Attack]:
        """The members, or the attacks of the recipe.

        Args:
            piecewise: for a net without second derivatives; matters to version 1.
            formulas: for a net that is searched by formulas (`r2et.attacks.closed_search`): version 2 searches
                longer there.
        """
        if self.members is not None:
            return list(self._own)
        return self._second(formulas=formulas) if self.version == 2 else self._first(piecewise=piecewise)

    def _first(self, *, piecewise: bool) -> list[Attack]:
        plain, steps, restarts = EFFORT[self.budget]
        shared = self._shared
        recipe: list[Attack] = [
            BoundaryAttack(**shared, steps=steps, loss="hinge", beta=beta, restarts=restarts)
            for beta in (BETAS[self.budget] if piecewise else (None,))
        ]
        recipe.append(BoundaryAttack(**shared, steps=steps, loss="soft", restarts=1))
        recipe += [ERAttack(**shared, steps=plain), MSEAttack(**shared, steps=plain)]
        return [*recipe, *self._nearest()]

    def _second(self, *, formulas: bool) -> list[Attack]:
        steps, restarts, hops, hop_restarts = (BY_FORMULAS if formulas else SEARCHES)[self.budget]
        draws, rounds = DRAWS[self.budget]
        search = NextFeatureAttack(
            **self._shared,
            steps=steps,
            restarts=restarts,
            hops=hops,
            hop_restarts=hop_restarts,
            starts=self.starts,
        )
        recipe: list[Attack] = [search, RandomSearchAttack(**self._shared, steps=draws, rounds=rounds)]
        # steps that adapt: at small radii by the hinge, a feature here and there; at large k by all pairs at once,
        # which on images displaces more than many starts do
        losses: tuple[BoundaryLoss, ...] = ("soft",) if self.budget == "fast" else ("hinge", "soft")
        for loss in losses:
            recipe.append(BoundaryAttack(**self._shared, steps=EFFORT[self.budget][1], loss=loss))
        return [*recipe, *self._nearest()]

    def _nearest(self) -> list[Attack]:
        return [MinimalFlip(**self._shared)] if self.norm == "l2" else []

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Attack at one radius."""
        self.run_together([best])

    def run_together(self, bests: Sequence[Best]) -> None:
        """Attack with each member what the ones before it have left, at all radii."""
        task = bests[0].judge.task
        for member in self.attacks(piecewise=task.inspected.piecewise_linear, formulas=has_formulas(task)):
            left = [(best, rows) for best in bests if len(rows := self._left(best, member))]
            if left:
                self._run_member(member, left)
            if self.version == 2:
                _count_at_larger_radii(bests)

    def _left(self, best: Best, member: Attack) -> Tensor:
        """The rows that a member attacks, int64 (M,)."""
        # a nearest flip displaces no more than what has flipped the row
        unflipped = self.version == 2 and self.members is None and member.nearest
        return (best.precision == 1 if unflipped else best.precision > 0).nonzero().squeeze(1)

    def _run_member(self, member: Attack, left: Sequence[tuple[Best, Tensor]]) -> None:
        tasks = []
        for best, rows in left:
            task = best.judge.task
            tasks.append(task.for_attack(replace(member, radius=task.attack.radius), rows))
        results = member.attack_together(tasks, left[0][0].advance)
        for (best, rows), result in zip(left, results, strict=True):
            if result.history is not None:
                lines = result.history[1:]
                best.history += [best.precision.index_copy(0, rows, line) for line in lines]
            best.judge.rejected.update(result.rejected)
            best.notes.update(dict.fromkeys(result.notes))
            best.adopt(rows, result.x, result.first_flip)
            best.iteration += member.iterations()


def _count_at_larger_radii(bests: Sequence[Best]) -> None:
    """What was found at a radius counts at the next larger one, if both are of the same rows."""
    for smaller, larger in pairwise(bests):
        if smaller.x.shape == larger.x.shape and torch.equal(smaller.judge.task.x, larger.judge.task.x):
            rows = (smaller.precision < larger.precision).nonzero().squeeze(1)
            larger.adopt(rows, smaller.x[rows], torch.full_like(rows, -1))


#: what no setting is
_UNUSUAL = object()
