"""What rows show about their columns, against tables whose categories are known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et import Domain
from r2et.domain.learning import one_hot_groups, zero_or_one


def one_hot(count: int, sizes: list[int], seed: int) -> torch.Tensor:
    """Random categories, side by side; every value occurs."""
    draw = torch.Generator().manual_seed(seed)
    parts = []
    for size in sizes:
        codes = torch.cat([torch.arange(size), torch.randint(size, (count - size,), generator=draw)])
        parts.append(torch.nn.functional.one_hot(codes[torch.randperm(count, generator=draw)], size).double())
    return torch.cat(parts, 1)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_categories_are_found_and_flags_are_not(sizes, flags, seed):
    draw = torch.Generator().manual_seed(seed + 1)
    rows = torch.cat([one_hot(300, sizes, seed), torch.randint(2, (300, flags), generator=draw).double()], 1)
    order = torch.randperm(rows.shape[1], generator=draw)
    place = {int(old): new for new, old in enumerate(order)}
    start, expected = 0, []
    for size in sizes:
        expected.append(tuple(sorted(place[start + j] for j in range(size))))
        start += size
    domain = Domain.from_rows(rows[:, order])
    assert sorted(domain.groups) == sorted(expected)
    assert len(domain.frozen) == flags


def test_a_sum_that_fails_in_one_row_is_no_group():
    rows = one_hot(200, [3, 4], 0)
    rows[7, 0:3] = 0
    assert Domain.from_rows(rows).groups == ((3, 4, 5, 6),)


def test_equal_flags():
    flag = torch.randint(2, (100, 1), generator=torch.Generator().manual_seed(0)).double()
    domain = Domain.from_rows(torch.cat([flag, one_hot(100, [3], 1), flag], 1))
    assert domain.equal == ((0, 4),)
    assert domain.groups == ((1, 2, 3),)
    assert domain.frozen == (0, 4)


def test_a_flag_and_its_opposite_are_a_group():
    flag = torch.randint(2, (50, 1), generator=torch.Generator().manual_seed(0)).double()
    assert Domain.from_rows(torch.cat([flag, 1 - flag], 1)).groups == ((0, 1),)


def test_bounds_and_whole_columns():
    rows = torch.tensor([[1.0, 0.5, 3.0], [4.0, -0.5, 3.0], [2.0, 0.0, 3.0]])
    domain = Domain.from_rows(rows)
    assert domain.lower.tolist() == [1.0, -0.5, 3.0]
    assert domain.upper.tolist() == [4.0, 0.5, 3.0]
    assert domain.unit.tolist() == [1.0, 0.0, 0.0]


def test_constant_columns_are_neither():
    rows = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert zero_or_one(rows) == (1,)
    assert one_hot_groups(rows, [1]) == ()


@pytest.mark.parametrize("count", [3, 5000])
def test_digits_of_many_zeros_are_no_categories(count):
    """Few rows show many sums that hold by chance: only sets of 0 and 1 that sum to 1 in each of them count."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(2, (count, 12), generator=draw).double()
    groups = Domain.from_rows(rows).groups
    assert all((rows[:, list(group)].sum(1) == 1).all() for group in groups)
    assert count < 10 or groups == ()


def test_two_categories_that_share_a_level():
    """The last level of both is the same rows, as "?" often is."""
    draw = torch.Generator().manual_seed(0)
    missing = torch.rand(300, generator=draw) < 0.2
    codes = [torch.where(missing, size - 1, torch.randint(size - 1, (300,), generator=draw)) for size in (3, 4)]
    rows = torch.cat(
        [torch.nn.functional.one_hot(code, size) for code, size in zip(codes, (3, 4), strict=True)], 1
    )
    domain = Domain.from_rows(rows.double())
    assert domain.groups == ((0, 1, 2), (3, 4, 5, 6))
    assert domain.equal == ((2, 6),)


def test_a_hierarchy_keeps_its_categories():
    country = torch.arange(600) % 6
    rows = torch.cat([torch.nn.functional.one_hot(code) for code in (country // 2, country)], 1).double()
    assert Domain.from_rows(rows).groups == ((0, 1, 2), (3, 4, 5, 6, 7, 8))


def test_a_level_that_comes_late_in_a_sorted_table():
    code = torch.cat([torch.zeros(21_000), torch.ones(50), torch.full((50,), 2.0)]).long()
    shuffled = torch.nn.functional.one_hot(code)[:, [2, 0, 1]].double()
    number = torch.arange(len(code), dtype=torch.float64) / 7
    rows = torch.cat([shuffled[:, :1], number[:, None], shuffled[:, 1:]], 1)
    assert Domain.from_rows(rows).groups == ((0, 2, 3),)


def test_many_columns_of_categories_side_by_side():
    rows = one_hot(300, [10] * 110, 0)
    assert len(Domain.from_rows(rows).groups) == 110


def test_columns_of_two_other_values_are_frozen():
    sign = 2.0 * torch.randint(2, (50, 1), generator=torch.Generator().manual_seed(0)).double() - 1
    domain = Domain.from_rows(torch.cat([sign, torch.arange(50, dtype=torch.float64)[:, None]], 1))
    assert domain.frozen == (0,)
    assert domain.unit.tolist() == [0.0, 1.0]


def test_two_domains_of_the_same_rows_are_equal():
    rows = one_hot(40, [3], 0)
    assert Domain.from_rows(rows) == Domain.from_rows(rows.clone())
    assert Domain.from_rows(rows) != Domain.from_rows(rows * 2)
