"""Draw the pictures of the documentation and write its results pages: python docs/make_figures.py

Every figure in a page comes from a file in benchmarks/results or benchmarks/records; nothing is typed by hand.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from r2et import precision_at_k

sys.path.insert(0, str(Path(__file__).parent))
from bench_pages import PAGES, draw_all, readme_table, results
from bracket_pages import brackets_page, memory_section
from certificate_pages import certificates_page, draw_certificates, soundness_section
from concept_figures import draw_concepts
from list_figures import draw_lists
from reason_pages import reasons_page
from worst_case_pages import draw_worst_case, worst_case_page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results"
# The idea of the paper's Fig. 1: of two perturbed explanations, the nearer one has fewer of the top features.
FEATURES = ("age", "income", "debt", "rent", "tenure", "loans", "score", "calls")
ORIGINAL = torch.tensor([0.90, 0.78, 0.66, 0.58, 0.50, 0.30, 0.20, 0.10])
FAR = torch.tensor([1.35, 1.20, 1.05, 0.30, 0.20, 0.12, 0.08, 0.05])
NEAR = torch.tensor([0.88, 0.55, 0.54, 0.70, 0.64, 0.32, 0.21, 0.11])
TOP = 3
BEGIN, END = "<!-- begin: made by docs/make_figures.py from benchmarks/records -->", "<!-- end -->"
WORST = "WorstCase standard"
INK, SALIENT, OTHER = "#444444", "#c2571a", "#9fb3c8"


def distance_example() -> list[tuple[str, torch.Tensor, float, float]]:
    """Title, explanation, L2 distance from the original and P@3 of the two perturbed explanations."""
    return [
        (name, scores, float((scores - ORIGINAL).norm()), float(precision_at_k(ORIGINAL, scores, TOP)))
        for name, scores in (("perturbed, far", FAR), ("perturbed, near", NEAR))
    ]


def draw_distance(path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.9), sharey=True)
    panels = [("original", ORIGINAL, None, None), *distance_example()]
    for axis, (name, scores, distance, precision) in zip(axes, panels, strict=True):
        top = set(scores.topk(TOP).indices.tolist())
        colours = [SALIENT if i in top else OTHER for i in range(len(FEATURES))]
        axis.bar(FEATURES, scores.tolist(), color=colours)
        title = name if distance is None else f"{name}\nL2 distance {distance:.2f}, P@{TOP} {precision:.0%}"
        axis.set_title(title, fontsize=10, color=INK)
        axis.tick_params(axis="x", rotation=60, labelsize=8, colors=INK)
        axis.tick_params(axis="y", labelsize=8, colors=INK)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_ylabel(f"importance (top {TOP} in orange)", fontsize=8, color=INK)
    save(figure, path)


def draw_attacks(results: dict[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    cell = next(cell for cell in results["cells"] if (cell["data"], cell["net"]) == ("adult", "relu"))
    shown = {
        "noise": ("#9fb3c8", ":", 3),
        "MSEAttack": ("#6b8fb3", "--", -9),
        "ERAttack": ("#2b5f93", "--", 2),
        "MinimalFlip": ("#9a7b4f", "-.", -9),
        "BoundaryAttack hinge": ("#e08a52", "-", -3),
        WORST: (SALIENT, "-", -3),
    }
    figure, axis = plt.subplots(figsize=(7.5, 4))
    for name, (colour, style, shift) in shown.items():
        points = sorted((float(radius), 100 * value) for radius, value in cell["precision"][name].items())
        axis.plot(*zip(*points, strict=True), color=colour, linestyle=style, marker=".", label=name)
        axis.annotate(
            name,
            points[-1],
            xytext=(6, shift),
            textcoords="offset points",
            fontsize=8,
            color=colour,
            clip_on=False,
        )
    axis.set_xlabel("L2 radius in scaled units", fontsize=9, color=INK)
    axis.set_ylabel("P@8, percent", fontsize=9, color=INK)
    axis.set_title("A vanilla ReLU network on Adult: what survives", fontsize=10, color=INK)
    axis.set_xlim(0, 1.32)
    axis.set_ylim(0, 103)
    axis.grid(alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    save(figure, path)


def attacks_page(results: dict[str, Any]) -> str:
    settings, found = results["settings"], results["summary"]
    ratios = found["median of displaced / displaced by ERAttack, radii 0.1 and 0.3"]
    beaten = found["cells in which another attack beats WorstCase standard"]
    lines = [
        "# Strength of the attacks",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/attacks.json -->",
        "",
        f"`{results['command']}`",
        "",
        f"Features displaced (100 - P@{settings['k']}, percent) on trained networks with one hidden layer of 32, "
        f"{settings['inputs']} test inputs, {settings['steps']} steps for each attack that takes steps; WorstCase "
        "brings its own. ERAttack is the paper's, on the gradient of the probability. TrustRegion stops at the first "
        f"flip by design and ran on the first {settings['inputs for TrustRegion']} inputs.",
        "",
        "![P@8 against radius](../images/attacks.svg)",
        "",
        f"Median over the {found['cells compared']} cells (network x radius 0.1, 0.3) in which ERAttack leaves P@8 "
        "between 50 and 99:",
        "",
        "| attack | displaced, as a multiple of ERAttack's |",
        "|---|---|",
        *(f"| {name} | {value:g} |" for name, value in ratios.items()),
        "",
        "Cells in which another attack beats WorstCase standard on the same inputs: "
        + ("none." if not beaten else f"{len(beaten)}: {beaten}."),
        "",
        "| timing, one core, processor time | |",
        "|---|---|",
        *(f"| {name} | {value:g} |" for name, value in results["timings"].items()),
        "",
    ]
    names = list(results["cells"][0]["precision"])
    for radius in settings["radii"]:
        lines += [
            f"## Radius {radius:g}",
            "",
            f"| network | {' | '.join(names)} |",
            "|---" * (len(names) + 1) + "|",
        ]
        for cell in results["cells"]:
            values = [f"{100 * (1 - cell['precision'][name][f'{radius:g}']):.1f}" for name in names]
            lines.append(f"| {cell['data']}, {cell['net']} | {' | '.join(values)} |")
        lines.append("")
    return "\n".join(lines)


def save(figure: Any, path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "r2et"
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def speed_page(results: dict[str, Any]) -> str:
    lines = [
        "# Speed",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/speed.json -->",
        "",
        f"`{results['command']}`: ratios within one run, median of {results['settings']['rounds']} rounds, one thread, "
        f"torch {results['settings']['torch']}. {results['settings']['training step']}.",
        "",
        "| what | ratio | bound | holds |",
        "|---|---|---|---|",
    ]
    for name, entry in results["measured"].items():
        bound = next(
            (f"{key} {entry[key]:g}" for key in ("at most", "at least") if entry.get(key) is not None), "-"
        )
        lines.append(f"| {name} | {entry['ratio']:g} | {bound} | {'yes' if entry['holds'] else 'no'} |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, table: str) -> str:
    """The README with the table between its two markers replaced."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + table + END + rest.split(END)[1]


def main() -> None:
    draw_distance(IMAGES / "distance.svg")
    draw_concepts(IMAGES, save)
    draw_lists(IMAGES, save)
    benchmark = results()
    draw_all(benchmark, IMAGES)
    for name, page in PAGES.items():
        (ROOT / "docs" / "results" / f"{name}.md").write_text(page(benchmark))
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), readme_table(benchmark)))
    attacks = json.loads((RESULTS / "attacks.json").read_text())
    draw_attacks(attacks, IMAGES / "attacks.svg")
    (ROOT / "docs" / "results" / "attacks.md").write_text(attacks_page(attacks))
    certificates = json.loads((RESULTS / "certificates.json").read_text())
    draw_certificates(certificates, IMAGES / "certificates.svg", save)
    soundness = json.loads((RESULTS / "soundness.json").read_text())
    memory = json.loads((RESULTS / "memory.json").read_text())
    page = certificates_page(certificates) + memory_section(memory) + soundness_section(soundness)
    (ROOT / "docs" / "results" / "certificates.md").write_text(page)
    brackets = json.loads((RESULTS / "brackets.json").read_text())
    (ROOT / "docs" / "results" / "brackets.md").write_text(brackets_page(brackets))
    reasons = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("stable_reasons", "reasons"))
    (ROOT / "docs" / "results" / "reasons.md").write_text(reasons_page(*reasons))
    worst_case = json.loads((RESULTS / "worst_case.json").read_text())
    draw_worst_case(worst_case, IMAGES / "worst-case.svg", save)
    (ROOT / "docs" / "results" / "worst-case.md").write_text(worst_case_page(worst_case))
    speed = json.loads((RESULTS / "speed.json").read_text())
    (ROOT / "docs" / "results" / "speed.md").write_text(speed_page(speed))


if __name__ == "__main__":
    main()
