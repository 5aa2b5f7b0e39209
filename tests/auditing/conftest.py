"""A fragile model and its audit, computed once."""

import pytest
from torch import nn

from r2et import audit
from tests.auditing.toys import RADII, X, Y
from tests.little_effort import quick_audits
from tests.models_with_answers import mlp

__all__ = ["fragile", "quick_audits", "report"]


@pytest.fixture(scope="package")
def fragile():
    return mlp(seed=1, activation=nn.Tanh)


@pytest.fixture(scope="package")
def report(fragile):
    return audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=30, seed=4)
