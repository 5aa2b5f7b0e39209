"""Weights of classes on balls: no point has others, and they are closer than outputs one by one allow."""

import pytest
import torch
from torch import nn

from r2et.enclosure import ball, march
from r2et.enclosure.head import Head
from tests.enclosure.test_class_expansion import TRAITS, one
from tests.enclosure.test_expansion import problem_of
from tests.models_with_answers import normal

RADII = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0)


def balls(model, x):
    attributions = problem_of(model, x).attributions
    times = torch.tensor(RADII, dtype=torch.float64).expand(len(x), -1)
    return attributions, list(march(attributions.network, x, attributions.head, times))


def weights_at(attributions, points, target):
    """The softmax of the other classes at points (M, N, n), (M, N, C)."""
    logits = attributions.network.forward(points.flatten(0, 1))[1].unflatten(0, points.shape[:2])
    chosen = nn.functional.one_hot(target, logits.shape[2]).bool()
    return logits.masked_fill(chosen, -torch.inf).softmax(2)


def farthest_outside(model, x):
    """How far beyond its box a weight was seen, at most, as a share of it: random steps and along slopes."""
    attributions, found = balls(model, x)
    target, worst = model(x).argmax(1), -torch.inf
    steps = [normal(*x.shape, seed=seed) for seed in range(30)]
    for number in range(model[2].out_features):
        (slope,) = torch.autograd.grad(model(x.requires_grad_()).log_softmax(1)[:, number].sum(), x)
        x = x.detach()
        steps += [slope, -slope]
    steps = torch.stack(steps)
    # squares of slopes that all but vanish would
    steps = steps / steps.abs().amax(2, keepdim=True).clamp_min(1e-300)
    steps = steps / steps.norm(dim=2, keepdim=True).clamp_min(1e-300)
    for each in found:
        seen = weights_at(attributions, x + steps * each.time[:, None], target)
        beyond = torch.maximum(seen - each.weights.upper, each.weights.lower - seen)
        worst = max(worst, float((beyond / (seen + 1e-12)).max()))
    return worst


@pytest.mark.parametrize("trait", TRAITS)
def test_no_weight_leaves_its_box(trait):
    for seed, module in enumerate((nn.Softplus(), nn.Tanh(), nn.SiLU())):
        assert farthest_outside(*one(module, trait, classes=3 + seed, seed=seed)) <= 1e-12


def test_weights_that_move_too_slowly_are_caught(monkeypatch):
    case = one(nn.Softplus(), hidden=2, classes=4, seed=1)
    pace = Head.pace
    monkeypatch.setattr(
        Head, "pace", lambda self, weights, heights: 0.9 * pace(self, weights, heights) - 0.1 * heights
    )
    assert farthest_outside(*case) > 1e-6


def test_they_are_closer_than_outputs_one_by_one(monkeypatch):
    model, x = one(nn.Softplus(), classes=6)
    closer = [each.weights for each in balls(model, x)[1]]
    monkeypatch.setattr(ball, "CLOSER", 0)
    plain = [each.weights for each in balls(model, x)[1]]
    assert all((near.radius <= far.radius * (1 + 1e-6)).all() for near, far in zip(closer, plain, strict=True))
    assert float(closer[0].radius.sum() / plain[0].radius.sum()) < 0.8


def test_weights_that_all_but_vanish_are_numbers():
    """Logits 800 apart: weights below the smallest number, which no logarithm multiplies."""
    model, x = one(nn.Softplus(), classes=4)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([0.0, -1.0, -800.0, 3.0]))
    for each in balls(model, 1e3 * x)[1]:
        assert each.weights.center.isfinite().all()
        assert (each.weights.radius >= 0).all()
