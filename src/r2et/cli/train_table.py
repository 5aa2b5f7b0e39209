"""`r2et train` on a person's own CSV or Parquet file: a StableClassifier, or a StableRegressor."""

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from r2et.cli.check import checked_table, problem
from r2et.cli.common import ReadingOptions, interactive, print_json, print_notes, say, split_names
from r2et.errors import InputError

if TYPE_CHECKING:
    from r2et.estimator.choosing import Sanity
    from r2et.tables import LabelledTable


@dataclass(frozen=True)
class DataSetOnly:
    """Options of `r2et train` that mean nothing for a person's own file."""

    preset: str
    option: list[str] | None
    threshold: float | None
    start: Path | None
    resume: bool
    compile: bool

    def refuse(self, data: str) -> None:
        """Raise if one was given: it would be ignored in silence."""
        for name, present in (
            ("--preset", self.preset != "cpu"),
            ("--option", self.option),
            ("--threshold", self.threshold is not None),
            ("--from", self.start),
            ("--resume", self.resume),
            ("--compile", self.compile),
        ):
            if present:
                raise InputError(
                    f"{name} is for the data sets of `r2et data list`, {data!r} is a file: leave it out"
                )


@dataclass(frozen=True)
class TableOptions:
    """A file and how to read it."""

    path: str
    target: str | None
    columns: str | None
    keep: str | None
    categorical: str | None
    test_fraction: float
    regression: bool = False
    reading: ReadingOptions = field(default_factory=ReadingOptions)


def train_table(
    options: TableOptions,
    output: Path,
    method: str,
    settings: dict[str, float] | None,
    k: int | None,
    schedule: dict[str, Any],
    seed: int,
    as_json: bool,
) -> None:
    """Fit an estimator to most rows of a file, save it, and say how well it does on the others."""
    import numpy as np

    from r2et import tables
    from r2et.estimator import StableClassifier, StableRegressor
    from r2et.estimator.saving import save
    from r2et.progress import watching
    from r2et.recipes import method_title
    from r2et.tables.origins import Origin
    from r2et.tables.splits import hold_out

    if not 0 <= options.test_fraction < 1:
        raise InputError(f"--test-fraction is a share from 0 to below 1, got {options.test_fraction}")
    table, report = checked_table(
        options.path,
        options.target,
        reading=options.reading,
        columns=options.columns,
        keep=options.keep,
        categorical=options.categorical,
        numbers=options.regression,
        seed=seed,
        progress=interactive(as_json),
    )
    print_notes(table.path.name, table.said)
    if not report.usable:
        raise InputError(problem(report))
    for level, sentence in report.brief():
        say(level, sentence)
    classes = [] if options.regression else tables.class_order(table.labels)
    # of numbers all rows are one group
    groups = np.zeros(len(table.frame), dtype=np.int64)
    if classes:
        groups = tables.class_numbers(table.labels, classes).numpy()
    seen, held_out = hold_out(groups, options.test_fraction, seed=seed)
    train = table.rows(seen)
    coded = [] if options.categorical is None else split_names("--categorical", options.categorical)
    categorical = [name for name in coded if name in train.frame] or None
    # a list of most columns says little
    wanted = min(8, max(1, table.frame.shape[1] // 2)) if k is None else k
    estimator = (StableRegressor if options.regression else StableClassifier)(
        k=wanted,
        method=method,
        settings=settings,
        categorical_features=categorical,
        random_state=seed,
        **schedule,
    )
    with watching(interactive(as_json)):
        fitted = estimator.fit(train.frame, train.labels if options.regression else train.labels.to_numpy())
    held = tuple(table.numbers[held_out].tolist())
    origin = Origin(table.target, table.sha256, table.file_rows, held, table.format, dict(report.dropped))
    save(fitted, output, origin.to_dict())
    summary = {
        "data": str(options.path),
        "target": table.target,
        "notes": list(table.said),
        "classes": [str(label) for label in classes] or None,
        "method": method,
        "settings": fitted.settings_,
        "k": fitted.k_,
        "features": len(fitted.encoding_.names),
        "columns": len(fitted.encoding_.columns),
        "left_out": dict(report.dropped),
        "warnings": [sentence for level, sentence in report.brief() if level == "warning"],
        "seed": seed,
        "rows": len(train.frame),
        "held_out": len(held_out),
        **_judge(fitted, table.rows(held_out)),
        "linear_is_as_good": fitted.sanity_.linear_is_as_good,
    }
    if as_json:
        print_json({**summary, "output": str(output)})
    else:
        title = method_title(method)
        additive = fitted.network == "additive"
        _print(summary, fitted.sanity_, f"An additive network ({title})" if additive else title, output)


def _judge(fitted: Any, held_out: "LabelledTable") -> dict[str, float | None]:
    """Accuracy and AUC, or R2 and the mean absolute error, on rows that training did not see."""
    from r2et import metrics

    numbers = fitted.outputs == 1
    # a value that is missing where none was in training: nothing can be predicted
    whole = ~fitted.encoding_.new_gaps(held_out.frame).any(axis=1).to_numpy()
    held_out = held_out.rows(whole.nonzero()[0])
    if not len(held_out.frame):
        return {"r2": None, "mae": None} if numbers else {"accuracy": None, "auc": None}
    y, x = fitted.target_numbers(held_out.labels), fitted.encode(held_out.frame)
    several = len(y.unique()) > 1
    quality = metrics.quality(fitted.model_, x, y) if several else None
    if numbers:
        return {"r2": quality, "mae": metrics.mae(fitted.model_, x, y) * fitted.scale_}
    return {"accuracy": float((fitted.model_(x).argmax(1) == y).double().mean()), "auc": quality}


def _print(summary: dict[str, Any], sanity: "Sanity", title: str, output: Path) -> None:
    from r2et.auditing.inputs import number_as_text

    judged = ""
    figures = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2", "mae": "mean absolute error"}
    known = [
        f"{words} {number_as_text(summary[name]) if name == 'mae' else format(summary[name], '.4f')}"
        for name, words in figures.items()
        if summary.get(name) is not None
    ]
    if known:
        judged = f" {', '.join(known)} on the {summary['held_out']:,} others."
    typer.echo(
        textwrap.fill(
            f"{title} on {Path(summary['data']).name}, trained on {summary['rows']:,} rows:{judged} "
            f"k = {summary['k']} of {summary['columns']} columns.",
            80,
        )
    )
    # the advice is written for Python
    typer.echo(textwrap.fill(str(sanity).replace('method="linear"', "--method linear"), 80))
    typer.echo(f"Saved to {output}/")
