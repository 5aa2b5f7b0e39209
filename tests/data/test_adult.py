from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import adult
from r2et.errors import DataError
from r2et.tables.declared import checked
from r2et.tables.encoding import Encoding
from r2et.tables.files import read_texts

from . import files

NAMES = (
    "age",
    "education-num",
    "log1p capital-gain",
    "log1p capital-loss",
    "hours-per-week",
    "male",
    "white",
    "born in the United States",
    "workclass: private",
    "workclass: government",
    "workclass: self-employed",
    "workclass: other",
    "marital: married",
    "marital: never married",
    "marital: divorced or separated",
    "marital: widowed",
    "occupation: managerial",
    "occupation: professional",
    "occupation: sales",
    "occupation: clerical",
    "occupation: blue-collar",
    "occupation: service",
    "occupation: other",
    "relationship: spouse",
    "relationship: own child",
    "relationship: not in family",
    "relationship: other relative",
    "relationship: unmarried",
)


def test_one_row_by_hand(tmp_path: Path) -> None:
    row = "39, ?, 77516, Bachelors, 13, Separated, Tech-support, Husband, White, Female, 2174, 0, 40, Cuba, <=50K"
    path = files.write_lines(tmp_path / "adult.data", [row])
    frame = checked(read_texts(path, adult.COLUMNS, header=False), adult.features())
    encoding = Encoding.declared(adult.features(), frame)
    assert encoding.names == NAMES
    expected = dict.fromkeys(NAMES, 0.0) | {
        "age": 39,
        "education-num": 13,
        "log1p capital-gain": np.log(2175),
        "hours-per-week": 40,
        "white": 1,
        "workclass: other": 1,
        "marital: divorced or separated": 1,
        "occupation: professional": 1,
        "relationship: spouse": 1,
    }
    np.testing.assert_allclose(frame.iloc[0, :8].astype(float), list(expected.values())[:8])
    # the only row is the mean of its numbers
    np.testing.assert_array_equal(encoding.encode(frame)[0], [0] * 5 + list(expected.values())[5:])
    assert [len(group) for group in encoding.domain.groups] == [4, 4, 7, 5]


@pytest.mark.usefixtures("synthetic")
def test_both_files_count() -> None:
    made = data.load("adult")
    assert made.feature_names == NAMES
    assert made.class_names == ("<=50K", ">50K")
    assert len(made.train) + len(made.validation) + len(made.test) == 100 + 50


@pytest.mark.parametrize("name", ["adult.data", "adult.test"])
class TestBadFiles:
    def test_missing_columns(self, synthetic: Path, name: str) -> None:
        files.write_lines(synthetic / "adult" / name, ["39, Private, 77516"] * 9)
        with pytest.raises(DataError, match=rf"{name} has no column 'education', .*'income'"):
            data.load("adult")

    @pytest.mark.parametrize("characters", [1, 2, 3, 7, 40, 70])
    def test_cut_short(self, synthetic: Path, name: str, characters: int) -> None:
        stop = 1 if name == "adult.test" else 0  # without its full stop a label is still whole
        files.cut_short(synthetic / "adult" / name, characters + stop)
        with pytest.raises(DataError, match=rf"row \d+ of .*{name}"):
            data.load("adult")

    def test_unknown_category(self, synthetic: Path, name: str) -> None:
        files.change_field(synthetic / "adult" / name, 5, 1, " Pirate")
        with pytest.raises(DataError, match=rf"row \d of .*{name} has 'Pirate' in column 'workclass'"):
            data.load("adult")

    def test_impossible_number(self, synthetic: Path, name: str) -> None:
        files.change_field(synthetic / "adult" / name, 5, 10, " -7")
        with pytest.raises(DataError, match=rf"{name} has '-7' in column 'capital-gain'"):
            data.load("adult")


@files.needs_real_files
def test_real_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    made = data.load("adult")
    x, y = (
        torch.cat([getattr(split, part) for split in (made.train, made.validation, made.test)])
        for part in ("x", "y")
    )
    count = dict(zip(made.feature_names, x.sum(0).tolist(), strict=True))
    assert int(y.sum()) == 11_687
    assert count["male"] == 32_650
    assert count["white"] == 41_762
    assert count["born in the United States"] == 43_832
    assert count["workclass: private"] == 33_906
    assert count["occupation: other"] == 2_809 + 15
