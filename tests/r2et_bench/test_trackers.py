"""Experiment trackers hear of every cell."""

import sys

import pytest

from r2et.errors import InputError
from r2et_bench.trackers import MLflowTracker, numbers
from tests.r2et_bench.test_paper_tables import record


def test_mlflow_hears_of_every_cell(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    content = record("adult", "r2et", 0, 0.9, 0.8, 0.7)
    before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
        MLflowTracker().record("smoke", content)
        runs = mlflow.search_runs(experiment_names=["r2et bench smoke"], output_format="list")
    finally:
        mlflow.set_tracking_uri(before)
    assert len(runs) == 1
    assert runs[0].data.metrics["worst.precision"] == 0.7
    assert runs[0].data.params["method"] == "r2et"
    assert numbers(content)["attacks.ERAttack"] == 0.8


def test_only_single_numbers_are_metrics_and_no_name_has_an_at():
    content = record("adult", "r2et", 0, 0.9, 0.8, 0.7)
    content["studies"]["sizes"] = {"settings": {}, "values": {"P@2": 0.5, "curve": [0.1, 0.2], "note": "text"}}
    content["studies"]["broken"] = {"settings": {}, "error": "MemoryError"}
    names = numbers(content)
    assert names["sizes.P at 2"] == 0.5
    assert not {name for name in names if "curve" in name or "note" in name or "broken" in name or "@" in name}


def test_without_mlflow_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match="pip install mlflow-skinny"):
        MLflowTracker()
