"""The results page of brackets, and the memory of certificates; called by make_figures.py."""

from typing import Any

EXPLAINED = {
    "Gradient": "gradient of the log-odds, by magnitude, over encoded features",
    "ColumnEffects": "effects of columns",
}


def brackets_page(results: dict[str, Any]) -> str:
    settings, speed = results["settings"], results["speed"]
    cells = results["brackets"]
    cuts = " and ".join(f"{count} ({net})" for net, count in settings["budget"].items())
    lines = [
        "# Brackets",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/brackets.json -->",
        "",
        f"`{results['command']}`, {results['attack']} (standard), r2et {results['version']}",
        "",
        f"P@k in percent, [proven, attacked], means over the first {settings['rows']} test rows: no perturbation of that length leaves less "
        "than the first number, and one that leaves the second was found. Both ends are about the same explanation, threat and "
        "attackers, in float64. *kept*: the attack has to keep the predicted class, and what is proven holds for attackers who do "
        "not; *free*: both ends are about attackers who need not.",
        "",
        f"Networks of one hidden layer of 32, softplus 5, {settings['training']['epochs']} epochs, seed {settings['seed']}: scale-free R2ET with the "
        "settings of [the honest table](honest.md), which were chosen on validation rows, and the same network without a regulariser. "
        "How many steps the proof takes was tuned while looking at these rows; a proof holds whatever was looked at, but it may be "
        f"a little closer here than elsewhere. Balls are cut at most {cuts} times for each gap that is open.",
        "",
        "*Widest*: the largest mean width of the bracket among the rows of a table, at each radius.",
        "",
    ]
    for explanation in dict.fromkeys(cell["explanation"] for cell in cells):
        some = [cell for cell in cells if cell["explanation"] == explanation]
        first = some[0]
        lines += [
            f"## {explanation}: {EXPLAINED[explanation]}, k = {first['k']}",
            "",
            "| data | network | AUC | chance | threat | prediction | "
            + " | ".join(f"radius {radius:g}" for radius in first["radii"])
            + " | width |",
            "|---" * (7 + len(first["radii"])) + "|",
            *(_row(cell) for cell in some),
            "",
        ]
        for network in dict.fromkeys(cell["network"] for cell in some):
            widths = zip(*(_widths(cell) for cell in some if cell["network"] == network), strict=True)
            lines.append(f"- {network}, widest: " + ", ".join(f"{max(width):.1f}" for width in widths))
        lines.append("")
    exact = results["additive"]
    lines += [
        "## Additive models: no bracket is left",
        "",
        f"`models.Additive` on Adult (AUC {exact['auc']:.4f}), Gradient, k = {cells[0]['k']}, {exact['rows']} test rows: the certified radius is "
        f"{exact['certified / exact attack']:.5f} of the shortest perturbation that the exact attack of the tests finds at the median, "
        f"{exact['smallest']:.5f} at the least and {exact['largest']:.5f} at most. It takes 1/{exact['integral / this']:.0f} of the time of the integral "
        "certificate of the same model.",
        "",
    ]
    ratios = {name: ratio for name, ratio in speed["integral / this"].items() if name != "integral"}
    lines += [
        "*Chance* is the overlap of two lists drawn at random, k of n, in percent.",
        "",
        "## What it costs",
        "",
        f'Certified P@{cells[0]["k"]} at one radius (`certify(..., radii=[r])`) beside the integral certificate (`method="integral"`), on the '
        f"scale-free Adult network, {speed['rows']} rows, threat `paper`, processor time in one run, median of {speed['rounds']} rounds.",
        "",
        "| at radius | times as fast | proven there | proven there by the integral |",
        "|---|---|---|---|",
    ]
    for place, (name, ratio) in enumerate(ratios.items()):
        here, before = speed["proven"][name][place], speed["proven"]["integral"][place]
        lines.append(f"| {name.removeprefix('at ')} | {ratio:.1f} | {here:.1f} | {before:.1f} |")
    return "\n".join(lines) + "\n"


def _widths(cell: dict[str, Any]) -> list[float]:
    return [high - low for low, high in zip(cell["proven"], cell["attacked"], strict=True)]


def _row(cell: dict[str, Any]) -> str:
    ends = " | ".join(
        f"[{low:.1f}, {high:.1f}]" for low, high in zip(cell["proven"], cell["attacked"], strict=True)
    )
    widths = " / ".join(f"{width:.1f}" for width in _widths(cell))
    return (
        f"| {cell['data']} | {cell['network']} | {cell['auc']:.4f} | {100 * cell['k'] / cell['of']:.0f} | {cell['threat']} | "
        f"{cell['prediction']} | {ends} | {widths} |"
    )


def memory_section(results: dict[str, Any]) -> str:
    """What certificates of large inputs take, for the end of the page of certificates."""
    settings = results["settings"]
    sizes = sorted({int(size) for measured in results["measured"].values() for size in measured})
    lines = [
        "",
        "## Memory",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/memory.json -->",
        "",
        f"`{results['command']}`: {settings['model']}, {settings['inputs']} inputs, k = {settings['k']}. Peak memory in MB above that of the imports, by "
        "the number of features; what is estimated above 4 GB for one input is refused before it begins.",
        "",
        "| certificate | " + " | ".join(f"{size:,}" for size in sizes) + " |",
        "|---" * (1 + len(sizes)) + "|",
    ]
    for name, measured in results["measured"].items():
        lines.append(f"| {name} | " + " | ".join(_peak(measured.get(str(size))) for size in sizes) + " |")
    return "\n".join(lines) + "\n"


def _peak(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "not measured"
    return "refused" if "refused" in entry else f"{entry['peak MB']:,}"
