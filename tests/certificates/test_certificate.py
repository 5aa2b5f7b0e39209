"""What a certificate says, and how it is printed and handed on."""

import json
import math

import pytest
import torch

from r2et.certificates import Certificate, certify
from r2et.errors import InputError
from tests.models_with_answers import linear, mlp, normal


def made(**settings):
    limits = torch.tensor([[0.5, 1.0, math.inf], [0.0, 0.0, 2.0]], dtype=torch.float64)
    return Certificate(limits, "deterministic", "the gradient of the log-odds, by magnitude", **settings)


def test_radius_and_size():
    certificate = made()
    assert certificate.k == 3
    assert certificate.radius.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (0.0, [1.0, 1 / 3]),
        (0.4999, [1.0, 1 / 3]),
        (0.5, [2 / 3, 1 / 3]),
        (1.0, [1 / 3, 1 / 3]),
        (2.0, [1 / 3, 0.0]),
        (1e12, [1 / 3, 0.0]),
        (torch.tensor([0.2, 5.0]), [1.0, 0.0]),
        (torch.tensor(0.7), [2 / 3, 1 / 3]),
    ],
)
def test_precision_counts_the_features_that_may_be_displaced(radius, expected):
    assert made().precision_at(radius).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("radius", "match"),
    [
        (-0.1, r"radius must not be negative, got -0\.1"),
        (math.nan, "radius must not be negative, got nan"),
        (torch.tensor([0.1, -1.0]), "radius must not be negative"),
        (torch.zeros(3), r"one for each of the 2 inputs, got a tensor of shape \(3,\)"),
        (torch.zeros(2, 1), r"got a tensor of shape \(2, 1\)"),
    ],
)
def test_a_bad_radius_is_quoted(radius, match):
    with pytest.raises(InputError, match=match):
        made().precision_at(radius)


def test_it_prints_within_80_columns():
    text = repr(made(assumptions=("a sentence " * 30,), reasons={"piecewise": "long words " * 20}))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(
        "certified radius of the top 3 features, method deterministic\nexplanation: the gradient"
    )
    assert "2 inputs: radius median 0, smallest 0, largest 0.5" in text
    assert "not piecewise: long words" in text


def test_a_real_one_prints_within_80_columns_and_says_what_it_rests_on():
    certificate = certify(mlp(5), normal(3, 5), 2)
    text = repr(certificate)
    assert max(map(len, text.splitlines())) <= 80
    joined = " ".join(text.split())
    for phrase in (
        "3 inputs: radius median",
        "the gradient of the log-odds, by magnitude",
        "held fixed at that of the clean input",
        "rounding is not directed",
        "not piecewise:",
        "not smoothing:",
        "not first-order:",
    ):
        assert phrase in joined
    single = repr(certify(mlp(5), normal(1, 5), 2))
    assert "1 inputs: radius " in single or "1 input: radius " in single


def test_an_estimate_is_not_called_a_certificate():
    assert repr(made(sound=False)).startswith("estimated radius (not a certificate) of the top 3 features")


def test_as_a_frame():
    frame = made().to_frame()
    assert list(frame.columns) == ["radius", "displaced_at_most_1", "displaced_at_most_2"]
    assert frame["radius"].tolist() == [0.5, 0.0]
    assert frame["displaced_at_most_2"].tolist() == [math.inf, 2.0]
    assert frame.attrs["method"] == "deterministic"
    assert frame.attrs["sound"] is True


def test_as_json():
    certificate = certify(linear(5), normal(3, 5), 2)
    plain = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert plain["radius"] == [None, None, None]
    assert plain["k"] == 2
    assert plain["sound"] is True
    assert set(plain["reasons"]) == {"piecewise", "smoothing", "first-order"}
    again = json.loads(json.dumps(made().to_dict(), allow_nan=False))
    assert again["limits"] == [[0.5, 1.0, None], [0.0, 0.0, 2.0]]
