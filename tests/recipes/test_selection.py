import pytest
import torch
from torch import nn

from r2et.attacks import ERAttack
from r2et.errors import InputError
from r2et.recipes.selection import Candidate, choose, judge
from r2et.training import FitResult
from tests.models_with_answers import linear, mlp, normal


def candidate(name: str, auc: float, passed: bool, precision: float) -> Candidate:
    result = FitResult(nn.Identity(), [], selected_epoch=1, auc=auc, passed=passed, stopped="epochs")
    return Candidate({"name": name}, result, precision)


def chosen(*candidates: Candidate) -> str:
    return choose(candidates).settings["name"]


def test_the_most_stable_of_those_that_pass_wins():
    assert chosen(
        candidate("accurate", 0.95, True, 0.70),
        candidate("stable", 0.90, True, 0.90),
        candidate("wrecked", 0.60, False, 1.00),
    ) == "stable"  # fmt: skip


def test_a_model_that_does_not_pass_never_beats_one_that_does():
    assert chosen(candidate("passes", 0.9, True, 0.1), candidate("fails", 0.99, False, 1.0)) == "passes"


def test_if_none_passes_the_most_accurate_wins():
    assert chosen(candidate("stable", 0.6, False, 1.0), candidate("accurate", 0.7, False, 0.2)) == "accurate"


def test_the_first_of_equals_wins():
    assert chosen(candidate("first", 0.9, True, 0.5), candidate("second", 0.9, True, 0.5)) == "first"


def test_no_candidates():
    with pytest.raises(InputError, match="no candidate"):
        choose([])


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
