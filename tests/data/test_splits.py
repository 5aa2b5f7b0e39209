import numpy as np
import pytest

from r2et.data.splits import split_groups
from r2et.errors import DataError, InputError


def grouped(seed: int = 0, groups: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Rows of groups of 1 to 8, each of one class of three."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(groups), rng.integers(1, 9, groups)))
    return group % 3, group


@pytest.mark.parametrize("seed", range(5))
def test_no_group_crosses_and_all_rows_are_used(seed: int) -> None:
    y, group = grouped(seed)
    parts = split_groups(y, group, seed=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(y)))
    found = [set(group[part]) for part in parts]
    assert not found[0] & found[1] | found[0] & found[2] | found[1] & found[2]
    # at most half a group of 8 is off at each of the two ends, in each of three classes
    np.testing.assert_allclose([len(part) for part in parts], np.array([0.7, 0.15, 0.15]) * len(y), atol=3 * 8)
    for part in parts:
        np.testing.assert_allclose(np.bincount(y[part]) / len(part), np.bincount(y) / len(y), atol=0.12)


def test_single_rows_are_split_exactly() -> None:
    y = np.repeat([0, 1], [200, 100])
    parts = split_groups(y)
    assert [np.bincount(y[part]).tolist() for part in parts] == [[140, 70], [30, 15], [30, 15]]


def test_rows_are_shuffled_so_that_the_first_ones_are_typical() -> None:
    y = np.repeat([0, 1], [200, 200])
    assert all(20 < y[part][:60].sum() < 40 for part in split_groups(y))


def test_seed_decides() -> None:
    y, group = grouped()
    first, again, other = (split_groups(y, group, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert set(first[2]) != set(other[2])


def test_a_group_of_two_classes_stays_together() -> None:
    y = np.tile([0, 0, 1], 40)
    group = np.repeat(np.arange(60), 2)
    train, validation, test = split_groups(y, group)
    assert not set(group[train]) & set(group[validation]) | set(group[train]) & set(group[test])


def test_bad_input() -> None:
    y = np.array([0, 1] * 20)
    with pytest.raises(InputError, match=r"sum to 1.*got \(0.5, 0.6\)"):
        split_groups(y, fractions=(0.5, 0.6))
    with pytest.raises(InputError, match=r"got \(1.5, -0.5\)"):
        split_groups(y, fractions=(1.5, -0.5))
    with pytest.raises(InputError, match=r"shape \(3,\) for 40 rows"):
        split_groups(y, ["a", "b", "c"])
    with pytest.raises(DataError, match=r"toy has too few groups .*class 0 has 1, and the part of"):
        split_groups(y, y, what="toy")
    with pytest.raises(DataError, match=r"too few rows .*class 0 has 2, and the part of 0.15 got none"):
        split_groups(np.array([0, 1, 0, 1]))
