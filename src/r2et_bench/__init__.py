"""The paper's tables and figures as a resumable grid of cells, on one machine or on many."""

from typing import TYPE_CHECKING

from r2et.lazy import lazily

if TYPE_CHECKING:
    from r2et_bench.cells import Cell
    from r2et_bench.driver import Run
    from r2et_bench.executors import Executor, LocalExecutor, RayExecutor, find_executor
    from r2et_bench.plans import PLANS, BenchmarkPlan, Study, find_plan
    from r2et_bench.records import Store
    from r2et_bench.trackers import MLflowTracker, Tracker

__all__ = [
    "PLANS",
    "BenchmarkPlan",
    "Cell",
    "Executor",
    "LocalExecutor",
    "MLflowTracker",
    "RayExecutor",
    "Run",
    "Store",
    "Study",
    "Tracker",
    "find_executor",
    "find_plan",
]

# imported when they are used: the help of `r2et bench` needs no torch
_HOMES = {
    "PLANS": "plans",
    "Cell": "cells",
    "Executor": "executors",
    "LocalExecutor": "executors",
    "MLflowTracker": "trackers",
    "BenchmarkPlan": "plans",
    "RayExecutor": "executors",
    "Run": "driver",
    "Store": "records",
    "Study": "plans",
    "Tracker": "trackers",
    "find_executor": "executors",
    "find_plan": "plans",
}

__getattr__ = lazily("r2et_bench", _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
