"""An audit in MLflow, in a folder of its own."""

import json

import mlflow
import pytest
import torch

import r2et
from r2et.integrations.mlflow import log_audit


@pytest.fixture
def audit():
    torch.manual_seed(0)
    x = torch.randn(12, 5)
    return r2et.audit(r2et.models.MLP(5, 2), x, (x[:, 0] > 0).long(), k=2, radii=(0.5,), budget="fast", steps=2)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment("explanations")
    with mlflow.start_run() as active:
        yield active


def test_metrics_parameters_and_the_report(audit, run, tmp_path):
    found = log_audit(audit)
    logged = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert logged.metrics == pytest.approx(found)
    (worst,) = [row for row in audit.attacks if row.attack == "WorstCase"]
    assert found["explanations/WorstCase/0.5/precision"] == worst.precision
    assert found["explanations/WorstCase/0.5/changed"] == worst.changed
    assert found["explanations/accuracy"] == audit.accuracy
    assert found["explanations/thickness"] == pytest.approx(float(audit.thickness.mean()))
    assert logged.params["explanations/k"] == "2"
    assert logged.params["explanations/budget"] == "fast"
    assert logged.params["explanations/radii_reason"] == audit.settings.radii_reason
    mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(tmp_path / "back"))
    (page,) = (tmp_path / "back").rglob("report.html")
    r2et.report.write(audit, tmp_path / "same.html")
    assert page.read_text() == (tmp_path / "same.html").read_text()
    (content,) = (tmp_path / "back").rglob("audit.json")
    assert json.loads(content.read_text()) == json.loads(json.dumps(audit.to_dict()))


def test_two_audits_in_one_run(audit, run):
    first, second = log_audit(audit, "before"), log_audit(audit, "after")
    logged = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert set(logged.metrics) == {*first, *second}


def test_an_auc_of_one_class_is_left_out(run):
    torch.manual_seed(0)
    x = torch.randn(6, 5)
    audit = r2et.audit(
        r2et.models.Linear(5, 2), x, torch.zeros(6, dtype=torch.int64), k=2, radii=(0.5,), budget="fast", steps=1
    )
    assert "explanations/auc" not in log_audit(audit)


def test_only_an_audit_is_logged():
    with pytest.raises(r2et.errors.InputError, match="audit=None"):
        log_audit(None)
