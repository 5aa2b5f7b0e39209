"""The base class of training objectives, and the classification loss that they share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from r2et.errors import InputError, ModelError
from r2et.numerics.checks import (
    ONE_LOGIT,
    check_differentiable_inputs,
    check_generator,
    check_inputs,
    check_labels,
    check_logits,
    check_told,
)
from r2et.numerics.modes import evaluating
from r2et.numerics.preflight import check_module, run
from r2et.numerics.values import check_count, quoted
from r2et.registry import Registry
from r2et.scores import output, single


@dataclass(frozen=True)
class Loss:
    """The value of an objective and its parts.

    Attributes:
        total: what is minimised, a scalar.
        parts: the classification loss and each regulariser, unweighted and detached.
    """

    total: Tensor
    parts: dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """What training minimises. `objective(model, x, y)` is a scalar, usable in any training loop."""

    def active(self, step: int | None) -> bool:
        """Whether this step is regularised."""
        return True

    def check_rows(self, x: Tensor) -> None:  # noqa: B027 - most take any rows
        """Raise unless the objective is about rows such as x (N, *features); once, not in every step."""

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
        step: int | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch.

        Args:
            model: maps (N, *features) to logits (N, C).
            x: (N, *features).
            y: class labels, int64 (N,), or for a model with one output numbers (N,), of its dtype.
            generator: of random directions and neighbours.
            step: the number of the training step, for objectives that regularise every few steps; None = they
                count their calls.
            weights: of the rows in the classification loss (N,): it is the mean of weight times loss. None = all
                are 1. Regularisers count every row once.

        Returns:
            A scalar that `backward()` can be called on.
        """
        check_call(model, x, generator=generator, step=step)
        self.check_rows(x)
        with torch.no_grad(), evaluating(model):
            logits = run(model, x[:1], x)
        check_logits(logits, 1)
        check_batch(y, len(x), logits)
        if weights is None:  # an objective of one's own need not know weights until there are some
            return self.evaluate(model, x, y, generator=generator, step=step).total
        check_weights(weights, len(x))
        return self.evaluate(model, x, y, generator=generator, step=step, weights=weights).total

    @abstractmethod
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
        """The loss and its parts, without checks of the input; arguments as in `__call__`."""


OBJECTIVES: Registry[type[Objective]] = Registry(
    "objective", "r2et.objectives", package="r2et.objectives", base=Objective
)


def check_call(model: nn.Module, x: Tensor, *, generator: torch.Generator | None, step: int | None) -> None:
    """Check what an objective, or its penalty alone, is called with: inputs x (N, *features) and the rest."""
    check_inputs(x)
    check_differentiable_inputs(x)
    check_module(model)
    check_generator(generator)
    if step is not None:
        check_count("step", step, least=0)


def check_batch(y: Tensor, rows: int, logits: Tensor) -> None:
    """What is true of the rows of a batch fits the outputs (N, C) of a model: class numbers, or numbers."""
    if not single(logits):
        check_labels(y, rows, logits.shape[1])
        return
    check_told(y, rows)
    if not y.is_floating_point():
        raise ModelError(
            f"the model has one output, which predicts a number (regression), and y is {y.dtype}: use y.float(); "
            f"or, {ONE_LOGIT}"
        )


def check_weights(weights: Tensor, rows: int) -> None:
    """Weights of rows (N,): finite, not negative, and not all zero."""
    if not isinstance(weights, Tensor) or not weights.is_floating_point() or weights.shape != (rows,):
        seen = (
            f"{weights.dtype} of shape {tuple(weights.shape)}" if isinstance(weights, Tensor) else quoted(weights)
        )
        raise InputError(f"weights must be a floating-point tensor, one for each of {rows} rows, got {seen}")
    wrong = ~torch.isfinite(weights) | (weights < 0)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(f"weights must be finite and not negative, got {float(weights[row])} in row {row}")
    if not weights.any():
        raise InputError(f"all {rows} weights are zero: give at least one row a positive weight")


def mean_loss(logits: Tensor, y: Tensor, *, weights: Tensor | None = None) -> Tensor:
    """The loss of predictions, a scalar: the mean of weight times loss.

    Cross-entropy of logits (N, C) and labels (N,), or the squared error of outputs (N, 1) and numbers (N,).

    Not divided by the weights of this batch, so that its mean over batches is that over all rows.

    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1])
    >>> twice = mean_loss(logits[[0, 0, 1]], y[[0, 0, 1]])
    >>> torch.allclose(twice, mean_loss(logits, y, weights=torch.tensor([2.0, 1.0])) * 2 / 3)
    True
    """
    if single(logits):
        errors = (output(logits) - y).square()
        return errors.mean() if weights is None else (weights * errors).mean()
    if weights is None:
        return F.cross_entropy(logits, y)
    return (weights * F.cross_entropy(logits, y, reduction="none")).mean()


def classification_loss(logits: Tensor, y: Tensor, *, weights: Tensor | None = None) -> Loss:
    """The same as the value of an objective: its only part is the cross-entropy."""
    value = mean_loss(logits, y, weights=weights)
    return Loss(value, {"cross-entropy": value.detach()})
