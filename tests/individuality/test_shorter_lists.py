"""Lists of different lengths: B, chance and the rest, against loops over all pairs of people."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et import ranking
from r2et.individuality import Individuality


def shared(a, b):
    """P@k of two sets of names."""
    return 1.0 if not a and not b else len(a & b) / max(len(a), len(b))


@st.composite
def lists(draw, rows=8):
    n = draw(st.integers(1, 6))
    count = draw(st.integers(2, rows))
    masks = [draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(count)]
    return torch.tensor(masks), torch.tensor([draw(st.integers(0, 1)) for _ in range(count)])


def sets(masks):
    return [set(row.nonzero().flatten().tolist()) for row in masks]


@settings(max_examples=150, deadline=None)
@given(lists())
def test_the_mean_overlap_is_that_of_all_pairs(drawn):
    masks, classes = drawn
    names = sets(masks)
    pairs = list(itertools.combinations(range(len(names)), 2))
    everybody = Individuality.of(masks, classes=classes)
    assert everybody.overlap == pytest.approx(sum(shared(names[a], names[b]) for a, b in pairs) / len(pairs))
    within = [(a, b) for a, b in pairs if classes[a] == classes[b]]
    signed = Individuality.of(masks, classes=classes, signed=True)
    if within:
        expected = sum(shared(names[a], names[b]) for a, b in within) / len(within)
        assert signed.overlap == pytest.approx(expected)
        assert everybody.overlap_in_class == pytest.approx(expected)
    else:
        assert math.isnan(signed.overlap)
    assert everybody.distinct == len(set(map(frozenset, names)))
    assert everybody.counts.tolist() == masks.sum(0).tolist()
    precision = ranking.list_precision(masks[0], masks[1])
    assert float(precision) == pytest.approx(shared(names[0], names[1]))


@settings(max_examples=80, deadline=None)
@given(lists(), st.integers(1, 7))
def test_shards_of_them_merge_exactly(drawn, cut):
    masks, classes = drawn
    cut = min(cut, len(masks) - 1)
    whole = Individuality.of(masks, classes=classes)
    parts = [Individuality.of(masks[own], classes=classes[own]) for own in (slice(cut), slice(cut, None))]
    if parts[0].k == parts[1].k or any((part.lists < 0).any() for part in parts):
        merged = parts[0].merge(parts[1])
        assert merged.overlap == whole.overlap
        assert merged.chance == whole.chance
        assert merged.effective == pytest.approx(whole.effective)


@settings(max_examples=50, deadline=None)
@given(lists())
def test_numbers_with_empty_places_say_what_masks_say(drawn):
    masks, classes = drawn
    n = masks.shape[1]
    numbers = torch.where(masks, torch.arange(n), -1)
    one, other = Individuality.of(masks, classes=classes), Individuality.of(numbers, n, classes=classes)
    assert one.overlap == other.overlap
    assert one.chance == other.chance
    assert one.distinct == other.distinct


def test_chance_is_the_overlap_of_lists_drawn_at_random():
    masks = torch.tensor([[True, False, False, False], [True, True, True, False], [False] * 4])
    sizes, n = masks.sum(1).tolist(), 4
    total = 0.0
    for a, b in itertools.product(sizes, sizes):
        subsets = [
            (set(x), set(y))
            for x in itertools.combinations(range(n), a)
            for y in itertools.combinations(range(n), b)
        ]
        total += sum(shared(x, y) for x, y in subsets) / len(subsets) / 9
    assert Individuality.of(masks).chance == pytest.approx(total)


def test_kappa_of_shorter_lists():
    masks = torch.tensor([[True, False, False], [True, True, False], [False, False, True], [False] * 3])
    precision = torch.tensor([[1.0, 0.5, 1.0, 1.0]])
    everybody = Individuality.of(masks, precision=precision)
    names = sets(masks)
    b = sum(shared(names[i], names[j]) for i, j in itertools.combinations(range(4), 2)) / 6
    kappa = everybody.kappas(resamples=50)[0]
    assert kappa.value == pytest.approx((0.875 - b) / (1 - b))
    assert everybody.movable_share(torch.tensor([True, False, False])) == pytest.approx(0.5)
    assert Individuality.of(torch.zeros(3, 2, dtype=torch.bool)).one_for_everybody
