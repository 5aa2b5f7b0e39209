"""The report: one self-contained HTML file from the contents of one or several audits."""

import base64
import datetime
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch
from markupsafe import Markup

from r2et.auditing import AttackRow, Audit
from r2et.auditing.provenance import in_words
from r2et.certificates.both_ends import outwards
from r2et.errors import InputError
from r2et.files.writing import write_text
from r2et.numerics.values import check_kind, check_path, check_text, quoted
from r2et.report import charts, embedding, images, own_lists, words

if TYPE_CHECKING:
    from jinja2 import Environment

#: features in the table of fragile ones, at first sight and in all
FIRST, MOST = 12, 100


def write(audits: Audit | Mapping[str, Audit], path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write a report as one self-contained HTML file; an old one stays until the new one is whole.

    Args:
        audits: an audit, or several by name, of models on the same rows with the same k: they are compared.
        path: of the file.
        title: of the page; "" = made from the names.

    >>> import r2et, tempfile, torch
    >>> x = torch.randn(20, 5)
    >>> y = (x[:, 0] > 0).long()
    >>> models = [r2et.models.MLP(5, 2), r2et.models.Linear(5, 2)]
    >>> network, linear = (r2et.audit(model, x, y, k=2, radii=(0.5,), budget="fast") for model in models)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write({"network": network, "linear": linear}, f"{folder}/report.html")
    """
    check_path("path", path)
    write_text(path, render(audits, title=title))


def render(audits: Audit | Mapping[str, Audit], *, title: str = "", date: datetime.date | None = None) -> str:
    """The report as text; arguments as in `write`, and the date that it carries (None = today)."""
    check_text("title", title)
    if date is not None:
        check_kind("date", date, datetime.date, "datetime.date(2024, 1, 1)")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    named = _named(audits)
    environment = Environment(
        loader=PackageLoader("r2et.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        replaced=words.replaced,
        number=words.number,
        percent=words.percent,
        percent_fine=words.percent_fine,
        values=words.in_words,
    )
    script, style = (_source(environment, name) for name in ("page.js", "style.css"))
    several = len(named) > 1
    # one scale for all models
    span, floor = charts.radius_span(named), charts.thickness_floor(named)
    page: str = environment.get_template("page.html").render(
        title=title or _title(named),
        date=(date or datetime.date.today()).isoformat(),
        version=_version(),
        several=several,
        comparison=words.comparison(named) if several else ("", ""),
        models=[_model(audit, span, floor) for audit in named],
        first=named[0],
        embedded=embedding.as_json(data := embedding.explorer(named)),
        shown=len(data["numbers"]),
        what=named[0].ranks.removesuffix("s"),
        called=words.rows_called(named[0]),
        one=words.rows_called(named[0], 1),
        fragile=embedding.FRAGILE,
        listed=embedding.SHOWN,
        attack_words=words.ATTACKS,
        attack_names={row.attack for audit in named for row in audit.attacks},
        faithfulness_words=words.FAITHFULNESS,
        script=script,
        style=style,
        # nothing but this page's own script may run, whatever a name contains
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page


def _source(environment: "Environment", name: str) -> Markup:
    """A file of ours as it is."""
    if environment.loader is None:
        raise AssertionError("the environment was made with a loader")
    return Markup(environment.loader.get_source(environment, name)[0])


def _named(audits: object) -> list[Audit]:
    """One or several audits, each with the name that the page calls it by."""
    by_name = audits if isinstance(audits, Mapping) else {"": audits}
    if not by_name:
        raise InputError("there is no audit to report: give at least one")
    named = []
    for name, audit in by_name.items():
        if not isinstance(audit, Audit):
            raise InputError(f"audits must be what r2et.audit returns, or several by name, got {quoted(audit)}")
        named.append(replace(audit, name=str(name)) if name else audit)
    _check_comparable(named)
    return named


def _check_comparable(audits: Sequence[Audit]) -> None:
    first = audits[0]
    for other in audits[1:]:
        for what, a, b in (
            ("rows", first.rows, other.rows),
            ("features", first.features, other.features),
            ("k", first.k, other.k),
            ("classes", len(first.class_names), len(other.class_names)),
            ("what is predicted", _predicted(first), _predicted(other)),
            ("input features", len(first.input_names), len(other.input_names)),
            ("inputs in a row", first.samples.members, other.samples.members),
        ):
            if a != b:
                raise InputError(
                    f"the audits cannot be compared: {what} is {a} for {first.name!r}, but {b} for "
                    f"{other.name!r}; audit the models on the same rows with the same k, or write one report "
                    "each"
                )
        if not _same_rows(first, other):
            raise InputError(
                f"the audits of {first.name!r} and {other.name!r} cannot be compared: their labels differ, so "
                "they are of different rows"
            )


def _same_rows(first: Audit, other: Audit) -> bool:
    """Whether what is true of the rows is the same in both: numbers in their own units, up to rounding."""
    ours, theirs = first.samples.labels, other.samples.labels
    if first.outcome is None or other.outcome is None:
        return bool((ours == theirs).all())
    one = first.outcome.mean + first.outcome.scale * ours.double()
    two = other.outcome.mean + other.outcome.scale * theirs.double()
    return torch.allclose(one, two, rtol=1e-4, atol=1e-4 * float(one.abs().max()))


def _predicted(audit: Audit) -> str:
    return "a class" if audit.outcome is None else audit.outcome.name


def _title(audits: Sequence[Audit]) -> str:
    names = [audit.name for audit in audits if audit.name]
    return "Do the reasons hold? " + (" and ".join(names) if names else "An audit of explanations")


def _version() -> str:
    try:
        return metadata.version("r2et")
    except metadata.PackageNotFoundError:  # it runs from a folder that was not installed
        return "(version unknown)"


def _model(audit: Audit, span: tuple[float, float], floor: float) -> dict[str, Any]:
    """One model as the template needs it."""
    short, full = words.headline(audit)
    fragile = fragile_features(audit)
    return {
        "audit": audit,
        "short": short,
        "full": full,
        "bracket": charts.bracket(audit, span),
        "histogram": charts.histogram(audit, floor),
        "bracket_rows": _bracket_rows(audit),
        "lists": own_lists.lists_in_words(audit),
        "kappas": own_lists.kappa_rows(audit),
        "one_list": words.one_list(audit),
        "examples": audit.examples(),
        "provenance": in_words(audit.provenance()),
        "proof": words.proof_in_words(audit),
        "both_ends": words.bracket_in_words(audit),
        "thickness": words.thickness_in_words(audit),
        "features": fragile[:FIRST],
        "more_features": fragile[FIRST:MOST],
        "untouched": audit.features - len(fragile),
        "beyond": max(0, len(fragile) - MOST),
        "pictures": images.pictures(audit),
        "maps": images.maps(audit),
        "largest": max(audit.samples.radii),
    }


def _bracket_rows(audit: Audit) -> list[dict[str, Any]]:
    noise = dict(audit.curve("NoiseAttack"))
    ends = {} if audit.bracket is None else {ends.radius: outwards(ends) for ends in audit.bracket.mean()}
    return [
        _bracket_row(row, noise[row.radius], ends.get(row.radius))
        for row in audit.attacks
        if row.attack == "WorstCase"
    ]


def _bracket_row(worst: AttackRow, noise: float, ends: tuple[str, str] | None) -> dict[str, Any]:
    """Both ends as text, rounded outwards; without a proof there is one."""
    below, above = (None, words.percent(worst.precision)) if ends is None else map(words.of_hundred, ends)
    return {"radius": worst.radius, "proven": below, "worst": above, "noise": noise, "changed": worst.changed}


def fragile_features(audit: Audit) -> list[dict[str, Any]]:
    """Features that enter or leave the salient set at the largest radius, most often first, then by importance.

    Returns:
        name, and the shares of all explanations in which it is salient, leaves and enters.
    """
    samples = audit.samples
    leaves, enters, in_top = samples.leaves[-1], samples.enters[-1], samples.in_top
    total = len(samples) * samples.members
    weight = (leaves + enters) * (total + 1) + in_top
    fragile = []
    for i in weight.argsort(descending=True, stable=True).tolist():
        if not (leaves[i] or enters[i] or in_top[i]):
            break
        fragile.append(
            {
                "name": audit.feature_names[i],
                "in_top": float(in_top[i]) / total,
                "leaves": float(leaves[i]) / total,
                "enters": float(enters[i]) / total,
            }
        )
    return fragile
