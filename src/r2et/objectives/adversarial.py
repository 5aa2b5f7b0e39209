"""Adversarial training (Sec. 6.1): the classification loss at inputs whose explanation was attacked."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from r2et.attacks import ERAttack, Task
from r2et.explainers import Explainer, Gradient
from r2et.numerics.preflight import trusted
from r2et.numerics.values import check_count, check_kind, check_positive
from r2et.objectives.objective import OBJECTIVES, Loss, mean_loss
from r2et.objectives.regularised import evaluation_mode
from r2et.objectives.threatened import Threatened


@OBJECTIVES.register("at")
@dataclass(frozen=True, kw_only=True)
class AdversarialTraining(Threatened):
    """AT: cross-entropy at x + delta, delta from ERAttack. One step (Fast-AT) by default.

    Args:
        k: size of the salient set.
        radius: of the attack.
        steps: of the attack.
        explainer: whose explanation is attacked.
        domain: what exists.
        threat: what the attack may do.

    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    >>> AdversarialTraining(k=3, radius=0.1)(model, torch.randn(16, 9), torch.randint(0, 2, (16,))).backward()
    """

    k: int = 8
    radius: float = 1.0
    steps: int = 1
    explainer: Explainer = field(default_factory=Gradient)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("k", self.k)
        check_positive("radius", self.radius)
        check_count("steps", self.steps)
        check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")

    @property
    def explained_by(self) -> Explainer:
        """The one that is attacked."""
        return self.explainer

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
        measured, reach = self.measured(model, x)
        with evaluation_mode(model), trusted(measured):
            task = Task.prepare(attack, measured, x, reach=reach)
            self.explainer.check_k(self.k, task.before.shape[-1])
            attacked = attack.on([task], [self.radius])[0].x
        value = mean_loss(model(attacked), y, weights=weights)
        return Loss(value, {"adversarial cross-entropy": value.detach()})
