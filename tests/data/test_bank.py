from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import bank
from r2et.errors import DataError
from r2et.tables.declared import checked
from r2et.tables.encoding import Encoding
from r2et.tables.files import read_texts

from . import files

NAMES = (
    "age",
    "balance",
    "day",
    "campaign",
    "pdays",
    "previous",
    "default",
    "housing",
    "loan",
    "cellular contact",
    "previous outcome success",
    "marital: married",
    "marital: single",
    "marital: divorced",
    "education: primary",
    "education: secondary",
    "education: tertiary",
    "education: unknown",
)
COLUMNS = [feature.column for feature in bank.FEATURES]


def test_a_row_by_hand(synthetic: Path) -> None:
    path = synthetic / "bank" / "bank-full.csv"
    header = path.read_text().splitlines()[0]
    row = '58;"management";"single";"unknown";"no";2143;"yes";"no";"cellular";5;"may";261;1;-1;2;"success";"no"'
    frame = checked(read_texts(files.write_lines(path, [header, row]), COLUMNS, separator=";"), bank.FEATURES)
    encoding = Encoding.declared(bank.FEATURES, frame)
    assert encoding.names == NAMES
    np.testing.assert_array_equal(frame.iloc[0, :11].astype(float), [58, 2143, 5, 1, 0, 2, 0, 1, 0, 1, 1])
    np.testing.assert_array_equal(encoding.encode(frame)[0, 6:], [0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1])
    assert encoding.domain.groups == ((11, 12, 13), (14, 15, 16, 17))


@pytest.mark.usefixtures("synthetic")
def test_names() -> None:
    made = data.load("bank")
    assert made.feature_names == NAMES
    assert made.class_names == ("no", "yes")


def test_duration_is_not_read(synthetic: Path) -> None:
    files.change_field(synthetic / "bank" / "bank-full.csv", 1, 11, "not a number", separator=";")
    assert "duration" not in data.load("bank").feature_names


class TestBadFiles:
    def test_missing_columns(self, synthetic: Path) -> None:
        path = synthetic / "bank" / "bank-full.csv"
        path.write_text(path.read_text().replace('"balance"', '"V6"').replace('"y"\n', '"Class"\n'))
        with pytest.raises(DataError, match=r"bank-full\.csv has no column 'balance', 'y'"):
            data.load("bank")

    @pytest.mark.parametrize("characters", [1, 4, 5, 6, 20, 40, 60])
    def test_cut_short(self, synthetic: Path, characters: int) -> None:
        files.cut_short(synthetic / "bank" / "bank-full.csv", characters)
        with pytest.raises(DataError, match=r"bank-full\.csv"):
            data.load("bank")

    def test_unknown_category(self, synthetic: Path) -> None:
        files.change_field(synthetic / "bank" / "bank-full.csv", 3, 8, '"pigeon"', separator=";")
        with pytest.raises(DataError, match=r"row 3 of .*'pigeon' in column 'contact'.* 'cellular'"):
            data.load("bank")


@files.needs_real_files
def test_real_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    made = data.load("bank")
    x, y = (
        torch.cat([getattr(split, part) for split in (made.train, made.validation, made.test)])
        for part in ("x", "y")
    )
    count = dict(zip(made.feature_names, x.sum(0).tolist(), strict=True))
    assert int(y.sum()) == 5_289
    assert count["cellular contact"] == 29_285
    assert count["previous outcome success"] == 1_511
    assert count["education: unknown"] == 1_857
