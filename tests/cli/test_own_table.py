"""From a CSV of one's own to a model, a report, a hardened model and a comparison: the newcomer's path."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.predictors import open_model
from tests.test_cli import at_80_columns

ROWS = 120
QUICK = ("--budget", "fast", "--steps", 2, "--radii", "0.5")


def people(rows: int = ROWS) -> pd.DataFrame:
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(20, 70, rows),
            "pay": drawn.lognormal(3.0, 1.0, rows).round(2),
            "visits": drawn.poisson(4, rows),
            "job": drawn.choice(["cook", "nurse", "pilot"], rows),
            "member": drawn.random(rows) < 0.4,
        }
    )
    value = (frame["age"] - 45) / 10 + 2 * frame["member"] + (frame["job"] == "pilot") + drawn.normal(size=rows)
    frame.insert(2, "bought", np.where(value > 1, "yes", "no"))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """people.csv, and in plain/ a model of it, left alone by the tests."""
    made = tmp_path_factory.mktemp("own")
    people().to_csv(made / "people.csv", index=False)
    with pytest.raises(SystemExit) as caught:
        r2et_main(
            *("train", "--data", made / "people.csv", "--target", "bought", "--method", "vanilla"),
            *("--epochs", 5, "-o", made / "plain"),
        )
    assert not caught.value.code
    return made


def r2et_main(*arguments: object) -> None:
    from r2et.cli import main

    main([str(argument) for argument in arguments])


def held_out(folder) -> pd.DataFrame:
    origin = open_model(folder / "plain").origin
    return people().iloc[list(origin.held_out)]


def test_the_whole_path(run, folder, tmp_path):
    data = ("--data", folder / "people.csv", "--target", "bought")
    hardened = run("train", *data, "--set", "gap=0.1", "--epochs", 3, "-o", tmp_path / "hardened")
    assert hardened.code == 0, hardened.err
    at_80_columns(hardened.out.replace(str(tmp_path), ""))
    assert "R2ET scale-free on people.csv, trained on 96 rows: accuracy" in " ".join(hardened.out.split())
    page = tmp_path / "pages" / "report.html"
    found = run("audit", folder / "plain", *data, *QUICK, "--compare", tmp_path / "hardened", "--report", page)
    assert found.code == 0, found.err
    at_80_columns(found.out.replace(str(tmp_path), ""))
    for part in ("--- plain ---", "--- hardened ---", "24 rows that training did not see", "worst case found"):
        assert part in " ".join(found.out.split()), found.out
    assert "Are the lists about single inputs? Kappa, proven to attacked" in " ".join(found.out.split())
    assert len([line for line in found.out.splitlines() if line.strip("│ ").startswith("by chance")]) == 3
    text = page.read_text()
    for part in ("plain", "hardened", "job", "member"):
        assert part in text


def test_train_as_json(run, folder, tmp_path):
    data = ("--data", folder / "people.csv", "--target", "bought", "--method", "linear", "--epochs", 2)
    found = run("train", *data, "-o", tmp_path / "linear", "--json").json()
    assert found["classes"] == ["no", "yes"]
    assert (found["rows"], found["held_out"], found["k"], found["features"]) == (96, 24, 2, 7)
    fitted = r2et.StableClassifier.load(tmp_path / "linear")
    assert fitted.feature_names_in_.tolist() == ["age", "pay", "visits", "job", "member"]
    rest = held_out(folder)
    assert found["accuracy"] == pytest.approx(fitted.score(rest.drop(columns="bought"), rest["bought"]))
    assert sorted(path.suffix for path in (tmp_path / "linear").iterdir()) == [".json", ".safetensors"]
    saved = json.loads((tmp_path / "linear" / "checkpoint.json").read_text())["information"]["origin"]
    assert sorted(saved) == ["dropped", "format", "held_out", "rows", "sha256", "target"], "row numbers, not data"


def test_train_is_the_estimator_on_the_rows_that_are_not_held_out(folder):
    origin = open_model(folder / "plain").origin
    assert origin.target == "bought"
    assert origin.rows == ROWS
    train = people().drop(index=list(origin.held_out))
    fitted = r2et.StableClassifier(k=2, method="vanilla", epochs=5, random_state=0)
    fitted.fit(train.drop(columns="bought"), train["bought"].to_numpy())
    x = fitted.encode(people().drop(columns="bought"))
    saved = r2et.StableClassifier.load(folder / "plain")
    assert torch.equal(saved.model_(x), fitted.model_(x))


def test_the_audit_is_the_classifier_s(run, folder):
    found = run("audit", folder / "plain", "--data", folder / "people.csv", *QUICK, "--json").json()
    rest = held_out(folder)
    fitted = r2et.StableClassifier.load(folder / "plain")
    expected = fitted.audit(
        rest.drop(columns="bought"), rest["bought"], budget="fast", steps=2, radii=(0.5,)
    ).to_dict()
    assert found.pop("model") == str(folder / "plain")
    assert found.pop("data") == "people.csv"
    origin, examples = found.pop("provenance"), found.pop("examples")
    assert (origin["data"], origin["target"], origin["file_rows"], origin["unseen"]) == (
        "people.csv",
        "bought",
        ROWS,
        24,
    )
    own = json.loads(json.dumps(expected))
    assert own.pop("provenance")["target"] == "bought"
    # a file counts its rows from 1, the index of the frame from 0
    assert [{**entry, "row": str(int(entry["row"]) + 1)} for entry in own.pop("examples")] == examples
    assert own == found
    assert found["rows"] == 24


NOISE = ("--attack", "noise")


def test_all_rows_other_files_and_limits(run, folder, tmp_path):
    def rows(path, *options) -> int:
        found = run("attack", folder / "plain", "--data", path, *NOISE, *options, "--json").json()
        return found["attacks"][0]["rows"]

    assert rows(folder / "people.csv") == 24
    assert rows(folder / "people.csv", "--all-rows") == ROWS
    # another file is not the one of the training, whatever its rows are
    people().head(30).to_csv(tmp_path / "others.csv", index=False)
    assert rows(tmp_path / "others.csv") == 30
    found = run("attack", folder / "plain", "--data", folder / "people.csv", *NOISE, "--limit", 10)
    assert "10 of the 24 rows that training did not see, drawn at random" in " ".join(found.out.split())


def test_attack_and_certify_take_the_same_models(run, folder):
    data = (folder / "plain", "--data", folder / "people.csv", "--limit", 6)
    attacked = run("attack", *data, "--attack", "er", "--steps", 2, "--threat", "domain", "--json").json()
    assert attacked["attacks"][0]["rows"] == 6
    certified = run("certify", *data, "--threat", "tangent", "--json").json()
    assert certified["sound"] is True
    assert certified["threat"] == "tangent"
    assert certified["assumptions"][0].startswith("threat tangent")
    assert len(certified["radius"]) == 6


def test_columns_in_another_order_and_more_of_them(run, folder, tmp_path):
    frame = people()[["job", "bought", "member", "visits", "pay", "age"]].assign(extra="x")
    frame.to_csv(tmp_path / "other.csv", index=False)
    options = ("--all-rows", "--target", "bought", "--attack", "er", "--steps", 2, "--json")
    first, second = (
        run("attack", folder / "plain", "--data", path, *options).json()["attacks"][0]["precision"]
        for path in (folder / "people.csv", tmp_path / "other.csv")
    )
    assert first == second


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_done(run, folder, tmp_path, monkeypatch):
    from r2et.auditing import chunks

    seen = []
    chunk = chunks._Chunks._chunk

    def interrupted(self, rows, *rest):
        if seen:
            raise KeyboardInterrupt
        seen.append(rows)
        return chunk(self, rows, *rest)

    monkeypatch.setattr(chunks._Chunks, "_chunk", interrupted)
    monkeypatch.setattr("r2et.auditing.subjects.Subject.rows_at_once", 5)
    page = tmp_path / "report.html"
    found = run("audit", folder / "plain", "--data", folder / "people.csv", *QUICK, "--report", page)
    assert found.code == 130
    assert "Traceback" not in found.err
    assert "interrupted" in found.err
    assert "only the first 5 of 24 inputs were audited" in " ".join(found.out.split())
    assert page.exists()


def test_an_interrupt_of_the_second_model_keeps_the_first(run, folder, tmp_path, monkeypatch):
    from r2et.auditing.subjects import Subject

    audit, calls = Subject.audit, []

    def second(self, *rest, **options):
        calls.append(self.name)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return audit(self, *rest, **options)

    monkeypatch.setattr(Subject, "audit", second)
    page = tmp_path / "report.html"
    data = ("--data", folder / "people.csv", *QUICK)
    found = run("audit", folder / "plain", *data, "--compare", folder / "plain", "--report", page, "--json")
    assert found.code == 130
    assert json.loads(found.out)["complete"] is True
    assert page.exists()


# --- mistakes -------------------------------------------------------------------------------------------------

BAD_TABLES = {
    "no target": ("{csv}", [], ["--target", "age, pay"]),
    "unknown target": ("{csv}", ["--target", "bougt"], ["'bougt'", "did you mean 'bought'?"]),
    "unknown column": ("{csv}", ["--target", "bought", "--columns", "age,pai"], ["'pai'", "did you mean 'pay'?"]),
    "empty column name": ("{csv}", ["--target", "bought", "--columns", "age,,pay"], ["--columns", "'age,,pay'"]),
    "missing file": ("{folder}/none.csv", ["--target", "bought"], ["there is no file"]),
    "folder": ("{folder}/plain", ["--target", "bought"], ["is a folder"]),
    "empty file": ("{folder}/empty.csv", ["--target", "bought"], ["cannot be read as a table"]),
    "one class": ("{folder}/one.csv", ["--target", "bought"], ["'bought'", "one value", "'yes'"]),
    "target of numbers": ("{csv}", ["--target", "pay"], ["'pay'", "different values", "not a class"]),
    "categorical": ("{csv}", ["--target", "bought", "--categorical", "zip"], ["'zip'"]),
    "k": ("{csv}", ["--target", "bought", "-k", "0"], ["k=0"]),
    "test fraction": ("{csv}", ["--target", "bought", "--test-fraction", "1"], ["--test-fraction", "1"]),
    "epochs": ("{csv}", ["--target", "bought", "--epochs", "0"], ["epochs=0"]),
    "--from": ("{csv}", ["--target", "bought", "--from", "x"], ["--from is for the data sets"]),
    "--resume": ("{csv}", ["--target", "bought", "--resume"], ["--resume is for the data sets"]),
    "--preset": ("{csv}", ["--target", "bought", "--preset", "paper"], ["--preset is for the data sets"]),
    "--columns of a data set": (
        "breast-cancer",
        ["--columns", "a"],
        ["--columns", "'breast-cancer' is a data set"],
    ),
    "a name with a slash": ("data/adult", ["--target", "y"], ["there is no file 'data/adult'"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_of_train(run, folder, tmp_path, monkeypatch, name):
    data, options, parts = BAD_TABLES[name]
    monkeypatch.chdir(tmp_path)
    people().assign(bought="yes").to_csv(folder / "one.csv", index=False)
    (folder / "empty.csv").write_text("")
    error = run(
        "train", "--data", data.format(csv=folder / "people.csv", folder=folder), *options, "-o", tmp_path / "run"
    ).error()
    for part in parts:
        assert part in error
    assert list(tmp_path.iterdir()) == [], "nothing is written"


BAD_AUDITS = {
    "no data": ([], ["trained on a file of your own", "--data file.csv", "'bought'"]),
    "a data set": (["--data", "breast-cancer"], ["is an estimator of tables", "--data file.csv"]),
    "classes": (["--data", "{csv}", "--classes", "yes,no"], ["knows its classes"]),
    "an option": (["--data", "{csv}", "--option", "size=3"], ["--option is for the data sets"]),
    "a column that is gone": (
        ["--data", "{csv}", "--columns", "age,pay"],
        ["no column 'visits', 'job', 'member'"],
    ),
    "k": (["--data", "{csv}", "-k", "7"], ["k=7", "5 features"]),
    "a report that is a folder": (["--data", "{csv}", "--report", "{folder}"], ["is a folder"]),
    "a report below a file": (["--data", "{csv}", "--report", "{csv}/a.html"], ["is not a folder"]),
    "budget": (["--data", "{csv}", "--budget", "fats"], ["unknown budget 'fats'", "did you mean 'fast'?"]),
    "weights": (["--data", "{csv}", "--weights", "a.safetensors"], ["belong to package.module:factory"]),
    "compare": (["--data", "{csv}", "--compare", "nothing"], ["there is no model 'nothing'"]),
    "compare weights": (["--data", "{csv}", "--compare-weights", "a.safetensors"], ["--compare"]),
    "new labels": (["--data", "{folder}/new.csv"], ["'perhaps'", "'no', 'yes'"]),
}


@pytest.mark.parametrize("name", BAD_AUDITS)
def test_bad_audits(run, folder, name):
    options, parts = BAD_AUDITS[name]
    frame = people()
    frame.loc[3, "bought"] = "perhaps"
    frame.to_csv(folder / "new.csv", index=False)
    given = [option.format(csv=folder / "people.csv", folder=folder) for option in options]
    error = run("audit", folder / "plain", *given).error()
    for part in parts:
        assert part in error
