"""A cell's key says what its model was made with, and nothing about how r2et calls its classes."""

import json
from dataclasses import replace

import pytest

from r2et.explainers import Gradient, SmoothGrad
from r2et.recipes import PRESETS
from r2et_bench.cells import Cell, cell_from, describe_preset, key_of, search_key

PRESET = PRESETS["tabular"]["cpu"]
CELL = Cell("adult", "r2et", {"gap": 0.1}, schedule={"epochs": 40}, recipe=describe_preset(PRESET))


def test_the_key_is_the_hash_of_canonical_json_with_a_version():
    import hashlib

    text = (
        '{"boundary_pairs":null,"data":"adult","limit":null,"method":"sp","preset":"cpu","recipe":{},'
        '"retrained":false,"schedule":{},"seed":3.0,"settings":{"beta":1.0},"version":2.0}'
    )
    assert Cell("adult", "sp", {"beta": 1}, seed=3).key == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_a_key_never_changes():
    # committed records are named so: whoever changes this counts up KEY_VERSION and migrates them
    assert CELL.key == "731ca966c5cb"


def test_a_class_may_be_renamed():
    before = Gradient.__qualname__
    Gradient.__qualname__ = "Slope"  # pytest could not set it back
    try:
        assert "Slope(" in repr(PRESET)
        assert replace(CELL, recipe=describe_preset(PRESET)).key == CELL.key
    finally:
        Gradient.__qualname__ = before


@pytest.mark.parametrize(
    "changed",
    [
        replace(PRESET, k=7),
        replace(PRESET, explainer=SmoothGrad(sigma=0.1)),
        replace(PRESET, explainer=Gradient(score="probability")),
        replace(PRESET, architecture={"name": "mlp", "hidden": [33]}),
        replace(PRESET, training=replace(PRESET.training, lr=0.02)),
        replace(PRESET, retraining=replace(PRESET.retraining, annealed=True)),
        replace(PRESET, direction="random"),
        replace(PRESET, auc_margin=0.02),
    ],
)
def test_another_preset_is_another_cell(changed):
    assert replace(CELL, recipe=describe_preset(changed)).key != CELL.key


def test_everything_that_trains_is_in_the_description_of_a_preset():
    from dataclasses import fields

    left_out = {"name", "kind"}
    assert describe_preset(PRESET).keys() == {field.name for field in fields(PRESET)} - left_out
    schedule = describe_preset(PRESET)["training"]
    assert schedule.keys() == {field.name for field in fields(PRESET.training)}


@pytest.mark.parametrize(
    "changed",
    [
        replace(CELL, data="bank"),
        replace(CELL, method="r2et-mm"),
        replace(CELL, settings={"gap": 0.2}),
        replace(CELL, seed=1),
        replace(CELL, preset="paper"),
        replace(CELL, schedule={}),
        replace(CELL, retrained=True),
        replace(CELL, boundary_pairs=3),
        replace(CELL, limit=100),
    ],
)
def test_every_field_counts(changed):
    assert changed.key != CELL.key
    assert cell_from(json.loads(json.dumps(changed.to_dict()))).key == changed.key


def test_true_is_not_one():
    assert key_of({"a": True}) != key_of({"a": 1})


def test_a_search_is_its_candidates_its_rungs_and_its_judge():
    others = [CELL, replace(CELL, settings={"gap": 1.0})]
    key = search_key(others, [5, 10], {"rows": 40})
    assert key == search_key(others[::-1], [5, 10], {"rows": 40})
    changed = [(others[:1], [5, 10], {"rows": 40}), (others, [10], {"rows": 40}), (others, [5, 10], {"rows": 41})]
    assert key not in {search_key(*arguments) for arguments in changed}
