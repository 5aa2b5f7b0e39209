"""What the regularisers of one step share: one forward pass, its explanation, and finite differences of it."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from r2et.domain import Reach, WithoutGauge
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import derivative, forward, unit
from r2et.scores import predicted_class, score

Direction = Literal["gradient", "random", "adversarial"]
#: how far the random step goes that an adversarial direction is looked for from, as a share of the difference
PROBE = 1 / 3


@dataclass
class ExplainedBatch:
    """What the regularisers of one step share.

    Attributes:
        model: the model in evaluation mode, without its gauge if the threat respects categories.
        x: (N, *features), requires gradients.
        logits: the model's output there (N, C).
        explainer: whose explanation is regularised.
        generator: of random directions.
        reach: what may move; None = everything.
    """

    model: nn.Module
    x: Tensor
    logits: Tensor
    _: KW_ONLY
    explainer: Explainer
    generator: torch.Generator | None
    reach: Reach | None = None

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
        if isinstance(self.model, WithoutGauge):
            reference = self.model.around(reference)
        point, logits = forward(reference, self.x)
        return self.explainer.flatten(
            self.explainer.attribute(reference, point, self.target, create_graph=False, logits=logits).detach()
        )

    def directions(self, kind: Direction, rows: int, *, size: float, scale_free: bool) -> Tensor:
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
            drawn = self._allowed(drawn)
            if kind == "adversarial":
                moved = (self.x[:rows].detach() + PROBE * size * unit(drawn)).requires_grad_()
                there = self.explainer.attribute(
                    self.model, moved, self.target[:rows], create_graph=True, logits=self.model(moved)
                )
                here = self.attributions[:rows].detach()
                apart = unit(there) - unit(here) if scale_free else there - here
                steepest = self._allowed(derivative(apart.square().sum(), moved))
                # where nothing bends, any direction will do
                flat = steepest.flatten(start_dim=1).norm(dim=1) == 0
                drawn = torch.where(flat.reshape(-1, *[1] * (drawn.ndim - 1)), drawn, steepest)
        elif isinstance(self.explainer, Gradient):
            drawn = self._allowed(self.attributions[:rows].detach())
        else:
            value = score("log-odds", self.logits, self.target).sum()
            drawn = self._allowed(derivative(value, self.x, retain_graph=True)[:rows])
        return unit(drawn)

    def _allowed(self, directions: Tensor) -> Tensor:
        """Directions (rows, *features) without what cannot vary continuously in this explanation, within reach."""
        directions = self.explainer.within(directions, torch.zeros_like(directions))
        return self.along_reach(directions.flatten(start_dim=1)).reshape(directions.shape)

    def along_reach(self, slopes: Tensor) -> Tensor:
        """The part of slopes by the flattened input (..., d) along what may move."""
        if self.reach is None or self.reach.all_movable:
            return slopes
        return self.reach.allowed(slopes.unflatten(-1, (-1, len(self.reach.movable)))).flatten(start_dim=-2)

    def difference_quotient(
        self, kind: Direction, *, size: float, fraction: float = 1.0, scale_free: bool = False
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
        directions = self.directions(kind, rows, size=size, scale_free=scale_free)
        moved = (self.x[:rows].detach() + size * directions).requires_grad_()
        there = self.explainer.attribute(
            self.model, moved, self.target[:rows], create_graph=True, logits=self.model(moved)
        )
        if scale_free:
            here, there = unit(here), unit(there)
        quotient: Tensor = torch.linalg.vector_norm(((there - here) / size).flatten(start_dim=1), dim=1)
        return quotient
