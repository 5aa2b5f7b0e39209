"""Three walks through r2et: no file is read twice, nothing is converted back, no check runs twice on one thing."""

import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from r2et.numerics.checks import check_inputs, check_labels
from r2et.tables import read_table
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture

SCRIPT = Path(__file__).parents[1] / "docs" / "walks.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("walks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["walks"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["walks"]


@pytest.fixture(scope="module")
def traces(script, tmp_path_factory):
    return script.walked(tmp_path_factory.mktemp("walks"))


NAMES = [
    "r2et audit",
    "StableClassifier().fit().explain()",
    "r2et bench run",
    "a worker of the benchmark",
    "r2et bench table",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_file_is_read_twice(traces, name):
    assert traces[name].files_read_twice() == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_converted_back(traces, name):
    assert traces[name].back == []


@pytest.mark.parametrize("name", NAMES)
def test_no_check_runs_twice_on_the_same_thing(traces, name):
    assert not traces[name].checks_run_twice()


def test_the_walks_go_where_they_should(traces):
    audit, classifier, _, worker, table = (traces[name] for name in NAMES)
    assert audit.modules.index("r2et.auditing.planning") < audit.modules.index("r2et.auditing.chunks")
    assert audit.modules.index("r2et.auditing.collecting") < audit.modules.index("r2et.report.page")
    assert not any(module.startswith("r2et.report") for module in classifier.modules)
    assert "r2et.training.trainer" in worker.modules
    assert "r2et_bench.paper_tables" in table.modules
    assert {path.suffix for _, path in audit.reads} == {".csv", ".json", ".safetensors"}
    assert classifier.reads == []


def test_the_picture_is_one(script, traces):
    drawn = script.picture(traces)
    for name in NAMES:
        assert name in drawn
    assert "reads people.csv" in drawn


# --- and the tracer would notice ------------------------------------------------------------------------------


def test_a_file_that_is_read_twice_is_noticed(script, tmp_path):
    (tmp_path / "people.txt").write_text("age")
    with script.tracing() as trace:
        for _ in range(2):
            (tmp_path / "people.txt").read_text()
        (tmp_path / "page.txt").write_text("written, not read")
    assert trace.files_read_twice() == [tmp_path / "people.txt"]


def test_a_check_that_runs_twice_is_noticed(script):
    x = torch.ones(3, 2)
    with script.tracing() as trace:
        check_inputs(x)
        check_inputs(x.clone())
        check_labels(torch.zeros(3, dtype=torch.int64), 3)
    assert not trace.checks_run_twice()
    with script.tracing() as trace:
        check_inputs(x)
        check_inputs(x)
    assert sum(trace.checks_run_twice().values()) == 1
    with script.tracing() as trace:
        check_inputs(x)
        x += 1
        check_inputs(x)
    assert not trace.checks_run_twice(), "other numbers are another thing"


def test_numbers_that_become_a_frame_again_are_noticed(script, tmp_path, monkeypatch):
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}).to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", "y")
    # functions of r2et, for all the tracer knows
    source = """
def out(frame): return torch.from_numpy(frame.to_numpy().copy())
def back(x): return pd.DataFrame(x.numpy())
"""
    scope = {"__name__": "r2et.made_up", "torch": torch, "pd": pd}
    exec(source, scope)
    with script.tracing() as trace:
        scope["out"](table.frame)
    assert trace.back == []
    assert [what for what, _ in trace.conversions] == ["table -> tensor"]
    with script.tracing() as trace:
        scope["back"](scope["out"](table.frame))
    assert trace.back == ["r2et.made_up"]
