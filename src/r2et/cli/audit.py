"""`r2et audit`."""

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from r2et.cli.common import Limit, PlausibleOption, ThreatOption, interactive, parse_radii, print_json, print_table
from r2et.cli.subject import SubjectOptions, in_plausible_units, takes_subject
from r2et.errors import InputError
from r2et.files.writing import check_writable
from r2et.numerics.rounding import one_digit
from r2et.numerics.values import check_choice

if TYPE_CHECKING:
    from r2et.auditing import Audit, Subject
    from r2et.predictors import OpenedModel

#: in multiples of plausible change
PLAUSIBLE_RADII = (1.0, 2.0, 5.0)


@takes_subject
def audit(
    options: SubjectOptions,
    *,
    report: Annotated[Path | None, typer.Option(help="Write a page to show to others (.html).")] = None,
    compare: Annotated[
        str | None, typer.Option(help="Another model to set beside it, on the same rows: before and after.")
    ] = None,
    compare_weights: Annotated[
        Path | None, typer.Option(help="Weights of the other model, if it is a factory's.")
    ] = None,
    radii: Annotated[
        str | None, typer.Option(help="Attack radii, comma separated; by default from the data's scale.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Iterations of each attack.")] = 200,
    budget: Annotated[
        str, typer.Option(help="Effort of the worst case: fast, standard or thorough.")
    ] = "standard",
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="Beside noise and the worst case, er and mse by default: {attacks}, or package.module:Class, "
            "which is imported; may be repeated."
        ),
    ] = None,
    threat: ThreatOption = None,
    plausible: PlausibleOption = None,
    limit: Limit = 1000,
) -> None:
    """Measure and attack a model's explanations, and say what was found.

    The explanation is the one the model was trained for, else the gradient. A model that r2et train fitted to a
    file is audited on the rows of that file that training did not see. Ctrl-C keeps what is done.

    Example: r2et audit plain --data people.csv --target bought --report report.html

    Example: r2et audit shop.models:make --weights net.safetensors --data people.csv --target bought
    """
    budgets = parse_radii(radii) if radii is not None else None if plausible is None else PLAUSIBLE_RADII
    check_choice("budget", budget, ("fast", "standard", "thorough"))
    if report is not None:
        check_writable(report)
    others = _others(options, compare, compare_weights)
    subjects = _with_own_names(options.subjects(limit, *others), options.model, compare)
    subjects = [in_plausible_units(subject, plausible) for subject in subjects]
    settings = {"steps": steps, "budget": budget, "attacks": attack, "threat": threat, "seed": options.seed}
    audits, interrupted = _audits(subjects, options, budgets, settings)
    if report is not None:
        _write(audits, report)
    if options.as_json:
        _print_json(audits, options.model, subjects[0].data, compare)
    else:
        if len(audits) > 1:
            _print_comparison(audits)
        if report is not None:
            typer.echo(f"The report is in {report}")
    if interrupted:
        typer.echo("interrupted: what was done was kept", err=True)
        raise typer.Exit(130)


def _others(options: SubjectOptions, compare: str | None, weights: Path | None) -> "list[OpenedModel]":
    """The model of --compare, if there is one."""
    if compare is not None:
        # arguments are those of a factory: a folder or a program has none
        arguments = options.factory_arg if ":" in compare else None
        return [replace(options, model=compare, weights=weights, factory_arg=arguments).open_model()]
    if weights is not None:
        raise InputError("--compare-weights belongs to --compare package.module:factory")
    return []


def _audits(
    subjects: "list[Subject]",
    options: SubjectOptions,
    radii: tuple[float, ...] | None,
    settings: dict[str, Any],
) -> "tuple[dict[str, Audit], bool]":
    """One model after the other, shown as each is done; whether somebody pressed Ctrl-C."""
    k = min(subject.k for subject in subjects) if options.k is None else options.k
    audits: dict[str, Audit] = {}
    for subject in subjects:
        try:
            finding = subject.audit(k, radii=radii, progress=interactive(options.as_json), **settings)
        except KeyboardInterrupt:
            if not audits:
                raise
            return audits, True
        audits[subject.name] = finding
        # two models are compared at the same radii
        radii = finding.settings.radii
        if not options.as_json:
            _show(subject, finding, several=len(subjects) > 1)
        if not finding.complete:
            return audits, True
    return audits, False


def _print_json(audits: "dict[str, Audit]", model: str, data: str, compare: str | None) -> None:
    first, *rest = audits.values()
    content: dict[str, Any] = {"model": model, "data": data, **first.to_dict()}
    if rest:
        content["compare"] = {"model": compare, **rest[0].to_dict()}
    print_json(content)


def _with_own_names(subjects: "list[Subject]", *sources: str | None) -> "list[Subject]":
    """Two models of one name are told apart by what they were opened by, or by a number."""
    if len({subject.feature_names for subject in subjects}) > 1:
        raise InputError(
            "the two models see different features, so that neither radii nor lists can be compared: audit them "
            "one by one"
        )
    short = [subject.name for subject in subjects]
    long = [str(source) for source in sources[: len(subjects)]]
    numbered = [f"{name} ({number})" for number, name in enumerate(short, 1)]
    names = next(names for names in (short, long, numbered) if len(set(names)) == len(names))
    return [replace(subject, name=name) for subject, name in zip(subjects, names, strict=True)]


def _show(subject: "Subject", finding: "Audit", *, several: bool) -> None:
    from r2et.auditing.provenance import in_short

    if several:
        typer.echo(f"--- {subject.name} " + "-" * max(0, 75 - len(subject.name)))
    # how the file was read has been said
    reading = () if finding.source is None else finding.source.reading
    notes = tuple(note for note in finding.notes if note not in reading)
    typer.echo(replace(finding, notes=notes).summary())
    typer.echo("\n" + textwrap.fill(in_short(finding.provenance()), 80) + "\n")


def _quality(finding: "Audit") -> tuple[list[str], list[str]]:
    """What two figures of how well a model predicts are called, and the figures."""
    if finding.outcome is None:
        return ["accuracy", "AUC"], [f"{finding.accuracy:.4f}", f"{finding.auc:.4f}".replace("nan", "-")]
    from r2et.auditing.inputs import number_as_text

    return ["R2", "mean error"], [f"{finding.r2:.4f}", number_as_text(finding.mae)]


def _print_comparison(audits: "dict[str, Audit]") -> None:
    worst = {
        name: [row for row in finding.attacks if row.attack == "WorstCase"] for name, finding in audits.items()
    }
    first = next(iter(audits.values()))
    columns = ["model", *_quality(first)[0], *(f"P@{first.k} at {row.radius:g}" for row in worst[first.name])]
    rows = [
        [
            name,
            *_quality(finding)[1],
            *(one_digit(row.precision) for row in worst[name]),
        ]
        for name, finding in audits.items()
    ]
    chance = one_digit(first.individuality.chance)
    rows.append(["by chance", "", "", *[chance] * len(worst[first.name])])
    print_table("Under the worst case found", columns, rows)
    columns = ["model", "two share", *(f"kappa at {row.radius:g}" for row in worst[first.name])]
    rows = [[name, *_individuality(finding, len(worst[first.name]))] for name, finding in audits.items()]
    print_table("Are the lists about single inputs? Kappa, proven to attacked", columns, rows)


def _individuality(finding: "Audit", radii: int) -> list[str]:
    """What two lists share, and kappa at each radius."""
    lists = finding.individuality
    shared = one_digit(lists.overlap) if lists.comparable else "-"
    if not finding.kappas:
        return [shared, *["one list" if lists.comparable else "-"] * radii]
    return [
        shared,
        *(
            f"{bracket.attacked.value:.2f}"
            if bracket.proven is None
            else f"{bracket.proven.value:.2f} to {bracket.attacked.value:.2f}"
            for bracket in finding.kappas
        ),
    ]


def _write(audits: "dict[str, Audit]", path: Path) -> None:
    from r2et import report

    # models are compared on the same rows: one that was interrupted has fewer
    complete = {name: finding for name, finding in audits.items() if finding.complete}
    report.write(complete or audits, path)
