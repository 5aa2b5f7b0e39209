"""`r2et train`."""

from pathlib import Path
from typing import Annotated

import typer

from r2et._checks import check_choice
from r2et.cli.common import AsJson, DataName, K, Output, Seed, interactive, load_data, parse_settings, print_json


def train(
    output: Output,
    data: DataName = "breast-cancer",
    method: Annotated[str, typer.Option(help="Training method; an unknown one lists all.")] = "r2et-sf",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Hyper-parameter of the method, e.g. --set gap=0.1.")
    ] = None,
    k: K = None,
    epochs: Annotated[int, typer.Option(help="At most so many epochs.")] = 300,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-2,
    batch_size: Annotated[int, typer.Option(help="Samples a step.")] = 256,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a lower validation loss.")] = 30,
    threshold: Annotated[
        float | None, typer.Option(help="Keep the last epoch whose validation AUC reaches this.")
    ] = None,
    start: Annotated[Path | None, typer.Option("--from", help="Retrain the vanilla model in this folder.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted run in the output folder.")] = False,
    compile: Annotated[bool, typer.Option(help="Compile the training step.")] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a model by one of the paper's methods and save it.

    Methods: linear, vanilla, wd, sp, est-h, exact-h, ssr, at, cl, thickness, r2et, r2et-mm, r2et-no-h,
    r2et-mm-no-h, r2et-sf (scale-free R2ET, the default).

    Example: r2et train --data adult --method r2et --set gap=0.1 --set curvature=0.1 -o runs/adult-r2et
    """
    from r2et import metrics
    from r2et.training import METHODS, load_model, save_model, train_method

    check_choice("method", method, METHODS)
    settings = METHODS[method].settings(parse_settings(setting or []))
    loaded = load_data(data)
    k = loaded.k if k is None else k
    result = train_method(
        method,
        loaded.train,
        loaded.validation,
        k,
        settings,
        seed=seed,
        vanilla=load_model(start)[0] if start else None,
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        patience=patience,
        threshold=threshold,
        checkpoint=output,
        resume=resume,
        compile=compile,
        progress=interactive(as_json),
    )
    found = {
        "data": loaded.name,
        "method": method,
        "settings": settings,
        "k": k,
        "seed": seed,
        "epoch": result.selected_epoch,
        "epochs": len(result.records),
        "stopped": result.stopped,
        "passed": result.passed,
        "validation_auc": result.auc,
        "test_auc": metrics.auc(result.model, loaded.test.x, loaded.test.y),
    }
    save_model(result.model, output, **found)
    if as_json:
        print_json({**found, "output": str(output)})
        return
    typer.echo(
        f"{METHODS[method].title} on {loaded.name}: test AUC {found['test_auc']:.4f}, epoch "
        f"{result.selected_epoch} of {len(result.records)} (stopped by {result.stopped}); saved to {output}/"
    )
    if not result.passed:
        typer.echo(
            f"No epoch reached the threshold: the one with the best validation AUC, {result.auc:.4f}, was kept."
        )
