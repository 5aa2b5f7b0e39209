"""Values of a network as affine functions of its input and of the activations before."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from r2et.errors import ModelError

#: entries of the largest matrix that is built, 1 GB in float64
LARGEST_MATRIX = 2**27


@dataclass(frozen=True)
class Affine:
    """sum over sources of matrix @ source + bias, as a function of the input and of activations.

    Attributes:
        terms: for each source its matrix, (size of the source, *shape): row s is what source entry s adds.
        bias: (1, *shape).
    """

    terms: dict[int, Tensor]
    bias: Tensor

    def mapped(self, linear: Callable[[Tensor], Tensor], shift: Tensor | float = 0.0) -> "Affine":
        """After a linear map of batches (rows, *shape), and a shift."""
        if any(matrix.numel() > LARGEST_MATRIX for matrix in self.terms.values()):
            shape = tuple(max(self.terms.values(), key=Tensor.numel).shape)
            raise ModelError(f"the network is too large for enclosures: a linear map has shape {shape}")
        return Affine({source: linear(matrix) for source, matrix in self.terms.items()}, linear(self.bias) + shift)

    def plus(self, other: "Affine", sign: float = 1.0) -> "Affine":
        """The sum of two, or their difference with sign -1."""
        terms = dict(self.terms)
        for source, matrix in other.terms.items():
            added = sign * matrix
            terms[source] = terms[source] + added if source in terms else added
        return Affine(terms, self.bias + sign * other.bias)
