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
    settings, attacked, controls = results["settings"], results["attacked by"], results["controls"]
    claims = results["claims by displaced features"]
    lines = [
        "",
        "## The hunt",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/soundness.json -->",
        "",
        f"`{results['command']}`",
        "",
        f"{results['networks']} ugly random networks with {settings['rows']} inputs each, {results['cases']:,} cases. Every "
        "network has a certificate by `auto`, one by a method of its own name, and a part of them one at given radii, with "
        "and without `budget` and `prediction`. A point at distance d that displaces q features is a witness against every "
        "claim of more than d for q - 1; one table of the smallest distances, for every q, judges all certificates of a "
        f"network, in float64. Claims that have a witness against them: **{results['violations']}**. The largest claim was "
        f"{results['largest certified / attack']:.7f} of the smallest attack found.",
        "",
        f"{results['with a radius above zero']:,} cases have a radius above 0 by `auto`, "
        f"{results['with an infinite radius']:,} an infinite one. {sum(claims.values()):,} finite claims are about "
        "lists that lose at most 0, 1, 2, ... features: "
        + ", ".join(f"{count:,}" for count in claims.values())
        + ".",
        "",
        "All cases that claim anything are attacked by random steps, by descent on the gap that has to close for each "
        "position, over the nearest hinges, and every witness is brought as near to x as it allows. Then the attacks that "
        "cost more, at each claim's own radius (every row's own radius, and other positions drawn up to "
        f"{settings['claims']} claims a network), on a copy that never predicts another class, so that no attack is held "
        "back by a prediction that it has to keep: "
        + "; ".join(f"{name} on {count:,} cases" for name, count in attacked.items())
        + f". The judge can read {results['that the judge can read']:,} cases: one hidden layer, the gradient of the log-odds "
        "by magnitude, nothing frozen.",
        "",
        "### Wrong on purpose",
        "",
        "The same witnesses, against certificates that are wrong: rows where the wrong claim is larger than the right one, "
        "and how many of these are caught. A wrong claim need not be false: a bound that is loose by 20 % may grow by 1 % and "
        "still hold.",
        "",
        "| wrong | larger | caught |",
        "|---|---|---|",
        *(f"| {name} | {found['cases']:,} | {found['caught']:,} |" for name, found in controls.items()),
        "",
        "### What was drawn",
        "",
        "*Copied* units, features and classes have the weights of their neighbours; *dead* units have none; *whole numbers* "
        "are weights and inputs that are rounded, so that windows and hinges tie by chance; *extreme* are weights of some or "
        "all layers, or inputs, times 1e-3 to 1e3.",
        "",
        "| drawn | cases |",
        "|---|---|",
    ]
    for heading, values in results["by"].items():
        lines += [f"| {heading}: {name} | {count:,} |" for name, count in values.items()]
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
        "Networks of one hidden layer have the dual bound beside the integral, those of two the quadratic one, deeper ones "
        "the integral alone.",
        "",
        "| hidden layers of 32 | ms an input |",
        "|---|---|",
        *(f"| {row['layers']} | {row['milliseconds']:.1f} |" for row in speed["by layers"]),
    ]
    return "\n".join(lines) + "\n"
