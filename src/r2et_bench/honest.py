"""The honest table: what holds under the strongest attack, what is proven, and whether a linear model would do."""

import statistics
from dataclasses import dataclass, replace

from r2et_bench.layout import Section, TableEntry
from r2et_bench.own_lists import chance_note, kappa_entry
from r2et_bench.results import DATA_TITLES, Results, Row, entry_of

#: where Vanilla's AUC exceeds Linear's by less, a linear model is the answer
WORTHWHILE = 0.005


@dataclass(frozen=True)
class Verdict:
    """What one data set says.

    Attributes:
        winner: the most stable row whose AUC passes; None if no row does.
        linear_is_enough: Vanilla does not beat Linear by 0.005.
        beats_linear: the winner's AUC exceeds Linear's by half of what Vanilla's does.
        above_linear: the most stable accurate row of which that is true.
        text: all of it in a sentence or two.
    """

    winner: Row | None
    linear_is_enough: bool
    beats_linear: bool | None
    above_linear: Row | None
    text: str


def honest_section(data: str, results: Results) -> Section:
    """One data set of the honest table."""
    rows = [*results.of(data), *results.of(data, "lighter")]
    vanilla = results.row(data, "vanilla")
    verdict = judge(data, results)
    lines = []
    for row in rows:
        passed, known = row.passes()
        lines.append(
            (
                row.title,
                (
                    entry_of(row, "prediction/auc"),
                    TableEntry(text="-" if row.method in ("vanilla", "linear") else f"{passed} of {known}"),
                    replace(entry_of(row, "worst/precision", 100, 1), best=row is verdict.winner),
                    _certified(row, entry_of(row, "certified/precision", 100, 1)),
                    kappa_entry(row),
                    _median_radius(row, entry_of(row, "certified/median radius", 1, 3)),
                    entry_of(row, "faithfulness/comprehensiveness", 1, 2),
                    _cost(row, vanilla),
                ),
            )
        )
    columns = ("AUC", "passes", "worst", "proven", "kappa", "radius", "COMP", "cost")
    notes = [verdict.text]
    by_chance = chance_note(rows)
    if by_chance:
        notes.append(by_chance)
    reason = next((why for row in rows if (why := row.first("certified/reason"))), None)
    if reason:
        notes.append(f"No sound certificate for some rows: {reason.split('. ')[0]}.")
    return Section(data, DATA_TITLES.get(data, data), columns, tuple(lines), tuple(notes))


def judge(data: str, results: Results) -> Verdict:
    """Who may be called best on a data set, by the rules of the table."""
    rows = {row.method: row for row in results.of(data)}
    vanilla, linear = rows.get("vanilla"), rows.get("linear")
    vanilla_auc, linear_auc = _mean(vanilla, "prediction/auc"), _mean(linear, "prediction/auc")
    enough = vanilla_auc is not None and linear_auc is not None and vanilla_auc - linear_auc < WORTHWHILE
    competing = [
        row
        for row in (*rows.values(), *results.of(data, "lighter"))
        if row.method != "linear" and accurate(row) and _mean(row, "worst/precision")
    ]
    winner = max(competing, key=lambda row: _mean(row, "worst/precision") or 0.0, default=None)
    if winner is None:
        return Verdict(None, enough, None, None, "No row has an AUC that passes and a value under WorstCase.")
    auc, precision = _mean(winner, "prediction/auc"), _mean(winner, "worst/precision")
    assert auc is not None
    assert precision is not None
    text = f"Most stable among the accurate rows: {winner.title}, P@k {100 * precision:.1f} at AUC {auc:.4f}"
    plain = _mean(vanilla, "worst/precision")
    if plain is not None and vanilla_auc is not None and winner.method != "vanilla":
        text += f" (Vanilla {100 * plain:.1f} at {vanilla_auc:.4f})"
    beats, above = None, None
    if linear_auc is not None and vanilla_auc is not None:
        bar = linear_auc + (vanilla_auc - linear_auc) / 2
        beats = auc >= bar
        if enough:
            text += f". Vanilla exceeds Linear ({linear_auc:.4f}) by less than {WORTHWHILE}: Linear is the answer"
        elif beats:
            text += (
                f". It counts as better than Linear ({linear_auc:.4f}): its AUC is at least {bar:.4f}, half-way"
            )
        else:
            text += f". It is not better than Linear ({linear_auc:.4f}): its AUC is below {bar:.4f}, half-way"
        passing = [row for row in competing if (_mean(row, "prediction/auc") or 0.0) >= bar]
        above = max(passing, key=lambda row: _mean(row, "worst/precision") or 0.0, default=None)
        if not beats and not enough and above is not None:
            figures = 100 * (_mean(above, "worst/precision") or 0.0), _mean(above, "prediction/auc")
            text += f". The most stable row that is: {above.title}, P@k {figures[0]:.1f} at {figures[1]:.4f}"
    return Verdict(winner, enough, beats, above, text + ".")


def accurate(row: Row) -> bool:
    """Whether the validation AUC passes the threshold, on the mean over seeds where single ones differ."""
    if row.method == "vanilla":
        return True
    margins = [
        record["training"]["validation auc"] - record["training"]["threshold"]
        for record in row.records
        if record["training"].get("threshold") is not None and "validation auc" in record["training"]
    ]
    return bool(margins) and statistics.mean(margins) >= 0


def _mean(row: Row | None, path: str) -> float | None:
    values = [] if row is None else list(row.values(path).values())
    return statistics.mean(values) if values else None


def _certified(row: Row, entry: TableEntry) -> TableEntry:
    return TableEntry(text="no method") if row.first("certified/applies") is False else entry


def _median_radius(row: Row, entry: TableEntry) -> TableEntry:
    if row.first("certified/median radius") == "infinite":
        return TableEntry(text="infinite")
    return TableEntry(text="") if row.first("certified/applies") is False else entry


def _cost(row: Row, vanilla: Row | None) -> TableEntry:
    return TableEntry(mean=row.cost(vanilla), seeds=1, digits=1)
