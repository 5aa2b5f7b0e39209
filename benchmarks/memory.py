"""Peak memory of certificates by the number of features, each in a process of its own.

    python benchmarks/memory.py --output benchmarks/results/memory.json

What is measured is how far the peak of the process is above that of the same call with 20 features, for two random
inputs and k = 8 of an MLP with 32 hidden neurons. A proof that is refused is written down with its sentence. Those
that take minutes for 100,000 features are measured up to 10,000, unless --all asks for all of them. Linux only.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import r2et
from r2et.enclosure.problems import Reading
from r2et.enclosure.size import Size
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Gradient, GradientTimesInput, SmoothGrad

FEATURES = (100_000, 10_000, 1_000)
#: takes minutes for more features than these
LONG = 10_000
K, HIDDEN = 8, 32
#: arguments of `certify`, by name
QUICK: dict[str, dict[str, Any]] = {
    "integral": {"method": "integral"},
    "intervals": {"method": "intervals"},
    "dual at radii": {"method": "dual", "radii": [0.1, 0.3]},
    "dual at a radius, prediction": {"method": "dual", "radii": [0.1], "prediction": True},
    "SmoothGrad": {"explainer": SmoothGrad(samples=4, score="log-odds")},
    "smoothing": {"method": r2et.certificates.Smoothing(samples=100)},
    "additive": {},
    "thickness": {},
}
LENGTHY: dict[str, dict[str, Any]] = {
    "dual": {"method": "dual"},
    "GradientTimesInput": {"explainer": GradientTimesInput()},
    "ColumnEffects": {},
    "two hidden layers": {},
    "three classes": {},
    "first-order": {"method": "first-order"},
}


def model_of(name: str, n: int) -> nn.Module:
    if name == "additive":
        return r2et.models.Additive(n, 2)
    hidden = (HIDDEN, HIDDEN) if name == "two hidden layers" else (HIDDEN,)
    activation = "relu" if name == "intervals" else "softplus"
    return r2et.models.MLP(n, 3 if name == "three classes" else 2, hidden=hidden, activation=activation)


def table(n: int) -> r2et.Columns:
    """One category of two values, and numbers."""
    numbers = n - 2
    return r2et.Columns(
        names=tuple(f"column {i}" for i in range(numbers + 1)),
        features=(*((i,) for i in range(numbers)), (numbers, numbers + 1)),
        kinds=(*["number"] * numbers, "category"),
        frequencies=(*[()] * numbers, (0.4, 0.6)),
    )


def run(name: str, n: int) -> tuple[nn.Module, Tensor, Any]:
    torch.manual_seed(0)
    model, x = model_of(name, n), torch.randn(2, n)
    options = (QUICK | LENGTHY)[name]
    if name == "ColumnEffects":
        columns = table(n)
        x[:, -2:] = torch.tensor([1.0, 0.0])
        options = {"explainer": ColumnEffects(columns=columns), "domain": columns.domain()}
    if name == "thickness":
        r2et.thickness_bounds(model, x, K, 0.1, explainer=Gradient(), method="enclosure")
    else:
        r2et.certify(model, x, K, **options)
    return model, x, options.get("explainer", Gradient())


def peak() -> float:
    """Of this program alone: what `resource` says begins with the peak of the one that started it."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def measured(name: str, n: int) -> dict[str, Any]:
    """In this process: call it once for each."""
    run(name, 20)
    before, started = peak(), time.perf_counter()
    try:
        model, x, explainer = run(name, n)
    except ModelError as error:
        return {"peak MB": round(peak() - before), "refused": str(error)}
    found = {"peak MB": round(peak() - before), "seconds": round(time.perf_counter() - started, 1)}
    if name in ("smoothing", "first-order"):
        return found
    size = Size.of(Reading.of(model, x, explainer).network, explainer, K, additive=name == "additive")
    return found | {"estimate MB": round(size.bytes_of(min(2, size.rows_at_once(2))) / 1e6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/memory.json"))
    parser.add_argument("--all", action="store_true", help="also what takes minutes")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.one:
        print(json.dumps(measured(arguments.one[0], int(arguments.one[1]))))
        return
    wanted = [(name, n) for name in QUICK for n in FEATURES]
    wanted += [(name, n) for name in LENGTHY for n in FEATURES if n <= LONG or arguments.all]
    results: dict[str, dict[str, Any]] = {}
    for name, n in wanted:
        command = [sys.executable, __file__, "--one", name, str(n)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        results.setdefault(name, {})[str(n)] = json.loads(told.splitlines()[-1])
        print(name, n, results[name][str(n)], flush=True)
        write(arguments.output, results)


def write(path: Path, results: dict[str, dict[str, Any]]) -> None:
    output = {
        "command": "python benchmarks/memory.py",
        "settings": {
            "model": f"MLP n-{HIDDEN}-2, softplus (ReLU for intervals); Additive(n, 2)",
            "inputs": 2,
            "k": K,
            "threads": 1,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
        },
        "measured": results,
    }
    path.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
