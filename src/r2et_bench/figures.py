"""The paper's figures, drawn from records (saliency maps also from the trained models)."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from r2et.errors import InputError, in_words
from r2et.files.writing import writing
from r2et.numerics.values import check_choice
from r2et_bench.records import Store
from r2et_bench.results import DATA_TITLES, Results, Row
from r2et_bench.saliency import saliency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, OURS, OTHER, FRONT = "#444444", "#c2571a", "#5b7fa6", "#b3261e"
_Points = TypedDict(
    "_Points",
    {
        "thickness, adversarial": list[float],
        "thickness, Gaussian mean": list[float],
        "thickness, Gaussian minimum": list[float],
        "Hessian norm": list[float],
        "first flip": list[float],
    },
)


class _AttackPoint(TypedDict):
    attack: str
    weights: str
    sensitivity: float
    precision: float


MEASURES = ("thickness, adversarial", "thickness, Gaussian mean", "thickness, Gaussian minimum", "Hessian norm")
RULES = {"none": "o", "fixed": "s", "gda": "^", "hedge": "D", "qp": "P"}


def draw(name: str, results: Results, store: Store, path: Path, method: str = "vanilla") -> None:
    """Draw a figure of `FIGURES` into a file, whose ending decides the format.

    `method` is whose saliency is drawn where a picture has room for one.
    """
    check_choice("figure", name, FIGURES)
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"a figure is written as .svg, .png or .pdf, got {str(path)!r}")
    try:
        figure = saliency(results, store, method) if name == "saliency" else FIGURES[name](results, store)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"the records cannot be drawn as {name!r}: {in_words(error)}") from error
    save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure so that the same figure is the same file."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "r2et"
    metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
    shared: dict[str, Any] = {"facecolor": "white", "dpi": 110, "bbox_inches": "tight"}
    with writing(path) as file:
        figure.savefig(file, format=path.suffix[1:], metadata=metadata[path.suffix], **shared)


def correlation(results: Results, store: Store) -> "Figure":
    """Iterations to the first flip against thickness and Hessian norm, one row per model (Fig. 2 and 4).

    As in the paper: several methods on the first data set, R2ET on the others.
    """
    rows = [
        row
        for row in results.main()
        if row.first("correlation/points") and (row.method == "r2et" or row.data == results.data[0])
    ]
    _check(rows, "correlation")
    figure, axes = _grid(len(rows), len(MEASURES), 2.5, 2.0)
    for line, row in zip(axes, rows, strict=True):
        points = row.first("correlation/points", _Points)
        pearson = row.first("correlation/pearson", dict[str, float | None]) or {}
        for axis, measure in zip(line, MEASURES, strict=True):
            # thousands of dots as shapes of their own would make a file of megabytes
            colour = OURS if row.ours else OTHER
            axis.scatter(points[measure], points["first flip"], s=7, alpha=0.5, color=colour, rasterized=True)
            value = pearson.get(measure)
            axis.set_title(f"{measure}\nr = {'-' if value is None else f'{value:.2f}'}", fontsize=8, color=INK)
            _tidy(axis)
        line[0].set_ylabel(f"{row.title}, {_title(row.data)}\nfirst flip", fontsize=8, color=INK)
    return figure


def attacks(results: Results, store: Store) -> "Figure":
    """P@k and sensitivity of constrained attacks, with the Pareto front and the paper's choice (Fig. 6)."""
    rows = [row for row in results.main() if row.first("constrained/points")]
    _check(rows, "attacks")
    figure, axes = _grid(len(rows), 2, 4.2, 3.2)
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")
    for line, row in zip(axes, rows, strict=True):
        points = row.first("constrained/points", list[_AttackPoint])
        for axis, attack in zip(line, ("ERAttack", "MSEAttack"), strict=True):
            own = [point for point in points if point["attack"] == attack]
            for (rule, marker), colour in zip(RULES.items(), colours, strict=True):
                these = [(point["sensitivity"], point["precision"]) for point in own if point["weights"] == rule]
                xs, ys = zip(*these, strict=True)
                axis.scatter(_percent(xs), _percent(ys), marker=marker, color=colour, label=rule, zorder=3, s=30)
            front = pareto([(point["sensitivity"], point["precision"]) for point in own])
            axis.plot(*map(_percent, zip(*front, strict=True)), color=FRONT, linewidth=1)
            gentle = [point for point in own if point["sensitivity"] <= 0.02]
            if gentle:
                best = min(gentle, key=lambda point: point["precision"])
                axis.scatter(
                    [100 * best["sensitivity"]],
                    [100 * best["precision"]],
                    marker="*",
                    s=160,
                    color=FRONT,
                    zorder=4,
                )
            axis.set_title(f"{row.title} on {_title(row.data)}, {attack}", fontsize=9, color=INK)
            axis.set_xlabel("predictions changed, percent", fontsize=8, color=INK)
            _tidy(axis)
        line[0].set_ylabel("P@k, percent", fontsize=8, color=INK)
        line[-1].legend(fontsize=7, frameon=False)
    return figure


def tradeoff(results: Results, store: Store) -> "Figure":
    """AUC against P@k under WorstCase, with the Pareto front (Fig. 7); R2ET and its variants are triangles."""
    names = [name for name in results.data if any(row.values("worst/precision") for row in results.of(name))]
    _check(names, "tradeoff")
    figure, axes, first = _panels(len(names), 3, 3.9, 3.1)
    for axis, name in zip(axes, names, strict=True):
        points = {}
        for row in results.of(name):
            precision, auc = _mean(row, "worst/precision"), _mean(row, "prediction/auc")
            if precision is None or auc is None:
                continue
            points[row.title] = (auc, precision)
            colour = OURS if row.ours else INK if row.method == "linear" else OTHER
            axis.scatter(auc, 100 * precision, marker="^" if row.ours else "o", color=colour, s=34, zorder=3)
        front = pareto([(-auc, -precision) for auc, precision in points.values()])
        axis.plot([-x for x, _ in front], [-100 * y for _, y in front], color=FRONT, linewidth=1)
        on_front = {(-x, -y) for x, y in front}
        for title, (auc, precision) in points.items():
            if (auc, precision) in on_front or title == "Vanilla":
                axis.annotate(
                    title, (auc, 100 * precision), xytext=(4, 4), textcoords="offset points", fontsize=7, color=INK
                )
        axis.set_title(_title(name), fontsize=9, color=INK)
        axis.set_xlabel("test AUC", fontsize=8, color=INK)
        axis.margins(x=0.2, y=0.12)
        _tidy(axis)
    for axis in first:
        axis.set_ylabel("P@k under WorstCase, percent", fontsize=8, color=INK)
    return figure


def kprime(results: Results, store: Store) -> "Figure":
    """P@k against k', the number of boundary pairs (Fig. 9)."""
    curves: dict[str, dict[int, list[float]]] = {}
    for (data, _, role), row in results.rows.items():
        if role.startswith("pairs="):
            values = list(row.values("attacks/ERAttack").values())
            curves.setdefault(data, {})[int(role.removeprefix("pairs="))] = values
    curves = {data: {k: values for k, values in curve.items() if values} for data, curve in curves.items()}
    _check([data for data, curve in curves.items() if curve], "kprime")
    figure, axes = _grid(1, len(curves), 4.6, 3.2)
    for axis, (data, curve) in zip(axes[0], curves.items(), strict=True):
        sizes = sorted(curve)
        means = [100 * statistics.mean(curve[k]) for k in sizes]
        spread = [100 * statistics.stdev(curve[k]) if len(curve[k]) > 1 else 0.0 for k in sizes]
        axis.errorbar(sizes, means, yerr=spread, color=OURS, marker="o", capsize=3)
        axis.set_title(f"R2ET-mm without H on {_title(data)}", fontsize=9, color=INK)
        axis.set_xlabel("k', pairs at the boundary of the top k", fontsize=8, color=INK)
        axis.set_ylabel("P@k under ERAttack, percent", fontsize=8, color=INK)
        _tidy(axis)
    return figure


def magnitude(results: Results, store: Store) -> "Figure":
    """Vanilla's mean gradient magnitude by rank, one panel per data set (Fig. 8)."""
    rows = [row for row in results.main() if row.method == "vanilla" and row.first("magnitude/rank")]
    _check(rows, "magnitude")
    figure, axes, first = _panels(len(rows), 4, 2.8, 2.4)
    for axis, row in zip(axes, rows, strict=True):
        ranks = row.first("magnitude/rank", list[float])
        values = row.first("magnitude/magnitude", list[float]) or []
        axis.plot(ranks, values, color=OTHER, marker="." if len(ranks) < 40 else None)
        k = 8 if len(ranks) < 40 else 50
        axis.axvline(k + 0.5, color=FRONT, linewidth=0.8, linestyle="--")
        axis.annotate(
            f"k = {k}", (k + 0.5, 0.9), fontsize=7, color=FRONT, xytext=(3, 0), textcoords="offset points"
        )
        if len(ranks) >= 40:
            axis.set_xscale("log")
        axis.set_title(_title(row.data), fontsize=9, color=INK)
        axis.set_xlabel("rank", fontsize=8, color=INK)
        _tidy(axis)
    for axis in first:
        axis.set_ylabel("score / largest", fontsize=8, color=INK)
    return figure


def time(results: Results, store: Store) -> "Figure":
    """Time of an epoch over that of Vanilla, one bar per method and data set."""
    costs: dict[str, dict[str, float]] = {}
    for data in results.data:
        vanilla = results.row(data, "vanilla")
        for row in results.of(data):
            cost = row.cost(vanilla)
            if cost is not None and row.method not in ("vanilla", "linear"):
                costs.setdefault(data, {})[row.title] = cost
    _check(costs, "time")
    figure, axes, _ = _panels(len(costs), 3, 3.9, 2.8)
    for axis, (data, bars) in zip(axes, costs.items(), strict=True):
        titles = list(bars)[::-1]
        colours = [OURS if title.startswith("R2ET") else OTHER for title in titles]
        axis.barh(titles, [bars[title] for title in titles], color=colours)
        axis.axvline(1, color=INK, linewidth=0.8)
        axis.set_title(_title(data), fontsize=9, color=INK)
        axis.set_xlabel("epoch / epoch of Vanilla", fontsize=8, color=INK)
        _tidy(axis)
    return figure


FIGURES: dict[str, Callable[[Results, Store], "Figure"]] = {
    "correlation": correlation,
    "attacks": attacks,
    "tradeoff": tradeoff,
    "kprime": kprime,
    "magnitude": magnitude,
    "saliency": saliency,
    "time": time,
}


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats in one coordinate without losing in the other; low is good in both.

    >>> pareto([(0.0, 0.9), (0.1, 0.7), (0.1, 0.95), (0.2, 0.8)])
    [(0.0, 0.9), (0.1, 0.7)]
    """
    front: list[tuple[float, float]] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _check(drawn: Sequence[Any] | dict[str, Any], name: str) -> None:
    if not drawn:
        raise InputError(
            f"no record has what figure {name!r} shows: choose another --preset or run `r2et bench run`"
        )


def _mean(row: Row, path: str) -> float | None:
    values = list(row.values(path).values())
    return statistics.mean(values) if values else None


def _title(data: str) -> str:
    return DATA_TITLES.get(data, data)


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _grid(rows: int, columns: int, width: float, height: float) -> "tuple[Figure, list[list[Axes]]]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(line) for line in axes]


def _panels(count: int, most: int, width: float, height: float) -> "tuple[Figure, list[Axes], list[Axes]]":
    """`count` panels, at most `most` in a row: all of them, and those that begin a row."""
    columns = min(most, count)
    figure, axes = _grid(-(-count // columns), columns, width, height)
    flat = [axis for line in axes for axis in line]
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat[:count], [line[0] for line in axes]


def _tidy(axis: "Axes") -> None:
    axis.tick_params(labelsize=7, colors=INK)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
