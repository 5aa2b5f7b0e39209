"""The options by which attack, certify and audit name a model and its data, written once."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from r2et.cli.common import (
    AsJson,
    DataOptions,
    Dates,
    Decimal,
    Drop,
    Encoding,
    MissingMarks,
    ReadingOptions,
    Seed,
    Separator,
    Thousands,
    parse_options,
    print_notes,
    split_names,
)
from r2et.errors import InputError, ModelError, in_words
from r2et.foreign import is_code
from r2et.numerics.values import quoted
from r2et.registry import foreign_packages

if TYPE_CHECKING:
    from r2et.auditing import Subject
    from r2et.explainers import Explainer
    from r2et.predictors import OpenedModel

_PANEL = "Model and data"


@dataclass(frozen=True)
class SubjectOptions:
    """A model, its data and how to print; the fields are options of the command line."""

    model: Annotated[
        str,
        typer.Argument(
            help="A folder of `r2et train` or of save() of an estimator, a torch.export program (.pt2), or "
            "package.module:factory, which imports and runs that code."
        ),
    ]
    weights: Annotated[
        Path | None, typer.Option(help="Weights of a factory's model (.safetensors).", rich_help_panel=_PANEL)
    ] = None
    factory_arg: Annotated[
        list[str] | None,
        typer.Option(help="Argument of the factory, e.g. --factory-arg hidden=32.", rich_help_panel=_PANEL),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            help="A CSV or Parquet file, or a data set of `r2et data list`; by default the one it was trained on.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(help="Column to predict; of a data set with several labels, which.", rich_help_panel=_PANEL),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of the file in the order of the training: a,b,c.", rich_help_panel=_PANEL),
    ] = None
    drop: Drop = None
    sep: Separator = None
    decimal: Decimal = None
    thousands: Thousands = None
    encoding: Encoding = None
    dates: Dates = None
    missing: MissingMarks = None
    classes: Annotated[
        str | None,
        typer.Option(
            help="Labels in the order of the model's outputs: no,yes. Sorted by default.", rich_help_panel=_PANEL
        ),
    ] = None
    all_rows: Annotated[
        bool,
        typer.Option("--all-rows", help="Use the rows that it was trained on too.", rich_help_panel=_PANEL),
    ] = False
    option: DataOptions = None
    explainer: Annotated[
        str | None,
        typer.Option(
            help="The explanation: {explainers}, or package.module:Class, which is imported; by default the one "
            "that the model was trained for, else the gradient.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    trust: Annotated[
        list[str] | None,
        typer.Option(
            help="Code, package.module:Class, that the model's file may name; it is imported.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", help="How many features count as salient; as in the training by default, or 8."),
    ] = None
    seed: Seed = 0
    as_json: AsJson = False

    @property
    def reading(self) -> ReadingOptions:
        """What was said about how the file is written."""
        return ReadingOptions(**{entry.name: getattr(self, entry.name) for entry in fields(ReadingOptions)})

    def open_model(self) -> "OpenedModel":
        """The model alone."""
        from r2et.predictors import open_model
        from r2et.predictors.factories import parse_arguments

        arguments = parse_arguments(self.factory_arg or [])
        return open_model(self.model, weights=self.weights, arguments=arguments, trust=self.trust or ())

    def subjects(self, limit: int, *others: "OpenedModel") -> "list[Subject]":
        """The model, and others to compare it with, on the same rows."""
        from r2et.explainers import EXPLAINERS, ByColumns

        if self.explainer is not None:
            # before anything is read: a wrong name is told at once
            kind = EXPLAINERS.find(self.explainer).thing
            by_columns = issubclass(kind, ByColumns)
            if not by_columns:
                EXPLAINERS.create(self.explainer)
        subjects = self._subjects(limit, *others)
        if self.explainer is None:
            return subjects
        if by_columns:
            return [replace(subject, explainer=_of_columns(subject, kind)) for subject in subjects]
        return [
            replace(subject, explainer=EXPLAINERS.create(self.explainer, inputs=subject.explainer.inputs))
            for subject in subjects
        ]

    def _subjects(self, limit: int, *others: "OpenedModel") -> "list[Subject]":
        from r2et import tables
        from r2et.auditing import choose_rows, from_data_set, from_table
        from r2et.tables.files import is_table

        if limit < 1:
            raise InputError(f"--limit must be at least 1, got {limit}")
        options = parse_options(self.option or [])
        models = [self.open_model(), *others]
        if self.data is None or not is_table(self.data):
            for name, value in (("--columns", self.columns), ("--classes", self.classes)):
                if value is not None:
                    raise InputError(f"{name} is for a file of your own: add --data file.csv --target column")
            self.reading.refuse("is for a file of your own: add --data file.csv --target column")
            if self.data is None and models[0].origin is not None:
                raise InputError(
                    f"{self.model!r} was trained on a file of your own: add --data file.csv, its target is "
                    f"{models[0].origin.target!r}"
                )
            return [
                from_data_set(opened, self.data, target=self.target, options=options, limit=limit)
                for opened in models
            ]
        if options:
            raise InputError("--option is for the data sets of `r2et data list`, not for a file")
        origins = [opened.origin for opened in models if opened.origin is not None]
        target = self.target or (origins[0].target if origins else None)
        columns = None if self.columns is None else split_names("--columns", self.columns)
        table = tables.read_table(
            self.data,
            target,
            columns,
            drop=self.reading.dropped(),
            like=next((origin.format for origin in origins if origin.format is not None), None),
            hints=self.reading.hints(),
        )
        print_notes(table.path.name, table.said)
        classes = None if self.classes is None else split_names("--classes", self.classes)
        rows, which = choose_rows(table, models, limit=limit, seed=self.seed, every=self.all_rows)
        subjects = [from_table(opened, table, rows, classes=classes, which=which) for opened in models]
        for subject in subjects:
            print_notes(subject.name, [note for note in subject.notes if note not in table.said])
        return subjects

    def subject(self, limit: int) -> "Subject":
        """The model on its rows."""
        return self.subjects(limit)[0]


def in_plausible_units(subject: "Subject", plausible: str | None) -> "Subject":
    """The subject with radii in the units of --plausible, which are said; as it is without the option."""
    if plausible is None:
        return subject
    counted = subject.in_plausible_units(plausible)
    print_notes(subject.name, counted.notes[-1:])
    return counted


def _of_columns(subject: "Subject", kind: "type[Explainer]") -> "Explainer":
    """An explainer of the columns of a subject's table."""
    from r2et.explainers import ColumnEffects, Contributions

    name = "contributions" if kind is Contributions else "column-effects"
    if subject.columns is None:
        raise InputError(
            f"{subject.data!r} does not say which features make up its columns: {name} explains built-in "
            "tables and what an estimator of r2et encodes"
        )
    if kind is not Contributions:
        return ColumnEffects(columns=subject.columns)
    if subject.background is None:
        raise InputError(
            f"contributions are measured against a background, and {subject.name!r} has none: a StableClassifier "
            "has one. In Python: Contributions(columns=columns, background=Background.from_rows(x, columns))"
        )
    return Contributions(columns=subject.columns, background=subject.background)


def _foreign(error: BaseException, texts: Iterable[object]) -> str | None:
    """Whose code an exception came out of: that of one of these texts `package.module:thing`, or of a plug-in."""
    frames = traceback.walk_tb(error.__traceback__)
    modules = {str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in frames} - {"r2et"}
    for text in texts:
        if is_code(text) and str(text).partition(":")[0].partition(".")[0] in modules:
            return str(text)
    return next(iter(sorted(modules & foreign_packages())), None)


def takes_subject(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command whose first parameter is a SubjectOptions take its fields as options of the command line."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    hints = get_type_hints(SubjectOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if entry.default is MISSING else entry.default,
            annotation=hints[entry.name],
        )
        for entry in fields(SubjectOptions)
    ]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        from r2et.numerics.attention import math_attention

        subject = SubjectOptions(**{entry.name: arguments.pop(entry.name) for entry in fields(SubjectOptions)})
        try:
            # the other kernels of attention cannot be differentiated twice
            with math_attention():
                command(subject, **arguments)
        except (Exception, SystemExit) as error:
            told = str(error)
            if isinstance(error, RuntimeError) and ("derivative" in told or "does not require grad" in told):
                raise ModelError(
                    f"{subject.model!r} cannot be differentiated twice: {error}. r2et.validate.check(model, x) in "
                    "Python says where, and what to do"
                ) from error
            culprit = _foreign(error, [subject.model, subject.explainer, *arguments.values()])
            if isinstance(error, InputError) or culprit is None:
                raise
            by = "r2et.validate.check(model, x) in Python" if culprit == subject.model else "R2ET_DEBUG=1"
            raise ModelError(
                f"the code of {quoted(culprit)} raised {in_words(error)}. Mend it, or see where by {by}"
            ) from error

    ordered = [*shared[:-3], *(entry.replace(kind=inspect.Parameter.KEYWORD_ONLY) for entry in own), *shared[-3:]]
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # typer reads it
    return run
