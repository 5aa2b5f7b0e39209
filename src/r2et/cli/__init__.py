"""The command line: parses, calls the library, prints. Every command knows --json."""

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer

from r2et import __version__
from r2et.cli import attack, audit, certify, check, data, demo, reasons, train
from r2et.cli.listing import ListingCommand
from r2et.errors import InputError, in_words, shortened
from r2et.numerics.values import quoted
from r2et.registry import load_entry_points

#: the group of entry points whose commands appear beside the ones here
COMMANDS = "r2et.commands"
#: the environment variable that shows where an error comes from
DEBUG = "R2ET_DEBUG"

app = typer.Typer(
    name="r2et",
    help="Explanations that stay put: measure, attack, certify and train for stable top-k features.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)
app.command("demo")(demo.demo)
app.command("check")(check.check)
app.add_typer(data_app, name="data")
data_app.command("list")(data.data_list)
data_app.command("fetch")(data.data_fetch)
for _name, _command in (
    ("train", train.train),
    ("attack", attack.attack),
    ("audit", audit.audit),
    ("certify", certify.certify),
    ("reasons", reasons.reasons),
):
    app.command(_name, cls=ListingCommand)(_command)


@functools.cache
def with_plug_ins() -> typer.Typer:
    """The commands here and those of other packages, such as the benchmark's.

    They are loaded when they are first asked for, since they may use what is here.
    """
    for point, group in load_entry_points(COMMANDS, set()):
        app.add_typer(group, name=point.name)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one sentence on stderr and exit code 2, as bad usage does."""
    try:
        with _warnings_as_notes():
            with_plug_ins()(arguments)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        code, sentence = _explained(error)
        # what was typed can be of any length
        typer.echo(f"error: {shortened(sentence, 2400)}", err=True)
        sys.exit(code)


def _explained(error: Exception) -> tuple[int, str]:
    """The exit code and the one sentence for an exception: the user's mistake, their machine, or ours."""
    if isinstance(error, InputError):
        return 2, str(error)
    if isinstance(error, OSError):
        paths = [quoted(path) for path in (error.filename, error.filename2) if path is not None]
        return 2, ": ".join([*paths, in_words(error)])
    if isinstance(error, MemoryError):
        return 2, f"there is not enough memory ({in_words(error)}): use fewer inputs (--limit) or a smaller model"
    return 1, (
        f"this is a bug of r2et {__version__}, not a mistake of yours: {in_words(error)}. Run the command again "
        f"with {DEBUG}=1 and report what it prints"
    )


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """What the library warns of, without the line of code that did: a user of a command cannot see it."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> Any:
        if issubclass(category, UserWarning):
            typer.echo(f"note: {message}", err=True)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


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
