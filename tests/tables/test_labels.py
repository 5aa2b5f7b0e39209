"""Labels as class numbers."""

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.tables import class_numbers, class_order


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


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b"],
        np.array(["b", "a", "b"]),
        np.array([["b"], ["a"], ["b"]]),
        pd.Series(["b", "a", "b"], index=[7, 8, 9]),
        pd.Series(["b", "a", "b"], dtype="category"),
    ],
)
def test_labels_of_every_kind(labels):
    numbers = class_numbers(labels, np.array(["a", "b"]))
    assert (numbers.dtype, numbers.tolist()) == (torch.int64, [1, 0, 1])


def test_labels_that_are_numbers_already():
    for labels in ([1, 0, 2], [1.0, 0.0, 2.0], np.array([1, 0, 2], dtype=np.uint8), pd.Series([1, 0, 2])):
        assert class_numbers(labels).tolist() == [1, 0, 2]


def test_an_unknown_label_is_quoted_with_its_row_and_column():
    labels = pd.Series(["a", "c"], index=["ann", "bob"], name="bought")
    with pytest.raises(r2et.errors.InputError, match=r"label 'c' in row 'bob' of column 'bought' .* 'a', 'b'"):
        class_numbers(labels, ["a", "b"])
    with pytest.raises(r2et.errors.InputError, match="label 'c' in row 1 is not among the classes 'a', 'b'"):
        class_numbers(["a", "c"], ["a", "b"])
