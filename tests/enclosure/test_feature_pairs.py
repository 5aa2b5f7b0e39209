"""The functionals that hold a top-k set together, and the precision curve that follows from them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.enclosure.feature_pairs import TIE, FeaturePairs, first_order_radii
from r2et.enclosure.slopes import Slopes
from tests.models_with_answers import normal


def naive_limits(radii, k, others):
    """limits by going through every way to displace features: radii (k, others) of one input.

    m salient features can be displaced together if there are m newcomers that each of them lost to; it happens at
    the smallest radius that opens such a block.
    """
    found = []
    for m in range(1, k + 1):
        # all ways of m displaced and m newcomers: every pair of the two groups must be open
        found.append(
            min(
                (
                    max(float(radii[i, j]) for i in gone for j in come)
                    for gone in itertools.combinations(range(k), m)
                    for come in itertools.combinations(range(others), m)
                ),
                default=float("inf"),
            )
        )
    return found


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), others=st.integers(1, 4), signed=st.booleans())
def test_limits_never_exceed_what_every_way_of_displacement_needs(seed, k, others, signed):
    pairs = FeaturePairs.of(normal(3, k + others, seed=seed), k, signed)
    source = torch.Generator().manual_seed(seed)
    radii = torch.randint(0, 6, pairs.values.shape, generator=source).double()
    limits = pairs.limits(radii)
    assert limits.shape == (3, k)
    assert (limits[:, 1:] >= limits[:, :-1]).all()
    pooled = radii.unflatten(1, (-1, k, others)).amin(1)
    for row in range(3):
        exact = naive_limits(pooled[row], k, others)
        for m in range(k):
            assert float(limits[row, m]) <= exact[m]
        # the first is the smallest radius of all, exactly
        assert float(limits[row, 0]) == exact[0] == float(radii[row].min())
        # and every one is the count of its docstring: m salient and m other features with m open pairs each
        for m in range(1, k + 1):
            for at in range(6):
                still_open = pooled[row] <= at
                count = min(int((still_open.sum(1) >= m).sum()), int((still_open.sum(0) >= m).sum()))
                assert (float(limits[row, m - 1]) <= at) == (count >= m)


def test_limits_on_a_block_are_exact():
    """Two salient features lose to the same two others at radii up to 2; nothing else opens before 9."""
    pairs = FeaturePairs.of(torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]]).double(), 3, True)
    radii = torch.tensor([[1.0, 2.0, 1.5, 2.0, 9.0, 9.0]]).double()
    assert pairs.limits(radii).tolist() == [[1.0, 2.0, float("inf")]]


@pytest.mark.parametrize("signed", [True, False])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 7), data=st.data())
def test_the_set_stays_exactly_while_all_functionals_are_positive(signed, seed, n, data):
    k = data.draw(st.integers(1, n - 1))
    e = normal(2, n, seed=seed)
    pairs = FeaturePairs.of(e, k, signed)
    numbers = torch.arange(pairs.values.shape[1]).expand(2, -1)
    i, a, j, b = pairs.select(numbers)
    assert pairs.values.shape[1] == k * (n - k) * (1 if signed else 2)
    # values are a e_i + b e_j, less what rounding may take
    direct = a * e.gather(1, i) + b * e.gather(1, j)
    assert torch.allclose(direct - pairs.ties, pairs.values, rtol=0, atol=1e-14)
    assert torch.allclose(pairs.ties, TIE * (e.gather(1, i).abs() + e.gather(1, j).abs()), rtol=1e-6)
    other = normal(500, 2, n, seed=seed + 1)
    phi = a * other.gather(2, i.expand(500, -1, -1)) + b * other.gather(2, j.expand(500, -1, -1))
    kept = (phi > 0).all(2)
    scores = other if signed else other.abs()
    same = scores.topk(k, dim=2).indices.sort(2).values == pairs.top.sort(1).values
    same = same.all(2)
    assert (same | ~kept).all(), "all positive, yet another set"
    if signed:
        assert torch.equal(same, kept)
    else:
        # a set can also be kept with the sign of a salient feature turned, on the far side of a tie
        sign_kept = (other.gather(2, pairs.top.expand(500, -1, -1)) * pairs.sign > 0).all(2)
        assert torch.equal(same & sign_kept, kept)


def pairs_of(*values, signed):
    # not torch.tensor(values).double(): single precision would make ties of its own
    return FeaturePairs.of(torch.tensor([values], dtype=torch.float64), 2, signed)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("values", [(2.0, 1.0, 1.0), (0.0, 0.0, 0.0), (2.0, 1.0, 1.0 - 1e-12)])
def test_ties_are_not_positive(values, signed):
    assert not (pairs_of(*values, signed=signed).values > 0).all()


def test_opposite_values_tie_in_magnitude_alone():
    assert (pairs_of(2.0, 1.0, -1.0, signed=True).values > 0).all()
    assert not (pairs_of(2.0, 1.0, -1.0, signed=False).values > 0).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("signed", [True, False])
def test_a_tie_is_a_gap_below_a_billionth_of_the_two_values(size, signed):
    """The gap between 1 and 1 - 2 e is e of their sum, almost."""
    for share, positive in ((0.5e-9, False), (0.9e-9, False), (1.1e-9, True), (2e-9, True)):
        pairs = pairs_of(2.0 * size, size, (1 - 2 * share) * size, signed=signed)
        assert bool((pairs.values > 0).all()) == positive, share


@pytest.mark.parametrize("signed", [True, False])
def test_first_order_radii_spelled_out(signed):
    e, rows = normal(2, 5, seed=1), normal(2, 5, 4, seed=2)
    pairs = FeaturePairs.of(e, 2, signed)
    found = first_order_radii(pairs, Slopes.known(rows))
    i, a, j, b = pairs.select(torch.arange(found.shape[1]).expand(2, -1))
    for row in range(2):
        for d in range(found.shape[1]):
            slope = a[row, d] * rows[row, i[row, d]] + b[row, d] * rows[row, j[row, d]]
            assert float(found[row, d]) == pytest.approx(float(pairs.values[row, d] / slope.norm()))


def test_first_order_radii_of_ties_and_of_what_does_not_move():
    pairs = FeaturePairs.of(torch.tensor([[2.0, 1.0, 1.0]]).double(), 2, True)
    assert first_order_radii(pairs, Slopes.known(torch.zeros(1, 3, 3).double())).tolist() == [[float("inf"), 0.0]]
