"""Training on a table as it is: what is left out is said, saved, and left out of audits."""

import re

import pytest

import r2et
from r2et.predictors import open_model
from tests.cli.test_check import dirty, one_line
from tests.cli.test_own_table import QUICK, people

OPTIONS = ("--target", "bought", "--method", "linear", "--epochs", 1)
LEFT_OUT = {"row": "row number", "name": "identifier", "country": "constant", "cents": "copy of 'pay'"}


@pytest.fixture
def csv(tmp_path):
    dirty().to_csv(tmp_path / "dirty.csv", index=False)
    return tmp_path / "dirty.csv"


def test_what_is_left_out_is_said_saved_and_ignored_by_audits(run, csv, tmp_path):
    found = run("train", "--data", csv, *OPTIONS, "-o", tmp_path / "model")
    assert found.code == 0, found.err
    *_, note, warning = re.split(r" (?=note: |warning: )", one_line(found.err))
    assert note == (
        "note: left out: row (row number), name (identifier), country (constant), cents (copy of 'pay'); to keep "
        "one: --keep NAME"
    )
    assert warning.startswith("warning: gives the target away: 'invoice' predicts 'bought' alone")
    assert warning.endswith("to leave out: --drop invoice")
    opened = open_model(tmp_path / "model")
    assert dict(opened.origin.dropped) == LEFT_OUT
    kept = ["age", "pay", "visits", "job", "member", "invoice"]
    assert opened.estimator.feature_names_in_.tolist() == kept
    audited = run("audit", tmp_path / "model", "--data", csv, *QUICK, "--limit", 8)
    assert audited.code == 0, audited.err
    assert "24 rows that training did not see" in one_line(audited.out)
    assert "left out" not in one_line(audited.err)


def test_a_file_in_which_the_columns_that_were_left_out_are_broken_can_be_audited(run, csv, tmp_path):
    assert run("train", "--data", csv, *OPTIONS, "-o", tmp_path / "model").code == 0
    dirty().assign(row=None, country=[None, "DE"] * 60).drop(columns="name").to_csv(
        tmp_path / "new.csv", index=False
    )
    data = (tmp_path / "model", "--data", tmp_path / "new.csv", "--attack", "noise", "--limit", 8)
    assert run("attack", *data).code == 0


def test_as_json(run, csv, tmp_path):
    told = run("train", "--data", csv, *OPTIONS, "-o", tmp_path / "model", "--drop", "invoice", "--json").json()
    assert told["left_out"] == {**LEFT_OUT, "invoice": "as you said"}
    assert told["warnings"] == []
    told = run(
        "train", "--data", csv, *OPTIONS, "-o", tmp_path / "model", "--keep", "row,country", "--json"
    ).json()
    assert sorted(told["left_out"]) == ["cents", "name"]
    assert len(told["warnings"]) == 3
    fitted = r2et.StableClassifier.load(tmp_path / "model")
    assert fitted.feature_names_in_.tolist() == [
        *("age", "pay", "visits", "job", "member", "row", "country", "invoice")
    ]


def test_columns_that_are_named_are_used_whatever_they_are(run, csv, tmp_path):
    found = run("train", "--data", csv, *OPTIONS, "--columns", "row,age,name", "-o", tmp_path / "model")
    assert found.code == 0
    assert "left out" not in found.err.replace("to leave out", "")
    assert one_line(found.err).count("Kept, because you name it") == 2
    assert open_model(tmp_path / "model").origin.dropped == {}


def test_a_category_that_is_left_out_anyway(run, csv, tmp_path):
    categorical = ("--categorical", "row,visits")
    found = run("train", "--data", csv, *OPTIONS, *categorical, "-o", tmp_path / "model")
    assert found.code == 0, found.err
    assert "row (" in found.err
    assert "visits: 4" in " ".join(open_model(tmp_path / "model").estimator.encoding_.names)


def test_a_clean_table_is_trained_on_in_silence(run, tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    found = run("train", "--data", tmp_path / "people.csv", *OPTIONS, "-o", tmp_path / "model")
    assert found.code == 0
    assert found.err == ""


@pytest.mark.parametrize("option", ["--drop", "--keep", "--columns", "--categorical"])
def test_options_of_files_are_not_for_data_sets(run, tmp_path, option):
    error = run("train", "--data", "breast-cancer", option, "a", "-o", tmp_path / "model").error()
    assert f"{option} is for a file of your own" in error
