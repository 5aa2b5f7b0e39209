import numpy as np
import pytest

from r2et.errors import DataError, InputError
from r2et.tables.splits import hold_out, split_groups, split_rows


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


class TestSplitRows:
    @pytest.mark.parametrize("rows", [40, 101, 569])
    def test_parts_are_disjoint_and_cover_all_rows(self, rows: int) -> None:
        parts = split_rows(np.arange(rows) % 3, seed=0)
        assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
        np.testing.assert_allclose([len(p) / rows for p in parts], [0.70, 0.15, 0.15], atol=1.5 / rows)

    def test_classes_keep_their_proportion(self) -> None:
        y = (np.arange(1000) % 10 == 0).astype(np.int64)
        assert [y[rows].mean() for rows in split_rows(y, seed=3)] == pytest.approx([0.1] * 3, abs=0.004)

    def test_seed_decides(self) -> None:
        y = np.arange(100) % 2
        first, again, other = split_rows(y, 0), split_rows(y, 0), split_rows(y, 1)
        assert all((a == b).all() for a, b in zip(first, again, strict=True))
        assert any((a != b).any() for a, b in zip(first, other, strict=True))


class TestHoldOut:
    def test_a_share_of_each_class_but_never_the_last_two_rows(self) -> None:
        y = np.array([0] * 50 + [1] * 10 + [2] * 2)
        rest, rows = hold_out(y, 0.2, seed=0)
        assert np.bincount(y[rows], minlength=3).tolist() == [10, 2, 0]
        assert sorted([*rest, *rows]) == list(range(62))
        assert len(hold_out(y, 0.0, seed=0)[1]) == 0
        assert np.bincount(y[hold_out(y, 0.99, seed=0)[1]], minlength=3).tolist() == [48, 8, 0]

    @pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
    def test_every_class_in_both_parts_where_it_can_be(self, fraction: float) -> None:
        y = np.repeat([0, 1, 2, 3], [40, 10, 2, 1])
        rest, rows = hold_out(y, fraction, seed=0, least=1, keep=1)
        assert sorted([*rest, *rows]) == list(range(53))
        assert set(y[rest]) == {0, 1, 2, 3}
        assert set(y[rows]) == {0, 1, 2}
        for c, count in ((0, 40), (1, 10)):
            assert abs((y[rows] == c).sum() - fraction * count) <= 1

    def test_the_seed_decides(self) -> None:
        y = np.arange(60) % 2
        first, again, other = (hold_out(y, 0.3, seed=seed)[1].tolist() for seed in (0, 0, 1))
        assert first == again != other

    @pytest.mark.parametrize(("seed", "rows"), [(0, [2, 4, 6, 12, 13, 19]), (1, [4, 7, 8, 10, 11, 18])])
    def test_a_saved_model_tells_its_rows_by_the_seed_for_ever(self, seed: int, rows: list[int]) -> None:
        assert hold_out(np.repeat([0, 1], [10, 10]), 0.3, seed=seed)[1].tolist() == rows
