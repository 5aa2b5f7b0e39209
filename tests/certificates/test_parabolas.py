"""Lines and parabolas as multipliers: every one gives a bound, and the best ones nearly the truth."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et.certificates import dual_bounds, parabolas
from r2et.certificates.choice import certify
from r2et.certificates.dual_bounds import ascended, started
from r2et.certificates.parabolas import Multipliers, curved, directions_of
from r2et.explainers import Gradient
from tests.certificates.test_dual_bounds import TRAITS, searched, ugly
from tests.models_with_answers import generator

SMOOTH = (nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU())


@pytest.mark.parametrize("module", SMOOTH, ids=repr)
def test_every_line_and_parabola_gives_a_bound(module):
    for number, trait in enumerate(TRAITS):
        terms = ugly(module, trait, count=12, hidden=5, n=3, seed=number)
        narrow, found = directions_of(terms.weights), searched(terms)
        for scale in (0.0, 0.1, 1.0):
            drawn = torch.randn(2, *terms.beta.shape, generator=generator(7), dtype=torch.float64)
            at = Multipliers(terms.chord() + scale * drawn[0], scale * drawn[1] / terms.lengths.clamp_min(1e-9))
            assert (parabolas._proven(terms, narrow, at) <= found + 1e-9).all()


@pytest.mark.parametrize("trait", TRAITS[:4])
def test_parabolas_prove_what_lines_leave_open_and_nothing_that_is_not_so(trait):
    more = 0
    for seed, module in enumerate(SMOOTH):
        terms = ugly(module, trait, count=40, hidden=5, n=3, seed=seed)
        near = torch.where(torch.arange(40) % 2 == 0, 0.02, -0.02)
        terms = replace(terms, constant=terms.constant - searched(terms) + near)
        lines = ascended(terms, started(terms), 12)
        proof = curved(terms, directions_of(terms.weights), lines, 24)
        assert not ((proof.value > 0) & (near < 0)).any()
        assert (proof.value >= lines.value).all()
        more += int(((proof.value > 0) & ~(lines.value > 0)).sum())
    assert more > 0


def test_a_forgotten_neuron_is_caught(monkeypatch):
    terms = ugly(nn.Softplus(5.0), "plain", count=40, hidden=5, n=3)
    terms = replace(terms, constant=terms.constant - searched(terms) - 0.02)

    def forgetting(minima):
        def without_the_first(*case):
            values, places = minima(*case)
            return values.index_fill(1, torch.tensor(0), 0.0), places

        return without_the_first

    for name in ("least_bent", "about_bent"):
        monkeypatch.setattr(dual_bounds, name, forgetting(getattr(dual_bounds, name)))
    proof = curved(terms, directions_of(terms.weights), ascended(terms, started(terms), 12), 24)
    assert (proof.value > 0).any()


def test_directions_are_as_few_as_the_features_that_move():
    terms = ugly(nn.Tanh(), "frozen", hidden=6, n=4)
    narrow = directions_of(terms.weights)
    assert narrow.shape == (6, 2)
    assert torch.allclose(narrow @ narrow.T, terms.weights @ terms.weights.T)
    assert directions_of(torch.ones(200, 300, dtype=torch.float64)) is None


def test_directions_keep_the_digits_of_the_shortest_row():
    """A cut-off beside the longest row would leave out what all the others read."""
    weights = ugly(nn.Softplus(), "plain", count=1, hidden=3, n=6).weights
    for scale in (1e8, 1e15, 1e30):
        long = weights * torch.tensor([[scale], [1.0], [1.0]]).double()
        narrow = directions_of(long)
        assert narrow.shape == (3, 3)
        assert torch.allclose(narrow[1:] @ narrow[1:].T, weights[1:] @ weights[1:].T, rtol=1e-11)


def test_a_unit_that_reads_far_more_than_the_others_hides_nothing():
    """Nobody reads it: what is proven has to be true of the others."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(2, 5), nn.Softplus(beta=5), nn.Linear(5, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.randn(5, 2).double()), model[0].bias.copy_(torch.randn(5).double())
        model[0].weight[0] *= 1e15
        model[2].weight.copy_(torch.randn(2, 5).double())
        model[0].bias[0], model[2].weight[:, 0] = 0.0, 0.0
    x = torch.randn(12, 2).double()
    angle = torch.linspace(0, 2 * torch.pi, 361, dtype=torch.float64)[:-1]
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    for radius in (0.1, 0.2, 0.4, 0.8):
        proven = certify(model, x, 1, radii=[radius], budget=0).precision_at(radius) == 1
        points = x.unsqueeze(1) + radius * circle
        assert not (changed(model, x, points) & proven).any()


def changed(model, x, points):
    """Whether the largest slope is another one at one of points (N, P, n), bool (N,)."""
    target = model(x).argmax(1)
    before = Gradient()(model, x, target).argmax(1, keepdim=True)
    after = Gradient()(model, points.flatten(0, 1), target.repeat_interleave(points.shape[1])).argmax(1)
    return (after.unflatten(0, points.shape[:2]) != before).any(1)


def test_bounds_that_are_no_numbers_prove_nothing():
    terms = ugly(nn.Tanh(), "plain", count=8)
    terms = replace(terms, beta=terms.beta * torch.nan)
    proof = replace(started(ugly(nn.Tanh(), "plain", count=8)), value=torch.full((8,), -1.0).double())
    proof = replace(proof, reached=torch.ones(8).double())
    assert not (curved(terms, directions_of(terms.weights), proof, 4).value > 0).any()
