"""Which hyper-parameters a method gets: the paper's rule (B.1.2), by successive halving or over the whole grid."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from r2et.errors import InputError
from r2et_bench.cells import Cell
from r2et_bench.records import Record

if TYPE_CHECKING:
    import optuna

Settings = dict[str, float]
#: the two weights of these methods are those of the two methods they are made of, or equal (B.1.2)
COMBINED = {"r2et": ("r2et-no-h", "est-h"), "r2et-mm": ("r2et-mm-no-h", "est-h")}
#: what is left after each rung of successive halving
REDUCTION = 2


@dataclass(frozen=True)
class Step:
    """Candidates that are to be trained for so many epochs, before anyone can say how the search goes on."""

    cells: tuple[Cell, ...]
    epochs: int


def candidates(
    method: str, grid: Mapping[str, Mapping[str, Sequence[float]]], chosen: Mapping[str, Settings]
) -> list[Settings]:
    """The hyper-parameters to choose from.

    For R2ET and R2ET-mm these are pairs of equal weights, and the gap weight of the method without H with the
    weight of Est-H: what B.1.2 tries.

    Args:
        method: whose.
        grid: values of each hyper-parameter of each method.
        chosen: what won for the methods before.

    >>> candidates("r2et", {"r2et": {"gap": (0.1, 1.0), "curvature": (0.1, 1.0)}},
    ...            {"r2et-no-h": {"gap": 0.3}, "est-h": {"weight": 0.01}})
    [{'gap': 0.1, 'curvature': 0.1}, {'gap': 1.0, 'curvature': 1.0}, {'gap': 0.3, 'curvature': 0.01}]
    >>> candidates("sp", {"sp": {"beta": (1.0, 5.0)}}, {})
    [{'beta': 1.0}, {'beta': 5.0}]
    >>> candidates("vanilla", {}, {})
    [{}]
    """
    values = grid.get(method, {})
    if method in COMBINED and {"gap", "curvature"} <= values.keys():
        found = [{"gap": weight, "curvature": weight} for weight in values["gap"] if weight in values["curvature"]]
        gap, curvature = (chosen.get(name, {}) for name in COMBINED[method])
        if gap and curvature:
            pair = {"gap": gap["gap"], "curvature": curvature["weight"]}
            found += [pair] if pair not in found else []
        return found
    return [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]


def rung_epochs(epochs: int, shares: Sequence[float]) -> list[int]:
    """After how many epochs candidates are compared; the last is the whole training.

    >>> rung_epochs(40, (0.25, 0.5, 1.0))
    [10, 20, 40]
    """
    return sorted({max(1, round(epochs * share)) for share in shares} | {epochs})


class Search:
    """The search for one method on one data set: ask for a step, train it, tell what came out, until it is over.

    Successive halving: after each rung the better half of the candidates goes on. All are compared at once, so
    that the result does not depend on who was trained first.

    Args:
        cells: the candidates.
        rungs: after how many epochs they are compared; one entry for the full grid.
    """

    def __init__(self, cells: Sequence[Cell], rungs: Sequence[int]) -> None:
        if not cells:
            raise InputError("there is no candidate to choose from")
        self.cells, self.rungs = tuple(cells), list(rungs)
        self.tried: list[dict[str, Any]] = []
        self._study = _make_study(cells)
        self._trials = {cell: self._study.ask() for cell in cells}
        self._left = list(cells)
        self._rung = 0
        self._winner: Cell | None = cells[0] if len(cells) == 1 else None

    @property
    def winner(self) -> Cell | None:
        """The chosen candidate once the search is over."""
        return self._winner

    def next_step(self) -> Step:
        """Who has to be trained how far."""
        return Step(tuple(self._left), self.rungs[self._rung])

    def tell(self, results: Mapping[Cell, Record]) -> None:
        """What the candidates of the last step came to."""
        epochs = self.rungs[self._rung]
        for cell in self._left:
            found = results[cell]
            self.tried.append(
                {
                    "settings": dict(cell.settings),
                    "epochs": epochs,
                    **{k: v for k, v in found.items() if k != "seconds"},
                }
            )
            self._trials[cell].report(merit(found), epochs)
        last = self._rung == len(self.rungs) - 1
        ordered = sorted(self._left, key=lambda cell: -merit(results[cell]))
        if last or len(ordered) == 1:
            self._winner = ordered[0]
            return
        self._left = [cell for cell in self._left if not self._trials[cell].should_prune()]
        self._rung += 1
        if len(self._left) == 1:
            self._winner = self._left[0]

    def report(self) -> Record:
        """What was tried and what was chosen, for the record."""
        assert self._winner is not None
        return {"chosen": dict(self._winner.settings), "rungs": self.rungs, "tried": self.tried}


def merit(found: Record) -> float:
    """One number for B.1.2: validation P@k of models that pass the threshold; the others come after, by AUC.

    ERAttack leaves strong models at nearly 100: what is equal to a tenth of a percent is decided by WorstCase.

    >>> round(merit({"passed": True, "precision": 0.7, "worst": 0.6, "validation auc": 0.9}), 6)
    0.70006
    >>> merit({"passed": True, "precision": 0.9990, "worst": 0.89, "validation auc": 0.9}) < merit(
    ...     {"passed": True, "precision": 0.9986, "worst": 0.98, "validation auc": 0.9}
    ... )
    True
    >>> merit({"passed": False, "precision": 1.0, "validation auc": 0.6})
    -0.4
    >>> merit({"error": "diverged"})
    -2.0
    """
    if "error" in found:
        return -2.0
    if not found["passed"]:
        return float(found["validation auc"]) - 1.0
    return round(float(found["precision"]), 3) + 1e-4 * float(found.get("worst", 0.0))


def _make_study(cells: Sequence[Cell]) -> "optuna.Study":
    """An Optuna study over the candidates, whose pruner compares everyone who reached a rung."""
    try:
        import optuna
    except ImportError as error:
        raise InputError("the search for hyper-parameters needs Optuna: pip install 'r2et[bench]'") from error

    class Halving(optuna.pruners.BasePruner):
        """Optuna's own pruner is asynchronous: it lets through whoever happens to come first."""

        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            """Whether a trial is outside of the better half of those that have reached its rung."""
            step = trial.last_step
            if step is None:
                return False
            rivals = [other for other in study.get_trials(deepcopy=False) if step in other.intermediate_values]
            # of equal ones the first goes on
            rivals.sort(key=lambda other: (-other.intermediate_values[step], other.number))
            places = -(-len(rivals) // REDUCTION)
            return trial.number not in {other.number for other in rivals[:places]}

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", pruner=Halving())
    for cell in cells:
        study.enqueue_trial(dict(cell.settings))
    return study
