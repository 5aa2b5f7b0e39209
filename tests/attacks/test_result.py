"""Results of chunks and of radii come together row by row."""

from dataclasses import replace

import torch
from torch import nn

from r2et.attacks import ERAttack
from r2et.attacks.result import better, joined
from tests.models_with_answers import mlp, normal


def results():
    model, x = mlp(activation=nn.Tanh), normal(5, 6, seed=4)
    attack = ERAttack(k=2, radius=0.8, steps=4, history=True)
    return attack(model, x), attack(model, x[:2]), attack(model, x[2:])


def test_chunks_together_are_the_whole():
    whole, *parts = results()
    together = joined(parts)
    for name in ("x", "precision", "kept", "distance", "first_flip", "before", "after", "history"):
        torch.testing.assert_close(getattr(together, name), getattr(whole, name))


def test_a_chunk_with_fewer_iterations_stays_where_it_ended():
    _, first, second = results()
    shorter = replace(first, history=first.history[:3])
    history = joined([shorter, second]).history
    assert history.shape == (5, 5)
    assert torch.equal(history[:3, :2], first.history[:3])
    assert torch.equal(history[3:, :2], first.history[2:3].expand(2, -1))
    assert torch.equal(history[:, 2:], second.history)


def test_the_lower_precision_wins_and_if_asked_the_nearer_flip():
    whole, *_ = results()
    low = replace(whole, precision=torch.tensor([0.0, 0.5, 1.0, 0.5, 0.5]), distance=torch.full((5,), 2.0))
    high = replace(whole, precision=torch.tensor([0.5, 0.0, 1.0, 0.5, 0.5]), distance=torch.full((5,), 3.0))
    assert better(low, high, nearest=False).distance.tolist() == [2.0, 3.0, 3.0, 3.0, 3.0]
    assert better(low, high, nearest=True).distance.tolist() == [2.0, 3.0, 3.0, 2.0, 2.0]
