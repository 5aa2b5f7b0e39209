"""Which hyper-parameters win (App. B.1.2): the highest validation P@k among models that are accurate enough."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from r2et.attacks import Attack
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.numerics.values import check_kind, quoted


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a model came to on validation data.

    Attributes:
        auc: validation AUC.
        passed: whether that reaches the threshold: a little less than a vanilla model's.
        precision: mean P@k under the attack that selects: the paper's ERAttack, or WorstCase.
        worst: mean P@k under WorstCase, which decides between equals; None where it was not needed.
        error: why there is no model; its figures mean nothing then.
    """

    auc: float = 0.0
    passed: bool = False
    precision: float = 0.0
    worst: float | None = None
    error: str | None = None


def judge(
    model: nn.Module, x: Tensor, attack: Attack, limit: int = 1000, *, domain: Domain | None = None
) -> float:
    """The mean P@k of the first `limit` rows of x (N, *features) under an attack, inside a domain if given."""
    return float(attack(model, x[:limit], domain=domain).precision.mean())


def merit(trial: Trial) -> float:
    """One number for the rule: the P@k of a model that passes; the others come after, by AUC.

    ERAttack leaves strong models at nearly 100: what is equal to a tenth of a percent is decided by WorstCase.

    >>> round(merit(Trial(auc=0.9, passed=True, precision=0.7, worst=0.6)), 6)
    0.70006
    >>> merit(Trial(auc=0.9, passed=True, precision=0.9990, worst=0.89)) < merit(
    ...     Trial(auc=0.9, passed=True, precision=0.9986, worst=0.98)
    ... )
    True
    >>> merit(Trial(auc=0.6, passed=False, precision=1.0))
    -0.4
    >>> merit(Trial(error="diverged"))
    -2.0
    """
    if trial.error is not None:
        return -2.0
    if not trial.passed:
        return trial.auc - 1.0
    return round(trial.precision, 3) + 1e-4 * (trial.worst or 0.0)


def select(trials: Sequence[Trial]) -> int:
    """The number of the trial that wins; of equal ones the first.

    >>> weak, strong = Trial(auc=0.9, passed=True, precision=0.7), Trial(auc=0.89, passed=True, precision=0.9)
    >>> select([weak, strong, Trial(auc=0.6, passed=False, precision=1.0)])
    1
    """
    if not isinstance(trials, Sequence):
        raise InputError(f"trials must be a list of Trial, got trials={quoted(trials)}")
    if not trials:
        raise InputError("there is no candidate to choose from")
    for trial in trials:
        check_kind("trial", trial, Trial, "Trial(auc=0.95, passed=True, precision=0.9)")
    return max(range(len(trials)), key=lambda number: merit(trials[number]))


def undecided(trials: Sequence[Trial]) -> list[int]:
    """The numbers of the trials that share the first place until WorstCase decides; none if one is ahead.

    >>> passing = [Trial(auc=0.9, passed=True, precision=value) for value in (0.9991, 0.5, 0.9993)]
    >>> undecided(passing), undecided(passing[:2])
    ([0, 2], [])
    """
    best = merit(trials[select(trials)])
    equal = [number for number, trial in enumerate(trials) if trial.passed and merit(trial) == best]
    return equal if len(equal) > 1 else []
