"""The command line: parses, calls the library, prints. Every command knows --json and --seed."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et import __version__
from r2et._checks import InputError, check_choice

if TYPE_CHECKING:
    from torch import nn

    from r2et.data import Dataset, Split

app = typer.Typer(
    name="r2et",
    help="Explanations that stay put: measure, attack and train for stable top-k features.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn.")]
DataName = Annotated[str, typer.Option("--data", help="Data set; `r2et data list` shows them.")]
Limit = Annotated[int, typer.Option(help="Use at most so many test inputs.")]
K = Annotated[
    int | None,
    typer.Option("-k", "--k", help="How many features count as salient; the data set's own by default."),
]
Checkpoint = Annotated[Path, typer.Argument(help="Folder that `r2et train` wrote.")]
OtherData = Annotated[
    str | None, typer.Option("--data", help="Data set to use; the one it was trained on by default.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one sentence on stderr and exit code 1."""
    try:
        app(arguments)
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"r2et {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(output: Output = Path("demo"), seed: Seed = 0, as_json: AsJson = False) -> None:
    """Train four models on scikit-learn's breast-cancer data, attack each, compare.

    Needs no network. Writes the models and `demo.json` to the output folder.

    Example: r2et demo --output demo
    """
    from r2et.demonstration import run_demo

    found = run_demo(output, seed, progress=_interactive(as_json))
    if as_json:
        _print_json(found)
        return
    columns = ["model", "AUC", "P@8 ER", "P@8 MSE", "thickness", "displaced", "time"]
    rows = [
        [
            row["title"],
            f"{row['auc']:.4f}",
            f"{100 * row['precision']['ERAttack']:.1f}",
            f"{100 * row['precision']['MSEAttack']:.1f}",
            f"{row['thickness']:.4f}",
            f"{row['displaced']:.2f} of 8",
            f"{row['seconds']:.0f} s",
        ]
        for row in found["models"]
    ]
    _print_table(f"breast-cancer, {found['rows']} test inputs, attack radius {found['radius']:g}", columns, rows)
    typer.echo(found["reading"])
    typer.echo(f"\nModels and figures are in {output}/")


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """Show the data sets that can be loaded.

    Example: r2et data list --json
    """
    from r2et import data

    found = [data.describe(name) for name in data.names()]
    if as_json:
        _print_json(
            [
                {
                    "name": info.name,
                    "rows": info.rows,
                    "features": info.features,
                    "classes": info.classes,
                    "k": info.k,
                    "targets": list(info.targets),
                    "licence": info.licence,
                    "description": info.description,
                }
                for info in found
            ]
        )
        return
    rows = [
        [info.name, str(info.rows), str(info.features), str(info.classes), str(info.k), info.licence]
        for info in found
    ]
    _print_table("Data sets", ["name", "rows", "features", "classes", "k", "licence"], rows)


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets to fetch.")], as_json: AsJson = False
) -> None:
    """Find the files of data sets, downloading and checking what is missing.

    Looks in the folder that R2ET_DATA names, then in the cache, then at the public source.

    Example: r2et data fetch adult bank
    """
    from r2et import data

    found = {name: [str(path) for path in data.fetch(name, progress=_interactive(as_json))] for name in names}
    if as_json:
        _print_json(found)
        return
    for name, paths in found.items():
        typer.echo(f"{name}: {', '.join(paths) if paths else 'comes with scikit-learn'}")


@app.command()
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
    settings = METHODS[method].settings(_settings(setting or []))
    loaded = _load_data(data)
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
        progress=_interactive(as_json),
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
        _print_json({**found, "output": str(output)})
        return
    typer.echo(
        f"{METHODS[method].title} on {loaded.name}: test AUC {found['test_auc']:.4f}, epoch "
        f"{result.selected_epoch} of {len(result.records)} (stopped by {result.stopped}); saved to {output}/"
    )
    if not result.passed:
        typer.echo(
            f"No epoch reached the threshold: the one with the best validation AUC, {result.auc:.4f}, was kept."
        )


@app.command()
def attack(
    checkpoint: Checkpoint,
    data: OtherData = None,
    name: Annotated[str, typer.Option("--attack", help="er, mse, or all.")] = "all",
    radius: Annotated[float, typer.Option(help="L2 budget in the units of the scaled inputs.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Iterations.")] = 1000,
    k: K = None,
    keep: Annotated[str, typer.Option(help="best: keeps the prediction; last: the last iterate.")] = "best",
    limit: Limit = 1000,
    within_domain: Annotated[
        bool, typer.Option(help="Stay inside the data's bounds and leave one-hot features alone.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write perturbed inputs and explanations (.npz).")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Attack the explanations of a trained model.

    Example: r2et attack runs/adult-r2et --radius 1 --steps 1000
    """
    import time

    from r2et import attacks, metrics

    known = {"er": attacks.ERAttack, "mse": attacks.MSEAttack}
    check_choice("attack", name, [*known, "all"])
    model, information, loaded, part = _load_model(checkpoint, data, limit)
    k = int(information.get("k", loaded.k)) if k is None else k
    several = len(part.y.unique()) > 1
    found: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {"x": part.x.numpy(), "y": part.y.numpy()}
    for short in known if name == "all" else [name]:
        chosen = known[short](k=k, radius=radius, steps=steps, keep=keep)  # type: ignore[arg-type]  # it checks
        started = time.perf_counter()
        result = chosen(
            model,
            part.x,
            domain=loaded.domain if within_domain else None,
            seed=seed,
            progress=_interactive(as_json),
        )
        found.append(
            {
                "attack": type(chosen).__name__,
                "k": k,
                "radius": radius,
                "steps": steps,
                "keep": keep,
                "rows": len(part.x),
                "precision": float(result.precision.mean()),
                "displaced": float(metrics.displaced(result, k).mean()),
                "sensitivity": metrics.sensitivity(result),
                "distance": float(result.distance.mean()),
                # an AUC needs both classes
                "clean_auc": metrics.auc(model, part.x, part.y) if several else None,
                "adversarial_auc": metrics.adversarial_auc(model, result, part.y) if several else None,
                "seconds": time.perf_counter() - started,
            }
        )
        arrays |= {
            f"{short}_{field}": getattr(result, field).numpy()
            for field in ("x", "precision", "kept", "distance", "first_flip", "before", "after")
        }
    if output is not None:
        _save_arrays(output, arrays)
    if as_json:
        _print_json({"checkpoint": str(checkpoint), "data": loaded.name, "attacks": found})
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
    _print_table(f"{loaded.name}, {len(part.x)} test inputs, radius {radius:g}", columns, rows)


@app.command()
def audit(
    checkpoint: Checkpoint,
    data: OtherData = None,
    radii: Annotated[str, typer.Option(help="Attack radii, comma separated.")] = "0.1,0.3,1.0",
    steps: Annotated[int, typer.Option(help="Iterations of each attack.")] = 200,
    k: K = None,
    limit: Limit = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure and attack a trained model's explanations, and say what was found.

    Example: r2et audit runs/adult-r2et --radii 0.1,0.5
    """
    from r2et.auditing import audit as run_audit

    try:
        budgets = tuple(float(radius) for radius in radii.split(","))
    except ValueError as error:
        raise InputError(f"--radii takes numbers separated by commas, got {radii!r}") from error
    model, information, loaded, part = _load_model(checkpoint, data, limit)
    report = run_audit(
        model,
        part.x,
        part.y,
        k=int(information.get("k", loaded.k)) if k is None else k,
        radii=budgets,
        steps=steps,
        seed=seed,
        progress=_interactive(as_json),
    )
    if as_json:
        _print_json({"checkpoint": str(checkpoint), "data": loaded.name, **report.to_dict()})
    else:
        typer.echo(report.summary())


def _load_data(name: str) -> "Dataset":
    from r2et import data

    return data.load(name)


def _load_model(
    checkpoint: Path, data: str | None, limit: int
) -> "tuple[nn.Module, dict[str, Any], Dataset, Split]":
    from r2et.data import Split
    from r2et.training import load_model

    if limit < 1:
        raise InputError(f"--limit must be at least 1, got {limit}")
    model, information = load_model(checkpoint)
    name = data or information.get("data")
    if not isinstance(name, str):
        raise InputError(f"{str(checkpoint)!r} does not say which data it was trained on: add --data NAME")
    loaded = _load_data(name)
    expected, given = model.state_dict()[next(iter(model.state_dict()))].shape[-1], loaded.test.x.shape[1]
    if expected != given:
        raise InputError(
            f"the model takes {expected} features, data set {name!r} has {given}: choose another --data"
        )
    return model, information, loaded, Split(loaded.test.x[:limit], loaded.test.y[:limit])


def _settings(pairs: list[str]) -> dict[str, float]:
    found = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise InputError(f"--set takes name=number, such as gap=0.1; got {pair!r}") from error
    return found


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error}") from error


def _interactive(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=1))


def _print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
