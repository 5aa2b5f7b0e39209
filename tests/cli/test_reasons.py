"""`r2et reasons`: every row of a file, in chunks that nobody notices, in one piece or not at all."""

import json

import numpy as np
import pandas as pd
import pytest

from r2et import StableClassifier
from r2et.estimator import reasons_file
from tests.estimator.frames import mixed
from tests.full_disk import no_file_above


@pytest.fixture(scope="module")
def fitted() -> StableClassifier:
    options = {"k": 2, "settings": {}, "epochs": 10, "network": "additive", "random_state": 0}
    return StableClassifier(**options).fit(*mixed())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fitted):
    """A model, and a file of rows: columns in another order, one that the model does not know, no target."""
    made = tmp_path_factory.mktemp("reasons")
    fitted.save(made / "model")
    frame = mixed(70, seed=1)[0]
    frame.insert(0, "name", [f"person, {i}" for i in range(70)])
    frame = frame[[*frame.columns[::-1]]]
    frame.to_csv(made / "new.csv", index=False)
    frame.to_parquet(made / "new.parquet", index=False)
    return made


def expected(fitted, folder, n=4, **options) -> pd.DataFrame:
    frame = pd.read_csv(folder / "new.csv")[fitted.encoding_.column_names]
    return fitted.reasons(frame, n, **options)


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """A file does not tell an empty text from none, or a text from a number."""
    words = frame["holds_within_units"].astype(object)
    return frame.assign(value=frame["value"].astype(str), holds_within_units=words.where(words.notna(), ""))


READ = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".jsonl": lambda path: pd.read_json(path, lines=True)}


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr(reasons_file, "ROWS_AT_ONCE", 9)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(("source", "suffix"), [("new.csv", s) for s in READ] + [("new.parquet", ".csv")])
def test_the_file_is_what_python_tells_whatever_the_chunk(run, fitted, folder, source, suffix):
    output = folder / f"reasons{suffix}"
    found = run(
        "reasons", folder / "model", "--data", folder / source, "-o", output, "--toward", "refuse", "--n", 2
    )
    assert found.code == 0, found.err
    table = READ[suffix](output)
    told = expected(fitted, folder, 2, toward="refuse")
    pd.testing.assert_frame_equal(texts(table), texts(told), check_dtype=False, rtol=1e-9)
    said = " ".join(found.out.split())
    assert f"{len(told)} reasons of 70 rows, at most 2 for each" in said
    assert "Columns that the model does not use: name." in said


def test_options(run, fitted, folder, tmp_path):
    phrases = tmp_path / "phrases.json"
    phrases.write_text(json.dumps({"job": "You work as a {value}."}))
    arguments = ("--exclude", "age, pay", "--phrases", phrases, "--no-proof", "--json")
    found = run("reasons", folder / "model", "--data", folder / "new.csv", "-o", tmp_path / "r.csv", *arguments)
    content = found.json()
    told = expected(
        fitted, folder, exclude=["age", "pay"], phrases={"job": "You work as a {value}."}, proven=False
    )
    table = pd.read_csv(tmp_path / "r.csv")
    assert table["text"].tolist() == told["text"].tolist()
    assert "You work as a nurse." in set(table["text"])
    assert content["excluded"] == told.attrs["excluded"]
    assert content["without_reasons"] == len(told.attrs["rows_without_reasons"])
    assert content["reasons"] == len(told)
    assert content["rows"] == 70
    assert content["background"] == fitted.background_.sha256
    assert content["why_not"].startswith("not asked for")
    # said to those who read, too
    said = run(
        "reasons", folder / "model", "--data", folder / "new.csv", "-o", tmp_path / "r.csv", *arguments[:-1]
    )
    for name, count in told.attrs["excluded"].items():
        assert f"Not named: {name}, which would have been in {count} of the lists." in " ".join(said.out.split())


def test_rows_that_are_not_explained_are_counted(run, folder, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    frame.loc[[3, 60], "job"] = "chef"
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = run("reasons", folder / "model", "--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv")
    assert "missing where none of them missed it: 2, rows 3, 60 (counted from 0)" in " ".join(found.out.split())
    assert not set(pd.read_csv(tmp_path / "r.csv")["row"]) & {3, 60}


def test_text_that_looks_like_numbers_stays_text(run, tmp_path):
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame({"code": drawn.choice(["01", "02", "x3"], 90), "age": drawn.normal(size=90)})
    y = (frame["code"] == "01").to_numpy()
    StableClassifier(k=1, network="additive", epochs=10, random_state=0).fit(frame, y).save(tmp_path / "model")
    frame[frame["code"] != "x3"].to_csv(tmp_path / "new.csv", index=False)
    found = run("reasons", tmp_path / "model", "--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv", "--json")
    assert found.json()["not_explained"] == 0
    table = pd.read_csv(tmp_path / "r.csv", dtype=str)
    assert set(table[table["column"] == "code"]["value"]) <= {"01", "02"}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
@pytest.mark.usefixtures("few_at_once")
def test_what_is_interrupted_leaves_the_old_file(run, folder, tmp_path, monkeypatch, failure):
    output = tmp_path / "r.csv"
    output.write_text("of yesterday")
    real, calls = StableClassifier.reasons, []

    def reasons(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise failure
        return real(self, *arguments, **options)

    monkeypatch.setattr(StableClassifier, "reasons", reasons)
    found = run("reasons", folder / "model", "--data", folder / "new.csv", "-o", output)
    assert found.code == (130 if failure is KeyboardInterrupt else 2)
    assert output.read_text() == "of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize("suffix", READ)
def test_a_full_disk_ends_with_a_sentence(run, folder, tmp_path, suffix):
    output = tmp_path / f"r{suffix}"
    with no_file_above(1000):
        found = run("reasons", folder / "model", "--data", folder / "new.csv", "-o", output, "--no-proof")
    assert found.code == 2
    assert found.err == f"error: cannot write {str(output)!r}: File too large\n"
    assert not list(tmp_path.iterdir())


def test_a_file_without_any_reason_is_a_table_too(run, folder, tmp_path, fitted):
    frame = pd.read_csv(folder / "new.csv")
    told = expected(fitted, folder, toward="refuse", proven=False, exclude=["pay", "owns", "grade", "job", "age"])
    frame.loc[told.attrs["rows_without_reasons"]].to_csv(tmp_path / "new.csv", index=False)
    arguments = ("--exclude", "pay,owns,grade,job,age", "--toward", "refuse", "--no-proof")
    for suffix, read in READ.items():
        output = tmp_path / f"r{suffix}"
        found = run(
            "reasons", folder / "model", "--data", tmp_path / "new.csv", "-o", output, *arguments, "--json"
        )
        assert found.json()["reasons"] == 0
        if suffix != ".jsonl":
            assert read(output).columns.tolist() == told.columns.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "r.xls"), "reasons are written to .csv, .jsonl"),
        (("-o", "DATA"), "is the file of the rows: give the reasons another name"),
        (("-o", "r.csv", "--toward", "refuze"), "did you mean 'refuse'"),
        (("-o", "r.csv", "--exclude", "agee"), "did you mean 'age'"),
        (("-o", "r.csv", "--exclude", "age,,pay"), "--exclude takes names separated by commas"),
        (("-o", "r.csv", "--n", "0"), "n must be a whole number of at least 1"),
        (("-o", "r.csv", "--phrases", "none.json"), "--phrases takes a JSON file"),
    ],
)
def test_what_cannot_be_done(run, folder, tmp_path, arguments, message):
    places = {"DATA": folder / "new.csv", **{name: tmp_path / name for name in ("r.csv", "r.xls", "none.json")}}
    given = [str(places.get(argument, argument)) for argument in arguments]
    before = (folder / "new.csv").read_bytes()
    found = run("reasons", folder / "model", "--data", folder / "new.csv", *given)
    assert found.code == 2
    assert message in found.err
    assert not list(tmp_path.iterdir())
    assert (folder / "new.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read as a table"),
        ("age,job,smokes,grade,owns,pay\n", "has no rows"),
        (
            "age,jobb,smokes,grade,owns,pay\n30,cook,True,a,1,2\n",
            "no column 'job', which the model needs: did you mean 'jobb'",
        ),
        ("age,job,smokes,grade,owns,pay\nold,cook,True,a,1,2\n", "'age'"),
    ],
)
def test_files_that_do_not_fit(run, folder, tmp_path, content, message):
    (tmp_path / "new.csv").write_text(content)
    found = run("reasons", folder / "model", "--data", tmp_path / "new.csv", "-o", tmp_path / "r.csv")
    assert found.code == 2, found.err
    assert message in found.err
    assert not (tmp_path / "r.csv").exists()


def test_a_model_that_is_no_estimator(run, folder, tmp_path):
    import r2et

    r2et.save_model(r2et.models.MLP(3, 2), tmp_path / "net")
    found = run("reasons", tmp_path / "net", "--data", folder / "new.csv", "-o", tmp_path / "r.csv")
    assert found.code == 2
    assert "is neither a StableClassifier nor a StableRegressor" in found.err
