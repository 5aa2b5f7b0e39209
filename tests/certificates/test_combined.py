"""Which bounds take part in a certificate."""

import pytest
import torch
from torch import nn

from r2et import Columns
from r2et.certificates import certify
from r2et.certificates.combined import combined
from r2et.enclosure import extract
from r2et.errors import InputError
from r2et.explainers import ColumnEffects, Gradient, GradientTimesInput, SmoothGrad
from tests.models_with_answers import mlp, normal

ONE = extract(mlp(5), torch.Size([5]))
TWO = extract(nn.Sequential(*mlp(5, 4), nn.Tanh(), nn.Linear(4, 2)).double(), torch.Size([5]))


def parts(network, *, method="auto", family="deterministic", explainer=None, radii=None):
    chosen = explainer or Gradient()
    return combined(network, chosen, method=method, family=family, radii=radii, budget=None).parts


def test_a_search_takes_all_that_apply_and_given_radii_the_dual_alone():
    assert parts(ONE) == ("integral", "dual")
    assert parts(ONE, radii=[0.1]) == ("dual",)
    assert parts(ONE, method="integral", radii=[0.1]) == ("integral",)
    numbers = Columns(tuple("abcde"), tuple((i,) for i in range(5)), ("number",) * 5, ((),) * 5)
    for explainer in (GradientTimesInput(), ColumnEffects(columns=numbers)):
        assert parts(ONE, explainer=explainer) == ("integral", "dual")
        assert parts(ONE, explainer=explainer, radii=[0.1]) == ("dual",)
    assert parts(ONE, explainer=SmoothGrad(score="log-odds"), radii=[0.1]) == ("integral",)
    assert parts(TWO) == parts(TWO, radii=[0.1]) == ("integral", "quadratic")
    assert parts(TWO, method="quadratic") == ("quadratic",)
    assert parts(TWO, explainer=GradientTimesInput()) == ("integral",)


def test_auto_leaves_the_dual_out_where_it_gained_nothing():
    relu = extract(mlp(5, activation=nn.ReLU), torch.Size([5]))
    assert parts(relu, family="piecewise") == ("intervals",)
    assert parts(relu, family="piecewise", radii=[0.1]) == ("dual",)
    assert parts(relu, method="piecewise", family="piecewise") == ("intervals", "dual")
    many = extract(mlp(5, 4), torch.Size([5]))
    assert parts(many) == parts(many, radii=[0.1]) == ("integral", "quadratic")
    assert parts(many, method="deterministic", radii=[0.1]) == ("integral", "quadratic")
    assert parts(many, explainer=Gradient(score="logit")) == ("integral", "dual")


def test_the_dual_alone_finds_radii_between_hinges():
    """Nothing bends at x, so that the first-order radius is infinite: no place to look from."""
    model, x = mlp(5, activation=nn.ReLU, seed=2), normal(12, 5, seed=3)
    assert float((certify(model, x, 2, method="dual").radius > 0).double().mean()) > 0.5


def test_the_dual_by_name_applies_or_says_why_not():
    assert parts(ONE, method="dual") == ("dual",)
    with pytest.raises(InputError, match="one hidden layer, and this one has 2"):
        parts(TWO, method="dual")


def test_limits_are_known_at_given_radii_alone_only_where_the_dual_decides():
    def asked(method, budget):
        return combined(ONE, Gradient(), method=method, family="deterministic", radii=[0.1], budget=budget)

    assert asked("auto", None).only_at_radii
    assert not asked("integral", None).only_at_radii
    assert asked("auto", None).budget == 0
    assert asked("auto", 7).budget == 7
