"""The base class of explainers: checks, shapes and reduction; a subclass writes `attribute`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.domain import Domain, under_threat
from r2et.errors import InputError
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_differentiable, check_inputs, check_logits, no_gradient
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.values import check_choice, check_k, is_whole, plain_numbers, quoted
from r2et.registry import Registry
from r2et.scores import Score, check_score, checked_target, score

Reduce = Literal["abs", "signed", "abs-sum"]


class Explained(NamedTuple):
    """A batch and its explanation, of one pass: logits (N, C), explained class (N,), scores (N, ..., n)."""

    logits: Tensor
    target: Tensor
    scores: Tensor


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
    #: differ by one positive number per sample
    pointwise: ClassVar[bool] = False

    @property
    def positive(self) -> bool:
        """Whether a list names only what scores above 0, at most k of it: see `r2et.ranking.list_mask`."""
        return False

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_choice("reduce", self.reduce, get_args(Reduce))
        check_score(self.score)
        if not is_whole(self.inputs) or self.inputs not in (1, 2):
            raise InputError(f"inputs must be 1 or 2, got {quoted(self.inputs)}")

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor | None = None,
        *,
        create_graph: bool = False,
        domain: Domain | None = None,
    ) -> Tensor:
        """Explain a batch.

        Args:
            model: maps (N, *features) to logits (N, C); it is explained in evaluation mode and left as it was.
            x: (N, *features), or (N, 2, *features) with `inputs=2`.
            target: the class that is explained, int64 (N,); None = the predicted class.
            create_graph: keep the result differentiable with respect to the parameters, and to x if it
                requires gradients.
            domain: the inputs that exist; None = that is unknown. Where it has one-hot groups, the model is
                explained without its gauge: what it does off their sums counts for nothing
                (`r2et.domain.without_gauge`).

        Returns:
            (N, n), or (N, 2, n) with `inputs=2`.
        """
        return self.explained(model, x, target, create_graph=create_graph, domain=domain).scores

    def explained(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor | None = None,
        *,
        create_graph: bool = False,
        domain: Domain | None = None,
    ) -> Explained:
        """What a call gives, with the logits and the class that it is about, of one pass; arguments as there."""
        check_inputs(x)
        self.check_shape(x)
        check_module(model)
        model, _ = under_threat(model, x, domain, None, inputs=self.inputs)
        with measuring(model, x), torch.enable_grad():
            point, logits = forward(model, x, create_graph=create_graph)
            check_logits(logits, len(x))
            target = checked_target(target, logits)
            scores = self.flatten(self.attribute(model, point, target, create_graph=create_graph, logits=logits))
        return Explained(logits, target, scores if create_graph else scores.detach())

    @abstractmethod
    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
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

    def ranked(self, scores: Tensor, k: int) -> Tensor:
        """Scores (N, ..., n) whose top k is the list: with k empty places in front where it may have fewer names.

        See `r2et.ranking.with_blanks`; the column i is at k + i then.
        """
        return ranking.with_blanks(scores, k) if self.positive else scores

    def check_k(self, k: int, n: int) -> None:
        """Raise unless lists of at most k of n features can differ: all n, too, where a list may have fewer."""
        check_k(k, n + 1 if self.positive and is_whole(k) and k == n else n)

    def check_shape(self, x: Tensor) -> None:
        """Raise unless x fits `inputs` and `reduce`."""
        if self.inputs == 2 and (x.ndim < 3 or x.shape[1] != 2):
            raise InputError(f"inputs=2 needs pairs of shape (N, 2, *features), got {tuple(x.shape)}")
        if self.reduce == "abs-sum" and x.ndim < self.inputs + 2:
            raise InputError(f"reduce='abs-sum' needs a channel axis, got inputs of shape {tuple(x.shape)}")

    def within(self, points: Tensor, x: Tensor) -> Tensor:
        """Points around inputs, both (..., *features), with what cannot vary continuously as it is in x."""
        return points

    def refuse_moves(self, movable: Tensor) -> None:  # noqa: B027 - most are about every input
        """Raise if the explanation is not about inputs in which these features move, bool (n,)."""

    def in_units(self, scale: Tensor) -> "Explainer":
        """What explains the model f(z * scale) at z = x / scale as this explains f at x.

        Args:
            scale: one unit of each feature, (*features), as `r2et.domain.in_plausible_units` has it.
        """
        raise InputError(
            f"{type(self).__name__} depends on the units of the inputs, and has no form for others: use gradient, "
            "gradient-times-input, column-effects or contributions"
        )

    def gradient(
        self, model: nn.Module, x: Tensor, target: Tensor, *, create_graph: bool, logits: Tensor | None
    ) -> Tensor:
        """The gradient of the score at x, in the shape of x."""
        logits = model(x) if logits is None else logits
        check_differentiable(logits)
        value = score(self.score, logits, target).sum()
        gradient: Tensor | None = torch.autograd.grad(value, x, create_graph=create_graph, allow_unused=True)[0]
        if gradient is None:
            raise no_gradient()
        return gradient


EXPLAINERS: Registry[type[Explainer]] = Registry(
    "explainer", "r2et.explainers", package="r2et.explainers", base=Explainer
)
