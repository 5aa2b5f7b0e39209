"""Objectives that add weighted regularisers of the explanation to the classification loss."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import forward, negligible
from r2et.numerics.modes import evaluating
from r2et.numerics.values import check_flag, check_kind
from r2et.objectives.explained_batch import ExplainedBatch
from r2et.objectives.objective import Loss, classification_loss
from r2et.objectives.threatened import Threatened


@dataclass(frozen=True)
class Term:
    """One regulariser: its mean over the batch, and the weight it enters the loss with (negative: maximised)."""

    value: Tensor
    weight: float


@dataclass(frozen=True, kw_only=True)
class Regularised(Threatened):
    """Cross-entropy plus weighted regularisers of the explanation.

    Args:
        explainer: whose explanation is regularised; None = the objective's own default.
        adaptive: weigh each regulariser by (cross-entropy + 1) / |its value|, both held constant, as the
            paper's published code does. Singular where a regulariser vanishes; off by default.
        domain: what exists, so that the explanation of the model without its gauge is regularised.
        threat: what may move: directions of differences, neighbours and slopes stay within it. Bounds and whole
            steps hold for neighbours alone; a derivative knows none.
    """

    explainer: Explainer | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.explainer is not None:
            check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        check_flag("adaptive", self.adaptive)

    @abstractmethod
    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """The regularisers of one batch, by name."""

    def default_explainer(self) -> Explainer:
        """The paper regularises the gradient of the probability."""
        return Gradient(score="probability")

    @property
    def explained_by(self) -> Explainer:
        """The one that was chosen, or the objective's own."""
        return self.default_explainer() if self.explainer is None else self.explainer

    def batch(self, model: nn.Module, x: Tensor, *, generator: torch.Generator | None) -> ExplainedBatch:
        """What the regularisers of a step share, from one forward pass in the mode that the model is in."""
        measured, reach = self.measured(model, x)
        point, logits = forward(measured, x)
        return ExplainedBatch(
            measured, point, logits, explainer=self.explained_by, generator=generator, reach=reach
        )

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
        """Cross-entropy and regularisers from one forward pass, where the model's layers allow that."""
        if not self.active(step):
            return classification_loss(model(x), y, weights=weights)
        batch = self.batch(model, x, generator=generator)
        plain = classification_loss(batch.logits, y, weights=weights)
        total, parts = plain.total, dict(plain.parts)
        with evaluation_mode(model) as changed:
            if changed:
                batch = self.batch(model, x, generator=generator)
            for name, term in self.terms(batch).items():
                weight: Tensor | float = term.weight
                if self.adaptive:
                    tiny, most = torch.finfo(x.dtype).tiny, 1 / negligible(x.dtype)
                    weight = weight * (plain.total.detach() + 1) / term.value.detach().abs().clamp_min(tiny)
                    # an infinite weight of a regulariser that vanishes would not be a number
                    weight = weight.clamp(-most, most)
                total = total + weight * term.value
                parts[name] = term.value.detach()
        return Loss(total, parts)


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


def check_reference(reference: nn.Module | None) -> None:
    """The model whose ranking is kept: a module, or None."""
    if reference is not None:
        check_kind("reference", reference, nn.Module, "a trained torch.nn.Module")
