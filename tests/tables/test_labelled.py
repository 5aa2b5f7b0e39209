"""People's own files as columns and labels."""

import numpy as np
import pandas as pd
import pytest

import r2et
from r2et.tables import read_table

FRAME = pd.DataFrame({"age": [30, 40, 50], "job": ["cook", "nurse", "cook"], "bought": ["yes", "no", "yes"]})


@pytest.fixture
def path(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def test_columns_are_those_of_the_file_or_the_ones_named(path):
    table = read_table(path, "bought")
    assert table.frame.columns.tolist() == ["age", "job"]
    assert table.labels.tolist() == ["yes", "no", "yes"]
    assert read_table(path, "bought", ["job", "age"]).frame.columns.tolist() == ["job", "age"]
    some = table.rows(np.array([2, 0]))
    assert (some.frame["age"].tolist(), some.labels.tolist()) == ([50, 30], ["yes", "yes"])


@pytest.mark.parametrize(
    ("target", "columns", "words"),
    [
        (None, None, ["--target", "age, job, bought"]),
        ("bougt", None, ["'bougt'", "did you mean 'bought'?"]),
        ("bought", ["ages"], ["'ages'", "did you mean 'age'?"]),
        ("bought", ["age", "bought"], ["'bought'", "the one to predict"]),
        ("bought", ["age", "age"], ["named twice"]),
        ("bought", [], ["no column besides"]),
    ],
)
def test_columns_that_are_not_there(path, target, columns, words):
    with pytest.raises(r2et.errors.InputError) as caught:
        read_table(path, target, columns)
    for word in words:
        assert word in str(caught.value)


def test_missing_labels(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,d\n1,x,1,true\n2,,,\n3,y,0,false\n")
    for target, labels in (("b", ["x", "y"]), ("c", [1, 0]), ("d", [True, False])):
        table = read_table(tmp_path / "a.csv", target)
        assert table.labels.tolist() == labels
        assert table.labels.dtype == pd.Series(labels).dtype
        assert table.numbers.tolist() == [0, 2]
        assert (table.file_rows, table.unlabelled) == (3, 1)
        assert table.said[-1] == f"1 of 3 rows has no {target!r}: left out"
    assert read_table(tmp_path / "a.csv", "a").unlabelled == 0


def test_no_label_at_all(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,\n2,\n")
    with pytest.raises(r2et.errors.DataError, match=r"'b' of .* has no labels: all 2 are missing"):
        read_table(tmp_path / "a.csv", "b")
