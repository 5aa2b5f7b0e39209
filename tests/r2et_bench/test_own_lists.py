"""Individuality in records and in the honest table."""

from dataclasses import replace

import pytest
import torch

from r2et import data, models
from r2et.recipes import find_preset
from r2et_bench.cells import Cell
from r2et_bench.own_lists import attack_note, chance_note, kappa_entry, list_figures
from r2et_bench.results import Row
from r2et_bench.studied import STUDIES, StudiedModel


@pytest.fixture(scope="module")
def studied():
    torch.manual_seed(0)
    loaded = data.load("breast-cancer")
    network = models.MLP(30, 2, hidden=[8])
    return StudiedModel(network, loaded, find_preset(loaded), Cell("breast-cancer", "vanilla"))


def record(seed, worst=None, certified=None, **values):
    studies = {"worst": {"values": {"precision": 0.5, "recipe": "WorstCase-1", **values}}}
    if worst is not None:
        studies["worst"]["values"]["individuality"] = {"chance": 0.25, "kappa": worst}
    if certified is not None:
        studies["certified"] = {"values": {"individuality": {"kappa": certified}}}
    return {"cell": {"seed": seed}, "training": {}, "studies": studies, "timing": {}}


def row(*records):
    return Row("adult", "vanilla", records, len(records))


def kappa(value):
    return {"value": value, "low": value - 0.1, "high": value + 0.1}


def test_studies_record_kappa_and_threat(studied):
    worst = STUDIES.find("worst").thing(studied, rows=12, budget="fast").values
    certified = STUDIES.find("certified").thing(studied, rows=12).values
    assert worst["threat"] == "paper"
    for values in (worst, certified):
        lists = values["individuality"]
        expected = (values["precision"] - lists["overlap"]) / (1 - lists["overlap"])
        assert lists["kappa"]["value"] == pytest.approx(expected, abs=1e-6)
        assert lists["lists"] == 12
    assert certified["individuality"]["kappa"]["value"] <= worst["individuality"]["kappa"]["value"]


def test_a_linear_model_has_one_list(studied):
    linear = replace(studied, model=models.Linear(30, 2))
    figures = list_figures(linear, torch.ones(12))
    assert figures["one_list_for_everybody"]
    assert figures["kappa"] is None
    assert figures["distinct"] == 1


def test_kappa_is_shown_from_proven_to_attacked():
    entries = [
        (row(record(0)), "-"),
        (row(record(0, kappa(0.5)), record(1, kappa(0.3))), "0.40"),
        (row(record(0, kappa(0.5), kappa(-0.25))), "-0.25 to 0.50"),
        # the certificate of one seed failed
        (row(record(0, kappa(0.5), kappa(0.2)), record(1, kappa(0.3))), "0.40"),
    ]
    assert [kappa_entry(each).own() for each, _ in entries] == [text for _, text in entries]


def test_one_list_is_not_a_number():
    same = record(1, kappa(0.5))
    same["studies"]["worst"]["values"]["individuality"]["kappa"] = None
    assert kappa_entry(row(same)).own() == "one list"
    assert kappa_entry(row(record(0, kappa(0.5)), same)).own() == "0.50 (1 of 2: one list)"


def test_notes_name_recipe_threat_and_chance():
    old, new = row(record(0)), row(record(0, kappa(0.5), threat="domain"))
    assert "WorstCase-1 under the threat paper (every number" in attack_note([old])
    assert "domain (numbers move" in attack_note([old, new])
    assert "paper (" in attack_note([old, new])
    assert "nothing yet" in attack_note([])
    assert chance_note([old]) is None
    assert chance_note([old, new]) == "Lists drawn by chance have P@k 25.0."
