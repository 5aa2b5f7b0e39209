"""What an attacker may touch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et import Domain
from tests.models_with_answers import normal

quick = settings(deadline=None, max_examples=60)
number = st.floats(-3, 3, allow_nan=False)


@given(st.lists(st.tuples(number, number, number, number, st.booleans()), min_size=1, max_size=6))
@quick
def test_clamp_feature_by_feature(rows):
    """A frozen feature stays; another goes to the nearest allowed value; a start outside may stay, not leave."""
    low = torch.tensor([min(a, b) for a, b, *_ in rows], dtype=torch.float64)
    high = torch.tensor([max(a, b) for a, b, *_ in rows], dtype=torch.float64)
    start = torch.tensor([r[2] for r in rows], dtype=torch.float64)
    x = torch.tensor([r[3] for r in rows], dtype=torch.float64)
    frozen = [i for i, r in enumerate(rows) if r[4]]
    domain = Domain(lower=low, upper=high, frozen=frozen)
    domain.check(len(rows))
    found = domain.reach("domain", len(rows)).clamp(x[None], start[None])[0]
    for i in range(len(rows)):
        allowed = min(float(low[i]), float(start[i])), max(float(high[i]), float(start[i]))
        expected = float(start[i]) if i in frozen else min(max(float(x[i]), allowed[0]), allowed[1])
        assert float(found[i]) == expected


def test_an_open_domain_changes_nothing():
    x, start = normal(3, 4), normal(3, 4, seed=1)
    assert torch.equal(Domain().reach("domain", x.shape[-1]).clamp(x, start), x)
    assert Domain().reach("domain", 4).movable.all()


def test_bounds_on_one_side():
    x, start = torch.tensor([[-2.0, 2.0]]), torch.zeros(1, 2)
    assert Domain(lower=-1.0).reach("domain", x.shape[-1]).clamp(x, start).tolist() == [[-1.0, 2.0]]
    assert Domain(upper=1.0).reach("domain", x.shape[-1]).clamp(x, start).tolist() == [[-2.0, 1.0]]
    assert Domain(lower=torch.tensor(-1.0), upper=torch.tensor([0.5, 1.5])).reach("domain", x.shape[-1]).clamp(
        x, start
    ).tolist() == [[-1.0, 1.5]]


def test_groups_are_frozen_in_the_domain_and_move_under_the_other_threats():
    groups = [[0, 2], [3, 1]]
    domain = Domain(groups=groups, frozen=[4], lower=0.0)
    assert domain.reach("domain", 6).movable.tolist() == [False] * 5 + [True]
    assert domain.reach("tangent", 6).movable.all()
    assert domain.reach("paper", 6).everywhere
    x, start = torch.ones(2, 6), torch.zeros(2, 6)
    assert domain.reach("domain", 6).clamp(x, start)[0].tolist() == [0.0] * 5 + [1.0]


def test_pairs_of_inputs_share_a_domain():
    x, start = normal(3, 2, 4), normal(3, 2, 4, seed=1)
    domain = Domain(lower=torch.tensor([-0.1, -0.2, -0.3, -0.4], dtype=torch.float64), frozen=[1])
    reach = domain.reach("domain", 4)
    together = reach.clamp(x, start)
    for side in range(2):
        assert torch.equal(together[:, side], reach.clamp(x[:, side], start[:, side]))


def test_bounds_take_the_dtype_of_the_input():
    domain = Domain(lower=torch.zeros(2, dtype=torch.float64), upper=1)
    assert domain.reach("domain", 2).clamp(torch.tensor([[2.0, -1.0]]), torch.zeros(1, 2)).dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lower": torch.zeros(3)}, "lower bound has 3 values for 4 features"),
        ({"upper": torch.zeros(5)}, "upper bound has 5 values for 4 features"),
        ({"lower": 1.0, "upper": 0.0}, r"feature 0: lower 1\.0 is above upper 0\.0"),
        ({"lower": torch.tensor([0.0, 0.0, 2.0, 0.0]), "upper": 1.0}, r"feature 2: lower 2\.0"),
        ({"lower": 0.0, "upper": torch.tensor([1.0, -1.0, 1.0, 1.0])}, "feature 1"),
        ({"frozen": [4]}, "feature 4"),
        ({"frozen": [-1]}, r"frozen=\[-1\]"),
        ({"groups": [[0, 2], [1, 9]]}, "feature 9"),
        ({"groups": [[0], [1, 2]]}, r"groups\[0\]=\[0\] has fewer than two"),
        ({"equal": [[1, 7]]}, "feature 7"),
        ({"unit": torch.zeros(3)}, "unit has 3 values"),
        ({"unit": -1.0}, "unit must be 0 or more"),
    ],
)
def test_a_domain_that_does_not_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        Domain(**settings).check(4)


def test_a_domain_that_fits():
    Domain(lower=torch.zeros(2, 2), upper=torch.ones(4), frozen=[0, 3], groups=[[1, 2]]).check(4)
    Domain(lower=0.0, upper=0.0).check(4)


def test_features_that_can_be_read_once_only_stay_frozen():
    domain = Domain(frozen=iter([0, 2]), groups=[iter([1, 3])])
    for _ in range(2):
        assert domain.reach("domain", 5).movable.tolist() == [False, False, False, False, True]
