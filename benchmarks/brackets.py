"""What is proven and what WorstCase-2 leaves, at three radii and under the same threat; and what proving costs.

    R2ET_DATA=... python -m benchmarks.brackets --output benchmarks/results/brackets.json

Networks of one hidden layer on Adult and Bank: scale-free R2ET with the settings of the honest table, and a
softplus network without any regulariser. Test rows, float64. Finished cells are files in the work folder; an
interrupted run continues. Times are ratios in one run: bounds at a radius beside the integral certificate.
"""

import argparse
import hashlib
import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

RADII = (0.1, 0.3, 1.0)
K, COLUMNS_K, ROWS, SEED, SPEED_ROWS, ADDITIVE_ROWS, ROUNDS = 8, 4, 100, 0, 128, 2000, 5
TRAINING = {"epochs": 40, "patience": 20, "batch_size": 512}
#: settings of the rows of the honest table (benchmarks/records/paper-tabular)
SCALE_FREE = {
    "adult": {"gap": 0.01, "curvature": 1.5, "difference": 0.3, "beta": 5.0},
    "bank": {"gap": 0.03, "curvature": 0.5, "difference": 0.3, "beta": 5.0},
}
NETS = ("scale-free R2ET", "vanilla, Softplus(5)")
#: cuts of a ball for each gap that is open: many where few are; the default, which is timed, is none
BUDGET = {NETS[0]: 64, NETS[1]: 2}
#: explanation, threat, and whether the attack has to keep the prediction
CASES = (
    ("Gradient", "paper", "kept"),
    ("Gradient", "paper", "free"),
    ("Gradient", "tangent", "kept"),
    ("Gradient", "tangent", "free"),
    ("ColumnEffects", "domain", "kept"),
)


def trained(name: str, net: str, work: Path) -> tuple[Any, Any]:
    """The data, and the network in float64, from the work folder if it was trained before."""
    from safetensors.torch import load_file, save_file

    import r2et
    from r2et.recipes import train_method

    data = r2et.data.load(name)
    scale_free = net == NETS[0]
    settings = SCALE_FREE[name] if scale_free else {"beta": 5.0}
    model = r2et.models.MLP(data.train.x.shape[1], 2, activation="softplus", beta=5.0)
    path = work / f"{name}-{digest(net, settings, TRAINING)}.safetensors"
    if not path.exists():
        method = "r2et-sf" if scale_free else "sp"
        fitted = train_method(
            method, data.train, data.validation, k=K, settings=settings, seed=SEED, **TRAINING
        ).model
        save_file(fitted.state_dict(), path)
    model.load_state_dict(load_file(path))
    return data, model.double().eval()


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:10]


def source() -> str:
    """A digest of the code that proves and attacks: figures of another version of it are void."""
    import r2et

    root = Path(r2et.__file__).parent
    files = sorted(
        file for folder in ("attacks", "certificates", "enclosure") for file in (root / folder).glob("*.py")
    )
    return digest(*(file.read_text() for file in files))


def bracket(name: str, net: str, case: tuple[str, str, str], work: Path) -> dict[str, Any]:
    """Both ends at every radius, in percent."""
    import r2et

    explanation, threat, prediction = case
    data, model = trained(name, net, work)
    x = data.test.x[:ROWS].double()
    columns = explanation == "ColumnEffects"
    explainer = r2et.explainers.ColumnEffects(columns=data.columns) if columns else r2et.explainers.Gradient()
    k = COLUMNS_K if columns else K
    both = r2et.bracket(
        model,
        x,
        k,
        radii=RADII,
        explainer=explainer,
        domain=data.domain,
        threat=threat,
        prediction=prediction,
        seed=SEED,
        budget=BUDGET[net],
    )
    return {
        "data": name,
        "network": net,
        "auc": round(r2et.metrics.auc(model, data.test.x.double(), data.test.y), 4),
        "explanation": explanation,
        "threat": threat,
        "prediction": prediction,
        "k": k,
        "of": len(data.columns) if columns else x.shape[1],
        "rows": len(x),
        "radii": RADII,
        "proven": [100 * float(values.mean()) for values in both.proven.unbind(1)],
        "attacked": [100 * float(values.mean()) for values in both.attacked.unbind(1)],
    }


def speed(work: Path) -> dict[str, Any]:
    """How many times as long the integral certificate takes as bounds at one radius, on the stable network."""
    import r2et

    data, model = trained("adult", NETS[0], work)
    x = data.test.x[:SPEED_ROWS].double()
    ways: dict[str, Any] = {
        "integral": {"method": "integral"},
        **{f"at {radius:g}": {"radii": [radius]} for radius in RADII},
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    shares = {}
    for _ in range(ROUNDS):
        for name, options in ways.items():
            started = time.process_time()
            certificate = r2et.certify(model, x, K, domain=data.domain, threat="paper", **options)
            times[name].append(time.process_time() - started)
            shares[name] = [100 * float(certificate.precision_at(radius).mean()) for radius in RADII]
    ratios = {
        name: statistics.median(old / new for old, new in zip(times["integral"], values, strict=True))
        for name, values in times.items()
    }
    return {"rows": SPEED_ROWS, "rounds": ROUNDS, "integral / this": ratios, "proven": shares}


def additive(work: Path) -> dict[str, Any]:
    """The exact certificate of an additive model of Adult beside the exact attack (tests/additive_opponent.py)."""
    import numpy as np
    import torch

    import r2et
    from tests.additive_opponent import additive_slopes, cheapest_moves

    data = r2et.data.load("adult")
    torch.manual_seed(SEED)
    model = r2et.models.Additive.from_rows(data.train.x, 2, columns=data.columns)
    settings = r2et.training.Settings(epochs=10, lr=1e-2, batch_size=512, seed=SEED)
    r2et.fit(model, data.train, data.validation, settings=settings)
    model = model.double().eval()
    x = data.test.x.double()
    r2et.certify(model, x[:8], K)
    certificate = r2et.certify(model, x[:ADDITIVE_ROWS], K)
    assert certificate.method == "additive"
    ratios = []
    for row, limit in enumerate(certificate.radius[:ROWS].tolist()):
        if 0 < limit < 100:
            lengths, _ = cheapest_moves(additive_slopes(model), x[row].numpy(), K, far=1.05 * limit)
            ratios.append(limit / lengths[0])
    times: dict[str, list[float]] = {"additive": [], "integral": []}
    for _ in range(3):
        for method, rows in (("additive", ADDITIVE_ROWS), ("integral", SPEED_ROWS)):
            started = time.process_time()
            r2et.certify(model, x[:rows], K, method=method)
            times[method].append((time.process_time() - started) / rows)
    each = {method: statistics.median(values) for method, values in times.items()}
    return {
        "auc": round(r2et.metrics.auc(model, x, data.test.y), 4),
        "rows": len(ratios),
        "rows timed": ADDITIVE_ROWS,
        "certified / exact attack": float(np.median(ratios)),
        "smallest": float(min(ratios)),
        "largest": float(max(ratios)),
        "inputs in a second of one core": round(1 / each["additive"]),
        "integral / this": each["integral"] / each["additive"],
    }


def run_cell(job: tuple[Any, ...], work: Path) -> dict[str, Any]:
    settings = (RADII, ROWS, BUDGET, K, COLUMNS_K, SCALE_FREE, TRAINING, SPEED_ROWS, ADDITIVE_ROWS, ROUNDS)
    path = work / f"{digest(job, settings, source())}.json"
    if path.exists():
        done: dict[str, Any] = json.loads(path.read_text())
        return done
    import torch

    torch.set_num_threads(1)
    alone = {("speed",): speed, ("additive",): additive}
    result = alone[job](work) if job in alone else bracket(*job, work)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result))
    part.rename(path)
    print(job, result, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/brackets"))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in SCALE_FREE:
        for net in NETS:
            trained(name, net, options.work)
    jobs: list[tuple[Any, ...]] = [(name, net, case) for name in SCALE_FREE for net in NETS for case in CASES]
    with ProcessPoolExecutor(options.processes) as pool:
        cells = list(pool.map(partial(run_cell, work=options.work), jobs))
    # alone, so that nothing runs beside it
    costs, exact = (run_cell((name,), options.work) for name in ("speed", "additive"))
    import r2et
    from r2et.attacks import WorstCase

    output = {
        "command": "python -m benchmarks.brackets --output benchmarks/results/brackets.json",
        "version": r2et.__version__,
        "attack": WorstCase(k=K, radius=max(RADII)).recipe,
        "settings": {"rows": ROWS, "budget": BUDGET, "seed": SEED, "training": TRAINING, "scale-free": SCALE_FREE},
        "brackets": cells,
        "speed": costs,
        "additive": exact,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
