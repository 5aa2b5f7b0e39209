"""Which hyper-parameters win (App. B.1.2): the highest validation P@k among models that are accurate enough."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from r2et.attacks import Attack
from r2et.errors import InputError
from r2et.numerics.values import check_kind, quoted
from r2et.training.settings import FitResult


@dataclass(frozen=True)
class Candidate:
    """A trained model with the settings that made it.

    Attributes:
        settings: hyper-parameters, for the record.
        fit: the result of training.
        precision: mean validation P@k under attack.
    """

    settings: dict[str, Any]
    fit: FitResult = field(repr=False)
    precision: float


def judge(model: nn.Module, x: Tensor, attack: Attack, limit: int = 1000) -> float:
    """The mean P@k of the first `limit` rows of x (N, *features) under an attack."""
    return float(attack(model, x[:limit]).precision.mean())


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the highest precision among those whose AUC passed the threshold.

    If none passed, the one with the highest AUC.

    >>> from torch import nn
    >>> def trained(auc, passed):
    ...     return FitResult(nn.Identity(), [], selected_epoch=1, auc=auc, passed=passed, stopped="epochs")
    >>> weak = Candidate({"gap": 1}, trained(0.9, True), 0.7)
    >>> strong = Candidate({"gap": 2}, trained(0.89, True), 0.9)
    >>> wrecked = Candidate({"gap": 9}, trained(0.6, False), 1.0)
    >>> choose([weak, strong, wrecked]).settings
    {'gap': 2}
    """
    if not isinstance(candidates, Sequence):
        raise InputError(f"candidates must be a list of Candidate, got candidates={quoted(candidates)}")
    if not candidates:
        raise InputError("there is no candidate to choose from")
    for candidate in candidates:
        check_kind("candidate", candidate, Candidate, "Candidate({'gap': 0.1}, fit(...), 0.9)")
    passed = [candidate for candidate in candidates if candidate.fit.passed]
    if passed:
        return max(passed, key=lambda candidate: candidate.precision)
    return max(candidates, key=lambda candidate: candidate.fit.auc)
