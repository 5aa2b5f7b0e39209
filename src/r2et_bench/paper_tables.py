"""The paper's tables with our values beside the paper's, and the honest one, as plain data for any format."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from r2et.numerics.values import check_choice
from r2et_bench.honest import honest_section
from r2et_bench.layout import Section, Table, TableEntry
from r2et_bench.own_lists import attack_note
from r2et_bench.paper import STAND_INS, paper_values
from r2et_bench.results import DATA_TITLES, Results, Row, entry_of

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Column:
    """One column of a table of the paper.

    Args:
        title: of the column.
        path: where the number is in a record, see `Row.values`.
        place: of the paper's value in its cell; None = the paper has none.
        scale: 100 for percentages.
        digits: after the point.
        role: of the models, see `Results.rows`.
        best: whether the highest ("max") or lowest ("min") value wins; None = nobody does.
    """

    title: str
    path: str
    place: int | None = None
    scale: float = 100.0
    digits: int = 1
    role: str = "main"
    best: str | None = "max"


@dataclass(frozen=True)
class Layout:
    """What one table of the paper shows."""

    title: str
    columns: Callable[[str], list[Column]]
    data: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    note: str = ""


def _tabular(data: str) -> bool:
    return data in ("adult", "bank", "compas", "breast-cancer")


def _sizes(data: str) -> list[Column]:
    sizes, own = ((2, 5), 8) if _tabular(data) else ((10, 30), 50)
    columns = [Column(f"k = {k}", f"sizes/k={k}", place) for place, k in enumerate(sizes)]
    return [*columns, Column(f"k = {own}", "attacks/ERAttack", 2)]


_AUC = Column("test AUC", "prediction/auc", scale=1, digits=4, best=None)
_ER = Column("ERAttack", "attacks/ERAttack", 0)
_THICKNESS = [_ER, Column("thickness", "thickness/thickness", 1, scale=1, digits=4)]
LAYOUTS: dict[str, Layout] = {
    "1": Layout(
        "P@k under ERAttack and MSE attack",
        lambda data: [_AUC, _ER, Column("MSE attack", "attacks/MSEAttack", 1)],
    ),
    "2": Layout(
        "P@k under ERAttack of gradients, SmoothGrad and integrated gradients",
        lambda data: [
            replace(_ER, title="Grad"),
            Column("SG", "explainers/SG", 1),
            Column("IG", "explainers/IG", 2),
        ],
        note="Models are trained for the first explanation. SmoothGrad and IG on fewer inputs and attack steps.",
    ),
    "3": Layout(
        "P@k under ERAttack and thickness of the model",
        lambda data: _THICKNESS,
        data=("adult", "compas", "breast-cancer"),
        methods=("sp", "est-h", "r2et-no-h", "r2et", "r2et-mm"),
        note="A part of Table 5.",
    ),
    "5": Layout(
        "P@k under ERAttack and thickness of all models",
        lambda data: _THICKNESS,
        note="Probability thickness among Gaussian neighbours about as far away as the radius of the attacks.",
    ),
    "6": Layout(
        "AUC before and after attacks that do not watch the prediction",
        lambda data: [
            Column("cAUC", "last/cAUC", 0, scale=1, digits=4, best=None),
            Column("aAUC ER", "last/ERAttack/aAUC", 1, scale=1, digits=4, best=None),
            Column("flipped ER", "last/ERAttack/sensitivity", best=None),
            Column("aAUC MSE", "last/MSEAttack/aAUC", 3, scale=1, digits=4, best=None),
            Column("flipped MSE", "last/MSEAttack/sensitivity", best=None),
        ],
        note='keep="last"; "flipped" is the share of inputs whose prediction the attack changed, in percent.',
    ),
    "7": Layout(
        "P@k under ERAttack for several k",
        _sizes,
        note="Models are trained with the largest k; the attack is told the k it is judged by.",
    ),
    "8": Layout(
        "P@k under ERAttack, trained from scratch and retrained",
        lambda data: [
            replace(_ER, title="from scratch"),
            Column("retrained", "attacks/ERAttack", 1, role="retrained"),
            Column("AUC, retrained", "prediction/auc", scale=1, digits=4, role="retrained", best=None),
        ],
        data=("adult", "bank", "compas", "breast-cancer"),
        note="Retrained models have the hyper-parameters that were chosen for training from scratch (CL its own).",
    ),
    "9": Layout(
        "Faithfulness: DFFOT (lower is better), COMP (higher), SUFF (lower)",
        lambda data: [
            Column("DFFOT", "faithfulness/dffot", 0, scale=1, digits=2, best="min"),
            Column("COMP", "faithfulness/comprehensiveness", 1, scale=1, digits=2),
            Column("SUFF", "faithfulness/sufficiency", 2, scale=1, digits=2, best="min"),
        ],
    ),
}
NUMBERS = [*LAYOUTS, "honest"]


def make_table(number: str, results: Results) -> Table:
    """A table of the paper ("1" to "9"), or "honest".

    Args:
        number: of the table.
        results: what was computed.
    """
    check_choice("table", number, NUMBERS)
    if number == "honest":
        return Table(
            number,
            "The honest table",
            (
                "*passes*: seeds whose validation AUC reaches the threshold. *worst*: P@k under WorstCase, the "
                "worst that a fixed set of attacks finds, at the radius of the paper's attacks. *proven*: P@k "
                "certified at that radius. *kappa*: what is left of P@k beyond what two inputs' lists share, from "
                "proven to attacked; *one list*: all inputs have nearly the same one, and its P@k says nothing; "
                "a dash: the record was computed before lists were kept with it. *radius*: median radius inside "
                "which the top-k set is proven to stay. *COMP*: faithfulness. *cost*: time of an epoch over "
                "Vanilla's. Mean ± standard deviation over seeds.",
                "A row may win (bold) only if its validation AUC passes on the mean over seeds, and is better "
                "than Linear only if its test AUC exceeds Linear's by at least half of what Vanilla's does.",
                attack_note([*results.rows.values()]),
            ),
            tuple(honest_section(data, results) for data in results.data),
        )
    layout = LAYOUTS[number]
    shown = [data for data in results.data if layout.data is None or data in layout.data]
    sections = [_section(number, layout, data, results) for data in shown]
    notes = [
        "Ours: mean ± standard deviation over seeds, and the paper's value. **Bold**: the best of the rows whose "
        "AUC passes the threshold. †: the best R2ET row and the best other row differ in a paired t-test over "
        f"seeds at {SIGNIFICANCE:.0%}."
    ]
    return Table(number, layout.title, (*notes, *([layout.note] if layout.note else [])), tuple(sections))


def _section(number: str, layout: Layout, data: str, results: Results) -> Section:
    methods = [row.method for row in results.of(data) if row.method != "linear"]
    if number == "8":
        methods += [row.method for row in results.of(data, "retrained") if row.method not in methods]
    if layout.methods is not None:
        methods = [method for method in methods if method in layout.methods]
    columns = layout.columns(data)
    paper = paper_values()["5" if number == "3" else number].get(data, {})
    entries: dict[str, list[TableEntry]] = {method: [] for method in methods}
    for column in columns:
        rows = {method: results.row(data, method, column.role) for method in methods}
        marks = _marks(column, [row for row in rows.values() if row is not None])
        for method, row in rows.items():
            entry = entry_of(row, column.path, column.scale, column.digits)
            printed = paper.get(method, ())
            if column.place is not None and column.place < len(printed):
                entry = replace(entry, paper=printed[column.place])
            entries[method].append(replace(entry, best=method in marks.best, dagger=method == marks.dagger))
    titles = {row.method: row.title for role in ("main", "retrained") for row in results.of(data, role)}
    failed = {method: row for method in methods if (row := results.row(data, method)) is not None}
    titles = {method: titles[method] + ("" if _passes(failed.get(method)) else " ✗") for method in methods}
    notes = [f"Stands in: {STAND_INS[data]}."] if data in STAND_INS else []
    if any(title.endswith("✗") for title in titles.values()):
        notes.append("✗: the AUC does not pass the threshold at every seed.")
    return Section(
        data,
        DATA_TITLES.get(data, data),
        tuple(column.title for column in columns),
        tuple((titles[method], tuple(entries[method])) for method in methods),
        tuple(notes),
    )


@dataclass(frozen=True)
class _Marks:
    best: frozenset[str] = frozenset()
    dagger: str | None = None


def _passes(row: Row | None) -> bool:
    if row is None:
        return True
    passed, known = row.passes()
    return passed == known


def _marks(column: Column, rows: Iterable[Row]) -> _Marks:
    """Who is best in a column, and whether the R2ET winner and the other winner differ significantly."""
    if column.best is None:
        return _Marks()
    sign = 1.0 if column.best == "max" else -1.0
    competing = [row for row in rows if _passes(row) and row.values(column.path)]
    if not competing:
        return _Marks()

    def score(row: Row) -> float:
        # as printed: what looks equal is equal
        return round(sign * column.scale * statistics.mean(row.values(column.path).values()), column.digits)

    top = max(map(score, competing))
    best = frozenset(row.method for row in competing if score(row) == top)
    ours, others = ([row for row in competing if row.ours == mine] for mine in (True, False))
    if not ours or not others:
        return _Marks(best)
    pair = max(ours, key=score), max(others, key=score)
    winner = max(pair, key=score)
    p = paired_p_value(pair[0].values(column.path), pair[1].values(column.path))
    return _Marks(best, winner.method if p is not None and p < SIGNIFICANCE else None)


def paired_p_value(a: dict[int, float], b: dict[int, float]) -> float | None:
    """The two-sided p-value of a paired t-test over the seeds both have; None with fewer than two.

    >>> paired_p_value({0: 1.0, 1: 2.0, 2: 3.1}, {0: 0.0, 1: 1.0, 2: 2.0}) < 0.05
    True
    >>> paired_p_value({0: 1.0}, {0: 0.0}) is None
    True
    """
    common = sorted(a.keys() & b.keys())
    differences = [a[seed] - b[seed] for seed in common]
    if len(common) < 2:
        return None
    if statistics.stdev(differences) == 0:
        # the same difference at every seed: certain, unless it is none
        return 1.0 if differences[0] == 0 else 0.0
    from scipy.stats import ttest_rel

    return float(ttest_rel([a[seed] for seed in common], [b[seed] for seed in common]).pvalue)
