"""The number to report: the worst that a fixed, versioned set of attacks finds for each input."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from r2et import validate
from r2et.attacks.base import Attack
from r2et.attacks.boundary import BoundaryAttack
from r2et.attacks.minimal import MinimalFlip
from r2et.attacks.pgd import ERAttack, MSEAttack
from r2et.attacks.search import Search
from r2et.errors import InputError
from r2et.numerics.values import check_choice

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


@dataclass(frozen=True, kw_only=True)
class WorstCase(Attack):
    """The sample-wise minimum of P@k over ERAttack, MSEAttack, BoundaryAttack (both losses, several surrogates and
    restarts) and MinimalFlip. Rows that have lost all of their top-k features are not attacked again.

    The set of attacks is fixed by `recipe` and `budget`, so that figures stay comparable: quote both. `steps` does
    not apply.

    Args:
        budget: "fast", "standard" or "thorough".

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> attack = WorstCase(k=2, radius=0.5, budget="fast")
    >>> attack.recipe, attack(model, torch.randn(4, 6)).x.shape
    ('WorstCase-1', torch.Size([4, 6]))
    """

    budget: Budget = "standard"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("budget", self.budget, get_args(Budget))
        if self.keep != "best":
            raise InputError(f"WorstCase keeps the prediction by definition; keep={self.keep!r} is not supported")

    @property
    def recipe(self) -> str:
        """Name and version of the set of attacks."""
        return "WorstCase-1"

    def iterations(self) -> int:
        """The most that is done; rows that are through are left out."""
        return sum(attack.iterations() for attack in self.members(piecewise=True))

    def members(self, piecewise: bool) -> list[Attack]:
        """The attacks of the recipe, for a net with or without second derivatives."""
        plain, steps, restarts = EFFORT[self.budget]
        shared: dict[str, Any] = {
            "k": self.k,
            "radius": self.radius,
            "norm": self.norm,
            "cap": self.cap,
            "predictions": self.predictions,
            "explainer": self.explainer,
            "flip_below": self.flip_below,
            "history": self.history,
        }
        found: list[Attack] = [
            BoundaryAttack(**shared, steps=steps, loss="hinge", beta=beta, restarts=restarts)
            for beta in (BETAS[self.budget] if piecewise else (None,))
        ]
        found.append(BoundaryAttack(**shared, steps=steps, loss="soft", restarts=1))
        found += [ERAttack(**shared, steps=plain), MSEAttack(**shared, steps=plain)]
        if self.norm == "l2":
            found.append(MinimalFlip(**shared))
        return found

    def run(self, search: Search) -> None:
        """Attack with each member what the ones before it have left."""
        for attack in self.members(validate.piecewise_linear(search.model, search.x)):
            rows = (search.precision > 0).nonzero().squeeze(1)
            if not len(rows):
                return
            found = attack.attack(search.model, search.x[rows], search.domain, search.seed, search.advance)
            if found.history is not None:
                lines = found.history[1:]
                search.history += [search.precision.index_copy(0, rows, line) for line in lines]
            search.limits.rejected += found.rejected
            search.adopt(rows, found.x, found.first_flip)
            search.iteration += attack.iterations()
