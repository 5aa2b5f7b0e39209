"""A hunt for violated certificates: ugly random networks, and attacks at the radii that were certified.

    python -m benchmarks.soundness --output benchmarks/results/soundness.json --processes 2

A case is one input and one network. Results of blocks of networks are kept in `--work` until they are removed: a
run that was interrupted goes on where it was. 20,000 cases take about an hour of processor time.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, get_args

import torch
from torch import nn

from benchmarks import attackers
from benchmarks.attackers import attacked, judge_reads
from benchmarks.hunting import drawn_case
from benchmarks.ugly import Case, drawn
from benchmarks.witnesses import Ground, Smallest
from benchmarks.wrong import TIES, TOO_LARGE, WRONG, Wrong, method_of
from r2et.certificates import Certificate, certify
from r2et.certificates.choice import Method
from r2et.errors import InputError
from r2et.progress import progress_bar

COMMAND = "python -m benchmarks.soundness --output benchmarks/results/soundness.json"
ROWS, BLOCK = 40, 10
#: methods that have nothing to do with this: other explanations, and estimates
ELSEWHERE = ("smoothing", "first-order")
#: of how many networks one has certificates that are wrong on purpose
CONTROLLED = 8
#: draws of `drawn_case` in which half a slope for each of several equal entries of a window certifies too much
KNOWN_TIES = (8, 30, 133, 154)
#: changes whenever results of before must not be mixed with those of now
VERSION = 3


@dataclass(frozen=True)
class Way:
    """How a certificate is asked for."""

    method: str
    prediction: bool = False
    budget: int | None = None
    radii: tuple[float, ...] | None = None

    @property
    def label(self) -> str:
        """In a few words."""
        searched = "search" if self.radii is None else "given radii"
        return f"{self.method}, {searched}" + (", prediction" if self.prediction else "")


def certified(case: Case, way: Way) -> Certificate:
    """What `r2et.certify` says."""
    return certify(
        case.model,
        case.x,
        case.k,
        explainer=case.explainer,
        method=way.method,  # type: ignore[arg-type]  # one of the names
        target=case.target,
        prediction=way.prediction,
        radii=way.radii,
        budget=way.budget,
        domain=case.domain,
        threat=case.threat,
    )


def certificates(case: Case) -> Iterator[tuple[Way, Certificate]]:
    """A search by "auto", then a method by its own name, and for a part of the networks given radii by "auto"."""
    draw = Random(case.seed + 1)
    way = Way("auto", prediction=draw.random() < 0.3)
    first = certified(case, way)
    yield way, first
    names = [name for name in get_args(Method) if name not in ("auto", *ELSEWHERE)]
    radii, budget = _radii(draw, first), draw.choice((None, 0, 1, 4))
    if radii and draw.random() < 0.4:
        way = Way("auto", radii=radii, budget=budget, prediction=draw.random() < 0.2)
        yield way, certified(case, way)
    for name in draw.sample(names, len(names)):
        way = Way(name, radii=radii if draw.random() < 0.4 else None, budget=budget)
        try:
            found = certified(case, way)
        except InputError:
            continue
        yield way, found
        return


def _radii(draw: Random, certificate: Certificate) -> tuple[float, ...] | None:
    """Radii near those of a certificate, where claims are bold."""
    found = certificate.limits[(certificate.limits > 0) & certificate.limits.isfinite()].tolist()
    return tuple(draw.choice((0.8, 1.0, 1.1, 1.5)) * draw.choice(found) for _ in range(3)) if found else None


def malformed(certificate: Certificate, ground: Ground) -> torch.Tensor:
    """Rows (N,) with limits that are no limits, or of another list than the explanation has."""
    limits = certificate.limits
    strange = ~(limits >= 0).all(1) | (limits[:, 1:] < limits[:, :-1]).any(1)
    assert certificate.top is not None
    listed = torch.zeros_like(ground.top).scatter(1, certificate.top, value=True)
    return strange | ((listed != ground.top).any(1) & (limits[:, 0] > 0))


def examined(case: Case, *, worst: bool = True) -> dict[str, Any]:
    """The record of one network; without WorstCase-2 it takes a part of the time."""
    ground = Ground.of(case)
    found = list(certificates(case))
    smallest, counts = attacked(ground, [certificate for _, certificate in found], case.seed, worst=worst)
    auto = found[0][1].limits
    share = smallest.share(torch.stack([certificate.limits for _, certificate in found]).amax(0))
    violations = [
        {"seed": case.seed, "row": row, "way": way.label, "network": case.labels["network"]}
        for way, certificate in found
        for row in (smallest.against(certificate).any(1) | malformed(certificate, ground))
        .nonzero()
        .flatten()
        .tolist()
    ]
    return {
        "seed": case.seed,
        "rows": len(case.x),
        "labels": case.labels,
        "ways": [way.label for way, _ in found],
        "bounds": sorted({bound for _, certificate in found for bound in certificate.methods}),
        "attacked": counts,
        "certified": int((auto[:, 0] > 0).sum()),
        "infinite": int(auto[:, 0].isinf().sum()),
        "readable": judge_reads(ground),
        "claims": _claims([certificate for _, certificate in found]),
        "witnessed": int((share > 0).sum()),
        "largest": float(share.max()),
        "violations": violations,
        "controls": controls(case, smallest, found[0][1]),
    }


def _claims(found: list[Certificate]) -> dict[str, int]:
    """How many claims there are about lists that lose so many features at most."""
    claims: Counter[str] = Counter()
    for certificate in found:
        at = (certificate.limits > 0) & certificate.limits.isfinite()
        for place, count in enumerate(at.sum(0).tolist()):
            claims[str(place)] += count
    return dict(claims)


def controls(case: Case, smallest: Smallest, right: Certificate) -> dict[str, tuple[int, int]]:
    """How many rows have wrong claims that are larger than those that hold, and how many of these are caught."""
    caught = {f"{TOO_LARGE - 1:.0%} too large": _caught(smallest, TOO_LARGE * right.limits, right.limits)}
    held = right.details.get("prediction")
    if held is not None:
        known = (held > 0) & held.isfinite()
        seen = known & (smallest.changed < TOO_LARGE * held)
        caught[f"{TOO_LARGE - 1:.0%} too large, of the prediction"] = int(known.sum()), int(seen.sum())
    chosen = {} if case.seed % CONTROLLED else WRONG
    if any(isinstance(layer, (nn.MaxPool1d, nn.MaxPool2d)) for layer in case.model.modules()):
        # ties in windows are rare
        chosen = {**chosen, TIES: WRONG[TIES]}
    return caught | dict(_wrong(case, smallest, chosen))


def _wrong(case: Case, smallest: Smallest, chosen: dict[str, Wrong]) -> Iterator[tuple[str, tuple[int, int]]]:
    for name, wrong in chosen.items():
        way = Way(method_of(name))
        try:
            right = certified(case, way).limits
        except InputError:
            # the method does not apply to this network
            continue
        with wrong():
            claimed = certified(case, way).limits
        yield name, _caught(smallest, claimed, right)


def tied_windows() -> tuple[int, int]:
    """The control of ties in windows, on draws in which they decide: rows with larger claims, and those caught."""
    larger, caught = 0, 0
    for seed in KNOWN_TIES:
        old = drawn_case(seed, ROWS, "max-pooling of units", "copies")
        case = Case(seed, {}, old.model, old.x, old.k, old.explainer, None, "paper", None)
        right = certified(case, Way("auto"))
        with WRONG[TIES]():
            claimed = certified(case, Way("auto"))
        smallest, _ = attacked(Ground.of(case), [claimed], seed, worst=False)
        one, two = _caught(smallest, claimed.limits, right.limits)
        larger, caught = larger + one, caught + two
    return larger, caught


def _caught(smallest: Smallest, wrong: torch.Tensor, right: torch.Tensor) -> tuple[int, int]:
    larger = (wrong > right).any(1)
    return int(larger.sum()), int((larger & (smallest.norms < wrong).any(1)).sum())


def block(seeds: range, rows: int, path: Path) -> None:
    """Examine networks and keep their records, one in a line."""
    torch.set_num_threads(1)
    lines = [json.dumps({"version": VERSION, **examined(drawn(seed, rows))}) for seed in seeds]
    part = path.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n")
    part.replace(path)


def results(records: Iterable[dict[str, Any]], settings: dict[str, Any]) -> dict[str, Any]:
    """For the results file."""
    by: dict[str, Counter[str]] = {}
    total, claims, wrong, caught = Counter[str](), Counter[int](), Counter[str](), Counter[str]()
    attacks: Counter[str] = Counter()
    violations: list[dict[str, Any]] = []
    largest = 0.0
    for record in records:
        rows = record["rows"]
        for heading, value in record["labels"].items():
            by.setdefault(heading, Counter())[value] += rows
        for heading, values in (("certificate", record["ways"]), ("bound", record["bounds"])):
            by.setdefault(heading, Counter()).update(dict.fromkeys(values, rows))
        claims.update({int(place): count for place, count in record["claims"].items()})
        attacks.update(record["attacked"])
        total.update({name: record[name] for name in ("rows", "certified", "infinite", "witnessed")})
        total["networks"] += 1
        total["readable"] += rows if record["readable"] else 0
        violations += record["violations"]
        largest = max(largest, record["largest"])
        for name, (cases, seen) in record["controls"].items():
            wrong[name] += cases
            caught[name] += seen
    return {
        "command": COMMAND,
        "settings": settings,
        "cases": total["rows"],
        "networks": total["networks"],
        "by": {heading: dict(sorted(values.items())) for heading, values in by.items()},
        "claims by displaced features": {str(place): claims[place] for place in sorted(claims)},
        "with a radius above zero": total["certified"],
        "with an infinite radius": total["infinite"],
        "attacked by": dict(sorted(attacks.items())),
        "that the judge can read": total["readable"],
        "claims with a witness beyond them": total["witnessed"],
        "largest certified / attack": largest,
        "violations": len(violations),
        "violated": violations,
        "controls": {name: {"cases": wrong[name], "caught": caught[name]} for name in wrong},
    }


def run(networks: int, rows: int, seed: int, work: Path, processes: int) -> list[dict[str, Any]]:
    """The records of all networks; blocks that are in the work folder are not examined again."""
    work.mkdir(parents=True, exist_ok=True)
    starts = range(seed, seed + networks, BLOCK)
    seeds = [range(start, min(start + BLOCK, seed + networks)) for start in starts]
    paths = [work / f"v{VERSION}-{rows}-{part.start}-{part.stop}.jsonl" for part in seeds]
    left = [(part, rows, path) for part, path in zip(seeds, paths, strict=True) if not path.exists()]
    with progress_bar("networks", networks, enabled=True) as advance:
        advance(networks - sum(len(part) for part, _, _ in left))
        if processes == 1:
            for task in left:
                block(*task)
                advance(len(task[0]))
        else:
            # a fork of a process that has threads may hang
            with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
                for (part, _, _), done in [(task, pool.submit(block, *task)) for task in left]:
                    done.result()
                    advance(len(part))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases", type=int, default=20_000, help="inputs x networks, rounded up to whole networks"
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="inputs of each network")
    parser.add_argument("--seed", type=int, default=0, help="of the first network; the others follow")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, default=Path("runs/soundness"), help="where blocks of results are kept"
    )
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    networks = -(-options.cases // options.rows)
    records = run(networks, options.rows, options.seed, options.work, options.processes)
    settings = {
        "seed": options.seed,
        "rows": options.rows,
        "beyond": attackers.BEYOND,
        "claims": attackers.CLAIMS,
        "controlled": CONTROLLED,
    }
    found = results(records, settings)
    cases, caught = tied_windows()
    found["controls"][f"{TIES}, {len(KNOWN_TIES)} known draws"] = {"cases": cases, "caught": caught}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['cases']} cases, {found['violations']} violations, controls {found['controls']}")


if __name__ == "__main__":
    main()
