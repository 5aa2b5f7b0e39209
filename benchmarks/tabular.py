"""AUC and P@8 of every method of the paper on Adult, Bank and COMPAS, under ERAttack and MSEAttack.

    R2ET_DATA=... python benchmarks/tabular.py --output benchmarks/results/tabular.json

Hyper-parameters are chosen on the first seed by the paper's rule (App. B.1.2): among the models whose validation
AUC is at least Vanilla's - 0.01, the highest validation P@8 under ERAttack. Each finished cell is a file in the
work folder, so that an interrupted run continues where it was. Two processes, one thread each.
"""

import argparse
import hashlib
import itertools
import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

DATA = ("adult", "bank", "compas")
K, RADIUS, STEPS, ROWS = 8, 1.0, 1000, 1000
SELECTION_STEPS = 200
TRAINING = {"epochs": 60, "patience": 20, "batch_size": 512, "lr": 1e-2}
RETRAINING = {"epochs": 10, "patience": None, "batch_size": 512, "lr": 1e-3}
GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "linear": {},
    "vanilla": {},
    "wd": {"weight_decay": (5e-5, 5e-4, 5e-3)},
    "sp": {"beta": (0.5, 1.0, 5.0)},
    "est-h": {"weight": (0.01, 0.1, 0.3)},
    "exact-h": {"weight": (0.03, 0.3)},
    "ssr": {"weight": (0.03, 0.3)},
    "at": {"radius": (0.1, 1.0)},
    "cl": {"weight": (0.01, 0.1)},
    "thickness": {"weight": (0.01, 0.1)},
    "r2et-no-h": {"gap": (0.01, 0.1, 0.3)},
    "r2et-mm-no-h": {"gap": (0.01, 0.1, 0.3)},
    "r2et": {"gap": (0.01, 0.1), "curvature": (0.1, 0.3)},
    "r2et-mm": {"gap": (0.01, 0.1), "curvature": (0.1, 0.3)},
    "r2et-sf": {"gap": (0.1,), "curvature": (0.03, 0.1, 0.3), "beta": (1.0,)},
}


def candidates(method: str) -> list[dict[str, float]]:
    names, values = list(GRID[method]), list(GRID[method].values())
    return [dict(zip(names, choice, strict=True)) for choice in itertools.product(*values)]


def run_cell(data_name: str, method: str, settings: dict[str, float], seed: int, work: Path) -> dict[str, Any]:
    """Train and evaluate one model; the record is read from its file if it is there."""
    key = json.dumps([data_name, method, settings, seed, TRAINING, RETRAINING, K, RADIUS, STEPS], sort_keys=True)
    path = work / f"{data_name}-{method}-{seed}-{hashlib.sha256(key.encode()).hexdigest()[:10]}.json"
    if path.exists():
        record: dict[str, Any] = json.loads(path.read_text())
        return record
    import torch

    torch.set_num_threads(1)
    import r2et
    from r2et.attacks import ERAttack, MSEAttack
    from r2et.training import METHODS, load_model, save_model, train_method

    data = r2et.data.load(data_name)
    started = time.perf_counter()
    vanilla_folder = work / f"{data_name}-vanilla-model-{seed}"
    vanilla, threshold = None, None
    if method not in ("vanilla", "linear"):
        vanilla, information = load_model(vanilla_folder)
        threshold = information["validation_auc"] - 0.01
    retrains = METHODS[method].retrains
    result = train_method(
        method,
        data.train,
        data.validation,
        K,
        settings,
        seed=seed,
        vanilla=vanilla if retrains else None,
        threshold=threshold,
        **(RETRAINING if retrains else TRAINING),
    )
    seconds = time.perf_counter() - started
    if method == "vanilla":
        save_model(result.model, vanilla_folder, validation_auc=result.auc)
        vanilla = result.model

    values = METHODS[method].settings(settings)
    values.pop("weight_decay", None)
    objective = METHODS[method].objective(K, **values)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        untrained = METHODS[method].network(data.train.x.shape[1], 2, METHODS[method].settings(settings))
    part = data.validation.x[:ROWS], data.validation.y[:ROWS]

    def regularisers(model: torch.nn.Module) -> dict[str, float]:
        generator = torch.Generator().manual_seed(0)
        parts = objective.evaluate(model, *part, generator, step=0).parts
        return {name: float(value) for name, value in parts.items()}

    selection = ERAttack(k=K, radius=RADIUS, steps=SELECTION_STEPS)(result.model, part[0])
    test = data.test.x[:ROWS]
    attacks = {
        type(attack).__name__: float(attack(result.model, test, seed=seed).precision.mean())
        for attack in (
            ERAttack(k=K, radius=RADIUS, steps=STEPS),
            MSEAttack(k=K, radius=RADIUS, steps=STEPS),
        )
    }
    record = {
        "data": data_name,
        "method": method,
        "title": METHODS[method].title,
        "settings": settings,
        "seed": seed,
        "passed": threshold is None or result.auc >= threshold,
        "validation_auc": result.auc,
        "test_auc": r2et.metrics.auc(result.model, data.test.x, data.test.y),
        "validation_precision": float(selection.precision.mean()),
        "precision": attacks,
        "regularisers": {
            "untrained": regularisers(untrained),
            "vanilla": regularisers(vanilla) if vanilla is not None else None,
            "trained": regularisers(result.model),
        },
        "epochs": len(result.records),
        "selected_epoch": result.selected_epoch,
        "stopped": result.stopped,
        "seconds": round(seconds, 1),
    }
    path.write_text(json.dumps(record, indent=1))
    return record


def choose(records: list[dict[str, Any]]) -> dict[str, Any]:
    passed = [record for record in records if record["passed"]]
    if passed:
        return max(passed, key=lambda record: record["validation_precision"])
    return max(records, key=lambda record: record["validation_auc"])


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""

    def spread(values: list[float]) -> dict[str, float]:
        return {"mean": statistics.mean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}

    first = records[0]
    return {
        "data": first["data"],
        "method": first["method"],
        "title": first["title"],
        "settings": first["settings"],
        "passed": all(record["passed"] for record in records),
        "test_auc": spread([record["test_auc"] for record in records]),
        "precision": {
            name: spread([record["precision"][name] for record in records]) for name in first["precision"]
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/tabular.json"))
    parser.add_argument("--work", type=Path, default=Path("runs/tabular"), help="folder of the finished cells")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--methods", nargs="+", default=list(GRID))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)

    chosen: dict[tuple[str, str], dict[str, Any]] = {}
    cells: list[dict[str, Any]] = []
    tried: list[dict[str, Any]] = []
    with ProcessPoolExecutor(arguments.processes) as pool:

        def run_all(wanted: list[tuple[str, str, dict[str, float], int]]) -> list[dict[str, Any]]:
            futures = [pool.submit(run_cell, *cell, arguments.work) for cell in wanted]
            found = []
            for number, (cell, future) in enumerate(zip(wanted, futures, strict=True), 1):
                record = future.result()
                found.append(record)
                er, mse = (100 * record["precision"][name] for name in ("ERAttack", "MSEAttack"))
                print(
                    f"{number}/{len(wanted)} {cell}: AUC {record['test_auc']:.4f} P@8 {er:.1f} / {mse:.1f} "
                    f"{'' if record['passed'] else 'below the threshold '}({record['seconds']} s)",
                    flush=True,
                )
            return found

        # every other method needs the vanilla model of its seed
        run_all([(name, "vanilla", {}, seed) for name in arguments.data for seed in range(arguments.seeds)])
        wanted = [
            (name, method, settings, 0)
            for name in arguments.data
            for method in arguments.methods
            for settings in candidates(method)
        ]
        tried = run_all(wanted)
        for name, method in itertools.product(arguments.data, arguments.methods):
            own = [record for record in tried if (record["data"], record["method"]) == (name, method)]
            chosen[name, method] = choose(own)
        rest = [
            (name, method, record["settings"], seed)
            for (name, method), record in chosen.items()
            for seed in range(1, arguments.seeds)
        ]
        cells = [*chosen.values(), *run_all(rest)]

    rows = [
        summarise([cell for cell in cells if (cell["data"], cell["method"]) == (name, method)])
        for name, method in itertools.product(arguments.data, arguments.methods)
    ]
    import torch

    output = {
        "command": "python benchmarks/tabular.py --output benchmarks/results/tabular.json",
        "settings": {
            "k": K,
            "radius": RADIUS,
            "steps": STEPS,
            "test rows": ROWS,
            "selection steps": SELECTION_STEPS,
            "training": TRAINING,
            "retraining": RETRAINING,
            "seeds": arguments.seeds,
            "grid": GRID,
            "threshold": "Vanilla's validation AUC - 0.01, same seed",
            "torch": torch.__version__.split("+")[0],
        },
        "table": rows,
        "cells": cells,
        "tried": [
            {
                key: record[key]
                for key in ("data", "method", "settings", "passed", "test_auc", "validation_precision")
            }
            for record in tried
        ],
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
