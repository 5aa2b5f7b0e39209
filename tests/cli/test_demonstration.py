import json

import pytest

import r2et
from r2et.cli import demonstration
from r2et.cli.demonstration import reading, run_demo
from r2et.errors import InputError


def rows(linear=(0.97, 0.0), vanilla=(0.99, 3.0), stable=(0.985, 0.5), sp=(0.98, 1.0)):
    names = ("linear", "vanilla", "sp", "r2et-sf")
    return [
        {"method": name, "auc": auc, "displaced": displaced}
        for name, (auc, displaced) in zip(names, (linear, vanilla, sp, stable), strict=True)
    ]


def text(*arguments, k: int = 8, radius: float = 1.0, **given) -> str:
    return " ".join(reading(rows(*arguments, **given), k, radius).split())


def test_the_first_sentence_has_the_figures_of_both_networks():
    found = text(vanilla=(0.9912, 3.14), stable=(0.9834, 0.27), k=5, radius=0.25)
    assert "Within radius 0.25" in found
    assert "displaces 3.14 of the 5 top features of the vanilla network" in found
    assert "0.27 of the one trained with scale-free R2ET" in found
    assert "test AUC of 0.9912 and 0.9834" in found


@pytest.mark.parametrize("auc", [0.9851, 0.9899, 0.99])
def test_a_linear_model_that_is_as_accurate_is_the_answer(auc):
    found = text(linear=(auc, 0.0))
    assert "cannot be moved at all" in found
    assert f"its AUC of {auc:.4f} is within 0.005 of the best network's 0.9900" in found
    assert "here the linear model is the answer" in found


@pytest.mark.parametrize(("auc", "below"), [(0.984, "0.0060"), (0.9, "0.0900")])
def test_a_linear_model_that_is_less_accurate_is_not(auc, below):
    found = text(linear=(auc, 0.0))
    assert "cannot be moved at all" in found
    assert f"but its AUC of {auc:.4f} is {below} below the best network" in found
    assert "the answer" not in found


def test_the_best_network_is_the_most_accurate_of_all_three():
    assert "0.0200 below the best network" in text(linear=(0.97, 0.0), vanilla=(0.98, 1.0), stable=(0.99, 1.0))
    assert "0.0250 below the best network" in text(linear=(0.97, 0.0), sp=(0.995, 1.0))


def test_a_linear_model_above_every_network_is_not_called_within_a_margin_it_exceeds():
    found = text(linear=(0.999, 0.0), vanilla=(0.97, 3.0), stable=(0.96, 0.5), sp=(0.965, 1.0))
    assert "below the best network" not in found
    assert "within 0.005" not in found, "it is 0.029 above"
    assert "0.9990" in found


def test_a_linear_model_that_was_moved_is_not_called_immovable():
    found = text(linear=(0.97, 1.25))
    assert "cannot be moved" not in found
    assert "lose 1.25 of 8" in found


def test_a_linear_model_that_is_moved_more_than_a_network_is_not_the_answer():
    found = text(linear=(0.99, 4.0), stable=(0.99, 0.5))
    assert "lose 4.00 of 8" in found
    assert "the answer" not in found


def test_two_sentences_at_80_columns():
    for given in ({}, {"linear": (0.99, 0.0)}, {"linear": (0.99, 2.5)}):
        found = reading(rows(**given), 8, 1.0)
        assert max(map(len, found.splitlines())) <= 80
        assert found.rstrip().endswith(".")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    patch = pytest.MonkeyPatch()
    patch.setattr(demonstration, "EPOCHS", 2)
    patch.setattr(demonstration, "STEPS", 3)
    try:
        return folder, run_demo(folder, seed=1)
    finally:
        patch.undo()


def test_the_json_file_holds_what_is_returned(short):
    folder, found = short
    assert json.loads((folder / "demo.json").read_text()) == found
    assert [row["method"] for row in found["models"]] == ["linear", "vanilla", "sp", "r2et-sf"]
    assert found["settings"] == {"data": "breast-cancer", "k": 8, "steps": 3, "epochs": 2, "seed": 1}
    assert found["rows"] == len(r2et.data.load("breast-cancer").test)
    assert found["reading"] == reading(found["models"], 8, found["radius"])


def test_the_saved_models_are_the_ones_in_the_table(short):
    folder, found = short
    test = r2et.data.load("breast-cancer").test
    for row in found["models"]:
        model, information = r2et.checkpoints.load_model(folder / row["method"])
        assert information["data"] == "breast-cancer"
        assert information["k"] == 8
        assert r2et.metrics.auc(model, test.x, test.y) == row["auc"]
        for kind in ("ERAttack", "MSEAttack"):
            result = getattr(r2et.attacks, kind)(k=8, radius=found["radius"], steps=3)(model, test.x, seed=1)
            assert float(result.precision.mean()) == pytest.approx(row["precision"][kind])
        worst = 8 * (1 - min(row["precision"].values()))
        assert row["displaced"] == pytest.approx(worst, abs=1e-5)
        assert 0 <= row["thickness"] <= 1
        assert row["seconds"] > 0


def test_the_linear_model_of_two_classes_is_not_displaced(short):
    linear = short[1]["models"][0]
    assert linear["displaced"] == 0
    assert linear["precision"] == {"ERAttack": 1.0, "MSEAttack": 1.0}


def test_an_output_that_is_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "EPOCHS", 1)
    monkeypatch.setattr(demonstration, "STEPS", 1)
    (tmp_path / "file").write_text("in the way")
    for name in ("file", "file/deeper"):
        with pytest.raises(InputError, match="file"):
            run_demo(tmp_path / name)
    assert (tmp_path / "file").read_text() == "in the way"
