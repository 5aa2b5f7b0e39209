"""`r2et reasons`: reasons for a letter, for every row of a file."""

import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et.cli.common import AsJson, interactive, print_json, print_notes, split_names
from r2et.errors import InputError, in_words

if TYPE_CHECKING:
    from r2et.estimator import StableClassifier
    from r2et.estimator.reasons_file import Summary
    from r2et.tables import Format, Origin

#: bytes of a file that is looked at as a whole before it is read in chunks
LOOKED_AT = 2**26


def reasons(
    model: Annotated[str, typer.Argument(help="A folder of `r2et train` on a file, or StableClassifier.save.")],
    *,
    data: Annotated[Path, typer.Option(help="A CSV or Parquet file with the columns of the model, of any size.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write to: .csv, .parquet or .jsonl.")],
    n: Annotated[int, typer.Option("-n", "--n", help="Most reasons of a row.")] = 4,
    toward: Annotated[
        str | None, typer.Option(help="Class that reasons speak for; by default the predicted one of each row.")
    ] = None,
    exclude: Annotated[str | None, typer.Option(help="Columns that must not be named: sex,age.")] = None,
    phrases: Annotated[
        Path | None, typer.Option(help='Sentences of your own, JSON: {"income": "Your income of {value}"}.')
    ] = None,
    proof: Annotated[
        bool, typer.Option("--proof/--no-proof", help="Prove how far the lists hold, which takes longer.")
    ] = True,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Code, package.module:Class, that the model's file may name; it is imported."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the reasons of every row of a file: columns that speak for a class, with the row's own values.

    Only columns that speak for the class are named, so that a list may be shorter than --n, or empty. What a
    reason says is how this model scores, not what causes what. The file needs no target; Ctrl-C leaves no half
    output.

    Example: r2et reasons model --data new.csv -o reasons.csv --toward bad --exclude sex
    """
    from r2et.estimator.reasons_file import check_output, count_rows, write_reasons
    from r2et.progress import progress_bar

    check_output(data, output)
    fitted, origin = _open(model, trust or [])
    written = _format(fitted, data, origin)
    print_notes(data.name, written.said)
    watched = interactive(as_json)
    with progress_bar("reasons", count_rows(data) if watched else 0, watched) as advance:
        summary = write_reasons(
            fitted,
            data,
            output,
            n,
            written=written,
            advance=advance,
            toward=toward,
            exclude=None if exclude is None else split_names("--exclude", exclude),
            phrases=None if phrases is None else _read_phrases(phrases),
            proven=proof,
        )
    if as_json:
        print_json({"model": model, "data": str(data), "output": str(output), "n": n, **asdict(summary)})
        return
    for sentence in _told(summary, output, n, toward):
        typer.echo(textwrap.fill(sentence, 80, break_long_words=False, break_on_hyphens=False))


def _open(model: str, trust: list[str]) -> "tuple[StableClassifier, Origin | None]":
    from r2et.estimator import StableClassifier
    from r2et.predictors import open_model

    opened = open_model(model, trust=trust)
    estimator = opened.estimator
    if not isinstance(estimator, StableClassifier):
        raise InputError(
            f"{model!r} is not a StableClassifier: reasons are for what `r2et train --data file.csv` or "
            "StableClassifier.save wrote, which knows the columns of a table"
        )
    return estimator, opened.origin


def _format(fitted: "StableClassifier", data: Path, origin: "Origin | None") -> "Format":
    """How the rows are written: as audits see it, and for a very large file as the file of the training was."""
    from r2et.estimator.reasons_file import recognised

    remembered = None if origin is None else origin.format
    if remembered is not None and data.stat().st_size > LOOKED_AT:
        return remembered
    return recognised(fitted, data, remembered)


def _read_phrases(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"--phrases takes a JSON file of sentences by column: {path}: {in_words(error)}"
        ) from error


def _told(summary: "Summary", output: Path, n: int, toward: str | None) -> list[str]:
    """What a person wants to know before they send letters."""
    goal = "its predicted class" if toward is None else toward
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
    told.append(f"Measured against the background {summary.background[:16]}.")
    return told


def _rows(first: list[int], count: int) -> str:
    more = "" if count <= len(first) else f" and {count - len(first):,} more"
    return f"row{'s' if count > 1 else ''} {', '.join(map(str, first))}{more} (counted from 0)"
