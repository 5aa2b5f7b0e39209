"""Identifiers and row numbers, and measurements that look like them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.tables.checks.numbering import numbering
from r2et.tables.checks.profile import profiled

RNG = np.random.default_rng(0)
NUMBERINGS = {
    "from 1": ("a", range(1, 9), "row number"),
    "from 0, falling": ("a", range(30)[::-1], "row number"),
    "in tens": ("a", range(10, 300, 10), "row number"),
    "with gaps": ("a", np.flatnonzero(RNG.random(2000) < 0.6), "row number"),
    "as floats": ("a", np.arange(20.0), "row number"),
    "with wide gaps and a name": ("rownames", np.arange(20) ** 3, "row number"),
    "shuffled": ("a", RNG.permutation(60), "identifier"),
    "customers": ("a", RNG.choice(900_000, 9000, replace=False) + 100_000, "identifier"),
    "with a name": ("customer_id", RNG.choice(10**6, 20, replace=False), "identifier"),
    "accounts": ("a", RNG.choice(9 * 10**9, 50, replace=False) + 10**9, "identifier"),
    "names": ("a", [f"person {i}" for i in range(8)], "identifier"),
    "households": ("household_id", np.repeat(range(60), 3), "group"),
}
MEASUREMENTS = {
    "seven rows": ("a", range(7)),
    "incomes": ("a", RNG.lognormal(10, 1, 300).round()),
    "sorted incomes": ("a", np.sort(RNG.lognormal(10, 1, 100).round())),
    "cents": ("a", (RNG.lognormal(10, 1, 2000) * 100).round()),
    "floats": ("id", RNG.normal(size=500)),
    "sorted floats": ("a", np.sort(RNG.normal(size=500))),
    "ages": ("a", RNG.integers(18, 80, 30)),
    "few ages, all different": ("a", RNG.permutation(np.arange(18, 80))[:9]),
    "paid": ("paid", RNG.choice(10**6, 20, replace=False)),
    "number of employees": ("number_of_employees", RNG.choice(10**6, 20, replace=False)),
    "few texts": ("a", list("abcdefg")),
    "texts that repeat": ("a", list("abcdefgh") * 2),
    "categories called id": ("type_id", [1, 2, 3] * 50),
    "flags": ("id", [0, 1] * 20),
}


@pytest.mark.parametrize("case", NUMBERINGS)
def test_numberings_are_noticed(case):
    name, values, kind = NUMBERINGS[case]
    remark = numbering(profiled(pd.Series(values), name))
    assert remark is not None
    assert remark.kind == kind


@pytest.mark.parametrize("case", MEASUREMENTS)
def test_measurements_are_none(case):
    name, values = MEASUREMENTS[case]
    assert numbering(profiled(pd.Series(values), name)) is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(8, 3000),
    shape=st.tuples(st.floats(3, 12), st.floats(0.3, 1.5)),
    unit=st.sampled_from([1, 5, 100]),
    ordered=st.booleans(),
)
def test_whole_amounts_are_never_called_ids(seed, rows, shape, unit, *, ordered):
    """However few they are, however they are rounded, sorted or not: as long as they vary like amounts do."""
    amounts = (np.random.default_rng(seed).lognormal(*shape, rows) / unit).round() * unit
    column = pd.Series(np.sort(amounts) if ordered else amounts)
    for name in ("income", "amount", "credit_limit"):
        assert numbering(profiled(column, name)) is None


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(120, 3000),
    start=st.integers(-5, 10**7),
    share=st.floats(0.3, 1),
)
def test_numbers_of_a_part_of_the_rows_are_ids_in_any_order(seed, rows, start, share):
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.choice(int(rows / share), rows, replace=False)) + start
    assert numbering(profiled(pd.Series(numbers), "a")).kind == "row number"
    numbers = rng.permutation(numbers)
    assert numbering(profiled(pd.Series(numbers), "a")).kind in ("row number", "identifier")


def test_a_row_that_is_in_the_file_twice_does_not_hide_its_number():
    twice = pd.Series([*range(50), 3, 17])
    assert numbering(profiled(twice, "a")) is None
    assert numbering(profiled(twice, "a"), np.arange(50)).kind == "row number"
