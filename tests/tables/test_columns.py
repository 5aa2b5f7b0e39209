"""Columns of frames, checked."""

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.errors import InputError
from r2et.tables import numeric_inputs
from r2et.tables.columns import as_frame, which_columns
from tests.estimator.frames import mixed


def test_inputs():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    assert numeric_inputs(frame).tolist() == [[1.0, 0.5, 1.0], [2.0, 1.5, 0.0]]
    assert numeric_inputs(frame, torch.float64).dtype == torch.float64


def test_inputs_that_are_not_numbers():
    with pytest.raises(
        r2et.errors.InputError, match="2 of 3 columns of the frame do not hold numbers: b, c"
    ) as caught:
        numeric_inputs(pd.DataFrame({"a": [1], "b": ["cook"], "c": ["x"]}))
    assert "'cook' in 'b'" in str(caught.value)
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan], "c": [np.inf, 1.0]})
    with pytest.raises(
        r2et.errors.InputError, match=r"2 values of the frame are missing .* in b, c, first in row 0"
    ):
        numeric_inputs(frame)


def test_inputs_are_a_copy():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.5, 1.5]})
    numeric_inputs(frame, torch.float64).zero_()
    assert frame.to_numpy().tolist() == [[1.0, 0.5], [2.0, 1.5]]


def test_arrays_become_frames_and_frames_stay():
    frame = pd.DataFrame({"a": [1.0], "b": ["x"]})
    assert as_frame(frame) is frame
    assert as_frame(np.array([["cook", 1]], dtype=object)).to_dict("list") == {"x0": ["cook"], "x1": [1]}
    with pytest.raises(InputError, match="2 masked values"):
        as_frame(np.ma.masked_less(np.array([[1.0, -1.0], [-2.0, 3.0]]), 0))
    with pytest.raises(InputError, match="at least one row"):
        as_frame(frame.iloc[:0])


@pytest.mark.parametrize("given", [["age", "pay"], [0, 5], [True, False, False, False, False, True]])
def test_which_columns(given):
    assert which_columns(mixed()[0], given) == [0, 5]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("zip", "names 'zip', but the columns are 'age'"),
        ([6], "names 6"),
        ([-1], "names -1"),
        ([True], "a mask of 1 for 6"),
    ],
)
def test_columns_that_are_not_there(given, message):
    with pytest.raises(InputError, match=message):
        which_columns(mixed()[0], given)
