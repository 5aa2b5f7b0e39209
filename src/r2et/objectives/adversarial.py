"""Adversarial training (Sec. 6.1): the classification loss at inputs whose explanation was attacked."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from r2et.attacks import ERAttack
from r2et.explainers import Explainer, Gradient
from r2et.numerics.preflight import trusted
from r2et.numerics.values import check_count, check_kind, check_positive, plain_numbers
from r2et.objectives.objective import OBJECTIVES, Loss, Objective, mean_cross_entropy
from r2et.objectives.regularised import evaluation_mode


@OBJECTIVES.register("at")
@dataclass(frozen=True, kw_only=True)
class AdversarialTraining(Objective):
    """AT: cross-entropy at x + delta, delta from ERAttack. One step (Fast-AT) by default.

    Args:
        k: size of the salient set.
        radius: of the attack.
        steps: of the attack.
        explainer: whose explanation is attacked.

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> AdversarialTraining(k=3, radius=0.1)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    k: int = 8
    radius: float = 1.0
    steps: int = 1
    explainer: Explainer = field(default_factory=Gradient)

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_count("k", self.k)
        check_positive("radius", self.radius)
        check_count("steps", self.steps)
        check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")

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
        """Attack in evaluation mode, then one forward pass."""
        attack = ERAttack(k=self.k, radius=self.radius, steps=self.steps, keep="last", explainer=self.explainer)
        with evaluation_mode(model), trusted(model):
            attacked = attack(model, x).x
        value = mean_cross_entropy(model(attacked), y, weights=weights)
        return Loss(value, {"adversarial cross-entropy": value.detach()})
