"""Dates: decided by the values, or not at all."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2et.tables.formats_dates import date_formats, dates, nearly_dates

DAYS = st.lists(st.dates(datetime.date(1950, 1, 1), datetime.date(2060, 12, 31)), min_size=1, max_size=20)
SURE = [
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%d-%b-%Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%d.%m.%Y %H:%M",
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S",
]


@given(DAYS, st.sampled_from(SURE))
def test_dates_come_back_as_they_were_written(days, form):
    texts = pd.Series([day.strftime(form) for day in days])
    formats = date_formats(texts)
    for each in formats:
        np.testing.assert_array_equal(dates(texts, each), np.array(days, dtype="datetime64[us]"))
    assert formats


@given(DAYS, st.sampled_from(["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"]))
def test_slashes_are_decided_only_by_a_day_above_twelve(days, form):
    texts = pd.Series([day.strftime(form) for day in days])
    formats = date_formats(texts)
    assert form in formats
    assert (len(formats) == 1) == any(day.day > 12 for day in days)


@pytest.mark.parametrize(
    "text", ["31.02.2024", "2024", "20240131", "12:30", "1.5", "a-b-c", "2024-13-01", "99/99/2024"]
)
def test_what_is_no_date(text):
    assert date_formats(pd.Series([text])) == ()


def test_time_zones_become_utc():
    texts = pd.Series(["2024-01-31T23:30:00+01:00", "2024-01-31T22:30:00Z"])
    assert date_formats(texts) == ("ISO",)
    assert len(set(dates(texts, "ISO"))) == 1


def test_the_one_that_is_no_date_is_told():
    form, wrong = nearly_dates(pd.Series(["01.02.2024"] * 30 + ["soon"]))
    assert form == "%d.%m.%Y"
    assert np.flatnonzero(wrong).tolist() == [30]
