"""Training by one of the paper's methods, with the weights that its selection rule picks (App. B.1.2)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from r2et import metrics, models
from r2et.attacks import ERAttack
from r2et.recipes import Candidate, Method, Preset, choose, find_method, train_method
from r2et.recipes.methods import OwnObjective
from r2et.recipes.selection import judge
from r2et.training import FitResult, WeightedRows


@dataclass(frozen=True)
class Sanity:
    """Whether a network was needed: a logistic regression on the same rows.

    Attributes:
        auc: validation AUC of the fitted model.
        linear_auc: validation AUC of the logistic regression.
        margin: a linear model within this of the fitted one is as good.

    >>> Sanity(auc=0.99, linear_auc=0.988).linear_is_as_good
    True
    """

    auc: float
    linear_auc: float
    margin: float = 0.005

    @property
    def linear_is_as_good(self) -> bool:
        """Whether the linear model's validation AUC is at most `margin` below."""
        return self.linear_auc >= self.auc - self.margin

    def __str__(self) -> str:
        figures = f"validation AUC {self.linear_auc:.4f} against {self.auc:.4f}"
        if self.linear_is_as_good:
            return (
                f"A linear model is as good here ({figures}): it is simpler, and with two classes its explanation "
                'cannot be moved at all. Consider method="linear".'
            )
        return f"A linear model is worse here ({figures})."


@dataclass(frozen=True)
class Found:
    """What training came to.

    Attributes:
        fit: the model that was chosen.
        settings: its hyper-parameters.
        candidates: one entry for each model that was trained to choose from.
    """

    fit: FitResult
    settings: dict[str, float]
    candidates: list[dict[str, Any]]


def search(
    name: str,
    train: WeightedRows,
    validation: WeightedRows,
    preset: Preset,
    settings: Mapping[str, float] | None = None,
    grid: Mapping[str, Sequence[float]] | None = None,
    attack: ERAttack | None = None,
    seed: int = 0,
    objective: OwnObjective | None = None,
) -> Found:
    """Train by a method of `find_method`.

    Given settings are used as they are, and the epoch with the lowest validation loss is kept. Without them every
    combination of the grid is trained; of those within 0.01 of a vanilla model's validation AUC the one with the
    highest validation P@k under the attack wins.

    Args:
        name: of the method.
        train: inputs (N, n) and labels (N,).
        validation: likewise.
        preset: architecture, k, epochs and so on; its grid is used if none is given.
        settings: hyper-parameters.
        grid: values of each hyper-parameter to choose from.
        attack: what the candidates are judged by; None = ERAttack of the preset.
        seed: of everything that is drawn.
        objective: in place of the method's own.
    """
    method = find_method(name, objective)
    vanilla: FitResult | None = None

    def run(
        which: str, values: Mapping[str, float], own: OwnObjective | None, threshold: float | None = None
    ) -> FitResult:
        start = vanilla.model if vanilla is not None and find_method(which).retrains else None
        return train_method(
            which,
            train,
            validation,
            settings=dict(values),
            seed=seed,
            vanilla=start,
            preset=preset,
            threshold=threshold,
            accelerator="cpu",
            objective=own,
        )

    searched = settings is None and bool(method.defaults)
    if searched or method.retrains:
        vanilla = run("vanilla", {}, None)
    if not searched:
        given = method.settings(settings or {})
        return Found(run(name, given, objective), given, [])
    assert vanilla is not None
    threshold = preset.threshold(vanilla.auc)
    attack = attack or ERAttack(k=preset.k, radius=preset.radius, steps=preset.attack_steps)
    known = preset.grid.get(name, method.grid) if objective is None else method.grid
    tried = _combinations(method, known if grid is None else grid)
    candidates = []
    for values in tried:
        fit = run(name, values, objective, threshold)
        # one candidate needs no judge
        precision = judge(fit.model, validation.x, attack) if len(tried) > 1 else float("nan")
        candidates.append(Candidate(values, fit, precision))
    best = choose(candidates)
    records = [
        {
            **entry.settings,
            "validation_auc": entry.fit.auc,
            "vanilla_auc": vanilla.auc,
            "passed": entry.fit.passed,
            "precision": entry.precision,
            "chosen": entry is best,
        }
        for entry in candidates
    ]
    return Found(best.fit, best.settings, records)


def _combinations(method: Method, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    return [method.settings(dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]


def compare_with_linear(train: WeightedRows, validation: WeightedRows, auc: float) -> Sanity:
    """Fit a logistic regression on the same rows (N, n) and compare its validation AUC."""
    from sklearn.linear_model import LogisticRegression

    weights = None if train.weights is None else train.weights.numpy()
    with _without_convergence_warnings():
        fitted = LogisticRegression(max_iter=300).fit(train.x.numpy(), train.y.numpy(), sample_weight=weights)
    weight, bias = torch.from_numpy(fitted.coef_), torch.from_numpy(fitted.intercept_)
    if len(weight) == 1:  # two classes: one row, for the log-odds of the second
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    with torch.device("meta"):  # no weights are drawn
        model = models.Linear(weight.shape[1], len(weight))
    model.load_state_dict({"weight": weight.double(), "bias": bias.double()}, assign=True)
    return Sanity(auc, metrics.auc(model, validation.x.double(), validation.y))


def _without_convergence_warnings() -> Any:
    import warnings

    return warnings.catch_warnings(action="ignore")
