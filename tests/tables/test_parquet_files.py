"""Parquet says its types itself."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import r2et
from r2et.tables import read_chunks, read_frame, recognise

FRAME = pd.DataFrame(
    {
        "whole": [1, 2, 3, 4],
        "gaps": pd.array([1, 2, None, 4], dtype="Int64").astype("float64"),
        "text": ["1,5", None, "x", "y"],
        "flag": [True, False, None, True],
        "day": [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
        "moment": pd.to_datetime(["2024-01-01T12:00+01:00"] * 4),
        "exact": [Decimal("1.25")] * 4,
    }
)


@pytest.fixture
def path(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_dates_and_decimals_are_those_of_frames(path):
    frame = read_frame(path)
    assert frame["day"].dtype == frame["moment"].dtype == np.dtype("datetime64[us]")
    assert frame["moment"].iloc[0] == pd.Timestamp("2024-01-01 11:00")
    assert frame["exact"].tolist() == [1.25] * 4
    assert frame["text"].iloc[0] == "1,5", "text stays text"


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_chunks_are_the_whole(path, rows):
    parts = list(read_chunks(path, recognise(path), rows))
    whole = read_frame(path)
    for part in parts:
        assert part.dtypes.to_dict() == whole.dtypes.to_dict()
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    (some,) = read_chunks(path, recognise(path), columns=["text", "whole"])
    assert some.columns.tolist() == ["text", "whole"]


def test_hints_about_text_mean_nothing(path):
    with pytest.raises(r2et.errors.InputError, match="says its types itself"):
        recognise(path, decimal=",")
    with pytest.raises(r2et.errors.InputError, match="no column 'nothing'"):
        next(read_chunks(path, recognise(path), columns=["nothing"]))
