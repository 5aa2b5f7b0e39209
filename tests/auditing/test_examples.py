"""Single rows in words: against a model whose lists are known in closed form."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import torch

from r2et.auditing.examples import Reason, changes_in_words
from r2et.tables.units import Change
from tests.auditing.toys import strict_json
from tests.tables_in_units import audited


@pytest.fixture(scope="module")
def audit():
    return audited()


def test_an_example_is_true_of_the_person(audit):
    by_row = {example.row: example for example in audit.examples(6)}
    assert by_row.keys() == {f"person {number}" for number in range(6)}
    person = by_row["person 3"]
    assert person.decision == "Status = good (probability 100 %)"
    assert (person.label, person.correct, person.radius) == ("Status = good", True, 0.5)
    assert list(map(str, person.before)) == ["Age: 40"]
    (after,) = person.after
    income = next(change for change in person.changes if change.column == "Income")
    assert (after.name, after.value) == ("Income", income.becomes)
    wrong = by_row["person 5"]
    assert (wrong.label, wrong.correct, wrong.radius) == ("Status = bad", False, None)
    assert list(map(str, wrong.before)) == ["Income: 3000"]
    assert (wrong.changes, wrong.after) == ((), ())


def test_the_most_fragile_rows_are_first_and_no_others_are_told(audit):
    told = audit.to_dict()["examples"]
    assert [entry["row"] for entry in told] == [
        f"person {row}" for row in audit.samples.most_fragile()[:5].tolist()
    ]
    (left,) = {f"person {row}" for row in range(6)} - {entry["row"] for entry in told}
    assert left not in str(told)
    assert strict_json(told) == told


def test_a_terminal_shows_what_was_changed(audit):
    text = audit.summary()
    assert re.search(r"Row person [234]: Status = good \(probability 100 %\)\.", text)
    assert "Reasons: Age: 40." in text
    assert re.search(r"Changed: Income 2400 → 2[5-6]\d\d", " ".join(text.split()))
    assert all(len(line) <= 80 for line in text.splitlines())


def test_changes_are_a_frame(audit):
    frame = audit.changes()
    assert frame.columns.tolist() == ["row", "radius", "precision", "column", "was", "becomes"]
    assert isinstance(frame, pd.DataFrame)
    told = frame[(frame["row"] == "person 3") & (frame["radius"] == 0.5) & (frame["column"] == "Income")]
    assert told["was"].tolist() == ["2400"]
    assert told["precision"].tolist() == [0.0]
    assert not frame["column"].eq("Records").any()


def test_without_units_there_are_no_examples(report):
    assert report.examples() == []
    assert report.to_dict()["examples"] == []
    assert report.changes().empty
    assert "Changed:" not in report.summary()


def test_an_empty_place_of_a_list_is_no_reason(audit):
    samples = replace(
        audit.samples,
        top=torch.full_like(audit.samples.top, -1),
        top_scores=torch.zeros_like(audit.samples.top_scores),
    )
    shorter = replace(audit, samples=samples, direction="positive")
    assert all(example.before == () for example in shorter.examples())
    assert "Reasons: none." in shorter.summary()


def test_signed_scores_say_for_or_against(audit):
    signed = replace(audit, direction="signed")
    (reason,) = signed.examples(1)[0].before
    assert reason.direction == "for"
    assert str(Reason("Age", "40", -1.0, "against")) == "Age: 40 (against)"
    assert audit.examples(1)[0].before[0].direction == ""


def test_nothing_is_told_as_nothing():
    assert changes_in_words(()) == "nothing that is as large as one step of a column"
    assert changes_in_words([Change("a", "1", "2")], 2) == "a 1 → 2 and 2 more columns"
