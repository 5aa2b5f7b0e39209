"""Fields of a document that somebody else wrote."""

import pytest

from r2et.errors import InputError
from r2et.predictors.fields import entry, items, only, shown, whole


@pytest.mark.parametrize("holder", [None, [], "text", 3])
def test_an_entry_needs_an_object(holder):
    with pytest.raises(InputError, match="where 'size' should be"):
        entry(holder, "size", int)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_an_entry_is_of_exactly_its_kind(value):
    with pytest.raises(InputError, match="'size' should be a int"):
        entry({"size": value}, "size", int)
    assert entry({"size": value}, "size", type(value)) is value


@pytest.mark.parametrize("holder", [{}, {"a": 1, "b": 2}, [1], None])
def test_a_union_has_one_field(holder):
    with pytest.raises(InputError, match="where one value with its kind should be"):
        only(holder)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.0, "1", None])
def test_whole_numbers_fit_into_64_bits(value):
    with pytest.raises(InputError, match="whole number of 64 bits"):
        whole(value)
    assert whole(2**63 - 1) == 2**63 - 1
    assert whole(-(2**63)) == -(2**63)


@pytest.mark.parametrize("value", [(1, 2), {}, "ab", None])
def test_a_list_is_a_list(value):
    with pytest.raises(InputError, match="where a list should be"):
        items(value)


@pytest.mark.parametrize("value", ["x" * 10**6, {"a": ["b"] * 10**5}, [0] * 10**5, 10**50])
def test_what_is_shown_is_short_and_on_one_line(value):
    assert len(shown(value)) < 70
    assert "\n" not in shown("two\nlines")
