"""The regularisers of an objective without its cross-entropy: to be added to a loss that is already there."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.numerics.attention import math_attention
from r2et.numerics.preflight import foreign_errors
from r2et.objectives import Objective, Regularised
from r2et.objectives.objective import check_call
from r2et.objectives.regularised import evaluation_mode


@dataclass(frozen=True)
class Penalty:
    """What to add to a loss.

    Attributes:
        total: a scalar, connected to the parameters of the model; zero in a step that is not regularised.
        parts: each regulariser, unweighted and detached.
    """

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)


def penalty(
    objective: Objective,
    model: nn.Module,
    x: Tensor,
    *,
    generator: torch.Generator | None = None,
    step: int | None = None,
) -> Penalty:
    """The weighted regularisers of one batch.

    `F.cross_entropy(model(x), y) + penalty(objective, model, x).total` has the gradient of
    `objective(model, x, y)`. Attention runs by the math kernel, the only one that can be differentiated twice.

    Args:
        objective: R2ET, EstimatedHessian, ExactHessian, SSR, CertifiedRadius or DirectThickness.
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        generator: of random directions and neighbours.
        step: the number of the training step, for objectives that regularise every few steps.

    >>> from r2et.objectives import R2ET
    >>> model = nn.Sequential(nn.Linear(9, 8), nn.Softplus(), nn.Linear(8, 2))
    >>> added = penalty(R2ET(k=3), model, torch.randn(16, 9))
    >>> added.total.backward()
    >>> sorted(added.parts)
    ['curvature', 'gap']
    """
    regularised = check_regularised(objective)
    check_call(model, x, generator=generator, step=step)
    objective.check_rows(x)
    if not objective.active(step):
        return Penalty(x.new_zeros(()))
    with evaluation_mode(model), math_attention():
        # what the model's own code raises is said in a sentence
        with foreign_errors(model, x):
            batch = regularised.batch(model, x, generator=generator)
        terms = regularised.terms(batch)
    total = torch.stack([term.weight * term.value for term in terms.values()] or [x.new_zeros(())]).sum()
    return Penalty(total, {name: term.value.detach() for name, term in terms.items()})


def check_regularised(objective: Objective) -> Regularised:
    """The objective, if it is made of regularisers that can be added to another loss."""
    if not isinstance(objective, Regularised):
        raise InputError(
            f"{type(objective).__name__} is not a sum of a classification loss and regularisers: call "
            "objective(model, x, y) as the loss itself"
        )
    if objective.adaptive:
        raise InputError("adaptive=True weighs by the objective's own cross-entropy: use adaptive=False here")
    return objective
