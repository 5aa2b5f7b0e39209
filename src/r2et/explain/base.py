"""The base class of explainers: checks, shapes and reduction; a subclass writes `attribute`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from r2et._checks import (
    InputError,
    check_choice,
    check_differentiable,
    check_inputs,
    check_labels,
    check_logits,
    is_whole,
    no_gradient,
    quoted,
)
from r2et._preflight import measuring
from r2et.scores import Score, check_score, predicted_class, score

Reduce = Literal["abs", "signed", "abs-sum"]


@dataclass(frozen=True, kw_only=True)
class Explainer(ABC):
    """I(x): a score for each feature of each input (Sec. 3).

    Args:
        reduce: "abs" ranks by magnitude, "signed" by signed value, "abs-sum" sums magnitudes over the channel
            axis (the first axis of one input) before the rest is flattened.
        inputs: 1, or 2 for a model that takes pairs (N, 2, ...).
        score: the scalar that is explained.
    """

    reduce: Reduce = "abs"
    inputs: int = 1
    score: Score = "log-odds"

    #: the attribution is the gradient at x alone times a factor, so the gradients of log-odds and probability
    #: differ by one positive number a sample
    pointwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_choice("reduce", self.reduce, get_args(Reduce))
        check_score(self.score)
        if not is_whole(self.inputs) or self.inputs not in (1, 2):
            raise InputError(f"inputs must be 1 or 2, got {quoted(self.inputs)}")

    def __call__(
        self, model: nn.Module, x: Tensor, target: Tensor | None = None, create_graph: bool = False
    ) -> Tensor:
        """Explain a batch.

        Args:
            model: maps (N, *features) to logits (N, C); it is explained in evaluation mode and left as it was.
            x: (N, *features), or (N, 2, *features) with `inputs=2`.
            target: the class that is explained, int64 (N,); None = the predicted class.
            create_graph: keep the result differentiable with respect to the parameters, and to x if it
                requires gradients.

        Returns:
            (N, n), or (N, 2, n) with `inputs=2`.
        """
        check_inputs(x)
        self.check_shape(x)
        with measuring(model, x), torch.enable_grad():
            point, logits = forward(model, x, create_graph)
            check_logits(logits, len(x))
            target = checked_target(target, logits)
            scores = self.flatten(self.attribute(model, point, target, create_graph, logits))
        return scores if create_graph else scores.detach()

    @abstractmethod
    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """Signed attributions before reduction, in the shape of x (or of what is explained instead).

        Args:
            model: maps (N, *features) to logits (N, C).
            x: (N, *features), requires gradients.
            target: int64 (N,).
            create_graph: keep the result differentiable.
            logits: (N, C), the model's output at x if it has been computed already; an explainer that looks
                at x alone saves a forward pass with it.
        """

    def flatten(self, attributions: Tensor) -> Tensor:
        """Reduce attributions (N, ...) to scores (N, n), or (N, 2, ...) to (N, 2, n)."""
        if self.reduce == "abs-sum":
            attributions = attributions.abs().sum(dim=self.inputs)
        elif self.reduce == "abs":
            attributions = attributions.abs()
        return attributions.flatten(start_dim=self.inputs)

    def spread(self, mask: Tensor, x: Tensor) -> Tensor:
        """Bring a mask of features (N, ..., n) to the shape of the inputs x (N, *features)."""
        if self.reduce == "abs-sum":
            pixels = mask.reshape(*x.shape[: self.inputs], *x.shape[self.inputs + 1 :])
            return pixels.unsqueeze(self.inputs).expand_as(x)
        return mask.reshape(x.shape)

    def check_shape(self, x: Tensor) -> None:
        """Raise unless x fits `inputs` and `reduce`."""
        if self.inputs == 2 and (x.ndim < 3 or x.shape[1] != 2):
            raise InputError(f"inputs=2 needs pairs of shape (N, 2, *features), got {tuple(x.shape)}")
        if self.reduce == "abs-sum" and x.ndim < self.inputs + 2:
            raise InputError(f"reduce='abs-sum' needs a channel axis, got inputs of shape {tuple(x.shape)}")

    def gradient(
        self, model: nn.Module, x: Tensor, target: Tensor, create_graph: bool, logits: Tensor | None
    ) -> Tensor:
        """The gradient of the score at x, in the shape of x."""
        logits = model(x) if logits is None else logits
        check_differentiable(logits)
        value = score(self.score, logits, target).sum()
        gradient: Tensor | None = torch.autograd.grad(value, x, create_graph=create_graph, allow_unused=True)[0]
        if gradient is None:
            raise no_gradient()
        return gradient


def forward(model: nn.Module, x: Tensor, create_graph: bool = False) -> tuple[Tensor, Tensor]:
    """The point to differentiate at, and the model's logits there.

    With `create_graph` a point that already requires gradients is used as it is, so that a caller can
    differentiate the explanation with respect to it.
    """
    point = x if create_graph and x.requires_grad else x.detach().requires_grad_()
    with torch.enable_grad():
        return point, model(point)


def derivative(
    outputs: Tensor,
    inputs: Tensor,
    vector: Tensor | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Tensor:
    """The vector-Jacobian product, in the shape of inputs; zero where nothing connects the two.

    An explanation without curvature, such as a linear model's, has a derivative: it is zero.
    """
    if not outputs.requires_grad:
        return torch.zeros_like(inputs)
    found: Tensor | None = torch.autograd.grad(
        outputs, inputs, vector, create_graph=create_graph, retain_graph=retain_graph, allow_unused=True
    )[0]
    return torch.zeros_like(inputs) if found is None else found


def checked_target(target: Tensor | None, logits: Tensor) -> Tensor:
    """The class to explain, int64 (N,): the given one if it is valid, else the predicted one."""
    if target is None:
        return predicted_class(logits)
    check_labels(target, len(logits), logits.shape[1])
    return target


def logits_of(model: nn.Module, x: Tensor) -> Tensor:
    """The logits (N, C) of each input, without a graph; raises unless the model returns logits."""
    with torch.no_grad():
        logits: Tensor = model(x)
    check_logits(logits, len(x))
    return logits


def prediction(model: nn.Module, x: Tensor) -> Tensor:
    """The predicted class of each input, int64 (N,); raises unless the model returns logits."""
    return predicted_class(logits_of(model, x))


def negligible(dtype: torch.dtype) -> float:
    """Magnitudes below this have reciprocals whose products with ordinary numbers overflow.

    >>> negligible(torch.float32) < 1e-30
    True
    """
    return float(torch.finfo(dtype).tiny ** 0.8)


def unit(vectors: Tensor) -> Tensor:
    """Each row (N, ...) divided by its L2 norm, differentiable; finite whatever the row holds.

    A zero row stays zero. Infinite entries outweigh all others of their row, and a row with NaN has no direction:
    it becomes zero. Rows of negligible or infinite length are constants to a derivative.

    >>> unit(torch.tensor([[3e-40, 4e-40], [0.0, 0.0], [-torch.inf, 1.0], [torch.nan, 1.0]]))
    tensor([[ 0.6000,  0.8000],
            [ 0.0000,  0.0000],
            [-1.0000,  0.0000],
            [ 0.0000,  0.0000]])
    """
    flat = vectors.flatten(start_dim=1)
    tiny = torch.finfo(vectors.dtype).tiny
    largest = flat.detach().abs().amax(1, keepdim=True)
    finite = largest.isfinite()
    infinite = torch.where(flat.isinf() & ~largest.isnan(), flat.detach().sign(), 0.0)
    constant = torch.where(finite, flat.detach(), infinite)
    # selected, not multiplied: a slope of zero times an infinite one would not be a number
    flat = torch.where(finite & (largest > negligible(flat.dtype)), flat, constant)
    # the squares of a saturated model's gradients underflow: bring the largest entry to 1 first
    flat = flat / torch.where(finite, largest, 1.0).clamp_min(tiny)
    length: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return (flat / length.clamp_min(tiny)).reshape(vectors.shape)
