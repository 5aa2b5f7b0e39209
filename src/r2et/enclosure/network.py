"""A network as affine maps with activations between them: the form in which derivatives can be enclosed.

The pre-activation of every layer is written as an affine function of the input and of the activations before it,
z_l = A_{l,x} x + sum_m A_{l,m} sigma_m(z_m) + c_l.
"""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from r2et.enclosure.activations import EnclosedActivation

#: number of the input among the sources of a layer
INPUT = -1


@dataclass(frozen=True)
class Layer:
    """One activation and the affine map before it.

    Attributes:
        name: of the activation in the model.
        activation: what is applied.
        matrices: for each source (INPUT, or the number of an earlier layer) a matrix (m, size of the source).
        bias: (m,).
    """

    name: str
    activation: EnclosedActivation | None
    matrices: dict[int, Tensor]
    bias: Tensor


@dataclass(frozen=True)
class Network:
    """Layers in the order of computation, then the logits.

    Attributes:
        layers: with an activation each.
        logits: the last affine map (its activation is None).
        base: every matrix that multiplies the input, stacked, (K, n).
        blocks: rows of the base that belong to a layer; the logits have number len(layers).
        gram: base @ base^T, (K, K), None where it would be too large.
        lengths: norms of the rows of the base, (K,).
    """

    layers: tuple[Layer, ...]
    logits: Layer
    base: Tensor
    blocks: dict[int, slice]
    gram: Tensor | None
    lengths: Tensor

    @cached_property
    def inner(self) -> frozenset[int]:
        """The layers that another layer reads."""
        return frozenset(source for layer in self.layers for source in layer.matrices if source != INPUT)

    @property
    def smooth(self) -> bool:
        """Whether every activation has two continuous derivatives."""
        return all(layer.activation is None or layer.activation.smooth for layer in self.layers)

    @property
    def piecewise_linear(self) -> bool:
        """Whether no activation is smooth."""
        return all(layer.activation is None or not layer.activation.smooth for layer in self.layers)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Pre-activations (N, m) of each layer and the logits (N, C), for x (N, n)."""
        values: dict[int, Tensor] = {INPUT: x}
        inner = []
        for number, layer in enumerate(self.layers):
            z = preactivation(layer, values)
            inner.append(z)
            assert layer.activation is not None
            values[number] = layer.activation.value(z)
        return inner, preactivation(self.logits, values)


def preactivation(layer: Layer, values: dict[int, Tensor]) -> Tensor:
    """z = A x + sum_m A_m sigma_m(z_m) + c of one layer, (N, m), from the input and the activations before it."""
    result = layer.bias
    for source, matrix in layer.matrices.items():
        result = result + values[source] @ matrix.T
    return result if result.ndim > 1 else result.expand(len(values[INPUT]), -1)
