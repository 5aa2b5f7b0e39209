"""Where the figures of an audit come from: which file, which rows, which model, which versions, when."""

import datetime
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from r2et.explainers import Explainer
from r2et.explainers.background import Background

#: characters of a checksum that are enough for people
SHORT = 12
#: columns that are named one by one
NAMED = 12


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file or data set that the rows of an audit come from, as far as it is known.

    Attributes:
        data: name of the file or of the data set.
        sha256: of the file's bytes.
        rows: how many the file has; None = unknown.
        drawn: which of them were audited, in words.
        target: what the classes are of.
        left_out: columns of the file that the model does not see, and why.
        unseen: of the audited rows, how many training did not see; None = unknown.
        numbered: whether rows are called by their number in the file, counted from 1 after its line of names.
        reading: how the file was read, as sentences without their full stop; an audit has them among its notes.
    """

    data: str = ""
    sha256: str = ""
    rows: int | None = None
    drawn: str = ""
    target: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    unseen: int | None = None
    numbered: bool = False
    reading: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Made:
    """By what an audit was made, and when.

    Attributes:
        date: ISO.
        r2et, torch, python: versions.
    """

    date: str = ""
    r2et: str = ""
    torch: str = ""
    python: str = ""

    @classmethod
    def now(cls) -> "Made":
        """Here and today."""
        return cls(date=datetime.date.today().isoformat(), python=platform.python_version(), **_versions())


@cache
def _versions() -> dict[str, str]:
    return {name: _version(name) for name in ("r2et", "torch")}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # it runs from a folder that was not installed
        return "unknown"


def background_of(explainer: Explainer) -> Background | None:
    """The rows that an explanation is measured against, if there are any."""
    background = getattr(explainer, "background", None)
    return background if isinstance(background, Background) else None


def in_words(entries: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What `Audit.provenance` says, a line each: what, and its value. What is unknown is left out.

    >>> in_words({"data": "people.csv", "sha256": "ab" * 32, "file_rows": 1200, "target": "bought"})
    [('file', 'people.csv, sha256 abababababab...'), ('rows in the file', '1,200'), ('to predict', 'bought')]
    """
    lines = [
        ("model", entries.get("model")),
        ("file" if entries.get("sha256") else "data", _file(entries)),
        ("rows in the file", _count(entries.get("file_rows"))),
        ("rows audited", _audited(entries)),
        ("of these not in the training", _count(entries.get("unseen"))),
        ("to predict", entries.get("target")),
        ("how the file was read", "; ".join(entries.get("reading") or ())),
        ("columns left out", _left_out(entries.get("left_out") or {})),
        ("explanation", entries.get("explainer")),
        ("background", _background(entries.get("background"))),
        ("threat", entries.get("threat")),
        ("attack", _attack(entries)),
        ("radii", ", ".join(f"{radius:g}" for radius in entries.get("radii", ()))),
        ("seed", None if entries.get("seed") is None else str(entries["seed"])),
        ("versions", _made(entries.get("versions") or {})),
        ("date", entries.get("date")),
    ]
    return [(name, text) for name, text in lines if text]


def _file(entries: Mapping[str, Any]) -> str:
    checksum = f"sha256 {entries['sha256'][:SHORT]}..." if entries.get("sha256") else ""
    return ", ".join(filter(None, (entries.get("data"), checksum)))


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _audited(entries: Mapping[str, Any]) -> str:
    count, drawn = _count(entries.get("rows")), str(entries.get("drawn") or "")
    told = drawn.replace(",", "").startswith(count.replace(",", ""))
    return drawn if told else f"{count}: {drawn}" if drawn else count


def _left_out(columns: Mapping[str, str]) -> str:
    told = [f"{name} ({why})" if why else name for name, why in list(columns.items())[:NAMED]]
    more = len(columns) - len(told)
    return ", ".join([*told, *([f"and {more} more"] if more > 0 else [])])


def _background(background: Mapping[str, Any] | None) -> str:
    if not background:
        return ""
    return f"{background['rows']} rows that are nobody’s, sha256 {background['sha256'][:SHORT]}..."  # noqa: RUF001


def _attack(entries: Mapping[str, Any]) -> str:
    return f"{entries['recipe']}, effort {entries['budget']}" if entries.get("recipe") else ""


def _made(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def in_short(entries: Mapping[str, Any]) -> str:
    """File, rows and target on a line or two; "" where no file or data set is known.

    >>> in_short({"data": "people.csv", "sha256": "ab" * 32, "file_rows": 1200, "target": "bought"})
    'people.csv (sha256 abababababab..., 1,200 rows), to predict: bought.'
    """
    if not entries.get("data"):
        return ""
    rows = _count(entries.get("file_rows"))
    checksum = f"sha256 {entries['sha256'][:SHORT]}..." if entries.get("sha256") else ""
    inside = ", ".join(filter(None, (checksum, f"{rows} rows" if rows else "")))
    told = [f"{entries['data']} ({inside})" if inside else str(entries["data"])]
    told += [f"to predict: {entries['target']}"] if entries.get("target") else []
    left_out = _left_out(entries.get("left_out") or {})
    sentences = [", ".join(told), _audited(entries), f"Columns left out: {left_out}" if left_out else ""]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
