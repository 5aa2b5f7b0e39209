"""Training by one of the paper's methods, with the weights that its selection rule picks (App. B.1.2)."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from r2et import metrics, models
from r2et.attacks import Attack
from r2et.domain import Domain
from r2et.progress import progress_bar, watched
from r2et.recipes import Preset, Trial, find_method, train_method
from r2et.recipes.halving import Halving, Step, combinations, settle
from r2et.recipes.methods import OwnObjective
from r2et.recipes.selection import judge
from r2et.training import FitResult, WeightedRows

#: validation rows that candidates are attacked on
LEAST_JUDGED, MOST_JUDGED = 128, 256


@dataclass(frozen=True)
class Sanity:
    """Whether a network was needed: a logistic or linear regression on the same rows.

    Attributes:
        auc: validation AUC of the fitted model; R2 where numbers are predicted.
        linear_auc: the same of the linear model.
        margin: a linear model within this of the fitted one is as good.
        measure: "AUC" or "R2".
        classes: how many.

    >>> Sanity(auc=0.99, linear_auc=0.988).linear_is_as_good
    True
    """

    auc: float
    linear_auc: float
    margin: float = 0.005
    measure: str = "AUC"
    classes: int = 2

    @property
    def linear_is_as_good(self) -> bool:
        """Whether the linear model's validation AUC or R2 is at most `margin` below."""
        return self.linear_auc >= self.auc - self.margin

    def __str__(self) -> str:
        figures = f"validation {self.measure} {self.linear_auc:.4f} against {self.auc:.4f}"
        if self.linear_is_as_good:
            more = "" if self.classes > 2 else ", and its explanation cannot be moved at all"
            return f'A linear model is as good here ({figures}): it is simpler{more}. Consider method="linear".'
        return f"A linear model is worse here ({figures})."


@dataclass(frozen=True)
class Chosen:
    """What training came to.

    Attributes:
        fit: the model that was chosen.
        settings: its hyper-parameters.
        candidates: one entry for each model that was trained to choose from.
    """

    fit: FitResult
    settings: dict[str, float]
    candidates: list[dict[str, Any]]


def train_and_choose(
    name: str,
    train: WeightedRows,
    validation: WeightedRows,
    *,
    preset: Preset,
    settings: Mapping[str, float] | None = None,
    grid: Mapping[str, Sequence[float]] | None = None,
    attack: Attack,
    domain: Domain | None = None,
    seed: int = 0,
    objective: OwnObjective | None = None,
) -> Chosen:
    """Train by a method of `find_method`.

    Given settings are used as they are, and the epoch with the lowest validation loss is kept. Without them every
    combination of the grid is trained; of those within 0.01 of a vanilla model's validation AUC (or R2) the one
    with the highest validation P@k under the attack wins, of those alike to three digits the first.

    Args:
        name: of the method.
        train: inputs (N, n) and labels (N,).
        validation: likewise.
        preset: architecture, k, epochs and so on; the method's grid of its name is used if none is given.
        settings: hyper-parameters.
        grid: values of each hyper-parameter to choose from.
        attack: what the candidates are judged by.
        domain: the rows that exist; None = everything may be perturbed.
        seed: of everything that is drawn.
        objective: in place of the method's own.
    """
    method = find_method(name, objective)
    vanilla: FitResult | None = None

    def run(
        which: str, values: Mapping[str, float], own: OwnObjective | None, threshold: float | None = None
    ) -> FitResult:
        start = vanilla.model if vanilla is not None and find_method(which).retrains else None
        fit = train_method(
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
            domain=domain,
            # in a search a model is one step of a bar
            progress=watched() and not searched,
        )
        advance(1)
        return fit

    searched = settings is None and bool(method.defaults)
    offered = combinations(method.grids.get(preset.name, {}) if grid is None else grid) if searched else []
    tried = [method.settings(values, preset.kind) for values in offered]
    bar = ExitStack()
    advance = bar.enter_context(progress_bar("training models", 1 + len(tried), watched() and searched))
    with bar:
        if searched or method.retrains:
            vanilla = run("vanilla", {}, None)
        if not searched:
            values = method.settings(settings or {})
            return Chosen(run(name, values, objective), values, [])
        assert vanilla is not None
        threshold = preset.threshold(vanilla.auc)
        fits: dict[int, FitResult] = {}

        def try_out(steps: Mapping[str, Step[int]]) -> dict[str, dict[int, Trial]]:
            for number in steps[name].candidates:
                fits[number] = run(name, tried[number], objective, threshold)
            return {name: {number: judged(fit) for number, fit in fits.items()}}

        def judged(fit: FitResult) -> Trial:
            precision = judge(fit.model, validation.x, attack, _rows_judged(validation.x.shape[1]), domain=domain)
            return Trial(auc=fit.auc, passed=fit.passed, precision=precision)

        # every candidate is trained to the end
        grid_search = Halving(range(len(tried)), [preset.training.epochs])
        settle({name: grid_search}, try_out)
        trials = {number: trial for number, _, trial in grid_search.told}
        best = grid_search.winner
        assert best is not None
        if best not in fits:  # the only candidate: nobody had to judge it
            fits[best] = run(name, tried[best], objective, threshold)
            trials[best] = Trial(auc=fits[best].auc, passed=fits[best].passed, precision=float("nan"))
        measure = "r2" if validation.y.is_floating_point() else "auc"
        records = [
            {
                **values,
                f"validation_{measure}": trials[number].auc,
                f"vanilla_{measure}": vanilla.auc,
                "passed": trials[number].passed,
                "precision": trials[number].precision,
                "chosen": number == best,
            }
            for number, values in enumerate(tried)
        ]
        return Chosen(fits[best], tried[best], records)


def _rows_judged(features: int) -> int:
    """How many validation rows candidates are attacked on: an effect of a column compares rows, one per value.

    >>> _rows_judged(28), _rows_judged(103)
    (256, 128)
    """
    return min(MOST_JUDGED, max(LEAST_JUDGED, 2**20 // features**2))


def compare_with_linear(train: WeightedRows, validation: WeightedRows, auc: float) -> Sanity:
    """Compare the validation AUC with that of a logistic regression on the same rows (N, n); R2 of numbers."""
    if train.y.is_floating_point():
        return _compare_numbers(train, validation, auc)
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
    return Sanity(auc, metrics.auc(model, validation.x.double(), validation.y), classes=len(weight))


def _compare_numbers(train: WeightedRows, validation: WeightedRows, r2: float) -> Sanity:
    """The same for numbers: a little ridge, as columns may be linearly dependent."""
    from sklearn.linear_model import Ridge

    weights = None if train.weights is None else train.weights.double().numpy()
    x, y = train.x.double().numpy(), train.y.double().numpy()
    fitted = Ridge(alpha=1.0).fit(x, y, sample_weight=weights)
    predicted = torch.from_numpy(fitted.predict(validation.x.double().numpy())).unsqueeze(1)
    return Sanity(r2, metrics.r2_of_outputs(predicted, validation.y, constant=0.0), measure="R2")


def _without_convergence_warnings() -> Any:
    import warnings

    return warnings.catch_warnings(action="ignore")
