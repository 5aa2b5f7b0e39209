"""One budget for all: what is worked on together shrinks with the size of a thing and the copies of it."""

import pytest
import torch

from r2et.explainers import IntegratedGradients
from r2et.numerics import memory
from tests.models_with_answers import mlp, normal


@pytest.mark.parametrize(("size", "copies"), [(1, 1), (7, 1), (784, 32), (3 * 224 * 224, 256), (2**25, 1)])
def test_everything_together_fits_the_budget(size, copies):
    count = memory.at_once(size, copies=copies)
    assert count == 1 or count * size * copies <= memory.VALUES
    assert (count + 1) * size * copies > memory.VALUES


def test_there_is_a_least():
    assert memory.at_once(2**30, least=8) == 8
    assert memory.at_once(2, least=8) == memory.VALUES // 2


def test_a_smaller_budget_means_smaller_passes(monkeypatch):
    model, x = mlp(), normal(3, 6)
    passes = []
    model.register_forward_pre_hook(lambda layer, args: passes.append(len(args[0])))
    whole = IntegratedGradients(points=10)(model, x)
    assert max(passes) == 30
    monkeypatch.setattr(memory, "VALUES", 4 * 18)
    passes.clear()
    torch.testing.assert_close(IntegratedGradients(points=10)(model, x), whole)
    assert max(passes) == 12
