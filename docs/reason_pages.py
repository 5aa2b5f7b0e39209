"""The results page of reasons: how stable their lists are, and how fast they are made; called by make_figures.py."""

from statistics import mean
from typing import Any

UNITS = {
    "standard deviations": "Radii in standard deviations of the numbers",
    "plausible changes": "Radii in multiples of a plausible change",
}


def reasons_page(stable: dict[str, Any], speed: dict[str, Any]) -> str:
    settings = stable["settings"]
    lines = [
        "# Reasons",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/stable_reasons.json and reasons.json -->",
        "",
        "## How stable lists of reasons are",
        "",
        f"`{stable['command']}`, judge: {settings['judge']} (fast).",
        "",
        f"A list of reasons names the columns with the largest positive [contributions](../concepts/lists.md) to the predicted class, at most "
        f"{settings['k']}. P@{settings['k']} in percent and kappa, each [proven, attacked], means over {len(settings['seeds'])} seeds of "
        f"{settings['rows']} test rows each. What is proven holds even for attackers who change the prediction; what is attacked keeps it. Numbers "
        "move inside their range; flags, categories and missing values stay. Contributions are measured against at most "
        f"{settings['background rows']} synthetic rows. Nothing was chosen on these rows, and no network was trained for stability: a linear model, "
        "an MLP of 32 softplus neurons (beta 5) and an additive network, all by cross-entropy.",
        "",
        "*Lists*: how many lists there are in effect; with fewer than 1.5, or where two rows share more than 95 % of their lists, there is one list "
        "for everybody and no kappa.",
        "",
    ]
    for units, title in UNITS.items():
        lines += [*_table(stable, units, title), ""]
    lines += _speed(speed)
    return "\n".join(lines) + "\n"


def _table(stable: dict[str, Any], units: str, title: str) -> list[str]:
    cells = [
        (data, net, [seed[units] for seed in seeds], seeds)
        for data, nets in stable["cells"].items()
        for net, seeds in nets.items()
        if units in seeds[0]
    ]
    radii = list(cells[0][2][0]["P@4"])
    heads = [f"P@4 at {radius}" for radius in radii] + [f"kappa at {radius}" for radius in radii]
    rows = [
        f"| {data} | {net} | {mean(seed['AUC'] for seed in seeds):.4f} | "
        + " | ".join([*(_ends(part, radius) for radius in radii), *(_kappa(part, radius) for radius in radii)])
        + f" | {mean(one['effective lists'] for one in part):.1f} |"
        for data, net, part, seeds in cells
    ]
    return [
        f"### {title}",
        "",
        "| data | model | AUC | " + " | ".join(heads) + " | lists |",
        "|---" * (4 + len(heads)) + "|",
        *rows,
    ]


def _ends(part: list[dict[str, Any]], radius: str) -> str:
    low, high = (100 * mean(one["P@4"][radius][end] for one in part) for end in (0, 1))
    return f"[{low:.1f}, {high:.1f}]"


def _kappa(part: list[dict[str, Any]], radius: str) -> str:
    known = [one["kappa"][radius] for one in part if one["kappa"] is not None]
    if len(known) < len(part):
        return "one list"
    low, high = (mean(pair[end] for pair in known) for end in (0, 1))
    return f"[{low:.2f}, {high:.2f}]"


def _speed(speed: dict[str, Any]) -> list[str]:
    settings = speed["settings"]
    return [
        "## How fast they are made",
        "",
        f"`{speed['command']}`: {settings['columns']}, at most {settings['reasons of a row']} reasons a row, one thread, processor time. How many times "
        "as long as the network alone, which is what does not depend on the machine, and the memory that a file takes.",
        "",
        "| network | rows | times the network alone | MB above the start |",
        "|---|---|---|---|",
        *(
            f"| {name} | {entry['rows']:,} | {entry['times the network alone']:.0f} | {entry['MB above the start']} |"
            for name, entry in speed["measured"].items()
        ),
    ]
