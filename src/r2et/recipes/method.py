"""`Method`: how one row of the paper's tables is trained, with all of its hyper-parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import nn

from r2et import models
from r2et.errors import InputError
from r2et.explainers import Explainer
from r2et.numerics.values import check_choice
from r2et.objectives import R2ET, CrossEntropy, Objective, Regularised
from r2et.objectives.explained_batch import Direction
from r2et.recipes.networks import Outline, complete, with_activation
from r2et.recipes.presets import PRESETS

Settings = Mapping[str, float]
#: values of each hyper-parameter to choose from
Grid = Mapping[str, Sequence[float]]
PAPER_TABULAR = PRESETS["tabular"]["paper"]


@dataclass(frozen=True)
class Method:
    """How one row of the paper's tables is trained.

    Its hyper-parameters are here and, for whoever builds the objective by hand, in the objective's class; nowhere
    else.

    Attributes:
        title: as the tables print it.
        objective: makes the objective from k and the hyper-parameters; or a ready one.
        defaults: hyper-parameters and their default values; the only ones the method takes.
        suited: by kind of data, values that suit it better than the defaults.
        grids: by name, values to choose from: "paper" and "cpu" for the presets of these names, further ones for
            plans of the benchmark.
        variants: by name, values that something else in r2et trains with.
        parts: the methods without the gap or the curvature, whose chosen weights are a candidate too (B.1.2).
        linear: the model is a linear one, whatever the architecture of others.
        activation: of the model.
        retrains: starts from a vanilla model.
    """

    title: str
    objective: Callable[..., Objective] | Objective
    defaults: Settings = field(default_factory=dict)
    suited: Mapping[str, Settings] = field(default_factory=dict)
    grids: Mapping[str, Grid] = field(default_factory=dict)
    variants: Mapping[str, Settings] = field(default_factory=dict)
    parts: tuple[str, str] | None = None
    linear: bool = False
    activation: str = "relu"
    retrains: bool = False

    @property
    def changes_architecture(self) -> bool:
        """The method is its architecture: there is nothing to retrain another model with (App. B.2.5)."""
        return self.objective is plain and (self.linear or self.activation != "relu")

    def settings(self, values: Settings, kind: str = "") -> dict[str, float]:
        """The method's values with the given ones in their place; a name it does not take is an error.

        Args:
            values: hyper-parameters.
            kind: of the data, whose suited values come before the defaults; none by default.
        """
        for name, value in values.items():
            check_choice(f"hyper-parameter of {self.title}", name, self.defaults or ["(none)"])
            if not 0 <= value < float("inf"):
                raise InputError(
                    f"{name} of {self.title} must be a finite number of at least 0, got {name}={value}"
                )
        return {**self.defaults, **self.suited.get(kind, {}), **values}

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
        own = {name: value for name, value in settings.items() if name != "weight_decay"}
        objective = self.objective(k, **own)
        changes: dict[str, Any] = {}
        if isinstance(objective, Regularised):
            score = objective.default_explainer().score
            changes["explainer"] = replace(explainer, score=score) if explainer.pointwise else explainer
        elif "explainer" in {entry.name for entry in fields(objective)}:
            changes["explainer"] = explainer
        if isinstance(objective, R2ET) and objective.pairs == "boundary":
            changes["boundary_pairs"] = boundary_pairs
        if isinstance(objective, R2ET) and objective.scale_free:
            changes["direction"] = direction
        return replace(objective, **changes)


def plain(k: int, **_: float) -> Objective:
    """Cross-entropy: what a method is that differs in its network or its optimiser alone."""
    return CrossEntropy()
