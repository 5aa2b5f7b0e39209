"""The picture and the results page of WorstCase beside its opponent; called by make_figures.py."""

from pathlib import Path
from typing import Any

INK, OLD_COLOUR, NEW_COLOUR = "#444444", "#9fb3c8", "#c2571a"
JUDGE, STANDARD, OLD, NOISE, MEMBER = "judge", "WorstCase standard", "WorstCase-1 standard", "noise", "member: "
FAST, THOROUGH = "WorstCase fast", "WorstCase thorough"


def kinder(net: dict[str, Any], column: str, radius: float) -> float:
    """Points of P@k that a search leaves and the judge does not."""
    figures = net["precision"]
    return float(figures[column][f"{radius:g}"] - figures[JUDGE][f"{radius:g}"])


def draw_worst_case(results: dict[str, Any], path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    cells = [(net, radius) for net in results["nets"] for radius in results["settings"]["radii"]]
    cells.sort(key=lambda cell: kinder(cell[0], OLD, cell[1]))
    figure, axis = plt.subplots(figsize=(7.5, 3.6))
    for column, colour, label in (
        (OLD, OLD_COLOUR, results["settings"]["old recipe"]),
        (STANDARD, NEW_COLOUR, results["settings"]["recipe"]),
    ):
        heights = [kinder(net, column, radius) for net, radius in cells]
        axis.plot(range(len(cells)), heights, color=colour, marker=".", linestyle="", label=f"{label} standard")
    axis.axhline(0, color=INK, linewidth=0.8)
    axis.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axis.set_xlabel(f"{len(cells)} cells of one network and one radius", fontsize=9, color=INK)
    axis.set_ylabel(f"points of P@{results['settings']['k']}\nabove the judge's", fontsize=9, color=INK)
    axis.set_title("How much kinder than an independent search", fontsize=10, color=INK)
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    save(figure, path)


def worst_case_page(results: dict[str, Any]) -> str:
    settings, nets = results["settings"], results["nets"]
    lines = [
        "# WorstCase beside an opponent",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/worst_case.json -->",
        "",
        f"`{results['command']}`, {settings['recipe']}, threat `{settings['threat']}`, r2et {settings['r2et']}",
        "",
        *introduction(settings, nets),
        "",
        "![Points above the judge's P@k](../images/worst-case.svg)",
        "",
        *verdicts(results),
        "",
    ]
    for radius in settings["radii"]:
        lines += [f"## Radius {radius:g}", "", *table(nets, radius), ""]
    if any(column.startswith(MEMBER) for column in nets[0]["precision"]):
        lines += ["## One member alone", "", *members(nets, settings), ""]
    some = [net for net in nets if THOROUGH in net["precision"]]
    if some:
        lines += ["## What each budget finds", "", *budgets(some, settings), ""]
    lines += ["## Time", "", *times(nets)]
    return "\n".join(lines) + "\n"


def introduction(settings: dict[str, Any], nets: list[dict[str, Any]]) -> list[str]:
    judge, training = settings["judge"], settings["training"]
    rows = {net["data"]: net["rows"] for net in nets}
    most = max(rows.values())
    fewer = ", ".join(f"{count} of {name}" for name, count in rows.items() if count < most)
    return [
        "An attack's figure is an upper bound: a better search may find more. So WorstCase is compared with a judge "
        "that shares no code with it (`tests/opponent.py`): closed forms of networks with one hidden layer, in float64, "
        f"{judge['restarts']} restarts of {judge['steps']} steps, then {judge['hops']} hops: {judge['hop_restarts']} searches "
        "of the same length around the best point of each row. WorstCase takes any model; for networks such as these it has "
        "formulas of its own and searches longer than elsewhere, so the page says nothing about deeper ones.",
        "",
        f"P@{settings['k']} in percent, lower is stronger, on the first {most} test rows of each data set "
        f"({fewer}, which has no more). These rows were looked at while WorstCase-2 was built; how long it searches by "
        "formulas was chosen on validation rows of Adult and Bank, on the same networks, and halved for its time after a table "
        "of test rows. The page says how strong the attack is "
        "on these networks, not how it does on data that nobody has seen. Under the threat "
        f"`{settings['threat']}` every feature moves inside an L2 ball, the sums of one-hot groups stay, and the sum "
        "gauge is taken out of the explanation; predictions are kept, and what is found at a smaller radius counts "
        "at every larger one. Adult and Bank have one-hot groups, the other two have none.",
        "",
        f"Networks: one hidden layer of {training['hidden']}, at most {training['epochs']} epochs, seed "
        f"{training['seed']}; scale-free R2ET is the method `r2et-sf` with its own settings, trained without a domain. Softplus(1000) is the ReLU "
        "network with its activation replaced: as sharp as ReLU for everybody who looks, but without the exact hinges "
        f"that {settings['old recipe']} knows.",
    ]


def verdicts(results: dict[str, Any]) -> list[str]:
    settings, found = results["settings"], results["summary"]
    cells = len(results["nets"]) * len(settings["radii"])
    over, others, rising = (
        found[name]
        for name in (
            "more than 1.0 point kinder than the judge",
            "kinder than another attack",
            "rises with the radius",
        )
    )
    kindest, old = found["kindest cell beside"][JUDGE], found["kindest cell of the old recipe beside the judge"]
    missing = results["not computed"]
    return [
        *([f"- **Not computed yet: {'; '.join(missing)}.**"] if missing else []),
        f"- More than 1.0 point kinder than the judge: {len(over)} of {cells} cells"
        + (": " + "; ".join(map(told, over)) if over else "")
        + f". The kindest one: {told(kindest)}. {settings['old recipe']} at its kindest: {told(old)}.",
        f"- Kinder than {' or '.join(compared(results))}: {len(others)} of {cells} cells"
        + (": " + "; ".join(f"{told(entry)} ({entry['than']})" for entry in others) if others else "")
        + ".",
        f"- P@{settings['k']} rises with the radius: {'; '.join(rising) if rising else 'never'}.",
        f"- Stronger than the judge: {found['stronger than the judge']} of {cells} cells.",
    ]


def compared(results: dict[str, Any]) -> list[str]:
    """The other attacks that were run, in words."""
    settings, columns = results["settings"], results["nets"][0]["precision"]
    words = {OLD: settings["old recipe"], NOISE: f"the worst of {settings['draws of noise']:,} draws of noise"}
    members = [column.removeprefix(MEMBER) for column in columns if column.startswith(MEMBER)]
    return [words[column] for column in words if column in columns] + [f"{name} alone" for name in members]


def told(entry: dict[str, Any]) -> str:
    return f"{entry['data']}, {entry['net']} at {entry['radius']:g}, {entry['points']:+.2f} points"


def table(nets: list[dict[str, Any]], radius: float) -> list[str]:
    others = [column for column in (FAST, OLD, NOISE) if column in nets[0]["precision"]]
    lines = [
        f"| network | AUC | judge | {STANDARD} | above the judge | {' | '.join(others)} |",
        "|---" * (5 + len(others)) + "|",
    ]
    for net in nets:
        figures = net["precision"]
        values = [f"{figures[column][f'{radius:g}']:.2f}" for column in others]
        lines.append(
            f"| {net['data']}, {net['net']} | {net['auc']:.4f} | {figures[JUDGE][f'{radius:g}']:.2f} | "
            f"{figures[STANDARD][f'{radius:g}']:.2f} | {kinder(net, STANDARD, radius):+.2f} | {' | '.join(values)} |"
        )
    return lines


def members(nets: list[dict[str, Any]], settings: dict[str, Any]) -> list[str]:
    """How many points each member leaves that all together do not."""
    names = [column for column in nets[0]["precision"] if column.startswith(MEMBER)]
    lines = [
        f"Points of P@{settings['k']} that a member of {settings['recipe']} standard leaves when it is alone, above "
        "what all of them leave: the mean over the networks, and the least.",
        "",
        "| member | " + " | ".join(f"radius {radius:g}: mean | least" for radius in settings["radii"]) + " |",
        "|---" * (1 + 2 * len(settings["radii"])) + "|",
    ]
    for name in names:
        shown = []
        for radius in settings["radii"]:
            more = [kinder(net, name, radius) - kinder(net, STANDARD, radius) for net in nets]
            shown.append(f"{sum(more) / len(more):.2f} | {min(more):.2f}")
        lines.append(f"| {name.removeprefix(MEMBER)} | {' | '.join(shown)} |")
    return lines


def budgets(nets: list[dict[str, Any]], settings: dict[str, Any]) -> list[str]:
    """P@k under the three budgets, and what they take, beside the judge."""
    columns = (FAST, STANDARD, THOROUGH, JUDGE)
    lines = [
        f"P@{settings['k']} at radii "
        f"{' / '.join(f'{radius:g}' for radius in settings['radii'])}, and processor time as a multiple of `fast`.",
        "",
        f"| network | {' | '.join(columns)} |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for net in nets:
        shown = [" / ".join(f"{value:.2f}" for value in net["precision"][column].values()) for column in columns]
        lines.append(f"| {net['data']}, {net['net']} | {' | '.join(shown)} |")
    totals = [sum(net["seconds"][column] for net in nets) for column in columns]
    return [*lines, f"| time | {' | '.join(f'{total / totals[0]:.1f} x' for total in totals)} |"]


def times(nets: list[dict[str, Any]]) -> list[str]:
    names = [column for column in nets[0]["seconds"] if not column.startswith(MEMBER)]
    totals = {name: sum(net["seconds"][name] for net in nets) for name in names}
    lines = [
        f"Processor time of all networks and radii, one core, float64, as a multiple of that of {OLD}.",
        "",
        "| search | time |",
        "|---|---|",
    ]
    return lines + [f"| {name} | {total / totals[OLD]:.1f} x |" for name, total in totals.items()]
