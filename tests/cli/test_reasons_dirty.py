"""`r2et reasons` on files as people have them: read as that of the training was, or otherwise, which is said."""

import json

import numpy as np
import pandas as pd
import pytest

from r2et.estimator import reasons_file
from r2et.predictors import open_model
from r2et.tables import files
from tests.estimator.dirty import dirty, own_text


def german(frame: pd.DataFrame) -> str:
    """As a German export writes it: semicolons, decimal commas, dots between thousands, days first."""
    own = frame.copy()
    own["income"] = [
        "ohne" if np.isnan(v) else f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in frame["income"]
    ]
    own["joined"] = frame["joined"].dt.strftime("%d.%m.%Y").fillna("")
    own["member"] = [{True: "ja", False: "nein"}.get(v, "") for v in frame["member"]]
    return own.to_csv(index=False, sep=";")


def people(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    frame, y = dirty(rows, seed)
    frame.insert(0, "number", np.arange(rows) + 1000)
    return frame.assign(status=y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """people.csv of the training, new.csv without number and target, model/ and price/."""
    from r2et.cli import main

    there = tmp_path_factory.mktemp("letters")
    (there / "people.csv").write_bytes(german(people()).encode("cp1252"))
    (there / "new.csv").write_bytes(german(new()).encode("cp1252"))
    options = ["--missing", "ohne", "--network", "additive", "--epochs", "8"]
    for name, target, further in (("model", "status", []), ("price", "age", ["--regression", "--drop", "status"])):
        data = ["--data", str(there / "people.csv"), "--target", target, *further]
        with pytest.raises(SystemExit) as caught:
            main(["train", *data, *options, "-o", str(there / name)])
        assert not caught.value.code
    return there


def new() -> pd.DataFrame:
    return people(60, seed=1).drop(columns=["number", "status"])


def told_of(path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"value": "str"}, keep_default_na=False)


def check_values(table: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Every value is the row's own."""
    for row, column, value in zip(table["row"], table["column"], table["value"], strict=True):
        own = frame.reset_index(drop=True).loc[row, column]
        expected = own_text(own)
        if column == "member":
            expected = {"True": "ja", "False": "nein"}.get(expected, expected)
        assert value == expected


def test_a_file_written_as_that_of_the_training(run, folder, tmp_path):
    arguments = ("--data", folder / "new.csv", "-o", tmp_path / "r.csv", "--toward", "bad", "--n", 8)
    found = run("reasons", folder / "model", *arguments, "--plausible", "age=2")
    assert found.code == 0, found.err
    table = told_of(tmp_path / "r.csv")
    check_values(table, new())
    assert {"income", "joined", "code", "town"} <= set(table["column"])
    assert set(table[table["column"] == "code"]["value"]) <= {"01069", "02110", "10115"}
    assert table["holds_within_plausible"].ne("").any()
    notes = " ".join(found.err.split())
    assert "note: new.csv: values are separated by semicolons" in notes
    assert "numbers have a decimal comma and dots between thousands" in notes
    assert "dates of the form %d.%m.%Y (column joined" in notes
    assert "values are missing" in notes
    said = " ".join(found.out.split())
    assert "One plausible change (dates in days):" in said
    assert "age 2" in said
    assert "does not know" not in said
    # the proof is in the same words as in Python
    fitted = open_model(folder / "model").estimator
    assert fitted.encoding_.column_names == new().columns.tolist()


def test_what_the_training_left_out_may_be_there(run, folder, tmp_path):
    outputs = []
    for name, frame in (("with.csv", people(60, seed=1)), ("without.csv", new())):
        (tmp_path / name).write_text(german(frame.assign(note="x")), encoding="utf-8")
        arguments = ("--data", tmp_path / name, "-o", tmp_path / "r.csv", "--no-proof", "--json")
        found = run("reasons", folder / "model", *arguments)
        assert found.code == 0, found.err
        content = found.json()
        assert content["ignored"] == ["note"]
        assert any("decimal comma" in note for note in content["notes"])
        outputs.append((tmp_path / "r.csv").read_bytes())
    assert outputs[0] == outputs[1]


def test_a_file_written_otherwise_is_recognised_anew_and_that_is_said(run, folder, tmp_path):
    frame = new()
    frame.assign(
        joined=frame["joined"].dt.strftime("%Y-%m-%d"),
        member=frame["member"].map({True: "ja", False: "nein"}),
    ).to_csv(tmp_path / "english.csv", index=False)
    arguments = ("--data", tmp_path / "english.csv", "-o", tmp_path / "r.csv", "--no-proof", "--n", 8)
    found = run("reasons", folder / "model", *arguments)
    assert found.code == 0, found.err
    check_values(told_of(tmp_path / "r.csv"), frame)
    notes = " ".join(found.err.split())
    assert "in the file of the training by ';'" in notes
    assert "dates of the form 2024-12-31" in notes


def test_what_a_person_says_counts(run, folder, tmp_path):
    """Months first, in a file in which no day is above 12: only a person can know."""
    frame = new()
    frame["joined"] = pd.Timestamp("2020-01-05")
    text = german(frame).replace("05.01.2020", "01.05.2020").replace(";", "|")
    (tmp_path / "new.csv").write_text(text, encoding="utf-8")
    arguments = ("--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv", "--no-proof", "--n", 8)
    options = ("--sep", "|", "--dates", "joined=%m.%d.%Y", "--decimal", ",", "--thousands", ".")
    found = run("reasons", folder / "model", *arguments, *options)
    assert found.code == 0, found.err
    table = told_of(tmp_path / "r.csv")
    check_values(table, frame)
    assert set(table[table["column"] == "joined"]["value"]) == {"2020-01-05"}
    found = run("reasons", folder / "model", *arguments, "--decimal", "x")
    assert found.code == 2
    assert "decimal must be" in found.err


def test_rows_that_are_written_otherwise_far_into_a_file(folder, tmp_path, monkeypatch):
    """The first rows do not show it: the file is recognised as a whole, and nothing is told or counted twice."""
    monkeypatch.setattr(files, "HEAD", 2000)
    monkeypatch.setattr(reasons_file, "ROWS_OF_A_CHUNK", 50)
    frame = new().iloc[np.arange(240) % 60].reset_index(drop=True)
    frame.loc[:199, "income"] = np.nan
    other = frame.assign(income=frame["income"].map(lambda value: "ohne" if np.isnan(value) else f"{value:.2f}"))
    lines = [*german(frame).splitlines(keepends=True)[:201], *as_german_but_income(other)[201:]]
    (tmp_path / "new.csv").write_text("".join(lines), encoding="utf-8")
    opened, told = open_model(folder / "model"), []
    paths = (tmp_path / "new.csv", tmp_path / "r.csv")
    summary = reasons_file.write_reasons(
        opened.estimator, *paths, 8, origin=opened.origin, advance=told.append, proven=False
    )
    assert min(told) == -200
    assert sum(told) == summary.rows == 240
    table = told_of(tmp_path / "r.csv")
    check_values(table, frame)
    assert summary.reasons == len(table)
    assert not table.duplicated(["row", "column"]).any()
    assert not any("first rows" in note for note in summary.notes)


def as_german_but_income(frame: pd.DataFrame) -> list[str]:
    """Lines in which the numbers of one column are written as they are."""
    lines = german(frame.assign(income=0.0)).splitlines(keepends=True)
    body = [line.replace("0,00", text, 1) for line, text in zip(lines[1:], frame["income"], strict=True)]
    return [lines[0], *body]


def test_a_file_of_which_only_the_first_rows_are_recognised_is_read_to_its_end(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 2000)
    frame = new().iloc[np.arange(240) % 60]
    frame.loc[frame.index[0], "town"] = 'so "called";\nCelle'
    (tmp_path / "new.csv").write_text(german(frame), encoding="utf-8")
    arguments = ("--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv", "--no-proof", "--json")
    content = run("reasons", folder / "model", *arguments).json()
    assert content["rows"] == 240
    assert content["notes"][-1].startswith("these are its first rows")
    check_values(told_of(tmp_path / "r.csv"), frame)


@pytest.mark.parametrize("toward", [None, "higher", "lower"])
def test_a_regressor(run, folder, tmp_path, toward):
    options = () if toward is None else ("--toward", toward)
    arguments = ("--data", folder / "new.csv", "-o", tmp_path / "r.parquet", *options)
    found = run("reasons", folder / "price", *arguments, "--plausible", "auto")
    assert found.code == 0, found.err
    table = pd.read_parquet(tmp_path / "r.parquet")
    verb = "lowers" if toward == "lower" else "raises"
    assert set(table["direction"]) == {f"{verb} the predicted age"}
    assert (table["contribution"] > 0).all()
    assert (table["holds_within_plausible"] > 0).any()
    assert "Proven (additive)" in found.out
    fitted = open_model(folder / "price").estimator
    assert set(table["column"]) <= set(fitted.encoding_.column_names)
    wrong = run("reasons", folder / "price", *arguments[:4], "--toward", "bad")
    assert wrong.code == 2
    assert "toward='bad' is none of the directions" in wrong.err


def test_parquet_says_its_types_itself(run, folder, tmp_path):
    frame = new()
    frame["member"] = frame["member"].map({True: "ja", False: "nein"})
    frame.to_parquet(tmp_path / "new.parquet")
    arguments = ("--data", tmp_path / "new.parquet", "-o", tmp_path / "r.csv", "--no-proof", "--n", 8)
    found = run("reasons", folder / "model", *arguments)
    assert found.code == 0, found.err
    check_values(told_of(tmp_path / "r.csv"), new())
    refused = run("reasons", folder / "model", *arguments, "--decimal", ",")
    assert refused.code == 2
    assert "says its types itself" in refused.err


def test_values_that_are_missing_where_the_training_missed_none(run, folder, tmp_path):
    frame = new()
    frame["age"] = frame["age"].astype(float).mask(np.arange(60) < 3)
    (tmp_path / "new.csv").write_text(german(frame), encoding="utf-8")
    arguments = ("--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv", "--no-proof")
    found = run("reasons", folder / "model", *arguments)
    assert found.code == 0, found.err
    assert "3, rows 0, 1, 2" in " ".join(found.out.split()), "they are counted and named"
    assert set(pd.read_csv(tmp_path / "r.csv")["row"]) <= set(range(3, 60))
    frame["age"] = np.nan
    (tmp_path / "new.csv").write_text(german(frame), encoding="utf-8")
    refused = run("reasons", folder / "model", *arguments)
    assert refused.code == 2
    assert "'age' (60 of 60" in " ".join(refused.err.split()), "no row is left to explain"


def test_the_format_is_remembered_with_the_marks_of_missing_values(folder):
    origin = open_model(folder / "model").origin
    assert origin.format.missing == ("ohne",)
    assert origin.dropped.keys() == {"number"}
    assert json.dumps(origin.to_dict())
