"""Single rows of an audit in a person's words: the decision, the reasons with the row's own values, the change."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from r2et.auditing.own_rows import column_of
from r2et.numerics.rounding import percent
from r2et.tables.units import Change

if TYPE_CHECKING:
    import pandas as pd

    from r2et.auditing.result import Audit

#: what a score says: how much, for or against, or only what speaks for the predicted class
Direction = Literal["", "signed", "positive"]
#: rows that a page and a JSON file show by themselves, and those that a terminal does
EXAMPLES, PRINTED = 5, 2


@dataclass(frozen=True)
class Reason:
    """One entry of a list.

    Attributes:
        name: of the column or feature.
        value: the row's own, as text; "" if it is unknown.
        score: of the explanation.
        direction: "for" or "against" the predicted class; "" where a score is a magnitude.
    """

    name: str
    value: str
    score: float
    direction: str

    def __str__(self) -> str:
        told = f"{self.name}: {self.value}" if self.value else self.name
        return f"{told} (against)" if self.direction == "against" else told


@dataclass(frozen=True)
class Example:
    """One row, and the smallest change found that gave it other reasons.

    Attributes:
        row: what it is called.
        decision: what was predicted.
        label: what is in the data.
        correct: whether they are the same; None of numbers.
        before: its reasons.
        radius: the smallest one at which they were replaced; None if they never were.
        changes: what was changed there, largest first.
        more: how many further columns were changed.
        after: the reasons then.
    """

    row: str
    decision: str
    label: str
    correct: bool | None
    before: tuple[Reason, ...]
    radius: float | None = None
    changes: tuple[Change, ...] = ()
    more: int = 0
    after: tuple[Reason, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        content = asdict(self)
        return {**content, **{name: list(content[name]) for name in ("before", "after", "changes")}}

    @property
    def change_in_words(self) -> str:
        """What was changed, on one line."""
        return changes_in_words(self.changes, self.more)


def changes_in_words(changes: Sequence[Change], more: int = 0) -> str:
    """What was changed of a row.

    >>> changes_in_words([Change("Income", "129", "134"), Change("Age", "30", "31")], more=1)
    'Income 129 → 134, Age 30 → 31 and 1 more column'
    """
    told = ", ".join(map(str, changes))
    rest = f" and {more} more {'column' if more == 1 else 'columns'}" if more else ""
    return f"{told}{rest}" if told else "nothing that is as large as one step of a column"


def class_in_words(audit: "Audit", number: int) -> str:
    """A class, with what it is of: "Status = bad"."""
    name = audit.class_names[number]
    return f"{audit.target} = {name}" if audit.target else name


def decided(audit: "Audit", number: int, value: float) -> str:
    """A prediction: a class and its probability, or the number that a model with one output gives."""
    if audit.outcome is not None:
        return f"{audit.outcome.name} = {audit.outcome.text(value)}"
    return f"{class_in_words(audit, number)} (probability {percent(value)})"


def listed(names: Tensor, scores: Tensor) -> list[tuple[int, float]]:
    """Numbers and scores of what a list names: of k places (k,), some may be empty."""
    return [(number, score) for number, score in zip(names.tolist(), scores.tolist(), strict=True) if number >= 0]


def own_value(audit: "Audit", row: int, ranked: int) -> str:
    """The value of what is ranked in a row; "" if it is unknown."""
    column = column_of(audit.own, ranked, audit.features)
    return "" if audit.own is None or column is None else audit.own.value(row, column)


def direction_of(audit: "Audit", score: float) -> str:
    """What a score says about the predicted class."""
    return "" if not audit.direction or score == 0 else "for" if score > 0 else "against"


def reasons(
    audit: "Audit", row: int, names: Tensor, scores: Tensor, changes: Sequence[Change] = ()
) -> tuple[Reason, ...]:
    """The entries of one list (k,) of a row, after it was changed."""
    becomes = {change.column: change.becomes for change in changes}
    return tuple(
        Reason(
            name := audit.feature_names[i],
            becomes.get(name) or own_value(audit, row, i),
            score,
            direction_of(audit, score),
        )
        for i, score in listed(names, scores)
    )


def examples(audit: "Audit", count: int) -> list[Example]:
    """The most fragile rows, if they are rows of a table whose units are known."""
    if audit.own is None or audit.samples.members != 1:
        return []
    return [example(audit, row) for row in audit.samples.most_fragile()[:count].tolist()]


def example(audit: "Audit", row: int) -> Example:
    """One row of a table, by its number from 0."""
    samples = audit.samples
    label = float(samples.labels[row])
    number = audit.outcome is not None
    told = Example(
        row=audit.row_name(row),
        decision=audit.decision(row),
        label=decided(audit, 0, label) if number else class_in_words(audit, int(label)),
        correct=None if number else int(samples.predicted[row]) == label,
        before=reasons(audit, row, samples.top[row, 0], samples.top_scores[row, 0]),
    )
    lost = (samples.precision[:, row] < 1).nonzero().flatten().tolist()
    if not lost or audit.own is None:
        return told
    at = lost[0]
    changes, more = audit.own.changes(row, at), audit.own.more(row, at)
    after = reasons(audit, row, samples.after[at, row, 0], samples.after_scores[at, row, 0], changes)
    return Example(**{**vars(told), "radius": samples.radii[at], "changes": changes, "more": more, "after": after})


def examples_in_words(audit: "Audit") -> list[str]:
    """A paragraph for each of a few rows, for a terminal; none if no reason of them was replaced."""
    told = [entry for entry in audit.examples(PRINTED) if entry.radius is not None]
    lines = [""] if told else []
    for entry in told:
        before, after = ("; ".join(map(str, part)) or "none" for part in (entry.before, entry.after))
        lines += [
            textwrap.fill(text, 80, subsequent_indent="  ")
            for text in (
                f"Row {entry.row}: {entry.decision}.",
                f"  Reasons: {before}.",
                f"  Changed: {entry.change_in_words}.",
                f"  Then: {after}.",
            )
        ]
    return lines


def changes_of(audit: "Audit") -> "pd.DataFrame":
    """One line for each row, radius and changed column: row, radius, precision, column, was, becomes."""
    import pandas as pd

    names = ("row", "radius", "precision", "column", "was", "becomes")
    if audit.own is None:
        return pd.DataFrame({name: [] for name in names})
    lines = [
        (
            audit.row_name(row),
            radius,
            float(audit.samples.precision[at, row]),
            change.column,
            change.was,
            change.becomes,
        )
        for row in range(len(audit.samples))
        for at, radius in enumerate(audit.samples.radii)
        for change in audit.own.changes(row, at)
    ]
    return pd.DataFrame(lines, columns=names)
