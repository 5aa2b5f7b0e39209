"""The search for hyper-parameters: candidates, successive halving, and the loop that trains and compares them."""

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from r2et.errors import InputError
from r2et.recipes.method import Grid
from r2et.recipes.methods import find_method
from r2et.recipes.selection import Trial, merit, select

C = TypeVar("C", bound=Hashable)
K = TypeVar("K", bound=Hashable)
#: after each rung, one candidate in this many goes on
REDUCTION = 2


def combinations(grid: Grid) -> list[dict[str, float]]:
    """Every combination of a grid's values; of an empty grid, the defaults.

    >>> combinations({"gap": (0.1, 1.0), "curvature": (0.1,)}), combinations({})
    ([{'gap': 0.1, 'curvature': 0.1}, {'gap': 1.0, 'curvature': 0.1}], [{}])
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def candidates(method: str, grid: Grid, chosen: Mapping[str, Mapping[str, float]]) -> list[dict[str, float]]:
    """The hyper-parameters to choose from.

    For R2ET and R2ET-mm these are pairs of equal weights, and the gap weight of the method without H with the
    weight of Est-H: what B.1.2 tries.

    Args:
        method: whose.
        grid: values of each of its hyper-parameters.
        chosen: what won for the methods before.

    >>> candidates("r2et", {"gap": (0.1, 1.0), "curvature": (0.1, 1.0)},
    ...            {"r2et-no-h": {"gap": 0.3}, "est-h": {"weight": 0.01}})
    [{'gap': 0.1, 'curvature': 0.1}, {'gap': 1.0, 'curvature': 1.0}, {'gap': 0.3, 'curvature': 0.01}]
    >>> candidates("sp", {"beta": (1.0, 5.0)}, {})
    [{'beta': 1.0}, {'beta': 5.0}]
    """
    parts = find_method(method).parts
    if parts is None or not {"gap", "curvature"} <= grid.keys():
        return combinations(grid)
    offered = [{"gap": weight, "curvature": weight} for weight in grid["gap"] if weight in grid["curvature"]]
    gap, curvature = (chosen.get(part, {}) for part in parts)
    if gap and curvature:
        pair = {"gap": gap["gap"], "curvature": curvature["weight"]}
        offered += [pair] if pair not in offered else []
    return offered


def rung_epochs(epochs: int, shares: Sequence[float]) -> list[int]:
    """After how many epochs candidates are compared; the last is the whole training.

    >>> rung_epochs(40, (0.25, 0.5, 1.0))
    [10, 20, 40]
    """
    return sorted({max(1, round(epochs * share)) for share in shares} | {epochs})


@dataclass(frozen=True)
class Step(Generic[C]):
    """Candidates that are to be trained for this many epochs, before anyone can say how the search goes on."""

    candidates: tuple[C, ...]
    epochs: int


class Halving(Generic[C]):
    """One search: ask for a step, train it, tell what came out, until there is a winner.

    After each rung the better half of the candidates goes on. All are compared at once, so that the result does
    not depend on who was trained first.

    Args:
        candidates: what can be chosen.
        rungs: after how many epochs they are compared; one entry for the full grid.

    Attributes:
        told: candidate, epochs and outcome of everything that was trained.
        winner: once the search is over; a single candidate wins untrained.

    >>> search = Halving(["a", "b"], [5])
    >>> search.next_step()
    Step(candidates=('a', 'b'), epochs=5)
    >>> search.tell({name: Trial(auc=0.9, passed=True, precision=p) for name, p in (("a", 0.5), ("b", 0.8))})
    >>> search.winner
    'b'
    """

    def __init__(self, candidates: Sequence[C], rungs: Sequence[int]) -> None:
        if not candidates:
            raise InputError("there is no candidate to choose from")
        self.candidates, self.rungs = tuple(candidates), list(rungs)
        self.told: list[tuple[C, int, Trial]] = []
        self.winner: C | None = candidates[0] if len(candidates) == 1 else None
        self._left = list(candidates)
        self._rung = 0

    def next_step(self) -> Step[C]:
        """Who has to be trained how far."""
        return Step(tuple(self._left), self.rungs[self._rung])

    def tell(self, trials: Mapping[C, Trial]) -> None:
        """What the candidates of the last step came to."""
        self.told += [(candidate, self.rungs[self._rung], trials[candidate]) for candidate in self._left]
        if self._rung == len(self.rungs) - 1:
            self.winner = self._left[select([trials[candidate] for candidate in self._left])]
            return
        places = -(-len(self._left) // REDUCTION)
        # of equal ones the first goes on
        ahead = sorted(self._left, key=lambda candidate: -merit(trials[candidate]))[:places]
        self._left = [candidate for candidate in self._left if candidate in ahead]
        self._rung += 1
        if len(self._left) == 1:
            self.winner = self._left[0]


def settle(
    searches: Mapping[K, Halving[C]], try_out: Callable[[Mapping[K, Step[C]]], Mapping[K, Mapping[C, Trial]]]
) -> None:
    """Carry searches on, rung by rung and side by side, until each has its winner.

    Args:
        searches: by name.
        try_out: trains and judges the candidates of a step of each search that is not over.

    >>> search = Halving([0.1, 0.3, 1.0], [5, 10])
    >>> settle({"gap": search}, lambda steps: {
    ...     name: {gap: Trial(auc=0.9, passed=True, precision=gap / 2) for gap in step.candidates}
    ...     for name, step in steps.items()
    ... })
    >>> search.winner, [(gap, epochs) for gap, epochs, _ in search.told]
    (1.0, [(0.1, 5), (0.3, 5), (1.0, 5), (0.3, 10), (1.0, 10)])
    """
    while going := {name: search for name, search in searches.items() if search.winner is None}:
        trials = try_out({name: search.next_step() for name, search in going.items()})
        for name, search in going.items():
            search.tell(trials[name])
