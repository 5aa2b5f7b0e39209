"""How alike lists are, against counting over all pairs of rows."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et.errors import InputError
from r2et.individuality import Individuality
from tests.models_with_answers import generator


def random_lists(rows, n, k, *, members=1, seed=0, favourites=0.0):
    """Lists (rows, members, k); features of small number come up more often the larger `favourites` is."""
    weights = torch.rand(rows, members, n, generator=generator(seed))
    return (weights - favourites * torch.arange(n) / n).topk(k).indices


def overlaps(lists, groups):
    """P@k of every two rows of one group at every position, one pair after the other."""
    rows, positions, k = lists.shape
    named = [[set(entry.tolist()) for entry in row] for row in lists]
    return [
        len(named[i][position] & named[j][position]) / k
        for i, j in combinations(range(rows), 2)
        for position in range(positions)
        if groups[i] == groups[j]
    ]


def figures(individuality):
    """Everything that is computed from counts, without the interval."""
    return individuality.to_dict(), individuality.counts.tolist()


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("favourites", [0.0, 0.5, 3.0])
def test_overlaps_are_the_means_over_all_pairs_of_lists(members, favourites):
    lists = random_lists(40, 9, 3, members=members, favourites=favourites)
    classes = torch.arange(40) % 3
    everybody = Individuality.of(lists, 9, classes=classes)
    for value, groups in ((everybody.overlap, classes * 0), (everybody.overlap_in_class, classes)):
        pairs = overlaps(lists, groups)
        assert value == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert everybody.total == 40 * members
    assert everybody.counts.sum() == 3 * everybody.total


def test_signed_lists_are_compared_within_one_class():
    lists, classes = random_lists(30, 6, 2), torch.arange(30) % 2
    signed = Individuality.of(lists, 6, classes=classes, signed=True)
    assert signed.overlap == signed.overlap_in_class != Individuality.of(lists, 6, classes=classes).overlap


def test_one_signed_list_per_class_is_one_list_for_everybody():
    classes = torch.arange(30) % 2
    lists = torch.tensor([[0, 1], [4, 5]])[classes]
    signed = Individuality.of(lists, 6, classes=classes, signed=True)
    assert (signed.distinct, signed.effective, signed.overlap) == (2, 1.0, 1.0)
    assert signed.one_for_everybody
    # magnitudes of two classes can be compared: two lists, and no two rows of one class differ
    magnitudes = Individuality.of(lists, 6, classes=classes)
    assert magnitudes.effective == pytest.approx(2)
    assert magnitudes.overlap < 0.5
    assert magnitudes.overlap_in_class == 1


def test_one_list_per_position_of_a_pair_is_one_list_for_everybody():
    """Members of a row are no two people."""
    pairs = torch.tensor([[[0, 1], [2, 3]]]).repeat(50, 1, 1)
    same = Individuality.of(pairs, 5, precision=torch.ones(1, 50))
    assert (same.distinct, same.effective, same.overlap, same.overlap_in_class) == (2, 1.0, 1.0, 1.0)
    assert same.one_for_everybody
    assert same.kappas() is None


def test_the_effective_number_of_pairs_is_that_of_a_position():
    first, second = torch.arange(24) % 2, torch.arange(24) % 3
    pairs = torch.stack([torch.tensor([[0, 1], [2, 3]])[first], torch.tensor([[0, 1], [2, 3], [4, 5]])[second]], 1)
    everybody = Individuality.of(pairs, 6)
    assert everybody.distinct == 3
    assert everybody.effective == pytest.approx(math.sqrt(2 * 3))


def test_a_single_pair_has_nobody_to_be_compared_with():
    alone = Individuality.of(torch.tensor([[[0, 1], [2, 3]]]), 5, precision=torch.ones(1, 1))
    assert not alone.comparable
    assert math.isnan(alone.overlap)
    assert alone.kappas() is None


def per_class(sizes, own=0):
    """Rows of classes with these sizes: one list per class, but the last `own` rows have one each."""
    classes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    lists = 2 * classes[:, None] + torch.tensor([0, 1])
    if own:
        lists[-own:] = 100 + torch.arange(2 * own).reshape(own, 2)
    return Individuality.of(lists, 200, classes=classes, precision=torch.ones(1, len(classes)))


@pytest.mark.parametrize("sizes", [[50, 50], [4, 5, 6], [20, 20, 1]])
def test_one_list_per_class_is_told_and_keeps_its_kappa(sizes):
    everybody = per_class(sizes)
    assert everybody.to_dict()["one_list_per_class"] is True
    assert everybody.kappas()[0].value == 1


def test_what_is_not_one_list_per_class():
    # one class; one class with company; one list for all; signed lists, which have no kappa then
    assert not per_class([40]).one_per_class
    assert not per_class([20, *[1] * 20]).one_per_class
    alike = Individuality.of(torch.tensor([[0, 1]]).repeat(20, 1), 5, classes=torch.arange(20) % 2)
    assert alike.to_dict()["one_list_per_class"] is False
    assert alike.one_for_everybody
    everybody = per_class([20, 20])
    assert not replace(everybody, signed=True).one_per_class


def test_a_large_class_does_not_speak_for_a_small_one():
    """Of 100 rows 15 have lists of their own, though 97 % of the pairs within a class are of the other class."""
    everybody = per_class([85, 15], own=15)
    assert everybody.overlap_in_class > 0.95
    assert not everybody.one_for_everybody
    assert not everybody.one_per_class


@pytest.mark.parametrize(("rows", "told"), [(2, False), (3, False), (4, True)])
def test_too_few_rows_have_no_interval(rows, told):
    """Of the resamples rows ** (1 - rows) are one row over and over: 50, 11 and 1.6 %."""
    lists = torch.arange(2 * rows).reshape(rows, 2)
    precision = torch.linspace(0.5, 1, rows)[None]
    (kappa,) = Individuality.of(lists, 10, precision=precision).kappas()
    assert kappa.value == pytest.approx(0.75)
    assert (kappa.low <= kappa.value <= kappa.high) == told
    assert math.isnan(kappa.low) == math.isnan(kappa.high) != told


def test_without_situations_there_are_no_kappas():
    assert Individuality.of(torch.arange(8).reshape(4, 2), 8).kappas() == ()


def test_the_same_list_for_all_is_one_list_for_everybody():
    same = Individuality.of(torch.tensor([[4, 1, 2]]).repeat(10, 1), 8, precision=torch.ones(1, 10))
    assert (same.distinct, same.effective, same.overlap) == (1, 1.0, 1.0)
    assert same.one_for_everybody
    assert same.kappas() is None


def test_lists_that_share_nothing_are_worth_their_precision():
    disjoint = Individuality.of(torch.arange(24).reshape(8, 3), 24, precision=torch.full((1, 8), 0.25))
    assert disjoint.distinct == 8
    assert disjoint.effective == pytest.approx(8)
    assert disjoint.overlap == 0
    # a row that is drawn twice is no second person: else resamples of these would overlap
    (kappa,) = disjoint.kappas()
    assert (kappa.value, kappa.low, kappa.high) == pytest.approx((0.25, 0.25, 0.25))


def test_order_inside_a_list_does_not_matter_and_masks_are_lists():
    lists = random_lists(20, 7, 3)
    masks = torch.zeros(20, 1, 7, dtype=torch.bool).scatter(-1, lists, value=True)
    for other in (lists.flip(-1), masks, masks.squeeze(1)):
        features = None if other.dtype == torch.bool else 7
        assert figures(Individuality.of(other, features)) == figures(Individuality.of(lists, 7))


@pytest.mark.parametrize(("first", "rest"), [(0.92, 0.08), (0.85, 0.15)])
def test_few_lists_in_effect_are_one(first, rest):
    """Entropy of a fair mixture of two, and where it falls below 1.5 lists."""
    rows = 100
    lists = torch.tensor([[0, 1], [2, 3]])[(torch.arange(rows) >= rows * first).long()]
    everybody = Individuality.of(lists, 4, precision=torch.ones(1, rows))
    expected = math.exp(-(first * math.log(first) + rest * math.log(rest)))
    assert everybody.effective == pytest.approx(expected)
    assert everybody.one_for_everybody == (expected < 1.5)
    assert (everybody.kappas() is None) == (expected < 1.5)


def test_many_lists_that_differ_in_little_are_one():
    """40 names are the same and one differs: many lists, overlap above .95."""
    shared = torch.arange(40).repeat(60, 1)
    alike = Individuality.of(torch.cat([shared, 40 + torch.arange(60)[:, None]], dim=1), 100)
    assert alike.effective == pytest.approx(60)
    assert alike.overlap == pytest.approx(40 / 41)
    assert alike.one_for_everybody


def test_a_single_list_has_nobody_to_be_compared_with():
    alone = Individuality.of(torch.tensor([[0, 1]]), 4, precision=torch.ones(2, 1))
    assert math.isnan(alone.overlap)
    assert alone.to_dict()["overlap"] is None
    assert alone.one_for_everybody
    assert alone.kappas() is None


def test_kappa_may_be_negative_and_is_one_where_lists_hold():
    lists = random_lists(50, 8, 4, favourites=1.0)
    precision = torch.stack([torch.ones(50), torch.zeros(50), torch.full((50,), 0.5)])
    everybody = Individuality.of(lists, 8, precision=precision)
    held, lost, half = everybody.kappas()
    assert (held.value, held.low, held.high) == (1, 1, 1)
    assert lost.value == pytest.approx(-everybody.overlap / (1 - everybody.overlap))
    assert lost.high < 0
    assert half.low < half.value < half.high


def test_the_share_that_can_move_counts_names():
    everybody = Individuality.of(torch.tensor([[0, 1], [0, 2], [0, 3]]), 4)
    assert everybody.movable_share(torch.tensor([True, False, False, True])) == pytest.approx(4 / 6)
    assert everybody.movable_share(torch.ones(4, dtype=torch.bool)) == 1


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_merging_shards_is_counting_the_whole(data):
    rows, n = data.draw(st.integers(2, 12)), data.draw(st.integers(2, 6))
    k, members = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, 2))
    seed = data.draw(st.integers(0, 10_000))
    lists = random_lists(rows, n, k, members=members, seed=seed)
    classes = torch.randint(2, (rows,), generator=generator(seed))
    precision = torch.randint(k + 1, (2, rows), generator=generator(seed)) / k
    signed = data.draw(st.booleans())
    order = torch.tensor(data.draw(st.permutations(range(rows))))
    cut = data.draw(st.integers(1, rows - 1))

    def count(part):
        return Individuality.of(lists[part], n, classes=classes[part], precision=precision[:, part], signed=signed)

    whole = count(torch.arange(rows))
    merged = count(order[:cut]).merge(count(order[cut:]))
    # NaN, where no two can be compared, is not equal to itself
    assert repr(figures(merged)) == repr(figures(whole))
    assert repr(merged.kappas(resamples=20)) == repr(whole.kappas(resamples=20))


def test_only_lists_of_one_kind_are_merged():
    first = Individuality.of(torch.tensor([[0, 1]]), 4)
    with pytest.raises(InputError, match="features is 4 here, 5 there"):
        first.merge(Individuality.of(torch.tensor([[0, 1]]), 5))
    with pytest.raises(InputError, match="situations is 0 here, 1 there"):
        first.merge(Individuality.of(torch.tensor([[0, 1]]), 4, precision=torch.ones(1, 1)))


def drawn_rows(rows, seed):
    """Rows of a population with a known kappa: four lists of two names; the commonest hold least."""
    shares = torch.tensor([0.4, 0.3, 0.2, 0.1])
    named = torch.tensor([[0, 1], [0, 2], [1, 3], [4, 5]])
    which = torch.multinomial(shares, rows, replacement=True, generator=generator(seed))
    held = torch.tensor([0.3, 0.5, 0.7, 0.9])[which]
    kept = torch.rand(2, rows, generator=generator(seed + 10**6)) < held
    masks = torch.zeros(4, 6).scatter(1, named, 1.0)
    overlap = float(shares @ (masks @ masks.T / 2) @ shares)
    precision = float(shares @ torch.tensor([0.3, 0.5, 0.7, 0.9]))
    return named[which], kept.double().mean(0), (precision - overlap) / (1 - overlap)


def covered(rows=60, times=150, shrink=1.0):
    inside = 0
    for seed in range(times):
        lists, precision, truth = drawn_rows(rows, seed)
        (kappa,) = Individuality.of(lists, 6, precision=precision[None]).kappas(resamples=200)
        low, high = (kappa.value + shrink * (end - kappa.value) for end in (kappa.low, kappa.high))
        inside += low <= truth <= high
    return inside / times


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    assert 0.89 <= covered() <= 0.99


def test_half_as_wide_an_interval_would_not_cover():
    assert covered(times=80, shrink=0.5) < 0.85


def test_the_interval_is_the_same_for_a_seed_and_not_for_another():
    lists, precision, _ = drawn_rows(40, 0)
    everybody = Individuality.of(lists, 6, precision=precision[None])
    assert everybody.kappas(seed=1) == everybody.kappas(seed=1) != everybody.kappas(seed=2)


def test_resampling_in_parts_is_resampling_at_once(monkeypatch):
    lists, precision, _ = drawn_rows(40, 0)
    everybody = Individuality.of(lists, 6, precision=precision[None])
    whole = everybody.kappas(resamples=50)
    monkeypatch.setattr("r2et.individuality.counting.at_once", lambda size, copies: 7)
    assert everybody.kappas(resamples=50) == whole
