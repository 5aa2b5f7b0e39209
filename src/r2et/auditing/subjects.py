"""A model together with the rows it is measured on: what the commands attack, certify and audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from r2et import data
from r2et.auditing.inputs import Outcome, outcome_of
from r2et.auditing.provenance import Source
from r2et.auditing.result import Audit
from r2et.auditing.running import audit
from r2et.columns import Columns
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain, Threat, chosen_threat, in_plausible_units
from r2et.errors import CheckpointError, InputError
from r2et.explainers import Background, ByColumns, ColumnEffects, Explainer, Gradient, table_explainer
from r2et.numerics.checks import ONE_LOGIT, check_labels, check_outcomes
from r2et.numerics.memory import at_once
from r2et.numerics.values import check_count, check_flag, check_kind, check_seed, check_text, quoted
from r2et.predictors.models import OpenedModel
from r2et.tables.columns import numeric_inputs
from r2et.tables.labelled import LabelledTable
from r2et.tables.labels import as_numbers, class_numbers, class_order
from r2et.tables.plausible import Plausible, parse_plausible, proposed
from r2et.tables.rows import Rows
from r2et.tables.units import Units
from r2et.training.fitting import check_runs


@dataclass(frozen=True)
class Subject:
    """A model and rows that it takes.

    Attributes:
        name: of the model.
        data: of the data set or the file.
        rows: which rows these are, in words.
        model: maps x to logits (N, C).
        x: (N, *features), in the model's dtype.
        y: class numbers (N,), or numbers in the units of the model's output.
        k: how many features to look at unless a user says otherwise.
        explainer: ColumnEffects for a table whose columns are known; else the explanation that the model was
            trained for, or the gradient.
        domain: the values that the features can take; None if that is unknown.
        columns: which features make up which column; None if that is unknown.
        background: what contributions of its columns are measured against; None if it has none.
        row_numbers: of the rows in their file, from 0; empty for a data set.
        feature_names, class_names, layout: for reports.
        outcome: the number that is predicted; None for classes.
        preset: radius and steps of the attack, as saved with an r2et checkpoint.
        notes: what to know before believing figures from these rows, as sentences without their full stop.
        plausible: one plausible change of each column of numbers; empty if the columns' units are unknown.
        scale: one plausible change of each feature, if x counts in these; None = x is as the model has it.
        units: of a table's columns; None if these are unknown.
        source: of the rows, for the record.
    """

    name: str
    data: str
    rows: str
    model: nn.Module = field(repr=False)
    x: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    k: int
    explainer: Explainer = field(repr=False)
    domain: Domain | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)
    background: Background | None = field(default=None, repr=False)
    row_numbers: tuple[int, ...] = field(default=(), repr=False)
    feature_names: tuple[str, ...] = field(default=(), repr=False)
    class_names: tuple[str, ...] = field(default=(), repr=False)
    layout: ImageLayout | GraphLayout | None = field(default=None, repr=False)
    preset: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    plausible: Mapping[str, Plausible] = field(default_factory=dict, repr=False)
    scale: Tensor | None = field(default=None, repr=False)
    units: Units | None = field(default=None, repr=False)
    source: Source = field(default_factory=Source, repr=False)
    outcome: Outcome | None = None

    @property
    def tolerance(self) -> float | None:
        """How far the output may move while the prediction counts as kept; None for classes."""
        return None if self.outcome is None else self.outcome.kept_within / self.outcome.scale

    @property
    def rows_at_once(self) -> int:
        """How many inputs are attacked together: an attack keeps several graphs of each."""
        return at_once(self.x[0].numel(), copies=32)

    def explainer_under(self, threat: Threat | None) -> Explainer:
        """The explanation under a threat: columns are explained where categories and flags stay as they are."""
        stays = chosen_threat(threat, self.domain) == "domain"
        explainer = Gradient() if isinstance(self.explainer, ByColumns) and not stays else self.explainer
        if self.scale is None:
            return explainer
        counted = explainer.in_units(self.scale)
        if (
            isinstance(counted, ColumnEffects)
            and len(self.feature_names) == len(counted.columns) == counted.columns.n
        ):
            # a gradient has no names of its own
            return replace(counted, columns=replace(counted.columns, names=self.feature_names))
        return counted

    def in_plausible_units(self, text: str) -> "Subject":
        """The same, with radii in multiples of plausible change; lists are what they were.

        Args:
            text: "auto", or what people say about columns, such as "age=1,income=2%": see
                `r2et.tables.parse_plausible`.
        """
        domain = Domain() if self.domain is None else self.domain
        if text.strip() != "auto" and not self.plausible:
            raise InputError(
                f"nothing is known about the units of the columns of {self.data!r}: use --plausible auto, or a "
                "table of your own"
            )
        changes = parse_plausible(text, self.plausible, self.feature_names) if self.plausible else {}
        domain = replace(domain, scale=self._scale(domain, changes))
        model, z, counted = in_plausible_units(self.model, self.x, domain, inputs=self.explainer.inputs)
        told = ", ".join(f"{name} {change}" for name, change in changes.items())
        note = f"radii are multiples of one plausible change{f': {told}' if told else ''}"
        return replace(
            self,
            model=model,
            x=z,
            domain=None if self.domain is None else counted,
            scale=model.scale,
            units=None if self.units is None else self.units.counted_in(model.scale),
            notes=(*self.notes, note),
        )

    def _scale(self, domain: Domain, changes: Mapping[str, Plausible]) -> Tensor | None:
        """One plausible change of each feature: that of the domain, in proportion to what is proposed."""
        if self.domain is None:
            # the model sees the numbers of the file as they are
            return torch.tensor([changes[name].amount for name in self.feature_names]) if changes else None
        if domain.scale is None or self.columns is None:
            return torch.as_tensor(domain.scale) if domain.scale is not None else None
        scale = torch.as_tensor(domain.scale).double().expand(self.columns.n).clone()
        for column, name in enumerate(self.columns.names):
            if name in changes:
                scale[list(self.columns.valued(column))] *= changes[name].amount / self.plausible[name].amount
        return scale

    def audit(self, k: int | None = None, **options: Any) -> Audit:
        """`r2et.audit` of these rows, with the names of features and classes."""
        finding = audit(
            self.model,
            self._rows(),
            k=self.k if k is None else k,
            explainer=self.explainer_under(options.get("threat")),
            chunk_size=self.rows_at_once,
            class_names=self.class_names or None,
            layout=self.layout,
            name=self.name,
            outcome=self.outcome,
            **options,
        )
        return replace(finding, notes=(*self.notes, *finding.notes), source=self.source)

    def _rows(self) -> Rows:
        """The rows with what is known about them; rows of a file are counted from 1, as people do."""
        return Rows(
            self.x,
            self.y,
            self.feature_names,
            tuple(str(number + 1) for number in self.row_numbers),
            self.domain,
            self.columns,
            self.units,
            self.source.target,
        )


def from_data_set(
    opened: OpenedModel,
    name: str | None = None,
    *,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int = 1000,
) -> Subject:
    """A model with the first test rows of a registered data set.

    Args:
        opened: any model but that of a saved estimator, which takes tables.
        name: of the data set; None = the one an r2et checkpoint was trained on, with its target and options.
        target: the label to predict, where the data has several.
        options: of the data set.
        limit: at most this many rows.
    """
    check_kind("opened", opened, OpenedModel, "what r2et.open_model returns")
    if limit is not None:
        check_count("limit", limit)
    if name is not None:
        check_text("name", name)
    if options is not None:
        check_kind("options", options, Mapping, '{"size": 64}')
    recorded = opened.information.get("data")
    name = name or recorded
    if opened.estimator is not None:
        raise InputError(
            f"{opened.source!r} is an estimator of tables: give it a file, --data file.csv --target column"
        )
    if not isinstance(name, str):
        raise InputError(
            f"{opened.source!r} does not say which data it was trained on: add --data NAME, or --data file.csv "
            "--target column"
        )
    chosen = dict(options or {})
    if name == recorded:
        target = target or opened.information.get("target")
        chosen = {**opened.information.get("data_options", {}), **chosen}
    loaded = data.load(name, target=target, **chosen)
    x, y = loaded.test.x[:limit].to(opened.dtype), loaded.test.y[:limit]
    try:
        check_labels(y, len(y), check_runs(opened.model, x[:1]).shape[1])
    except InputError as error:
        raise InputError(
            f"the model in {opened.source!r} does not fit data set {name!r}, whose test inputs have shape "
            f"{tuple(x.shape)}: {error}. Choose the data it was trained on with --data, --target and --option"
        ) from error
    explainer = opened.explainer or Gradient(inputs=loaded.inputs)
    k: int = opened.information.get("k", loaded.k)
    if loaded.columns is not None and explainer == Gradient():
        # gradients over encoded features are for the paper's tables: what people read is columns
        explainer = table_explainer(loaded.columns)
        k = min(k, max(1, len(loaded.columns) - 1))
    return Subject(
        name=opened.name,
        data=loaded.name,
        rows=f"{len(x)} test inputs",
        model=opened.model,
        x=x,
        y=y,
        k=k,
        explainer=explainer,
        domain=loaded.domain,
        columns=loaded.columns,
        feature_names=loaded.feature_names,
        class_names=loaded.class_names,
        layout=loaded.layout,
        preset=opened.information.get("attack", {}),
        source=Source(data=loaded.name, drawn=f"the first {len(x)} test inputs", target=target or ""),
    )


def from_table(
    opened: OpenedModel,
    table: LabelledTable,
    rows: NDArray[np.int64] | None = None,
    *,
    classes: Sequence[str] | None = None,
    which: str | None = None,
) -> Subject:
    """A model with rows of a person's own table.

    A saved estimator encodes the columns itself. Every other model sees the numbers of the file as they are.

    Args:
        opened: any model.
        table: columns and labels.
        rows: which rows, by position; None = all. `choose_rows` chooses them.
        classes: labels in the order of the model's outputs; None = sorted.
        which: which rows these are, in words.
    """
    check_kind("opened", opened, OpenedModel, "what r2et.open_model returns")
    check_kind("table", table, LabelledTable, "what r2et.tables.read_table returns")
    rows = np.arange(len(table.frame)) if rows is None else _positions(rows, len(table.frame))
    if which is not None:
        check_text("which", which)
    rows, gaps = _known_rows(opened, table, rows)
    chosen = table.rows(rows)
    caveat = ""
    if opened.origin is not None:
        caveat = opened.origin.caveat(table.path.name, table.sha256, chosen.numbers)
    shared: dict[str, Any] = {
        "name": opened.name,
        "data": table.path.name,
        "rows": which or f"{len(chosen.frame)} of {len(table.frame)} rows",
        "model": opened.model,
        "row_numbers": tuple(chosen.frame.index.tolist()),
        "preset": opened.information.get("attack", {}),
        "notes": (*table.said, *(note for note in (caveat, gaps) if note)),
        "source": _source(opened, table, rows, which),
    }
    if opened.estimator is not None:
        if classes is not None:
            raise InputError(f"{opened.source!r} knows its classes: leave out --classes")
        fitted = opened.estimator
        x = fitted.encode(_columns_of_fit(opened, chosen))
        return Subject(
            **shared,
            x=x,
            y=fitted.target_numbers(chosen.labels),
            k=fitted.k_,
            explainer=table_explainer(fitted.encoding_.as_columns),
            domain=fitted.domain_,
            columns=fitted.encoding_.as_columns,
            background=getattr(fitted, "background_", None),
            feature_names=fitted.encoding_.names,
            plausible=fitted.encoding_.plausible,
            units=Units.of(fitted.encoding_.describe(), chosen.frame),
            **_named(fitted.target_options(), table.target),
        )
    x = numeric_inputs(chosen.frame, opened.dtype, name=repr(table.path.name))
    names = tuple(chosen.frame.columns)
    try:
        logits = check_runs(opened.model, x[:1])
    except InputError as error:
        raise InputError(
            f"the model {opened.source!r} cannot take the {len(names)} columns {', '.join(names[:6])}"
            f"{' ...' if len(names) > 6 else ''} of {str(table.path)!r}: {error}. Choose columns, in the order of "
            "the training, by --columns"
        ) from error
    saved_k: int = opened.information.get("k", 8)
    told = _told(chosen, table, int(logits.shape[1]), classes)
    return Subject(
        **shared,
        **told,
        x=x,
        explainer=opened.explainer or Gradient(),
        k=max(1, min(saved_k, x.shape[1] - 1)),
        feature_names=names,
        plausible={name: proposed(x[:, i].double().numpy()) for i, name in enumerate(names)},
    )


def _known_rows(
    opened: OpenedModel, table: LabelledTable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], str]:
    """Rows that an estimator can encode, by position, and a sentence on those that are left out.

    One hole in a column that had none in training, by chance, is no reason to measure nothing.
    """
    if opened.estimator is None:
        return rows, ""
    missing = opened.estimator.encoding_.new_gaps(table.frame.iloc[rows])
    gone = missing.any(axis=1).to_numpy()
    if not gone.any() or gone.all():
        return rows, ""
    named = ", ".join(repr(name) for name in missing if missing[name].any())
    verb = "row is" if gone.sum() == 1 else "rows are"
    told = f"{int(gone.sum())} {verb} left out: a value is missing where none was in training ({named})"
    return rows[~gone], told


def _source(opened: OpenedModel, table: LabelledTable, rows: NDArray[np.int64], which: str | None) -> Source:
    """Which file and which of its rows."""
    origin = opened.origin
    known = origin is not None and origin.sha256 == table.sha256
    left_out: dict[str, str] = dict(getattr(origin, "dropped", {})) if known else {}
    used = getattr(opened.estimator, "feature_names_in_", None)
    if used is not None:
        kept = set(used)
        left_out |= {str(name): "" for name in table.frame if name not in kept and name not in left_out}
    return Source(
        data=table.path.name,
        sha256=table.sha256,
        rows=table.file_rows,
        drawn=which or f"{len(rows)} of {len(table.frame)} rows",
        target=table.target,
        left_out=left_out,
        unseen=len(np.intersect1d(table.numbers[rows], origin.held_out)) if origin is not None and known else None,
        numbered=True,
        reading=table.said,
    )


def _named(options: dict[str, Any], target: str) -> dict[str, Any]:
    """What an estimator says of its target, which has a name in a file."""
    outcome = options.get("outcome")
    return options if outcome is None else {**options, "outcome": replace(outcome, name=target)}


def _told(
    chosen: LabelledTable, table: LabelledTable, outputs: int, classes: Sequence[str] | None
) -> dict[str, Any]:
    """What is true of some rows of a table, for a model with this many outputs."""
    if outputs == 1:
        if classes is not None:
            raise InputError("the model has one output, a number and no class: leave out --classes")
        if not pd.api.types.is_numeric_dtype(table.labels):
            raise InputError(
                f"the model has one output, which is taken for a number that it predicts (regression), and column "
                f"{table.target!r} holds no numbers, such as {quoted(table.labels.iloc[0])}: {ONE_LOGIT}"
            )
        y = as_numbers(chosen.labels)
        check_outcomes(y, len(y), outputs)
        return {"y": y, "outcome": replace(outcome_of(y), name=table.target)}
    order = class_order(table.labels, outputs, classes)
    return {"y": class_numbers(chosen.labels, order), "class_names": tuple(map(str, order))}


def choose_rows(
    table: LabelledTable,
    models: Sequence[OpenedModel] = (),
    *,
    limit: int = 1000,
    seed: int = 0,
    every: bool = False,
) -> tuple[NDArray[np.int64], str]:
    """Rows that no model was trained on, if that is known; of too many, some at random.

    Args:
        table: of all rows.
        models: whose training rows are to be left out.
        limit: at most this many rows.
        seed: of the draw.
        every: take training rows too.

    Returns:
        Positions of rows in their order, and a sentence on which they are.
    """
    check_kind("table", table, LabelledTable, "what r2et.tables.read_table returns")
    check_count("limit", limit)
    check_seed(seed)
    check_flag("every", every)
    if not isinstance(models, Sequence) or not all(isinstance(opened, OpenedModel) for opened in models):
        raise InputError(f"models must be a list of what r2et.open_model returns, got {quoted(models)}")
    rows = np.arange(len(table.frame))
    which = "rows"
    if not every:
        known = [opened for opened in models if _held_out(opened, table)]
        for opened in known:
            rows = np.intersect1d(rows, _held_out(opened, table))
        if known:
            # what the others were trained on is not known, so nothing is said about them
            whose = "" if len(known) == len(models) else f" of {', '.join(opened.name for opened in known)}"
            which = f"rows that training{whose} did not see"
        if not len(rows):
            raise InputError(
                f"every row of {str(table.path)!r} was in the training of one of the models: train them with one "
                "--seed, or take all rows by --all-rows"
            )
    count = len(rows)
    if count > limit:
        rows = np.sort(np.random.default_rng(seed).permutation(rows)[:limit])
        return rows, f"{limit} of the {count} {which}, drawn at random (--limit)"
    return rows, f"{count} {which}"


def _positions(rows: object, count: int) -> NDArray[np.int64]:
    """Numbers of rows, checked: negative ones would count from the end."""
    try:
        numbers = np.asarray(rows)
        usable = numbers.ndim == 1 and numbers.dtype.kind in "iu" and len(numbers) > 0
    except (TypeError, ValueError, RuntimeError):
        usable = False
    if not usable or numbers.min() < 0 or numbers.max() >= count:
        raise InputError(f"rows must be a list of whole numbers from 0 to {count - 1}, got rows={quoted(rows)}")
    return numbers.astype(np.int64)


def _held_out(opened: OpenedModel, table: LabelledTable) -> tuple[int, ...]:
    """The rows of this very table that a model has not seen, by position; none if that is not known."""
    origin = opened.origin
    if origin is None or origin.sha256 != table.sha256:
        return ()
    if origin.rows != table.file_rows:
        raise CheckpointError(
            f"{opened.source!r} was trained on a file of {origin.rows} rows, {str(table.path)!r} has the same "
            f"checksum but {table.file_rows} rows: train it again"
        )
    return tuple(np.flatnonzero(np.isin(table.numbers, origin.held_out)).tolist())


def _columns_of_fit(opened: OpenedModel, table: LabelledTable) -> Any:
    """The columns that an estimator was fitted on; a file may hold more, in another order."""
    wanted = getattr(opened.estimator, "feature_names_in_", None)
    if wanted is None:
        return table.frame
    missing = [name for name in wanted if name not in table.frame]
    if missing:
        raise InputError(
            f"{str(table.path)!r} has no column {', '.join(map(repr, missing))}, which {opened.source!r} was "
            f"trained on"
        )
    return table.frame[list(wanted)]
