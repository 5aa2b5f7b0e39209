"""How far a value may move, in words: ends inside what is proven and what was seen."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2et.estimator.holding import holding_in_words
from r2et.tables.kinds import CategoryColumn, DateColumn, FlagColumn, NumberColumn

INCOME = NumberColumn("income", mean=2000.0, scale=500.0, lower=-3.0, upper=4.0)
WORDS = re.compile(r"^x between (\S+) and (\S+), if nothing else changes$")


def told_of(column, text, encoded, radius):
    return holding_in_words(column, text, encoded, (encoded - radius, encoded + radius))


@given(
    mean=st.floats(-1e6, 1e6),
    scale=st.floats(1e-4, 1e5),
    encoded=st.floats(-6, 6),
    radius=st.floats(1e-6, 50),
    whole=st.booleans(),
)
def test_the_range_is_inside_what_is_proven_and_what_was_seen(mean, scale, encoded, radius, whole):
    value = encoded * scale + mean
    if whole:
        value = float(round(value))
        encoded = (value - mean) / scale
    column = NumberColumn("x", mean, scale, -4.0, 4.0, whole)
    told = told_of(column, repr(value), encoded, radius)
    if told == f"x stays {value!r}":
        return  # nothing is claimed
    low, high = map(float, WORDS.match(told).groups())
    slack = 1e-9 * max(1.0, abs(value))
    assert low <= value + slack
    assert high >= value - slack
    assert low <= high
    for end in (low, high):
        if end != value:
            assert abs(end - value) < radius * scale + slack
            lowest, highest = min(mean - 4 * scale, value), max(mean + 4 * scale, value)
            assert lowest - 1e-5 * scale <= end <= highest + 1e-5 * scale
            assert not whole or end == round(end)


@given(encoded=st.floats(-2, 3), radius=st.floats(0.01, 0.9))
def test_little_of_what_is_proven_is_rounded_away(encoded, radius):
    """Three digits of the width: a claim of nothing would be inside as well."""
    value = repr(encoded * 500 + 2000)
    told = told_of(INCOME, value, encoded, radius)
    low, high = (float(end) for end in re.findall(r"-?\d+\.?\d*", told))
    assert high - low >= (2 * radius * 500) * 0.97


def test_an_end_that_was_not_seen_is_the_last_one_that_was():
    told = told_of(INCOME, "600", -2.8, 1.0)
    assert told == "income between 500 and 1099, if nothing else changes"


def test_a_value_beyond_what_was_seen_is_an_end_itself():
    told = told_of(INCOME, "100", -3.8, 1.0)
    assert told == "income between 100 and 599, if nothing else changes"


@pytest.mark.parametrize("radius", [0.0, np.nan, -1.0])
def test_nothing_is_said_where_nothing_is_proven(radius):
    assert told_of(INCOME, "600", -2.8, radius) == ""


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (CategoryColumn("job", ("cook", "nurse", "pilot"), (0.5, 0.25, 0.25)), "nurse"),
        (FlagColumn("smokes", (0.5, 0.5)), "True"),
        (INCOME, "missing"),
    ],
)
def test_what_is_no_number_stays(column, text):
    assert told_of(column, text, 1.0, 0.5) == f"{column.name} stays {text}"


def test_whole_numbers_that_cannot_move_by_one_stay():
    age = NumberColumn("age", mean=40.0, scale=10.0, lower=-3.0, upper=3.0, whole=True)
    assert told_of(age, "45", 0.5, 0.09) == "age stays 45"
    assert told_of(age, "45", 0.5, 0.11) == "age between 44 and 46, if nothing else changes"
    # less than the radius, so the whole step itself is outside
    assert told_of(age, "45", 0.5, 0.1) == "age stays 45"


def test_an_infinite_radius_ends_where_rows_ended():
    assert told_of(INCOME, "2000", 0.0, np.inf) == "income between 500 and 4000, if nothing else changes"


@given(
    mean=st.floats(-2e4, 4e4),
    scale=st.floats(1e-3, 5e3),
    place=st.floats(-3.9, 3.9),
    radius=st.floats(1e-6, 9),
    whole=st.booleans(),
)
def test_dates_are_told_as_iso_dates_inside_of_both(mean, scale, place, radius, whole):
    days = place * scale + mean
    days = float(round(days)) if whole else round(days * 86_400) / 86_400
    encoded = (days - mean) / scale
    column = DateColumn("since", mean, scale, -4.0, 4.0, whole)
    told = told_of(column, "this", encoded, radius)
    if told == "since stays this":
        return  # nothing is claimed
    ends = re.fullmatch(r"since between (.+) and (.+), if nothing else changes", told).groups()
    pattern = r"-?\d{4,}-\d\d-\d\d" if whole else r"-?\d{4,}-\d\d-\d\d( \d\d:\d\d:\d\d)?"
    assert all(end == "this" or re.fullmatch(pattern, end) for end in ends)
    low, high = (
        days if end == "this" else float(np.datetime64(end.replace(" ", "T"), "s").astype(np.int64)) / 86_400
        for end in ends
    )
    # a day's fraction is known up to rounding
    slack = 2e-6 * max(1.0, scale / 1e3)
    assert low <= days + slack
    assert high >= days - slack
    assert low >= max(-4.0 * scale, (encoded - radius) * scale) + mean - slack
    assert high <= min(4.0 * scale, (encoded + radius) * scale) + mean + slack
    # nothing that could be told is left out, but for a step that rounding may take
    step = 1.0 if whole else 1 / 86_400
    assert low <= max(-4.0 * scale, (encoded - radius) * scale) + mean + 2.001 * step + slack
