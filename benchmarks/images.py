"""Images and graphs: AUC and P@k of each method under attack, with the presets of r2et.training.

    R2ET_DATA=... python benchmarks/images.py run --data mnist-pairs --preset paper \
        --output benchmarks/results/mnist-pairs.json
    R2ET_DATA=... python benchmarks/images.py figures --data mnist-pairs --preset paper --output docs/images

One cell is a method and a seed. Finished cells are files in the work folder, the trained model and its epochs
beside them; an interrupted run continues. Two processes, one thread each. Figures are drawn from the models of the
work folder.
"""

import argparse
import hashlib
import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

METHODS = ("vanilla", "r2et", "r2et-sf", "sp", "wd", "est-h", "at", "r2et-mm", "r2et-no-h", "r2et-mm-no-h")
PICTURED = 16


@dataclass(frozen=True)
class Evaluation:
    """How many test inputs are attacked, for which k besides the preset's, and how long."""

    rows: int
    also: tuple[int, ...] = ()
    mse: bool = True
    boundary_steps: int = 100


#: the paper attacks whole test sets; here what two cores do in an hour or two
EVALUATIONS = {
    "mnist-pairs": Evaluation(200),
    "cifar10": Evaluation(64, also=(100,), mse=False, boundary_steps=50),
    "abide": Evaluation(40, mse=False, boundary_steps=25),
    "oct": Evaluation(40, mse=False, boundary_steps=50),
}


def accuracy(model: Any, x: Any, y: Any) -> float:
    import torch

    with torch.no_grad():
        return float((torch.cat([model(part) for part in x.split(256)]).argmax(1) == y).double().mean())


def cell_path(work: Path, data_name: str, method: str, seed: int, preset: Any, epochs: int | None) -> Path:
    """Where a cell is kept: another preset, hyper-parameter or evaluation is another cell."""
    made_with = [repr(preset), hyper_parameters(method, preset), epochs, asdict(EVALUATIONS[data_name])]
    digest = hashlib.sha256(json.dumps(made_with).encode()).hexdigest()[:10]
    return work / f"{data_name}-{method}-{seed}-{digest}.json"


def hyper_parameters(method: str, preset: Any) -> dict[str, float]:
    from r2et.training import METHODS as TABLE

    return TABLE[method].settings(preset.defaults.get(method, {}))


def vanilla_auc(work: Path, data_name: str, seed: int, preset: Any, epochs: int | None) -> float:
    path = cell_path(work, data_name, "vanilla", seed, preset, epochs)
    return float(json.loads(path.read_text())["validation auc"])


def run_cell(
    data_name: str, method: str, seed: int, preset_name: str, work: Path, epochs: int | None
) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    import r2et
    from r2et import metrics
    from r2et.attacks import BoundaryAttack, ERAttack, MSEAttack
    from r2et.training import METHODS as TABLE
    from r2et.training import find_preset, train_method

    data = r2et.data.load(data_name)
    preset, evaluation = find_preset(data, preset_name), EVALUATIONS[data_name]
    path = cell_path(work, data_name, method, seed, preset, epochs)
    if path.exists():
        done: dict[str, Any] = json.loads(path.read_text())
        return done
    vanilla = None
    if preset.retrains and method != "vanilla" and not TABLE[method].changes_architecture:
        vanilla = r2et.load_model(work / f"{data_name}-vanilla-{seed}-model")[0]
    started = time.process_time()
    given: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    if method != "vanilla":
        # B.1.2: the last epoch whose validation AUC is close enough to the vanilla model's
        given["threshold"] = preset.threshold(vanilla_auc(work, data_name, seed, preset, epochs))
    fitted = train_method(
        method, data.train, data.validation, data.k, seed=seed, vanilla=vanilla, preset=preset, **given
    )
    cost = time.process_time() - started
    model, explainer = fitted.model.eval(), preset.explainer
    r2et.save_model(model, work / f"{data_name}-{method}-{seed}-model")
    fitted.history.to_csv(path.with_suffix(".csv"), index=False)
    x, y = data.test.x, data.test.y
    few = x[: evaluation.rows]
    chunk = max(1, 2**18 // few[0].numel())
    shared: dict[str, Any] = {"k": data.k, "radius": preset.radius, "explainer": explainer}
    attacks = {"ERAttack": ERAttack(**shared, steps=preset.attack_steps)}
    for k in evaluation.also:
        attacks[f"ERAttack, k = {k}"] = replace(attacks["ERAttack"], k=k)
    if evaluation.mse:
        attacks["MSEAttack"] = MSEAttack(**shared, steps=preset.attack_steps)
    attacks["BoundaryAttack"] = BoundaryAttack(**shared, steps=evaluation.boundary_steps)
    found: dict[str, Any] = {
        "data": data.name,
        "method": method,
        "title": TABLE[method].title,
        "seed": seed,
        "retrained": vanilla is not None,
        "auc": metrics.auc(model, x, y),
        "validation auc": fitted.auc,
        "passed": fitted.passed,
        "accuracy": accuracy(model, x, y),
        "epochs": len(fitted.records),
        "selected epoch": fitted.selected_epoch,
        "stopped": fitted.stopped,
        "seconds": cost,
        "precision": {
            short: float(attack(model, few, seed=0, chunk_size=chunk).precision.mean())
            for short, attack in attacks.items()
        },
    }
    path.write_text(json.dumps(found))
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("run", run), ("figures", figures)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--data", required=True)
        command.add_argument("--preset", default="cpu")
        command.add_argument("--methods", default=",".join(METHODS))
        command.add_argument("--seeds", default="0")
        command.add_argument("--once", default="", help="methods that are run with the first seed alone")
        command.add_argument("--epochs", type=int, default=None)
        command.add_argument("--output", type=Path, required=True)
        command.add_argument("--work", type=Path, default=Path("runs/images"))
        command.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.function(options)


def figures(options: Any) -> None:
    """Explanations before and after ERAttack of a typical test input, and magnitudes by rank, of all models."""
    import torch

    import r2et
    from r2et.attacks import ERAttack
    from r2et.data import GraphLayout, ImageLayout
    from r2et.training import METHODS as TABLE
    from r2et.training import find_preset

    torch.set_num_threads(1)
    data = r2et.data.load(options.data)
    preset = find_preset(data, options.preset)
    seed = int(options.seeds.split(",")[0])
    folders = {name: options.work / f"{options.data}-{name}-{seed}-model" for name in options.methods.split(",")}
    models = {
        TABLE[name].title: r2et.load_model(path)[0].eval() for name, path in folders.items() if path.exists()
    }
    if not models:
        raise SystemExit(f"no trained model in {options.work}: run `python benchmarks/images.py run` first")
    x = data.test.x[:PICTURED]
    attack = ERAttack(k=data.k, radius=preset.radius, steps=preset.attack_steps, explainer=preset.explainer)
    results = {title: attack(model, x, seed=0) for title, model in models.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    # the input on which every model does about as it does on the mean
    precision = torch.stack([result.precision for result in results.values()])
    shown = int((precision - precision.mean(1, keepdim=True)).abs().sum(0).argmin())

    def save(figure: Any, name: str) -> None:
        figure.savefig(
            options.output / f"{options.data}-{name}.png",
            dpi=110,
            bbox_inches="tight",
            metadata={"Software": None},
        )

    scores = {
        title: result.before.abs() / result.before.abs().amax(-1, keepdim=True)
        for title, result in results.items()
    }
    save(r2et.report.magnitude_by_rank(scores, data.k, ylabel="score / largest"), "magnitude")
    if isinstance(data.layout, GraphLayout):
        for title, result in results.items():
            name = title.lower().replace(" ", "-")
            pictured = result.before[shown, 0], result.after[shown, 0], data.layout, data.k
            save(r2et.report.connectome_circle(*pictured, title=title), f"circle-{name}")
            save(r2et.report.connectome_matrix(*pictured, title=title), f"matrix-{name}")
    elif isinstance(data.layout, ImageLayout) and not isinstance(preset.explainer, r2et.Activation):
        save(
            r2et.report.saliency_grid(
                x[shown],
                data.layout,
                torch.stack([result.before[shown] for result in results.values()]),
                torch.stack([result.after[shown] for result in results.values()]),
                data.k,
                titles=list(results),
            ),
            "saliency",
        )


def run(options: Any) -> None:
    """Train and attack every method, and write a summary."""
    seeds, once = [int(seed) for seed in options.seeds.split(",")], options.once.split(",")
    jobs = [
        (method, seed)
        for seed in seeds
        for method in options.methods.split(",")
        if seed == seeds[0] or method not in once
    ]
    # the vanilla models first: others may be retrained from them
    jobs.sort(key=lambda job: job[0] != "vanilla")
    with ProcessPoolExecutor(options.processes) as pool:
        cells = []
        for first in (True, False):
            part = [job for job in jobs if (job[0] == "vanilla") == first]
            futures = [
                pool.submit(run_cell, options.data, method, seed, options.preset, options.work, options.epochs)
                for method, seed in part
            ]
            cells += [future.result() for future in futures]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(summary(cells, options), indent=1) + "\n")


def summary(cells: list[dict[str, Any]], options: Any) -> dict[str, Any]:
    import r2et
    from r2et.training import find_preset

    data = r2et.data.load(options.data)
    preset = find_preset(data, options.preset)
    rows = {}
    for method in dict.fromkeys(cell["method"] for cell in cells):
        own = [cell for cell in cells if cell["method"] == method]

        def spread(values: list[float]) -> dict[str, float]:
            return {"mean": statistics.mean(values), "std": statistics.pstdev(values)}

        rows[method] = {
            "title": own[0]["title"],
            "seeds": len(own),
            "retrained": own[0]["retrained"],
            "auc": spread([cell["auc"] for cell in own]),
            "accuracy": spread([cell["accuracy"] for cell in own]),
            "cost": statistics.mean(cell["seconds"] for cell in own),
            **{name: spread([cell["precision"][name] for cell in own]) for name in own[0]["precision"]},
        }
    return {
        "command": f"python benchmarks/images.py run --data {options.data} --preset {options.preset} --methods "
        f"{options.methods} --seeds {options.seeds}"
        + (f" --once {options.once}" if options.once else "")
        + (f" --epochs {options.epochs}" if options.epochs else "")
        + f" --output benchmarks/results/{options.data}.json",
        "data": data.name,
        "settings": {
            "k": data.k,
            "radius": preset.radius,
            "attack steps": preset.attack_steps,
            "attacked inputs": EVALUATIONS[options.data].rows,
            "steps of BoundaryAttack": EVALUATIONS[options.data].boundary_steps,
            "training": asdict(preset.training),
            "retraining": asdict(preset.retraining) if preset.retrains else None,
            "auc_margin": preset.auc_margin,
            "hyper-parameters": {name: hyper_parameters(name, preset) for name in options.methods.split(",")},
            "epochs": options.epochs,
            "explainer": repr(preset.explainer),
            "direction of scale-free R2ET": preset.direction,
        },
        "methods": rows,
        "cells": cells,
    }


if __name__ == "__main__":
    main()
