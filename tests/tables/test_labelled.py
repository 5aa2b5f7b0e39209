"""People's own files: columns, labels, classes."""

import gzip
import itertools
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.tables import class_numbers, class_order, numeric_inputs, read_frame, read_table
from r2et.tables.labelled import is_table
from r2et.tables.origins import Origin, read_origin

FRAME = pd.DataFrame({"age": [30, 40, 50], "job": ["cook", "nurse", "cook"], "bought": ["yes", "no", "yes"]})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", lambda path: FRAME.to_csv(path, index=False)),
        ("semicolons.csv", lambda path: FRAME.to_csv(path, index=False, sep=";")),
        ("tabs.tsv", lambda path: FRAME.to_csv(path, index=False, sep="\t")),
        ("packed.csv.gz", lambda path: FRAME.to_csv(path, index=False)),
        ("a.parquet", lambda path: FRAME.to_parquet(path)),
        ("indexed.parquet", lambda path: FRAME.set_index(pd.Index([7, 8, 9])).to_parquet(path)),
    ],
)
def test_every_format_gives_the_same_frame(tmp_path, name, write):
    write(tmp_path / name)
    found = read_frame(tmp_path / name)
    assert found.to_dict("list") == FRAME.to_dict("list")
    assert found.index.tolist() == [0, 1, 2]


def test_a_name_with_a_comma_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('"age; years, whole","b"\n1,2\n')
    assert read_frame(tmp_path / "a.csv").columns.tolist() == ["age; years, whole", "b"]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(pd, "read_parquet", _no_engine)
    with pytest.raises(r2et.errors.DataError, match=r"pip install 'r2et\[parquet\]'"):
        read_frame(tmp_path / "a.parquet")


def _no_engine(path):
    raise ImportError("Unable to find a usable engine")


BAD = {
    "missing": (None, "there is no file"),
    "folder": ("folder", "is a folder"),
    "empty": (b"", "cannot be read as a table"),
    "header only": (b"a,b\n", "has no rows"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "cannot be read as a table"),
    "binary": (bytes(range(200, 256)) * 9, "cannot be read as a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_tables(tmp_path, name):
    content, words = BAD[name]
    path = tmp_path / "a.csv"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(r2et.errors.DataError, match=words) as caught:
        read_frame(path)
    assert str(path) in str(caught.value)


def test_a_broken_archive(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:-12])
    with pytest.raises(r2et.errors.DataError):
        read_frame(tmp_path / "a.csv.gz")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(r2et.errors.DataError, match="cannot be read"):
        read_frame(tmp_path / "a.parquet")
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(r2et.errors.DataError, match="neither a CSV nor a Parquet file"):
        read_frame(tmp_path / "a.xlsx")


def test_which_texts_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("")
    assert all(map(is_table, ["a.csv", "A.CSV", "b.parquet", "folder/adult", "plain"]))
    assert not any(map(is_table, ["adult", "breast-cancer"]))


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
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,\n3,y\n")
    with pytest.raises(r2et.errors.DataError, match="misses 1 of 3 labels, first in row 1"):
        read_table(tmp_path / "a.csv", "b")


def test_inputs():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    assert numeric_inputs(frame).tolist() == [[1.0, 0.5, 1.0], [2.0, 1.5, 0.0]]
    assert numeric_inputs(frame, torch.float64).dtype == torch.float64


def test_inputs_that_are_not_numbers():
    with pytest.raises(r2et.errors.InputError, match="2 of 3 columns do not hold numbers: b, c") as caught:
        numeric_inputs(pd.DataFrame({"a": [1], "b": ["cook"], "c": ["x"]}))
    assert "'cook' in 'b'" in str(caught.value)
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan], "c": [np.inf, 1.0]})
    with pytest.raises(r2et.errors.InputError, match=r"2 values are missing .* in b, c, first in row 0"):
        numeric_inputs(frame)


@pytest.mark.parametrize(
    ("labels", "count", "order", "found"),
    [
        (["b", "a", "b"], None, None, ["a", "b"]),
        (["b", "a", "b"], 2, ["b", "a"], ["b", "a"]),
        ([10, 9, 10], 2, None, [9, 10]),
        ([1, 0], 2, None, [0, 1]),
        ([2, 0], 3, None, [0, 1, 2]),
        ([1.0, 1.0], 2, None, [0, 1]),
        ([1, 1], 2, ["1", "0"], [1, "0"]),
        ([2.0, 1.0], 2, ["2", "1"], [2.0, 1.0]),
        ([True, False], 2, None, [False, True]),
        (["b"], 3, ["a", "b", "c"], ["a", "b", "c"]),
    ],
)
def test_classes(labels, count, order, found):
    series = pd.Series(labels)
    classes = class_order(series, count, order)
    assert classes == found
    assert [classes[number] for number in class_numbers(series, classes).tolist()] == labels


@pytest.mark.parametrize(
    ("labels", "count", "order", "words"),
    [
        (["a", "b"], 3, None, "the model has 3 classes, the labels are 2: a, b.*--classes"),
        (["a", "b", "c"], 2, None, "the model has 2 classes, the labels are 3"),
        (["a", "b"], 2, ["a", "c"], "label 'b' is not among the classes"),
        (["a", "b"], None, ["a", "b", "a"], "named twice"),
        ([3, 0], 3, None, "--classes|labels are 2"),
        (["a", 1], None, None, "mix text and numbers"),
    ],
)
def test_classes_that_do_not_fit(labels, count, order, words):
    with pytest.raises(r2et.errors.InputError, match=words):
        class_order(pd.Series(labels, dtype=object), count, order)


ORIGIN = {"target": "bought", "sha256": "ab", "rows": 4, "held_out": [1, 3]}


def test_an_origin_is_read_from_what_was_saved():
    assert read_origin({}, "plain") is None
    assert read_origin({"origin": ORIGIN}, "plain") == Origin("bought", "ab", 4, (1, 3))


@pytest.mark.parametrize(
    "change",
    [
        {"held_out": [1, 4]},
        {"held_out": [-1, 3]},
        {"held_out": [1.5]},
        {"held_out": ["1"]},
        {"held_out": 3},
        {"held_out": None},
        {"rows": 3},
        {"rows": "4"},
        {"rows": None},
    ],
    ids=str,
)
def test_an_origin_that_cannot_be_true_is_an_error(change):
    with pytest.raises(r2et.errors.CheckpointError, match=r"'plain' says wrongly which rows.*Train it again"):
        read_origin({"origin": {**ORIGIN, **change}}, "plain")


@pytest.mark.parametrize("origin", [{}, [], "text", 3, {"target": "bought"}], ids=str)
def test_an_origin_that_is_none_is_an_error(origin):
    with pytest.raises(r2et.errors.CheckpointError, match="'plain'"):
        read_origin({"origin": origin}, "plain")


def test_a_caveat_counts_the_rows_of_the_training():
    origin = Origin("bought", "ab", 6, (1, 3, 5))
    for rows in itertools.chain.from_iterable(itertools.combinations(range(6), n) for n in range(1, 7)):
        seen = sum(row not in (1, 3, 5) for row in rows)
        caveat = origin.caveat("people.csv", "ab", np.array(rows))
        assert caveat.startswith(f"{seen} of these {len(rows)} rows w") if seen else caveat == ""
        other = origin.caveat("people.csv", "cd", np.array(rows))
        assert "people.csv is not the file that this model was trained on" in other
