"""The best found so far, against a loop over everything that was handed in."""

import pytest
import torch
from torch import nn

from r2et import ranking
from r2et.attacks import Best, ERAttack, Judge, MinimalFlip, Task
from r2et.explainers import Gradient
from tests.models_with_answers import mlp, normal

ROWS = 6


def handed_in(attack):
    """Random iterates, most of them inside the budget; what was remembered and what each of them was worth."""
    model, x = mlp(activation=nn.Tanh), normal(ROWS, 6, seed=4)
    task = Task.prepare(attack, model, x)
    judge = Judge(task)
    best = Best(judge)
    iterates = [x + 0.3 * normal(ROWS, 6, seed=seed) for seed in range(30)]
    for iterate in iterates:
        best.submit(judge.evaluate(iterate))
    worth = []
    for iterate in iterates:
        after = Gradient()(model, iterate, task.target)
        precision = ranking.precision_at_k(task.before, after, attack.k)
        kept = model(iterate).argmax(1) == task.target
        length = (iterate - x).norm(dim=1)
        worth.append((precision, kept & (length <= attack.radius), length))
    return best, iterates, worth


def test_the_lowest_precision_that_keeps_the_prediction_is_remembered():
    best, iterates, worth = handed_in(ERAttack(k=2, radius=0.8))
    assert 0 < best.judge.rejected["outside the budget"] < 30 * ROWS
    for row in range(ROWS):
        legal = [number for number in range(30) if worth[number][1][row]]
        lowest = min((float(worth[number][0][row]) for number in legal), default=1.0)
        assert float(best.precision[row]) == min(lowest, 1.0)
        if lowest < 1:
            first = next(number for number in legal if float(worth[number][0][row]) == lowest)
            assert torch.equal(best.x[row], iterates[first][row])
        flips = [number + 1 for number in legal if worth[number][0][row] < 1]
        assert int(best.first_flip[row]) == min(flips, default=-1)
    assert (best.precision < 1).any()


def test_the_nearest_flip_is_remembered_by_an_attack_that_looks_for_it():
    best, _, worth = handed_in(MinimalFlip(k=2, radius=0.8))
    for row in range(ROWS):
        flips = [w[2][row] for w in worth if w[1][row] and w[0][row] < 1]
        expected = float(min(flips)) if flips else 0.0
        assert float(best.judge.task.distance(best.x)[row]) == pytest.approx(expected, abs=1e-12)


def test_the_last_legal_iterate_is_remembered_whatever_it_predicts():
    best, iterates, worth = handed_in(ERAttack(k=2, radius=0.8, keep="last"))
    for row in range(ROWS):
        legal = [number for number in range(30) if worth[number][2][row] <= 0.8]
        assert torch.equal(best.x[row], iterates[legal[-1]][row])


def test_what_another_attack_found_is_adopted_where_it_is_better():
    best, _, _ = handed_in(ERAttack(k=2, radius=0.8))
    fresh = Best(best.judge)
    rows = (best.precision < 1).nonzero().squeeze(1)
    fresh.adopt(rows, best.x[rows], best.first_flip[rows])
    assert torch.equal(fresh.precision, best.precision)
    assert torch.equal(fresh.first_flip, best.first_flip)
    fresh.adopt(rows, best.judge.task.x[rows], best.first_flip[rows])  # clean inputs are no better
    assert torch.equal(fresh.x, best.x)
