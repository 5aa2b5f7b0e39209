"""Lines and parabolas as multipliers: every one gives a bound, and the best ones nearly the truth."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et.certificates import dual_bounds, parabolas
from r2et.certificates.dual_bounds import ascended, started
from r2et.certificates.parabolas import Multipliers, curved, directions_of
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


def test_directions_are_charged_for_the_rounding_of_the_longest_row():
    """A neuron that reads a billionth of what another reads may lose as many digits in their directions."""
    terms = ugly(nn.Softplus(), "plain", count=1, hidden=6, n=6)
    weights = terms.weights * 10.0 ** -torch.arange(0, 12, 2).double().unsqueeze(1)
    narrow, lengths = directions_of(weights), weights.norm(dim=1)
    apart = ((narrow @ narrow.T) - weights @ weights.T).abs()
    charge = parabolas.ROUNDING * parabolas.DIRECTIONS_BLUR * lengths.norm() * lengths.unsqueeze(1)
    assert (apart <= charge + charge.T).all()


def test_bounds_that_are_no_numbers_prove_nothing():
    terms = ugly(nn.Tanh(), "plain", count=8)
    terms = replace(terms, beta=terms.beta * torch.nan)
    proof = replace(started(ugly(nn.Tanh(), "plain", count=8)), value=torch.full((8,), -1.0).double())
    proof = replace(proof, reached=torch.ones(8).double())
    assert not (curved(terms, directions_of(terms.weights), proof, 4).value > 0).any()
