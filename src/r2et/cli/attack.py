"""`r2et attack`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et.cli.common import Limit, interactive, print_json, print_table
from r2et.cli.subject import SubjectOptions, takes_subject
from r2et.files.writing import check_writable, writing
from r2et.numerics.values import check_choice

if TYPE_CHECKING:
    from r2et.attacks import Attack

#: what `--attack all` leaves out: it solves a cone program for each input and step
SLOW = ("trust-region",)
#: the paper's own attacks, whose steps are in its presets
PAPER = ("er", "mse")
NAMES = ("noise", "er", "mse", "constrained", "boundary", "minimal", "worst-case", *SLOW)


@takes_subject
def attack(
    options: SubjectOptions,
    name: Annotated[str, typer.Option("--attack", help=f"{', '.join(NAMES)}, or all.")] = "all",
    radius: Annotated[
        float | None, typer.Option(help="Budget in the units of the scaled inputs; the training's preset, or 1.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations; the attack's own number by default.")] = None,
    norm: Annotated[str, typer.Option(help="Norm of the budget: l2 or linf.")] = "l2",
    keep: Annotated[str, typer.Option(help="best: keeps the prediction; last: the last iterate.")] = "best",
    budget: Annotated[str, typer.Option(help="Effort of worst-case: fast, standard or thorough.")] = "standard",
    weighting: Annotated[str, typer.Option(help="Of constrained: none, fixed, gda, hedge or qp.")] = "qp",
    limit: Limit = 1000,
    within_domain: Annotated[
        bool,
        typer.Option("--within-domain", help="Stay inside the data's bounds and leave one-hot features alone."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write perturbed inputs and explanations (.npz).")
    ] = None,
) -> None:
    """Attack the explanations of a model.

    The explanation is the one the model was trained for, else the gradient. Believe worst-case: it is
    the strongest for each input. trust-region is slow and runs only by name.

    Example: r2et attack runs/adult-r2et --attack worst-case --radius 0.3
    """
    from r2et import metrics

    check_choice("attack", name, [*NAMES, "all"])
    if output is not None:
        check_writable(output)
    subject = options.subject(limit)
    model, x, y = subject.model, subject.x, subject.y
    k = subject.k if options.k is None else options.k
    several = len(y.unique()) > 1
    radius = float(subject.preset.get("radius", 1.0)) if radius is None else radius
    shared: dict[str, Any] = {"k": k, "radius": radius, "norm": norm, "keep": keep, "explainer": subject.explainer}
    wanted = [short for short in NAMES if short not in SLOW] if name == "all" else [name]
    if name == "all" and (norm, keep) != ("l2", "best"):
        # these two are defined by an L2 norm and by keeping the prediction
        wanted = [short for short in wanted if short not in ("minimal", "worst-case")]
    planned = {
        short: subject.preset.get("steps") if short in PAPER and steps is None else steps for short in wanted
    }
    chosen = {
        short: _build(short, shared if count is None else {**shared, "steps": count}, budget, weighting)
        for short, count in planned.items()
    }
    found: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {"x": x.numpy(), "y": y.numpy()}
    for short, member in chosen.items():
        started = time.perf_counter()
        result = member(
            model,
            x,
            domain=subject.domain if within_domain else None,
            seed=options.seed,
            chunk_size=subject.rows_at_once,
            progress=interactive(options.as_json),
        )
        found.append(
            {
                "attack": type(member).__name__,
                "settings": repr(member),
                "k": k,
                "radius": radius,
                "steps": member.steps,
                "keep": keep,
                "rows": len(x),
                "precision": float(result.precision.mean()),
                "displaced": float(metrics.displaced(result, k).mean()),
                "sensitivity": metrics.sensitivity(result),
                "distance": float(result.distance.mean()),
                # an AUC needs both classes
                "clean_auc": metrics.auc(model, x, y) if several else None,
                "adversarial_auc": metrics.adversarial_auc(model, result, y) if several else None,
                "seconds": time.perf_counter() - started,
            }
        )
        arrays |= {
            f"{short}_{field}": getattr(result, field).numpy()
            for field in ("x", "precision", "kept", "distance", "first_flip", "before", "after")
        }
    if output is not None:
        import numpy as np

        with writing(output) as file:
            np.savez_compressed(file, **arrays)
    if options.as_json:
        print_json({"model": options.model, "data": subject.data, "notes": list(subject.notes), "attacks": found})
        return
    columns = ["attack", f"P@{k}", "displaced", "sensitivity", "distance", "seconds"]
    rows = [
        [
            row["attack"],
            f"{100 * row['precision']:.1f}",
            f"{row['displaced']:.2f} of {k}",
            f"{row['sensitivity']:.1%}",
            f"{row['distance']:.3f}",
            f"{row['seconds']:.1f}",
        ]
        for row in found
    ]
    print_table(f"{subject.data}, {subject.rows}, radius {radius:g}", columns, rows)


def _build(short: str, shared: dict[str, Any], budget: str, weights: str) -> "Attack":
    from r2et import attacks

    if short == "worst-case":
        # its recipe fixes the steps
        given = {name: value for name, value in shared.items() if name != "steps"}
        return attacks.WorstCase(**given, budget=budget)  # type: ignore[arg-type]  # it checks
    if short == "constrained":
        return attacks.ConstrainedAttack(**shared, weights=weights)  # type: ignore[arg-type]  # it checks
    kinds: dict[str, type[Attack]] = {
        "noise": attacks.NoiseAttack,
        "er": attacks.ERAttack,
        "mse": attacks.MSEAttack,
        "boundary": attacks.BoundaryAttack,
        "minimal": attacks.MinimalFlip,
        "trust-region": attacks.TrustRegion,
    }
    return kinds[short](**shared)
