"""Whatever a test does to what tests share, the next one does not see it."""

import logging
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import r2et
from r2et import data
from r2et.enclosure import activations
from tests.isolation import environment, imports, isolated


def draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_random_numbers_go_on_where_they_were():
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    expected = draw()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with isolated():
        draw()
    assert draw() == expected


def test_environment_and_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("R2ET_KEPT", "before")
    monkeypatch.setenv("R2ET_LOST", "before")
    folder = Path.cwd()
    with isolated():
        os.environ["R2ET_KEPT"] = os.environ["R2ET_NEW"] = "inside"
        del os.environ["R2ET_LOST"]
        os.chdir(tmp_path)
    assert (os.environ["R2ET_KEPT"], os.environ["R2ET_LOST"]) == ("before", "before")
    assert "R2ET_NEW" not in os.environ
    assert Path.cwd() == folder


def test_settings_of_torch_and_numpy():
    def settings():
        return (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_deterministic_debug_mode(),
            torch.get_float32_matmul_precision(),
            torch.empty(0).device.type,
            np.geterr(),
        )

    before = settings()
    with isolated():
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("medium")
        torch.set_default_device("meta")
        np.seterr(all="raise")
        assert all(inside != outside for inside, outside in zip(settings(), before, strict=True))
    assert settings() == before


def test_registries():
    class Cube(nn.Module):
        pass

    names, models = data.names(), r2et.models.MODELS.names()
    with isolated():
        data.DATA_SETS.register("own")(data.DATA_SETS.find("digits").thing)
        del data.DATA_SETS.entries["adult"]
        r2et.models.MODELS.register("own")(Cube)
        assert "own" in r2et.models.MODELS.names()
        activations.register(Cube, lambda layer: activations.LeakyReLU())
        assert activations.known(Cube())
    assert data.names() == names
    assert r2et.models.MODELS.names() == models
    assert not activations.known(Cube())


def test_what_a_module_of_the_library_registers_when_it_is_imported_stays():
    class Late(nn.Module):
        __module__ = "r2et.imported_in_a_test"

    with isolated():
        with isolated():
            r2et.models.MODELS.register("late")(Late)
        assert "late" in r2et.models.MODELS.entries, "it would not be registered again"
        del r2et.models.MODELS.entries["late"]
    r2et.models.MODELS.entries.pop("late", None)


def test_modules_of_a_temporary_folder(tmp_path):
    (tmp_path / "own_module_of_a_test.py").write_text("")
    path = list(sys.path)
    put_back = imports()
    sys.path.insert(0, str(tmp_path))
    import own_module_of_a_test  # noqa: F401

    put_back()
    assert "own_module_of_a_test" not in sys.modules
    assert sys.path == path


def test_logging():
    log = logging.getLogger("r2et.test")
    log.setLevel(logging.INFO)
    with isolated():
        log.setLevel(logging.CRITICAL)
        log.disabled, log.propagate = True, False
        logging.disable(logging.ERROR)
    assert (log.level, log.disabled, log.propagate) == (logging.INFO, False, True)
    assert logging.root.manager.disable == 0


def test_drawing():
    import matplotlib.pyplot as plt

    before = plt.rcParams["font.size"]
    with isolated():
        plt.rcParams["font.size"] = before + 3
        plt.figure()
    assert plt.rcParams["font.size"] == before
    assert plt.get_fignums() == []


def test_mlflow_forgets_run_experiment_and_place(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    before = mlflow.get_tracking_uri()
    with isolated():
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        mlflow.set_tracking_uri((tmp_path / "first").as_uri())
        mlflow.set_experiment("first")
        mlflow.start_run()
    assert mlflow.active_run() is None
    assert mlflow.get_tracking_uri() == before
    assert not [name for name in os.environ if name.startswith("MLFLOW_")]
    with isolated():
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        mlflow.set_tracking_uri((tmp_path / "second").as_uri())
        with mlflow.start_run() as run:  # of the default experiment: the first one does not exist here
            assert run.info.experiment_id == "0"


def test_something_that_is_not_put_back_would_be_seen(monkeypatch):
    """The tests above can fail."""
    put_back = environment()
    monkeypatch.setattr("tests.isolation.SHARED", ())
    with isolated():
        os.environ["R2ET_NEW"] = "inside"
    assert os.environ["R2ET_NEW"] == "inside"
    put_back()
    assert "R2ET_NEW" not in os.environ


#: drawn by two tests and by a fixture that they share, in a run of its own
SCRIPT = """
import random
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

@pytest.fixture(scope="module")
def shared():
    return random.random(), float(np.random.rand()), float(torch.rand(()))

@pytest.mark.parametrize("number", range(3))
def test_draws(number, shared):
    print("SAW", number, shared, random.random(), float(np.random.rand()), float(torch.rand(())))

@settings(max_examples=3, database=None, deadline=None)
@given(st.integers(0, 10**9))
def test_examples(number):
    print("SAW example", number)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Lines that tests of another run print, under the conftest.py of this one."""
    # the other run has a seed of its own
    monkeypatch.setattr("hypothesis.core.global_force_seed", None)
    pytester.makepyfile(SCRIPT)

    def lines(*arguments):
        done = pytester.runpytest_inprocess("-q", "-s", "-p", "conftest", "-p", "no:cacheprovider", *arguments)
        assert done.ret == 0
        return done.outlines

    return lines


def saw(lines):
    return sorted(line[line.index("SAW") :] for line in lines if "SAW" in line)


def test_random_numbers_follow_from_seed_and_name_alone(run):
    whole = run("--randomly-seed=5")
    some = run("--randomly-seed=5", "-k", "draws[1] or examples", "--randomly-dont-reorganize")
    assert len(saw(some)) == 4
    assert set(saw(some)) < set(saw(whole))
    assert len(set(saw(whole))) == len(saw(whole)) == 6, "and differ from test to test"
    assert not set(saw(run("--randomly-seed=6"))) & (set(saw(whole)) - {"SAW example 0"})


def test_the_seed_is_shown_before_the_tests_and_after_them(run):
    lines = run("--randomly-seed=7")
    places = [number for number, line in enumerate(lines) if 'make test ARGS="--randomly-seed=7"' in line]
    tests = [number for number, line in enumerate(lines) if "SAW" in line]
    assert len(places) == 2
    assert places[0] < min(tests)
    assert max(tests) < places[1]
