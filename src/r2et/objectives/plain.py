"""Vanilla training: the classification loss alone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et.objectives.objective import OBJECTIVES, Loss, Objective, classification_loss


@OBJECTIVES.register("cross-entropy")
@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Objective):
    """The classification loss. With weight decay in the optimiser it is the paper's WD, on a softplus copy of the
    model (`r2et.validate.smooth`) its SP.

    >>> CrossEntropy()(torch.nn.Linear(3, 2), torch.ones(4, 3), torch.tensor([0, 1, 0, 1])).ndim
    0
    """

    def evaluate(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
        step: int | None = None,
        weights: Tensor | None = None,
    ) -> Loss:
        """One forward pass."""
        return classification_loss(model(x), y, weights=weights)
