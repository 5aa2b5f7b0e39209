"""The results pages that are made from the records of `r2et bench`."""

import statistics
from pathlib import Path
from typing import Any

from r2et_bench.figures import MEASURES, draw
from r2et_bench.formats import markdown_section, render
from r2et_bench.honest import accurate, judge
from r2et_bench.paper_tables import NUMBERS, make_table
from r2et_bench.plans import PLANS
from r2et_bench.records import Store
from r2et_bench.results import DATA_TITLES, Results, Row, load_results

ROOT = Path(__file__).parent.parent
STORE = Store(ROOT / "benchmarks" / "records", ROOT / "runs" / "bench")
NOTICE = "<!-- made by docs/make_figures.py from benchmarks/records -->"
#: the paper's best values, which it reached under a weaker attack: ours are to reach them under WorstCase
TARGETS = {"adult": 97.5, "bank": 98.0, "compas": 99.0, "mnist-pairs": 88.0, "abide": 71.6}
#: drawn from records alone, so that anyone can draw them again
DRAWN = ("correlation", "attacks", "tradeoff", "kprime", "magnitude", "time")
CAPTIONS = {
    "correlation": "Iterations to the first flip against thickness and Hessian norm, input by input (Fig. 2 and 4)",
    "attacks": "Constrained attacks on ABIDE: lower left is better for the attacker; the star is the paper's choice "
    "(Fig. 6)",
    "tradeoff": "Test AUC against P@k under WorstCase; triangles are R2ET and its variants (Fig. 7)",
    "kprime": "P@k against the number of boundary pairs k' (Fig. 9). Restricted to k' pairs, R2ET and R2ET-mm are one "
    "objective, so there is one curve",
    "magnitude": "Vanilla's score by rank: the step at k is the gap an attack has to close (Fig. 8)",
    "time": "Time of an epoch over Vanilla's",
}
PICTURES = {
    "mnist-pairs-saliency": (
        "The most typical of 16 test pairs before and after ERAttack, 100 epochs",
        "r2et bench figure saliency --preset mnist-paper",
    ),
    "cifar10-saliency": (
        "The most typical of 16 test images before and after ERAttack",
        "r2et bench figure saliency --preset cifar10",
    ),
    "abide-circle-vanilla": (
        "The 50 edges that count most for Vanilla, before and after ERAttack",
        "r2et bench figure saliency --preset abide",
    ),
    "abide-circle-r2et-scale-free": (
        "The same for scale-free R2ET",
        "r2et bench figure saliency --preset abide --method r2et-sf",
    ),
}
REDUCED = """
| | the paper | here | why |
|---|---|---|---|
| tabular | 300 epochs, patience 30, whole test sets | {tabular_epochs} epochs, patience 20; 500 test inputs (certificates 200, SmoothGrad and IG 100 with 50 steps) | hours; the standard error of P@k over 500 inputs is at most 1.5 points |
| grids | Table 4 | the part of it that passes the AUC threshold, weights of both normalisations; scale-free R2ET a grid of its own | hours; the largest weights that were tried did not pass |
| seeds | not stated | 5 (tabular), 3 (MNIST, ABIDE, OCT), 1 (CIFAR-10); fewer for some rows: a value without ± is one seed | hours |
| MNIST | 100 epochs | {mnist_epochs} epochs, 100 test pairs (WorstCase 50) | 100 epochs for three methods, one seed: [images](images.md) |
| CIFAR-10 | 50,000 images, ResNet-18 | 10,000 images, a ResNet of 3 stages; 40 attacked images (WorstCase 8), 2 epochs of retraining | no GPU |
| graphs | ADHD, BP | ABIDE, 2 epochs, 40 attacked pairs (WorstCase 8) | ADHD and BP are not public |
| ROCT | 512 neurons | OCT at 128 x 128, 128 neurons, 40 attacked scans (WorstCase 12) | no GPU |
| WorstCase | - | standard budget for tables, fast for the rest | hours |
"""


def results() -> Results:
    return load_results(STORE)


def honest_page(found: Results) -> str:
    lines = [
        "# The honest table",
        "",
        NOTICE,
        "",
        "`r2et bench table honest`, from records that `r2et bench run --preset paper-tabular` (and `mnist`, `cifar10`, "
        "`abide`, `oct`) computed.",
        "",
        "![AUC against P@k under WorstCase](../images/bench-tradeoff.svg)",
        "",
    ]
    table = render(make_table("honest", found), "markdown").splitlines()[2:]
    if not any(row.first("worst/individuality") for row in found.main()):
        lines += [
            "These records were computed before lists were kept with them, so that the column *kappa* is empty: whether a "
            "row that holds gives [everybody one list](../concepts/lists.md#whose-list-individuality) cannot be seen here. "
            "`r2et audit` says it of any model.",
            "",
        ]
    lines += [*table, "", "## Targets", ""]
    lines += [
        "The paper's best values under its own attack, to be reached by the best R2ET row under WorstCase with an AUC "
        "that passes.",
        "",
        "| data | target | best R2ET row | P@k worst | AUC | |",
        "|---|---|---|---|---|---|",
    ]
    for data, target in TARGETS.items():
        best = best_of_ours(found, data)
        if best is None:
            lines.append(f"| {DATA_TITLES[data]} | {target:g} | - | - | - | no row passes |")
            continue
        value = 100 * mean(best, "worst/precision")
        verdict = "met" if round(value, 1) >= target else f"missed by {target - value:.1f}"
        lines.append(
            f"| {DATA_TITLES[data]} | {target:g} | {best.title} | {value:.1f} | {mean(best, 'prediction/auc'):.4f} | "
            f"{verdict} |"
        )
    correlated = found.row("compas", "r2et")
    pearson = None if correlated is None else correlated.first("correlation/pearson")
    if pearson:
        own, rival = pearson["thickness, adversarial"], pearson["Hessian norm"]
        lines += [
            "",
            f"Thickness (adversarial samples) and the iteration of the first flip, R2ET on COMPAS: Pearson {own:.2f}, target "
            f"0.7, {'met' if own >= 0.7 else 'missed'}; the Hessian norm has {rival:.2f}. All of them: "
            "[the paper's tables](tables.md#does-thickness-predict-the-attack).",
        ]
    lines += ["", *masking_table(found), "## What was reduced, and why", "", reduced().strip(), ""]
    return "\n".join(lines)


def masking_table(found: Results) -> list[str]:
    """Whether scale-free R2ET only hides from the attacks."""
    rows = [row for row in found.main() if row.first("masking/inputs")]
    if not rows:
        return []
    names = [name for name in rows[0].records[0]["studies"]["masking"]["values"] if name != "inputs"]
    lines = [
        "",
        "## Is it stable, or does it hide?",
        "",
        "A model can look stable because its slopes mislead attacks. P@k of the stable models at the full radius under "
        "searches that do not follow their slopes, first seed, "
        f"{rows[0].first('masking/inputs')} inputs: none finds much more than WorstCase. That nearly nothing is *proven* at "
        "this radius for some of them is a limit of the certificate of that version, whose radii were badly spaced and whose "
        "intervals are wide, not a successful attack: bounds by duality came later, and [close most of that "
        "gap](brackets.md) on networks of the same recipe.",
        "",
        f"| data | method | {' | '.join(names)} |",
        "|---" * (2 + len(names)) + "|",
    ]
    for row in rows:
        values = " | ".join(f"{100 * row.first(f'masking/{name}'):.1f}" for name in names)
        lines.append(f"| {DATA_TITLES[row.data]} | {row.title} | {values} |")
    return [*lines, ""]


def reduced() -> str:
    return REDUCED.format(
        tabular_epochs=PLANS["paper-tabular"].schedule["epochs"], mnist_epochs=PLANS["mnist"].schedule["epochs"]
    )


def tables_page(found: Results) -> str:
    lines = [
        "# The paper's tables and figures",
        "",
        NOTICE,
        "",
        "Every table of the paper's experiments with our values beside the paper's: `r2et bench table 1`, and so on; "
        "`--format latex`, `csv` or `html` for other uses. Both attacks of the paper are weak; the figures to believe "
        "are in [the honest table](honest.md), where it also says what was reduced.",
        "",
    ]
    for number in NUMBERS:
        if number != "honest":
            lines += [render(make_table(number, found), "markdown"), ""]
    lines += ["## Figures", ""]
    for name in DRAWN:
        lines += [f"![{CAPTIONS[name]}](../images/bench-{name}.svg)", "", f"*{CAPTIONS[name]}.*", ""]
    lines += [*correlation_table(found), *chosen_table(found), *regulariser_table(found)]
    return "\n".join(lines) + "\n"


def correlation_table(found: Results) -> list[str]:
    lines = [
        "## Does thickness predict the attack?",
        "",
        "Pearson correlation of each measure with the iterations ERAttack needs for its first flip; inputs that it "
        "never flips count as one iteration more than there are. The paper measures thickness by adversarial samples, "
        "which knows the attack; Gaussian samples do not.",
        "",
        f"| data | method | never flipped | {' | '.join(MEASURES)} |",
        "|---" * (3 + len(MEASURES)) + "|",
    ]
    for row in found.main():
        values = row.first("correlation/pearson")
        if values:
            shown = ["-" if values[name] is None else f"{values[name]:.2f}" for name in MEASURES]
            never = row.first("correlation/never flipped")
            lines.append(f"| {DATA_TITLES[row.data]} | {row.title} | {never:.0%} | {' | '.join(shown)} |")
    return [*lines, ""]


def chosen_table(found: Results) -> list[str]:
    lines = [
        "## Chosen hyper-parameters",
        "",
        "On the first seed, by validation P@k under ERAttack among models that pass the AUC threshold (B.1.2); the "
        "candidates and what each came to are in the records (`search-*.json`).",
        "",
        "| data | method | chosen | candidates |",
        "|---|---|---|---|",
    ]
    for row in found.main():
        if row.settings:
            search = found.searches.get((row.data, row.method))
            tried = len({str(entry["settings"]) for entry in search["tried"]}) if search else 1
            text = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in row.settings.items())
            lines.append(f"| {DATA_TITLES[row.data]} | {row.title} | {text} | {tried} |")
    return [*lines, ""]


def regulariser_table(found: Results) -> list[str]:
    lines = [
        "## Does each regulariser act?",
        "",
        "A weight too small to act is Vanilla under another name. The value of each method's regulariser on validation "
        "inputs, first seed. A gap, a thickness and a radius are enlarged, the others are lowered.",
        "",
        "| data | method | regulariser | untrained | vanilla | trained |",
        "|---|---|---|---|---|---|",
    ]
    for row in found.main():
        trained = row.first("regularisers/trained") or {}
        for part, value in trained.items():
            others = [row.first(f"regularisers/{when}/{part}") for when in ("untrained", "vanilla")]
            shown = ["-" if other is None else f"{other:.4g}" for other in others]
            lines.append(f"| {DATA_TITLES[row.data]} | {row.title} | {part} | {' | '.join(shown)} | {value:.4g} |")
    return [*lines, ""]


def guide_page(found: Results) -> str:
    """What a practitioner should use when, in one screen."""
    lines = [
        "# What to use when",
        "",
        NOTICE,
        "",
        "From [the honest table](honest.md): P@k is the share of the top k reasons that survives the worst attack found at "
        "the radius of the paper, and *proven* the radius inside which no attack at all can change the list (median). *Clearly more accurate*: the AUC exceeds "
        "the linear model's by at least half of what Vanilla's does; heavier weights slide into the linear model.",
        "",
        "| data | a linear model | as it comes (Vanilla) | most stable | P@k, AUC | proven | cost | clearly more accurate "
        "than linear |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data in found.data:
        verdict = judge(data, found)
        rows = {row.method: row for row in found.of(data)}
        vanilla, linear, winner = rows.get("vanilla"), rows.get("linear"), verdict.winner
        use = "a linear model" if verdict.linear_is_enough else winner.title if holds(winner) else "nothing holds"
        shown, above = linear if verdict.linear_is_enough else winner, verdict.above_linear
        other = "-" if above is None else "the same" if above is winner else f"{above.title}, {at(above)}"
        lines.append(
            f"| {DATA_TITLES[data]} | {at(linear)} | {at(vanilla)} | **{use}** | {at(shown)} | {proven(shown)} | "
            f"{cost(shown, vanilla)} | {other} |"
        )
    lines += ["", *guide_rules(found), ""]
    return "\n".join(lines)


def guide_rules(found: Results) -> list[str]:
    rules = [
        "1. **Try a linear model first.** Its list of two-class reasons cannot be moved at all, because by gradients it is "
        "[one list for everybody](../concepts/lists.md#whose-list-individuality). Where the table's first column has an "
        "AUC you can live with, and a list about the model is enough, stop there.",
    ]
    tables = [data for data in ("adult", "bank", "compas") if data in found.data]
    gains = [
        (DATA_TITLES[data], 100 * mean(vanilla, "worst/precision"), 100 * mean(free, "worst/precision"))
        for data in tables
        if (vanilla := found.row(data, "vanilla"))
        and (free := found.row(data, "r2et-sf"))
        and free.values("worst/precision")
    ]
    if gains:
        text = ", ".join(f"{title} from {before:.0f} to {after:.0f}" for title, before, after in gains)
        free = found.row(tables[0], "r2et-sf")
        weights = ", ".join(f"{name} {value:g}" for name, value in (free.settings if free else {}).items())
        rules.append(
            f"2. **Tables: scale-free R2ET** (`r2et.StableClassifier`, or `--method r2et-sf`) lifts P@k under WorstCase on "
            f"{text}. Start from {weights} ({DATA_TITLES[tables[0]]}'s choice) and lower the curvature weight "
            "for more accuracy; give it time, strong weights learn late."
        )
    softplus = [
        f"{DATA_TITLES[data]} {100 * mean(row, 'worst/precision'):.0f}"
        for data in tables
        if (row := found.row(data, "sp")) and row.values("worst/precision")
    ]
    if softplus:
        rules.append(
            "3. **No time to tune: replace ReLU by softplus** (SP). It costs little and has one number to choose, its sharpness: P@k "
            f"{', '.join(softplus)}."
        )
    weak = [
        f"{DATA_TITLES[data]} {100 * mean(row, 'attacks/ERAttack'):.0f} against {100 * mean(row, 'worst/precision'):.0f}"
        for data in found.data
        if (row := found.row(data, "vanilla")) and row.values("worst/precision") and row.values("attacks/ERAttack")
    ]
    rules.append(
        "4. **Do not trust a weak attack.** P@k of Vanilla under the paper's ERAttack and under WorstCase: "
        f"{'; '.join(weak)}."
    )
    lost = [
        DATA_TITLES[data]
        for data in found.data
        if holds(winner := judge(data, found).winner) and winner is not None and not winner.ours
    ]
    if lost:
        rules.append(
            f"5. **Where R2ET is not the answer**: on {', '.join(lost)} another row holds best under WorstCase at the CPU "
            "presets, whose weights were not searched for long."
        )
    empty = [DATA_TITLES[data] for data in found.data if not holds(judge(data, found).winner)]
    if empty:
        rules.append(
            f"{len(rules) + 1}. **Nothing holds on {', '.join(empty)}** at this radius, which is large: believe no method there."
        )
    return rules


def holds(row: Row | None) -> bool:
    """Whether a tenth of the reasons survives at all."""
    return row is not None and mean(row, "worst/precision") >= 0.1


def readme_table(found: Results) -> str:
    lines = [
        "| data | Linear | Vanilla | SP | best of the paper's R2ET | scale-free R2ET |",
        "|---|---|---|---|---|---|",
    ]
    for data in (name for name in ("adult", "bank", "compas") if name in found.data):
        paper = [found.row(data, method) for method in ("r2et", "r2et-mm", "r2et-no-h", "r2et-mm-no-h")]
        passing = [row for row in paper if row is not None and accurate(row) and row.values("worst/precision")]
        best = max(passing, key=lambda row: mean(row, "worst/precision"), default=None)
        shown = [found.row(data, method) for method in ("linear", "vanilla", "sp")] + [
            best,
            found.row(data, "r2et-sf"),
        ]
        lines.append(f"| {DATA_TITLES[data]} | {' | '.join(at(row) for row in shown)} |")
    return "\n".join(lines) + "\n"


def best_of_ours(found: Results, data: str) -> Row | None:
    if data not in found.data:
        return None
    rows = [*found.of(data), *found.of(data, "lighter")]
    rows = [row for row in rows if row.ours and accurate(row) and row.values("worst/precision")]
    return max(rows, key=lambda row: mean(row, "worst/precision"), default=None)


def mean(row: Row | None, path: str) -> float:
    return statistics.mean(row.values(path).values()) if row else float("nan")


def at(row: Row | None) -> str:
    if row is None or not row.values("worst/precision"):
        return "-"
    return f"{100 * mean(row, 'worst/precision'):.1f} at {mean(row, 'prediction/auc'):.3f}"


def proven(row: Row | None) -> str:
    if row is None or row.first("certified/applies") is not True:
        return "-"
    if row.first("certified/median radius") == "infinite":
        return "everywhere"
    return f"{mean(row, 'certified/median radius'):.2f}"


def cost(row: Row | None, vanilla: Row | None) -> str:
    value = None if row is None else row.cost(vanilla)
    return "-" if value is None else f"{value:.1f} x"


def draw_all(found: Results, images: Path) -> None:
    for name in DRAWN:
        draw(name, found, STORE, images / f"bench-{name}.svg")


def images_page(found: Results) -> str:
    """Pictures, and MNIST pairs at the paper's epochs."""
    long = load_results(STORE, ["mnist-paper"])
    lines = [
        "# Images and graphs",
        "",
        NOTICE,
        "",
        "MNIST pairs, CIFAR-10, ABIDE and OCT are in [the honest table](honest.md) and in [the paper's tables](tables.md). "
        "Here are their pictures, and MNIST pairs at the 100 epochs of the paper, one seed "
        "(`r2et bench run --preset mnist-paper`, 200 attacked test pairs, 50 under WorstCase).",
        "",
        *markdown_section(make_table("1", long).sections[0], 2),
        *markdown_section(make_table("honest", long).sections[0], 2),
        "## Pictures",
        "",
    ]
    for name, (caption, command) in PICTURES.items():
        lines += [
            f"![{caption}](../images/{name}.png)",
            "",
            f"*{caption}.* `{command} -o docs/images/{name}.png`",
            "",
        ]
    return "\n".join(lines)


PAGES: dict[str, Any] = {
    "what-to-use": guide_page,
    "honest": honest_page,
    "tables": tables_page,
    "images": images_page,
}
__all__ = ["PAGES", "draw_all", "markdown_section", "readme_table", "results"]
