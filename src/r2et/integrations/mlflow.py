"""MLflow: an audit as metrics, parameters and the report."""

import tempfile
from pathlib import Path
from typing import Any

from r2et import report
from r2et.auditing import Audit
from r2et.numerics.values import check_kind, check_text

try:
    import mlflow
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("r2et.integrations.mlflow needs MLflow: pip install mlflow-skinny") from error


def log_audit(audit: Audit, name: str = "explanations") -> dict[str, float]:
    """Log an audit to the active run, or to a new one that stays active.

    Args:
        audit: of `r2et.audit` or `StableClassifier.audit`.
        name: in front of every metric and parameter, and the folder of report.html and audit.json.

    Returns:
        The metrics: accuracy and AUC (of numbers R2 and mean absolute error), mean thickness, and of each attack
        and radius P@k and the share of inputs that lost a feature, such as `explanations/WorstCase/0.3/precision`.
    """
    check_kind("audit", audit, Audit, "what r2et.audit(model, x, y) returns")
    check_text("name", name)
    metrics = {name: getattr(audit, name) for name in ("accuracy", "auc", "r2", "mae")}
    metrics |= {"thickness": float(audit.thickness.mean())}
    for row in audit.attacks:
        metrics[f"{row.attack}/{row.radius:g}/precision"] = row.precision
        metrics[f"{row.attack}/{row.radius:g}/changed"] = row.changed
    # MLflow's stores do not all take NaN, which is the AUC of one class
    logged = {f"{name}/{key}": value for key, value in metrics.items() if value == value}
    settings: dict[str, Any] = {"k": audit.k, "rows": audit.rows, "features": audit.features}
    settings |= {
        key: value for key, value in audit.settings.to_dict().items() if isinstance(value, int | float | str)
    }
    mlflow.log_metrics(logged)
    mlflow.log_params({f"{name}/{key}": value for key, value in settings.items()})
    mlflow.log_dict(audit.to_dict(), f"{name}/audit.json")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        report.write(audit, page)
        mlflow.log_artifact(str(page), name)
    return logged
