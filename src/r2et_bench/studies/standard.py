"""What is measured on a trained model: one function a study, each giving plain numbers and per-sample arrays."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2et import metrics
from r2et.attacks import ATTACKS, Attack, ConstrainedAttack, ERAttack, MSEAttack, WorstCase
from r2et.attacks.constraints import sweep
from r2et.attacks.worst_case import Budget
from r2et.certificates import certify
from r2et.data import Dataset, GraphLayout, ImageLayout
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
from r2et_bench.subject import STUDIES, Outcome, Subject

_FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


@STUDIES.register("prediction")
def predictions(subject: Subject) -> Outcome:
    """AUC (cAUC) and accuracy on the whole test set."""
    x, y = subject.data.test.x, subject.data.test.y
    with evaluating(subject.model), torch.no_grad():
        logits = torch.cat([subject.model(part) for part in x.split(256)])
    return Outcome(
        {
            "auc": metrics.auc(subject.model, x, y),
            "accuracy": float((logits.argmax(1) == y).double().mean()),
            "inputs": len(x),
        }
    )


@STUDIES.register("attacks")
def attacks(
    subject: Subject, rows: int, steps: int | None = None, mse: bool = True, also: Sequence[str] = ()
) -> Outcome:
    """P@k under the paper's two attacks, the prediction kept (Table 1), and under further ones by name."""
    shared = {**subject.attack, **({} if steps is None else {"steps": steps})}
    kinds: list[type[Attack]] = [ERAttack, *([MSEAttack] if mse else [])]
    kinds += [ATTACKS.find(name).thing for name in also]
    found = {
        attack.__name__: attack(**shared)(
            subject.model, subject.inputs(rows), seed=0, chunk_size=subject.chunk_size
        )
        for attack in kinds
    }
    return Outcome(
        {
            **{name: float(result.precision.mean()) for name, result in found.items()},
            **{f"{name} error": _standard_error(result.precision) for name, result in found.items()},
            "inputs": len(subject.inputs(rows)),
        },
        {
            f"{name}.{part}": getattr(result, part)
            for name, result in found.items()
            for part in ("precision", "distance")
        },
    )


@STUDIES.register("sizes")
def sizes(subject: Subject, rows: int, sizes: Sequence[int], steps: int) -> Outcome:
    """P@k under ERAttack for other k (Table 7); the attack is told the k it is judged by."""
    found = {}
    for k in sizes:
        attack = ERAttack(**{**subject.attack, "k": k, "steps": steps})
        result = attack(subject.model, subject.inputs(rows), seed=0, chunk_size=subject.chunk_size)
        found[f"k={k}"] = float(result.precision.mean())
    return Outcome(found)


@STUDIES.register("worst")
def worst(subject: Subject, rows: int, budget: Budget) -> Outcome:
    """P@k under WorstCase at the preset's radius: the number to believe."""
    shared = {name: subject.attack[name] for name in ("k", "radius", "explainer")}
    attack = WorstCase(**shared, budget=budget)
    result = attack(subject.model, subject.inputs(rows), seed=0, chunk_size=subject.chunk_size)
    return Outcome(
        {
            "precision": float(result.precision.mean()),
            "error": _standard_error(result.precision),
            "changed": float((result.precision < 1).double().mean()),
            "recipe": attack.recipe,
            "inputs": len(result.precision),
        },
        {"precision": result.precision, "distance": result.distance},
    )


@STUDIES.register("certified")
def certified(subject: Subject, rows: int) -> Outcome:
    """Certified P@k at the preset's radius and the median certified radius, where a sound method applies."""
    try:
        certificate = certify(
            subject.model, subject.inputs(rows), subject.data.k, explainer=subject.preset.explainer
        )
    except InputError as error:
        return Outcome({"applies": False, "reason": str(error)})
    radius = certificate.radius
    median = float(radius.sort().values[(len(radius) - 1) // 2])
    return Outcome(
        {
            "applies": True,
            "method": certificate.method,
            "precision": float(certificate.precision_at(subject.preset.radius).mean()),
            # JSON has no infinity: a two-class linear model is certified everywhere
            "median radius": median if median < float("inf") else "infinite",
            "inputs": len(radius),
        },
        {"radius": radius, "limits": certificate.limits},
    )


@STUDIES.register("thickness")
def thicknesses(subject: Subject, rows: int, samples: int = 16, steps: int = 8) -> Outcome:
    """Probability thickness among Gaussian neighbours about as far away as the radius (Tables 3 and 5)."""
    x = subject.inputs(rows)
    values = thickness(
        subject.model,
        x,
        subject.data.k,
        explainer=subject.preset.explainer,
        neighbours=GaussianNeighbours(subject.sigma),
        samples=samples,
        steps=steps,
        generator=torch.Generator().manual_seed(0),
    )
    return Outcome({"thickness": float(values.mean()), "sigma": subject.sigma}, {"thickness": values})


@STUDIES.register("last")
def last(subject: Subject, rows: int, steps: int, mse: bool = True) -> Outcome:
    """cAUC, aAUC and sensitivity of attacks that do not watch the prediction, keep="last" (Table 6)."""
    x, y = subject.inputs(rows), subject.data.test.y[:rows]
    values: dict[str, Any] = {"cAUC": metrics.auc(subject.model, x, y), "inputs": len(x)}
    for attack in (ERAttack, MSEAttack) if mse else (ERAttack,):
        result = attack(**{**subject.attack, "steps": steps}, keep="last")(
            subject.model, x, seed=0, chunk_size=subject.chunk_size
        )
        values[attack.__name__] = {
            "aAUC": metrics.adversarial_auc(subject.model, result, y),
            "sensitivity": metrics.sensitivity(result),
            "precision": float(result.precision.mean()),
        }
    return Outcome(values)


@STUDIES.register("explainers")
def explainers(subject: Subject, rows: int, steps: int, also: Sequence[str] = ()) -> Outcome:
    """P@k under ERAttack of SmoothGrad and integrated gradients, of a model trained for another one (Table 2).

    Further explainers have the names that they are asked for by.
    """
    explainer = subject.preset.explainer
    if isinstance(explainer, Activation):
        return Outcome({"reason": "neurons are ranked, not inputs: SmoothGrad and IG explain inputs"})
    shared: dict[str, Any] = {"inputs": explainer.inputs, "reduce": explainer.reduce}
    kinds: dict[str, Explainer] = {
        "SG": SmoothGrad(**shared, sigma=_noise(subject.data)),
        "IG": IntegratedGradients(**shared, baseline=_zero(subject.data)),
        **{name: EXPLAINERS.create(name, **shared) for name in also},
    }
    found: dict[str, Any] = {"inputs": len(subject.inputs(rows))}
    for name, other in kinds.items():
        attack = ERAttack(**{**subject.attack, "steps": steps, "explainer": other})
        # fifty points an input are evaluated together
        chunk = max(1, subject.chunk_size // 50)
        found[name] = float(attack(subject.model, subject.inputs(rows), seed=0, chunk_size=chunk).precision.mean())
    return Outcome(found)


@STUDIES.register("faithfulness")
def faithfulness(subject: Subject, rows: int) -> Outcome:
    """DFFOT, COMP and SUFF (Table 9)."""
    explainer = subject.preset.explainer
    if isinstance(explainer, Activation):
        return Outcome({"reason": "neurons cannot be removed from an input"})
    many = len(subject.data.feature_names) > 200
    return Outcome(
        dict(
            metrics.faithfulness(
                subject.model,
                subject.inputs(rows),
                explainer=explainer,
                fractions=_FRACTIONS if many else None,
            )
        )
    )


@STUDIES.register("regularisers")
def regularisers(subject: Subject, rows: int) -> Outcome:
    """The value of each regulariser on validation inputs, untrained, vanilla and trained: does the weight act?"""
    cell, preset, data = subject.cell, subject.preset, subject.data
    method = find_method(cell.method)
    values = dict(cell.settings)
    objective = method.objective_for(data.k, values, preset.explainer, preset.boundary_pairs, preset.direction)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell.seed)
        untrained = method.network(data.train.x.shape[1:], len(data.class_names), values, preset.architecture)
    models = {"untrained": untrained, "vanilla": subject.vanilla, "trained": subject.model}
    x, y = data.validation.x[:rows], data.validation.y[:rows]
    found: dict[str, Any] = {}
    for name, model in models.items():
        if model is not None:
            with evaluating(model):
                parts = objective.evaluate(model, x, y, torch.Generator().manual_seed(0), step=0).parts
            found[name] = {part: float(value) for part, value in parts.items() if part != "cross-entropy"}
    return Outcome(found)


@STUDIES.register("magnitude")
def magnitude(subject: Subject, rows: int, points: int) -> Outcome:
    """The mean magnitude by rank, in units of the largest (Fig. 8), at so many ranks."""
    scores = subject.preset.explainer(subject.model, subject.inputs(rows)).abs()
    ordered = scores.sort(-1, descending=True).values
    mean = (ordered / ordered[..., :1]).reshape(-1, ordered.shape[-1]).nan_to_num(0.0).mean(0)
    spread = torch.logspace(0, math.log10(len(mean)), points).round().long().unique()
    ranks = torch.arange(1, len(mean) + 1) if len(mean) <= points else spread
    return Outcome(
        {"rank": ranks.tolist(), "magnitude": [float(f"{value:.4g}") for value in mean[ranks - 1].tolist()]}
    )


@STUDIES.register("constrained")
def constrained(subject: Subject, rows: int, steps: int, lengths: Sequence[float]) -> Outcome:
    """P@k and sensitivity of every rule of weights at several step lengths, for both attacks (Fig. 6)."""
    points = []
    for objective in (ERAttack, MSEAttack):
        attack = ConstrainedAttack(**{**subject.attack, "steps": steps}, objective=objective, keep="last")
        for point in sweep(
            attack, subject.model, subject.inputs(rows), list(lengths), seed=0, chunk_size=subject.chunk_size
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
    return Outcome({"points": points, "steps": steps, "inputs": len(subject.inputs(rows))})


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
