"""`r2et reasons`: reasons for a letter, for every row of a file."""

import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et.cli.common import (
    AsJson,
    Dates,
    Decimal,
    Encoding,
    MissingMarks,
    ReadingOptions,
    Separator,
    Thousands,
    interactive,
    print_json,
    print_notes,
    split_names,
)
from r2et.errors import InputError, in_words

if TYPE_CHECKING:
    from r2et.estimator import StableClassifier, StableRegressor
    from r2et.estimator.reasons_file import Summary
    from r2et.predictors import OpenedModel


def reasons(
    model: Annotated[
        str, typer.Argument(help="A folder of `r2et train` on a file, or of save() of an estimator.")
    ],
    *,
    data: Annotated[Path, typer.Option(help="A CSV or Parquet file with the columns of the model, of any size.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write to: .csv, .parquet or .jsonl.")],
    n: Annotated[int, typer.Option("-n", "--n", help="Most reasons of a row.")] = 4,
    toward: Annotated[
        str | None,
        typer.Option(
            help="Class that reasons speak for, by default the predicted one of each row; for a number that is "
            "predicted: higher (the default) or lower."
        ),
    ] = None,
    exclude: Annotated[str | None, typer.Option(help="Columns that must not be named: sex,age.")] = None,
    phrases: Annotated[
        Path | None, typer.Option(help='Sentences of your own, JSON: {"income": "Your income of {value}"}.')
    ] = None,
    proof: Annotated[
        bool, typer.Option("--proof/--no-proof", help="Prove how far the lists hold, which takes longer.")
    ] = True,
    plausible: Annotated[
        str | None,
        typer.Option(
            help="Tell how far the lists hold in plausible changes of numbers too, in a column "
            "holds_within_plausible: age=1,income=2% (of the column's median magnitude), the others as the data "
            "propose; or auto, all as proposed."
        ),
    ] = None,
    sep: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    dates: Dates = None,
    missing: MissingMarks = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Code, package.module:Class, that the model's file may name; it is imported."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the reasons of every row of a file: columns that speak for a class, with the row's own values.

    Only columns that speak for the class are named, so that a list may be shorter than --n, or empty; of a model
    that predicts a number, those that raise it, or lower it. What a reason says is how this model scores, not what
    causes what. The file is read as that of the training was; it needs no target. Ctrl-C leaves no half output.

    Example: r2et reasons model --data new.csv -o reasons.csv --toward bad --exclude sex
    """
    from r2et.estimator.reasons_file import check_output, write_reasons
    from r2et.progress import progress_bar
    from r2et.tables.files import count_rows

    check_output(data, output)
    opened = _open(model, trust or [])
    fitted = _estimator(opened)
    watched = interactive(as_json)
    with progress_bar("reasons", count_rows(data) if watched else 0, watched) as advance:
        summary = write_reasons(
            fitted,
            data,
            output,
            n,
            origin=opened.origin,
            hints=ReadingOptions(sep, decimal, thousands, encoding, dates, missing).hints(),
            advance=advance,
            toward=toward,
            exclude=None if exclude is None else split_names("--exclude", exclude),
            phrases=None if phrases is None else _read_phrases(phrases),
            proven=proof,
            plausible=plausible,
        )
    if as_json:
        print_json({"model": model, "data": str(data), "output": str(output), "n": n, **asdict(summary)})
        return
    print_notes(data.name, summary.notes)
    for sentence in _told(summary, output, n, _goal(fitted, toward)):
        typer.echo(textwrap.fill(sentence, 80, break_long_words=False, break_on_hyphens=False))


def _open(model: str, trust: list[str]) -> "OpenedModel":
    from r2et.predictors import open_model

    return open_model(model, trust=trust)


def _estimator(opened: "OpenedModel") -> "StableClassifier | StableRegressor":
    from r2et.estimator import StableClassifier, StableRegressor

    if not isinstance(opened.estimator, StableClassifier | StableRegressor):
        raise InputError(
            f"{opened.source!r} is neither a StableClassifier nor a StableRegressor: reasons are for what "
            "`r2et train --data file.csv` or save() of an estimator wrote, which knows the columns of a table"
        )
    return opened.estimator


def _goal(fitted: "StableClassifier | StableRegressor", toward: str | None) -> str:
    """What reasons are for, in words."""
    from r2et.estimator import StableRegressor

    if isinstance(fitted, StableRegressor):
        return f"a {toward or 'higher'} {fitted.target_name_}"
    return "its predicted class" if toward is None else toward


def _read_phrases(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"--phrases takes a JSON file of sentences by column: {path}: {in_words(error)}"
        ) from error


def _told(summary: "Summary", output: Path, n: int, goal: str) -> list[str]:
    """What a person wants to know before they send letters."""
    told = [f"{summary.reasons:,} reasons of {summary.rows:,} rows, at most {n} for each, are in {output}."]
    if summary.without_reasons:
        told.append(
            f"Without a reason, because nothing that may be named speaks for {goal}: {summary.without_reasons:,}, "
            f"{_rows(summary.first_without, summary.without_reasons)}."
        )
    if summary.not_explained:
        told.append(
            "Not explained, because a value is one that the training rows did not have, or is missing where none "
            f"of them missed it: {summary.not_explained:,}, "
            f"{_rows(summary.first_not_explained, summary.not_explained)}."
        )
    for name, count in summary.excluded.items():
        told.append(
            f"Not named: {name}, which would have been in {count:,} of the lists. The model still uses it."
        )
    if summary.ignored:
        told.append(f"Columns that the model does not use: {', '.join(summary.ignored)}.")
    if summary.why_not is None:
        told.append(
            f"Proven ({summary.method}) that {summary.proven:,} of the lists stay the same while numbers move by "
            "less than holds_within."
        )
    else:
        told.append(f"How far the lists hold is not proven: {summary.why_not}.")
    if summary.plausible is not None:
        changes = ", ".join(f"{name} {_change(**change)}" for name, change in summary.plausible.items())
        told.append(f"One plausible change (dates in days): {changes}.")
    told.append(f"Measured against the background {summary.background[:16]}.")
    return told


def _change(amount: float, percent: float | None) -> str:
    return f"{amount:g}" if percent is None else f"{amount:g} ({percent:g} %)"


def _rows(first: list[int], count: int) -> str:
    more = "" if count <= len(first) else f" and {count - len(first):,} more"
    return f"row{'s' if count > 1 else ''} {', '.join(map(str, first))}{more} (counted from 0)"
