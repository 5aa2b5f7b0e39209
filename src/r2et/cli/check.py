"""`r2et check`: what is wrong with a table, before a model is trained on it."""

from typing import TYPE_CHECKING, Annotated

import typer

from r2et.cli.common import (
    AsJson,
    Categorical,
    Columns,
    Dates,
    Decimal,
    Drop,
    Encoding,
    Keep,
    MissingMarks,
    ReadingOptions,
    Regression,
    Seed,
    Separator,
    Target,
    Thousands,
    interactive,
    print_json,
    print_notes,
    split_names,
)
from r2et.errors import InputError

if TYPE_CHECKING:
    from r2et.tables import LabelledTable, TableReport


def check(
    data: Annotated[str, typer.Argument(help="A CSV or Parquet file with a line of names.")],
    *,
    target: Target = None,
    columns: Columns = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    regression: Regression = False,
    sep: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    dates: Dates = None,
    missing: MissingMarks = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Look for what makes a table unfit for training, before a model is trained on it.

    Row numbers, identifiers, constants, copies and texts that are nearly all different are left out, and that is
    said; so is everything else that a person should know, above all a single column that gives the target away,
    which stays unless --drop names it. `r2et train` checks in the same way. The exit code is 2 where no model can
    be trained, else 0.

    Example: r2et check people.csv --target bought
    """
    table, report = checked_table(
        data,
        target,
        reading=ReadingOptions(sep, decimal, thousands, encoding, dates, missing, drop),
        columns=columns,
        keep=keep,
        categorical=categorical,
        numbers=regression,
        seed=seed,
        progress=interactive(as_json),
    )
    if as_json:
        print_json({**report.to_dict(), "notes": list(table.said)})
    else:
        print_notes(table.path.name, table.said)
        _print(report)
    if not report.usable:
        typer.echo(f"error: {problem(report)}", err=True)
        raise typer.Exit(2)


def checked_table(
    data: str,
    target: str | None,
    *,
    reading: ReadingOptions,
    columns: str | None,
    keep: str | None,
    categorical: str | None,
    numbers: bool = False,
    seed: int,
    progress: bool,
) -> "tuple[LabelledTable, TableReport]":
    """A file with the columns that are left, and what its check says."""
    from dataclasses import replace

    from r2et import tables
    from r2et.tables.files import is_table

    if not is_table(data):
        raise InputError(f"{data!r} is no file: give a CSV or Parquet file, such as people.csv")
    options = {"--columns": columns, "--keep": keep, "--categorical": categorical}
    named = {option: [] if text is None else split_names(option, text) for option, text in options.items()}
    dropped = reading.dropped()
    if target in dropped:
        raise InputError(f"column {target!r} is the one to predict: it cannot be left out")
    hints = replace(reading.hints(), texts=tuple(dropped))
    table = tables.read_table(data, target, named["--columns"] or None, hints=hints)
    report = tables.check_table(
        table,
        # what a person names is used
        keep=[name for name in named["--columns"] if name not in dropped] + named["--keep"],
        drop=dropped,
        categorical=named["--categorical"],
        numbers=numbers,
        seed=seed,
        progress=progress,
    )
    return replace(table, frame=table.frame[list(report.kept)]), report


def problem(report: "TableReport") -> str:
    """Why no model can be trained, as a sentence."""
    first = report.at_level("error")[0]
    where = f"column {first.columns[0]!r} of {report.name!r} " if first.columns else f"{report.name!r}: "
    return f"{where}{first.seen[0]}. {first.change[0].upper()}{first.change[1:]}"


def _print(report: "TableReport") -> None:
    """The report, the levels of its findings in colour where somebody watches."""
    from rich.console import Console
    from rich.text import Text

    styles = {"ERROR": "bold red", "WARNING": "bold yellow", "note": "bold"}
    console = Console(soft_wrap=True, highlight=False)
    for line in report.lines():
        style = styles.get(line.partition(":")[0], "")
        console.print(Text(line, style=style))
