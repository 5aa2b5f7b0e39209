"""Values of a network as affine functions of its input and of the activations before."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.errors import ModelError

#: entries of the largest matrix that is built, 1 GB in float64
LARGEST_MATRIX = 2**27
#: entries of an identity that is written out as a whole; a larger one goes through a map in pieces of that size
WHOLE_IDENTITY = 2**22

Linear = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Affine:
    """sum over sources of matrix @ source + bias, as a function of the input and of activations.

    Attributes:
        terms: for each source its matrix, (size of the source, *shape): row s is what source entry s adds.
        bias: (1, *shape).
    """

    terms: dict[int, Tensor]
    bias: Tensor

    def mapped(self, linear: Linear, shift: Tensor | float = 0.0) -> "Affine":
        """After a linear map of batches (rows, *shape), and a shift."""
        bias = linear(self.bias)
        for matrix in self.terms.values():
            _check_size(len(matrix), bias)
        return Affine({source: linear(matrix) for source, matrix in self.terms.items()}, bias + shift)

    def plus(self, other: "Affine", sign: float = 1.0) -> "Affine":
        """The sum of two, or their difference with sign -1."""
        terms = dict(self.terms)
        for source, matrix in other.terms.items():
            added = sign * matrix
            terms[source] = terms[source] + added if source in terms else added
        return Affine(terms, self.bias + sign * other.bias)


class Source(Affine):
    """The input or an activation itself, and what linear maps and sums make of it before the next activation.

    Its matrix is an identity at first, quadratic in the size of the source. A large one is never written out: the
    maps are remembered, and the matrix is made piece by piece when somebody asks for it.

    Args:
        number: of the source.
        zero: 0 in the shape of the source, (1, *shape).
        linear: what became of it; None = nothing yet.
        bias: what the maps and their shifts make of `zero`; None = `zero`.
    """

    number: int
    zero: Tensor
    linear: Linear

    def __init__(
        self, number: int, zero: Tensor, linear: Linear | None = None, bias: Tensor | None = None
    ) -> None:
        parts = {"number": number, "zero": zero, "linear": linear or (lambda rows: rows)}
        for name, part in (parts | {"bias": zero if bias is None else bias}).items():
            object.__setattr__(self, name, part)

    @cached_property
    def terms(self) -> dict[int, Tensor]:
        """The one source and its matrix, (size, *shape)."""
        size = self.zero.numel()
        _check_size(size, self.bias)
        if self._small or self.bias.requires_grad or size <= self.bias.numel():
            return {self.number: self._by_rows()}
        return {self.number: self._by_columns()}

    def _by_rows(self) -> Tensor:
        """The matrix from what the maps make of pieces of the identity."""
        size = self.zero.numel()
        parts = []
        for first, last in _pieces(size, max(size, self.bias.numel())):
            rows = _identity(self.zero, first, last).reshape(-1, *self.zero.shape[1:])
            parts.append(self.linear(rows))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _by_columns(self) -> Tensor:
        """The same from the transposed maps, of which there are fewer: what they make of each output."""
        size, width = self.zero.numel(), self.bias.numel()
        matrix = self.zero.new_zeros(size, width)
        for first, last in _pieces(width, size):
            with torch.enable_grad():
                rows = self.zero.expand(last - first, *self.zero.shape[1:]).clone().requires_grad_()
                values = self.linear(rows).flatten(1)
                picks = _identity(self.bias, first, last)
                matrix[:, first:last] = torch.autograd.grad(values, rows, picks)[0].flatten(1).T
        return matrix.reshape(size, *self.bias.shape[1:])

    @property
    def _small(self) -> bool:
        return self.zero.numel() ** 2 <= WHOLE_IDENTITY

    def mapped(self, linear: Linear, shift: Tensor | float = 0.0) -> Affine:
        """After a linear map of batches (rows, *shape), and a shift."""
        if self._small:
            return super().mapped(linear, shift)
        before = self.linear
        return Source(self.number, self.zero, lambda rows: linear(before(rows)), linear(self.bias) + shift)

    def plus(self, other: Affine, sign: float = 1.0) -> Affine:
        """The sum of two, or their difference with sign -1."""
        if self._small or not isinstance(other, Source) or other.number != self.number:
            return super().plus(other, sign)
        first, second = self.linear, other.linear
        bias = self.bias + sign * other.bias
        return Source(self.number, self.zero, lambda rows: first(rows) + sign * second(rows), bias)


def _pieces(count: int, width: int) -> list[tuple[int, int]]:
    """First and last of pieces of `count` rows of a width."""
    step = max(1, WHOLE_IDENTITY // width)
    return [(first, min(first + step, count)) for first in range(0, count, step)]


def _identity(like: Tensor, first: int, last: int) -> Tensor:
    """Rows of the identity of a value's size, (last - first, size)."""
    rows = torch.zeros(last - first, like.numel(), dtype=like.dtype, device=like.device)
    rows[torch.arange(last - first), torch.arange(first, last)] = 1
    return rows


def _check_size(size: int, value: Tensor) -> None:
    """Refuse a matrix from `size` numbers to those of a value (1, *shape), before it is made."""
    if size * value.numel() > LARGEST_MATRIX:
        shape = (size, *value.shape[1:])
        raise ModelError(
            f"the network is too large for enclosures: a linear map has shape {shape}, "
            f'{size * value.numel() / 2**27:.3g} GB; method="smoothing" needs no look inside'
        )
