"""Which iterates are legal: budget, cap, domain and rounding."""

import pytest
import torch

from r2et.attacks.limits import Limits, tolerance


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_budget_ends_at_the_radius(norm):
    limits = Limits(torch.zeros(3, 2, dtype=torch.float64), 1.0, norm)
    x = torch.tensor([[1.0, 0.0], [1.0 + 1e-6, 0.0], [0.8, 0.8]], dtype=torch.float64)
    assert limits.accept(x).tolist() == [True, False, norm == "linf"]
    assert limits.rejected["outside the budget"] == (2 if norm == "l2" else 1)


def test_the_cap_counts_beside_the_radius():
    limits = Limits(torch.zeros(2, 2), 1.0, "l2", 0.5)
    assert limits.accept(torch.tensor([[0.4, 0.4], [0.6, 0.0]])).tolist() == [True, False]


def test_tied_features_round_as_the_largest_of_them():
    """A sum of thirds is off by rounding; a free feature of a million gives it no room."""
    start = torch.tensor([[1e6, 1.0, 0.0]])

    def inside(x):
        moved = x - start
        moved[:, 1:] -= moved[:, 1:].mean(1, keepdim=True)
        return start + moved

    limits = Limits(start, 1.0, "l2", inside=inside, tied=torch.tensor([False, True, True]))
    off = torch.tensor([[0.0, 3e-7, 0.0], [0.0, 0.05, 0.0]])
    assert [bool(limits.accept(start + step)) for step in off] == [True, False]
    loose = Limits(start, 1.0, "l2", inside=inside)
    assert not bool(loose.accept(start + torch.tensor([[0.0, 0.0, 3e-7]])))


def test_rounding_has_the_precision_of_the_numbers():
    assert tolerance(torch.float64) < tolerance(torch.float32)
