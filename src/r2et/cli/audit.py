"""`r2et audit`."""

from typing import Annotated

import typer

from r2et.cli.common import (
    AsJson,
    Checkpoint,
    DataOptions,
    K,
    Limit,
    OtherData,
    Seed,
    Target,
    interactive,
    load_model_and_data,
    parse_options,
    parse_radii,
    print_json,
    rows_at_once,
    saved_explainer,
)


def audit(
    checkpoint: Checkpoint,
    data: OtherData = None,
    target: Target = None,
    option: DataOptions = None,
    radii: Annotated[str, typer.Option(help="Attack radii, comma separated.")] = "0.1,0.3,1.0",
    steps: Annotated[int, typer.Option(help="Iterations of each attack.")] = 200,
    budget: Annotated[
        str, typer.Option(help="Effort of the worst case: fast, standard or thorough.")
    ] = "standard",
    k: K = None,
    limit: Limit = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure and attack a trained model's explanations, and say what was found.

    The explanation is the one the model was trained for.

    Example: r2et audit runs/adult-r2et --radii 0.1,0.5
    """
    from r2et.auditing import audit as run_audit

    budgets = parse_radii(radii)
    model, information, loaded, part = load_model_and_data(
        checkpoint, data, limit, target, parse_options(option or [])
    )
    report = run_audit(
        model,
        part.x,
        part.y,
        k=int(information.get("k", loaded.k)) if k is None else k,
        radii=budgets,
        explainer=saved_explainer(information, loaded.inputs),
        steps=steps,
        budget=budget,  # type: ignore[arg-type]  # it checks
        seed=seed,
        chunk_size=rows_at_once(part.x),
        progress=interactive(as_json),
    )
    if as_json:
        print_json({"checkpoint": str(checkpoint), "data": loaded.name, **report.to_dict()})
    else:
        typer.echo(report.summary())
