"""Hand every record to an experiment tracker as it comes."""

from typing import Protocol

from r2et.errors import InputError
from r2et_bench.records import Record


class Tracker(Protocol):
    """Anything that wants to hear of finished cells."""

    def record(self, plan: str, record: Record) -> None:
        """A cell of a plan is finished, or failed."""


class MLflowTracker:
    """One MLflow run per cell, where MLflow is configured to log: settings as parameters, numbers as metrics."""

    def __init__(self) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise InputError("the MLflow tracker needs MLflow: pip install mlflow-skinny") from error
        self._mlflow = mlflow

    def record(self, plan: str, record: Record) -> None:
        """Log one cell."""
        cell = record["cell"]
        name = f"r2et bench {plan}"
        # named in each run, because MLflow's active experiment would outlive this one
        known = self._mlflow.get_experiment_by_name(name)
        number = self._mlflow.create_experiment(name) if known is None else known.experiment_id
        title = f"{cell['data']} {cell['method']} {cell['seed']}"
        with self._mlflow.start_run(run_name=title, experiment_id=number):
            self._mlflow.log_params({name: cell[name] for name in ("data", "method", "seed", "retrained")})
            self._mlflow.log_params({f"settings.{name}": value for name, value in cell["settings"].items()})
            self._mlflow.log_metrics(numbers(record))


def numbers(record: Record) -> dict[str, float]:
    """Every single number a record holds, by study and name.

    >>> numbers({"training": {"epochs": 3}, "studies": {"worst": {"values": {"precision": 0.5, "recipe": "a"}}}})
    {'training.epochs': 3.0, 'worst.precision': 0.5}
    """
    parts = {"training": record["training"]}
    parts |= {name: entry.get("values", {}) for name, entry in record["studies"].items()}
    return {
        f"{part}.{name.replace('@', ' at ')}": float(value)
        for part, values in parts.items()
        for name, value in values.items()
        if isinstance(value, int | float)
    }
