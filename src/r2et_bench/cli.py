"""`r2et bench run`, `r2et bench table`, `r2et bench figure`."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from r2et.cli.common import AsJson, check_folder, interactive, print_json, print_table
from r2et.errors import InputError
from r2et.files.writing import check_writable, write_text
from r2et.numerics.values import check_choice, check_count

Records = Annotated[Path, typer.Option(help="Folder of the records.")]
Work = Annotated[Path, typer.Option(help="Folder of models, unfinished runs and per-sample arrays.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="Only this data set; may be repeated.")]
RECORDS = Path("benchmarks/records")
WORK = Path("runs/bench")


def run(
    preset: Annotated[
        str, typer.Option(help="What to compute: smoke, paper-tabular, mnist, mnist-paper, cifar10, abide or oct.")
    ] = "smoke",
    records: Records = RECORDS,
    work: Work = WORK,
    executor: Annotated[str, typer.Option(help="local (processes of this machine) or ray.")] = "local",
    processes: Annotated[int, typer.Option(help="Cells at once, one torch thread each.")] = 2,
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster, e.g. auto; without one it is started here.")
    ] = None,
    data: Data = None,
    seeds: Annotated[int | None, typer.Option(help="Another number of seeds.")] = None,
    full_grid: Annotated[
        bool, typer.Option("--full-grid", help="Train every candidate to the end instead of halving.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do again what failed before.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is missing; compute and write nothing.")
    ] = False,
    tracker: Annotated[str | None, typer.Option(help="Also log every cell to: mlflow.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a benchmark; what is there already is kept, and an interrupted run continues.

    One JSON record per cell (data set, method, hyper-parameters, seed) goes to --records. Hyper-parameters are
    chosen on the first seed by the paper's rule, with successive halving.

    Example: r2et bench run --preset smoke && r2et bench table honest
    """
    from r2et_bench import MLflowTracker, Run, Store, find_executor, find_plan

    for folder in (records, work):
        check_folder(folder)
    plan = find_plan(preset)
    if seeds is not None:
        check_count("seeds", seeds)
        plan = replace(plan, seeds=seeds)
    if data:
        for name in data:
            check_choice(f"data set of {preset}", name, plan.data)
        plan = replace(plan, data=tuple(data))
    if tracker is not None:
        check_choice("tracker", tracker, ("mlflow",))
    job = Run(
        plan,
        Store(records, work),
        find_executor(executor, processes, address),
        full_grid=full_grid,
        retry_failed=retry_failed,
        trackers=[MLflowTracker()] if tracker else [],
        say=lambda line: None if as_json else typer.echo(line),
        progress=interactive(as_json),
    )
    if dry_run:
        _say_outlook(preset, job.outlook(), as_json=as_json)
        return
    counts = job()
    if as_json:
        print_json({"preset": preset, "records": str(records), **counts})
    else:
        typer.echo(f"{counts['records']} records in {records / preset}, {counts['failed']} with a failure")
        typer.echo(f"see them: r2et bench table honest --preset {preset} --records {records}")


def _say_outlook(preset: str, missing: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json({"preset": preset, "missing": missing})
    elif any(missing.values()):
        typer.echo(
            f"to do: {missing['cells']} cells, after searches among {missing['candidates']} candidates "
            "(parts that an unfinished run left in --work are used)"
        )
    else:
        typer.echo("nothing to do: every record is there")


def table(
    number: Annotated[str, typer.Argument(help="1, 2, 3, 5, 6, 7, 8, 9 or honest.")],
    preset: Annotated[str | None, typer.Option(help="Of one benchmark; all that have records by default.")] = None,
    data: Data = None,
    records: Records = RECORDS,
    form: Annotated[
        str | None, typer.Option("--format", help="markdown, latex, csv or html; a terminal table by default.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a table of the paper with our values beside the paper's, or the honest one.

    Example: r2et bench table 1 --data adult; r2et bench table honest --format latex -o honest.tex
    """
    from r2et_bench.formats import FORMATS, render
    from r2et_bench.paper_tables import NUMBERS, make_table
    from r2et_bench.records import Store
    from r2et_bench.results import load_results

    check_choice("table", number, NUMBERS)
    if form is not None:
        check_choice("format", form, FORMATS)
    chosen = _checked_format(form, output)
    results = load_results(Store(records, WORK), None if preset is None else [preset], data)
    shown = make_table(number, results)
    if as_json:
        from dataclasses import asdict

        print_json(asdict(shown))
        return
    if output is not None and chosen is not None:
        write_text(output, render(shown, chosen))
        typer.echo(f"{shown.heading}: written to {output}")
        return
    if form is not None:
        typer.echo(render(shown, form), nl=False)
        return
    typer.echo(shown.heading)
    for section in shown.sections:
        headings, cells = section.grid()
        lines = [[cell if isinstance(cell, str) else cell.own() for cell in line] for line in cells]
        if _width([headings, *lines]) > shutil.get_terminal_size().columns:
            # the spread is in every other format
            lines = [[re.sub(r" ± [\d.]+", "", text) for text in line] for line in lines]
        print_table(section.title, headings, lines)
        for note in section.notes:
            typer.echo(note)
    for failure in shown.failures():
        typer.echo(f"failed: {failure}")


def _checked_format(form: str | None, output: Path | None) -> str | None:
    """How to write a table, by the ending of its file if nothing was said."""
    if output is None:
        return form
    check_writable(output)
    suffixes = {".md": "markdown", ".tex": "latex", ".csv": "csv", ".html": "html"}
    chosen = form or suffixes.get(output.suffix)
    if chosen is None:
        raise InputError(
            f"the ending of {str(output)!r} says no format: add --format markdown, latex, csv or html"
        )
    return chosen


def _width(lines: list[list[str]]) -> int:
    """Of a table in a terminal, borders included."""
    return 1 + sum(3 + max(map(len, column)) for column in zip(*lines, strict=True))


def figure(
    name: Annotated[
        str, typer.Argument(help="correlation, attacks, tradeoff, kprime, magnitude, saliency or time.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .svg, .png or .pdf.")],
    preset: Annotated[str | None, typer.Option(help="Of one benchmark; all that have records by default.")] = None,
    data: Data = None,
    method: Annotated[
        str, typer.Option(help="Whose connectome is drawn: saliency of graphs shows one method.")
    ] = "vanilla",
    records: Records = RECORDS,
    work: Work = WORK,
    as_json: AsJson = False,
) -> None:
    """Draw a figure of the paper from the records; saliency maps need the models in --work too.

    Example: r2et bench figure tradeoff --data adult -o tradeoff.svg
    """
    from r2et_bench.figures import FIGURES, draw
    from r2et_bench.records import Store
    from r2et_bench.results import load_results

    check_choice("figure", name, FIGURES)
    check_writable(output)
    store = Store(records, work)
    results = load_results(store, None if preset is None else [preset], data)
    draw(name, results, store, output, method)
    if as_json:
        print_json({"figure": name, "output": str(output)})
    else:
        typer.echo(f"{name}: written to {output}")


app = typer.Typer(help="The paper's tables and figures, computed anew.", no_args_is_help=True)
app.command("run")(run)
app.command("table")(table)
app.command("figure")(figure)
