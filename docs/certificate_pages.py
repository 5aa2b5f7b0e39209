"""The picture and the results page of the certificates; called by make_figures.py."""

from pathlib import Path
from typing import Any

INK = "#444444"


def draw_certificates(results: dict[str, Any], path: Path, save: Any) -> None:
    import matplotlib.pyplot as plt

    curve = results["curve"]
    k = results["settings"]["k"]
    figure, axis = plt.subplots(figsize=(7.5, 4))
    shown = {
        "noise": ("#9fb3c8", ":", "random noise of this norm"),
        "worst case": ("#2b5f93", "--", "WorstCase attack"),
        "certified": ("#c2571a", "-", "certified"),
    }
    for name, (colour, style, label) in shown.items():
        axis.plot(
            [0.0, *curve["radii"]],
            [100.0, *(100 * value for value in curve[name])],
            color=colour,
            linestyle=style,
            marker=".",
            label=label,
        )
    axis.fill_between(
        [0.0, *curve["radii"]],
        [100.0, *(100 * value for value in curve["certified"])],
        [100.0, *(100 * value for value in curve["worst case"])],
        color="#c2571a",
        alpha=0.08,
    )
    axis.set_xlabel("L2 radius in scaled units", fontsize=9, color=INK)
    axis.set_ylabel(f"P@{k}, percent", fontsize=9, color=INK)
    axis.set_title(
        f"{curve['data']}, {curve['network']}: the truth lies in the shaded band", fontsize=10, color=INK
    )
    axis.set_ylim(0, 103)
    axis.set_xlim(0, max(curve["radii"]) * 1.02)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    save(figure, path)


def soundness_section(results: dict[str, Any]) -> str:
    """The hunt on random networks, for the end of the page."""
    by, control, settings = results["by"], results["control"], results["settings"]
    lines = [
        "",
        "## The hunt",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/soundness.json -->",
        "",
        f"`{results['command']}`",
        "",
        f"{results['networks']} random networks with {settings['rows']} inputs each, {results['cases']} cases, attacked at "
        f"{settings['share']:g} of every certified limit: MinimalFlip, BoundaryAttack, steps that follow each row's own "
        "gap, random directions, steps just over the nearest hinges. Attacks that got inside a certificate: "
        f"**{results['violations']}**. The largest certified radius was {results['largest certified / attack']:.4f} of the "
        f"smallest attack found; {results['with a radius above zero']} cases have a radius above 0.",
        "",
        f"The same attacks at {control['share']:g} times the radius changed the list in {control['caught']} of "
        f"{control['cases']} cases: the hunt can find something.",
        "",
        "*Copies* are neurons with the weights of their neighbours, which tie in every window; *dead* ones have no weights; "
        "*zeros* are networks without biases and inputs with zeros, on their hinges; *whole numbers* are weights and "
        "inputs that are rounded, so that windows and hinges tie by chance.",
        "",
        "| drawn | cases |",
        "|---|---|",
    ]
    lines += [f"| {name} | {count} |" for name, count in by.items()]
    return "\n".join(lines) + "\n"


def certificates_page(results: dict[str, Any]) -> str:
    settings, curve, speed = results["settings"], results["curve"], results["speed"]
    brackets = results["brackets"]
    cases = sum(cell["rows"] for cell in brackets)
    violations = sum(cell.get("violations", 0) for cell in brackets)
    lines = [
        "# Certificates",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/certificates.json -->",
        "",
        f"`{results['command']}`",
        "",
        f"Certified radius of the top {settings['k']} features beside the smallest attack found (MinimalFlip, then "
        f"BoundaryAttack at three radii), on networks trained for {settings['training']['epochs']} epochs at most, in "
        f"float64. {cases} cases of one input and one network; attacks that got inside a certificate: {violations}.",
        "",
        f"![P@{settings['k']} against radius](../images/certificates.svg)",
        "",
        f"The randomised certificate of the same network (noise {settings['sigma']:g}, {settings['samples']} samples, "
        f"alpha {settings['alpha']:g}, {settings['few_rows']} inputs) has a median radius of "
        f"{curve['smoothing radius']:.3f}. It is about the smoothed explanation and belongs in no bracket with the "
        "attacks above.",
        "",
        "*certified / attack* is the median over inputs; *within 1.5 x* the share of inputs for which an attack of at "
        "most 1.5 times the certified radius succeeded; *first order* the share of inputs at which the paper's point "
        "estimate exceeds an attack that succeeded. Time is processor time on one core.",
        "",
        "| data | network | explanation | method | median radius | certified / attack | largest | within 1.5 x | "
        "first order | ms an input |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in brackets:
        start = f"| {cell['data']} | {cell['network']} | {cell['explanation']} | {cell['method']} "
        if cell.get("infinite"):
            lines.append(start + f"| infinite | - | - | - | - | {cell['milliseconds']:.1f} |")
            continue
        lines.append(
            start + f"| {cell['radius']:.4f} | {cell['certified / attack']:.2f} | "
            f"{cell['largest certified / attack']:.4f} | {cell['flips within 1.5 x']:.0%} | "
            f"{cell['first order above the attack']:.0%} | {cell['milliseconds']:.1f} |"
        )
    for cell in brackets:
        if cell.get("zero"):
            lines += [
                "",
                f"{cell['data']}, {cell['network']}: the radius is 0 at {cell['zero']} of {cell['rows']} inputs, and an "
                f"attack of norm below 1e-5 does change the list at {cell['zero and flipped by a norm below 1e-5']} of "
                "them. On a flat background the entries of a max-pooling window are equal, and any change picks "
                "another one. *certified / attack* is the median over the other inputs, with the remaining zeros.",
            ]
    (headline, milliseconds), *_ = speed.items()
    largest = speed["784 pixels, two layers of 100, k 50"]
    lines += [
        "",
        "## Cost",
        "",
        f"{headline}: {milliseconds:.1f} ms an input. 784 pixels, two hidden layers of 100, k = 50: "
        f"{largest['milliseconds']:.0f} ms an input, {largest['megabytes more']:.0f} MB.",
        "",
        "| n | k | pairs | ms an input | microseconds a pair |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['n']} | {row['k']} | {row['pairs']} | {row['milliseconds']:.1f} | "
        f"{1e3 * row['milliseconds'] / row['pairs']:.0f} |"
        for row in speed["by pairs"]
    ]
    lines += [
        "",
        "The first hidden layer is the cheapest, because its tangents are exact; each further one adds about as much.",
        "",
        "| hidden layers of 32 | ms an input | ms for each layer after the first |",
        "|---|---|---|",
    ]
    first = speed["by layers"][0]
    for row in speed["by layers"]:
        more = row["layers"] - first["layers"]
        each = f"{(row['milliseconds'] - first['milliseconds']) / more:.1f}" if more else "-"
        lines.append(f"| {row['layers']} | {row['milliseconds']:.1f} | {each} |")
    return "\n".join(lines) + "\n"
