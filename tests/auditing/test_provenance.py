"""Where figures come from: every fact is the file's or the run's own."""

import datetime
import hashlib
import platform
from importlib import metadata

import pandas as pd
import pytest
import torch

import r2et
from r2et.auditing import Made, Source, choose_rows, from_table
from r2et.auditing.provenance import in_short, in_words
from r2et.explainers import Background, Contributions
from r2et.predictors import OpenedModel
from tests.auditing.toys import strict_json
from tests.tables_in_units import COLUMNS, audited

QUICK = {"k": 1, "radii": (0.3,), "budget": "fast", "steps": 2, "certificate": False}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A file of 60 rows, with a column that the model does not see."""
    path = tmp_path_factory.mktemp("file") / "people.csv"
    draws = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)).numpy()
    frame = pd.DataFrame({"age": (40 + 10 * draws[:, 0]).round(), "pay": (2000 + 500 * draws[:, 1]).round(2)})
    frame["job"] = ["cook", "nurse", "pilot"] * 20
    frame["shoe"] = range(60)
    frame["bought"] = ["no" if pay < 2000 else "yes" for pay in frame["pay"]]
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def subject(people):
    table = r2et.tables.read_table(people, "bought")
    chosen = ["age", "pay", "job"]
    fitted = r2et.StableClassifier(k=1, settings={"gap": 0.1, "curvature": 0.1}, epochs=2, random_state=0)
    fitted.fit(table.frame[chosen], table.labels)
    opened = OpenedModel("plain", "plain", "checkpoint", fitted.model_, estimator=fitted)
    rows, which = choose_rows(table, limit=12)
    return from_table(opened, table, rows, which=which), table, rows


def test_the_file_is_named_with_its_checksum(subject, people):
    told = subject[0].audit(**QUICK).to_dict()["provenance"]
    assert told["sha256"] == hashlib.sha256(people.read_bytes()).hexdigest()
    assert (told["data"], told["file_rows"], told["rows"], told["target"]) == ("people.csv", 60, 12, "bought")
    assert told["left_out"] == {"shoe": ""}
    assert told["drawn"] == "12 of the 60 rows, drawn at random (--limit)"
    assert told["unseen"] is None
    assert str(people.parent) not in str(told)
    assert strict_json(told) == told


def test_rows_are_called_by_their_number_in_the_file_counted_from_1(subject):
    audited, table, rows = subject
    audit = audited.audit(**QUICK)
    assert [audit.row_name(row) for row in range(12)] == [str(number + 1) for number in rows]
    for row, number in enumerate(rows):
        for column, name in enumerate(("age", "pay", "job")):
            own = table.frame.iloc[number][name]
            value = audit.own.value(row, column)
            assert value == own if name == "job" else float(value) == own
        assert audit.decision(row).startswith("bought = ")


def test_versions_and_the_date_are_those_of_the_run():
    made = Made.now()
    assert made.date == datetime.date.today().isoformat()
    assert (made.torch, made.python) == (metadata.version("torch"), platform.python_version())
    told = audited().provenance()
    assert told["versions"]["torch"] == made.torch
    assert told["recipe"] == "WorstCase-2"


def test_the_background_of_contributions_is_named():
    background = Background(((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)))
    audit = audited(explainer=Contributions(columns=COLUMNS, background=background))
    told = audit.provenance()
    assert told["background"] == {"rows": 2, "sha256": background.sha256}
    lines = dict(in_words(told))
    assert lines["background"].startswith("2 rows that are nobody")
    assert background.sha256[:12] in lines["background"]
    assert audit.direction == "positive"
    assert audited().provenance()["background"] is None


def test_what_is_unknown_is_left_out_of_the_words():
    audit = audited()
    names = [name for name, _ in in_words(audit.provenance())]
    assert "file" not in names
    assert "columns left out" not in names
    assert in_short(audit.provenance()) == ""
    assert all(text for _, text in in_words(audit.provenance()))


def test_many_left_out_columns_are_counted():
    told = dict(in_words({"left_out": {f"c{i}": "an id" if i == 0 else "" for i in range(20)}}))
    assert told["columns left out"].startswith("c0 (an id), c1, ")
    assert told["columns left out"].endswith("c11, and 8 more")


def test_a_source_says_nothing_by_itself():
    assert Source() == Source(data="", sha256="", rows=None, left_out={})
