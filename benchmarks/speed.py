"""Speed as ratios within one run: medians of 5 rounds in which the two sides take turns.

    python benchmarks/speed.py --output benchmarks/results/speed.json

Seconds of a shared machine mean little, so only ratios are published, of processor time on one thread. Adult is
read from R2ET_DATA or the cache; with neither, a random input of the same shape takes its place and the file says
so. Memory is read from /proc: Linux only.
"""

import argparse
import itertools
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import r2et
from r2et.attacks import ERAttack, WorstCase
from r2et.attacks.worst_case import Version
from r2et.objectives import R2ET, CrossEntropy, Objective
from r2et.training.compiled import CompiledStep

ROUNDS = 5


def ratio(
    slow: Callable[[], None],
    fast: Callable[[], None],
    slow_calls: int,
    fast_calls: int,
    now: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """The median over rounds of (time of one slow call) / (time of one fast call), and every round's value."""

    def clock(function: Callable[[], None], calls: int) -> float:
        started = now()
        for _ in range(calls):
            function()
        return (now() - started) / calls

    clock(slow, max(1, slow_calls // 10))
    clock(fast, max(1, fast_calls // 10))
    rounds = [clock(slow, slow_calls) / clock(fast, fast_calls) for _ in range(ROUNDS)]
    return {"ratio": round(statistics.median(rounds), 2), "rounds": [round(value, 2) for value in rounds]}


def training_steps() -> dict[str, Any]:
    torch.manual_seed(0)
    x, y = torch.randn(256, 28), torch.randint(0, 2, (256,))

    def step(objective: Objective, compiled: bool = False) -> Callable[[], None]:
        model = r2et.models.MLP(28, 2, hidden=(32,), activation="softplus")
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        whole = CompiledStep(objective, model) if compiled else None
        number = 0

        def run() -> None:
            nonlocal number
            if whole is not None:
                whole(x, y, number)
            else:
                optimiser.zero_grad()
                objective.evaluate(model, x, y, step=number).total.backward()
            optimiser.step()
            number += 1

        return run

    plain = CrossEntropy()
    cases = {
        "R2ET / vanilla, eager": (R2ET(k=8), 6.5),
        "R2ET without curvature / vanilla, eager": (R2ET(k=8, curvature=0), 3.5),
        "R2ET every=4 / vanilla, eager": (R2ET(k=8, every=4), 2.5),
        "scale-free R2ET / vanilla, eager": (R2ET(k=8, scale_free=True), None),
        "R2ET curvature_fraction=0.25 / vanilla, eager": (R2ET(k=8, curvature_fraction=0.25), None),
    }
    ratios = {
        name: {**ratio(step(objective), step(plain), 400, 400), "at most": bound}
        for name, (objective, bound) in cases.items()
    }
    ratios["R2ET compiled / vanilla compiled"] = {
        **ratio(step(R2ET(k=8), compiled=True), step(plain, compiled=True), 400, 400),
        "at most": 2.0,
    }
    ratios["R2ET compiled / vanilla eager"] = {
        **ratio(step(R2ET(k=8), compiled=True), step(plain), 400, 400),
        "at most": None,
    }
    return ratios


def small_resnet() -> nn.Module:
    """The CPU preset's residual net for 32 x 32 images."""
    torch.manual_seed(0)
    return r2et.models.ResNet(channels=3, classes=10, widths=(16, 32, 64), blocks=1)


def image_steps() -> dict[str, Any]:
    torch.manual_seed(0)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    explainer = r2et.explainers.Gradient(reduce="abs-sum", score="probability")

    def step(objective: Objective) -> Callable[[], None]:
        model = small_resnet()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        number = itertools.count()

        def run() -> None:
            optimiser.zero_grad()
            objective.evaluate(model, x, y, generator=torch.Generator(), step=next(number)).total.backward()
            optimiser.step()

        return run

    cases = {
        "R2ET": (R2ET(k=50, explainer=explainer), 6.5),
        "R2ET curvature_fraction=0.25": (R2ET(k=50, explainer=explainer, curvature_fraction=0.25), 3.5),
        "R2ET every=4": (R2ET(k=50, explainer=explainer, every=4), 2.5),
    }
    return {
        f"{name} / vanilla, small ResNet, 32 x 32 images, batch 32": {
            **ratio(step(objective), step(CrossEntropy()), 8, 8),
            "at most": bound,
        }
        for name, (objective, bound) in cases.items()
    }


def batched_image_attack() -> dict[str, Any]:
    """Two threads, so the clock is the wall's."""
    model, x = small_resnet().eval(), torch.randn(64, 3, 32, 32)
    attack = ERAttack(k=50, radius=1.0, steps=10, explainer=r2et.explainers.Gradient(reduce="abs-sum"))
    torch.set_num_threads(2)
    measured = ratio(
        lambda: attack(model, x[:1]) and None, lambda: attack(model, x) and None, 4, 1, time.perf_counter
    )
    torch.set_num_threads(1)
    return {
        "ERAttack, sample-steps a second: batch of 64 images / one at a time, small ResNet, two threads": {
            "ratio": round(measured["ratio"] * 64, 2),
            "rounds": [round(value * 64, 2) for value in measured["rounds"]],
            "at least": 3,
        }
    }


def batched_attack() -> dict[str, Any]:
    try:
        data = r2et.data.load("adult")
        x, source = data.test.x[:1000], "adult"
        model = r2et.recipes.train_method("vanilla", data.train, data.validation, 8, epochs=3).model
    except r2et.errors.DataError:
        torch.manual_seed(0)
        x, source = torch.randn(1000, 28), "random inputs of Adult's shape"
        model = r2et.models.MLP(28, 2)
    batch = ERAttack(k=8, radius=1.0, steps=1000)
    alone = ERAttack(k=8, radius=1.0, steps=100)
    # sample-steps per second: 1000 x 1000 in one call of the batch, 100 in one call of a single sample
    measured = ratio(lambda: alone(model, x[:1]) and None, lambda: batch(model, x) and None, 3, 1)
    scale = 1000 * 1000 / 100
    return {
        "ERAttack, sample-steps a second: batch of 1,000 / one at a time": {
            "ratio": round(measured["ratio"] * scale, 1),
            "rounds": [round(value * scale, 1) for value in measured["rounds"]],
            "at least": 200,
            "data": source,
        }
    }


def worst_cases() -> dict[str, Any]:
    """Both versions of WorstCase, one call per round: a table at three radii, and images."""
    table, images = "adult", "cifar10"
    try:
        data = r2et.data.load("adult")
        x = data.test.x[:1000]
        model = r2et.recipes.train_method("vanilla", data.train, data.validation, 8, epochs=3).model
    except r2et.errors.DataError:
        torch.manual_seed(0)
        x, table = torch.randn(1000, 28), "random inputs of Adult's shape"
        model = r2et.models.MLP(28, 2)
    try:
        pictures = r2et.data.load("cifar10").test.x[:32]
    except r2et.errors.DataError:
        torch.manual_seed(0)
        pictures, images = torch.randn(32, 3, 32, 32), "random images of CIFAR's shape"
    net, pixels = small_resnet().eval(), r2et.explainers.Gradient(reduce="abs-sum")

    def tables(version: Version) -> Callable[[], None]:
        attack = WorstCase(k=8, radius=1.0, version=version)
        return lambda: attack(model, x, radii=(0.1, 0.3, 1.0)) and None

    def pictured(version: Version) -> Callable[[], None]:
        attack = WorstCase(k=50, radius=1.0, version=version, budget="fast", explainer=pixels)
        return lambda: attack(net, pictures) and None

    return {
        "WorstCase-2 / WorstCase-1, standard, 1,000 rows at 3 radii": {
            **ratio(tables(2), tables(1), 1, 1),
            "at most": 3.0,
            "data": table,
        },
        "WorstCase-2 / WorstCase-1, fast, 32 images, small ResNet": {
            **ratio(pictured(2), pictured(1), 1, 1),
            "at most": 1.0,
            "data": images,
        },
    }


def wide_thickness() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100_000, 64), nn.Softplus(), nn.Linear(64, 2))
    x = torch.randn(16, 100_000)
    samples, steps = 16, 8
    neighbours = r2et.stability.GaussianNeighbours(0.1)
    points = neighbours.draw(model, x, samples, torch.Generator().manual_seed(0))

    def gradients() -> None:
        for point in itertools.chain.from_iterable([points] * steps):
            point = point.detach().requires_grad_()
            logits = model(point)
            torch.autograd.grad((logits[:, 1] - logits[:, 0]).sum(), point)

    def measure() -> None:
        generator = torch.Generator().manual_seed(0)
        r2et.thickness(
            model, x, 50, neighbours=neighbours, samples=samples, steps=steps, generator=generator, chunk_size=1
        )

    ratios = {
        "probability thickness / its gradients, MLP 100,000-64-2, batch 16, k = 50": {
            **ratio(measure, gradients, 1, 1),
            "at most": 1.5,
        }
    }
    peaks = {n: peak_memory(n) for n in (1_000_000, 2_000_000, 4_000_000)}
    first, last = min(peaks), max(peaks)
    ratios["peak memory of thickness, n = 4,000,000 / n = 1,000,000 (4 = linear)"] = {
        "ratio": round(peaks[last] / peaks[first], 2),
        "megabytes": {str(n): round(value / 1e6) for n, value in peaks.items()},
        "at most": last / first * 1.1,
    }
    return ratios


def large_scan() -> dict[str, Any]:
    """Explain, measure, train and attack one scan of 514 x 771 pixels: the peak of a fresh process."""
    command = [sys.executable, __file__, "--scan"]
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "gigabytes of a process: scan of 514 x 771, gradient, thickness, R2ET step, 5 steps of ERAttack": {
            "ratio": round(peak / 1e9, 2),
            "at most": 6,
        }
    }


def scan_memory() -> float:
    torch.manual_seed(0)
    model = r2et.models.ResNet(channels=1, classes=2, widths=(16, 32, 64), blocks=1, stem="large")
    x, y = torch.randn(1, 1, 514, 771), torch.zeros(1, dtype=torch.long)
    assert r2et.explainers.Gradient()(model, x).shape == (1, 514 * 771)
    r2et.thickness(model, x, 50, samples=2, steps=2, chunk_size=1)
    R2ET(k=50)(model, x, y).backward()
    ERAttack(k=50, radius=1.0, steps=5)(model, x)
    return peak_resident()


def peak_memory(n: int) -> float:
    """Bytes that thickness adds to the peak of a fresh process, linear model, n features, 16 inputs."""
    command = [sys.executable, __file__, "--memory", str(n)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def added_memory(n: int) -> float:
    model, x = nn.Linear(n, 2), torch.randn(16, n)
    r2et.thickness(nn.Linear(10, 2), torch.randn(8, 10), 2)
    # a child inherits its parent's peak; the kernel forgets it on this word
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_resident()
    r2et.thickness(model, x, 50, samples=2, steps=2, chunk_size=1)
    return peak_resident() - before


def peak_resident() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def holds(entry: dict[str, Any]) -> bool:
    if entry.get("at most") is not None and entry["ratio"] > entry["at most"]:
        return False
    return not ("at least" in entry and entry["ratio"] < entry["at least"])


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "training": training_steps,
    "image-training": image_steps,
    "attack": batched_attack,
    "image-attack": batched_image_attack,
    "worst-case": worst_cases,
    "thickness": wide_thickness,
    "scan": large_scan,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/speed.json"))
    parser.add_argument("--only", choices=SECTIONS, help="measure this part again; the others stay as they are")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scan", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory is not None:
        print(added_memory(arguments.memory))
        return
    if arguments.scan:
        print(scan_memory())
        return
    kept = json.loads(arguments.output.read_text())["measured"] if arguments.only else {}
    chosen = [SECTIONS[arguments.only]] if arguments.only else list(SECTIONS.values())
    measured = kept | {name: entry for section in chosen for name, entry in section().items()}
    for entry in measured.values():
        entry["holds"] = holds(entry)
    output = {
        "command": "make bench-speed",
        "settings": {
            "rounds": ROUNDS,
            "threads": 1,
            "clock": "processor time",
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
            "training step": "MLP 28-32-2 with softplus, batch 256, loss + backward + Adam",
        },
        "measured": measured,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(output, indent=1) + "\n")
    for name, entry in measured.items():
        bound = {key: entry[key] for key in ("at most", "at least") if entry.get(key) is not None}
        print(f"{'ok  ' if entry['holds'] else 'MISS'} {entry['ratio']:>9} {name} {bound or ''}")


if __name__ == "__main__":
    main()
