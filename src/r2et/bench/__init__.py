"""The paper's tables and figures as a resumable grid of cells, on one machine or on many."""

from r2et.bench.cells import Cell
from r2et.bench.driver import Run
from r2et.bench.executors import Executor, LocalExecutor, RayExecutor, find_executor
from r2et.bench.plans import PLANS, Plan, Study, find_plan
from r2et.bench.records import Store
from r2et.bench.trackers import MLflowTracker, Tracker

__all__ = [
    "PLANS",
    "Cell",
    "Executor",
    "LocalExecutor",
    "MLflowTracker",
    "Plan",
    "RayExecutor",
    "Run",
    "Store",
    "Study",
    "Tracker",
    "find_executor",
    "find_plan",
]
