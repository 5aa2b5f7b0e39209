"""Certified radii beside the smallest attacks found, for every architecture the certificates know.

    R2ET_DATA=... python benchmarks/certificates.py --output benchmarks/results/certificates.json

Finished cells are files in the work folder; an interrupted run continues. Two processes, one thread each.
"""

import argparse
import hashlib
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

DATA = ("breast-cancer", "digits", "adult")
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "softplus 1": {"activation": "softplus", "beta": 1.0},
    "softplus 5": {"activation": "softplus", "beta": 5.0},
    "tanh": {"activation": "tanh"},
    "sigmoid": {"activation": "sigmoid"},
    "GELU": {"activation": "gelu"},
    "SiLU": {"activation": "silu"},
    "ReLU": {"activation": "relu"},
}
LAYERS = {"one hidden layer": (32,), "two hidden layers": (32, 32)}
#: explanations other than the gradient, on the nets with one hidden layer
OTHERS = ("GradientTimesInput", "SmoothGrad")
K, ROWS, FEW_ROWS = 8, 100, 30
TRAINING = {"epochs": 30, "patience": 10, "batch_size": 128, "seed": 0}
CURVE_RADII = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
SIGMA, SAMPLES, ALPHA = 0.25, 20_000, 0.001


def networks(data_name: str) -> dict[str, Any]:
    """Name to a function that builds the network, float64."""
    import torch
    from torch import nn

    import r2et

    features, classes = {"breast-cancer": (30, 2), "digits": (64, 10), "adult": (28, 2)}[data_name]

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(features, 32), nn.Linear(32, 32)
            self.bend, self.last = nn.Softplus(), nn.Linear(32, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.bend(self.first(x))
            result: torch.Tensor = self.last(hidden + self.bend(self.second(hidden)))
            return result

    def convolution(bend: nn.Module, pool: nn.Module) -> nn.Module:
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            bend,
            pool,
            nn.Flatten(),
            nn.Linear(96, 10),
        )

    makers: dict[str, Any] = {
        f"{depth}, {name}": (
            lambda hidden=hidden, settings=settings: r2et.models.MLP(features, classes, hidden=hidden, **settings)
        )
        for depth, hidden in LAYERS.items()
        for name, settings in ACTIVATIONS.items()
    }
    makers["two hidden layers, LeakyReLU"] = lambda: nn.Sequential(
        nn.Linear(features, 32), nn.LeakyReLU(0.1), nn.Linear(32, 32), nn.LeakyReLU(0.1), nn.Linear(32, classes)
    )
    makers["residual, softplus 1"] = Residual
    makers["linear"] = lambda: r2et.models.Linear(features, classes)
    if data_name == "digits":
        makers["convolution, BatchNorm, average pooling, softplus 1"] = lambda: convolution(
            nn.Softplus(), nn.AvgPool2d(2)
        )
        makers["convolution, BatchNorm, max-pooling, ReLU"] = lambda: convolution(nn.ReLU(), nn.MaxPool2d(2))
    return makers


def trained(data_name: str, net: str) -> tuple[Any, Any]:
    import torch

    import r2et

    data = r2et.data.load(data_name)
    torch.manual_seed(0)
    model = networks(data_name)[net]()
    r2et.fit(model, data.train, data.validation, settings=r2et.training.Settings(**TRAINING))
    return data, model.double().eval()


def explainers() -> dict[str, Any]:
    import r2et

    return {
        "Gradient": r2et.explainers.Gradient(),
        "GradientTimesInput": r2et.explainers.GradientTimesInput(),
        "SmoothGrad": r2et.explainers.SmoothGrad(score="log-odds", samples=20, sigma=0.1),
    }


def jobs() -> list[tuple[str, str, str]]:
    brackets = [(data, net, "Gradient") for data in DATA for net in networks(data)]
    shallow = ("one hidden layer, softplus 1", "one hidden layer, ReLU")
    brackets += [(data, net, other) for data in DATA for net in shallow for other in OTHERS]
    return [*brackets, ("breast-cancer", "one hidden layer, softplus 1", "curve"), ("", "", "speed")]


def bracket(data_name: str, net: str, explanation: str) -> dict[str, Any]:
    """Certified radii and smallest attacks of one network."""
    import r2et
    from r2et.attacks import BoundaryAttack, MinimalFlip

    data, model = trained(data_name, net)
    few = explanation != "Gradient" or net.startswith("convolution")
    x = data.test.x[: FEW_ROWS if few else ROWS].double()
    explainer = explainers()[explanation]
    started = time.process_time()
    certificate = r2et.certify(model, x, K, explainer=explainer)
    seconds = time.process_time() - started
    radius = certificate.radius
    summary: dict[str, Any] = {
        "data": data_name,
        "network": net,
        "explanation": explanation,
        "method": certificate.method,
        "rows": len(x),
        "accuracy": float((model(data.test.x.double()).argmax(1) == data.test.y).double().mean()),
        "milliseconds": 1e3 * seconds / len(x),
    }
    if radius.isinf().all():
        return {**summary, "infinite": True}
    far = float(8 * radius.max())
    attack = MinimalFlip(k=K, radius=far, pairs=12, width=4, steps=25, explainer=explainer)(model, x)
    flipped = attack.precision < 1
    first = r2et.certify(model, x, K, explainer=explainer, method="first-order").radius
    # where a tie decides the list at x, the true radius is 0, as a tiny attack shows: no share of it can be had
    untied = flipped & ((radius > 0) | (attack.distance >= 1e-5))
    share = radius[untied] / attack.distance[untied]
    # the certified precision of the whole batch at the median radius of 0, 1 and 2 displaced features
    claims = [value for m in range(3) if (value := float(certificate.limits[:, m].median())) > 0]
    strong = BoundaryAttack(k=K, radius=far, steps=100, explainer=explainer)(model, x, radii=claims)
    wrong = sum(
        int((result.precision < certificate.precision_at(result.distance * (1 + 1e-9)) - 1e-9).sum())
        for result in strong
    )
    return {
        **summary,
        "radius": float(radius.median()),
        "zero": int((radius == 0).sum()),
        "zero and flipped by a norm below 1e-5": int(((radius == 0) & flipped & (attack.distance < 1e-5)).sum()),
        "flips": int(flipped.sum()),
        "certified / attack": float(share.median()),
        "largest certified / attack": float(share.max()),
        "violations": int((share >= 1).sum()) + wrong,
        "flips within 1.5 x": float((flipped & (attack.distance <= 1.5 * radius)).double().mean()),
        "first order above the attack": float((first > attack.distance)[flipped].double().mean()),
    }


def curve(data_name: str, net: str) -> dict[str, Any]:
    """P@k against radius: what is certified, what worst case and noise leave; the randomised certificate."""
    import r2et
    from r2et.attacks import NoiseAttack, WorstCase

    data, model = trained(data_name, net)
    x = data.test.x[:ROWS].double()
    certificate = r2et.certify(model, x, K)
    worst = WorstCase(k=K, radius=1.0, version=1)(model, x, radii=CURVE_RADII)
    noise = NoiseAttack(k=K, radius=1.0)(model, x, radii=CURVE_RADII)
    smooth = r2et.certify(
        model, x[:FEW_ROWS], K, method=r2et.certificates.Smoothing(sigma=SIGMA, samples=SAMPLES, alpha=ALPHA)
    )
    return {
        "data": data_name,
        "network": net,
        "rows": len(x),
        "radii": CURVE_RADII,
        "certified": [float(certificate.precision_at(radius).mean()) for radius in CURVE_RADII],
        "worst case": [float(result.precision.mean()) for result in worst],
        "noise": [float(result.precision.mean()) for result in noise],
        "smoothing radius": float(smooth.radius.median()),
        "smoothing": [float(smooth.precision_at(radius).mean()) for radius in CURVE_RADII],
    }


def speed() -> dict[str, Any]:
    """Processor time on random networks, and the memory of the largest one."""
    import torch

    import r2et

    def milliseconds(features: int, hidden: tuple[int, ...], k: int, rows: int) -> float:
        torch.manual_seed(0)
        model = r2et.models.MLP(features, 2, hidden=hidden, activation="softplus").double()
        x = torch.randn(rows, features, dtype=torch.float64)
        r2et.certify(model, x[:8], k)
        times = []
        for _ in range(3):
            started = time.process_time()
            r2et.certify(model, x, k)
            times.append(time.process_time() - started)
        return 1e3 * sorted(times)[1] / rows

    costs: dict[str, Any] = {"n 30, k 8, one hidden layer of 32, batch 256": milliseconds(30, (32,), 8, 256)}
    costs["by pairs"] = [
        {"n": n, "k": k, "pairs": k * (n - k), "milliseconds": milliseconds(n, (32,), k, 64)}
        for n, k in ((16, 4), (30, 8), (60, 8), (60, 16), (120, 16), (120, 32))
    ]
    costs["by layers"] = [
        {"layers": depth, "milliseconds": milliseconds(30, (32,) * depth, 8, 64)} for depth in (1, 2, 3, 4, 6)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    costs["784 pixels, two layers of 100, k 50"] = {
        "milliseconds": milliseconds(784, (100, 100), 50, 4),
        "megabytes more": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }
    return costs


def run_cell(data_name: str, net: str, what: str, work: Path) -> dict[str, Any]:
    settings = [data_name, net, what, K, ROWS, FEW_ROWS, TRAINING, CURVE_RADII, SIGMA, SAMPLES, ALPHA]
    name = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    path = work / f"certificates-{name}.json"
    if path.exists():
        done: dict[str, Any] = json.loads(path.read_text())
        return done
    import torch

    torch.set_num_threads(1)
    result = (
        speed() if what == "speed" else curve(data_name, net) if what == "curve" else bracket(data_name, net, what)
    )
    path.write_text(json.dumps(result))
    print(
        data_name,
        net,
        what,
        {key: value for key, value in result.items() if not isinstance(value, list)},
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/certificates"))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    wanted = jobs()
    with ProcessPoolExecutor(options.processes) as pool:
        futures = [pool.submit(run_cell, *job, options.work) for job in wanted]
        cells = [future.result() for future in futures]
    by_job = dict(zip(wanted, cells, strict=True))
    output = {
        "command": "python benchmarks/certificates.py --output benchmarks/results/certificates.json",
        "settings": {
            "k": K,
            "rows": ROWS,
            "few_rows": FEW_ROWS,
            "training": TRAINING,
            "sigma": SIGMA,
            "samples": SAMPLES,
            "alpha": ALPHA,
        },
        "brackets": [cell for (_, _, what), cell in by_job.items() if what not in ("curve", "speed")],
        "curve": next(cell for (_, _, what), cell in by_job.items() if what == "curve"),
        "speed": next(cell for (_, _, what), cell in by_job.items() if what == "speed"),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
