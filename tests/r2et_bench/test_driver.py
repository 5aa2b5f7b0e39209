"""What a run would do is known from the records, the plan and what data sets state about themselves."""

from pathlib import Path

import pytest

from r2et import data
from r2et.recipes import PRESETS, find_preset
from r2et_bench import PLANS, LocalExecutor, Run, Store
from r2et_bench.worker import preset_of

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"


@pytest.fixture
def nothing_is_read(monkeypatch):
    preset_of.cache_clear()
    monkeypatch.setattr(data, "load", lambda name: pytest.fail(f"{name} was read"))


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize("plan", sorted(path.name for path in RECORDS.iterdir()))
def test_the_committed_records_leave_nothing_to_do(plan, tmp_path):
    run = Run(PLANS[plan], Store(RECORDS, tmp_path / "work"), LocalExecutor(1))
    assert run.outlook() == {"candidates": 0, "cells": 0}


@pytest.mark.usefixtures("nothing_is_read")
def test_without_records_there_is_everything_to_do(tmp_path):
    run = Run(PLANS["oct"], Store(tmp_path, tmp_path), LocalExecutor(1))
    assert run.outlook() == {"candidates": 0, "cells": 9}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", data.names())
def test_every_built_in_data_set_states_its_kind(name):
    assert data.describe(name).kind in PRESETS


@pytest.mark.parametrize("name", ["breast-cancer", "digits"])
def test_what_a_data_set_states_is_what_it_is(name):
    assert find_preset(data.describe(name)) == find_preset(data.load(name))
