"""The report: one self-contained HTML file from the contents of one or several audits."""

import base64
import datetime
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, Protocol

from markupsafe import Markup

from r2et.errors import InputError
from r2et.files.writing import write_text
from r2et.numerics.values import check_kind, check_path, check_text, quoted
from r2et.report import charts, embedding, images, words
from r2et.report.content import Content

if TYPE_CHECKING:
    from jinja2 import Environment

#: features in the table of fragile ones, at first sight and in all
FIRST, MOST = 12, 100


class Audited(Protocol):
    """What can be reported: an `r2et.auditing.Audit`."""

    def content(self) -> Content:
        """The numbers and names of the report."""


def write(
    audits: Audited | Content | Mapping[str, Audited | Content],
    path: str | os.PathLike[str],
    title: str = "",
) -> None:
    """Write a report as one self-contained HTML file; an old one stays until the new one is whole.

    Args:
        audits: an audit, or several by name, of models on the same rows with the same k: they are compared.
        path: of the file.
        title: of the page; "" = made from the names.

    >>> import r2et, tempfile, torch
    >>> x = torch.randn(20, 5)
    >>> y = (x[:, 0] > 0).long()
    >>> made = [r2et.models.MLP(5, 2), r2et.models.Linear(5, 2)]
    >>> network, linear = (r2et.audit(model, x, y, k=2, radii=(0.5,), budget="fast") for model in made)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write({"network": network, "linear": linear}, f"{folder}/report.html")
    """
    check_path("path", path)
    write_text(path, render(audits, title))


def render(
    audits: Audited | Content | Mapping[str, Audited | Content],
    title: str = "",
    date: datetime.date | None = None,
) -> str:
    """The report as text; arguments as in `write`, and the date that it carries (None = today)."""
    check_text("title", title)
    if date is not None:
        check_kind("date", date, datetime.date, "datetime.date(2024, 1, 1)")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    contents = _contents(audits)
    environment = Environment(
        loader=PackageLoader("r2et.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number, percent=words.percent, percent_fine=words.percent_fine, values=words.in_words
    )
    script, style = (_source(environment, name) for name in ("page.js", "style.css"))
    several = len(contents) > 1
    # one scale for all models
    span, floor = charts.radius_span(contents), charts.thickness_floor(contents)
    page: str = environment.get_template("page.html").render(
        title=title or _title(contents),
        date=(date or datetime.date.today()).isoformat(),
        version=_version(),
        several=several,
        comparison=words.comparison(contents) if several else ("", ""),
        models=[_model(content, span, floor) for content in contents],
        first=contents[0],
        embedded=embedding.as_json(data := embedding.explorer(contents)),
        shown=len(data["numbers"]),
        fragile=embedding.FRAGILE,
        listed=embedding.SHOWN,
        attack_words=words.ATTACKS,
        attack_names={entry["attack"] for content in contents for entry in content.attacks},
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


def _contents(audits: Any) -> list[Content]:
    given = audits if isinstance(audits, Mapping) else {"": audits}
    if not given:
        raise InputError("there is no audit to report: give at least one")
    found = []
    for name, entry in given.items():
        if not isinstance(entry, Content) and not callable(getattr(entry, "content", None)):
            raise InputError(f"audits must be what r2et.audit returns, or several by name, got {quoted(entry)}")
        content = entry if isinstance(entry, Content) else entry.content()
        found.append(replace(content, name=str(name)) if name else content)
    _check_comparable(found)
    return found


def _check_comparable(contents: Sequence[Content]) -> None:
    first = contents[0]
    for other in contents[1:]:
        for what, a, b in (
            ("rows", first.rows, other.rows),
            ("features", first.features, other.features),
            ("k", first.k, other.k),
            ("classes", len(first.class_names), len(other.class_names)),
            ("input features", len(first.input_names), len(other.input_names)),
            ("inputs in a row", first.samples.members, other.samples.members),
        ):
            if a != b:
                raise InputError(
                    f"the audits cannot be compared: {what} is {a} for {first.name!r}, but {b} for "
                    f"{other.name!r}; audit the models on the same rows with the same k, or write one report "
                    "each"
                )
        if not bool((first.samples.labels == other.samples.labels).all()):
            raise InputError(
                f"the audits of {first.name!r} and {other.name!r} cannot be compared: their labels differ, so "
                "they are of different rows"
            )


def _title(contents: Sequence[Content]) -> str:
    names = [content.name for content in contents if content.name]
    return "Do the reasons hold? " + (" and ".join(names) if names else "An audit of explanations")


def _version() -> str:
    try:
        return metadata.version("r2et")
    except metadata.PackageNotFoundError:  # it runs from a folder that was not installed
        return "(version unknown)"


def _model(content: Content, span: tuple[float, float], floor: float) -> dict[str, Any]:
    """One model as the template needs it."""
    short, full = words.headline(content)
    fragile = fragile_features(content)
    return {
        "content": content,
        "short": short,
        "full": full,
        "bracket": charts.bracket(content, span),
        "histogram": charts.histogram(content, floor),
        "bracket_rows": _bracket_rows(content),
        "proof": words.proof_in_words(content),
        "thickness": words.thickness_in_words(content),
        "features": fragile[:FIRST],
        "more_features": fragile[FIRST:MOST],
        "untouched": content.features - len(fragile),
        "beyond": max(0, len(fragile) - MOST),
        "pictures": images.pictures(content),
        "maps": images.maps(content),
        "largest": max(content.samples.radii),
    }


def _bracket_rows(content: Content) -> list[dict[str, float | None]]:
    noise = dict(content.curve("NoiseAttack"))
    return [
        {
            "radius": entry["radius"],
            "proven": _proven_at(content, entry["radius"]),
            "worst": entry["precision"],
            "noise": noise[entry["radius"]],
            "changed": entry["changed"],
        }
        for entry in content.attacks
        if entry["attack"] == "WorstCase"
    ]


def _proven_at(content: Content, radius: float) -> float | None:
    if content.proof is None:
        return None
    return dict(zip(content.proof.radii, content.proof.precision, strict=True)).get(radius)


def fragile_features(content: Content) -> list[dict[str, Any]]:
    """Features that enter or leave the salient set at the largest radius, most often first, then by importance.

    Returns:
        name, and the shares of all explanations in which it is salient, leaves and enters.
    """
    samples = content.samples
    leaves, enters, in_top = samples.leaves[-1], samples.enters[-1], samples.in_top
    total = len(samples) * samples.members
    weight = (leaves + enters) * (total + 1) + in_top
    found = []
    for i in weight.argsort(descending=True, stable=True).tolist():
        if not (leaves[i] or enters[i] or in_top[i]):
            break
        found.append(
            {
                "name": content.feature_names[i],
                "in_top": float(in_top[i]) / total,
                "leaves": float(leaves[i]) / total,
                "enters": float(enters[i]) / total,
            }
        )
    return found
