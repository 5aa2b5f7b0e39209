"""The command line: parses, calls the library, prints. Every command knows --json."""

import sys
from typing import Annotated

import typer

from r2et import __version__
from r2et._checks import InputError
from r2et.cli import attack, audit, certify, data, demo, train

app = typer.Typer(
    name="r2et",
    help="Explanations that stay put: measure, attack, certify and train for stable top-k features.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)
app.command("demo")(demo.demo)
app.add_typer(data_app, name="data")
data_app.command("list")(data.data_list)
data_app.command("fetch")(data.data_fetch)
app.command("train")(train.train)
app.command("attack")(attack.attack)
app.command("audit")(audit.audit)
app.command("certify")(certify.certify)


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
