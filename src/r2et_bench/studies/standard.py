"""What is measured on a trained model: one function per study, each giving plain numbers and per-sample arrays."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from r2et import metrics
from r2et.attacks import ATTACKS, Attack, ConstrainedAttack, ERAttack, MSEAttack, WorstCase
from r2et.attacks.constraints import sweep
from r2et.attacks.worst_case import Budget
from r2et.certificates import certify
from r2et.data import Dataset, GraphLayout, ImageLayout
from r2et.domain import Threat
from r2et.errors import InputError
from r2et.explainers import (
    EXPLAINERS,
    Activation,
    Explainer,
    IntegratedGradients,
    SmoothGrad,
)
from r2et.numerics.modes import evaluating
from r2et.recipes import find_method
from r2et.stability import GaussianNeighbours, thickness
from r2et_bench.own_lists import list_figures
from r2et_bench.studied import STUDIES, Outcome, StudiedModel

_FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


@STUDIES.register("prediction")
def predictions(studied: StudiedModel) -> Outcome:
    """AUC (cAUC) and accuracy on the whole test set."""
    x, y = studied.data.test.x, studied.data.test.y
    with evaluating(studied.model), torch.no_grad():
        logits = torch.cat([studied.model(part) for part in x.split(256)])
    return Outcome(
        {
            "auc": metrics.auc(studied.model, x, y),
            "accuracy": float((logits.argmax(1) == y).double().mean()),
            "inputs": len(x),
        }
    )


@STUDIES.register("attacks")
def attacks(
    studied: StudiedModel,
    rows: int,
    *,
    steps: int | None = None,
    mse: bool = True,
    also: Sequence[str] = (),
    threat: Threat = "paper",
) -> Outcome:
    """P@k under the paper's two attacks, the prediction kept (Table 1), and under further ones by name."""
    shared = {**studied.attack, **({} if steps is None else {"steps": steps})}
    kinds: list[type[Attack]] = [ERAttack, *([MSEAttack] if mse else [])]
    kinds += [ATTACKS.find(name).thing for name in also]
    results = {
        attack.__name__: attack(**shared)(
            studied.model, studied.inputs(rows), seed=0, chunk_size=studied.chunk_size, **studied.known(threat)
        )
        for attack in kinds
    }
    return Outcome(
        {
            **{name: float(result.precision.mean()) for name, result in results.items()},
            **{f"{name} error": _standard_error(result.precision) for name, result in results.items()},
            "inputs": len(studied.inputs(rows)),
        },
        {
            f"{name}.{part}": getattr(result, part)
            for name, result in results.items()
            for part in ("precision", "distance")
        },
    )


@STUDIES.register("sizes")
def sizes(studied: StudiedModel, rows: int, sizes: Sequence[int], steps: int) -> Outcome:
    """P@k under ERAttack for other k (Table 7); the attack is told the k it is judged by."""
    figures = {}
    for k in sizes:
        attack = ERAttack(**{**studied.attack, "k": k, "steps": steps})
        result = attack(studied.model, studied.inputs(rows), seed=0, chunk_size=studied.chunk_size)
        figures[f"k={k}"] = float(result.precision.mean())
    return Outcome(figures)


@STUDIES.register("worst")
def worst(
    studied: StudiedModel, rows: int, budget: Budget, *, threat: Threat = "paper", version: Literal[1, 2] = 1
) -> Outcome:
    """P@k under WorstCase at the preset's radius; all records so far are of version 1 under the paper's threat."""
    shared = {name: studied.attack[name] for name in ("k", "radius", "explainer")}
    attack = WorstCase(**shared, budget=budget, version=version)
    known = studied.known(threat)
    result = attack(studied.model, studied.inputs(rows), seed=0, chunk_size=studied.chunk_size, **known)
    return Outcome(
        {
            "precision": float(result.precision.mean()),
            "error": _standard_error(result.precision),
            "changed": float((result.precision < 1).double().mean()),
            "recipe": attack.recipe,
            "threat": threat,
            "individuality": list_figures(studied, result.precision, threat),
            "inputs": len(result.precision),
        },
        {"precision": result.precision, "distance": result.distance},
    )


@STUDIES.register("certified")
def certified(studied: StudiedModel, rows: int, *, threat: Threat = "paper") -> Outcome:
    """Certified P@k at the preset's radius and the median certified radius, where a sound method applies."""
    try:
        certificate = certify(
            studied.model,
            studied.inputs(rows),
            studied.data.k,
            explainer=studied.preset.explainer,
            **studied.known(threat),
        )
    except InputError as error:
        return Outcome({"applies": False, "reason": str(error)})
    radius, proven = certificate.radius, certificate.precision_at(studied.preset.radius)
    median = float(radius.sort().values[(len(radius) - 1) // 2])
    return Outcome(
        {
            "applies": True,
            "method": certificate.method,
            "precision": float(proven.mean()),
            "threat": threat,
            "individuality": list_figures(studied, proven, threat),
            # JSON has no infinity: a two-class linear model is certified everywhere
            "median radius": median if median < float("inf") else "infinite",
            "inputs": len(radius),
        },
        {"radius": radius, "limits": certificate.limits},
    )


@STUDIES.register("thickness")
def thicknesses(
    studied: StudiedModel, rows: int, samples: int = 16, steps: int = 8, *, threat: Threat = "paper"
) -> Outcome:
    """Probability thickness among Gaussian neighbours about as far away as the radius (Tables 3 and 5)."""
    x = studied.inputs(rows)
    values = thickness(
        studied.model,
        x,
        studied.data.k,
        explainer=studied.preset.explainer,
        neighbours=GaussianNeighbours(studied.sigma),
        samples=samples,
        steps=steps,
        generator=torch.Generator().manual_seed(0),
        **studied.known(threat),
    )
    return Outcome({"thickness": float(values.mean()), "sigma": studied.sigma}, {"thickness": values})


@STUDIES.register("last")
def last(studied: StudiedModel, rows: int, *, steps: int, mse: bool = True) -> Outcome:
    """cAUC, aAUC and sensitivity of attacks that do not watch the prediction, keep="last" (Table 6)."""
    x, y = studied.inputs(rows), studied.data.test.y[:rows]
    values: dict[str, Any] = {"cAUC": metrics.auc(studied.model, x, y), "inputs": len(x)}
    for attack in (ERAttack, MSEAttack) if mse else (ERAttack,):
        result = attack(**{**studied.attack, "steps": steps}, keep="last")(
            studied.model, x, seed=0, chunk_size=studied.chunk_size
        )
        values[attack.__name__] = {
            "aAUC": metrics.adversarial_auc(studied.model, result, y),
            "sensitivity": metrics.sensitivity(result),
            "precision": float(result.precision.mean()),
        }
    return Outcome(values)


@STUDIES.register("explainers")
def explainers(studied: StudiedModel, rows: int, steps: int, also: Sequence[str] = ()) -> Outcome:
    """P@k under ERAttack of SmoothGrad and integrated gradients, of a model trained for another one (Table 2).

    Further explainers have the names that they are asked for by.
    """
    explainer = studied.preset.explainer
    if isinstance(explainer, Activation):
        return Outcome({"reason": "neurons are ranked, not inputs: SmoothGrad and IG explain inputs"})
    shared: dict[str, Any] = {"inputs": explainer.inputs, "reduce": explainer.reduce}
    kinds: dict[str, Explainer] = {
        "SG": SmoothGrad(**shared, sigma=_noise(studied.data)),
        "IG": IntegratedGradients(**shared, baseline=_zero(studied.data)),
        **{name: EXPLAINERS.create(name, **shared) for name in also},
    }
    figures: dict[str, Any] = {"inputs": len(studied.inputs(rows))}
    for name, other in kinds.items():
        attack = ERAttack(**{**studied.attack, "steps": steps, "explainer": other})
        # fifty points per input are evaluated together
        chunk = max(1, studied.chunk_size // 50)
        figures[name] = float(
            attack(studied.model, studied.inputs(rows), seed=0, chunk_size=chunk).precision.mean()
        )
    return Outcome(figures)


@STUDIES.register("faithfulness")
def faithfulness(studied: StudiedModel, rows: int) -> Outcome:
    """DFFOT, COMP and SUFF (Table 9)."""
    explainer = studied.preset.explainer
    if isinstance(explainer, Activation):
        return Outcome({"reason": "neurons cannot be removed from an input"})
    many = len(studied.data.feature_names) > 200
    return Outcome(
        dict(
            metrics.faithfulness(
                studied.model,
                studied.inputs(rows),
                explainer=explainer,
                fractions=_FRACTIONS if many else None,
            )
        )
    )


@STUDIES.register("regularisers")
def regularisers(studied: StudiedModel, rows: int) -> Outcome:
    """The value of each regulariser on validation inputs, untrained, vanilla and trained: does the weight act?"""
    cell, preset, data = studied.cell, studied.preset, studied.data
    method = find_method(cell.method)
    values = dict(cell.settings)
    objective = method.objective_for(data.k, values, preset.explainer, preset.boundary_pairs, preset.direction)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        untrained = method.network(data.train.x.shape[1:], len(data.class_names), values, preset.architecture)
    models = {"untrained": untrained, "vanilla": studied.vanilla, "trained": studied.model}
    x, y = data.validation.x[:rows], data.validation.y[:rows]
    figures: dict[str, Any] = {}
    for name, model in models.items():
        if model is not None:
            with evaluating(model):
                generator = torch.Generator().manual_seed(0)
                parts = objective.evaluate(model, x, y, generator=generator, step=0).parts
            figures[name] = {part: float(value) for part, value in parts.items() if part != "cross-entropy"}
    return Outcome(figures)


@STUDIES.register("magnitude")
def magnitude(studied: StudiedModel, rows: int, points: int) -> Outcome:
    """The mean magnitude by rank, in units of the largest (Fig. 8), at this many ranks."""
    scores = studied.preset.explainer(studied.model, studied.inputs(rows)).abs()
    ordered = scores.sort(-1, descending=True).values
    mean = (ordered / ordered[..., :1]).reshape(-1, ordered.shape[-1]).nan_to_num(0.0).mean(0)
    spread = torch.logspace(0, math.log10(len(mean)), points).round().long().unique()
    ranks = torch.arange(1, len(mean) + 1) if len(mean) <= points else spread
    return Outcome(
        {"rank": ranks.tolist(), "magnitude": [float(f"{value:.4g}") for value in mean[ranks - 1].tolist()]}
    )


@STUDIES.register("constrained")
def constrained(studied: StudiedModel, rows: int, steps: int, lengths: Sequence[float]) -> Outcome:
    """P@k and sensitivity of every rule of weights at several step lengths, for both attacks (Fig. 6)."""
    points = []
    for objective in (ERAttack, MSEAttack):
        attack = ConstrainedAttack(**{**studied.attack, "steps": steps}, objective=objective, keep="last")
        for point in sweep(
            attack, studied.model, studied.inputs(rows), list(lengths), seed=0, chunk_size=studied.chunk_size
        ):
            points.append(
                {
                    "attack": objective.__name__,
                    "weights": point.weights,
                    "step": point.step,
                    "precision": point.precision,
                    "sensitivity": point.sensitivity,
                }
            )
    return Outcome({"points": points, "steps": steps, "inputs": len(studied.inputs(rows))})


def _noise(data: Dataset) -> float:
    """The standard deviation of SmoothGrad's noise: a tenth of the value range of images, 0.1 of graphs."""
    if isinstance(data.layout, ImageLayout):
        return 0.1 / float(torch.tensor(data.layout.std).mean())
    return 0.1 if isinstance(data.layout, GraphLayout) else 0.5**0.5


def _zero(data: Dataset) -> float | Tensor:
    """The raw zero in scaled units for images, whose zero is the mean; tables and graphs start from their zero."""
    if not isinstance(data.layout, ImageLayout):
        return 0.0
    black = -torch.tensor(data.layout.mean) / torch.tensor(data.layout.std)
    return black[:, None, None].expand(data.train.x.shape[1:]).clone()


def _standard_error(values: Tensor) -> float:
    return float(values.double().std() / len(values) ** 0.5) if len(values) > 1 else 0.0
