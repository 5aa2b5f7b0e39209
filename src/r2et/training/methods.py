"""Every training method of the paper by name (Table 1), and beside them the scale-free form and a linear model."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from r2et import models
from r2et._checks import InputError, check_choice, check_k
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
from r2et.training.fitting import fit
from r2et.training.settings import FitResult, Retraining, Rows


@dataclass(frozen=True)
class Method:
    """How one row of the paper's tables is trained.

    Attributes:
        title: as the tables print it.
        objective: makes the objective from k and the hyper-parameters.
        defaults: hyper-parameters and their default values; the only ones the method takes.
        model: "mlp" or "linear".
        activation: of the MLP.
        retrains: starts from a vanilla model.
    """

    title: str
    objective: Callable[..., Objective]
    defaults: dict[str, float] = field(default_factory=dict)
    model: str = "mlp"
    activation: str = "relu"
    retrains: bool = False

    @property
    def changes_architecture(self) -> bool:
        """The method is its architecture: there is nothing to retrain another model with (App. B.2.5)."""
        return self.objective is _plain and (self.model, self.activation) != ("mlp", "relu")

    def settings(self, given: dict[str, float]) -> dict[str, float]:
        """The defaults with the given values in their place; a name the method does not take is an error."""
        for name in given:
            check_choice(f"hyper-parameter of {self.title}", name, self.defaults or ["(none)"])
        return {**self.defaults, **given}

    def network(self, features: int, classes: int, settings: dict[str, float]) -> nn.Module:
        """A fresh model, initialised from torch's global seed."""
        if self.model == "linear":
            return models.Linear(features, classes)
        return models.MLP(features, classes, activation=self.activation, beta=settings.get("beta"))


def _plain(k: int, **_: float) -> Objective:
    return CrossEntropy()


def _r2et(**fixed: Any) -> Callable[..., Objective]:
    return lambda k, **settings: R2ET(k=k, **{**settings, **fixed})


def _scale_free(k: int, beta: float, **settings: float) -> Objective:
    return R2ET(k=k, scale_free=True, **settings)  # type: ignore[arg-type]  # only gap and curvature come in


METHODS: dict[str, Method] = {
    "linear": Method("Linear", _plain, model="linear"),
    "vanilla": Method("Vanilla", _plain),
    "wd": Method("WD", _plain, {"weight_decay": 5e-4}),
    "sp": Method("SP", _plain, {"beta": 1.0}, activation="softplus"),
    "est-h": Method("Est-H", lambda k, weight: EstimatedHessian(weight=weight), {"weight": 1.0}),
    "exact-h": Method("Exact-H", lambda k, weight: ExactHessian(weight=weight), {"weight": 0.1}),
    "ssr": Method("SSR", lambda k, weight: SSR(weight=weight), {"weight": 0.1}),
    "at": Method("AT", lambda k, radius: AdversarialTraining(k=k, radius=radius), {"radius": 1.0}),
    "cl": Method("CL", lambda k, weight: CertifiedRadius(k=k, weight=weight), {"weight": 1.0}, retrains=True),
    "thickness": Method("Thickness", lambda k, weight: DirectThickness(k=k, weight=weight), {"weight": 1.0}),
    "r2et-no-h": Method("R2ET\\H", _r2et(curvature=0.0), {"gap": 1.0}),
    "r2et-mm-no-h": Method("R2ET-mm\\H", _r2et(curvature=0.0, pairs="boundary"), {"gap": 1.0}),
    "r2et": Method("R2ET", _r2et(), {"gap": 1.0, "curvature": 1.0}),
    "r2et-mm": Method("R2ET-mm", _r2et(pairs="boundary"), {"gap": 1.0, "curvature": 1.0}),
    "r2et-sf": Method(
        "R2ET scale-free",
        _scale_free,
        {"gap": 0.1, "curvature": 0.1, "beta": 1.0},
        activation="softplus",
    ),
}


def train_method(
    name: str,
    train: Rows,
    validation: Rows,
    k: int,
    settings: dict[str, float] | None = None,
    seed: int = 0,
    vanilla: nn.Module | None = None,
    **options: Any,
) -> FitResult:
    """Train a model from scratch, or retrain `vanilla`, by one of the paper's methods.

    Args:
        name: a key of `METHODS`.
        train: inputs (N, features) and labels (N,).
        validation: likewise.
        k: size of the salient set.
        settings: hyper-parameters of the method; None = its defaults.
        seed: of initialisation and training.
        vanilla: the model to retrain; needed by methods that retrain, and any other method retrains it if given.
        options: of `fit`.

    >>> import r2et
    >>> data = r2et.data.load("breast-cancer")
    >>> train_method("r2et-sf", data.train, data.validation, data.k, epochs=2).stopped
    'epochs'
    """
    check_choice("method", name, METHODS)
    check_k(k, train.x[0].numel())
    method = METHODS[name]
    values = method.settings(settings or {})
    if method.retrains and vanilla is None:
        raise InputError(
            f"method {name!r} retrains: give it the vanilla model to start from (vanilla=, or --from FOLDER)"
        )
    weight_decay = values.pop("weight_decay", 0.0)
    retraining = None
    if vanilla is not None:
        if method.changes_architecture:
            raise InputError(f"method {name!r} is another architecture, it cannot retrain a model")
        model = copy.deepcopy(vanilla)
        retraining = Retraining(vanilla, k=k)
    else:
        classes = int(torch.cat([train.y, validation.y]).max()) + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = method.network(train.x.shape[1], classes, values)
    objective = method.objective(k, **values)
    return fit(
        model,
        train,
        validation,
        objective,
        weight_decay=weight_decay,
        retraining=retraining,
        seed=seed,
        **options,
    )
