"""Successive halving finds what the full grid finds where early results tell, and never depends on order."""

import itertools

import pytest

from r2et.errors import InputError
from r2et_bench.cells import Cell
from r2et_bench.search import Search, candidates, merit


def cells(count):
    return [Cell("toy", "sp", {"beta": float(number)}) for number in range(count)]


def climb(search, value):
    trained = []
    while search.winner is None:
        step = search.next_step()
        trained.append((len(step.cells), step.epochs))
        search.tell({cell: value(cell.settings["beta"], step.epochs) for cell in step.cells})
    return trained


def passing(precision):
    return {"passed": True, "precision": precision, "worst": 0.5, "validation auc": 0.9}


def test_halving_trains_half_of_the_candidates_further():
    search = Search(cells(8), [10, 20, 40])
    trained = climb(search, lambda beta, epochs: passing(beta / 10))
    assert trained == [(8, 10), (4, 20), (2, 40)]
    assert search.winner.settings["beta"] == 7
    assert search.report()["chosen"] == {"beta": 7.0}
    assert len(search.report()["tried"]) == 14


def test_the_full_grid_finds_a_late_bloomer_that_halving_drops():
    def late(beta, epochs):
        return passing(0.99 if beta == 0 and epochs == 40 else beta / 10)

    halved, whole = Search(cells(4), [10, 40]), Search(cells(4), [40])
    climb(halved, late)
    climb(whole, late)
    assert halved.winner.settings["beta"] == 3
    assert whole.winner.settings["beta"] == 0


def test_the_order_of_the_candidates_does_not_matter():
    values = {0.0: 0.3, 1.0: 0.8, 2.0: 0.5, 3.0: 0.7}
    for order in itertools.permutations(cells(4)):
        search = Search(order, [1, 2, 4])
        climb(search, lambda beta, epochs: passing(values[beta]))
        assert search.winner.settings["beta"] == 1


def test_accuracy_comes_first():
    wrecked = {"passed": False, "precision": 1.0, "validation auc": 0.6}
    assert (
        merit(passing(0.1)) > merit({**wrecked, "validation auc": 0.89}) > merit(wrecked) > merit({"error": "x"})
    )
    search = Search(cells(2), [5])
    climb(search, lambda beta, epochs: wrecked if beta == 1 else passing(0.1))
    assert search.winner.settings["beta"] == 0


def test_what_erattack_cannot_tell_apart_is_decided_by_the_worst_case():
    search = Search(cells(2), [5])
    found = {0.0: {**passing(0.9991), "worst": 0.80}, 1.0: {**passing(0.9989), "worst": 0.95}}
    climb(search, lambda beta, epochs: found[beta])
    assert search.winner.settings["beta"] == 1


def test_one_candidate_needs_no_search():
    search = Search(cells(1), [10, 20])
    assert search.winner is not None
    with pytest.raises(InputError, match="no candidate"):
        Search([], [1])


def test_r2et_tries_equal_weights_and_the_winners_of_its_parts():
    grid = {"r2et-mm": {"gap": (0.1, 1.0), "curvature": (0.1, 1.0)}}
    found = candidates("r2et-mm", grid, {"r2et-mm-no-h": {"gap": 1.0}, "est-h": {"weight": 1.0}})
    assert found == [{"gap": 0.1, "curvature": 0.1}, {"gap": 1.0, "curvature": 1.0}]
    found = candidates("r2et-mm", grid, {"r2et-mm-no-h": {"gap": 0.1}, "est-h": {"weight": 1.0}})
    assert found[-1] == {"gap": 0.1, "curvature": 1.0}
