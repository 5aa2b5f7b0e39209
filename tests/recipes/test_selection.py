import itertools

import pytest
import torch

from r2et.attacks import ERAttack
from r2et.errors import InputError
from r2et.recipes.selection import Trial, judge, merit, select, undecided
from tests.models_with_answers import linear, mlp, normal


def trial(auc, precision, worst=None):
    """A model that passes."""
    return Trial(auc=auc, passed=True, precision=precision, worst=worst)


def failing(auc, precision):
    return Trial(auc=auc, passed=False, precision=precision)


def test_the_most_stable_of_those_that_pass_wins():
    assert select([trial(0.95, 0.70), trial(0.90, 0.90), failing(0.60, 1.00)]) == 1


def test_a_model_that_does_not_pass_never_beats_one_that_does():
    assert select([failing(0.99, 1.0), trial(0.9, 0.1)]) == 1


def test_if_none_passes_the_most_accurate_wins():
    assert select([failing(0.6, 1.0), failing(0.7, 0.2), Trial(error="diverged")]) == 1


def test_the_first_of_equals_wins():
    assert select([trial(0.9, 0.5), trial(0.9, 0.5)]) == 0


def test_what_is_equal_to_three_digits_is_decided_by_the_worst_case():
    assert select([trial(0.9, 0.9991, 0.80), trial(0.9, 0.9989, 0.95)]) == 1
    assert select([trial(0.9, 0.9991, 0.80), trial(0.9, 0.9979, 0.95)]) == 0


def test_the_rule_is_the_order_of_what_it_compares():
    """Brute force: passed, then P@k to three digits, then WorstCase; those that fail by AUC."""

    def place(entry):
        if not entry.passed:
            return (0, entry.auc, 0.0)
        return (1, round(entry.precision, 3), entry.worst)

    figures = itertools.product((0.6, 0.9), (0.5, 0.9991, 0.9994, 0.9996), (0.0, 0.3, 1.0))
    trials = [trial(*entry) for entry in figures] + [failing(0.6, 1.0), failing(0.99, 0.0)]
    for first, second in itertools.permutations(trials, 2):
        assert (merit(first) > merit(second)) == (place(first) > place(second))


def test_only_what_shares_the_first_place_is_undecided():
    assert undecided([trial(0.9, 0.9991), failing(0.9, 0.9991), trial(0.9, 0.9993), trial(0.9, 0.4)]) == [0, 2]
    assert undecided([trial(0.9, 0.9), trial(0.9, 0.4), trial(0.9, 0.4)]) == []
    # those that fail are compared by AUC, whatever WorstCase says
    assert undecided([failing(0.9, 1.0), failing(0.9, 1.0)]) == []


def test_no_candidates():
    with pytest.raises(InputError, match="no candidate"):
        select([])


def test_judge_is_the_mean_precision_of_the_first_rows_under_attack():
    model, x = mlp(), normal(12, 6)
    attack = ERAttack(k=2, radius=2.0, steps=20)
    for limit in (5, 12, 1000):
        # precision from the explanations themselves
        result = attack(model, x[:limit])
        before, after = (s.topk(2).indices.tolist() for s in (result.before, result.after))
        kept = [len({*a} & {*b}) / 2 for a, b in zip(before, after, strict=True)]
        assert judge(model, x, attack, limit) == pytest.approx(sum(kept) / len(kept))
    assert judge(model, x, attack) < 1
    assert judge(model, x, attack, limit=1) in (0.0, 0.5, 1.0)


def test_a_linear_model_of_two_classes_is_judged_perfectly_stable():
    assert judge(linear(), normal(9, 6), ERAttack(k=2, radius=3.0, steps=10)) == 1.0
    assert torch.is_grad_enabled()
