"""Objects to JSON and back: nothing is lost, and what JSON cannot hold is refused by name."""

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from r2et.errors import CheckpointError, InputError
from r2et.files.reading import parse_json, typed
from r2et.files.serialising import plain, tagged, to_json, to_strict_json, untagged


@dataclass(frozen=True)
class Inner:
    name: str
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    k: int
    inner: Inner
    others: tuple[Inner, ...] = ()
    note: str | None = None
    table: dict[str, list[int]] = field(default_factory=dict)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
INNER = st.builds(Inner, st.text(), st.lists(FINITE).map(tuple))
OUTER = st.builds(
    Outer,
    st.integers(-(2**62), 2**62),
    INNER,
    st.lists(INNER, max_size=3).map(tuple),
    st.none() | st.text(),
    st.dictionaries(st.text(), st.lists(st.integers(0, 9), max_size=3), max_size=3),
)


@given(OUTER)
def test_a_dataclass_comes_back_as_it_was(value):
    assert typed(parse_json(json.dumps(plain(value))), Outer, "a.json") == value


SCALAR = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text()
KEY = st.text().filter(lambda key: not key.startswith("__")) | st.integers(0, 99)
ANY = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3), max_leaves=8
)


@given(ANY)
def test_infinities_and_keys_that_are_numbers_come_back(value):
    assert untagged(parse_json(to_json(value))) == value


def test_not_a_number_comes_back():
    assert math.isnan(untagged(parse_json(to_json([float("nan")])))[0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.array([True])[0], True),
        (np.str_("no"), "no"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["a", 1, None], dtype=object), ["a", 1, None]),
        (torch.tensor([1.5, 2.0]), [1.5, 2.0]),
        (torch.tensor(7), 7),
        (pd.Series([1, 2]), [1, 2]),
        (pd.Index(["a", "b"]), ["a", "b"]),
        ({np.int64(1): (np.float64(0.1),)}, {1: [0.1]}),
    ],
)
def test_numbers_and_arrays_of_others_become_python_s(value, expected):
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected)
    if isinstance(result, dict):
        assert [type(key) for key in result] == [int]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object, "type"),
        (Inner, "type"),
        ({1, 2}, "set"),
        (1 + 2j, "complex"),
        (b"bytes", "bytes"),
        (np.array([1j]), "complex"),
    ],
)
def test_what_json_cannot_hold_is_named(value, kind):
    message = f"of type {kind} cannot be saved: use numbers, text, lists and dicts"
    with pytest.raises(CheckpointError, match=message):
        plain({"entry": [value]}, CheckpointError)
    with pytest.raises(InputError, match=message):
        to_json(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"__float__": "1e999"}, "'1e999'"),
        ({"__float__": 3}, "3"),
        ({"__pairs__": [[1]]}, "pairs of key and value"),
        ({"__pairs__": [[[1], 2]]}, "pairs of key and value"),
        ({"__pairs__": "ab"}, "'ab'"),
    ],
)
def test_tags_of_somebody_else_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        untagged([value])


def test_what_needs_no_tag_has_none():
    value = {"a": [1, 2.5, None, True, "x"], "b": {}}
    assert tagged(value) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_strict_json_has_numbers_alone(number):
    assert json.loads(to_strict_json({"auc": np.float64(0.5), "radii": (1, 2)})) == {"auc": 0.5, "radii": [1, 2]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_strict_json({"auc": number})
