"""A plan that takes seconds, and workers that misbehave."""

import os
import signal
from dataclasses import replace
from pathlib import Path

from r2et.cli import main
from r2et_bench import PLANS, BenchmarkPlan, Study
from r2et_bench.worker import Job, perform

TINY: BenchmarkPlan = replace(
    PLANS["smoke"],
    methods=("linear", "vanilla", "sp", "r2et-sf"),
    schedule={"epochs": 2, "batch_size": 128},
    studies=(
        Study("prediction", retrained=True),
        Study("attacks", {"rows": 10, "steps": 5}, retrained=True),
        # most of the work of a cell: one of each is enough
        Study("worst", {"rows": 5, "budget": "fast"}, methods=("vanilla",), seeds=1),
        Study("certified", {"rows": 4}, methods=("sp",), seeds=1),
        Study("faithfulness", {"rows": 10}),
    ),
    grid={"sp": {"beta": (1.0, 5.0)}},
    retrained=(),
    pairs={},
)


def run_tiny(arguments: list[str]) -> None:
    """The command line where "smoke" is the tiny plan."""
    PLANS["smoke"] = TINY
    main(arguments)


def die_once(job: Job) -> None:
    """Be killed at the first attempt at each job, as by the system when memory runs out."""
    mark = Path(job.work) / "deaths" / f"{job.name.split(' ')[0]}-{job.rung}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    perform(job)


def always_die_in_training_sp(job: Job) -> None:
    """Be killed whenever the cell is one of SP's."""
    if job.cell["method"] == "sp":
        os.kill(os.getpid(), signal.SIGKILL)
    perform(job)
