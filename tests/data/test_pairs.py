import numpy as np
import pytest
import torch

from r2et.data import DrawnPairs, PairCounts, Pairs
from r2et.data.pairs import Pool, draw_held_out_pairs, draw_pairs
from r2et.errors import DataError, InputError


def pool(counts: list[int], start: int = 0, seed: int = 0) -> Pool:
    """Inputs (M, 2) whose first feature is their number and whose second is their class."""
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    items = torch.arange(start, start + len(y))
    labels = torch.from_numpy(y)
    return Pool(torch.stack([items, labels], dim=1).float(), labels, items)


def check_pairs(pairs: Pairs, count: int) -> None:
    assert pairs.x.shape == (count, 2, 2)
    assert torch.equal(pairs.x[..., 0], pairs.items.float()), "an input is the one that its number says"
    assert torch.equal(pairs.x[..., 1], pairs.members.float()), "its class is its own"
    assert torch.equal(pairs.y == 1, pairs.members[:, 0] == pairs.members[:, 1])
    assert int(pairs.y.sum()) == count // 2
    assert (pairs.items[:, 0] != pairs.items[:, 1]).all()
    assert len({tuple(sorted(pair)) for pair in pairs.items.tolist()}) == count, "no pair comes twice"


@pytest.mark.parametrize(("counts", "count"), [([30, 20], 101), ([8, 9, 10], 60), ([400, 300], 2000)])
def test_within_a_pool(counts: list[int], count: int) -> None:
    pairs = draw_pairs(pool(counts), count, np.random.default_rng(0))
    check_pairs(pairs, count)
    same = torch.bincount(pairs.members[pairs.y == 1, 0], minlength=len(counts))
    assert int(same.max() - same.min()) <= 1, "classes take turns"
    # neither member is always of one class, and labels are not in order
    assert 0.3 < (pairs.members[:, 0] == 0).float().mean() * len(counts) / 2 < 0.7
    assert 0 < pairs.y[: count // 3].float().mean() < 1


def test_every_pair_can_be_drawn() -> None:
    """All there are, so that a wrong decoding of a number as a pair would miss one."""
    pairs = draw_pairs(pool([5, 5]), 40, np.random.default_rng(0))
    check_pairs(pairs, 40)
    assert len({tuple(sorted(pair)) for pair, y in zip(pairs.items.tolist(), pairs.y, strict=True) if y}) == 2 * 10
    check_pairs(draw_pairs(pool([6, 5]), 40, np.random.default_rng(0)), 40)


def test_held_out_with_training() -> None:
    held_out, training = pool([15, 8], start=1000), pool([60, 40])
    pairs = draw_held_out_pairs(held_out, training, 301, np.random.default_rng(0))
    check_pairs(pairs, 301)
    assert (pairs.items[:, 0] >= 1000).all()
    assert (pairs.items[:, 1] < 1000).all()
    for kind in (0, 1):
        used = torch.bincount(pairs.items[pairs.y == kind, 0] - 1000, minlength=23)
        assert int(used.max() - used.min()) <= 1, "everybody is in as many pairs as anybody else"
    assert 0 < pairs.y[:100].float().mean() < 1


def test_drawn_anew() -> None:
    train = DrawnPairs.from_pool(pool([30, 20]), 100, seed=3)
    check_pairs(train, 100)
    draws = [train.redraw(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    for draw in draws:
        check_pairs(draw, 100)
        assert set(draw.items.flatten().tolist()) <= set(train.pool.items.tolist())
    assert torch.equal(draws[0].x, draws[1].x)
    assert torch.equal(draws[0].y, draws[1].y)
    assert not torch.equal(draws[0].items, draws[2].items)
    assert not torch.equal(draws[0].items, train.items)
    assert torch.equal(DrawnPairs.from_pool(pool([30, 20]), 100, seed=3).items, train.items)
    assert torch.equal(train.singles().x, train.pool.x)
    assert "100 pairs of 2 features" in repr(train)


def test_singles() -> None:
    pairs = draw_pairs(pool([9, 9]), 40, np.random.default_rng(0))
    single = pairs.singles()
    numbers = single.x[:, 0].long()
    assert numbers.tolist() == sorted(set(pairs.items.flatten().tolist()))
    assert torch.equal(single.x[:, 1].long(), single.y)


def test_too_few() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match=r"11 different pairs of 5 inputs of one class .* only 10"):
        draw_pairs(pool([5, 5]), 44, rng)
    with pytest.raises(DataError, match="all of class 0"):
        draw_pairs(pool([5]), 4, rng)
    with pytest.raises(DataError, match=r"one held-out input with 2 for training"):
        draw_held_out_pairs(pool([1, 1], start=9), pool([2, 9]), 12, rng)
    with pytest.raises(InputError, match="test pairs must be a whole number of at least 1"):
        PairCounts(10, 10, 0)


def test_parts_must_fit() -> None:
    y = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(InputError, match=r"items of shape \(4,\) do not fit pairs"):
        Pairs(torch.rand(4, 2, 3), y, torch.zeros(4, 2), y)
    with pytest.raises(InputError, match=r"\(4, 3, 3\)"):
        Pairs(torch.rand(4, 3, 3), y, torch.zeros(4, 3), torch.zeros(4, 3))
