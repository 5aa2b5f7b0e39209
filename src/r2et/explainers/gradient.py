"""Explainers that need one gradient: the gradient itself, and gradient times input."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from r2et.columns import Columns, Kind
from r2et.explainers.explainer import EXPLAINERS, Explainer


@EXPLAINERS.register("gradient")
@dataclass(frozen=True, kw_only=True)
class Gradient(Explainer):
    """The gradient of the score, grad s_c(x) (Sec. 3, "Grad").

    >>> import torch
    >>> model = torch.nn.Linear(3, 2, bias=False)
    >>> _ = torch.nn.init.zeros_(model.weight)
    >>> model.weight.data[1] = torch.tensor([1.0, -2.0, 3.0])
    >>> Gradient()(model, torch.ones(1, 3))
    tensor([[1., 2., 3.]])
    """

    pointwise: ClassVar[bool] = True

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """grad s_c(x), in the shape of x."""
        return self.gradient(model, x, target, create_graph=create_graph, logits=logits)

    def in_units(self, scale: Tensor) -> Explainer:
        """The slopes of a table of numbers, each divided by its unit."""
        from r2et.explainers.column_effects import ColumnEffects

        n = scale.numel()
        kinds: list[Kind] = ["number"] * n
        columns = Columns([f"feature {i}" for i in range(n)], [(i,) for i in range(n)], kinds, [()] * n)
        plain = ColumnEffects(columns=columns, reduce=self.reduce, inputs=self.inputs, score=self.score)
        return plain.in_units(scale)


@EXPLAINERS.register("gradient-times-input")
@dataclass(frozen=True, kw_only=True)
class GradientTimesInput(Explainer):
    """Gradient times input, x * grad s_c(x) (App. A.1.2, "Grad x Inp").

    >>> import torch
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = torch.nn.init.eye_(model.weight)
    >>> GradientTimesInput(reduce="signed")(model, torch.tensor([[5.0, 4.0]]))
    tensor([[ 5., -4.]])
    """

    pointwise: ClassVar[bool] = True

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """x * grad s_c(x), in the shape of x."""
        return x * self.gradient(model, x, target, create_graph=create_graph, logits=logits)

    def in_units(self, scale: Tensor) -> Explainer:
        """The same: units cancel."""
        return self
