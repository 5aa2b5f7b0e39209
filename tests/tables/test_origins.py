"""Which rows a classifier was trained on."""

import itertools

import numpy as np
import pytest

import r2et
from r2et.tables.origins import Origin, read_origin

ORIGIN = {"target": "bought", "sha256": "ab", "rows": 4, "held_out": [1, 3]}


def test_an_origin_is_read_from_what_was_saved():
    assert read_origin({}, "plain") is None
    assert read_origin({"origin": ORIGIN}, "plain") == Origin("bought", "ab", 4, (1, 3))
    dropped = {"row": "row number"}
    assert read_origin({"origin": {**ORIGIN, "dropped": dropped}}, "plain").dropped == dropped


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
        {"dropped": ["row"]},
        {"dropped": {"row": 3}},
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
