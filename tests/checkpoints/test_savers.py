"""Several processes and threads that save into one folder, and others that load from it."""

import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from r2et import models
from r2et.checkpoints import load_model, save_model
from r2et.errors import CheckpointError

SAVER = """
    import sys, time
    from pathlib import Path

    from r2et import models
    from r2et.checkpoints import save_model

    number = int(sys.argv[1])
    network = models.Linear(4, 2)
    network.weight.data.fill_(float(number))
    Path(f"ready{number}").touch()
    while not Path("go").exists():
        time.sleep(0.005)
    errors = []
    for turn in range(40):
        try:
            save_model(network, "run", number=number, turn=turn)
        except Exception as error:
            errors.append(repr(error))
    print(len(errors), errors[:1])
"""


def network(number: int) -> torch.nn.Module:
    made = models.Linear(4, 2)
    made.weight.data.fill_(float(number))
    return made


def test_processes_that_save_and_load_the_same_folder(tmp_path):
    save_model(network(0), tmp_path / "run", number=0)
    command = [sys.executable, "-c", textwrap.dedent(SAVER)]
    savers = [
        subprocess.Popen([*command, str(number)], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for number in (1, 2)
    ]
    while not all((tmp_path / f"ready{number}").exists() for number in (1, 2)):
        assert all(process.poll() is None for process in savers)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    while any(process.poll() is None for process in savers):
        found, information = load_model(tmp_path / "run")
        assert found.weight[0, 0].item() == information["number"], "the parts of two checkpoints"
    assert [process.communicate()[0].strip() for process in savers] == ["0 []"] * 2
    found, information = load_model(tmp_path / "run")
    assert found.weight[0, 0].item() == information["number"] in (1, 2)
    assert len(list((tmp_path / "run").iterdir())) == 2, "the JSON file and its tensors, no lock and no leftovers"


def test_threads_that_save_and_load_the_same_folder(tmp_path):
    save_model(network(0), tmp_path, number=0)

    def save(number: int) -> None:
        for _ in range(15):
            save_model(network(number), tmp_path, number=number)

    def load(_: int) -> None:
        for _ in range(60):
            found, information = load_model(tmp_path)
            assert found.weight[0, 0].item() == information["number"]

    with ThreadPoolExecutor(6) as pool:
        tasks = [*(pool.submit(save, number) for number in range(1, 5)), *(pool.submit(load, n) for n in range(2))]
    assert [task.exception() for task in tasks] == [None] * 6
    assert load_model(tmp_path)[1]["number"] in (1, 2, 3, 4)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_reader_between_the_files_of_a_saver_gets_the_new_checkpoint(tmp_path, monkeypatch):
    from r2et.checkpoints import models as checkpoints

    save_model(network(1), tmp_path, number=1)
    decode, saved = checkpoints.untagged, []

    def decode_slowly(value):
        # the JSON file is read by now, its tensor file is not
        if not saved:
            saved.append(2)
            save_model(network(2), tmp_path, number=2)
        return decode(value)

    monkeypatch.setattr(checkpoints, "untagged", decode_slowly)
    found, information = load_model(tmp_path)
    assert found.weight[0, 0].item() == information["number"] == 2


def test_a_checkpoint_that_lacks_its_tensors_for_good_is_still_an_error(tmp_path):
    save_model(network(1), tmp_path)
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_model(tmp_path)


def test_a_saver_waits_for_a_live_one_and_not_for_a_killed_one(tmp_path):
    hold = "import fcntl, os, sys, time; fd = os.open(sys.argv[1], 0); fcntl.flock(fd, 2); print(1, flush=True); "
    holder = subprocess.Popen(
        [sys.executable, "-c", hold + "time.sleep(100)", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "1\n"
        saver = threading.Thread(target=save_model, args=(network(1), tmp_path))
        saver.start()
        saver.join(0.3)
        assert saver.is_alive(), "it waits"
        assert list(tmp_path.iterdir()) == []
    finally:
        holder.kill()
        holder.communicate()
    saver.join(30)
    assert not saver.is_alive()
    assert load_model(tmp_path)[0].weight[0, 0].item() == 1


def test_where_a_folder_cannot_be_locked_a_file_in_it_is(tmp_path, monkeypatch):
    from r2et.files import writing

    monkeypatch.setattr(writing, "_lock", lambda folder: None)
    for number in (1, 2):
        save_model(network(number), tmp_path)
    assert load_model(tmp_path)[0].weight[0, 0].item() == 2
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith("checkpoint")}
    assert names <= {".lock"}
