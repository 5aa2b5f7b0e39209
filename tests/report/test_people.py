"""The page in a person's words, for a model whose lists are known in closed form."""

import json
import re
from dataclasses import replace

import pytest

from r2et import report
from r2et.auditing import Source
from r2et.explainers import Background, Contributions
from tests.report.test_page import Page
from tests.tables_in_units import COLUMNS, audited

SOURCE = Source(
    data="people.csv",
    sha256="ab" * 32,
    rows=1200,
    drawn="6 of the 240 rows that training did not see, drawn at random (--limit)",
    target="Status",
    left_out={"row": "row number", "name": ""},
    unseen=6,
    numbered=True,
)


@pytest.fixture(scope="module")
def audit():
    return replace(audited(), source=SOURCE, name="plain")


@pytest.fixture(scope="module")
def page(audit):
    return Page(report.render(audit))


def test_the_decision_is_of_the_target(page):
    assert "Row person 3: Status = good (probability 100 %)" in page.text
    assert page.data["classes"] == ["Status = bad", "Status = good"]
    assert "class 1" not in page.text


def test_what_was_changed_is_in_the_person_s_units(audit, page):
    (income,) = (change for change in audit.own.changes(3, 1) if change.column == "Income")
    assert int(income.becomes) >= 2500
    assert f"Income 2400 → {income.becomes}" in page.text
    row = page.data["models"][0]["rows"]["3"]
    assert row["changes"][0] == [[c.column, c.was, c.becomes] for c in audit.own.changes(3, 0)]
    assert ["Income", "2400", income.becomes] in row["changes"][1]
    assert row["moved"] == []


def test_lists_have_the_person_s_own_values(page):
    rows = page.data["models"][0]["rows"]
    age = next(number for number, name in page.data["features"].items() if name == "Age")
    assert [rows[str(row)]["values"].get(age) for row in range(4)] == ["40"] * 4
    assert "Reasons Age: 40" in page.text
    assert page.data["own"]
    assert page.data["what"] == "column"


def test_only_what_is_listed_or_changed_is_in_the_page(audit, page):
    # nobody's records are a reason, and they never change
    assert "yes" not in json.dumps(page.data)
    few = replace(audit, own=replace(audit.own, x=audit.own.x))
    shown = Page(report.render(few)).data
    assert shown["names"] == {str(row): f"person {row}" for row in range(6)}


def test_rows_that_are_not_shown_leave_nothing_behind(audit, monkeypatch):
    monkeypatch.setattr("r2et.report.embedding.chosen_rows", lambda audits: [3])
    text = report.render(audit)
    assert list(Page(text).data["models"][0]["rows"]) == ["3"]
    hidden = {f"person {row}" for row in range(6)} - {example.row for example in audit.examples()} - {"person 3"}
    assert hidden
    assert not [name for name in hidden if name in text]


def test_where_it_comes_from_is_at_the_end(page):
    told = page.text[page.text.index("Where this comes from") :]
    for part in (
        "file people.csv, sha256 abababababab...",
        "rows in the file 1,200",
        "rows audited 6 of the 240 rows that training did not see",
        "of these not in the training 6",
        "to predict Status",
        "columns left out row (row number), name",
        "attack WorstCase-2, effort fast",
        "radii 0.05, 0.5",
        "versions r2et",
    ):
        assert part in told
    assert "ab" * 32 not in told


def test_rows_of_a_file_are_counted_as_people_do(page):
    assert "Rows are called by their number in people.csv, counted from 1 after the line of names." in page.text
    assert "hand it on with the care" in page.text


def test_the_first_sentences_say_what_holds_and_whose_lists_they_are(audit, page):
    start = page.text.index("P@1 at radius 0.5: at most 50.0 %")
    assert start < page.text.index("The lists differ between rows") < page.text.index("A change of norm at most")
    assert page.text.index("The lists differ between rows") - start < 100


def test_reasons_for_a_class_may_be_fewer_than_k():
    background = Background(((0.0, 0.0, 0.0), (0.5, 0.0, 0.0)))
    explainer = Contributions(columns=COLUMNS, background=background)
    audit = audited(explainer=explainer, k=2)
    text = report.render(audit)
    page = Page(text)
    assert "at most 2 of 3, that speak most for the predicted class" in page.text
    rows = page.data["models"][0]["rows"]
    for number, names in enumerate(audit.samples.top[:, 0].tolist()):
        before = rows[str(number)]["before"][0]
        assert [reason[0] for reason in before] == [i for i in names if i >= 0]
        assert all(reason[1] > 0 for reason in before)
        gone = [reason for reason in before if reason[2][1] == "0"]
        assert rows[str(number)]["lost"][1] == len(gone)
    assert "-1" not in page.data["features"]
    assert re.search(r"background\s*</th><td>2 rows that are nobody", text)
