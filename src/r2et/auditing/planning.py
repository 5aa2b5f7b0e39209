"""The plan of an audit: what was handed over, read and checked. Nothing here runs the model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from torch import Tensor, nn

from r2et.attacks import ATTACKS, Attack, ERAttack, GradientDescentAttack, MSEAttack, NoiseAttack, WorstCase
from r2et.attacks.worst_case import Budget
from r2et.auditing.inputs import Layout, Outcome, choose_radii, outcome_of, typical_spread
from r2et.auditing.result import AuditSettings
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain, Reach, Threat, chosen_threat, under_threat
from r2et.errors import InputError
from r2et.explainers import Contributions, Explainer, table_explainer
from r2et.numerics.checks import as_numbers, check_outcomes
from r2et.numerics.memory import at_once
from r2et.numerics.preflight import check_module
from r2et.numerics.values import (
    check_choice,
    check_chunk_size,
    check_count,
    check_flag,
    check_kind,
    check_seed,
    check_text,
    few,
    quoted,
)
from r2et.scores import TOLERANCE, single
from r2et.tables.rows import Rows, read_rows
from r2et.tables.units import Units

if TYPE_CHECKING:
    from r2et.tables.rows import Inputs, Labels

#: rows in a chunk, at most: an interrupt loses the chunk it falls into; and what attacks keep of each input value
ROWS_AT_ONCE, GRAPHS = 512, 256
#: rows in which columns that sum to 1 are called a category, at least
LEAST_ROWS = 20


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a person may choose about an audit; `r2et.audit` describes each of them."""

    k: int
    radii: Iterable[float] | None
    explainer: Explainer | None
    domain: Domain | None
    threat: Threat | None
    steps: int
    budget: Budget
    seed: int
    chunk_size: int | None
    progress: bool
    feature_names: Iterable[Any] | None
    class_names: Iterable[Any] | None
    row_names: Iterable[Any] | None
    layout: Layout | None
    name: str
    certificate: bool
    attacks: Sequence[str | type[Attack] | Attack] | None
    outcome: Outcome | None = None

    def checked(self) -> "Options":
        """The same with Python's own numbers, or an InputError that names the option."""
        if self.explainer is not None:
            check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        if self.domain is not None:
            check_kind("domain", self.domain, Domain, "r2et.Domain(lower=0.0)")
        if self.layout is not None:
            example = "r2et.data.ImageLayout((1, 28, 28), (0.1,), (0.3,))"
            check_kind("layout", self.layout, (ImageLayout, GraphLayout), example)
        if self.outcome is not None:
            check_kind("outcome", self.outcome, Outcome, 'r2et.auditing.Outcome("price", mean=0.0, scale=1.0)')
        check_count("k", self.k)
        check_count("steps", self.steps)
        check_seed(self.seed)
        check_choice("budget", self.budget, get_args(Budget))
        check_chunk_size(self.chunk_size)
        check_text("name", self.name)
        check_flag("progress", self.progress)
        check_flag("certificate", self.certificate)
        # figures are written as JSON, which knows Python's numbers alone
        return replace(self, k=int(self.k), steps=int(self.steps), seed=int(self.seed))


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What an audit will do.

    Attributes:
        model: maps x to logits (N, C), without its gauge if the threat respects categories.
        reach: what may be perturbed.
        x: (N, *features).
        y: class numbers or numbers (N,), not yet checked against the model's outputs.
        feature_names, row_names: what the data call them, or ().
        units: of a table's columns; None if these are unknown.
        target: what the classes are of, or "".
        explainer: the one that was chosen, or the one that suits the data.
        notes: what to know before believing the figures, as sentences without their full stop.
        options: as they were chosen.
        radii: of the attacks, rising, each once.
        attacks: in the order of the report: noise first, the worst case last.
        settings: for the record.
        chunk: rows that are attacked at once.
    """

    model: nn.Module
    reach: Reach
    x: Tensor
    y: Tensor
    explainer: Explainer
    feature_names: tuple[str, ...]
    row_names: tuple[str, ...]
    units: Units | None
    target: str
    notes: tuple[str, ...]
    options: Options
    radii: tuple[float, ...]
    attacks: tuple[Attack, ...]
    settings: AuditSettings
    chunk: int

    def for_outputs(self, logits: Tensor) -> "Plan":
        """The plan for a model with logits (N, C): one with one output predicts numbers, within a tolerance."""
        check_outcomes(self.y, len(self.x), logits.shape[1])
        if not single(logits):
            if self.options.outcome is not None:
                raise InputError(f"outcome is for a model with one output, this one has {logits.shape[1]}")
            return self
        y = as_numbers(self.y, logits)
        outcome = outcome_of(y) if self.options.outcome is None else self.options.outcome
        explainer = replace(self.explainer, score="output")
        attacks = tuple(_within(attack, explainer, outcome) for attack in self.attacks)
        settings = replace(
            self.settings,
            attacks=tuple(map(repr, attacks[1:])),
            explainer=repr(explainer),
            tolerance=outcome.kept_within,
        )
        options = replace(self.options, outcome=outcome)
        return replace(self, y=y, explainer=explainer, attacks=attacks, settings=settings, options=options)

    @property
    def tolerance(self) -> float:
        """How far a single output may move while a prediction counts as kept, in the units of the output."""
        outcome = self.options.outcome
        return TOLERANCE if outcome is None else outcome.kept_within / outcome.scale


def _within(attack: Attack, explainer: Explainer, outcome: Outcome) -> Attack:
    """An attack on the output, with the tolerance of the outcome."""
    return replace(attack, explainer=explainer, tolerance=outcome.kept_within / outcome.scale)


def make_plan(model: nn.Module, x: "Inputs", y: "Labels | None", options: Options) -> Plan:
    """Read and check what `audit` was given."""
    check_module(model)
    options = options.checked()
    rows = read_rows(x, y, model)
    options, explainer = _completed(options, rows)
    explainer.check_shape(rows.x)
    model, reach = under_threat(model, rows.x, options.domain, options.threat, inputs=explainer.inputs)
    scale = typical_spread(rows.x, options.domain, explainer.inputs)
    radii, reason = choose_radii(options.radii, scale)
    plain, worst = choose_attacks(options, explainer, max(radii))
    settings = AuditSettings(
        radii=tuple(radii),
        radii_reason=reason,
        scale=scale,
        attacks=tuple(map(repr, (*plain, worst))),
        own_attacks=options.attacks is not None,
        recipe=worst.recipe,
        threat=reach.threat,
        steps=options.steps,
        budget=options.budget,
        seed=options.seed,
        explainer=repr(explainer),
        # the neighbours of thickness are about as far away as the smallest radius
        thickness_sigma=float(min(radii) / rows.x[0].numel() ** 0.5),
        uncertified="",
    )
    return Plan(
        model=model,
        reach=reach,
        x=rows.x,
        y=rows.y,
        explainer=explainer,
        feature_names=rows.names,
        units=rows.units,
        target=rows.target,
        notes=_notes(rows, options.domain),
        row_names=_row_names(options.row_names, rows.index, len(rows.x)),
        options=options,
        radii=tuple(sorted(set(radii))),
        attacks=(*plain, worst),
        settings=settings,
        chunk=_rows_at_once(rows.x, options.chunk_size),
    )


def _completed(options: Options, rows: Rows) -> tuple[Options, Explainer]:
    """The options with what the rows know in place of what was left out, and the explainer."""
    domain = rows.domain if options.domain is None else options.domain
    if domain is None and rows.columns is not None:
        domain = rows.columns.domain()
    explainer = options.explainer
    if explainer is None:
        # the other threats move what columns cannot be explained along
        stays = chosen_threat(options.threat, domain) == "domain"
        explainer = table_explainer(rows.columns if stays else None)
    return replace(options, domain=domain), explainer


def _notes(rows: Rows, domain: Domain | None) -> tuple[str, ...]:
    """That columns look like categories which nobody has named."""
    few_rows = len(rows.x) < LEAST_ROWS  # in a few rows columns sum to 1 by chance
    if domain is not None or rows.columns is not None or rows.x.ndim != 2 or few_rows:
        return ()
    names = rows.names or tuple(f"feature {i}" for i in range(rows.x.shape[1]))
    groups = Domain.from_rows(rows.x).groups
    return tuple(
        f"columns {few([names[i] for i in group])} look like one category (one-hot): pass "
        f"domain=Domain(groups=[{list(group)}]), or what they do off their sum counts"
        for group in groups
    )


def _row_names(chosen: Iterable[Any] | None, index: tuple[str, ...], count: int) -> tuple[str, ...]:
    if chosen is None:
        return index
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise InputError(f"row_names must be a list of one name per row, got row_names={quoted(chosen)}")
    names = tuple(map(str, chosen))
    if len(names) != count:
        raise InputError(f"{len(names)} row names for {count} rows")
    return names


def _rows_at_once(x: Tensor, chunk_size: int | None) -> int:
    return min(chunk_size or ROWS_AT_ONCE, ROWS_AT_ONCE, at_once(x[0].numel(), copies=GRAPHS, least=8))


def choose_attacks(options: Options, explainer: Explainer, radius: float) -> tuple[list[Attack], WorstCase]:
    """Noise and those that were asked for; and the worst case."""
    shared: dict[str, Any] = {"k": options.k, "radius": radius, "explainer": explainer}
    noise = NoiseAttack(**shared)
    chosen = options.attacks
    if chosen is None:
        paper = {**shared, "steps": options.steps}
        if isinstance(explainer, Contributions):
            # those to the probability, which the paper attacks, are no sums: each would be sampled, at every step
            paper["score"] = explainer.score
        plain = ERAttack(**paper), MSEAttack(**paper)
        return [noise, *plain], WorstCase(**shared, budget=options.budget)
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise InputError(f'attacks must be a list such as ["er", "mse"], got attacks={quoted(chosen)}')
    built = [_built(attack, options.steps, shared) for attack in chosen]
    members: list[str | type[Attack] | Attack] | None = ["worst-case", *built] if built else None
    return [noise, *built], WorstCase(**shared, budget=options.budget, members=members)


def _built(attack: str | type[Attack] | Attack, steps: int, shared: dict[str, Any]) -> Attack:
    """An attack that was asked for, with what all attacks of an audit share."""
    kind = type(attack) if isinstance(attack, Attack) else ATTACKS.find(attack).thing
    if kind in (NoiseAttack, WorstCase):
        raise InputError(f"{kind.__name__} is in every audit: leave it out of attacks")
    counts = issubclass(kind, GradientDescentAttack) and not isinstance(attack, Attack)
    # the norm and what is kept are those of every figure of an audit
    same = {**shared, "norm": "l2", "keep": "best", **({"steps": steps} if counts else {})}
    built: Attack = ATTACKS.create(attack, **same)
    return built
