"""The number to report: the worst that a fixed, versioned set of attacks finds for each input."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.boundary import BoundaryAttack
from r2et.attacks.judge import Judge
from r2et.attacks.minimal import MinimalFlip
from r2et.attacks.pgd import ERAttack, MSEAttack
from r2et.attacks.task import Task
from r2et.errors import InputError
from r2et.numerics.values import check_choice, quoted

Budget = Literal["fast", "standard", "thorough"]
#: steps of ERAttack and of each BoundaryAttack, and restarts of the latter
EFFORT: dict[str, tuple[int, int, int]] = {
    "fast": (50, 30, 1),
    "standard": (200, 100, 2),
    "thorough": (1000, 300, 5),
}
#: softplus sharpness of the surrogates of piecewise-linear nets
BETAS: dict[str, tuple[float, ...]] = {
    "fast": (10.0,),
    "standard": (3.0, 10.0, 30.0),
    "thorough": (1.0, 3.0, 10.0, 30.0, 100.0),
}


@ATTACKS.register("worst-case")
@dataclass(frozen=True, kw_only=True)
class WorstCase(Attack):
    """The sample-wise minimum of P@k over ERAttack, MSEAttack, BoundaryAttack (both losses, several surrogates and
    restarts) and MinimalFlip. Rows that have lost all of their top-k features are not attacked again.

    The set of attacks is fixed by `recipe` and `budget`, so that figures stay comparable: quote both. `steps` does
    not apply.

    Args:
        budget: "fast", "standard" or "thorough".
        members: attacks in place of the recipe's: names, `package.module:Class`, classes, or objects; "worst-case"
            is the recipe itself. They get k, radius, norm, explainer and so on from here.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> attack = WorstCase(k=2, radius=0.5, budget="fast")
    >>> attack.recipe, attack(model, torch.randn(4, 6)).x.shape
    ('WorstCase-1', torch.Size([4, 6]))
    >>> WorstCase(k=2, radius=0.5, members=["worst-case", BoundaryAttack]).recipe
    'WorstCase of WorstCase-1, BoundaryAttack'
    """

    budget: Budget = "standard"
    members: Sequence[str | type[Attack] | Attack] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("budget", self.budget, get_args(Budget))
        if self.keep != "best":
            raise InputError(f"WorstCase keeps the prediction by definition; keep={self.keep!r} is not supported")
        if self.members is not None:
            object.__setattr__(self, "members", self._built(self.members))

    def __repr__(self) -> str:
        # the recipe's reads as it did before there were members: audits and records quote it
        shown = [entry.name for entry in fields(self) if entry.name != "members" or self.members is not None]
        return f"WorstCase({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def recipe(self) -> str:
        """Name and version of the set of attacks."""
        if self.members is None:
            return "WorstCase-1"
        own = [member.recipe if isinstance(member, WorstCase) else type(member).__name__ for member in self._own]
        return f"WorstCase of {', '.join(own)}"

    def iterations(self) -> int:
        """The most that is done; rows that are through are left out."""
        return sum(attack.iterations() for attack in self.attacks(piecewise=True))

    @property
    def _shared(self) -> dict[str, Any]:
        """What all members have in common."""
        names = ("k", "radius", "norm", "cap", "predictions", "explainer", "flip_below", "history")
        return {name: getattr(self, name) for name in names}

    def _built(self, members: Sequence[str | type[Attack] | Attack]) -> tuple[Attack, ...]:
        if isinstance(members, str) or not isinstance(members, Iterable) or not members:
            raise InputError(f'members must be a list of attacks such as ["worst-case"], got {quoted(members)}')
        return tuple(map(self._member, members))

    def _member(self, attack: str | type[Attack] | Attack) -> Attack:
        recipe = not isinstance(attack, Attack) and ATTACKS.find(attack).thing is WorstCase
        own = {"budget": self.budget} if recipe else {}
        member: Attack = ATTACKS.create(attack, **self._shared, keep="best", **own)
        return member

    @property
    def _own(self) -> Sequence[Attack]:
        return self.members or ()  # type: ignore[return-value]  # built when this attack was

    def attacks(self, *, piecewise: bool) -> list[Attack]:
        """The members, or the attacks of the recipe for a net with or without second derivatives."""
        if self.members is not None:
            return list(self._own)
        plain, steps, restarts = EFFORT[self.budget]
        shared = self._shared
        recipe: list[Attack] = [
            BoundaryAttack(**shared, steps=steps, loss="hinge", beta=beta, restarts=restarts)
            for beta in (BETAS[self.budget] if piecewise else (None,))
        ]
        recipe.append(BoundaryAttack(**shared, steps=steps, loss="soft", restarts=1))
        recipe += [ERAttack(**shared, steps=plain), MSEAttack(**shared, steps=plain)]
        if self.norm == "l2":
            recipe.append(MinimalFlip(**shared))
        return recipe

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Attack with each member what the ones before it have left."""
        for attack in self.attacks(piecewise=task.inspected.piecewise_linear):
            rows = (best.precision > 0).nonzero().squeeze(1)
            if not len(rows):
                return
            result = attack.attack(task.for_attack(attack, rows), best.advance)
            if result.history is not None:
                lines = result.history[1:]
                best.history += [best.precision.index_copy(0, rows, line) for line in lines]
            judge.rejected.update(result.rejected)
            best.adopt(rows, result.x, result.first_flip)
            best.iteration += attack.iterations()
