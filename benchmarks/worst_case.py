"""How kind WorstCase is beside an opponent that shares no code with it (tests/opponent.py).

    R2ET_DATA=... python -m benchmarks.worst_case

Nets of one hidden layer on four data sets, P@8 at three L2 radii, threat "tangent": every feature moves, the sums
of one-hot groups stay. Each column of figures of each net is a file in the work folder: an interrupted run
continues, and `--columns judge` computes those of the opponent alone. One process, one thread, float64.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

DATA = ("breast-cancer", "bank", "adult", "digits")
#: method of `r2et.recipes` and its settings; None: the ReLU net's weights under another activation
NETS: dict[str, tuple[str, dict[str, float]] | None] = {
    "ReLU": ("vanilla", {}),
    "Softplus(5)": ("sp", {"beta": 5.0}),
    "Softplus(1000)": None,
    "scale-free R2ET": ("r2et-sf", {}),
}
K, RADII, ROWS, SEED, DRAWS = 8, (0.1, 0.3, 1.0), 200, 0, 1000
TRAINING = {"epochs": 30, "patience": 10, "batch_size": 128}
THREAT = "tangent"
JUDGE, STANDARD, FAST, THOROUGH = "judge", "WorstCase standard", "WorstCase fast", "WorstCase thorough"
#: columns that take long are of one network alone
ALONE = {THOROUGH: ("adult", "ReLU")}
OLD, NOISE, MEMBER = "WorstCase-1 standard", "noise", "member: "
#: points of P@k by which WorstCase standard may be kinder than the opponent
ALLOWED = 1.0
#: a net and its data -> P@k (N,) for each radius
Column = Callable[[Any, Any], list[Any]]
#: raised when the opponent's search changes, which makes its old figures void
OPPONENT = 1


@cache
def data_set(name: str) -> Any:
    import r2et.data

    return r2et.data.load(name)


def groups(data: Any) -> list[list[int]]:
    """The one-hot groups: features whose sum says nothing."""
    return [list(group) for group in data.domain.groups if len(group) > 1]


@cache
def trained(name: str, net: str, work: Path) -> Any:
    """The net in float64, from the work folder if it was trained before."""
    from safetensors.torch import load_file, save_file

    from r2et.models import MLP
    from r2et.recipes import train_method

    recipe = NETS[net]
    if recipe is None:
        relu = trained(name, "ReLU", work)
        sharp = MLP(relu[0].in_features, relu[2].out_features, activation="softplus", beta=1000.0).double()
        sharp.load_state_dict(relu.state_dict())
        return sharp.eval()
    method, settings = recipe
    data = data_set(name)
    activation = {"activation": "softplus", "beta": settings.get("beta", 1.0)} if method != "vanilla" else {}
    model = MLP(data.train.x.shape[1], len(data.class_names), **activation)
    path = work / f"{name}-{method}-{digest(settings, TRAINING, SEED)}.safetensors"
    if not path.exists():
        fitted = train_method(
            method, data.train, data.validation, k=K, settings=settings, seed=SEED, **TRAINING
        ).model
        save_file(fitted.state_dict(), path)
    model.load_state_dict(load_file(path))
    return model.double().eval()


def digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:10]


def tensors_digest(*tensors: Any) -> str:
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in tensors)).hexdigest()[:10]


def judged(model: Any, data: Any) -> list[Any]:
    """What the opponent leaves, P@k (N,) for each radius."""
    from tests.opponent import Effort, judge

    verdicts = judge(
        model,
        data.test.x[:ROWS],
        data.train.x,
        radii=RADII,
        effort=Effort(k=K, seed=SEED),
        groups=groups(data),
    )
    return [verdict.precision for verdict in verdicts]


def attacked(attack: Any) -> Column:
    """The same under an attack of the library."""

    def compute(model: Any, data: Any) -> list[Any]:
        x = data.test.x[:ROWS].double()
        results = attack(model, x, domain=data.domain, threat=THREAT, seed=SEED, radii=RADII)
        return [result.precision for result in results]

    return compute


def short_name(attack: Any) -> str:
    """A class, and its loss where there are several."""
    return " ".join([type(attack).__name__, *([attack.loss] if hasattr(attack, "loss") else [])])


def searches() -> dict[str, Any]:
    """The attacks of the library that are compared, by the name of their column."""
    from r2et.attacks import NoiseAttack, WorstCase

    shared: dict[str, Any] = {"k": K, "radius": max(RADII)}
    standard = WorstCase(**shared)
    members = {MEMBER + short_name(member): member for member in standard.attacks(piecewise=True, formulas=True)}
    return {
        STANDARD: standard,
        OLD: WorstCase(**shared, version=1),
        NOISE: NoiseAttack(**shared, steps=DRAWS),
        **members,
        FAST: WorstCase(**shared, budget="fast"),
        THOROUGH: WorstCase(**shared, budget="thorough"),
    }


@cache
def columns() -> dict[str, tuple[Column, str]]:
    """By name, what computes a column, and a digest of what it depends on beside data and net."""
    from tests.opponent import Effort

    library = {
        name: (attacked(attack), digest(repr(attack), source(), RADII, ROWS, SEED, THREAT))
        for name, attack in searches().items()
    }
    return {JUDGE: (judged, digest(OPPONENT, asdict(Effort(k=K, seed=SEED)), RADII, ROWS)), **library}


def source() -> str:
    """A digest of the code of the attacks: figures of another version of it are void."""
    import r2et

    files = sorted((Path(r2et.__file__).parent / "attacks").glob("*.py"))
    return digest(*(path.read_text() for path in files))


def place(name: str, net: str, column: str, work: Path) -> Path:
    """The file of one column of one net."""
    _, depends = columns()[column]
    model, data = trained(name, net, work), data_set(name)
    subject = tensors_digest(data.test.x[:ROWS], *model.state_dict().values())
    return work / f"{name}-{net}-{column}-{subject}-{digest(depends, groups(data))}.json"


def cell(name: str, net: str, column: str, work: Path) -> dict[str, Any]:
    """P@k in percent at each radius under one search."""
    path = place(name, net, column, work)
    if path.exists():
        done: dict[str, Any] = json.loads(path.read_text())
        return done
    compute, _ = columns()[column]
    model, data = trained(name, net, work), data_set(name)
    started = time.process_time()
    precision = compute(model, data)
    record = {
        "P@k": [100 * float(values.mean()) for values in precision],
        "seconds": round(time.process_time() - started, 1),
        "rows": [[round(float(value), 6) for value in values] for values in precision],
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record))
    part.rename(path)
    shown = ", ".join(f"{radius:g}: {value:.2f}" for radius, value in zip(RADII, record["P@k"], strict=True))
    print(f"{name}, {net}, {column}: P@{K} at {shown} ({record['seconds']:.0f} s)", flush=True)
    return record


def subject(name: str, net: str, figures: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    """What the results file says of one net."""
    import r2et

    data, model = data_set(name), trained(name, net, work)
    return {
        "data": name,
        "net": net,
        "rows": min(ROWS, len(data.test)),
        "features": len(data.feature_names),
        "auc": round(r2et.metrics.auc(model, data.test.x.double(), data.test.y), 4),
        "precision": {
            column: {f"{r:g}": round(value, 4) for r, value in zip(RADII, record["P@k"], strict=True)}
            for column, record in figures.items()
        },
        "seconds": {column: record["seconds"] for column, record in figures.items()},
    }


def kindness(nets: list[dict[str, Any]], column: str, other: str) -> list[dict[str, Any]]:
    """By how many points of P@k one search is kinder than another, in each cell; the kindest cells first."""
    cells = [
        {
            "data": net["data"],
            "net": net["net"],
            "radius": radius,
            "points": round(net["precision"][column][f"{radius:g}"] - net["precision"][other][f"{radius:g}"], 4),
        }
        for net in nets
        for radius in RADII
    ]
    return sorted(cells, key=lambda entry: -entry["points"])


def rises(nets: list[dict[str, Any]], column: str) -> list[str]:
    """Nets on which a larger radius leaves a higher P@k."""
    values = {f"{net['data']}, {net['net']}": list(net["precision"][column].values()) for net in nets}
    return [name for name, figures in values.items() if figures != sorted(figures, reverse=True)]


def summary(nets: list[dict[str, Any]]) -> dict[str, Any]:
    """What has to hold: WorstCase against the opponent, against all others, and over the radii."""
    others = [column for column in nets[0]["precision"] if column not in (STANDARD, FAST, THOROUGH)]
    return {
        "kindest cell beside": {other: kindness(nets, STANDARD, other)[0] for other in others},
        "more than 1.0 point kinder than the judge": [
            entry for entry in kindness(nets, STANDARD, JUDGE) if entry["points"] > ALLOWED
        ],
        "kinder than another attack": [
            {**entry, "than": other}
            for other in others
            if other != JUDGE
            for entry in kindness(nets, STANDARD, other)
            if entry["points"] > 1e-6
        ],
        "rises with the radius": rises(nets, STANDARD),
        "kindest cell of the old recipe beside the judge": kindness(nets, OLD, JUDGE)[0],
        "stronger than the judge": sum(entry["points"] < 0 for entry in kindness(nets, STANDARD, JUDGE)),
    }


def report(wanted: list[str], work: Path, *, cached: bool = False) -> dict[str, Any]:
    """The results file; what is missing is computed, or left out."""
    import torch

    import r2et
    from tests.opponent import Effort

    subjects = [(name, net) for name in DATA for net in NETS]
    cells = {pair: [column for column in wanted if ALONE.get(column, pair) == pair] for pair in subjects}
    if cached:
        subjects = [
            pair for pair in subjects if all(place(*pair, column, work).exists() for column in cells[pair])
        ]
    figures = {
        (*pair, column): cell(*pair, column, work)
        for column in wanted
        for pair in subjects
        if column in cells[pair]
    }
    nets = [subject(*pair, {column: figures[*pair, column] for column in cells[pair]}, work) for pair in subjects]
    library = searches()
    return {
        "command": "python -m benchmarks.worst_case",
        "settings": {
            "k": K,
            "radii": RADII,
            "threat": THREAT,
            "seed": SEED,
            "draws of noise": DRAWS,
            "recipe": library[STANDARD].recipe,
            "old recipe": library[OLD].recipe,
            "judge": {"version": OPPONENT, **asdict(Effort(k=K, seed=SEED))},
            "nets": {name: recipe or "the weights of ReLU" for name, recipe in NETS.items()},
            "training": {**TRAINING, "seed": SEED, "hidden": 32},
            "r2et": r2et.__version__,
            "torch": torch.__version__.split("+")[0],
        },
        "summary": summary(nets) if {STANDARD, JUDGE, OLD} <= set(wanted) else {},
        "not computed": [f"{name}, {net}" for name in DATA for net in NETS if (name, net) not in subjects],
        "nets": nets,
    }


def main() -> None:
    import torch

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/worst_case.json"))
    parser.add_argument("--work", type=Path, default=Path("runs/worst_case"), help="folder of nets and columns")
    parser.add_argument("--columns", nargs="+", help="compute these alone, and write no results")
    parser.add_argument("--cached", action="store_true", help="compute nothing; write what the work folder holds")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = report(options.columns or list(columns()), options.work, cached=options.cached)
    if options.cached or not options.columns:
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
