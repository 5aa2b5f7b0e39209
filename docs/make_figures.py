"""Draw the pictures of the documentation and write its results pages: python docs/make_figures.py

Every figure in a page comes from a file in benchmarks/results; nothing is typed by hand.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from r2et import precision_at_k

sys.path.insert(0, str(Path(__file__).parent))
from certificate_pages import certificates_page, draw_certificates
from image_pages import TITLES as IMAGE_DATA
from image_pages import images_page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results"
TITLES = {"adult": "Adult", "bank": "Bank", "compas": "COMPAS"}
# The idea of the paper's Fig. 1: of two perturbed explanations, the nearer one has fewer of the top features.
FEATURES = ("age", "income", "debt", "rent", "tenure", "loans", "score", "calls")
ORIGINAL = torch.tensor([0.90, 0.78, 0.66, 0.58, 0.50, 0.30, 0.20, 0.10])
FAR = torch.tensor([1.35, 1.20, 1.05, 0.30, 0.20, 0.12, 0.08, 0.05])
NEAR = torch.tensor([0.88, 0.55, 0.54, 0.70, 0.64, 0.32, 0.21, 0.11])
TOP = 3
BEGIN, END = "<!-- begin: made by docs/make_figures.py from benchmarks/results/tabular.json -->", "<!-- end -->"
WORST = "WorstCase standard"
#: where the names of some methods stand beside their points
LABELS = {
    "linear": ((-6, -3), "right"),
    "vanilla": ((-6, -3), "right"),
    "sp": ((6, 3), "left"),
    "r2et-sf": ((7, -8), "left"),
}
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


def draw_tabular(results: dict[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in results["table"]))
    figure, axes = plt.subplots(1, len(names), figsize=(11, 3.6))
    for axis, name in zip(axes, names, strict=True):
        for row in results["table"]:
            if row["data"] != name:
                continue
            auc, precision = row["test_auc"]["mean"], 100 * row["precision"]["ERAttack"]["mean"]
            ours = row["method"].startswith("r2et")
            colour = SALIENT if ours else INK if row["method"] == "linear" else OTHER
            axis.scatter(auc, precision, color=colour, s=42 if row["method"] == "r2et-sf" else 22, zorder=3)
            if row["method"] in LABELS:
                place, side = LABELS[row["method"]]
                axis.annotate(
                    row["title"],
                    (auc, precision),
                    xytext=place,
                    ha=side,
                    textcoords="offset points",
                    fontsize=7.5,
                    color=INK,
                )
        axis.set_title(TITLES[name], fontsize=10, color=INK)
        axis.set_xlabel("test AUC", fontsize=8, color=INK)
        axis.margins(x=0.18)
        axis.set_ylim(top=103)
        axis.tick_params(labelsize=8, colors=INK)
        axis.grid(alpha=0.25)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_ylabel("P@8 under ERAttack, radius 1", fontsize=8, color=INK)
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


def settings_text(settings: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items()) or "-"


def tabular_page(results: dict[str, Any]) -> str:
    settings = results["settings"]
    training = settings["training"]
    lines = [
        "# Results on tabular data",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/tabular.json -->",
        "",
        f"`{results['command']}`",
        "",
        f"Top k = {settings['k']}, L2 radius {settings['radius']:g} in scaled units, {settings['steps']:,} attack steps, "
        f"{settings['test rows']:,} test inputs, mean and standard deviation over {settings['seeds']} seeds. MLP with one "
        f"hidden layer of 32; at most {training['epochs']} epochs (the paper: 300), patience {training['patience']} "
        f"(30), batch {training['batch_size']}. Hyper-parameters were chosen on the first seed from the small grid in "
        "the results file, by validation P@8 under ERAttack among models within 0.01 of Vanilla's validation AUC. "
        "Vanilla and Linear keep the epoch with the lowest validation loss, every other method the last epoch that "
        "passes the threshold (App. B.1.2).",
        "",
        "Both attacks are the paper's, and they are weak: [stronger ones](attacks.md) displace more. Read the table as "
        "a comparison with the paper, not as a measure of safety.",
        "",
        "![AUC against P@8](../images/tabular.svg)",
        "",
    ]
    for name in dict.fromkeys(row["data"] for row in results["table"]):
        lines += [
            f"## {TITLES[name]}",
            "",
            "| method | settings | test AUC | P@8 ERAttack | P@8 MSEAttack | AUC passes |",
            "|---|---|---|---|---|---|",
        ]
        for row in results["table"]:
            if row["data"] == name:
                auc = row["test_auc"]
                cells = [
                    f"{100 * row['precision'][attack]['mean']:.1f} ± {100 * row['precision'][attack]['std']:.1f}"
                    for attack in ("ERAttack", "MSEAttack")
                ]
                lines.append(
                    f"| {row['title']} | {settings_text(row['settings'])} | {auc['mean']:.4f} ± {auc['std']:.4f} | "
                    f"{' | '.join(cells)} | {'yes' if row['passed'] else 'no'} |"
                )
        lines.append("")
    lines += [
        "## Does each regulariser act?",
        "",
        "A weight too small to act is Vanilla under another name. The value of each method's regulariser on validation "
        "inputs, first seed: of the untrained network, of the vanilla network, and after training with it. A gap, a "
        "thickness and a radius are enlarged, the others are lowered.",
        "",
        "| data | method | regulariser | untrained | vanilla | trained |",
        "|---|---|---|---|---|---|",
    ]
    for cell in results["cells"]:
        if cell["seed"] != 0:
            continue
        values = cell["regularisers"]
        for part in values["trained"]:
            if part == "cross-entropy":
                continue
            vanilla = f"{values['vanilla'][part]:.4g}" if values["vanilla"] else "-"
            lines.append(
                f"| {TITLES[cell['data']]} | {cell['title']} | {part} | {values['untrained'][part]:.4g} | {vanilla} | "
                f"{values['trained'][part]:.4g} |"
            )
    return "\n".join(lines) + "\n"


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


def readme_table(results: dict[str, Any]) -> str:
    """The best R2ET variant beside its rivals, for the README."""
    lines = [
        "| data | Linear | Vanilla | SP | best of the paper's R2ET | scale-free R2ET |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["data"] for row in results["table"]):
        rows = {row["method"]: row for row in results["table"] if row["data"] == name}
        paper = [rows[method] for method in ("r2et", "r2et-mm", "r2et-no-h", "r2et-mm-no-h")]
        best = max((row for row in paper if row["passed"]), key=lambda row: row["precision"]["ERAttack"]["mean"])
        cells = [
            f"{100 * row['precision']['ERAttack']['mean']:.1f} at {row['test_auc']['mean']:.3f}"
            for row in (rows["linear"], rows["vanilla"], rows["sp"], best, rows["r2et-sf"])
        ]
        lines.append(f"| {TITLES[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, table: str) -> str:
    """The README with the table between its two markers replaced."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + table + END + rest.split(END)[1]


def image_results() -> dict[str, dict[str, Any]]:
    return {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in IMAGE_DATA}


def main() -> None:
    draw_distance(IMAGES / "distance.svg")
    tabular = json.loads((RESULTS / "tabular.json").read_text())
    draw_tabular(tabular, IMAGES / "tabular.svg")
    (ROOT / "docs" / "results" / "tabular.md").write_text(tabular_page(tabular))
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), readme_table(tabular)))
    attacks = json.loads((RESULTS / "attacks.json").read_text())
    draw_attacks(attacks, IMAGES / "attacks.svg")
    (ROOT / "docs" / "results" / "attacks.md").write_text(attacks_page(attacks))
    certificates = json.loads((RESULTS / "certificates.json").read_text())
    draw_certificates(certificates, IMAGES / "certificates.svg", save)
    (ROOT / "docs" / "results" / "certificates.md").write_text(certificates_page(certificates))
    speed = json.loads((RESULTS / "speed.json").read_text())
    (ROOT / "docs" / "results" / "speed.md").write_text(speed_page(speed))
    (ROOT / "docs" / "results" / "images.md").write_text(images_page(image_results(), IMAGES))


if __name__ == "__main__":
    main()
