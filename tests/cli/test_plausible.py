"""--plausible: radii in multiples of plausible change, from the command line."""

import numpy as np
import pandas as pd
import pytest
import torch

from r2et import StableClassifier, open_model
from r2et.auditing import from_table
from r2et.errors import InputError
from r2et.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """people.csv with holes, and in fitted/ a model of it."""
    place = tmp_path_factory.mktemp("plausible")
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(20, 70, 80).astype(float),
            "income": np.round(drawn.lognormal(7.5, 0.4, 80), 1),
            "job": drawn.choice(["cook", "nurse", "pilot"], 80),
        }
    )
    frame["bought"] = np.where(frame["age"] + drawn.normal(size=80) > 45, "yes", "no")
    frame.loc[::7, "age"] = np.nan
    frame.to_csv(place / "people.csv", index=False)
    fitted = StableClassifier(k=1, method="vanilla", epochs=3, random_state=0)
    fitted.fit(frame[["age", "income", "job"]], frame["bought"]).save(place / "fitted")
    return place


def subject_of(folder):
    return from_table(open_model(folder / "fitted"), read_table(folder / "people.csv", "bought"))


def test_radii_are_multiples_of_what_people_say(folder):
    subject = subject_of(folder)
    counted = subject.in_plausible_units("age=2,income=3%")
    column = open_model(folder / "fitted").estimator.encoding_.columns
    income = pd.read_csv(folder / "people.csv")["income"]
    assert counted.scale[0] == pytest.approx(2 / column[0].scale)
    assert counted.scale[2] == pytest.approx(0.03 * income.median() / column[1].scale)
    assert counted.scale[[1, 3, 4, 5]].tolist() == [1, 1, 1, 1]
    torch.testing.assert_close(counted.x * counted.scale, subject.x)
    assert counted.notes[-1].startswith("radii are multiples of one plausible change: age 2, income 3 % (")
    explained = counted.explainer_under(None)(counted.model, counted.x, domain=counted.domain)
    before = subject.explainer_under(None)(subject.model, subject.x, domain=subject.domain)
    torch.testing.assert_close(explained, before, rtol=1e-9, atol=1e-12)
    auto = subject.in_plausible_units("auto")
    torch.testing.assert_close(auto.scale, subject.domain.scale)


def test_a_file_with_holes_is_trained_on_as_it_is(folder, run, tmp_path):
    data = ("--data", folder / "people.csv", "--target", "bought", "--method", "linear", "--epochs", 2)
    found = run("train", *data, "-o", tmp_path / "linear", "--json").json()
    assert found["features"] == 6
    fitted = StableClassifier.load(tmp_path / "linear")
    assert fitted.encoding_.names[:2] == ("age", "age: missing")


def test_the_commands_count_in_plausible_changes(folder, run, tmp_path):
    data = ("--data", folder / "people.csv", "--target", "bought", "--limit", 6)
    attack = run(
        "attack",
        folder / "fitted",
        *data[:-1],
        80,
        "--attack",
        "noise",
        "--plausible",
        "age=2",
        "-o",
        tmp_path / "x.npz",
    )
    assert attack.code == 0, attack.err
    assert "one plausible change: age 2, income 2 %" in " ".join(attack.err.split())
    written = np.load(tmp_path / "x.npz")
    moved = np.abs(written["noise_x"] - written["x"])
    assert moved.max() <= 1 + 1e-9
    missing = written["x"][:, 1] == 1
    assert missing.any()
    assert (moved[missing, 0] == 0).all()
    found = run("certify", folder / "fitted", *data, "--plausible", "auto", "--radii", "1,2", "--json").json()
    assert list(found["precision"]) == ["1", "2"]
    assert any("plausible change" in note for note in found["notes"])
    audited = run(
        "audit", folder / "fitted", *data, "--plausible", "auto", "--budget", "fast", "--steps", 2, "--json"
    ).json()
    assert sorted({row["radius"] for row in audited["attacks"]}) == [1.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age", ("'age'", "column=number")),
        ("age=one", ("'age=one'",)),
        ("age=-1", ("'age=-1'",)),
        ("age=0", ("'age=0'",)),
        ("age=1,aeg=2", ("'aeg'", "did you mean 'age'?")),
        ("job=1", ("'job'",)),
        ("age=1,age=2", ("'age'", "two plausible changes")),
        ("", ("auto",)),
    ],
)
def test_what_is_no_plausible_change(folder, run, text, words):
    data = ("--data", folder / "people.csv", "--target", "bought", "--limit", 3)
    found = run("certify", folder / "fitted", *data, "--plausible", text)
    assert found.code == 2
    for word in words:
        assert word in " ".join(found.err.split())


def test_a_model_of_plain_numbers_counts_in_the_units_of_the_file(folder):
    table = read_table(folder / "people.csv", "bought", ["age", "income"])
    table = table.rows(np.flatnonzero(table.frame["age"].notna().to_numpy()))
    opened = open_model(torch.nn.Linear(2, 2))
    counted = from_table(opened, table).in_plausible_units("age=2,income=50")
    assert counted.scale.tolist() == [2.0, 50.0]
    assert counted.domain is None
    assert counted.explainer_under(None).columns.names == ("age", "income")


def test_data_that_say_nothing(folder):
    subject = subject_of(folder)
    empty = type(subject)(**{**vars(subject), "plausible": {}})
    with pytest.raises(InputError, match="--plausible auto"):
        empty.in_plausible_units("age=1")


def test_rows_that_miss_what_was_there_in_training_are_left_out_and_that_is_said(folder, tmp_path):
    frame = pd.read_csv(folder / "people.csv")
    frame.loc[[3, 5], "income"] = np.nan
    frame.to_csv(tmp_path / "more.csv", index=False)
    subject = from_table(open_model(folder / "fitted"), read_table(tmp_path / "more.csv", "bought"))
    assert len(subject.x) == len(subject.y) == len(frame) - 2
    assert not {3, 5} & set(subject.row_numbers)
    assert "2 rows are left out: a value is missing where none was in training ('income')" in subject.notes
