"""What a check of a table says: findings, and which columns are left out."""

import textwrap
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

from r2et.numerics.values import few
from r2et.tables.checks.remarks import KINDS, Level

WIDTH = 80
#: lines of one finding that are printed; JSON has all
_LINES = 8
#: columns of one kind whose names are printed
_NAMED = 60
#: what columns of a kind are called together
_PLURALS = {"whole number": "numbers", "number": "numbers", "category": "categories", "date": "dates"}
_MARKS: dict[Level, str] = {"error": "ERROR", "warning": "WARNING", "note": "note"}


@dataclass(frozen=True)
class Finding:
    """One kind of thing that was seen.

    Attributes:
        kind: a key of `r2et.tables.checks.remarks.KINDS`.
        level: "error" = no model can be trained, "warning" = a model may be worthless, "note" = to know.
        columns: in which it was seen; () = the table as a whole.
        seen: a phrase for each column, or one for the table, with counts and examples.
        done: what is done about it.
        change: how a person changes that.
        figures: plain JSON values for each of `seen`.
    """

    kind: str
    level: Level
    columns: tuple[str, ...]
    seen: tuple[str, ...]
    done: str
    change: str
    figures: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """What it is called."""
        return KINDS[self.kind].title

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "kind": self.kind,
            "level": self.level,
            "title": self.title,
            "columns": list(self.columns),
            "seen": list(self.seen),
            "done": self.done,
            "change": self.change,
            "figures": [dict(entry) for entry in self.figures],
        }

    def lines(self) -> Iterator[str]:
        """The finding, as printed at 80 columns."""
        yield f"{_MARKS[self.level]}: {self.title}"
        told = [f"{name}: {seen}" for name, seen in zip(self.columns, self.seen, strict=False)] or list(self.seen)
        for line in told[:_LINES]:
            yield from _wrapped(line, "  ", "    ")
        if len(told) > _LINES:
            names = few(list(self.columns[_LINES:]))
            yield from _wrapped(f"and {len(told) - _LINES} more: {names}", "  ", "    ")
        yield from _wrapped(f"-> {self.done}; {self.change}", "  ", "     ")


@dataclass(frozen=True)
class TableReport:
    """What `r2et.tables.check_table` says of a table.

    Attributes:
        name: of the file.
        rows: how many it has.
        target: the column to predict.
        classes: rows of each class; empty if the target has none.
        kinds: what each column holds, in words; those that are left out too.
        findings: the worst first.
        dropped: the columns that are left out, with the reason.
    """

    name: str
    rows: int
    target: str
    classes: Mapping[str, int]
    kinds: Mapping[str, str]
    findings: tuple[Finding, ...]
    dropped: Mapping[str, str]

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that a model sees."""
        return tuple(name for name in self.kinds if name not in self.dropped)

    @property
    def usable(self) -> bool:
        """Whether a model can be trained."""
        return not self.at_level("error")

    def at_level(self, level: Level) -> tuple[Finding, ...]:
        """The findings of one level."""
        return tuple(finding for finding in self.findings if finding.level == level)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "data": self.name,
            "rows": self.rows,
            "target": self.target,
            "classes": dict(self.classes),
            "usable": self.usable,
            "findings": [finding.to_dict() for finding in self.findings],
            "left_out": dict(self.dropped),
            "columns": {name: self.kinds[name] for name in self.kept},
        }

    def __str__(self) -> str:
        """The report at 80 columns."""
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The lines of the report."""
        yield from _wrapped(f"{self.name}: {self.rows} rows, {len(self.kinds)} columns, target {self.target!r}")
        shares = [f"{name} {count} ({100 * count / self.rows:.3g} %)" for name, count in self.classes.items()]
        if shares:
            yield from _wrapped(f"classes: {few(shares)}", "  ", "    ")
        for finding in self.findings:
            yield ""
            yield from finding.lines()
        yield ""
        yield from self._summary()

    def _summary(self) -> Iterator[str]:
        """What is used, and what is not."""
        if self.dropped:
            entries = [f"{name} ({reason})" for name, reason in self.dropped.items()]
            yield from _wrapped(f"Left out ({len(entries)}): {', '.join(entries)}", "", "  ")
        yield f"Used ({len(self.kept)}):"
        for kind, names in self._by_kind().items():
            yield from _wrapped(f"{kind}: {', '.join(names[:_NAMED])}{_more(names, _NAMED)}", "  ", "    ")

    def _by_kind(self) -> dict[str, list[str]]:
        """The columns that are used: numbers, categories with how many values they have, and so on."""
        kinds: dict[str, list[str]] = {}
        for name in self.kept:
            kind, _, rest = self.kinds[name].partition(" (")
            values = rest.removesuffix(" values)")
            kinds.setdefault(_PLURALS.get(kind, kind), []).append(f"{name} ({values})" if values else name)
        return kinds

    def brief(self) -> list[tuple[Level, str]]:
        """What is printed before a training, a sentence each: what is left out, warnings, errors."""
        told: list[tuple[Level, str]] = []
        if self.dropped:
            entries = [f"{name} ({reason})" for name, reason in self.dropped.items()]
            told.append(("note", f"left out: {few(entries)}; to keep one: --keep NAME"))
        for finding in self.at_level("warning") + self.at_level("error"):
            about = [f"{name!r} {seen}" for name, seen in zip(finding.columns, finding.seen, strict=False)]
            several = f"{'; '.join((about or finding.seen)[:6])}{_more(about, 6)}"
            sentence = f"{finding.title}: {several}. {_upper(finding.done)}; {finding.change}"
            told.append((finding.level, sentence))
        return told


def _more(entries: Sized, shown: int) -> str:
    return f" and {len(entries) - shown} more" if len(entries) > shown else ""


def _upper(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}"


def _wrapped(text: str, first: str = "", rest: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH - 1, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
