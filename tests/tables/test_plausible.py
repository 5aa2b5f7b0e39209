"""What a plausible change is: proposed by the resolution and the size of a column's values."""

import numpy as np
import pandas as pd
import pytest

from r2et.errors import InputError
from r2et.tables import Encoding, Plausible, parse_plausible
from r2et.tables.plausible import proposed, resolution


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(18, 80), "1"),
        (np.array([18_700.0, 22_000, 31_000, 15_000]), "2 % (407)"),
        (np.arange(1950, 2005), "2"),
        (np.array([0.0, 0, 0, 0]), "1"),
        (np.array([1.0, 2, 3, 4]) / 10, "0.1"),
        (np.array([5000.0, 5000]), "2 % (100)"),
    ],
)
def test_proposals(values, expected):
    assert str(proposed(values.astype(float))) == expected


def test_a_proposal_is_no_less_than_the_resolution_and_no_more_than_a_tenth_of_the_spread():
    drawn = np.random.default_rng()
    for _ in range(200):
        values = np.round(drawn.normal(drawn.normal() * 100, 10 ** drawn.uniform(-3, 4), 30), drawn.integers(0, 6))
        if values.std() == 0:
            continue
        change = proposed(values)
        assert change.amount >= change.step
        assert change.amount <= 1.05 * max(change.step, 0.1 * values.std() + change.step / 2)


def test_resolutions_of_any_size():
    assert resolution(np.array([1e-13, 1.0])) == 0
    assert resolution(np.array([1e9 + 0.001, 1e9])) == 0.001
    assert resolution(np.array([0.1 + 0.2, 0.7])) == 0.1


def test_dates_change_by_a_day():
    frame = pd.DataFrame({"since": pd.to_datetime(["2020-01-01", "2021-05-06"]), "n": [1, 5]})
    encoding = Encoding.learn(frame)
    assert encoding.plausible["since"].amount == 1
    assert float(encoding.scale()[0]) == pytest.approx(1 / encoding.columns[0].scale)


def test_the_domain_has_the_proposals_in_encoded_units():
    frame = pd.DataFrame({"age": [20, 40, 60], "job": list("abc"), "pay": [1000.5, 2000.1, 1500.2]})
    encoding = Encoding.learn(frame)
    scale = encoding.domain.scale
    assert scale.tolist()[1:4] == [1, 1, 1]
    assert float(scale[0]) == pytest.approx(1 / encoding.columns[0].scale)
    assert float(scale[4]) == pytest.approx(0.02 * 1500.2 / encoding.columns[2].scale)
    assert encoding.scale({"age": Plausible(5.0)})[0] == pytest.approx(5 / encoding.columns[0].scale)


def test_text_overrides_proposals():
    known = {"a": Plausible(1.0, magnitude=50.0), "b=c": Plausible(2.0)}
    changes = parse_plausible(" a = 4 %, b=c=1e-3", known)
    assert (changes["a"].amount, changes["a"].percent, changes["b=c"].amount) == (2.0, 4.0, 0.001)
    assert parse_plausible("auto", known) == known


@pytest.mark.parametrize(
    "text", ["a", "a=", "a=x", "a=1e999", "a=nan", "a=-1", "a=0", "=1", "a=1%%", "a=1,,", " ", 3]
)
def test_text_that_says_nothing(text):
    with pytest.raises(InputError, match="plausible change"):
        parse_plausible(text, {"a": Plausible(1.0, magnitude=1.0)})


def test_a_percentage_of_nothing():
    with pytest.raises(InputError, match="0 throughout"):
        parse_plausible("a=1%", {"a": Plausible(1.0)})


@pytest.mark.parametrize(
    "settings", [{"amount": 0}, {"amount": "1"}, {"amount": 1, "percent": -1}, {"amount": 1, "step": -1}]
)
def test_changes_that_are_none(settings):
    with pytest.raises(InputError, match="must be a number"):
        Plausible(**settings)
