"""What the commands share: options, loading, printing."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et._checks import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from r2et.data import Dataset, Split
    from r2et.explain import Explainer

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
Target = Annotated[
    str | None, typer.Option(help="Label to predict, where the data has several; `r2et data list --json`.")
]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of the data set, e.g. --option size=64, --option pairs=false."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]


def load_data(name: str, target: str | None = None, options: "Mapping[str, Any] | None" = None) -> "Dataset":
    """A data set, loaded when a command needs it."""
    from r2et import data

    return data.load(name, target=target, **(options or {}))


def load_model_and_data(
    checkpoint: Path,
    data: str | None,
    limit: int,
    target: str | None = None,
    options: "Mapping[str, Any] | None" = None,
) -> "tuple[nn.Module, dict[str, Any], Dataset, Split]":
    """The model of a checkpoint, what was saved with it, its data, and the first test rows.

    The data are those of the training, with the same target and options, unless the caller names others.
    """
    from r2et._checks import check_labels
    from r2et.data import Split
    from r2et.training import load_model
    from r2et.training.fitting import check_runs

    if limit < 1:
        raise InputError(f"--limit must be at least 1, got {limit}")
    model, information = load_model(checkpoint)
    recorded = information.get("data")
    name = data or recorded
    if not isinstance(name, str):
        raise InputError(f"{str(checkpoint)!r} does not say which data it was trained on: add --data NAME")
    chosen = dict(options or {})
    if name == recorded:
        target = target or information.get("target")
        chosen = {**information.get("data_options", {}), **chosen}
    loaded = load_data(name, target, chosen)
    part = Split(loaded.test.x[:limit], loaded.test.y[:limit])
    try:
        logits = check_runs(model, part.x[:1])
        check_labels(part.y, len(part.y), logits.shape[1])
    except InputError as error:
        raise InputError(
            f"the model in {str(checkpoint)!r} does not fit data set {name!r}, whose test inputs have shape "
            f"{tuple(part.x.shape)}: {error}. Choose the data it was trained on with --data, --target and --option"
        ) from error
    return model, information, loaded, part


def saved_explainer(information: "Mapping[str, Any]", inputs: int = 1) -> "Explainer":
    """The explanation a model was trained for; without one, the gradient of its one or two inputs."""
    from r2et.explain import Gradient
    from r2et.training import create_explainer

    described = information.get("explainer")
    return Gradient(inputs=inputs) if described is None else create_explainer(described)


def rows_at_once(x: "Tensor") -> int:
    """How many inputs of x (N, *features) are attacked together: an attack keeps several graphs of each."""
    return max(1, 2**19 // x[0].numel())


def parse_options(pairs: list[str]) -> dict[str, bool | int | str]:
    """`["size=64", "pairs=false"]` as `{"size": 64, "pairs": False}`."""
    found: dict[str, bool | int | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals or not value:
            raise InputError(f"--option takes name=value, such as size=64; got {pair!r}")
        if value.lower() in ("true", "false"):
            found[name] = value.lower() == "true"
        else:
            found[name] = int(value) if value.lstrip("-").isdigit() else value
    return found


def parse_settings(pairs: list[str]) -> dict[str, float]:
    """`["gap=0.1"]` as `{"gap": 0.1}`."""
    found = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise InputError(f"--set takes name=number, such as gap=0.1; got {pair!r}") from error
    return found


def parse_radii(text: str) -> tuple[float, ...]:
    """`"0.1,0.3"` as `(0.1, 0.3)`."""
    try:
        return tuple(float(radius) for radius in text.split(","))
    except ValueError as error:
        raise InputError(f"--radii takes numbers separated by commas, got {text!r}") from error


def interactive(as_json: bool) -> bool:
    """Whether somebody watches, so that progress bars make sense."""
    return not as_json and sys.stderr.isatty()


def print_json(content: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(content, indent=1))


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table; the first column is text, the others are numbers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
