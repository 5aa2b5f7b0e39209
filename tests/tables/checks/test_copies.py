"""Columns that say the same."""

import math

import numpy as np
import pandas as pd
import pytest
from sympy.utilities.iterables import multiset_partitions

from r2et.tables.checks.copies import copies, log_ways
from r2et.tables.checks.profile import profiled

RNG = np.random.default_rng(0)
N = 500
INCOME = RNG.lognormal(10, 1, N).round(2)
JOB = RNG.choice(["cook", "nurse", "pilot"], N)
FLAG = RNG.random(N) < 0.3


def said(*columns, named=()):
    profiles = [profiled(pd.Series(values), f"c{i}") for i, values in enumerate(columns)]
    return {remark.column: (remark.kind, remark.figures["of"]) for remark in copies(profiles, frozenset(named))}


COPIES = {
    "equal numbers": (INCOME, INCOME),
    "other units": (INCOME, 0.01 * INCOME),
    "turned round": (INCOME, 3 - INCOME),
    "equal texts": (JOB, JOB),
    "renamed": (JOB, [{"cook": "C", "nurse": "N", "pilot": "P"}[job] for job in JOB]),
    "a number for a text": (JOB, [{"cook": 7, "nurse": 1, "pilot": 3}[job] for job in JOB]),
    "flags": (FLAG, np.where(FLAG, "yes", "no")),
    "flags turned round": (FLAG, ~FLAG),
    "missing in the same rows": (np.where(FLAG, np.nan, INCOME), np.where(FLAG, np.nan, 2 * INCOME)),
}
NEAR = {
    "a little noise": (INCOME, INCOME + RNG.normal(size=N)),
    "logarithm": (INCOME, np.log(INCOME)),
    "other rows missing": (np.where(FLAG, np.nan, INCOME), INCOME),
}
DIFFERENT = {
    "unique, but shuffled": (np.arange(N) + 0.5, RNG.permutation(N) + 0.5),
    "correlated": (INCOME, INCOME * RNG.normal(1, 0.05, N)),
    "one value each in the same rows": ([1e9, *RNG.normal(size=N - 1)], [1e9, *RNG.normal(size=N - 1)]),
    "flags": (FLAG, RNG.random(N) < 0.3),
    "missing in other rows": (np.where(FLAG, "", JOB), JOB),
}


@pytest.mark.parametrize("case", COPIES)
def test_exact_copies(case):
    assert said(*COPIES[case]) == {"c1": ("copy", "c0")}


@pytest.mark.parametrize("case", NEAR)
def test_near_copies(case):
    assert said(*NEAR[case]) == {"c1": ("near copy", "c0")}


@pytest.mark.parametrize("case", DIFFERENT)
def test_other_columns(case):
    assert said(*DIFFERENT[case]) == {}


def test_few_rows_are_alike_by_chance():
    """Two flags of which each is true in one of a few rows; but the same values are the same."""
    flags = [True, *[False] * 9]
    assert said(flags, np.where(flags, "yes", "no")) == {}
    assert said([3, 1, 2, 2], [3, 1, 2, 2]) == {"c1": ("copy", "c0")}


def test_what_a_person_names_stays_and_texts_rather_than_their_numbers():
    assert said(INCOME, 2 * INCOME, named=["c1"]) == {"c0": ("copy", "c1")}
    number, text = COPIES["a number for a text"][::-1]
    assert said(number, text) == {"c0": ("copy", "c1")}
    assert said(INCOME, INCOME, INCOME) == {"c1": ("copy", "c0"), "c2": ("copy", "c0")}


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 1), (2, 2), (2, 2, 1), (4,), (3, 2, 1)])
def test_ways_are_those_of_brute_force(sizes):
    rows = np.repeat(range(len(sizes)), sizes)
    count = sum(
        sorted(map(len, partition)) == sorted(sizes) for partition in multiset_partitions(range(len(rows)))
    )
    assert log_ways(profiled(pd.Series(rows), "a")) == pytest.approx(math.log(count), abs=1e-9)
