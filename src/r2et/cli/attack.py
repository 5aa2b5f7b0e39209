"""`r2et attack`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from r2et.cli.common import Limit, PlausibleOption, ThreatOption, interactive, print_json, print_table
from r2et.cli.subject import SubjectOptions, in_plausible_units, takes_subject
from r2et.errors import InputError
from r2et.files.writing import check_writable, writing
from r2et.foreign import is_code
from r2et.numerics.values import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from r2et.attacks import Attack
    from r2et.domain import Threat

#: the paper's own attacks, whose steps are in its presets
PAPER = ("er", "mse")


@takes_subject
def attack(
    options: SubjectOptions,
    name: Annotated[
        str, typer.Option("--attack", help="{attacks}, or all; or package.module:Class, which is imported.")
    ] = "all",
    radius: Annotated[
        float | None, typer.Option(help="Budget in the units of the scaled inputs; the training's preset, or 1.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations; the attack's own number by default.")] = None,
    norm: Annotated[str, typer.Option(help="Norm of the budget: l2 or linf.")] = "l2",
    keep: Annotated[str, typer.Option(help="best: keeps the prediction; last: the last iterate.")] = "best",
    budget: Annotated[str, typer.Option(help="Effort of worst-case: fast, standard or thorough.")] = "standard",
    weighting: Annotated[str, typer.Option(help="Of constrained: none, fixed, gda, hedge or qp.")] = "qp",
    limit: Limit = 1000,
    threat: ThreatOption = None,
    plausible: PlausibleOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write perturbed inputs and explanations (.npz).")
    ] = None,
) -> None:
    """Attack the explanations of a model.

    The explanation is the one the model was trained for, else the gradient. Believe worst-case: it is
    the strongest for each input. trust-region is slow: all leaves it out.

    Example: r2et attack runs/adult-r2et --attack worst-case --radius 0.3
    """
    from r2et import metrics
    from r2et.attacks import ATTACKS
    from r2et.domain import chosen_threat

    if not is_code(name):
        check_choice("attack", name, [*ATTACKS.names(), "all"])
    check_choice("budget", budget, ("fast", "standard", "thorough"))
    fast = [short for short in ATTACKS.names() if not ATTACKS.find(short).thing.slow]
    if (norm, keep) != ("l2", "best"):
        # its figure is one of an L2 norm and of kept predictions
        fast.remove("worst-case")
    if output is not None:
        check_writable(output)
    subject = options.subject(limit)
    subject = in_plausible_units(subject, plausible)
    if plausible is not None and radius is None:
        radius = 1.0
    named = chosen_threat(cast("Threat | None", threat), subject.domain)
    model, x, y = subject.model, subject.x, subject.y
    k = subject.k if options.k is None else options.k
    several, quality = len(y.unique()) > 1, "auc" if subject.outcome is None else "r2"
    radius = float(subject.preset.get("radius", 1.0)) if radius is None else radius
    shared: dict[str, Any] = {
        "k": k,
        "radius": radius,
        "norm": norm,
        "keep": keep,
        "explainer": subject.explainer_under(named),
        "tolerance": subject.tolerance,
    }

    def build(short: str, **changes: Any) -> "Attack":
        count = subject.preset.get("steps") if short in PAPER and steps is None else steps
        return _build(short, {**shared, **changes}, count, budget, weighting)

    chosen = _those_that_can(build, fast) if name == "all" else {name: build(name)}
    summaries: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {"x": x.numpy(), "y": y.numpy()}
    if subject.scale is not None:
        arrays["scale"] = subject.scale.numpy()
    for short, member in chosen.items():
        started = time.perf_counter()
        result = member(
            model,
            x,
            domain=subject.domain,
            threat=named,
            seed=options.seed,
            chunk_size=subject.rows_at_once,
            progress=interactive(options.as_json),
        )
        summaries.append(
            {
                "attack": type(member).__name__,
                "settings": repr(member),
                "k": k,
                "radius": radius,
                "threat": named,
                "steps": member.steps,
                "keep": keep,
                "rows": len(x),
                "precision": float(result.precision.mean()),
                "displaced": float(metrics.displaced(result, k).mean()),
                "sensitivity": metrics.sensitivity(result),
                "distance": float(result.distance.mean()),
                # an AUC needs both classes, an R2 numbers that differ
                f"clean_{quality}": metrics.quality(model, x, y) if several else None,
                f"adversarial_{quality}": metrics.quality(model, result.x, y) if several else None,
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
        print_json(
            {"model": options.model, "data": subject.data, "notes": list(subject.notes), "attacks": summaries}
        )
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
        for row in summaries
    ]
    print_table(f"{subject.data}, {subject.rows}, radius {radius:g}, threat {named}", columns, rows)


def _build(short: str, shared: dict[str, Any], steps: int | None, budget: str, weights: str) -> "Attack":
    from r2et.attacks import ATTACKS, ConstrainedAttack, WorstCase

    settings = dict(shared)
    kind = ATTACKS.find(short).thing
    if issubclass(kind, WorstCase):
        # its recipe fixes the steps
        settings["budget"] = budget
    elif steps is not None:
        settings["steps"] = steps
    if issubclass(kind, ConstrainedAttack):
        settings["weights"] = weights
    attack: Attack = ATTACKS.create(short, **settings)
    return attack


def _those_that_can(build: "Callable[..., Attack]", names: list[str]) -> "dict[str, Attack]":
    """Of all attacks those that know the norm and what is to be kept: some are defined by one of their own."""
    from r2et.attacks import ATTACKS

    attacks: dict[str, Attack] = {}
    left_out: dict[str, InputError] = {}
    for name in names:
        try:
            attacks[name] = build(name)
        except InputError as error:
            if ATTACKS.find(name).thing.__module__.startswith("r2et."):
                # raises again if it is not for the norm or what is kept; a plug-in may need settings of its own
                build(name, norm="l2", keep="best")
            left_out[name] = error
    if not attacks:
        raise next(iter(left_out.values()))
    for name, why in left_out.items():
        typer.echo(f"note: {name} is left out: {why}", err=True)
    return attacks
