"""An explainer: a power of the gradient."""

from dataclasses import dataclass

from torch import Tensor, nn

from r2et.explainers import Explainer


@dataclass(frozen=True, kw_only=True)
class Sharpened(Explainer):
    """The signed power of the gradient: large ones count for more.

    Args:
        power: above 0.
    """

    power: float = 2.0

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """sign(g) |g|^power, in the shape of x."""
        gradient = self.gradient(model, x, target, create_graph=create_graph, logits=logits)
        return gradient.sign() * gradient.abs() ** self.power
