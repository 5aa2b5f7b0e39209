"""Texts that are numbers, in every combination of marks."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2et.tables.formats_numbers import EVERY, Marks, code, parsed, plain, possible, unsigned

MARKS = st.sampled_from(EVERY)


def written(value: float, marks: Marks, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.replace(",", "t").replace(".", marks.decimal).replace("t", marks.thousands)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), MARKS, st.sampled_from([1, 2, 4]))
def test_numbers_come_back_as_they_were_written(values, marks, digits):
    """With a number of digits that no thousands have, nothing is left open but marks that do not occur."""
    texts = pd.Series([written(value, marks, digits) for value in values])
    expected = np.array([float(f"{value:.{digits}f}") for value in values])
    options = possible(texts)
    assert len(options) == 1
    assert options[0].decimal == marks.decimal
    np.testing.assert_array_equal(parsed(texts, options[0]), expected)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_floats_of_python_come_back_to_the_last_bit(values):
    texts = pd.Series([repr(value) for value in values])
    np.testing.assert_array_equal(parsed(texts, Marks(".", "")), values)


@pytest.mark.parametrize(
    ("texts", "sign", "values"),
    [
        (["12 %", "5%", "0"], "%", [12, 5, 0]),
        (["€ 5", "7,50 EUR", "3"], "€", [5, 7.5, 3]),
        (["-$5.50", "$ -7", "$1,000.25"], "$", [-5.5, -7, 1000.25]),
        (["1.234,50-", "7,5"], "", [-1234.5, 7.5]),
        (["\u22121\u202f234,5", "7"], "", [-1234.5, 7]),
        (["1'234.5", "1\u2019000.0"], "", [1234.5, 1000]),
        (["CHF 1'234.50", "Fr. 7"], "", None),
    ],
)
def test_signs_are_no_part_of_the_number(texts, sign, values):
    bodies, seen = unsigned(plain(pd.Series(texts)))
    options = possible(bodies)
    if values is None:
        assert options == (), "two currencies are no numbers"
        return
    assert seen == sign
    assert parsed(bodies, options[0]).tolist() == values


@pytest.mark.parametrize(
    "text", ["1.2.3", "12.34.567", "1,23,456", "5 apples", "0x10", "1_000", "1e", "--1", "٣", ""]
)
def test_what_is_no_number(text):
    assert possible(pd.Series([text])) == ()


def test_shares_without_a_sign_beside_percents_stay_text():
    assert unsigned(pd.Series(["12 %", "0.3"]))[1] == ""


def test_codes():
    assert code(pd.Series(["01067", "99999"])) == 0
    assert code(pd.Series(["1", "1234567890123456789"])) == 1
    assert code(pd.Series(["01", "007", "12"])) is None
