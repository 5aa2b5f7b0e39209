"""Pairs of inputs for Siamese models: label 1 if both are of one class, 0 if not, half of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et.data.base import Split
from r2et.errors import DataError, InputError
from r2et.numerics.values import check_count, check_kind, check_seed

#: the names of labels 0 and 1
PAIR_CLASSES = ("different", "same")


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Split):
    """Single inputs from which pairs are made.

    Args:
        x: (M, *features), float32.
        y: class numbers (M,), int64.
        items: (M,) which input of the whole data set each one is.
    """

    items: Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Split):
    """Pairs of inputs and whether both are of one class.

    Args:
        x: (N, 2, *features), float32.
        y: (N,), int64: 1 = same class, 0 = different classes.
        members: (N, 2) the class of each member.
        items: (N, 2) which input of the whole data set each member is.

    >>> x = torch.tensor([[[1.0], [2.0]], [[2.0], [3.0]]])
    >>> pairs = Pairs(x, torch.tensor([1, 0]), torch.tensor([[0, 0], [0, 1]]), torch.tensor([[4, 7], [7, 9]]))
    >>> pairs
    Pairs(2 pairs of 1 features)
    >>> pairs.singles().x.flatten(), pairs.singles().y
    (tensor([1., 2., 3.]), tensor([0, 0, 1]))
    """

    members: Tensor
    items: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("members", self.members), ("items", self.items)):
            check_kind(name, value, Tensor, "an int64 tensor (N, 2)")
            if value.shape != self.x.shape[:2] or self.x.shape[1] != 2:
                raise InputError(
                    f"{name} of shape {tuple(value.shape)} do not fit pairs x of shape {tuple(self.x.shape)}: "
                    "(N, 2) and (N, 2, *features) are needed"
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} pairs of {self.x[0, 0].numel()} features)"

    def singles(self) -> Split:
        """Each input that occurs in a pair, once, with its own class: (M, *features) and (M,).

        For the single-input classifier beside a Siamese model (f^CL).
        """
        items = self.items.flatten().numpy()
        _, first = np.unique(items, return_index=True)
        rows = torch.from_numpy(first)
        return Split(self.x.flatten(0, 1)[rows], self.members.flatten()[rows])


@dataclass(frozen=True, eq=False, repr=False)
class DrawnPairs(Pairs):
    """Training pairs that are drawn anew in every epoch; x and y are the first draw.

    Args:
        pool: the training inputs that pairs are made of.

    >>> pool = Pool(torch.rand(20, 3), torch.arange(20) % 2, torch.arange(20))
    >>> train = DrawnPairs.from_pool(pool, count=8, seed=0)
    >>> train.redraw(torch.Generator().manual_seed(1))
    Pairs(8 pairs of 3 features)
    """

    pool: Pool = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("pool", self.pool, Pool, "Pool(x, y, items)")

    @classmethod
    def from_pool(cls, pool: Pool, count: int, seed: int) -> "DrawnPairs":
        """With the first `count` pairs drawn by this seed."""
        check_kind("pool", pool, Pool, "Pool(x, y, items)")
        check_count("count", count)
        check_seed(seed)
        first = draw_pairs(pool, count, np.random.default_rng([seed, 0]))
        return cls(first.x, first.y, first.members, first.items, pool=pool)

    def redraw(self, generator: torch.Generator) -> Pairs:
        """As many other pairs from the same pool, decided by the generator alone."""
        seed = int(torch.randint(2**63 - 1, (1,), generator=generator, device=generator.device))
        return draw_pairs(self.pool, len(self), np.random.default_rng(seed))

    def singles(self) -> Split:
        """The whole pool."""
        return Split(self.pool.x, self.pool.y)


@dataclass(frozen=True)
class PairCounts:
    """How many pairs: `train` are drawn in each epoch, `validation` and `test` once."""

    train: int = 4000
    validation: int = 300
    test: int = 600

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            check_count(f"{name} pairs", getattr(self, name))


def draw_pairs(pool: Pool, count: int, rng: np.random.Generator) -> Pairs:
    """Pairs of two different inputs of a pool, half of one class; no pair, in either order, comes twice.

    Pairs of one class are shared out equally over the classes, the others over all choices of two classes.

    >>> pool = Pool(torch.rand(20, 3), torch.arange(20) % 2, torch.arange(20))
    >>> pairs = draw_pairs(pool, 10, np.random.default_rng(0))
    >>> pairs.x.shape, int(pairs.y.sum())
    (torch.Size([10, 2, 3]), 5)
    """
    y = pool.y.numpy()
    rows = [np.flatnonzero(y == c) for c in np.unique(y)]
    chosen = [
        _within(group, share, rng) for group, share in zip(rows, _shares(count // 2, len(rows)), strict=True)
    ]
    unequal = [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :]]
    if not unequal:
        raise DataError(f"pairs need inputs of two classes, the {len(y)} given are all of class {y[0]}")
    for (a, b), share in zip(unequal, _shares(count - count // 2, len(unequal)), strict=True):
        codes = _choose(len(a) * len(b), share, f"an input of {len(a)} and one of {len(b)}", rng)
        chosen.append(np.stack([a[codes // len(b)], b[codes % len(b)]], axis=1))
    index = rng.permuted(rng.permutation(np.concatenate(chosen)), axis=1)
    return _make_pairs(pool, pool, index[:, 0], index[:, 1])


def draw_held_out_pairs(held_out: Pool, training: Pool, count: int, rng: np.random.Generator) -> Pairs:
    """Pairs of a held-out input (first) with a training input (second), half of one class; none comes twice.

    As in App. B.1: a new case is compared with those in the database. Every held-out input is in as many pairs as
    any other, up to one, and in as many of one class as of two.
    """
    order = rng.permutation(len(held_out))
    same = dict(zip(order, _shares(count // 2, len(order)), strict=True))
    # dealt out from the other end, so that nobody gets the odd pair of both kinds
    other = dict(zip(order[::-1], _shares(count - count // 2, len(order)), strict=True))
    first: list[NDArray[np.int64]] = []
    second: list[NDArray[np.int64]] = []
    for row in order:
        alike = training.y.numpy() == int(held_out.y[row])
        for candidates, share in ((alike, same[row]), (~alike, other[row])):
            partners = np.flatnonzero(candidates)
            codes = _choose(len(partners), share, f"one held-out input with {len(partners)} for training", rng)
            first.append(np.full(share, row))
            second.append(partners[codes])
    shuffled = rng.permutation(count)
    return _make_pairs(held_out, training, np.concatenate(first)[shuffled], np.concatenate(second)[shuffled])


def _within(rows: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Pairs (count, 2) of two different rows."""
    codes = _choose(len(rows) * (len(rows) - 1) // 2, count, f"{len(rows)} inputs of one class", rng)
    # code = larger (larger - 1) / 2 + smaller, with 0 <= smaller < larger
    larger = ((1 + np.sqrt(1 + 8 * codes)) / 2).astype(np.int64)
    return np.stack([rows[codes - larger * (larger - 1) // 2], rows[larger]], axis=1)


def _choose(total: int, count: int, what: str, rng: np.random.Generator) -> NDArray[np.int64]:
    if count > total:
        raise DataError(
            f"{count} different pairs of {what} are needed, but there are only {total}: ask for fewer pairs, or "
            "bring more data"
        )
    return np.asarray(rng.choice(total, size=count, replace=False), dtype=np.int64)


def _shares(count: int, parts: int) -> Sequence[int]:
    """`count` as a sum of `parts` numbers that differ by at most one."""
    return [count // parts + (part < count % parts) for part in range(parts)]


def _make_pairs(a: Pool, b: Pool, first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairs:
    rows = torch.from_numpy(first), torch.from_numpy(second)

    def both(name: str) -> Tensor:
        left, right = getattr(a, name), getattr(b, name)
        # filled in place: 4,000 pairs of connectomes are 200 MB, and stack would hold them twice
        stacked: Tensor = left.new_empty(len(first), 2, *left.shape[1:])
        stacked[:, 0] = left[rows[0]]
        stacked[:, 1] = right[rows[1]]
        return stacked

    members = both("y")
    return Pairs(both("x"), (members[:, 0] == members[:, 1]).long(), members, both("items"))
