"""A hunt for violated certificates: random networks, and attacks inside of the radii that were certified.

    python -m benchmarks.soundness --output benchmarks/results/soundness.json

A case is one input and one network. One process, one thread, about 8 minutes of processor time for 3,000 cases.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.hunting import Case, boundary_attack, drawn_case, hunt, smallest_flips
from r2et.certificates import certify
from r2et.progress import progress_bar

ROWS = 10
SHARE, CONTROL_SHARE = 0.999, 3.0
#: random directions for each number of displaced features
DRAWS = 24
#: MinimalFlip looks this many times the largest certified radius of a network far, and at least this far
FAR, LEAST_FAR = 4.0, 1e-3


@dataclass
class Tally:
    """What the cases so far have shown."""

    cases: Counter[str] = field(default_factory=Counter)
    certified: int = 0
    infinite: int = 0
    flipped: int = 0
    largest: float = 0.0
    violations: list[dict[str, Any]] = field(default_factory=list)
    control_cases: int = 0
    control_caught: int = 0

    def add(self, seed: int, case: Case) -> None:
        """Certify, attack inside of the radius, and attack at three times the radius."""
        model, x, k, explainer = case.model, case.x, case.k, case.explainer
        certificate = certify(model, x, k, explainer=explainer)
        radius, limits = certificate.radius, certificate.limits
        finite = radius[radius.isfinite()]
        far = max(LEAST_FAR, FAR * float(finite.max())) if len(finite) else 10.0
        flips = smallest_flips(model, x, explainer, k, far)
        inside = hunt(model, x, limits, explainer, k, SHARE, DRAWS)
        inside |= boundary_attack(model, x, radius, explainer, k) | (flips < SHARE * radius)
        self._count(case, radius, flips)
        for row in inside.nonzero().flatten().tolist():
            self.violations.append({"seed": seed, "row": row, "kind": case.kind, "trait": case.trait})
        rows = ((radius > 0) & radius.isfinite()).nonzero().flatten()
        if len(rows):
            outside = hunt(model, x[rows], limits[rows, :1], explainer, k, CONTROL_SHARE, DRAWS)
            self.control_cases += len(rows)
            self.control_caught += int((outside | (flips[rows] < CONTROL_SHARE * radius[rows])).sum())

    def _count(self, case: Case, radius: torch.Tensor, flips: torch.Tensor) -> None:
        name = type(case.explainer).__name__
        for label in (f"kind: {case.kind}", f"trait: {case.trait}", f"explanation: {name}"):
            self.cases[label] += len(radius)
        self.certified += int((radius > 0).sum())
        self.infinite += int(radius.isinf().sum())
        known = flips.isfinite() & radius.isfinite()
        self.flipped += int(known.sum())
        if known.any():
            self.largest = max(self.largest, float((radius / flips)[known].nan_to_num().max()))

    def results(self, seed: int, cases: int) -> dict[str, Any]:
        """For the results file."""
        return {
            "command": "python -m benchmarks.soundness --output benchmarks/results/soundness.json",
            "settings": {"seed": seed, "rows": ROWS, "share": SHARE, "draws": DRAWS},
            "cases": cases,
            "networks": cases // ROWS,
            "by": dict(sorted(self.cases.items())),
            "with a radius above zero": self.certified,
            "with an infinite radius": self.infinite,
            "with a smallest attack": self.flipped,
            "largest certified / attack": self.largest,
            "violations": len(self.violations),
            "violated": self.violations,
            "control": {"share": CONTROL_SHARE, "cases": self.control_cases, "caught": self.control_caught},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=3000, help="inputs x networks, rounded up to whole networks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    networks = -(-options.cases // ROWS)
    tally = Tally()
    with progress_bar("networks", networks, enabled=True) as advance:
        for number in range(networks):
            seed = options.seed * 10**6 + number
            tally.add(seed, drawn_case(seed, ROWS))
            advance(1)
    results = tally.results(options.seed, networks * ROWS)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['cases']} cases, {results['violations']} violations, control {results['control']}")


if __name__ == "__main__":
    main()
