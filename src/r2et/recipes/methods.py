"""Every training method of the paper by name (Table 1), and beside them the scale-free form and a linear model."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from r2et import models
from r2et.errors import InputError
from r2et.explainers import Explainer
from r2et.numerics.modes import copied
from r2et.numerics.values import check_choice, check_k, check_kind, check_seed
from r2et.objectives import (
    R2ET,
    SSR,
    AdversarialTraining,
    CertifiedRadius,
    CrossEntropy,
    DirectThickness,
    EstimatedHessian,
    ExactHessian,
    Objective,
)
from r2et.objectives.base import Direction, Regularised
from r2et.recipes.networks import Outline, complete, with_activation
from r2et.recipes.presets import PRESETS, Preset
from r2et.training.fitting import as_rows, check_runs, fit
from r2et.training.settings import FitResult, Retraining, Rows
from r2et.training.trainer import MakeOptimiser, MakeSchedule

PAPER_TABULAR = PRESETS["tabular"]["paper"]


@dataclass(frozen=True)
class Method:
    """How one row of the paper's tables is trained.

    Attributes:
        title: as the tables print it.
        objective: makes the objective from k and the hyper-parameters.
        defaults: hyper-parameters and their default values; the only ones the method takes.
        linear: the model is a linear one, whatever the architecture of others.
        activation: of the model.
        retrains: starts from a vanilla model.
    """

    title: str
    objective: Callable[..., Objective]
    defaults: dict[str, float] = field(default_factory=dict)
    linear: bool = False
    activation: str = "relu"
    retrains: bool = False

    @property
    def changes_architecture(self) -> bool:
        """The method is its architecture: there is nothing to retrain another model with (App. B.2.5)."""
        return self.objective is _plain and (self.linear or self.activation != "relu")

    def settings(self, given: Mapping[str, float]) -> dict[str, float]:
        """The defaults with the given values in their place; a name the method does not take is an error."""
        for name, value in given.items():
            check_choice(f"hyper-parameter of {self.title}", name, self.defaults or ["(none)"])
            if not 0 <= value < float("inf"):
                raise InputError(
                    f"{name} of {self.title} must be a finite number of at least 0, got {name}={value}"
                )
        return {**self.defaults, **given}

    def network(
        self,
        features: int | Sequence[int],
        classes: int,
        settings: dict[str, float],
        architecture: Outline = PAPER_TABULAR.architecture,
    ) -> nn.Module:
        """A fresh model, initialised from torch's global seed.

        Args:
            features: the shape of one input (*features), of one pair (2, *features), or a number of features.
            classes: logits.
            settings: hyper-parameters; beta is the model's.
            architecture: without what the data decide; the paper's MLP by default.
        """
        shape = (features,) if isinstance(features, int) else tuple(features)
        if self.linear:
            return models.create(**complete({"name": "linear"}, shape, classes))
        if self.activation != "relu":
            architecture = with_activation(architecture, self.activation, settings.get("beta"))
        return models.create(**complete(architecture, shape, classes))

    def objective_for(
        self,
        k: int,
        settings: dict[str, float],
        explainer: Explainer,
        boundary_pairs: int | None = None,
        direction: Direction | None = None,
    ) -> Objective:
        """The objective on an explanation.

        Args:
            k: size of the salient set.
            settings: hyper-parameters; the optimiser's are left out.
            explainer: whose explanation is regularised or attacked. Of gradients at one point the objective takes
                its own score, the probability or the log-odds: both rank alike.
            boundary_pairs: k' of R2ET-mm.
            direction: of the finite difference of scale-free R2ET.
        """
        made = self.objective(k, **{name: value for name, value in settings.items() if name != "weight_decay"})
        changes: dict[str, Any] = {}
        if isinstance(made, Regularised):
            score = made.default_explainer().score
            changes["explainer"] = replace(explainer, score=score) if explainer.pointwise else explainer
        elif isinstance(made, AdversarialTraining):
            changes["explainer"] = explainer
        if isinstance(made, R2ET) and made.pairs == "boundary":
            changes["boundary_pairs"] = boundary_pairs
        if isinstance(made, R2ET) and made.scale_free:
            changes["direction"] = direction
        return replace(made, **changes)


def _plain(k: int, **_: float) -> Objective:
    return CrossEntropy()


def _r2et(**fixed: Any) -> Callable[..., Objective]:
    return lambda k, **settings: R2ET(k=k, **{**settings, **fixed})


def _scale_free(k: int, beta: float, **settings: float) -> Objective:
    return R2ET(k=k, scale_free=True, **settings)  # type: ignore[arg-type]  # numbers come in


METHODS: dict[str, Method] = {
    "linear": Method("Linear", _plain, linear=True),
    "vanilla": Method("Vanilla", _plain),
    "wd": Method("WD", _plain, {"weight_decay": 5e-4}),
    "sp": Method("SP", _plain, {"beta": 1.0}, activation="softplus"),
    "est-h": Method(
        "Est-H",
        lambda k, weight, difference: EstimatedHessian(weight=weight, difference=difference),
        {"weight": 1.0, "difference": 1e-2},
    ),
    "exact-h": Method("Exact-H", lambda k, weight: ExactHessian(weight=weight), {"weight": 0.1}),
    "ssr": Method("SSR", lambda k, weight: SSR(weight=weight), {"weight": 0.1}),
    "at": Method("AT", lambda k, radius: AdversarialTraining(k=k, radius=radius), {"radius": 1.0}),
    "cl": Method(
        "CL",
        # the paper's estimate, with which the records of the benchmark were trained
        lambda k, weight: CertifiedRadius(k=k, weight=weight, denominator="point"),
        {"weight": 1.0},
        retrains=True,
    ),
    "thickness": Method("Thickness", lambda k, weight: DirectThickness(k=k, weight=weight), {"weight": 1.0}),
    "r2et-no-h": Method("R2ET\\H", _r2et(curvature=0.0), {"gap": 1.0}),
    "r2et-mm-no-h": Method("R2ET-mm\\H", _r2et(curvature=0.0, pairs="boundary"), {"gap": 1.0}),
    "r2et": Method("R2ET", _r2et(), {"gap": 1.0, "curvature": 1.0, "difference": 1e-2}),
    "r2et-mm": Method("R2ET-mm", _r2et(pairs="boundary"), {"gap": 1.0, "curvature": 1.0, "difference": 1e-2}),
    "r2et-sf": Method(
        "R2ET scale-free",
        _scale_free,
        {"gap": 0.1, "curvature": 0.1, "difference": 1e-2, "beta": 1.0},
        activation="softplus",
    ),
}


def train_method(
    name: str,
    train: Rows,
    validation: Rows,
    k: int | None = None,
    settings: dict[str, float] | None = None,
    seed: int = 0,
    vanilla: nn.Module | None = None,
    preset: Preset = PAPER_TABULAR,
    explainer: Explainer | None = None,
    **options: Any,
) -> FitResult:
    """Train a model from scratch, or retrain `vanilla`, by one of the paper's methods.

    Args:
        name: a key of `METHODS`.
        train: inputs (N, *features), or pairs (N, 2, *features), and labels (N,).
        validation: likewise.
        k: size of the salient set; None = the preset's.
        settings: hyper-parameters of the method; what is left out is the preset's, else the method's default.
        seed: of initialisation and training.
        vanilla: the model to retrain; needed by methods that retrain, and any other method retrains it if given.
        preset: architecture, explanation, epochs, learning rate and so on; `find_preset(data, "cpu")` has those
            of a data set.
        explainer: the explanation to train for; None = the preset's.
        options: of `fit`; they come before the preset's.

    >>> import r2et
    >>> data = r2et.data.load("breast-cancer")
    >>> train_method("r2et-sf", data.train, data.validation, data.k, epochs=2).stopped
    'epochs'
    """
    check_choice("method", name, METHODS)
    method = METHODS[name]
    check_kind("preset", preset, Preset, 'r2et.recipes.find_preset(data, "cpu")')
    if settings is not None:
        check_kind("settings", settings, Mapping, '{"gap": 0.1}')
    if vanilla is not None:
        check_kind("vanilla", vanilla, nn.Module, "a trained torch.nn.Module")
    for option in options:
        check_choice("option of fit", option, inspect.signature(fit).parameters)
    check_seed(seed)
    train, validation = as_rows(train, "train"), as_rows(validation, "validation")
    k = preset.k if k is None else k
    explainer = preset.explainer if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    values = method.settings({**preset.defaults.get(name, {}), **(settings or {})})
    if method.retrains and vanilla is None:
        raise InputError(
            f"method {name!r} retrains: give it the vanilla model to start from (vanilla=, or --from FOLDER)"
        )
    retraining = None
    if vanilla is not None:
        if method.changes_architecture:
            raise InputError(f"method {name!r} is another architecture, it cannot retrain a model")
        model = copied(vanilla)
        retraining = Retraining(
            vanilla,
            k=k,
            min_precision=preset.min_precision,
            max_auc_drop=preset.max_auc_drop,
            explainer=explainer,
        )
    else:
        classes = int(torch.cat([train.y, validation.y]).max()) + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = method.network(train.x.shape[1:], classes, values, preset.architecture)
    check_runs(model, train.x[:2])
    check_k(k, explainer(model, train.x[:2].to(next(model.parameters()).device)).shape[-1])
    schedule = preset.training if vanilla is None else preset.retraining
    chosen: dict[str, Any] = {**schedule.options(), "weight_decay": values.get("weight_decay", 0.0), **options}
    if schedule.annealed:
        chosen.setdefault("schedule", _annealing(chosen["epochs"]))
    if schedule.optimiser == "sgd":
        chosen.setdefault("optimiser", _sgd(chosen["lr"], chosen["weight_decay"]))
    return fit(
        model,
        train,
        validation,
        method.objective_for(k, values, explainer, preset.boundary_pairs, preset.direction),
        retraining=retraining,
        seed=seed,
        **chosen,
    )


def _annealing(epochs: int) -> MakeSchedule:
    return lambda optimiser: torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)


def _sgd(lr: float, weight_decay: float) -> MakeOptimiser:
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=weight_decay)
