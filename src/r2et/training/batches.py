"""Rows to train on, and the batches that a step takes of them."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.checks import check_inputs, check_told
from r2et.numerics.values import quoted
from r2et.objectives.objective import check_weights


@runtime_checkable
class TrainingRows(Protocol):
    """Anything with inputs `x` (N, *features) and labels `y` (N,)."""

    @property
    def x(self) -> Tensor:
        """Inputs (N, *features)."""

    @property
    def y(self) -> Tensor:
        """Class labels, int64 (N,), or for a model with one output numbers (N,)."""


@runtime_checkable
class Weighted(TrainingRows, Protocol):
    """Rows that may not all count the same in the classification loss."""

    @property
    def weights(self) -> Tensor | None:
        """Of the rows (N,); None = all are 1."""


@runtime_checkable
class Redrawn(TrainingRows, Protocol):
    """Rows of which every epoch sees others; `x` and `y` are there for what looks at them once."""

    def redraw(self, generator: torch.Generator) -> TrainingRows:
        """As many other rows, decided by the generator alone."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows that do not all count the same in the classification loss. Regularisers count every row once.

    Args:
        x: inputs (N, *features).
        y: class labels, int64 (N,), or numbers (N,).
        weights: of the rows (N,), with mean 1 if the loss is to keep its scale; None = all are 1.
    """

    x: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    weights: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_inputs(self.x)
        check_told(self.y, len(self.x))
        if self.weights is not None:
            check_weights(self.weights, len(self.x))


@dataclass(frozen=True, eq=False)
class Batch:
    """What one step of one process takes.

    Args:
        x: inputs (N, *features).
        y: class labels, int64 (N,), or numbers (N,).
        row_weights: of the rows in the classification loss (N,); None = all are 1.
        share: what the loss of this process is multiplied by, so that the mean over processes is the mean over
            the whole batch although their numbers of rows differ; 1 for a process that is alone.

    >>> take(WeightedRows(torch.zeros(4, 3), torch.tensor([0, 1, 1, 0])), torch.tensor([2, 3])).y
    tensor([1, 0])
    """

    x: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    row_weights: Tensor | None = field(default=None, repr=False)
    share: float = 1.0


def take(rows: TrainingRows, numbers: Tensor, share: float = 1.0) -> Batch:
    """Some rows, by their numbers (M,), as a batch."""
    weights = weights_of(rows)
    return Batch(rows.x[numbers], rows.y[numbers], None if weights is None else weights[numbers], share)


def weights_of(rows: TrainingRows) -> Tensor | None:
    """The weights of rows (N,), if they have any.

    >>> weights_of(WeightedRows(torch.zeros(2, 3), torch.tensor([0, 1]), torch.tensor([0.5, 1.5])))
    tensor([0.5000, 1.5000])
    """
    return rows.weights if isinstance(rows, Weighted) else None


def as_rows(part: TrainingRows | tuple[Tensor, Tensor], name: str) -> TrainingRows:
    """Inputs and labels, however they came, checked; the name is for error messages."""
    rows = _Pair(*part) if isinstance(part, tuple | list) and len(part) == 2 else part
    if not isinstance(rows, TrainingRows):
        raise InputError(f"{name} must be (x, y), or an object with .x and .y, got {quoted(part)}")
    check_inputs(rows.x, f"{name}.x")
    check_told(rows.y, len(rows.x))
    weights = weights_of(rows)
    if weights is not None:
        check_weights(weights, len(rows.x))
    return rows


@dataclass(frozen=True)
class _Pair:
    x: Tensor
    y: Tensor
