"""Which rows a model has not seen: what is said about it is true, whatever happened to the folder or the file."""

import json
import os
import shutil

import numpy as np
import pytest

import r2et
from r2et.auditing.subjects import choose_rows
from r2et.predictors import open_model
from r2et.tables import read_table
from r2et.tables.splits import hold_out
from tests.cli.test_own_table import QUICK, ROWS, people

NOISE = ("--attack", "noise")


def train(run, csv, output, seed: int = 0, *options):
    data = ("--data", csv, "--target", "bought", "--method", "linear", "--epochs", 1, "--seed", seed)
    return run("train", *data, "-o", output, *options)


@pytest.fixture
def csv(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def unseen(seed: int) -> set[int]:
    """The rows that a training with this seed does not see, computed anew."""
    labels = (people()["bought"] == "yes").to_numpy().astype(np.int64)
    return set(hold_out(labels, 0.2, seed=seed)[1].tolist())


def claimed(folder, csv) -> set[int] | None:
    """The rows of a file that are called unseen; None if there is no such claim."""
    rows, which = choose_rows(read_table(csv, "bought"), [open_model(folder)])
    return set(rows.tolist()) if "did not see" in which else None


def test_the_rows_called_unseen_are_those_of_the_training(run, csv, tmp_path):
    for seed in (0, 1):
        assert train(run, csv, tmp_path / "model", seed).code == 0
        assert claimed(tmp_path / "model", csv) == unseen(seed)
    assert claimed(tmp_path / "model" / "checkpoint.json", csv) == unseen(1), "by its file as by its folder"
    assert len(unseen(0) & unseen(1)) < len(unseen(0)), "the seeds hold out different rows"


def test_a_training_that_ends_after_any_file_leaves_no_false_claim(run, csv, tmp_path, monkeypatch):
    real = os.replace
    for stop in (1, 2, 3):
        folder = tmp_path / f"model{stop}"
        assert train(run, csv, folder, 0).code == 0
        before = json.loads((folder / "checkpoint.json").read_text())["tensors"]
        written = []

        def replace(source, target, written=written, stop=stop):
            real(source, target)
            written.append(target)
            if len(written) == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", replace)
        train(run, csv, folder, 1)
        monkeypatch.undo()
        after = json.loads((folder / "checkpoint.json").read_text())["tensors"]
        truth = unseen(0 if after == before else 1)
        assert claimed(folder, csv) == truth, f"stopped after file {stop}"


def test_a_classifier_saved_into_the_folder_has_no_origin(run, csv, tmp_path):
    assert train(run, csv, tmp_path / "model").code == 0
    frame = people()
    fitted = r2et.StableClassifier(k=2, method="linear", epochs=1)
    fitted.fit(frame.drop(columns="bought"), frame["bought"].to_numpy())
    fitted.save(tmp_path / "model")
    assert open_model(tmp_path / "model").origin is None
    assert claimed(tmp_path / "model", csv) is None


def test_an_origin_file_of_old_is_ignored(run, csv, tmp_path):
    assert train(run, csv, tmp_path / "model", 0, "--test-fraction", 0).code == 0
    digest = open_model(tmp_path / "model").origin.sha256
    old = {"target": "bought", "sha256": digest, "rows": ROWS, "held_out": list(range(ROWS))}
    (tmp_path / "model" / "origin.json").write_text(json.dumps(old))
    assert claimed(tmp_path / "model", csv) is None


def test_a_file_that_changes_during_the_training_is_another_file(run, csv, tmp_path, monkeypatch):
    fit = r2et.StableClassifier.fit

    def change_and_fit(self, *rest, **options):
        # sorted anew: every row number means another row
        people().iloc[::-1].to_csv(csv, index=False)
        return fit(self, *rest, **options)

    monkeypatch.setattr(r2et.StableClassifier, "fit", change_and_fit)
    assert train(run, csv, tmp_path / "model").code == 0
    assert claimed(tmp_path / "model", csv) is None
    people().to_csv(csv, index=False)
    assert claimed(tmp_path / "model", csv) == unseen(0), "the file as it was read is recognised"


def test_the_origin_is_that_of_the_same_model_while_another_is_trained(run, csv, tmp_path, monkeypatch):
    from r2et.predictors import models

    assert train(run, csv, tmp_path / "model", 0).code == 0
    assert train(run, csv, tmp_path / "other", 1).code == 0
    real = models.load_model

    def load_then_replace(path, **options):
        loaded = real(path, **options)
        shutil.rmtree(tmp_path / "model")
        shutil.copytree(tmp_path / "other", tmp_path / "model")
        return loaded

    expected = r2et.StableClassifier.load(tmp_path / "model").model_.state_dict()
    monkeypatch.setattr(models, "load_model", load_then_replace)
    opened = open_model(tmp_path / "model")
    assert set(opened.origin.held_out) == unseen(0)
    found = opened.estimator.model_.state_dict()
    assert all((found[name] == expected[name]).all() for name in expected)


# --- another file ---------------------------------------------------------------------------------------------

WORDS = "longer.csv is not the file that this model was trained on"


def test_a_row_more_is_said_everywhere(run, csv, tmp_path):
    assert train(run, csv, tmp_path / "model").code == 0
    longer = tmp_path / "longer.csv"
    longer.write_text(csv.read_text() + csv.read_text().splitlines()[-1] + "\n")
    audit = ("audit", tmp_path / "model", "--data", longer, *QUICK, "--limit", 8)
    shown = run(*audit, "--report", tmp_path / "report.html")
    assert shown.code == 0
    for text in (shown.out, shown.err, (tmp_path / "report.html").read_text()):
        assert WORDS in " ".join(text.split())
        assert "rows of the training may be among these" in " ".join(text.split())
    assert 'class="warning"' in (tmp_path / "report.html").read_text()
    (note,) = run(*audit, "--json").json()["notes"]
    assert WORDS in note
    for command in (("attack", *NOISE), ("certify",)):
        data = (tmp_path / "model", "--data", longer, "--limit", 4)
        assert WORDS in run(*command, *data).err
        assert WORDS in run(*command, *data, "--json").json()["notes"][0]


def test_the_file_of_the_training_needs_no_note(run, csv, tmp_path):
    assert train(run, csv, tmp_path / "model").code == 0
    audit = ("audit", tmp_path / "model", "--data", csv, *QUICK, "--limit", 8)
    shown = run(*audit, "--report", tmp_path / "report.html")
    assert "note:" not in (shown.out + shown.err).lower()
    assert "<strong>Note.</strong>" not in (tmp_path / "report.html").read_text()
    assert run(*audit, "--json").json()["notes"] == []


@pytest.mark.parametrize("how", ["--all-rows", "nothing held out"])
def test_rows_of_the_training_are_counted(run, csv, tmp_path, how):
    fraction = ("--test-fraction", 0) if how == "nothing held out" else ()
    assert train(run, csv, tmp_path / "model", 0, *fraction).code == 0
    options = ("--all-rows",) if how == "--all-rows" else ()
    found = run("attack", tmp_path / "model", "--data", csv, *NOISE, *options, "--json").json()
    seen = ROWS if fraction else ROWS - len(unseen(0))
    assert found["notes"] == [
        f"{seen} of these {ROWS} rows were in the training of this model: on new rows it may do worse"
    ]


def test_nothing_is_claimed_for_a_model_whose_training_is_unknown(run, csv, tmp_path):
    assert train(run, csv, tmp_path / "known").code == 0
    frame = people()
    fitted = r2et.StableClassifier(k=2, method="linear", epochs=1)
    fitted.fit(frame.drop(columns="bought"), frame["bought"].to_numpy()).save(tmp_path / "unknown")
    models = [open_model(tmp_path / name) for name in ("known", "unknown")]
    rows, which = choose_rows(read_table(csv, "bought"), models)
    assert set(rows.tolist()) == unseen(0)
    assert which == f"{len(rows)} rows that training of known did not see"


def test_two_models_of_one_name_are_audited_on_rows_that_neither_saw(run, csv, tmp_path):
    for seed in (0, 1):
        assert train(run, csv, tmp_path / f"run{seed}" / "model", seed).code == 0
    models = [open_model(tmp_path / f"run{seed}" / "model") for seed in (0, 1)]
    rows, which = choose_rows(read_table(csv, "bought"), models)
    assert set(rows.tolist()) == unseen(0) & unseen(1)
    assert which.endswith("rows that training did not see")


@pytest.mark.parametrize("change", [{"held_out": [3, ROWS]}, {"rows": ROWS - 1, "held_out": [3]}], ids=str)
def test_rows_that_the_file_does_not_have_are_an_error(run, csv, tmp_path, change):
    assert train(run, csv, tmp_path / "model").code == 0
    path = tmp_path / "model" / "checkpoint.json"
    record = json.loads(path.read_text())
    record["information"]["origin"].update(change)
    path.write_text(json.dumps(record))
    error = run("audit", tmp_path / "model", "--data", csv, *QUICK).error()
    assert "train it again" in error.lower()
