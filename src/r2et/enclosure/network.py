"""A network as affine maps with activations between them: the form in which derivatives can be enclosed.

The pre-activation of every layer is written as an affine function of the input and of the activations before it,
z_l = A_{l,x} x + sum_m A_{l,m} sigma_m(z_m) + c_l.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.ranges import EnclosedActivation
from r2et.errors import ModelError

#: number of the input among the sources of a layer
INPUT = -1
#: squares of lengths below this lose digits, and at last all of them
SMALLEST = 1e-140
#: rows of the base up to which their products with each other are kept
MOST_PRODUCTS = 2048
#: features from which on the base is replaced by a frame of it, if that is half as long or shorter, and how close
#: the frame has to be: far below what every certificate charges for the rounding of such sums
LONG, CLOSE_FRAME = 1024, 1e-12
#: relative error of a slope of 1 that rounding may cause, with room for what sums of many terms add
ROUNDING = 1e-13


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
        movable: which features may move, bool (n,); None = all. Derivatives are by all features, and the balls on
            which they are enclosed are of those that move: frozen features leave the ball.
    """

    layers: tuple[Layer, ...]
    logits: Layer
    base: Tensor
    blocks: dict[int, slice]
    movable: Tensor | None = None

    def __post_init__(self) -> None:
        if ((self.moving != 0).any(1) & (self.lengths < SMALLEST)).any():
            raise ModelError(
                f"weights next to the input are so small (below {SMALLEST:g}) that their squares vanish: "
                "rescale the model, or set them to zero"
            )

    def where(self, movable: Tensor) -> "Network":
        """The same network on balls of those features alone that may move, bool (n,)."""
        return self if bool(movable.all()) else replace(self, movable=movable.to(self.base.device))

    @cached_property
    def whole(self) -> "Network":
        """The same network on balls of all features."""
        return self if self.movable is None else replace(self, movable=None)

    @cached_property
    def moving(self) -> Tensor:
        """The base, 0 where a feature cannot move, (K, n)."""
        return self.base if self.movable is None else self.base * self.movable

    @cached_property
    def gram(self) -> Tensor | None:
        """moving @ moving^T, (K, K), None where it would be too large."""
        return self.moving @ self.moving.T if len(self.base) <= MOST_PRODUCTS else None

    @cached_property
    def frame(self) -> Tensor:
        """Rows with the lengths and angles of those of `moving`, but as few columns as there are rows, (K, d).

        ||v @ frame|| = ||v @ moving|| for every v, but for sum |v_m| lengths_m times a rounding error that was
        looked at: `moving` is the frame times the transposed basis. It is `moving` itself where that is short.
        """
        return self.moving if self._framed is None else self._framed[1]

    @property
    def basis(self) -> Tensor | None:
        """Orthonormal, 0 where a feature cannot move, (n, d): moving = frame @ basis^T; None = identity."""
        return None if self._framed is None else self._framed[0]

    @cached_property
    def _framed(self) -> tuple[Tensor, Tensor] | None:
        rows, features = self.moving.shape
        if features <= LONG or 2 * rows > features:
            return None
        basis, upper = torch.linalg.qr(self.moving.T)
        skew = (basis.T @ basis - torch.eye(rows).to(basis)).abs().sum(1).amax()
        apart = (self.moving.T - basis @ upper).norm(dim=0)
        close = bool(skew <= CLOSE_FRAME) and bool((apart <= CLOSE_FRAME * self.lengths).all())
        return (basis, upper.T.contiguous()) if close else None

    @cached_property
    def lengths(self) -> Tensor:
        """Norms of the rows of `moving`, (K,)."""
        lengths: Tensor = self.moving.norm(dim=1)
        return lengths

    @cached_property
    def widest(self) -> int:
        """The most numbers that a direction has on its way through the network."""
        return max([len(self.base), *(len(layer.bias) for layer in self.layers)])

    @cached_property
    def still(self) -> bool:
        """Whether nothing that the network computes can move."""
        return not bool((self.moving != 0).any())

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
        inner, values = self._run(x)
        return inner, preactivation(self.logits, values)

    def blurs(self, x: Tensor) -> list[Tensor | float]:
        """By how much rounding may have moved pre-activations (N, m), where that matters, layer by layer.

        A neuron that moves leaves its hinge behind by more than that; one that reads frozen features alone stays,
        and which side of its hinge it is on may be rounding's choice.
        """
        if self.movable is None or self.smooth:
            return [0.0] * len(self.layers)
        values = self._run(x)[1]
        return [rounding_of(layer, values) for layer in self.layers]

    def logit_sizes(self, x: Tensor) -> Tensor:
        """The sums of the absolute terms of each logit, (N, C): rounding leaves a share of them of a tie."""
        return rounding_of(self.logits, self._run(x)[1]) / ROUNDING

    def _run(self, x: Tensor) -> tuple[list[Tensor], dict[int, Tensor]]:
        values: dict[int, Tensor] = {INPUT: x}
        inner = []
        for number, layer in enumerate(self.layers):
            z = preactivation(layer, values)
            inner.append(z)
            assert layer.activation is not None
            values[number] = layer.activation.value(z)
        return inner, values


def preactivation(layer: Layer, values: dict[int, Tensor]) -> Tensor:
    """z = A x + sum_m A_m sigma_m(z_m) + c of one layer, (N, m), from the input and the activations before it."""
    result = layer.bias
    for source, matrix in layer.matrices.items():
        result = result + values[source] @ matrix.T
    return result if result.ndim > 1 else result.expand(len(values[INPUT]), -1)


def rounding_of(layer: Layer, values: dict[int, Tensor]) -> Tensor:
    """By how much rounding may have moved each pre-activation, (N, m)."""
    terms = [values[source].abs() @ matrix.abs().T for source, matrix in layer.matrices.items()]
    return ROUNDING * (torch.stack(terms).sum(0) + layer.bias.abs())
