"""One column as every check sees it."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from r2et.tables.checks.profile import plain, profiled, shown

COLUMNS = {
    "number": [pd.Series([1.5, 2.0, np.nan]), pd.Series([Decimal("1.5"), Decimal("2")], dtype=object)],
    "whole number": [
        pd.Series([1, 2, 3]),
        pd.Series([1.0, np.nan, 3.0]),
        pd.Series([1, None, 5], dtype="Int64"),
        pd.Series([7, 7]),
        pd.Series([10**25, 3], dtype=object),
        pd.Series([1.0, np.inf]),
    ],
    "yes or no": [
        pd.Series([True, False]),
        pd.Series([0, 1, 1]),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([True, None, False], dtype=object),
    ],
    "text": [pd.Series(["a", None]), pd.Series(["1", "2"]), pd.Series(["a", "b"], dtype="category")],
    "date": [
        pd.Series(pd.to_datetime(["2020-01-31", None])),
        pd.Series(pd.to_datetime(["2020-01-31T10:00+02:00", "2021-01-31T10:00+02:00"])),
        pd.Series([datetime.date(2020, 1, 31), datetime.date(9999, 12, 31)], dtype=object),
    ],
    "mixed": [
        pd.Series(["a", 1], dtype=object),
        pd.Series([[1], [2]], dtype=object),
        pd.Series([b"a", b"b"], dtype=object),
        pd.Series([1j, 2j]),
        pd.Series(pd.to_timedelta([1, 2], unit="D")),
    ],
    "empty": [pd.Series([None, None], dtype=object), pd.Series([np.nan, np.nan])],
}


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, column) for kind, columns in COLUMNS.items() for column in columns]
)
def test_kinds(kind, column):
    profile = profiled(column, "a")
    assert profile.kind == kind
    assert profile.missing == column.isna().sum()
    assert profile.numeric == (kind in ("number", "whole number", "date"))
    # rows have the same code exactly where they have the same value
    texts = column.astype(object).map(repr).where(column.notna(), "missing")
    assert (np.equal.outer(profile.codes, profile.codes) == np.equal.outer(texts.array, texts.array)).all()
    assert profile.counts.sum() == column.notna().sum()


def test_dates_are_days_whatever_the_zone():
    one, other = (
        profiled(pd.Series(pd.to_datetime([text])), "a").numbers
        for text in ("1970-01-02T23:00+00:00", "1970-01-03T01:00+02:00")
    )
    assert one.tolist() == other.tolist() == pytest.approx([1 + 23 / 24])


def test_values_as_numbers_are_in_the_order_of_the_values():
    profile = profiled(pd.Series(pd.to_datetime(["1970-01-05", "1970-01-02", "1970-01-05", None])), "a")
    assert profile.values_as_numbers == [4.0, 1.0]
    assert profiled(pd.Series([3, 9, 3, 1]), "a").values_as_numbers == [3.0, 9.0, 1.0]


def test_values_as_people_and_json_have_them():
    assert [plain(value) for value in (np.array([True])[0], Decimal("1.5"), np.inf)] == [True, "1.5", "inf"]
    assert [shown(value) for value in (np.int64(3), 1e300, -2.0, True)] == ["3", "1e+300", "-2", "True"]
    assert len(shown("x" * 1000)) < 50
    assert shown("two\nlines") == "'two lines'"
