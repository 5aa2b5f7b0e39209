"""What columns are, decided over the whole file."""

import numpy as np
import pandas as pd
import pytest

from r2et.tables.formats import Hints
from r2et.tables.formats_columns import Texts
from r2et.tables.recognising import finish, look, settle


def read(columns, separator=",", **said):
    hints = Hints(**said)
    looks = [look(name, Texts.of(pd.Series(values)), hints) for name, values in columns.items()]
    settled = settle(looks, separator, hints)
    return {entry.name: finish(entry, settled, na_is_missing=False, own=hints.missing or ()) for entry in looks}


@pytest.mark.parametrize(
    ("columns", "separator", "value"),
    [
        # nothing else is known: programs that write semicolons have decimal commas
        ({"a": ["1,234", "5,678"]}, ";", 1.234),
        ({"a": ["1,234", "5,678"]}, ",", 1234),
        ({"a": ["1.234", "5.678"]}, ";", 1.234),
        # another column knows
        ({"a": ["1,234", "5,678"], "b": ["0.5", "1.25"]}, ";", 1234),
        ({"a": ["1,234", "5,678"], "b": ["0,5", "1,25"]}, ",", 1.234),
        ({"a": ["1.234", "5.678"], "b": ["0,5", "1,25"]}, ";", 1234),
        # the column knows itself
        ({"a": ["1,234", "5,67"]}, ",", 1.234),
        ({"a": ["1,234", "0,678"]}, ",", 1.234),
        ({"a": ["1,234", "1,234,567"]}, ";", 1234),
        # three digits behind every mark, and whole numbers below 1000
        ({"a": ["1,234"] * 10 + ["999"]}, ";", 1234),
    ],
)
def test_marks_that_can_be_read_in_two_ways(columns, separator, value):
    assert read(columns, separator)["a"].values[0] == value


@pytest.mark.parametrize(
    ("said", "value"), [({"decimal": ","}, 1.234), ({"decimal": "."}, 1234), ({"thousands": ","}, 1234)]
)
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_person_decides(said, value, separator):
    assert read({"a": ["1,234", "5,678"]}, separator, **said)["a"].values[0] == value


def test_what_is_doubtful_is_told_with_the_other_reading():
    assert read({"a": ["1,234"]}, ";")["a"].alternative == ("1,234", "1234", (".", ","))
    assert read({"a": ["1,234"], "b": ["0,5"]}, ";")["a"].alternative is None


def test_one_value_at_the_end_decides():
    outcome = read({"a": [str(i) for i in range(3000)] + ["about 40"]})["a"]
    assert outcome.format.kind == "text"
    assert (outcome.spoiler.value, outcome.spoiler.row, outcome.spoiler.rows) == ("about 40", 3000, 1)
    assert outcome.spoiler.others == "numbers"
    assert outcome.spoiler.share == pytest.approx(3000 / 3001)


def test_a_column_of_words_has_no_spoiler():
    """The negative control."""
    assert read({"a": ["cook", "nurse", "7"]})["a"].spoiler is None


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        (["1", "2"], "whole", "int64"),
        (["1", ""], "whole", "float64"),
        (["1.0", "2"], "number", "float64"),
        (["True", "FALSE"], "truth", "bool"),
        (["true", "?"], "truth", "object"),
        (["2024-01-31", "-"], "date", "datetime64[us]"),
        (["", "NA"], "number", "float64"),
        (["0", "1"], "whole", "int64"),
        (["inf", "1"], "number", "float64"),
    ],
)
def test_kinds_and_types(values, kind, dtype):
    outcome = read({"a": values})["a"]
    assert outcome.format.kind == kind
    assert pd.Series(outcome.values).dtype == np.dtype(dtype)


def test_yes_and_no_get_the_commonest_spelling():
    outcome = read({"a": ["Yes", "yes ", "No", "YES", "Yes", ""]})["a"]
    assert outcome.values.fillna("-").tolist() == ["Yes", "Yes", "No", "Yes", "Yes", "-"]
    assert outcome.format.words == ("No", "Yes")


def test_other_texts_keep_their_case():
    outcome = read({"a": ["Cook", "cook", "nurse"]})["a"]
    assert outcome.values.tolist() == ["Cook", "cook", "nurse"]
    assert outcome.twins == ("Cook", "cook")
