"""Records of version 1 get new names, and nothing else."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from r2et.errors import InputError
from r2et_bench.cells import cell_from
from r2et_bench.migration import migrate, read_preset
from r2et_bench.records import Store

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "records"
TEXT = (
    "Preset(name='cpu', architecture={'name': 'resnet', 'widths': [16, 32]}, "
    "explainer=Activation(reduce='signed', inputs=1, score='log-odds', layer='avgpool'), k=50, "
    "boundary_pairs=None, training=Schedule(epochs=25, lr=0.002, annealed=True), attack_step=0.05, direction=None)"
)
STUDIES = {"prediction": {"settings": {}, "values": {"auc": 0.8413111111111111, "inputs": 600}}}


def old_cell(gap, **changes):
    return {
        "data": "breast-cancer", "method": "r2et-sf", "settings": {"gap": gap}, "seed": 0, "preset": "cpu",
        "schedule": {"epochs": 6}, "made_with": TEXT, "retrained": False, "boundary_pairs": None, "limit": None,
        **changes,
    }  # fmt: skip


def old_digest(cell):
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:12]


def write(path, **content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": "r2et-benchmark", "version": 1, **content}, indent=1) + "\n")


@pytest.fixture
def old(tmp_path):
    """One cell, its search and the index, as version 1 wrote them."""
    folder, cell = tmp_path / "records" / "smoke", old_cell(0.1)
    name = f"breast-cancer-r2et-sf-0-{old_digest(cell)}"
    rest = {"training": {"epochs": 6}, "studies": STUDIES, "timing": {"studies": {"prediction": 0.9}}}
    write(folder / f"{name}.json", kind="cell", cell=cell, **rest)
    tried = [{"settings": {"gap": gap}, "epochs": 6, "passed": True, "precision": gap} for gap in (0.1, 0.03)]
    entry = {"name": name, "data": "breast-cancer", "method": "r2et-sf", "role": "main"}
    write(folder / "index.json", kind="index", plan="smoke", cells=[entry])
    write(
        folder / "search-breast-cancer-r2et-sf.json",
        kind="search", data="breast-cancer", method="r2et-sf", chosen={"gap": 0.1}, rungs=[6], tried=tried,
    )  # fmt: skip
    return tmp_path


def read(folder):
    return {path.stem: json.loads(path.read_text()) for path in (folder / "records" / "smoke").glob("*.json")}


def test_only_names_and_keys_change(old):
    before = read(old)
    ((was, name),) = migrate(old / "records").items()
    after = read(old)
    assert was in before
    assert was not in after
    moved = {**after[name], "version": 1, "cell": before[was]["cell"]}
    assert moved == before[was]
    assert list(moved) == list(before[was])
    index = after["index"]
    assert {**index, "version": 1, "cells": before["index"]["cells"]} == before["index"]
    assert index["cells"] == [{**before["index"]["cells"][0], "name": name}]
    search = after["search-breast-cancer-r2et-sf"]
    assert {k: v for k, v in {**search, "version": 1}.items() if k != "key"} == before[
        "search-breast-cancer-r2et-sf"
    ]


def test_the_new_name_is_the_key_of_what_the_text_said(old):
    (name,) = migrate(old / "records").values()
    cell = cell_from(read(old)[name]["cell"])
    assert cell.name == name
    assert cell.recipe["explainer"] == {
        "name": "activation", "reduce": "signed", "inputs": 1, "score": "log-odds", "layer": "avgpool",
    }  # fmt: skip
    assert cell.recipe["training"] == {"epochs": 25, "lr": 0.002, "annealed": True}
    assert "name" not in cell.recipe


def test_a_migrated_store_is_read_and_an_old_one_is_not(old):
    store = Store(old / "records", old / "work")
    with pytest.raises(InputError, match=r"version 1.*python -m r2et_bench.migration"):
        list(store.all("smoke"))
    migrate(old / "records")
    assert sorted(record["kind"] for record in store.all("smoke")) == ["cell", "index", "search"]


def test_a_second_migration_changes_nothing(old):
    migrate(old / "records")
    before = read(old)
    assert migrate(old / "records") == {}
    assert read(old) == before


def test_models_and_arrays_go_along(old):
    was = old_digest(old_cell(0.1))
    for path in (f"models/{was}/checkpoint.json", f"arrays/{was}-worst.npz", "models/of-another/checkpoint.json"):
        (old / "work" / path).parent.mkdir(parents=True, exist_ok=True)
        (old / "work" / path).touch()
    (name,) = migrate(old / "records", old / "work").values()
    key = name[-12:]
    assert {str(path.relative_to(old / "work")) for path in (old / "work").rglob("*.*")} == {
        f"models/{key}/checkpoint.json", f"arrays/{key}-worst.npz", "models/of-another/checkpoint.json",
    }  # fmt: skip


def test_a_record_that_somebody_changed_is_refused(old):
    path = next((old / "records" / "smoke").glob("breast*"))
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    before = read(old)
    with pytest.raises(InputError, match="does not hold the cell that its name says"):
        migrate(old / "records")
    assert read(old) == before


@pytest.mark.parametrize("text", ["8", "Preset(", "Preset(k=__import__('os'))", "Preset(explainer=Foreign(k=1))"])
def test_what_is_no_text_of_a_preset_is_refused_and_never_run(text):
    with pytest.raises(InputError, match="is not the text of a preset"):
        read_preset(text)


def test_the_command(old):
    command = [sys.executable, "-m", "r2et_bench.migration", str(old / "records")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "1 cells have new names\n"


def test_the_committed_records_have_their_names():
    store, count = Store(COMMITTED, COMMITTED), 0
    for plan in store.plans():
        listed = {entry["name"] for entry in store.read(plan, "index")["cells"]}
        cells = {cell_from(record["cell"]) for record in store.all(plan) if record["kind"] == "cell"}
        assert all(store.path(plan, cell.name).exists() for cell in cells)
        assert listed <= {cell.name for cell in cells}
        count += len(list((COMMITTED / plan).glob("*.json")))
    assert count == 319
