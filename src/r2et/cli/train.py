"""`r2et train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from r2et._checks import check_choice
from r2et.cli.common import (
    AsJson,
    DataName,
    DataOptions,
    K,
    Output,
    Seed,
    Target,
    interactive,
    load_data,
    parse_options,
    parse_settings,
    print_json,
)


def train(
    output: Output,
    data: DataName = "breast-cancer",
    method: Annotated[str, typer.Option(help="Training method; an unknown one lists all.")] = "r2et-sf",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Hyper-parameter of the method, e.g. --set gap=0.1.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="What is not given: cpu (small networks) or paper (Table 4; images need a GPU).")
    ] = "cpu",
    target: Target = None,
    option: DataOptions = None,
    k: K = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a lower validation loss.")
    ] = None,
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

    Architecture, explanation, epochs and learning rate are those of the data's preset. The paper retrains its
    vanilla ResNets (cifar10, oct): train one by --method vanilla and name its folder as --from.

    Methods: linear, vanilla, wd, sp, est-h, exact-h, ssr, at, cl, thickness, r2et, r2et-mm, r2et-no-h,
    r2et-mm-no-h, r2et-sf (scale-free R2ET, the default).

    Example: r2et train --data adult --method r2et --set gap=0.1 --set curvature=0.1 -o runs/adult-r2et
    """
    from r2et import data as data_sets
    from r2et import metrics
    from r2et.training import METHODS, describe_explainer, find_preset, load_model, save_model, train_method
    from r2et.training.presets import check_preset

    check_choice("method", method, METHODS)
    check_preset(preset)
    given = parse_settings(setting or [])
    METHODS[method].settings(given)
    options = parse_options(option or [])
    vanilla = load_model(start)[0] if start else None
    loaded = load_data(data, target, options)
    found_preset = find_preset(loaded, preset)
    settings = METHODS[method].settings({**found_preset.defaults.get(method, {}), **given})
    k = found_preset.k if k is None else k
    wanted: dict[str, Any] = {"epochs": epochs, "lr": lr, "batch_size": batch_size, "patience": patience}
    result = train_method(
        method,
        loaded.train,
        loaded.validation,
        k,
        settings,
        seed=seed,
        vanilla=vanilla,
        preset=found_preset,
        threshold=threshold,
        checkpoint=output,
        resume=resume,
        compile=compile,
        progress=interactive(as_json),
        **{name: value for name, value in wanted.items() if value is not None},
    )
    described = data_sets.describe(data)
    found = {
        "data": loaded.name,
        "target": target or (described.targets[0] if described.targets else None),
        "data_options": {**described.options, **options},
        "method": method,
        "preset": preset,
        "settings": settings,
        "k": k,
        "explainer": describe_explainer(found_preset.explainer),
        "attack": {"radius": found_preset.radius, "steps": found_preset.attack_steps},
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
