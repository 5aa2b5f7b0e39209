"""What the commands share: options, parsing, printing."""

import json
import os
import re
import stat
import sys
import textwrap
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et.errors import InputError, in_words
from r2et.numerics.values import check_choice, check_positive, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from r2et.data import Dataset
    from r2et.domain import Threat
    from r2et.tables import Hints

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _checked_seed(seed: int) -> int:
    """What every generator takes."""
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed must be a whole number from 0 to 2**32 - 1, got {quoted(seed)}")
    return seed


Seed = Annotated[int, typer.Option(callback=_checked_seed, help="Seed of everything that is drawn.")]
Limit = Annotated[int, typer.Option(help="Use at most this many inputs.")]
THREATS: "tuple[Threat, ...]" = ("domain", "tangent", "paper")


def _checked_threat(threat: str | None) -> str | None:
    """One of those that exist; typer looks the types of its callbacks up when it runs."""
    if threat is not None:
        check_choice("threat", threat, THREATS)
    return threat


ThreatOption = Annotated[
    str | None,
    typer.Option(
        callback=_checked_threat,
        help="What an attacker may do: domain (numbers move inside their range, categories and flags stay), "
        "tangent (everything moves, sums of categories stay) or paper (everything moves). By default domain where "
        "the data tell what exists, else paper.",
    ),
]
PlausibleOption = Annotated[
    str | None,
    typer.Option(
        "--plausible",
        help="Count radii in plausible changes of numbers: age=1,income=2% (of the column's median magnitude), "
        "the others as the data propose; or auto, all as proposed.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column of the file to predict; of a data set with several labels, which."),
]
_WRITTEN = "How the file is written (recognised by default, and said)"
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep", help="Between values: comma, semicolon, tab, pipe or a character.", rich_help_panel=_WRITTEN
    ),
]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of numbers: . or ,", rich_help_panel=_WRITTEN)]
Thousands = Annotated[
    str | None,
    typer.Option(help="Mark between thousands: . , ' space or none.", rich_help_panel=_WRITTEN),
]
Encoding = Annotated[
    str | None, typer.Option(help="Of the text: utf-8, cp1252 and so on.", rich_help_panel=_WRITTEN)
]
Dates = Annotated[
    list[str] | None,
    typer.Option(help="How a column writes dates: --dates joined=%d.%m.%Y, or =ISO.", rich_help_panel=_WRITTEN),
]
MissingMarks = Annotated[
    str | None,
    typer.Option(
        "--missing", help="Further texts that stand for a missing value: none,99.", rich_help_panel=_WRITTEN
    ),
]
FILE_PANEL = "A file of your own"
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns to use, whatever the check says of them: a,b,c; all others by default.",
        rich_help_panel=FILE_PANEL,
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out: id,name.", rich_help_panel=FILE_PANEL)]
Keep = Annotated[
    str | None,
    typer.Option(help="Columns to use although the check leaves them out: a,b.", rich_help_panel=FILE_PANEL),
]
Categorical = Annotated[
    str | None,
    typer.Option(help="Columns of numbers that are categories: zip,code.", rich_help_panel=FILE_PANEL),
]
Regression = Annotated[
    bool,
    typer.Option(
        "--regression", help="The target is a number that is predicted, not a class.", rich_help_panel=FILE_PANEL
    ),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="Option of a data set, e.g. --option size=64, --option pairs=false."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")]


def load_data(name: str, target: str | None = None, options: "Mapping[str, Any] | None" = None) -> "Dataset":
    """A data set, loaded when a command needs it."""
    from r2et import data

    return data.load(name, target=target, **(options or {}))


def parse_options(pairs: list[str]) -> dict[str, bool | int | str]:
    """`["size=64", "pairs=false"]` as `{"size": 64, "pairs": False}`."""
    options: dict[str, bool | int | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals or not value:
            raise InputError(f"--option takes name=value, such as size=64; got {pair!r}")
        if value.lower() in ("true", "false"):
            options[name] = value.lower() == "true"
        else:
            options[name] = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
    return options


def parse_settings(pairs: list[str]) -> dict[str, float]:
    """`["gap=0.1"]` as `{"gap": 0.1}`."""
    settings = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in settings:
            raise InputError(f"--set gives {name!r} twice: {', '.join(map(repr, pairs))}")
        try:
            settings[name] = float(value)
        except ValueError as error:
            raise InputError(f"--set takes name=number, such as gap=0.1; got {quoted(pair)}") from error
    return settings


def parse_radii(text: str) -> tuple[float, ...]:
    """`"0.1,0.3"` as `(0.1, 0.3)`."""
    try:
        radii = tuple(float(radius) for radius in text.split(","))
    except ValueError as error:
        raise InputError(f"--radii takes numbers separated by commas, got {quoted(text)}") from error
    for radius in radii:
        check_positive("radius", radius)
    return radii


def split_names(option: str, text: str) -> list[str]:
    """`"age, pay"` as `["age", "pay"]`."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{option} takes names separated by commas, got {text!r}")
    return names


@dataclass(frozen=True)
class ReadingOptions:
    """What was said on the command line about how a file is written, and about its columns."""

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: list[str] | None = None
    missing: str | None = None
    drop: str | None = None

    def refuse(self, why: str) -> None:
        """Raise if one was given where it would be ignored in silence."""
        for entry in fields(self):
            if getattr(self, entry.name):
                raise InputError(f"--{entry.name} {why}")

    def hints(self) -> "Hints":
        """About the text."""
        from r2et.tables import Hints

        return Hints(
            separator=self.sep,
            decimal=self.decimal,
            thousands=self.thousands,
            encoding=self.encoding,
            dates=parse_dates(self.dates or []) or None,
            missing=None if self.missing is None else tuple(self.missing.split(",")),
        )

    def dropped(self) -> list[str]:
        """Columns that are left out."""
        return [] if self.drop is None else split_names("--drop", self.drop)


def parse_dates(texts: list[str]) -> dict[str, str]:
    """`["joined=%d.%m.%Y,left=ISO"]` as `{"joined": "%d.%m.%Y", "left": "ISO"}`."""
    dates: dict[str, str] = {}
    # a format may hold commas: "%b %d, %Y"
    for pair in (pair for text in texts for pair in re.split(r",(?=[^,=]+=)", text)):
        name, equals, written = pair.partition("=")
        if not equals or not name.strip() or not written.strip():
            raise InputError(f"--dates takes column=format, such as joined=%d.%m.%Y; got {quoted(pair)}")
        if name.strip() in dates:
            raise InputError(f"--dates gives {name.strip()!r} twice")
        dates[name.strip()] = written.strip()
    return dates


def print_notes(source: str, notes: "Iterable[str]") -> None:
    """What a person should know about a file or a model, on standard error."""
    for note in notes:
        say("note", f"{source}: {note}")


def say(level: str, sentence: str) -> None:
    """A note or warning on standard error, in lines of a terminal."""
    told = textwrap.fill(
        f"{level}: {sentence}", 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    typer.echo(told, err=True)


def check_folder(folder: Path) -> None:
    """Say so before an hour of work if a folder cannot be made or written to."""
    told = f"cannot write {quoted(folder)}"
    try:
        nearest = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
        is_folder = stat.S_ISDIR(nearest.stat().st_mode)
        folder.exists()  # only the operating system knows how long a name may be
    except (OSError, ValueError) as error:
        raise InputError(f"{told}: {in_words(error)}") from error
    if not is_folder:
        raise InputError(f"{told}: {quoted(nearest)} is not a folder")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{told}: permission denied")


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
