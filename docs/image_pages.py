"""The results page of images and graphs; called by make_figures.py."""

from pathlib import Path
from typing import Any

TITLES = {
    "mnist-pairs": "MNIST pairs, digits 3 and 8 (Siamese CNN)",
    "cifar10": "CIFAR-10 (small ResNet)",
    "abide": "ABIDE connectomes, age group (Siamese GCN)",
    "oct": "OCT scans, oedema against normal (small ResNet, its 128 last neurons explained)",
}
PICTURES = {
    "saliency": "Maps before and after ERAttack of a typical one of 16 test inputs, one row a method; top-k outlined",
    "circle-vanilla": "Top-k edges before and after ERAttack, Vanilla",
    "circle-r2et-scale-free": "Top-k edges before and after ERAttack, scale-free R2ET",
    "matrix-vanilla": "The same as a matrix, Vanilla",
    "magnitude": "Mean score by rank over the largest: how far the k-th stands from the next",
}


def images_page(results: dict[str, dict[str, Any]], images: Path) -> str:
    """The page, from the results files by name of the data; pictures that are there are shown."""
    lines = [
        "# Images and graphs",
        "",
        "<!-- made by docs/make_figures.py from benchmarks/results/*.json -->",
        "",
        "P@k in percent under the paper's ERAttack, on MNIST also its MSEAttack, and under our BoundaryAttack, of models "
        "trained by each method. "
        "*Passes*: the validation AUC comes as close to Vanilla's as the paper's rule asks; every method but Vanilla "
        "keeps its last epoch that does. *Cost*: processor time of an epoch over that of an epoch of Vanilla from "
        "scratch. A model is retrained from the vanilla one where the table says so, as in the paper. Compare rows of "
        "one table: sizes, epochs and attacked inputs are those of two processor cores, and the settings stand above "
        "each table.",
        "",
    ]
    for name, found in results.items():
        lines += _section(name, found, images)
    return "\n".join(lines) + "\n"


def _section(name: str, found: dict[str, Any], images: Path) -> list[str]:
    settings = found["settings"]
    training, retraining = settings["training"], settings["retraining"]
    rows = found["methods"]
    attacks = list(next(iter(found["cells"]))["precision"])
    epochs = settings["epochs"] or training["epochs"]
    lines = [
        f"## {TITLES[name]}",
        "",
        f"`{found['command']}`",
        "",
        f"k = {settings['k']}, L2 radius {settings['radius']:g} in standardised units, {settings['attack steps']} attack "
        f"steps (BoundaryAttack {settings['steps of BoundaryAttack']}), {settings['attacked inputs']} test inputs, "
        f"{_seeds(rows)}. At most {epochs} epochs from scratch at a learning rate of "
        f"{training['lr']:g}, batches of {training['batch_size']}"
        + (f"; {retraining['epochs']} epochs of retraining at {retraining['lr']:g}" if retraining else "")
        + f". Explanation: `{settings['explainer']}`. A model passes {settings['auc_margin']:g} below Vanilla's "
        "validation AUC.",
        "",
        f"| method | settings | test AUC | accuracy | {' | '.join(f'P@k {attack}' for attack in attacks)} | passes | cost |",
        "|---" * (6 + len(attacks)) + "|",
    ]
    base = _epoch_cost(found["cells"], "vanilla")
    for method, row in rows.items():
        given = settings["hyper-parameters"][method]
        text = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in given.items()) or "-"
        title = row["title"] + (", retrained" if row["retrained"] else "")
        passed = all(cell["passed"] for cell in found["cells"] if cell["method"] == method)
        values = [_spread(row[attack], row["seeds"], 100, 1) for attack in attacks]
        lines.append(
            f"| {title} | {text} | {_spread(row['auc'], row['seeds'], 1, 4)} | "
            f"{_spread(row['accuracy'], row['seeds'], 100, 1)} | "
            f"{' | '.join(values)} | {'yes' if passed else 'no'} | {_epoch_cost(found['cells'], method) / base:.1f} |"
        )
    lines.append("")
    for kind, caption in PICTURES.items():
        if (images / f"{name}-{kind}.png").exists():
            lines += [f"![{caption}](../images/{name}-{kind}.png)", "", f"*{caption}.*", ""]
    return lines


def _seeds(rows: dict[str, Any]) -> str:
    """How many seeds the rows are over; a row without a spread is of one seed."""
    most = max(row["seeds"] for row in rows.values())
    if most == 1:
        return "one seed"
    fewer = [row["title"] for row in rows.values() if row["seeds"] < most]
    return f"{most} seeds" + (f" (one for {', '.join(fewer)})" if fewer else "")


def _epoch_cost(cells: list[dict[str, Any]], method: str) -> float:
    own = [cell["seconds"] / max(1, cell["epochs"]) for cell in cells if cell["method"] == method]
    return sum(own) / len(own)


def _spread(value: dict[str, float], seeds: int, scale: float, digits: int) -> str:
    mean = f"{scale * value['mean']:.{digits}f}"
    return mean if seeds == 1 else f"{mean} ± {scale * value['std']:.{digits}f}"
