"""Successive halving finds what the full grid finds where early results tell, and never depends on order."""

import itertools
from dataclasses import replace

import pytest

from r2et.errors import InputError
from r2et.recipes import METHODS, Trial
from r2et.recipes.halving import Halving, candidates, combinations, settle


def climb(search, value):
    trained = []

    def try_out(steps):
        (step,) = steps.values()
        trained.append((len(step.candidates), step.epochs))
        return {"toy": {beta: value(beta, step.epochs) for beta in step.candidates}}

    settle({"toy": search}, try_out)
    return trained


def passing(precision):
    return Trial(auc=0.9, passed=True, precision=precision, worst=0.5)


def test_halving_trains_half_of_the_candidates_further():
    search = Halving(range(8), [10, 20, 40])
    trained = climb(search, lambda beta, epochs: passing(beta / 10))
    assert trained == [(8, 10), (4, 20), (2, 40)]
    assert search.winner == 7
    assert len(search.told) == 14


def test_the_full_grid_finds_a_late_bloomer_that_halving_drops():
    def late(beta, epochs):
        return passing(0.99 if beta == 0 and epochs == 40 else beta / 10)

    halved, whole = Halving(range(4), [10, 40]), Halving(range(4), [40])
    climb(halved, late)
    climb(whole, late)
    assert halved.winner == 3
    assert whole.winner == 0


def test_the_order_of_the_candidates_does_not_matter():
    values = {0: 0.3, 1: 0.8, 2: 0.5, 3: 0.7}
    for order in itertools.permutations(range(4)):
        search = Halving(order, [1, 2, 4])
        climb(search, lambda beta, epochs: passing(values[beta]))
        assert search.winner == 1


def test_accuracy_comes_first():
    search = Halving(range(2), [5])
    wrecked = Trial(auc=0.6, passed=False, precision=1.0)
    climb(search, lambda beta, epochs: wrecked if beta == 1 else passing(0.1))
    assert search.winner == 0


def test_what_erattack_cannot_tell_apart_is_decided_by_the_worst_case():
    search = Halving(range(2), [5])
    trials = [replace(passing(0.9991), worst=0.80), replace(passing(0.9989), worst=0.95)]
    climb(search, lambda beta, epochs: trials[beta])
    assert search.winner == 1


def test_one_candidate_needs_no_search():
    search = Halving(range(1), [10, 20])
    assert search.winner is not None
    with pytest.raises(InputError, match="no candidate"):
        Halving([], [1])


def test_r2et_tries_equal_weights_and_the_winners_of_its_parts():
    grid = {"gap": (0.1, 1.0), "curvature": (0.1, 1.0)}
    offered = candidates("r2et-mm", grid, {"r2et-mm-no-h": {"gap": 1.0}, "est-h": {"weight": 1.0}})
    assert offered == [{"gap": 0.1, "curvature": 0.1}, {"gap": 1.0, "curvature": 1.0}]
    offered = candidates("r2et-mm", grid, {"r2et-mm-no-h": {"gap": 0.1}, "est-h": {"weight": 1.0}})
    assert offered[-1] == {"gap": 0.1, "curvature": 1.0}


def test_searches_run_side_by_side_and_end_each_in_its_own_time():
    searches = {
        "short": Halving(range(2), [5, 10]),
        "long": Halving(range(4), [5, 10]),
        "one": Halving(range(1), [5]),
    }
    asked = []

    def try_out(steps):
        asked.append({name: step.candidates for name, step in steps.items()})
        return {name: {c: passing(c / 10) for c in step.candidates} for name, step in steps.items()}

    settle(searches, try_out)
    assert asked == [{"short": (0, 1), "long": (0, 1, 2, 3)}, {"long": (2, 3)}]
    assert [search.winner for search in searches.values()] == [1, 3, 0]


def test_a_method_without_parts_tries_every_combination():
    grid = METHODS["r2et-sf"].grids["paper-tabular"]
    assert candidates("r2et-sf", grid, {}) == combinations(grid)
    assert len(combinations(grid)) == 8
