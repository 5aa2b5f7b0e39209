"""What the values of one column say."""

import numpy as np
import pandas as pd
import pytest

from r2et.tables.checks.contents import decisive, far_values, remarks
from r2et.tables.checks.profile import profiled

RNG = np.random.default_rng(0)
N = 400


def filled(count: int, value: object, rest: object) -> list[object]:
    return [value] * count + [rest] * (N - count)


USELESS = {
    "nothing": (filled(N, np.nan, 0), "empty"),
    "hardly anything": (filled(385, np.nan, 1.0), "empty"),
    "one value": (filled(N, "AT", ""), "constant"),
    "one value, few missing": (filled(390, 3.0, np.nan), "constant"),
    "numbers beside texts": (filled(10, "a", 1), "mixed types"),
    "lists": ([[i] for i in range(N)], "mixed types"),
    "names": ([f"name {i % 150}" for i in range(N)], "many texts"),
    "jobs": ([f"job {i % 90}" for i in range(N)], "many texts"),
}
SAID = {
    "infinite": ([np.inf, -np.inf, *range(N - 2)], "infinite"),
    "a mark or nothing": (filled(100, "x", None), "one value or none"),
    "some missing": ([None, *map(float, range(N - 1))], "missing"),
    "far away": ([*range(N - 1), 10**6], "outlier"),
    "zip codes": (RNG.choice([10115, 20095, 80331], N), "codes"),
    "decimal commas": ([f"{i % 9},5" for i in range(N)], "numbers as text"),
    "words among numbers": (["unknown", *(str(i % 9) for i in range(N - 1))], "numbers as text"),
    "dates as text": ([f"{1 + i % 9:02}.03.2020" for i in range(N)], "dates as text"),
    "dates": (pd.date_range("2020-01-01", periods=N), "date"),
}


@pytest.mark.parametrize("case", USELESS)
def test_what_is_of_no_use(case):
    values, kind = USELESS[case]
    assert decisive(profiled(pd.Series(values), "a")).kind == kind


@pytest.mark.parametrize("case", SAID)
def test_what_is_only_said(case):
    values, kind = SAID[case]
    profile = profiled(pd.Series(values), "a")
    assert decisive(profile) is None
    assert [remark.kind for remark in remarks(profile)] == [kind]


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=N),
        RNG.lognormal(8, 1.5, N),
        RNG.integers(18, 80, N),
        RNG.choice(["a", "b", "c"], N),
        RNG.choice([1000, 1500, 2000, 2500], N),
        RNG.integers(1950, 2000, N),
        RNG.integers(1, 6, N),
        RNG.random(N) < 0.5,
        [f"state {i % 50}" for i in range(N)],
        # mostly none, and the rest like amounts
        np.where(RNG.random(N) < 0.9, 0, RNG.lognormal(3, 1, N)),
    ],
)
def test_nothing_is_said_of_honest_columns(values):
    profile = profiled(pd.Series(values), "a")
    assert decisive(profile) is None
    assert list(remarks(profile)) == []


def test_many_categories_are_kept_where_most_rows_share_theirs():
    values = [f"job {i % 60}" for i in range(60 * 30)]
    profile = profiled(pd.Series(values), "a")
    assert decisive(profile) is None
    assert [remark.kind for remark in remarks(profile)] == ["many categories"]
    # the same number of texts, but each in few rows
    assert decisive(profiled(pd.Series(values[: 60 * 5]), "a")).kind == "many texts"


def test_almost_constant_from_one_in_a_thousand():
    for rows, said in ((1000, True), (999, False)):
        column = pd.Series([*["a"] * (rows - 1), "b"])
        kinds = [remark.kind for remark in remarks(profiled(column, "a"))]
        assert ("almost constant" in kinds) == said


def test_far_values_are_those_of_brute_force():
    rng = np.random.default_rng(1)
    for _ in range(20):
        usual = rng.normal(size=300)
        planted = rng.choice([-1, 1], 2) * rng.uniform(200, 900, 2)
        mixed = rng.permutation([*usual, *planted])
        assert far_values(mixed).tolist() == sorted(planted)
        assert not len(far_values(usual))
    assert not len(far_values(np.array([1.0] * 5 + [1e9])))
    assert not len(far_values(np.full(100, 1e308)))


def test_figures_count_rows():
    profile = profiled(pd.Series([np.nan] * 30 + [1.0, np.inf] * 35), "a")
    figures = {remark.kind: dict(remark.figures) for remark in remarks(profile)}
    assert figures["missing"] == {"missing": 30}
    assert figures["infinite"] == {"rows": 35}
