"""Which bounds take part in a certificate."""

import pytest
import torch
from torch import nn

from r2et.certificates.combined import BUDGET, combined
from r2et.enclosure import extract
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput
from tests.models_with_answers import mlp

ONE = extract(mlp(5), torch.Size([5]))
TWO = extract(nn.Sequential(*mlp(5, 4), nn.Tanh(), nn.Linear(4, 2)).double(), torch.Size([5]))


def parts(network, *, method="auto", explainer=None, radii=None):
    chosen = explainer or Gradient()
    return combined(network, chosen, method=method, family="deterministic", radii=radii, budget=None).parts


def test_a_search_takes_all_that_apply_and_given_radii_the_dual_alone():
    assert parts(ONE) == ("integral", "dual")
    assert parts(ONE, radii=[0.1]) == ("dual",)
    assert parts(ONE, method="integral", radii=[0.1]) == ("integral",)
    assert parts(ONE, explainer=GradientTimesInput(), radii=[0.1]) == ("integral",)
    assert parts(TWO) == parts(TWO, radii=[0.1]) == ("integral",)


def test_the_dual_by_name_applies_or_says_why_not():
    assert parts(ONE, method="dual") == ("dual",)
    with pytest.raises(InputError, match="one hidden layer, and this one has 2"):
        parts(TWO, method="dual")


def test_limits_are_known_at_given_radii_alone_only_where_the_dual_decides():
    def asked(method, budget):
        return combined(ONE, Gradient(), method=method, family="deterministic", radii=[0.1], budget=budget)

    assert asked("auto", None).only_at_radii
    assert not asked("integral", None).only_at_radii
    assert asked("auto", None).budget == BUDGET
    assert asked("auto", 7).budget == 7
