"""Is a stable model stable, or do attacks only fail to see where to go? Other ways to look for a change."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from r2et.attacks import BoundaryAttack, WorstCase
from r2et.attacks.worst_case import Budget
from r2et.numerics.autograd import unit
from r2et.ranking import precision_at_k
from r2et.scores import predicted_class, prediction
from r2et_bench.studied import STUDIES, Outcome, StudiedModel

#: softplus sharpness of the copies whose perturbations are carried over
SOFTER = (0.3, 1.0, 2.0)


@STUDIES.register("masking")
def masking(studied: StudiedModel, rows: int, directions: int = 5000, budget: Budget = "thorough") -> Outcome:
    """P@k under searches that do not follow the model's own slope at the input, all at the full radius.

    WorstCase with a large budget; random directions; the straight way to training inputs; perturbations found
    on copies with a softer softplus. If one of them did much worse than WorstCase, its slopes would mislead.
    """
    x, k = studied.inputs(rows), studied.data.k
    shared = {name: studied.attack[name] for name in ("k", "radius", "explainer")}
    generator = torch.Generator().manual_seed(0)
    random = unit(torch.randn(directions, *x.shape[1:], generator=generator))
    others = studied.data.train.x[:directions]
    attacked = WorstCase(**shared, budget=budget, version=1)(studied.model, x, seed=1)
    figures = {
        f"WorstCase {budget}": float(attacked.precision.mean()),
        "random directions": float(_worst(studied, x, lambda row: random).mean()),
        "towards training inputs": float(_worst(studied, x, lambda row: unit(others - row)).mean()),
    }
    carried = torch.ones(len(x))
    for beta in SOFTER:
        moved = BoundaryAttack(**shared, steps=200, restarts=3)(_softer(studied.model, beta), x, seed=0).x
        carried = torch.minimum(carried, _precision(studied, x, moved, k))
    return Outcome({**figures, "carried over from softer copies": float(carried.mean()), "inputs": len(x)})


def _worst(studied: StudiedModel, x: Tensor, directions: Callable[[Tensor], Tensor]) -> Tensor:
    """The lowest P@k of each row of x (N, *features) over directions (M, *features) from it, (N,)."""
    worst = []
    for row in x:
        moved = row + studied.preset.radius * directions(row)
        worst.append(_precision(studied, row.expand_as(moved), moved, studied.data.k).min())
    return torch.stack(worst)


def _precision(studied: StudiedModel, x: Tensor, moved: Tensor, k: int) -> Tensor:
    """P@k of moved inputs (N, *features) against x, 1 where the prediction changed, (N,)."""
    target = prediction(studied.model, x)
    explainer = studied.preset.explainer
    precision = precision_at_k(explainer(studied.model, x, target), explainer(studied.model, moved, target), k)
    with torch.no_grad():
        kept = predicted_class(studied.model(moved)) == target
    return torch.where(kept, precision, 1.0)


def _softer(model: nn.Module, beta: float) -> nn.Module:
    copied = copy.deepcopy(model)
    for layer in copied.modules():
        if isinstance(layer, nn.Softplus):
            layer.beta = beta
    return copied
