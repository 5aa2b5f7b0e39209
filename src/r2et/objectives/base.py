"""The base class of training objectives, and what their regularisers share: one forward pass."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import derivative, forward, negligible, unit
from r2et.numerics.checks import (
    check_differentiable_inputs,
    check_generator,
    check_inputs,
    check_labels,
    check_logits,
)
from r2et.numerics.modes import evaluating
from r2et.numerics.preflight import check_module, run
from r2et.numerics.values import check_count, check_flag, check_kind, plain_numbers, quoted
from r2et.registry import Registry
from r2et.scores import log_odds, predicted_class

Direction = Literal["gradient", "random", "adversarial"]
#: how far the random step goes that an adversarial direction is found from, as a share of the difference
PROBE = 1 / 3


@dataclass(frozen=True)
class Term:
    """One regulariser: its mean over the batch, and the weight it enters the loss with (negative: maximised)."""

    value: Tensor
    weight: float


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

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        generator: torch.Generator | None = None,
        step: int | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch.

        Args:
            model: maps (N, *features) to logits (N, C).
            x: (N, *features).
            y: class labels, int64 (N,).
            generator: of random directions and neighbours.
            step: the number of the training step, for objectives that regularise every few steps; None = they
                count their calls.
            weights: of the rows in the classification loss (N,): it is the mean of weight times loss. None = all
                are 1. Regularisers count every row once.

        Returns:
            A scalar that `backward()` can be called on.
        """
        check_inputs(x)
        check_differentiable_inputs(x)
        check_module(model)
        check_generator(generator)
        if step is not None:
            check_count("step", step, least=0)
        with torch.no_grad(), evaluating(model):
            logits = run(model, x[:1], x)
        check_logits(logits, 1)
        check_labels(y, len(x), logits.shape[1])
        if weights is None:
            return self.evaluate(model, x, y, generator, step).total
        check_weights(weights, len(x))
        return self.evaluate(model, x, y, generator, step, weights).total

    @abstractmethod
    def evaluate(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        generator: torch.Generator | None = None,
        step: int | None = None,
        weights: Tensor | None = None,
    ) -> Loss:
        """The loss and its parts, without checks of the input; arguments as in `__call__`."""


OBJECTIVES: Registry[type[Objective]] = Registry(
    "objective", "r2et.objectives", package="r2et.objectives", base=Objective
)


@dataclass(frozen=True, kw_only=True)
class Regularised(Objective):
    """Cross-entropy plus weighted regularisers of the explanation.

    Args:
        explainer: whose explanation is regularised; None = the objective's own default.
        adaptive: weigh each regulariser by (cross-entropy + 1) / |its value|, both held constant, as the
            paper's published code does. Singular where a regulariser vanishes; off by default.
    """

    explainer: Explainer | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        plain_numbers(self)
        if self.explainer is not None:
            check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        check_flag("adaptive", self.adaptive)

    @abstractmethod
    def terms(self, batch: "ExplainedBatch") -> dict[str, Term]:
        """The regularisers of one batch, by name."""

    def default_explainer(self) -> Explainer:
        """The paper regularises the gradient of the probability."""
        return Gradient(score="probability")

    def evaluate(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        generator: torch.Generator | None = None,
        step: int | None = None,
        weights: Tensor | None = None,
    ) -> Loss:
        """Cross-entropy and regularisers from one forward pass, where the model's layers allow that."""
        if not self.active(step):
            return _cross_entropy(model(x), y, weights)
        point, logits = forward(model, x)
        plain = _cross_entropy(logits, y, weights)
        total, parts = plain.total, dict(plain.parts)
        explainer = self.default_explainer() if self.explainer is None else self.explainer
        with evaluation_mode(model) as changed:
            if changed:
                point, logits = forward(model, x)
            for name, term in self.terms(ExplainedBatch(model, point, logits, explainer, generator)).items():
                weight: Tensor | float = term.weight
                if self.adaptive:
                    tiny, most = torch.finfo(x.dtype).tiny, 1 / negligible(x.dtype)
                    weight = weight * (plain.total.detach() + 1) / term.value.detach().abs().clamp_min(tiny)
                    # an infinite weight of a regulariser that vanishes would not be a number
                    weight = weight.clamp(-most, most)
                total = total + weight * term.value
                parts[name] = term.value.detach()
        return Loss(total, parts)


@dataclass
class ExplainedBatch:
    """What the regularisers of one step share.

    Attributes:
        model: the model in evaluation mode.
        x: (N, *features), requires gradients.
        logits: the model's output there (N, C).
        explainer: whose explanation is regularised.
        generator: of random directions.
    """

    model: nn.Module
    x: Tensor
    logits: Tensor
    explainer: Explainer
    generator: torch.Generator | None

    @cached_property
    def target(self) -> Tensor:
        """The predicted class, int64 (N,)."""
        return predicted_class(self.logits)

    @cached_property
    def attributions(self) -> Tensor:
        """Signed attributions, differentiable with respect to the parameters, usually in the shape of x."""
        return self.explainer.attribute(self.model, self.x, self.target, create_graph=True, logits=self.logits)

    @cached_property
    def scores(self) -> Tensor:
        """The explanation (N, ..., n)."""
        return self.explainer.flatten(self.attributions)

    def ranking_to_keep(self, reference: nn.Module | None) -> Tensor:
        """The detached explanation (N, ..., n) whose ranking is kept: the reference's, or the model's own."""
        if reference is None:
            return self.scores.detach()
        point, logits = forward(reference, self.x)
        return self.explainer.flatten(
            self.explainer.attribute(reference, point, self.target, create_graph=False, logits=logits).detach()
        )

    def directions(self, kind: Direction, rows: int, size: float, scale_free: bool) -> Tensor:
        """Unit directions of the first rows in input space (rows, *features).

        Args:
            kind: along the gradient, random, or adversarial: from a random step, the slope along which the
                explanation moves away fastest, one iteration of the power method.
            rows: how many.
            size: of the difference that is to be taken.
            scale_free: whether the explanation is normalised.
        """
        if kind in ("random", "adversarial"):
            drawn = torch.randn(
                self.x[:rows].shape, generator=self.generator, device=self.x.device, dtype=self.x.dtype
            )
            if kind == "adversarial":
                moved = (self.x[:rows].detach() + PROBE * size * unit(drawn)).requires_grad_()
                there = self.explainer.attribute(
                    self.model, moved, self.target[:rows], create_graph=True, logits=self.model(moved)
                )
                here = self.attributions[:rows].detach()
                apart = unit(there) - unit(here) if scale_free else there - here
                steepest = derivative(apart.square().sum(), moved)
                # where nothing bends, any direction will do
                flat = steepest.flatten(start_dim=1).norm(dim=1) == 0
                drawn = torch.where(flat.reshape(-1, *[1] * (drawn.ndim - 1)), drawn, steepest)
        elif isinstance(self.explainer, Gradient):
            drawn = self.attributions[:rows].detach()
        else:
            value = log_odds(self.logits, self.target).sum()
            drawn = derivative(value, self.x, retain_graph=True)[:rows]
        return unit(drawn)

    def difference_quotient(
        self, kind: Direction, size: float, fraction: float = 1.0, scale_free: bool = False
    ) -> Tensor:
        """||(I(x + size v) - I(x)) / size|| for unit directions v: an estimate of ||H v||, (rows,).

        Args:
            kind: of the directions.
            size: of the step.
            fraction: of the batch that is used; its first rows.
            scale_free: normalise each explanation first.
        """
        rows = max(1, round(fraction * len(self.x)))
        here = self.attributions[:rows]
        moved = (self.x[:rows].detach() + size * self.directions(kind, rows, size, scale_free)).requires_grad_()
        there = self.explainer.attribute(
            self.model, moved, self.target[:rows], create_graph=True, logits=self.model(moved)
        )
        if scale_free:
            here, there = unit(here), unit(there)
        quotient: Tensor = torch.linalg.vector_norm(((there - here) / size).flatten(start_dim=1), dim=1)
        return quotient


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[bool]:
    """Switch off what makes a sample's gradient depend on the batch or on chance; yields whether anything did.

    Under batch statistics a per-sample gradient does not exist, and two passes with different dropout masks
    have no meaningful difference.
    """
    if any(module.training and _depends_on_mode(module) for module in model.modules()):
        with evaluating(model):
            yield True
    else:
        yield False


def _depends_on_mode(module: nn.Module) -> bool:
    if isinstance(module, _BatchNorm):
        return True
    if isinstance(module, _DropoutNd):
        return module.p > 0
    dropout = getattr(module, "dropout", 0.0)
    return isinstance(dropout, float) and dropout > 0


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


def check_reference(reference: nn.Module | None) -> None:
    """The model whose ranking is kept: a module, or None."""
    if reference is not None:
        check_kind("reference", reference, nn.Module, "a trained torch.nn.Module")


def mean_cross_entropy(logits: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """The classification loss of logits (N, C) and labels (N,), a scalar: the mean of weight times loss.

    Not divided by the weights of this batch, so that its mean over batches is that over all rows.

    >>> logits, y = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1])
    >>> twice = mean_cross_entropy(logits[[0, 0, 1]], y[[0, 0, 1]])
    >>> torch.allclose(twice, mean_cross_entropy(logits, y, torch.tensor([2.0, 1.0])) * 2 / 3)
    True
    """
    if weights is None:
        return F.cross_entropy(logits, y)
    return (weights * F.cross_entropy(logits, y, reduction="none")).mean()


def _cross_entropy(logits: Tensor, y: Tensor, weights: Tensor | None = None) -> Loss:
    value = mean_cross_entropy(logits, y, weights)
    return Loss(value, {"cross-entropy": value.detach()})
