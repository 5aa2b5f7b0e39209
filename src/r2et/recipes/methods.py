"""Every training method of the paper by name (Table 1), and beside them the scale-free form and a linear model."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import nn

from r2et import models
from r2et.errors import InputError
from r2et.explainers import Explainer
from r2et.foreign import is_code
from r2et.numerics.modes import copied
from r2et.numerics.values import check_choice, check_k, check_kind, check_seed
from r2et.objectives import (
    OBJECTIVES,
    R2ET,
    SSR,
    AdversarialTraining,
    CertifiedRadius,
    CrossEntropy,
    DirectThickness,
    EstimatedHessian,
    ExactHessian,
    Objective,
    Regularised,
)
from r2et.objectives.base import Direction
from r2et.recipes.networks import Outline, complete, with_activation
from r2et.recipes.presets import PRESETS, Preset
from r2et.training.fitting import as_rows, check_runs, fit
from r2et.training.settings import FitResult, Retraining, Rows
from r2et.training.trainer import MakeOptimiser, MakeSchedule

#: an objective by name or `package.module:Class`, its class, or an object
OwnObjective = str | type[Objective] | Objective
PAPER_TABULAR = PRESETS["tabular"]["paper"]


@dataclass(frozen=True)
class Method:
    """How one row of the paper's tables is trained.

    Attributes:
        title: as the tables print it.
        objective: makes the objective from k and the hyper-parameters; or a ready one.
        defaults: hyper-parameters and their default values; the only ones the method takes.
        grid: values of them to choose from, where the preset has none for this method.
        linear: the model is a linear one, whatever the architecture of others.
        activation: of the model.
        retrains: starts from a vanilla model.
    """

    title: str
    objective: Callable[..., Objective] | Objective
    defaults: dict[str, float] = field(default_factory=dict)
    linear: bool = False
    activation: str = "relu"
    retrains: bool = False
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)

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
        if isinstance(self.objective, Objective):
            return self.objective
        made = self.objective(k, **{name: value for name, value in settings.items() if name != "weight_decay"})
        changes: dict[str, Any] = {}
        if isinstance(made, Regularised):
            score = made.default_explainer().score
            changes["explainer"] = replace(explainer, score=score) if explainer.pointwise else explainer
        elif "explainer" in {entry.name for entry in fields(made)}:
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


#: hyper-parameters of a network or an optimiser: they stay when a method gets another objective
_NOT_OF_OBJECTIVES = ("beta", "weight_decay")


def find_method(name: str, objective: OwnObjective | None = None) -> Method:
    """A method by name, with another objective if one is given.

    Args:
        name: a key of `METHODS`. An objective that is none of these is a method on the plain network: its name in
            `r2et.objectives.OBJECTIVES`, or `package.module:Class`.
        objective: in place of the method's own: a name, a class, or an object.

    >>> find_method("r2et-mm").title, find_method("cross-entropy").title
    ('R2ET-mm', 'cross-entropy')
    """
    if isinstance(name, str) and name in METHODS:
        method = METHODS[name]
    else:
        if not is_code(name):
            check_choice("method", name, method_names())
        method = _with_objective(METHODS["vanilla"], name)
    return method if objective is None else _with_objective(method, objective)


def method_names() -> list[str]:
    """Every short name that `find_method` takes: the paper's methods first."""
    return [*METHODS, *(name for name in OBJECTIVES.names() if name not in METHODS)]


def method_title(name: str) -> str:
    """A method as tables print it; nothing is imported, because names in records may be anybody's."""
    if name in METHODS:
        return METHODS[name].title
    entry = OBJECTIVES.entries.get(name)
    return name.rpartition(":")[2] if entry is None else entry.title or name


def _with_objective(method: Method, objective: OwnObjective) -> Method:
    """The method with another objective, on the same network.

    What has a name is built with k, the hyper-parameters that it registered, and the method's explanation; an
    object is used as it is.
    """
    kept = {name: value for name, value in method.defaults.items() if name in _NOT_OF_OBJECTIVES}
    if isinstance(objective, Objective):
        return replace(method, title=type(objective).__name__, objective=objective, defaults=kept)
    entry = OBJECTIVES.find(objective)
    taken = {part.name for part in fields(entry.thing)}

    def make(k: int, **settings: Any) -> Objective:
        values = {name: value for name, value in {"k": k, **settings}.items() if name in taken}
        built: Objective = OBJECTIVES.build(entry, values)
        return built

    title, defaults = method_title(entry.name), {**kept, **entry.defaults}
    return replace(method, title=title, objective=make, defaults=defaults, grid=entry.grid)


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
    objective: OwnObjective | None = None,
    **options: Any,
) -> FitResult:
    """Train a model from scratch, or retrain `vanilla`, by one of the paper's methods.

    Args:
        name: a key of `METHODS`, or an objective: its name in the registry, or `package.module:Class`.
        train: inputs (N, *features), or pairs (N, 2, *features), and labels (N,).
        validation: likewise.
        k: size of the salient set; None = the preset's.
        settings: hyper-parameters of the method; what is left out is the preset's, else the method's default.
        seed: of initialisation and training.
        vanilla: the model to retrain; needed by methods that retrain, and any other method retrains it if given.
        preset: architecture, explanation, epochs, learning rate and so on; `find_preset(data, "cpu")` has those
            of a data set.
        explainer: the explanation to train for; None = the preset's.
        objective: in place of the method's own: a name, a class, or an object, which is used as it is.
        options: of `fit`; they come before the preset's.

    >>> import r2et
    >>> data = r2et.data.load("breast-cancer")
    >>> train_method("r2et-sf", data.train, data.validation, data.k, epochs=2).stopped
    'epochs'
    """
    method = find_method(name, objective)
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
    suited = preset.defaults.get(name, {}) if objective is None else {}
    values = method.settings({**suited, **(settings or {})})
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
