"""Short files read as the long one before them."""

import numpy as np
import pandas as pd
import pytest

from r2et.tables.formats import ColumnFormat
from r2et.tables.formats_columns import Texts
from r2et.tables.remembering import Contradiction, as_remembered

NUMBER = ColumnFormat("a", "number", decimal=",")


def read(values, column):
    return as_remembered(Texts.of(pd.Series(values, dtype="str")), column)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (NUMBER, ["1.234"], [1234.0]),
        (NUMBER, ["1,234", "7"], [1.234, 7.0]),
        (ColumnFormat("a", "whole"), ["1,234"], [1234]),
        (ColumnFormat("a", "whole", gaps=True), ["7"], [7.0]),
        (ColumnFormat("a", "date", date="%m/%d/%Y"), ["03/04/2024"], [np.datetime64("2024-03-04")]),
        (ColumnFormat("a", "text"), ["12"], ["12"]),
        (ColumnFormat("a", "text", words=("Ja", "nein")), ["JA", "Nein "], ["Ja", "nein"]),
        (ColumnFormat("a", "text", kept=("none",)), ["none"], ["none"]),
        (ColumnFormat("a", "truth"), ["TRUE"], [True]),
        (ColumnFormat("a", "number", sign="%"), ["5 %", "0"], [5.0, 0.0]),
        (ColumnFormat("a", "number", sign="€"), ["5", "€ 7.5"], [5.0, 7.5]),
    ],
)
def test_too_little_to_recognise_is_enough_to_remember(column, values, expected):
    assert list(read(values, column).values) == expected


@pytest.mark.parametrize(
    ("column", "values", "row"),
    [
        (NUMBER, ["1,5", "7.25"], 1),
        (NUMBER, ["1,5", "", "much"], 2),
        (ColumnFormat("a", "number", sign="%"), ["0.3"], 0),
        (ColumnFormat("a", "number"), ["1", "3 %"], 1),
        (ColumnFormat("a", "number", sign="€"), ["$ 5"], 0),
        (ColumnFormat("a", "date", date="%d.%m.%Y"), ["01.02.2024", "2024-02-01"], 1),
        (ColumnFormat("a", "truth"), ["True", "1"], 1),
    ],
)
def test_a_value_that_contradicts_is_named(column, values, row):
    assert read(values, column) == Contradiction(values[row], row)


def test_nothing_but_gaps_has_the_type_of_the_column():
    assert read(["", "NA"], NUMBER).values.dtype == np.float64
    assert read([""], ColumnFormat("a", "date", date="ISO")).values.dtype == np.dtype("datetime64[us]")
