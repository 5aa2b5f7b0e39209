"""`r2et check`: what a person reads, what a program reads, and when the exit code is 2."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_own_table import ROWS, people
from tests.test_cli import at_80_columns


def dirty(rows: int = ROWS) -> pd.DataFrame:
    """Of `people`, with a row number, names, a constant, a copy and a leak."""
    frame = people(rows)
    return frame.assign(
        row=range(rows),
        name=[f"person {i}" for i in range(rows)],
        country="AT",
        cents=frame["pay"] * 100,
        invoice=np.where(frame["bought"] == "yes", "sent", "none"),
    )


@pytest.fixture
def csv(tmp_path):
    dirty().to_csv(tmp_path / "dirty.csv", index=False)
    return tmp_path / "dirty.csv"


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_what_a_person_reads(run, csv):
    found = run("check", csv, "--target", "bought")
    assert found.code == 0
    assert found.err.startswith("note: dirty.csv: column invoice: 'none' is a value of its own")
    at_80_columns(found.out)
    text = one_line(found.out)
    for part in (
        f"dirty.csv: {ROWS} rows, 10 columns, target 'bought'",
        "WARNING: gives the target away invoice: predicts 'bought' alone with a cross-validated AUC of 1.000",
        "to leave out: --drop invoice",
        "row: rises from row to row: 0, 1, 2 and so on -> left out; to keep: --keep row",
        "Left out (4): row (row number), name (identifier), country (constant), cents (copy of 'pay')",
        "numbers: age, pay, visits categories: job (3), invoice (2) yes or no: member",
    ):
        assert part in text, found.out


def test_what_a_program_reads(run, csv):
    told = run("check", csv, "--target", "bought", "--drop", "invoice,job", "--keep", "row", "--json").json()
    assert told["left_out"] == {
        "job": "as you said",
        "name": "identifier",
        "country": "constant",
        "cents": "copy of 'pay'",
        "invoice": "as you said",
    }
    assert list(told["columns"]) == ["age", "pay", "visits", "member", "row"]
    assert [finding["kind"] for finding in told["findings"] if finding["level"] == "warning"] == ["row number"]


def test_columns_that_are_named_are_used(run, csv):
    told = run("check", csv, "--target", "bought", "--columns", "row,country,age", "--json").json()
    assert told["left_out"] == {}
    assert list(told["columns"]) == ["row", "country", "age"]
    told = run("check", csv, "--target", "bought", "--columns", "row,age,pay", "--drop", "row", "--json").json()
    assert told["left_out"] == {"row": "as you said"}


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("country", ["column 'country' of 'dirty.csv' has one value, 'AT'", "--target"]),
        ("cents", ["column 'cents' of 'dirty.csv' has", "different values", "not a class"]),
    ],
)
def test_what_cannot_be_used_is_exit_code_2_with_the_whole_report(run, csv, target, parts):
    found = run("check", csv, "--target", target)
    assert found.code == 2
    assert found.err.splitlines()[-1].startswith("error: ")
    for part in parts:
        assert part in found.err
    assert "ERROR: " in found.out
    assert "row (row number)" in found.out
    found = run("check", csv, "--target", target, "--json")
    assert found.code == 2
    assert json.loads(found.out)["usable"] is False


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["{csv}"], ["--target", "age, pay"]),
        (["{csv}", "--target", "bougt"], ["did you mean 'bought'?"]),
        (["adult", "--target", "bought"], ["'adult' is no file"]),
        (["none.csv", "--target", "bought"], ["there is no file"]),
        (["{csv}", "--target", "bought", "--drop", "agee"], ["drop names 'agee'", "did you mean 'age'?"]),
        (
            ["{csv}", "--target", "bought", "--drop", "age", "--keep", "age"],
            ["'age' is to be kept and to be dropped"],
        ),
        (["{csv}", "--target", "bought", "--keep", "age,,pay"], ["--keep", "'age,,pay'"]),
        (["{csv}", "--target", "bought", "--seed", "-1"], ["--seed"]),
    ],
)
def test_mistakes(run, csv, arguments, parts):
    error = run("check", *(text.format(csv=csv) for text in arguments)).error()
    for part in parts:
        assert part in error


def test_everything_left_out_is_nothing_to_train_on(run, tmp_path):
    frame = dirty()[["row", "name", "country", "bought"]]
    frame.to_csv(tmp_path / "empty.csv", index=False)
    found = run("check", tmp_path / "empty.csv", "--target", "bought")
    assert found.code == 2
    assert "'empty.csv': 0 of 3 columns are left" in found.err
    assert (
        "0 of 3 columns are left"
        in run("train", "--data", tmp_path / "empty.csv", "--target", "bought", "-o", tmp_path / "model").err
    )
    assert not (tmp_path / "model").exists()


def test_nothing_has_to_be_decided_about_a_column_that_is_left_out(run, tmp_path):
    """Dates of which nobody can say whether the day or the month comes first."""
    days = [f"{number % 12 + 1:02d}/{number % 11 + 1:02d}/2023" for number in range(60)]
    frame = pd.DataFrame(
        {"joined": days, "age": range(60), "pay": [n % 7 for n in range(60)], "y": ["a", "b"] * 30}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    asked = run("check", tmp_path / "a.csv", "--target", "y")
    assert "or leave the column out by --drop joined" in asked.error()
    found = run("check", tmp_path / "a.csv", "--target", "y", "--drop", "joined", "--keep", "age")
    assert found.code == 0
    assert "Left out (1): joined (as you said)" in found.out


def test_the_target_cannot_be_left_out(run, tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [1, 2], "y": [0, 1]}).to_csv(tmp_path / "a.csv", index=False)
    assert "cannot be left out" in run("check", tmp_path / "a.csv", "--target", "y", "--drop", "y").error()
