"""Does thickness predict how long an attack takes? (Fig. 2 and 4)"""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from r2et.attacks import ERAttack
from r2et.explainers import Activation, Explainer
from r2et.numerics.preflight import measuring
from r2et.scores import prediction, probability
from r2et.stability import AdversarialNeighbours, GaussianNeighbours, thickness
from r2et_bench.studied import STUDIES, Outcome, StudiedModel


@STUDIES.register("correlation")
def correlation(
    studied: StudiedModel, rows: int, steps: int | None = None, flip_below: float = 1.0, samples: int = 32
) -> Outcome:
    """Iterations to the first flip against thickness and Hessian norm, input by input (Fig. 2 and 4).

    Inputs that no iteration flips count as one iteration more than there are.
    """
    x, k = studied.inputs(rows), studied.data.k
    shared = {**studied.attack, **({} if steps is None else {"steps": steps})}
    attack = ERAttack(**shared, flip_below=flip_below)
    result = attack(studied.model, x, seed=0, chunk_size=studied.chunk_size)
    first = torch.where(result.first_flip < 0, attack.steps + 1, result.first_flip).double()

    def measured(neighbours: Any) -> Tensor:
        return thickness(
            studied.model,
            x,
            k,
            explainer=studied.preset.explainer,
            neighbours=neighbours,
            samples=samples,
            generator=torch.Generator().manual_seed(0),
        ).double()

    measures = {
        "thickness, adversarial": measured(AdversarialNeighbours(replace(attack, keep="last"))),
        "thickness, Gaussian mean": measured(GaussianNeighbours(studied.sigma)),
        "thickness, Gaussian minimum": measured(GaussianNeighbours(studied.sigma, aggregate="minimum")),
        "Hessian norm": hessian_norm(studied.model, x, studied.preset.explainer, samples).double(),
    }
    return Outcome(
        {
            "pearson": {name: _correlation("pearson", first, value) for name, value in measures.items()},
            "spearman": {name: _correlation("spearman", first, value) for name, value in measures.items()},
            "never flipped": float((result.first_flip < 0).double().mean()),
            "iterations": attack.steps,
            "points": {
                "first flip": [int(value) for value in first.tolist()],
                **{name: [float(f"{v:.5g}") for v in value.tolist()] for name, value in measures.items()},
            },
        }
    )


def hessian_norm(model: nn.Module, x: Tensor, explainer: Explainer, samples: int = 32) -> Tensor:
    """The Frobenius norm of the Hessian of the predicted class's probability at each input, (N,).

    Estimated from E ||H z||^2 = ||H||^2 for Gaussian z, by `samples` Hessian-vector products: an exact Hessian of
    an image does not fit. For an explanation of neurons it is the Jacobian of their activations that is measured.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        explainer: decides between the two.
        samples: how many random directions.

    >>> from r2et.explainers import Gradient
    >>> model = nn.Linear(3, 2)
    >>> hessian_norm(model, torch.zeros(2, 3), Gradient()).shape
    torch.Size([2])
    """
    point = x.detach().clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    with measuring(model, x), torch.enable_grad():
        target = prediction(model, x)
        if isinstance(explainer, Activation):
            slope = explainer.attribute(model, point, target, create_graph=True)
        else:
            slope = torch.autograd.grad(probability(model(point), target).sum(), point, create_graph=True)[0]
        total = x.new_zeros(len(x))
        for _ in range(samples):
            direction = torch.randn(slope.shape, generator=generator).to(slope)
            part = None
            if slope.requires_grad:
                part = torch.autograd.grad(slope, point, direction, retain_graph=True, allow_unused=True)[0]
            if part is not None:
                total += part.detach().flatten(1).square().sum(1)
    return (total / samples).sqrt()


def _correlation(kind: Literal["pearson", "spearman"], a: Tensor, b: Tensor) -> float | None:
    """Pearson's or Spearman's coefficient of two series (N,); None where one of them does not vary."""
    from scipy import stats

    if any(bool((values == values[0]).all()) for values in (a, b)):
        return None
    compare = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[kind]
    return float(compare(a.numpy(), b.numpy()).statistic)
