"""Rows that occur several times, as pandas counts them."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.tables.checks.profile import profiled
from r2et.tables.checks.repeats import first_of_each, repeated, row_keys


def profiles(frame):
    return [profiled(frame[name], name) for name in frame]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 60), columns=st.integers(1, 4))
def test_repeated_rows_are_those_of_pandas(seed, rows, columns):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, (rows, columns)).astype(float)
    values[values == 2] = np.nan
    frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(columns)])
    labels = pd.Series(rng.choice(["yes", "no"], rows))
    assert first_of_each(profiles(frame)).tolist() == np.flatnonzero(~frame.duplicated()).tolist()
    figures = {remark.kind: remark.figures for remark in repeated(profiles(frame), profiled(labels, "y"))}
    again = int(frame.duplicated().sum())
    assert figures.get("duplicates", {"rows": 0})["rows"] == again
    groups = labels.groupby([frame[name].fillna(9) for name in frame]).transform("nunique")
    assert figures.get("contradiction", {"rows": 0})["rows"] == int((groups > 1).sum())
    for kind, entry in figures.items():
        one, other = entry["example"]
        assert one != other
        assert frame.iloc[one].equals(frame.iloc[other])
        assert kind == "duplicates" or labels[one] != labels[other]


def test_keys_of_columns_do_not_cancel():
    grid = pd.DataFrame([(a, b, c) for a in range(30) for b in range(30) for c in range(30)])
    assert len(np.unique(row_keys(profiles(grid)))) == len(grid)
    # the same values in other columns are other rows
    assert len(np.unique(row_keys(profiles(pd.DataFrame({"a": [1, 2], "b": [2, 1]}))))) == 2
