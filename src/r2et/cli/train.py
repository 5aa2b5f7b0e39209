"""`r2et train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from r2et.cli.common import (
    FILE_PANEL,
    AsJson,
    Categorical,
    Columns,
    DataOptions,
    Dates,
    Decimal,
    Drop,
    Encoding,
    Keep,
    MissingMarks,
    Output,
    ReadingOptions,
    Regression,
    Seed,
    Separator,
    Target,
    Thousands,
    check_folder,
    interactive,
    load_data,
    parse_options,
    parse_settings,
    print_json,
)
from r2et.cli.train_table import DataSetOnly, TableOptions, train_table
from r2et.errors import InputError

_SET = "A data set of r2et data list"


def train(
    output: Output,
    data: Annotated[
        str, typer.Option(help="A CSV or Parquet file of your own, or a data set; `r2et data list` shows them.")
    ] = "breast-cancer",
    target: Target = None,
    method: Annotated[
        str,
        typer.Option(
            help="Training method, or an objective, package.module:Class, which is imported; auto is r2et-sf, and "
            "vanilla for an additive network."
        ),
    ] = "auto",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Hyper-parameter of the method, e.g. --set gap=0.1.")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k",
            help="How many features count as salient; by default the data set's own, of a file half of the "
            "columns, at most 8.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a lower validation loss.")
    ] = None,
    columns: Columns = None,
    keep: Keep = None,
    categorical: Categorical = None,
    drop: Drop = None,
    sep: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    dates: Dates = None,
    missing: MissingMarks = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="mlp, or additive: a function of its own for each column, of which it is known exactly how far "
            "reasons hold. By default mlp.",
            rich_help_panel=FILE_PANEL,
        ),
    ] = None,
    test_fraction: Annotated[
        float,
        typer.Option(help="Share of the rows that is kept from training, for audits.", rich_help_panel=FILE_PANEL),
    ] = 0.2,
    regression: Regression = False,
    preset: Annotated[
        str,
        typer.Option(
            help="What is not given: cpu (small networks) or paper (Table 4; images need a GPU).",
            rich_help_panel=_SET,
        ),
    ] = "cpu",
    option: DataOptions = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Keep the last epoch whose validation AUC reaches this.", rich_help_panel=_SET),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Retrain the vanilla model in this folder.", rich_help_panel=_SET),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run in the output folder.", rich_help_panel=_SET),
    ] = False,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the training step.", rich_help_panel=_SET)
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a model by one of the paper's methods and save it.

    On a CSV or Parquet file of your own a StableClassifier (with --regression a StableRegressor) is fitted: it
    encodes columns of numbers and text, and searches the weights of the method unless --set gives them. The file
    is checked as `r2et check` does: what is left out is said. On a data set of r2et, architecture, explanation,
    epochs and learning rate are those of its preset. The paper retrains its vanilla ResNets (cifar10, oct): train
    one by --method vanilla and name its folder as --from.

    Methods: {methods} (r2et-sf is scale-free R2ET).

    Example: r2et train --data people.csv --target bought -o hardened

    Example: r2et train --data adult --method r2et --set gap=0.1 --set curvature=0.1 -o runs/adult-r2et
    """
    from r2et.estimator.networks import method_of
    from r2et.recipes import find_method
    from r2et.tables.files import is_table

    check_folder(output)
    method = method_of(method, "mlp" if network is None else network)
    own_settings = parse_settings(setting or [])
    find_method(method).settings(own_settings)
    wanted: dict[str, Any] = {"epochs": epochs, "lr": lr, "batch_size": batch_size, "patience": patience}
    schedule = {name: value for name, value in wanted.items() if value is not None}
    reading = ReadingOptions(sep, decimal, thousands, encoding, dates, missing, drop)
    if is_table(data):
        DataSetOnly(preset, option, threshold, start, resume, compile).refuse(data)
        schedule |= {} if network is None else {"network": network}
        table = TableOptions(data, target, columns, keep, categorical, test_fraction, regression, reading)
        train_table(table, output, method, own_settings if setting else None, k, schedule, seed, as_json)
        return
    own = {
        "--columns": columns,
        "--keep": keep,
        "--categorical": categorical,
        "--network": network,
        "--regression": regression or None,
    }
    for name, value in own.items():
        if value is not None:
            raise InputError(f"{name} is for a file of your own, {data!r} is a data set")
    reading.refuse(f"is for a file of your own, {data!r} is a data set")
    _train_data_set(
        output,
        data,
        target,
        method,
        own_settings,
        k,
        schedule,
        seed,
        as_json,
        preset,
        parse_options(option or []),
        start,
        {"threshold": threshold, "resume": resume, "compile": compile},
    )


def _train_data_set(
    output: Path,
    data: str,
    target: str | None,
    method: str,
    own_settings: dict[str, float],
    k: int | None,
    schedule: dict[str, Any],
    seed: int,
    as_json: bool,
    preset: str,
    options: dict[str, Any],
    start: Path | None,
    flags: dict[str, Any],
) -> None:
    from r2et import data as data_sets
    from r2et import metrics
    from r2et.checkpoints import load_model, save_model
    from r2et.explainers import EXPLAINERS
    from r2et.recipes import find_method, find_preset, train_method
    from r2et.recipes.presets import check_preset

    check_preset(preset)
    vanilla = load_model(start)[0] if start else None
    loaded = load_data(data, target, options)
    training_preset = find_preset(loaded, preset)
    settings = find_method(method).settings(own_settings, training_preset.kind)
    k = training_preset.k if k is None else k
    result = train_method(
        method,
        loaded.train,
        loaded.validation,
        k,
        settings,
        seed=seed,
        vanilla=vanilla,
        preset=training_preset,
        checkpoint=output,
        progress=interactive(as_json),
        **flags,
        **schedule,
    )
    described = data_sets.describe(data)
    summary = {
        "data": loaded.name,
        "target": target or (described.targets[0] if described.targets else None),
        "data_options": {**described.options, **options},
        "method": method,
        "preset": preset,
        "settings": settings,
        "k": k,
        "explainer": EXPLAINERS.describe(training_preset.explainer),
        "attack": {"radius": training_preset.radius, "steps": training_preset.attack_steps},
        "seed": seed,
        "epoch": result.selected_epoch,
        "epochs": len(result.records),
        "stopped": result.stopped,
        "passed": result.passed,
        "validation_auc": result.auc,
        "test_auc": metrics.auc(result.model, loaded.test.x, loaded.test.y),
    }
    save_model(result.model, output, **summary)
    if as_json:
        print_json({**summary, "output": str(output)})
        return
    typer.echo(
        f"{find_method(method).title} on {loaded.name}: test AUC {summary['test_auc']:.4f}, epoch "
        f"{result.selected_epoch} of {len(result.records)} (stopped by {result.stopped}); saved to {output}/"
    )
    if not result.passed:
        typer.echo(
            f"No epoch reached the threshold: the one with the best validation AUC, {result.auc:.4f}, was kept."
        )
