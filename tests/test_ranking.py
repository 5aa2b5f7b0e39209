"""Rankings against sorted Python lists and explicit double loops over pairs."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from r2et import ranking
from tests.models_with_answers import naive_order, naive_pairs, normal

quick = settings(deadline=None, max_examples=40)

# few distinct values, so that ties are common
tied_scores = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.integers(-2, 3), min_size=n, max_size=n), min_size=1, max_size=4),
        st.integers(1, n - 1),
    )
)


def as_tensor(rows: list[list[int]], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(rows, dtype=dtype)


@given(tied_scores)
@quick
def test_top_k_and_ranks_break_ties_by_the_smaller_index(case):
    rows, k = case
    scores = as_tensor(rows)
    mask, best, places = ranking.top_k_mask(scores, k), ranking.top_k(scores, k), ranking.ranks(scores)
    assert mask.dtype == torch.bool
    for r, row in enumerate(rows):
        ranked = naive_order(row)
        assert best[r].tolist() == ranked[:k]
        assert mask[r].nonzero().flatten().tolist() == sorted(ranked[:k])
        assert [ranked.index(i) for i in range(len(row))] == places[r].tolist()
        assert ranking.order(scores)[r].tolist() == ranked


@given(tied_scores)
@quick
def test_boundary_gap_is_the_difference_of_two_sorted_values(case):
    rows, k = case
    expected = [sorted(row, reverse=True)[k - 1] - sorted(row, reverse=True)[k] for row in rows]
    assert ranking.boundary_gap(as_tensor(rows), k).tolist() == expected


@given(tied_scores, st.randoms())
@quick
def test_precision_counts_shared_features(case, random):
    rows, k = case
    others = [random.sample(row, len(row)) for row in rows]
    expected = [
        len(set(naive_order(a)[:k]) & set(naive_order(b)[:k])) / k for a, b in zip(rows, others, strict=True)
    ]
    found = ranking.precision_at_k(as_tensor(rows), as_tensor(others), k)
    assert found.tolist() == pytest.approx(expected, abs=1e-15)


@given(tied_scores, st.randoms())
@quick
def test_rank_correlation_is_spearmans_with_ties(case, random):
    rows, _ = case
    others = [random.sample(row, len(row)) for row in rows]
    found = ranking.rank_correlation(as_tensor(rows), as_tensor(others))
    for r, (a, b) in enumerate(zip(rows, others, strict=True)):
        if len(set(a)) > 1:
            assert float(found[r]) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_rank_correlation_of_many_features_in_float32():
    a, b = normal(2000).float(), normal(2000, seed=1).float()
    expected = stats.spearmanr(a.numpy(), b.numpy()).statistic
    assert float(ranking.rank_correlation(a, b)) == pytest.approx(expected, abs=1e-5)


def double_loop(weight_of_pair, row, k):
    """sum over pairs of ranks (i, j), 1 <= i <= k < j <= n, of a weight times the gap."""
    ranked = naive_order(row)
    return sum(
        weight_of_pair(i, j) * (row[ranked[i - 1]] - row[ranked[j - 1]])
        for i, j in itertools.product(range(1, k + 1), range(k + 1, len(row) + 1))
    )


@given(tied_scores)
@quick
def test_all_pair_weights_are_a_mean_over_pairs(case):
    rows, k = case
    scores = as_tensor(rows)
    weights = ranking.all_pair_weights(scores, k)
    found = (weights * scores).sum(-1)
    for r, row in enumerate(rows):
        pairs = naive_pairs(row, k)
        assert len(pairs) == k * (len(row) - k)
        assert float(found[r]) == pytest.approx(sum(row[i] - row[j] for i, j in pairs) / len(pairs), abs=1e-12)


@given(tied_scores, st.randoms())
@quick
def test_weights_measure_other_scores_in_the_pairs_of_the_first(case, random):
    """Thickness: the pairs come from the clean explanation, the gaps from the perturbed one."""
    rows, k = case
    other = [[random.uniform(-3, 3) for _ in row] for row in rows]
    scores, moved = as_tensor(rows), torch.tensor(other, dtype=torch.float64)
    n = scores.shape[-1]
    by_name = {
        "all": ranking.all_pair_weights(scores, k),
        "average-precision": ranking.average_precision_weights(scores, k),
        "dcg": ranking.dcg_weights(scores, k),
    }
    for r, row in enumerate(rows):
        ranked = naive_order(row)

        def gap(i, j, r=r, ranked=ranked):
            return other[r][ranked[i - 1]] - other[r][ranked[j - 1]]

        def mean_gap(size, gap=gap):
            return sum(gap(i, j) for i in range(1, size + 1) for j in range(size + 1, n + 1)) / (size * (n - size))

        expected = {
            "all": mean_gap(k),
            "average-precision": sum(mean_gap(size) for size in range(1, k + 1)) / k,
            "dcg": sum(gap(i, j) / math.log(j - i + 1) for i in range(1, k + 1) for j in range(k + 1, n + 1)),
        }
        for name, weights in by_name.items():
            assert float((weights[r] * moved[r]).sum()) == pytest.approx(expected[name], abs=1e-10), name


@given(tied_scores, st.integers(1, 8))
@quick
def test_boundary_weights_are_pairs_around_the_cut(case, pairs):
    rows, k = case
    scores = as_tensor(rows)
    n = scores.shape[-1]
    most = min(k, n - k)
    count = min(pairs, most)
    for given_pairs, used in ((count, count), (None, most)):
        weights = ranking.boundary_pair_weights(scores, k, given_pairs)
        assert weights.dtype == torch.float64
        for r, row in enumerate(rows):
            ranked = naive_order(row)
            expected = [0.0] * n
            for i in range(1, used + 1):
                expected[ranked[k - i]] += 1 / used
                expected[ranked[k + i - 1]] -= 1 / used
            assert weights[r].tolist() == pytest.approx(expected, abs=1e-14)


@given(tied_scores, st.randoms())
@quick
def test_fraction_in_order_is_a_count_of_pairs(case, random):
    rows, k = case
    others = [random.sample(row, len(row)) for row in rows]
    top = ranking.top_k(as_tensor(rows), k)
    found = ranking.fraction_in_order(as_tensor(others), top)
    for r, (row, other) in enumerate(zip(rows, others, strict=True)):
        pairs = naive_pairs(row, k)
        assert float(found[r]) == pytest.approx(
            sum(other[i] >= other[j] for i, j in pairs) / len(pairs), abs=1e-12
        )


def test_fraction_in_order_of_clean_scores_is_one_even_with_ties():
    scores = torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 1.0, 0.0]])
    assert ranking.fraction_in_order(scores, ranking.top_k(scores, 2)).tolist() == [1.0, 1.0]
    reversed_order = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    top = torch.tensor([[0, 1]])
    assert ranking.fraction_in_order(reversed_order, top).tolist() == [0.0]


def batched_and_strided() -> list[torch.Tensor]:
    """The same numbers contiguous, transposed and sliced."""
    base = normal(2, 3, 7).mul(2).round()  # with ties
    transposed = base.transpose(0, 2).contiguous().transpose(0, 2)
    wide = torch.zeros(2, 3, 14, dtype=torch.float64)
    wide[..., ::2] = base
    return [base, transposed, wide[..., ::2]]


@pytest.mark.parametrize("form", range(3), ids=["contiguous", "transposed", "strided"])
def test_batched_shapes_and_strides(form):
    scores, plain = batched_and_strided()[form], batched_and_strided()[0]
    k, rows = 3, list(itertools.product(range(2), range(3)))
    moved = (plain + normal(2, 3, 7, seed=3)).transpose(0, 1).contiguous().transpose(0, 1)
    top = ranking.top_k_mask(scores, k)
    results = {
        "mask": (top, lambda a, b: ranking.top_k_mask(a, k)),
        "top": (ranking.top_k(scores, k), lambda a, b: ranking.top_k(a, k)),
        "ranks": (ranking.ranks(scores), lambda a, b: ranking.ranks(a)),
        "gap": (ranking.boundary_gap(scores, k), lambda a, b: ranking.boundary_gap(a, k)),
        "precision": (ranking.precision_at_k(scores, moved, k), lambda a, b: ranking.precision_at_k(a, b, k)),
        "correlation": (ranking.rank_correlation(scores, moved), ranking.rank_correlation),
        "boundary": (
            ranking.boundary_pair_weights(scores, k, 2),
            lambda a, b: ranking.boundary_pair_weights(a, k, 2),
        ),
        "ap": (ranking.average_precision_weights(scores, k), lambda a, b: ranking.average_precision_weights(a, k)),
        "dcg": (ranking.dcg_weights(scores, k), lambda a, b: ranking.dcg_weights(a, k)),
        "fraction": (
            ranking.fraction_in_order(moved, ranking.top_k(scores, k)),
            lambda a, b: ranking.fraction_in_order(b, ranking.top_k(a, k)),
        ),
    }
    for name, (batched, alone) in results.items():
        for r in rows:
            expected = alone(plain[r].clone(), moved[r].clone())
            torch.testing.assert_close(batched[r], expected, atol=1e-14, rtol=0, msg=name)


def test_fraction_in_order_broadcasts_one_set_over_many_perturbations():
    clean, moved = normal(3, 6), normal(5, 3, 6, seed=1)
    top = ranking.top_k(clean, 2)
    found = ranking.fraction_in_order(moved, top)
    assert found.shape == (5, 3)
    for m, r in itertools.product(range(5), range(3)):
        pairs = naive_pairs(clean[r].tolist(), 2)
        expected = sum(float(moved[m, r, i]) >= float(moved[m, r, j]) for i, j in pairs) / len(pairs)
        assert float(found[m, r]) == pytest.approx(expected, abs=1e-12)


def test_the_example_of_figure_1():
    """A perturbed explanation that is closer in L2 shares fewer of the top-k features."""
    clean = torch.tensor([1.0, 0.9, 0.8, 0.7, 0.2, 0.1])
    reordered = torch.tensor([0.75, 0.7, 0.69, 0.76, 0.77, 0.1])  # small moves across the cut
    stretched = torch.tensor([2.0, 1.8, 1.6, 0.1, 0.1, 0.1])  # a large move that keeps the order
    assert (reordered - clean).norm() < (stretched - clean).norm()
    near, far = (ranking.precision_at_k(clean, other, 3) for other in (reordered, stretched))
    assert float(near) == pytest.approx(1 / 3)
    assert float(far) == 1.0


@pytest.mark.parametrize("k", [0, -1, 4, 7, 1.5, True])
def test_k_out_of_range_is_quoted(k):
    scores = normal(2, 4)
    with pytest.raises(ValueError, match=f"{k}"):
        ranking.precision_at_k(scores, scores, k)
    with pytest.raises(ValueError, match=f"{k}"):
        ranking.boundary_gap(scores, k)


def test_explanations_of_different_length_cannot_be_compared():
    with pytest.raises(ValueError, match=r"4 and 5 features"):
        ranking.precision_at_k(normal(2, 4), normal(2, 5), 2)


@pytest.mark.parametrize("pairs", [0, 3, -1])
def test_boundary_pairs_out_of_range(pairs):
    with pytest.raises(ValueError, match=f"got {pairs}"):
        ranking.boundary_pair_weights(normal(6), 2, pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_exact_in_their_own_precision(dtype):
    scores = normal(7).to(dtype)
    eps = torch.finfo(dtype).eps
    for weights in (
        ranking.all_pair_weights(scores, 3),
        ranking.boundary_pair_weights(scores, 3),
        ranking.average_precision_weights(scores, 3),
        ranking.dcg_weights(scores, 3),
    ):
        assert weights.dtype == dtype
        assert abs(float(weights.double().sum())) < 8 * eps
    boundary = ranking.boundary_pair_weights(scores, 3).double()
    assert float((boundary[boundary > 0] - 1 / 3).abs().max()) < eps


@pytest.mark.parametrize("n", [200, 256, 700, 1024])
def test_fraction_in_order_of_wide_rows_that_are_searched_in_blocks(n):
    clean, moved = normal(4, n), normal(4, n, seed=5)
    top = ranking.top_k(clean, 9)
    salient = moved.gather(1, top)
    others = torch.ones_like(moved, dtype=torch.bool).scatter(1, top, False)
    expected = [
        float((salient[r][:, None] >= moved[r][others[r]][None, :]).double().mean()) for r in range(len(clean))
    ]
    assert ranking.fraction_in_order(moved, top).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float16, torch.int64])
def test_ranks_do_not_overflow_in_small_types(dtype):
    """300 features have ranks that 8 bits do not hold."""
    a, b = (torch.randperm(300).remainder(100) for _ in range(2))
    exact = ranking.rank_correlation(a.double(), b.double())
    assert ranking.rank_correlation(a.to(dtype), b.to(dtype)).double() == pytest.approx(float(exact), abs=1e-4)
