"""What encoded rows are in a person's own units: decoding undoes encoding."""

import datetime

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.tables import Encoding, Units
from r2et.tables.columns import as_text
from r2et.tables.kinds import Pooling
from r2et.tables.units import MISSING, NEW, ColumnUnits


def texts_of(frame: pd.DataFrame) -> list[list[str]]:
    return [[as_text(frame.iloc[i, j]) for j in range(frame.shape[1])] for i in range(len(frame))]


def decoded(frame: pd.DataFrame, fitted: pd.DataFrame | None = None) -> list[list[str]]:
    encoding = Encoding.learn(frame if fitted is None else fitted, pool=Pooling(0, 0))
    units = Units.of(encoding.describe(), frame)
    assert units.features == len(encoding.names)
    return units.texts(torch.from_numpy(encoding.encode(frame)))


def same(ours: str, own: str) -> bool:
    """Equal texts, or numbers that are equal: a file writes 1.5 where its column has two decimals, 1.50."""
    if ours == own:
        return True
    try:
        return float(ours) == float(own)
    except ValueError:
        return False


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_decoding_undoes_encoding(data):
    count = data.draw(st.integers(2, 12))
    kinds = {
        "whole": st.integers(-(10**9), 10**9),
        "pay": st.decimals(-(10**6), 10**6, places=2).map(float),
        "gaps": st.one_of(st.none(), st.integers(0, 100)),
        "home": st.sampled_from(["rent", "owner", "a b: c", "Größe"]),
        "smokes": st.booleans(),
        "since": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)).map(pd.Timestamp),
    }
    columns = {name: data.draw(st.lists(kind, min_size=count, max_size=count)) for name, kind in kinds.items()}
    columns["gaps"][0], columns["smokes"][:2] = 5, [True, False]
    frame = pd.DataFrame(columns)
    for ours, own in zip(decoded(frame), texts_of(frame), strict=True):
        assert all(map(same, ours, own)), (ours, own)


def test_what_is_no_text_of_a_file_is_said():
    fitted = pd.DataFrame({"job": ["cook", "nurse", "pilot"], "age": [20, 30, 40]})
    with pytest.warns(UserWarning, match="not there in fit"):
        assert decoded(pd.DataFrame({"job": ["judge"], "age": [20]}), fitted) == [[NEW, "20"]]
    holes = pd.DataFrame({"age": [20, None, 40], "job": ["cook", None, "nurse"]})
    assert decoded(holes) == [["20", "cook"], [MISSING, MISSING], ["40", "nurse"]]


def test_flags_are_called_as_in_the_file():
    assert decoded(pd.DataFrame({"a": [0, 1, 1], "b": [True, False, True]})) == [
        ["0", "True"],
        ["1", "False"],
        ["1", "True"],
    ]


def test_times_of_day_are_told():
    frame = pd.DataFrame(
        {"at": pd.to_datetime(["2024-01-01 12:30:00", "2024-02-29 00:00:00", "1969-12-31 23:59:30"])}
    )
    assert [row[0] for row in decoded(frame)] == ["2024-01-01 12:30:00", "2024-02-29", "1969-12-31 23:59:30"]


@pytest.mark.parametrize(
    ("column", "value", "text", "change"),
    [
        (ColumnUnits("a", "number", (0,), step=1.0), -0.0, "0", "0"),
        (ColumnUnits("a", "number", (0,), step=0.5), 1.5, "1.5", "1.5"),
        (ColumnUnits("a", "number", (0,), step=0.01), 1870.5, "1870.50", "1870.50"),
        (ColumnUnits("a", "number", (0,), scale=1.7), 0.123456789, "0.123457", "0.123"),
        (ColumnUnits("a", "number", (0,), scale=3e4), 1234567.8, "1234568", "1234570"),
        (ColumnUnits("a", "number", (0,), scale=3e-7), 1.23456e-6, "1.23456e-06", "0.0000012346"),
        (ColumnUnits("a", "date", (0,), step=1.0), 19000.0, "2022-01-08", "2022-01-08"),
    ],
)
def test_numbers_are_told_as_finely_as_they_are_measured(column, value, text, change):
    assert (column.text(value), column.change(value)) == (text, change)


def test_numbers_of_single_precision_are_told_as_in_the_file():
    frame = pd.DataFrame({"pay": [1234.56, 99.01, 50_000.1], "age": [30, 41, 52]})
    encoding = Encoding.learn(frame)
    units = Units.of(encoding.describe(), frame)
    rows = units.texts(torch.from_numpy(encoding.encode(frame)).float())
    assert rows == [["1234.56", "30"], ["99.01", "41"], ["50000.10", "52"]]


def test_a_column_of_one_value_and_a_table_of_one_row():
    assert decoded(pd.DataFrame({"a": [7, 7, 7]})) == [["7"]] * 3
    assert decoded(pd.DataFrame({"a": [2.5], "b": ["x"]})) == [["2.5", "x"]]
    units = Units.of(Encoding.learn(pd.DataFrame({"b": ["x", "y"]})).describe())
    assert units.own(torch.zeros(3, 1)).shape == (3, 0)
    assert np.isfinite(units.resolutions).all()
