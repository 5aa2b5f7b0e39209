"""Where one number may go alone: brute force inside, and a change just outside."""

import numpy as np
import pytest
import torch

from r2et import StableClassifier
from r2et.estimator.ranges import alone, why_not_alone
from r2et.models import MLP, Additive, Linear

from .frames import mixed

CLOSE = 2 * 6 / 1024


@pytest.fixture(scope="module", params=["additive", "linear"])
def fitted(request) -> StableClassifier:
    own = {"method": "linear"} if request.param == "linear" else {"network": "additive"}
    return StableClassifier(k=2, settings={}, epochs=20, random_state=0, **own).fit(*mixed())


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_the_range_is_all_of_it_up_to_a_cell(fitted, label, n):
    x = fitted.encode(mixed()[0])[:30]
    target = torch.full((len(x),), label)
    explainer, columns = fitted.contributions_, fitted.encoding_.as_columns

    def lists(rows: torch.Tensor) -> torch.Tensor:
        values = explainer(fitted.model_, rows, torch.full((len(rows),), label))
        bar = values.topk(n, dim=1).values[:, -1:]
        return (values >= bar) & (values > 0)

    values, listed = explainer(fitted.model_, x, target), lists(x)
    options = {"target": target, "columns": columns, "domain": fitted.domain_}
    lower, upper = alone(fitted.model_, x, values, listed, **options)
    seen = 0
    for row, column in listed.nonzero().tolist():
        if columns.kinds[column] != "number":
            assert torch.isnan(lower[row, column])
            continue
        (feature,) = columns.features[column]
        ends = [float(bound[feature]) for bound in (fitted.domain_.lower, fitted.domain_.upper)]
        low, high = float(lower[row, column]), float(upper[row, column])
        if np.isnan(low):
            continue
        seen += 1
        inside = torch.linspace(max(low, ends[0]) + 1e-9, min(high, ends[1]) - 1e-9, 200, dtype=torch.float64)
        moved = x[row].repeat(len(inside), 1)
        moved[:, feature] = inside
        assert (lists(moved) == listed[row]).all()
        for end, outwards in ((low, -CLOSE), (high, CLOSE)):
            if np.isfinite(end):
                beyond = x[row].repeat(50, 1)
                beyond[:, feature] = torch.linspace(end, end + 3 * outwards, 50, dtype=torch.float64)
                assert not (lists(beyond) == listed[row]).all(), "the range could have been longer"
    assert seen > 5


def test_which_models_have_such_ranges():
    assert why_not_alone(Additive(3, 2), 2) is None
    assert why_not_alone(Linear(3, 2), 2) is None
    assert "depend on the others" in why_not_alone(MLP(3, 2), 2)
    assert "more than two classes" in why_not_alone(Additive(3, 4), 4)
