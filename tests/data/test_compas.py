from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from r2et import data
from r2et.data import compas
from r2et.errors import DataError
from r2et.tables.declared import checked
from r2et.tables.encoding import Encoding
from r2et.tables.files import read_texts

from . import files

NAMES = (
    "age",
    "priors",
    "juvenile felonies",
    "juvenile misdemeanours",
    "other juvenile counts",
    "days between screening and arrest",
    "days in jail",
    "male",
    "felony charge",
    "under 25",
    "race: African-American",
    "race: Asian",
    "race: Caucasian",
    "race: Hispanic",
    "race: Native American",
    "race: Other",
)
FILE = "compas-scores-two-years.csv"


@pytest.mark.usefixtures("synthetic")
def test_names_and_targets() -> None:
    score, recidivism = data.load("compas"), data.load("compas", target="two_year_recid")
    assert score.feature_names == recidivism.feature_names == NAMES
    assert score.class_names == ("low", "medium or high")
    assert recidivism.class_names == ("no new crime", "new crime in 2 years")
    assert score.domain.groups == ((10, 11, 12, 13, 14, 15),)


def test_targets_come_from_their_columns(synthetic: Path) -> None:
    raw = pd.read_csv(synthetic / "compas" / FILE, keep_default_na=False)[:150]
    for target, expected in (("score", raw.score_text != "Low"), ("two_year_recid", raw.two_year_recid == 1)):
        made = data.load("compas", target=target)
        assert sum(int(s.y.sum()) for s in (made.train, made.validation, made.test)) == expected.sum()


def test_rows_by_hand(synthetic: Path) -> None:
    frame = read_texts(synthetic / "compas" / FILE, compas.COLUMNS)[:2].copy()
    frame.iloc[0] = [
        *("Male", "24", "Less than 25", "Hispanic", "1", "2", "3", "4", "-5"),
        *("2013-08-13 06:00:00", "2013-08-15 18:00:00", "F", "0", "Low", "0"),
    ]
    frame.iloc[1] = [
        *("Female", "60", "Greater than 45", "Other", "0", "0", "0", "0", "0"),
        *("2013-08-13 06:00:00", "2013-08-13 00:00:00", "M", "0", "Low", "0"),
    ]
    days = compas.days_in_jail(frame)
    assert days.tolist() == [2.5, 0.0]
    columns = checked(frame.assign(**{"days in jail": days}), compas.FEATURES)
    encoding = Encoding.declared(compas.FEATURES, columns)
    assert encoding.names == NAMES
    np.testing.assert_array_equal(
        columns.iloc[:, :7].astype(float), [[24, 4, 1, 2, 3, -5, 2.5], [60, 0, 0, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(
        encoding.encode(columns)[:, 7:], [[1, 1, 1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1]]
    )


@pytest.mark.usefixtures("synthetic")
def test_filter_leaves_the_good_rows(synthetic: Path) -> None:
    frame = read_texts(synthetic / "compas" / FILE, compas.COLUMNS)
    assert len(frame) == 155
    assert compas.usual_filter(frame).index.tolist() == frame.index[:150].tolist()


def test_the_public_file_gives_the_same_and_names_are_never_read(
    synthetic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = data.load("compas")
    assert len(files.PUBLIC_COMPAS) == 53
    files.write_compas(synthetic, columns=files.PUBLIC_COMPAS)
    read: list[pd.DataFrame] = []
    original = pd.read_csv

    def recorded(*args, **kwargs):
        read.append(original(*args, **kwargs))
        return read[-1].copy()

    monkeypatch.setattr(pd, "read_csv", recorded)
    public = data.load("compas")
    with_rows = [frame for frame in read if len(frame)]
    assert with_rows
    for frame in with_rows:
        assert set(frame.columns) == set(compas.COLUMNS)
        assert not (frame == "SECRET").any(axis=None)
    for name in ("train", "validation", "test"):
        assert torch.equal(getattr(public, name).x, getattr(short, name).x)
        assert torch.equal(getattr(public, name).y, getattr(short, name).y)


def test_nothing_personal_is_among_the_columns() -> None:
    personal = {"id", "name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number"}
    outcome = {"decile_score", "score_text", "is_recid", "two_year_recid"}
    assert not personal & set(compas.COLUMNS)
    assert not outcome & {feature.column for feature in compas.FEATURES}


class TestBadFiles:
    def test_missing_columns(self, synthetic: Path) -> None:
        files.write_compas(synthetic, columns=[c for c in compas.COLUMNS if c not in ("race", "score_text")])
        with pytest.raises(DataError, match=rf"{FILE} has no column 'race', 'score_text'"):
            data.load("compas")

    @pytest.mark.parametrize("characters", [3, 5, 10, 30, 50, 60, 70])
    def test_cut_short(self, synthetic: Path, characters: int) -> None:
        files.cut_short(synthetic / "compas" / FILE, characters)
        with pytest.raises(DataError, match=FILE):
            data.load("compas")

    @pytest.mark.parametrize(
        ("column", "value"), [("race", "Martian"), ("is_recid", "2"), ("c_charge_degree", "X"), ("age", "old")]
    )
    def test_unknown_value(self, synthetic: Path, column: str, value: str) -> None:
        files.change_field(synthetic / "compas" / FILE, 4, compas.COLUMNS.index(column), value)
        with pytest.raises(DataError, match=rf"row 4 of .*{FILE} has '{value}' in column '{column}'"):
            data.load("compas")

    def test_a_stay_without_an_end(self, synthetic: Path) -> None:
        files.change_field(synthetic / "compas" / FILE, 4, compas.COLUMNS.index("c_jail_out"), "")
        with pytest.raises(DataError, match=r"row 4 of .*'days in jail'"):
            data.load("compas")

    def test_no_row_passes_the_filter(self, synthetic: Path) -> None:
        files.write_compas(synthetic, rows=0)
        with pytest.raises(DataError, match=rf"{FILE} has no row that passes"):
            data.load("compas")


@files.needs_real_files
def test_real_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    for target, positive in (("score", 1607 + 1144), ("two_year_recid", 2809)):
        made = data.load("compas", target=target)
        assert sum(int(split.y.sum()) for split in (made.train, made.validation, made.test)) == positive
    race = sum(split.x[:, 10:].sum(0) for split in (made.train, made.validation, made.test))
    assert torch.as_tensor(race).tolist() == [3175, 31, 2103, 509, 11, 343]
