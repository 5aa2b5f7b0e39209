"""Commands on files as programs write them: what was recognised is said once, remembered, and can be overruled."""

import json

import pytest
import torch

from r2et.cli.subject import SubjectOptions
from r2et.predictors import open_model
from r2et.tables import Format
from tests.cli.test_own_table import QUICK, people

TRAIN = ("--target", "bought", "--method", "linear", "--epochs", 1)


@pytest.fixture
def german(tmp_path):
    path = tmp_path / "leute.csv"
    frame = people()
    frame["pay"] = frame["pay"].map(
        lambda pay: f"{pay:,.2f} €".replace(",", "t").replace(".", ",").replace("t", ".")
    )
    frame.to_csv(path, index=False, sep=";", encoding="cp1252")
    return path


def test_a_german_file_is_trained_and_audited(run, german, tmp_path):
    trained = run("train", "--data", german, *TRAIN, "-o", tmp_path / "model", "--json")
    assert trained.code == 0, trained.err
    notes = trained.json()["notes"]
    for words in ("separated by semicolons", "cp1252", "decimal comma", "currency sign, 12 € is 12 (column pay)"):
        assert words in " ".join(notes)
        assert trained.err.count(words) == 1
    assert all(line.startswith("note: leute.csv: ") for line in trained.err.splitlines() if "semicolons" in line)
    origin = open_model(tmp_path / "model").origin
    assert origin.format.column("pay").decimal == ","
    assert origin.format.names == ("age", "pay", "visits", "job", "member", "bought")
    audited = run("audit", tmp_path / "model", "--data", german, *QUICK, "--json")
    assert audited.code == 0, audited.err
    assert audited.err.count("separated by semicolons") == 1
    assert "decimal comma" in " ".join(audited.json()["notes"])


def test_a_short_file_is_read_as_the_file_of_the_training(run, german, tmp_path):
    assert run("train", "--data", german, *TRAIN, "-o", tmp_path / "model").code == 0
    lines = "age;pay;bought;visits;job;member\n40;{0};yes;3;cook;True\n41;{0};no;4;cook;False\n"
    inputs = {}
    for name, pay in (("remembered", "1.234"), ("plain", "1234"), ("comma", "1,234")):
        (tmp_path / f"{name}.csv").write_text(lines.format(pay))
        options = SubjectOptions(model=str(tmp_path / "model"), data=str(tmp_path / f"{name}.csv"))
        inputs[name] = options.subject(10).x
    assert torch.equal(inputs["remembered"], inputs["plain"])
    assert not torch.equal(inputs["remembered"], inputs["comma"]), "the negative control: the mark matters"


def test_options_overrule_what_is_recognised(run, tmp_path):
    rows = "".join(
        f"{20 + 7 * i % 40};{1 + i % 3},{100 + 37 * i % 50:03};{('no', 'yes')[i % 2]};0{i % 9 + 1}/02/2024;{i}\n"
        for i in range(100, 180)
    )
    (tmp_path / "a.csv").write_text("age;pay;bought;day;id\n" + rows)
    train = ("train", "--data", tmp_path / "a.csv", *TRAIN, "-o", tmp_path / "model")
    assert "--dates day=%d/%m/%Y" in run(*train).error()
    ran = run(*train, "--drop", "day,id", "--thousands", ",")
    assert ran.code == 0, ran.err
    opened = open_model(tmp_path / "model")
    assert opened.estimator.encoding_.column_names == ["age", "pay"]
    written = opened.origin.format
    assert (written.column("pay").kind, written.column("pay").thousands) == ("whole", ",")


def test_a_damaged_format_is_a_sentence(run, german, tmp_path):
    assert run("train", "--data", german, *TRAIN, "-o", tmp_path / "model").code == 0
    path = tmp_path / "model" / "checkpoint.json"
    content = json.loads(path.read_text())
    content["information"]["origin"]["format"]["columns"] = 5
    path.write_text(json.dumps(content))
    assert "format of the file: columns" in run("audit", tmp_path / "model", "--data", german).error()


def test_missing_values_are_counted_in_a_note(run, tmp_path):
    frame = people().astype({"age": object})
    frame.loc[[3, 5], "age"] = ["?", "NA"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    ran = run("train", "--data", tmp_path / "a.csv", *TRAIN, "-o", tmp_path / "model")
    assert "note: a.csv: values are missing in column age 2 ('?', 'NA')" in ran.err


def test_parquet_has_a_format_without_marks(run, tmp_path):
    people().to_parquet(tmp_path / "a.parquet")
    assert run("train", "--data", tmp_path / "a.parquet", *TRAIN, "-o", tmp_path / "model").code == 0
    assert open_model(tmp_path / "model").origin.format == Format("", "")
    people().to_csv(tmp_path / "a.csv", index=False, sep="|")
    ran = run("audit", tmp_path / "model", "--data", tmp_path / "a.csv", *QUICK, "--limit", 4)
    assert ran.code == 0, ran.err
