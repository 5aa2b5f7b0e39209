"""A run: resumable, the same on both executors, and never silent about a failure."""

import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from r2et.cli import main
from r2et.errors import InputError
from r2et_bench import LocalExecutor, Run, Store, Study, find_plan
from r2et_bench.driver import failures
from r2et_bench.figures import FIGURES
from r2et_bench.formats import FORMATS, render
from r2et_bench.paper_tables import NUMBERS, make_table
from r2et_bench.plans import PLANS
from r2et_bench.records import without_timing
from r2et_bench.results import load_results
from r2et_bench.studied import STUDIES
from tests.r2et_bench.small import TINY, always_die_in_training_sp, die_once

ROOT = Path(__file__).parents[2]


def store(folder):
    return Store(folder / "records", folder / "work")


def contents(place):
    return {path.name: without_timing(json.loads(path.read_text())) for path in place.records.rglob("*.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    place = store(tmp_path_factory.mktemp("undisturbed"))
    said = []
    found = Run(TINY, place, LocalExecutor(2), say=said.append)()
    assert found == {"records": 8, "failed": 0}
    assert len(said) == 8 + 2  # and two candidates of the search
    return place


def test_a_second_run_does_nothing(undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.records.rglob("*.json")}
    said = []
    run = Run(TINY, undisturbed, LocalExecutor(1), say=said.append)
    assert run.outlook() == {"candidates": 0, "cells": 0}
    run()
    assert said == []
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_records_are_enough_to_know_that_nothing_is_missing(undisturbed, tmp_path):
    """A fresh clone has no models, and no results of single candidates."""
    elsewhere = Store(undisturbed.records, tmp_path)
    run = Run(TINY, elsewhere, LocalExecutor(1))
    assert run.outlook() == {"candidates": 0, "cells": 0}
    assert run() == {"records": 8, "failed": 0}
    assert list(tmp_path.iterdir()) == []


def test_the_outlook_counts_what_is_missing_and_writes_nothing(undisturbed, tmp_path):
    before = contents(undisturbed)

    def outlook(plan, place=undisturbed):
        return Run(plan, place, LocalExecutor(1)).outlook()

    assert outlook(TINY, store(tmp_path)) == {"candidates": 2, "cells": 8}
    assert outlook(replace(TINY, seeds=3)) == {"candidates": 0, "cells": 4}
    assert outlook(replace(TINY, studies=(Study("magnitude", methods=("sp",)),))) == {"candidates": 0, "cells": 2}
    # with other candidates, or another judge, nobody knows yet which cells of the method there are to be
    assert outlook(replace(TINY, grid={"sp": {"beta": (1.0, 5.0, 7.0)}})) == {"candidates": 3, "cells": 2}
    assert outlook(replace(TINY, selection={"rows": 41, "steps": 20})) == {"candidates": 2, "cells": 2}
    assert contents(undisturbed) == before
    assert list(tmp_path.iterdir()) == []


def test_a_new_study_is_added_without_training_again(undisturbed, tmp_path):
    import shutil

    copied = Store(shutil.copytree(undisturbed.records, tmp_path / "records"), undisturbed.work)
    models = {path: path.stat().st_mtime_ns for path in (copied.work / "models").rglob("*.json")}
    plan = replace(TINY, studies=(*TINY.studies, Study("magnitude", {"rows": 5, "points": 20})))
    Run(plan, copied, LocalExecutor(2))()
    records = [record for record in copied.all("smoke") if record["kind"] == "cell"]
    assert all(len(record["studies"]["magnitude"]["values"]["rank"]) > 5 for record in records)
    assert models == {path: path.stat().st_mtime_ns for path in models}


def test_workers_that_are_killed_are_tried_again(undisturbed, tmp_path):
    place = store(tmp_path)
    found = Run(TINY, place, LocalExecutor(2, work=die_once))()
    assert found["failed"] == 0
    assert list((place.work / "deaths").iterdir())
    assert contents(place) == contents(undisturbed)


def test_a_cell_that_always_dies_is_recorded_and_shown(tmp_path):
    place = store(tmp_path)
    plan = replace(TINY, grid={}, seeds=1)
    found = Run(plan, place, LocalExecutor(2, work=always_die_in_training_sp))()
    assert found == {"records": 4, "failed": 1}
    table = render(make_table("honest", load_results(place, ["smoke"])), "markdown")
    assert "| SP | failed |" in table
    assert "the worker died 3 times, at last with exit code -9" in table
    # and it can be tried again once the reason is gone
    again = Run(plan, place, LocalExecutor(2), retry_failed=True)()
    assert again == {"records": 4, "failed": 0}


def test_an_error_of_a_study_is_recorded_and_the_others_go_on(tmp_path):
    place = store(tmp_path)
    studies = (Study("sizes", {"rows": 5, "sizes": [99], "steps": 2}), Study("prediction"))
    plan = replace(TINY, methods=("vanilla",), seeds=1, studies=studies)
    assert Run(plan, place, LocalExecutor(1))() == {"records": 1, "failed": 1}
    record = next(record for record in place.all("smoke") if record["kind"] == "cell")
    assert "InputError: k must be at least 1 and less than the 30 features" in failures(record)["sizes"]
    assert record["studies"]["prediction"]["values"]["auc"] > 0.5
    assert "Traceback" in next((place.work / "errors").iterdir()).read_text()


def test_without_a_vanilla_model_there_is_nothing_to_compare_with(tmp_path):
    plan = replace(TINY, schedule={"epochs": 2, "lr": -1.0})
    with pytest.raises(InputError, match=r"the vanilla model of 'breast-cancer', seed 0, could not be trained"):
        Run(plan, store(tmp_path), LocalExecutor(1))()


def _driver(folder, executor="local"):
    """The command, with a plan in place of "smoke" that takes less long."""
    code = "from tests.r2et_bench.small import run_tiny; import sys; run_tiny(sys.argv[1:])"
    places = ["--records", str(folder / "records"), "--work", str(folder / "work")]
    command = [sys.executable, "-c", code, "bench", "run", "--preset", "smoke", "--executor", executor, *places]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _honest(folder):
    table = render(make_table("honest", load_results(folder, ["smoke"])), "csv")
    return [line for line in table.splitlines() if ",cost," not in line]


def test_a_run_survives_kill_9(undisturbed, tmp_path):
    psutil = pytest.importorskip("psutil")
    with _driver(tmp_path) as driver:
        driver.stdout.readline()  # the first cell is done
        workers = [
            process
            for process in psutil.Process(driver.pid).children(recursive=True)
            if process.num_threads() > 1 and process.is_running()
        ]
        for process in workers[:1]:
            process.send_signal(signal.SIGKILL)
        driver.stdout.readline()
        os.kill(driver.pid, signal.SIGKILL)
    time.sleep(2)  # workers notice that nobody waits for them
    place = store(tmp_path)
    unfinished = len(list((place.records / "smoke").glob("breast*.json")))
    with _driver(tmp_path) as driver:
        driver.communicate()
    assert driver.returncode == 0
    assert unfinished < len(list((place.records / "smoke").glob("breast*.json")))
    assert contents(place) == contents(undisturbed)


def _listening(driver):
    """Addresses on which a process and what it started take connections."""
    psutil = pytest.importorskip("psutil")
    root = psutil.Process(driver.pid)
    addresses = set()
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            sockets = process.net_connections("inet")
            open_to = [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]
            addresses |= {(process.name(), address) for address in open_to}
    return addresses


@pytest.fixture(scope="module")
def with_ray(tmp_path_factory):
    """The records of a run on a Ray of its own, and on which addresses that listened."""
    pytest.importorskip("ray")
    folder = tmp_path_factory.mktemp("ray")
    with _driver(folder, "ray") as driver:
        driver.stdout.readline()  # everything is up
        listening = _listening(driver)
        driver.communicate()
    assert driver.returncode == 0
    return store(folder), listening


def test_ray_leaves_what_local_processes_leave(undisturbed, with_ray):
    place, _ = with_ray
    assert contents(place) == contents(undisturbed)
    assert _honest(place) == _honest(undisturbed)


def test_no_other_machine_can_reach_a_ray_that_is_started_here(with_ray):
    _, listening = with_ray
    # its store, its node and its workers: Ray cannot work without them
    assert {name for name, _ in listening} >= {"gcs_server", "raylet"}
    # an IPv4 address may be written as an IPv6 one
    addresses = [ipaddress.ip_address(address.removeprefix("::ffff:")) for _, address in listening]
    assert all(address.is_loopback for address in addresses), listening


def test_a_plan_of_every_study_fills_every_table_and_figure(tmp_path, monkeypatch):
    """Those of the smoke preset, with as little of each as there can be."""
    less = {"rows": 8, "steps": 2, "points": 20, "lengths": [0.05], "sizes": [2]}
    studies = tuple(
        replace(
            study,
            settings={name: less.get(name, value) for name, value in study.settings.items()},
            methods=("vanilla", "r2et") if study.name in ("worst", "certified") else study.methods,
            seeds=1,
        )
        for study in PLANS["smoke"].studies
    )
    quick = {"epochs": 1, "batch_size": 128}
    plan = replace(
        PLANS["smoke"], methods=("vanilla", "r2et"), studies=studies, schedule=quick, retraining=quick, grid={}
    )
    monkeypatch.setitem(PLANS, "smoke", plan)
    _run_smoke(tmp_path)
    _draw_and_print_everything(tmp_path, tmp_path / "shown")


@pytest.mark.slow
def test_the_smoke_preset_fills_every_table_and_figure(tmp_path):
    _run_smoke(tmp_path)
    _draw_and_print_everything(tmp_path, tmp_path / "shown")


def _run_smoke(tmp_path):
    places = ["--records", str(tmp_path / "records"), "--work", str(tmp_path / "work")]
    with pytest.raises(SystemExit) as ended:
        main(["bench", "run", "--preset", "smoke", *places])
    assert not ended.value.code


def _draw_and_print_everything(folder, output):
    """The records of a run are enough for every table in every format, and for every figure but saliency maps."""
    places = ["--records", str(folder / "records"), "--work", str(folder / "work")]
    for name in FIGURES:
        path = output / f"{name}.svg"
        command = ["bench", "figure", name, "-o", str(path), *places]
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert (ended.value.code or 0) == (2 if name == "saliency" else 0)
        assert path.exists() == (name != "saliency")
    for number in NUMBERS:
        for form in FORMATS:
            path = output / f"{number}.{form}"
            with pytest.raises(SystemExit) as ended:
                main(["bench", "table", number, "--format", form, "-o", str(path), *places[:2]])
            assert not ended.value.code
            assert "R2ET" in path.read_text()


def test_every_plan_names_studies_and_methods_that_exist():
    from r2et.recipes import METHODS

    for plan in PLANS.values():
        assert set(plan.methods) | set(plan.retrained) | set(plan.pairs) <= METHODS.keys()
        assert {study.name for study in plan.studies} <= set(STUDIES.names())
        assert "vanilla" in plan.methods
        for method, grid in plan.grid.items():
            assert grid.keys() <= METHODS[method].defaults.keys()
    with pytest.raises(InputError, match="unknown preset 'tabular'"):
        find_plan("tabular")
