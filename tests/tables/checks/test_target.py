"""What the column to predict says."""

import pandas as pd
import pytest

from r2et.tables.checks.profile import profiled
from r2et.tables.checks.target import balance, class_counts, unpredictable


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a"] * 9, "one class"),
        ([5], "one class"),
        ([float(i) for i in range(21)], "target is a number"),
        ([f"name {i}" for i in range(40)], "target is a number"),
        ([i % 20 for i in range(40)], None),
        ([i % 21 for i in range(210)], None),
        ([True, False], None),
    ],
)
def test_whether_there_are_classes(values, kind):
    remark = unpredictable(profiled(pd.Series(values), "y"))
    assert (remark and remark.kind) == kind


def test_rare_classes_are_those_of_few_rows_or_a_small_share():
    def rare(**rows):
        column = pd.Series([name for name, count in rows.items() for _ in range(count)])
        return [dict(remark.figures["classes"]) for remark in balance(profiled(column, "y"))]

    assert rare(a=20, b=20) == []
    assert rare(a=20, b=19) == [{"'b'": 19}]
    assert rare(a=9900, b=100) == []
    assert rare(a=9900, b=99) == [{"'b'": 99}]


def test_classes_are_counted_the_commonest_first():
    counts = class_counts(profiled(pd.Series([1, 0, 0, 2, 0, 2]), "y"))
    assert list(counts.items()) == [("0", 3), ("2", 2), ("1", 1)]
