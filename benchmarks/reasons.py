"""How fast reasons are written for the rows of a file, and in how much memory, each in a process of its own.

    python benchmarks/reasons.py --output benchmarks/results/reasons.json

A StableClassifier is trained on a table of 14 columns (eight numbers, four categories, two flags) drawn here. Then
`r2et.estimator.reasons_file.write_reasons`, what `r2et reasons` calls, reads a CSV of 100,000 further rows and
writes four reasons of each to another, on one thread, with and without a proof of how far the lists hold. Times
are of the processor, without the start of Python; ratios are to the pass through the network alone
(`predict_proba` of the same rows in memory), which another machine changes less. Memory is the peak of the process
above what it holds before the rows are read; a tenth of the rows beside it shows that it depends on the chunk, not
on the file. Linux only.
"""

import argparse
import gc
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import r2et
from r2et.estimator.reasons_file import ROWS_AT_ONCE, write_reasons

ROWS, TRAINED = 100_000, 5_000
#: a network of layers is looked at for fewer rows, and nothing is proven about them all
FEW = 2_000
CASES: dict[str, tuple[str, int, bool]] = {
    "additive": ("additive", ROWS, False),
    "additive, a tenth of the rows": ("additive", ROWS // 10, False),
    "additive, proven": ("additive", ROWS, True),
    "additive, proven, a tenth of the rows": ("additive", ROWS // 10, True),
    "mlp": ("mlp", FEW, False),
}


def people(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Eight numbers, four categories, two flags, and whether a loan was paid back."""
    drawn = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(18, 80, rows),
            "income": drawn.lognormal(7.5, 0.6, rows).round(),
            "expenses": drawn.lognormal(6.5, 0.4, rows).round(),
            "debt": drawn.lognormal(6.0, 1.5, rows).round(),
            "seniority": drawn.poisson(8, rows),
            "amount": drawn.lognormal(7.0, 0.5, rows).round(-1),
            "months": drawn.choice([12, 24, 36, 48, 60], rows),
            "price": drawn.lognormal(7.3, 0.5, rows).round(2),
            "job": drawn.choice(["fixed", "freelance", "part time", "other"], rows),
            "home": drawn.choice(["owner", "rent", "parents", "other"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "purpose": drawn.choice(["car", "home", "travel", "study", "other"], rows),
            "marital": drawn.choice(["single", "married", "widowed", "divorced"], rows),
            "records": drawn.choice(["yes", "no"], rows, p=[0.2, 0.8]),
            "guarantor": drawn.random(rows) < 0.1,
        }
    )
    score = (
        np.log(frame["income"])
        - 0.6 * np.log(frame["amount"])
        - 0.2 * np.log1p(frame["debt"])
        + 0.1 * np.minimum(frame["seniority"], 10)
        - 1.5 * (frame["records"] == "yes")
        + 0.7 * (frame["home"] == "owner")
    )
    return frame, np.where(score + drawn.logistic(size=rows) > score.median(), "good", "bad")


def measured(name: str, model: str, data: str, output: str) -> dict[str, Any]:
    """What one case takes, in this process."""
    _, rows, proven = CASES[name]
    fitted = r2et.StableClassifier.load(model)
    frame = pd.read_csv(data, nrows=2 * ROWS_AT_ONCE)
    fitted.reasons(frame.head(50), proven=proven)
    start = time.process_time()
    fitted.predict_proba(frame)
    network = (time.process_time() - start) / len(frame) * rows
    del frame
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory("VmRSS")
    start = time.process_time()
    summary = write_reasons(fitted, data, output, 4, toward="bad", proven=proven)
    seconds = time.process_time() - start
    return {
        "rows": summary.rows,
        "reasons": summary.reasons,
        "proven lists": summary.proven,
        "method": summary.method,
        "seconds": round(seconds, 2),
        "rows per second": round(summary.rows / seconds),
        "times the network alone": round(seconds / network, 1),
        "MB above the start": round((memory("VmHWM") - before) / 1024),
    }


def memory(name: str) -> int:
    """What the process takes (VmRSS) or took at most (VmHWM), in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/reasons.json"))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.one:
        print(json.dumps(measured(*arguments.one)))
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for network in dict.fromkeys(case[0] for case in CASES.values()):
            frame, y = people(TRAINED, seed=0)
            fitted = r2et.StableClassifier(network=network, method="vanilla", random_state=0).fit(frame, y)
            fitted.save(f"{folder}/{network}")
        for name, (network, rows, _) in CASES.items():
            people(rows, seed=1)[0].to_csv(f"{folder}/new.csv", index=False)
            case = [name, f"{folder}/{network}", f"{folder}/new.csv", f"{folder}/reasons.csv"]
            command = [sys.executable, __file__, "--one", *case]
            told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            results[name] = json.loads(told.splitlines()[-1])
            print(name, results[name], flush=True)
    write(arguments.output, results)


def write(path: Path, results: dict[str, Any]) -> None:
    output = {
        "command": "python benchmarks/reasons.py",
        "settings": {
            "columns": "8 numbers, 4 categories, 2 flags",
            "rows trained on": TRAINED,
            "reasons of a row": 4,
            "rows at once": ROWS_AT_ONCE,
            "threads": 1,
            "torch": torch.__version__.split("+")[0],
            "pandas": pd.__version__,
            "python": platform.python_version(),
        },
        "measured": results,
    }
    path.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
