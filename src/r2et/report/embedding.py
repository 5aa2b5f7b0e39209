"""What the explorer shows, as JSON inside the page."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from r2et.auditing import Audit, Samples

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
            "rows": {str(row): {**_predicted(audit, row), **_row(audit.samples, row)} for row in numbers},
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
        "classes": list(first.class_names),
        "outcome": None if first.outcome is None else first.outcome.name,
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
    each = sum(2 * listed * (1 + len(c.samples.radii)) + 3 * c.samples.moved.shape[1] + 8 for c in audits)
    limit = min(rows, MOST_ROWS, max(FEWEST_ROWS, NUMBERS // each))
    if limit == rows:
        return list(range(rows))
    fragile = min(limit, FRAGILE) // len(audits)
    chosen = {row for audit in audits for row in audit.samples.most_fragile()[:fragile].tolist()}
    chosen |= {picture.row for audit in audits for picture in audit.samples.pictures}
    left = limit - len(chosen)
    chosen |= {position * rows // left for position in range(left)} if left > 0 else set()
    return sorted(chosen)


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


def _row(samples: Samples, row: int) -> dict[str, Any]:
    before = samples.top[row]
    after = samples.after[:, row]
    certified = float(samples.certified[row])
    return {
        "certified": None if certified != certified else "any" if certified == torch.inf else _short(certified),
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
            if float(by) != 0
        ],
    }


def _reasons(ids: Tensor, scores: Tensor, lists: Sequence[Tensor]) -> list[list[Any]]:
    stays = [torch.isin(ids, other) for other in lists]
    return [
        [int(ids[i]), _short(float(scores[i])), "".join("1" if stay[i] else "0" for stay in stays)]
        for i in range(min(len(ids), SHOWN))
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
