"""skorch: a NeuralNetClassifier that trains any module for explanations that stay put."""

# ruff: noqa: N803 - scikit-learn calls a table X

from dataclasses import fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from r2et.integrations.penalties import check_regularised, penalty
from r2et.numerics.values import check_choice
from r2et.objectives import Objective

try:
    from skorch import NeuralNetClassifier  # type: ignore[import-untyped]
    from skorch.utils import to_tensor  # type: ignore[import-untyped]
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("r2et.integrations.skorch needs skorch: pip install skorch") from error


class StableNetClassifier(NeuralNetClassifier):  # type: ignore[misc]  # skorch has no types
    """A NeuralNetClassifier whose training loss has the regularisers of an objective.

    Args:
        module: returns logits (N, C).
        objective: such as `r2et.objectives.R2ET(k=8)`; None = plain training. Its settings are parameters,
            `objective__gap=0.1`, so that a grid search can vary them.
        criterion: the classification loss of logits.
        options: of NeuralNetClassifier.

    >>> from r2et.objectives import R2ET
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 2))
    >>> net = StableNetClassifier(network, objective=R2ET(k=2), objective__gap=0.3, max_epochs=1, verbose=0)
    >>> net.set_params(objective__gap=0.5).used_objective().gap
    0.5
    """

    prefixes_: ClassVar[list[str]] = [*NeuralNetClassifier.prefixes_, "objective"]

    def __init__(
        self,
        module: Any,
        *,
        objective: Objective | None = None,
        criterion: Any = nn.CrossEntropyLoss,
        **options: Any,
    ) -> None:
        # before the others, because skorch checks names while it stores them
        self.objective = objective
        super().__init__(module, criterion=criterion, **options)

    def set_params(self, **parameters: Any) -> "StableNetClassifier":
        """As NeuralNetClassifier's; settings of the objective need no new module."""
        ours = {key: parameters.pop(key) for key in list(parameters) if key.split("__")[0] == "objective"}
        for key, value in ours.items():
            setattr(self, key, value)
        super().set_params(**parameters)
        self.used_objective()
        return self

    def used_objective(self) -> Objective | None:
        """The objective with the settings that were given as `objective__name`."""
        if self.objective is None:
            return None
        check_regularised(self.objective)
        settings = self.get_params_for("objective")
        for name in settings:
            check_choice("setting of the objective", name, [entry.name for entry in fields(self.objective)])
        return replace(self.objective, **settings)

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """The criterion's loss; in training, with the regularisers."""
        loss: Tensor = super().get_loss(y_pred, y_true, X=X, training=training)
        objective = self.used_objective() if training else None
        if objective is None:
            return loss
        with torch.enable_grad():
            return loss + penalty(objective, self.module_, to_tensor(X, device=self.device)).total
