"""What the explorer shows, as JSON inside the page."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from r2et.auditing import Audit
from r2et.auditing.examples import class_in_words, own_value
from r2et.auditing.own_rows import column_of

#: numbers that the explorer may hold for all rows together, and rows
NUMBERS, MOST_ROWS, FEWEST_ROWS = 110_000, 1000, 24
#: rows that are taken because they are the most fragile; the others are spread evenly
FRAGILE = 300
#: reasons of a list that are shown
SHOWN = 25


def explorer(audits: Sequence[Audit]) -> dict[str, Any]:
    """The rows of the explorer, and the names of the features and classes that they mention."""
    first = audits[0]
    numbers = chosen_rows(audits)
    models: list[dict[str, Any]] = [
        {
            "name": audit.name,
            "k": audit.k,
            "radii": list(audit.samples.radii),
            "rows": {str(row): {**_predicted(audit, row), **_row(audit, row)} for row in numbers},
            "direction": audit.direction,
            "order": [row for row in audit.samples.most_fragile().tolist() if row in set(numbers)],
        }
        for audit in audits
    ]
    used, moved = set(), set()
    inputs = len(first.input_names)
    for model in models:
        for entry in model["rows"].values():
            used |= {
                reason[0] for lists in (entry["before"], *entry["after"]) for part in lists for reason in part
            }
            moved |= {change[0] % inputs for change in entry["moved"]}
    return {
        "models": models,
        "numbers": numbers,
        "total": first.rows,
        "members": first.samples.members,
        "inputs": inputs,
        "classes": [class_in_words(first, number) for number in range(len(first.class_names))],
        "outcome": None if first.outcome is None else first.outcome.name,
        "what": first.ranks.removesuffix("s"),
        "own": first.own is not None and column_of(first.own, 0, first.features) is not None,
        "moves": first.own is not None and first.own.moves is not None,
        "labels": {str(row): _label(first, row) for row in numbers},
        "names": {str(row): first.samples.row_names[row] for row in numbers} if first.samples.row_names else {},
        "features": {str(i): first.feature_names[i] for i in sorted(used)},
        "input_names": {str(i): first.input_names[i] for i in sorted(moved)},
    }


def chosen_rows(audits: Sequence[Audit]) -> list[int]:
    """Numbers of the rows that are embedded, rising: the most fragile of the models, and others evenly spread."""
    rows = audits[0].rows
    samples = audits[0].samples
    listed = min(samples.top.shape[2], SHOWN) * samples.members
    each = sum(2 * listed * (1 + len(c.samples.radii)) + _of_changes(c, listed) + 8 for c in audits)
    limit = min(rows, MOST_ROWS, max(FEWEST_ROWS, NUMBERS // each))
    if limit == rows:
        return list(range(rows))
    fragile = min(limit, FRAGILE) // len(audits)
    chosen = {row for audit in audits for row in audit.samples.most_fragile()[:fragile].tolist()}
    chosen |= {picture.row for audit in audits for picture in audit.samples.pictures}
    left = limit - len(chosen)
    chosen |= {position * rows // left for position in range(left)} if left > 0 else set()
    return sorted(chosen)


def _of_changes(audit: Audit, listed: int) -> int:
    """How many numbers say what was changed of a row, and what its values are."""
    if audit.own is None:
        return 3 * audit.samples.moved.shape[1]
    moved = 0 if audit.own.moves is None else 3 * audit.own.moves.columns.shape[2]
    return (moved + listed) * len(audit.samples.radii) + listed


def _label(audit: Audit, row: int) -> int | str:
    """The class number of a row, or as text the number that was to be predicted."""
    label = float(audit.samples.labels[row])
    return int(label) if audit.outcome is None else audit.outcome.text(label)


def _predicted(audit: Audit, row: int) -> dict[str, Any]:
    """The predicted class of a row and its probability, or as text the predicted number."""
    value = float(audit.samples.probability[row])
    if audit.outcome is not None:
        return {"predicted": audit.outcome.text(value)}
    return {"predicted": int(audit.samples.predicted[row]), "probability": _short(value, 4)}


def _row(audit: Audit, row: int) -> dict[str, Any]:
    samples = audit.samples
    before, after = samples.top[row], samples.after[:, row]
    certified = float(samples.certified[row])
    return {
        "certified": None if certified != certified else "any" if certified == torch.inf else _short(certified),
        # lists of one length lose what P@k says
        "lost": [_lost(before, after[r]) for r in range(len(after))] if audit.direction == "positive" else None,
        "stay": [_short(float(value), 4) for value in samples.precision[:, row]],
        "distance": [_short(float(value)) for value in samples.distance[:, row]],
        # of each reason: number, score, and whether it is in the list of each radius
        "before": [
            _reasons(before[m], samples.top_scores[row, m], [after[r, m] for r in range(len(after))])
            for m in range(len(before))
        ],
        "after": [
            [_reasons(after[r, m], samples.after_scores[r, row, m], [before[m]]) for m in range(len(before))]
            for r in range(len(after))
        ],
        "moved": [
            [int(i), _short(float(value)), _short(float(by))]
            for i, value, by in zip(
                samples.moved[row], samples.moved_from[row], samples.moved_by[row], strict=True
            )
            if float(by) != 0 and (audit.own is None or audit.own.moves is None)
        ],
        **_in_own_units(audit, row, before, after),
    }


def _lost(before: Tensor, after: Tensor) -> int:
    """How many names (M, k) are not there afterwards."""
    pairs = zip(before, after, strict=True)
    return sum(int(((names >= 0) & ~torch.isin(names, others)).sum()) for names, others in pairs)


def _in_own_units(audit: Audit, row: int, before: Tensor, after: Tensor) -> dict[str, Any]:
    """The values of what is listed and what was changed, of this row alone."""
    if audit.own is None:
        return {}
    listed = sorted({*_shown(before), *_shown(after)})
    radii = range(len(audit.samples.radii))
    return {
        "values": {str(i): own_value(audit, row, i) for i in listed},
        "changes": [[[c.column, c.was, c.becomes] for c in audit.own.changes(row, at)] for at in radii],
        "more": [audit.own.more(row, at) for at in radii],
    }


def _shown(names: Tensor) -> set[int]:
    return {i for i in names[..., :SHOWN].flatten().tolist() if i >= 0}


def _reasons(ids: Tensor, scores: Tensor, lists: Sequence[Tensor]) -> list[list[Any]]:
    stays = [torch.isin(ids, other) for other in lists]
    return [
        [int(ids[i]), _short(float(scores[i])), "".join("1" if stay[i] else "0" for stay in stays)]
        for i in range(min(len(ids), SHOWN))
        if ids[i] >= 0
    ]


def _short(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits}g}")


def as_json(value: Any) -> Markup:
    r"""JSON that can stand inside a script element: no name in it can end the element or begin a comment.

    >>> print(as_json({"name": "</script><!-- & co"}))
    {"name":"\u003c/script\u003e\u003c!-- \u0026 co"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
