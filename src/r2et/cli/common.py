"""What the commands share: options, loading, printing."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et._checks import InputError

if TYPE_CHECKING:
    from torch import nn

    from r2et.data import Dataset, Split

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


def load_data(name: str) -> "Dataset":
    """A data set, loaded when a command needs it."""
    from r2et import data

    return data.load(name)


def load_model_and_data(
    checkpoint: Path, data: str | None, limit: int
) -> "tuple[nn.Module, dict[str, Any], Dataset, Split]":
    """The model of a checkpoint, what was saved with it, its data, and the first test rows."""
    from r2et.data import Split
    from r2et.training import load_model

    if limit < 1:
        raise InputError(f"--limit must be at least 1, got {limit}")
    model, information = load_model(checkpoint)
    name = data or information.get("data")
    if not isinstance(name, str):
        raise InputError(f"{str(checkpoint)!r} does not say which data it was trained on: add --data NAME")
    loaded = load_data(name)
    expected, given = model.state_dict()[next(iter(model.state_dict()))].shape[-1], loaded.test.x.shape[1]
    if expected != given:
        raise InputError(
            f"the model takes {expected} features, data set {name!r} has {given}: choose another --data"
        )
    return model, information, loaded, Split(loaded.test.x[:limit], loaded.test.y[:limit])


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
