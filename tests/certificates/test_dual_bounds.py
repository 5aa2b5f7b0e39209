"""L(lambda) against brute force: points of the ball, densely drawn and searched for."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et.certificates import dual_bounds
from r2et.certificates.dual_bounds import Terms, ascended, snapped, started
from r2et.enclosure.activations import activation
from tests.models_with_answers import generator

ACTIVATIONS = (
    nn.Softplus(),
    nn.Softplus(5.0),
    nn.Softplus(1000.0),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.SiLU(),
    nn.ReLU(),
    nn.LeakyReLU(0.2),
)
TRAITS = ("plain", "copies", "dead", "frozen", "small", "large")


def ugly(module, trait, *, count=24, hidden=6, n=4, seed=0):
    """Functionals of a random hidden layer, on balls of radii from .03 to 3."""
    source = generator(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=source, dtype=torch.float64)

    weights, beta, z = normal(hidden, n), normal(count, hidden), normal(count, hidden)
    if trait == "copies":
        weights[1], weights[2] = weights[0], -weights[0]
        beta[:, 1], z[:, 1] = beta[:, 0], z[:, 0]
    if trait == "dead":
        weights[0], beta[:, 1] = 0.0, 0.0
    if trait == "frozen":
        weights[:, 1:3] = 0.0
    weights = weights * {"small": 1e-3, "large": 1e3}.get(trait, 1.0)
    radius = 10 ** (2 * torch.rand(count, generator=source, dtype=torch.float64) - 1.5)
    lengths = weights.norm(dim=1)
    ends = radius[:, None] * lengths
    beta = beta / beta.abs().amax(1, keepdim=True)
    return Terms(activation(module), weights, lengths, beta, z, -ends, ends, radius, normal(count))


def values(terms, points):
    """The functionals at points (P, F, n) of the ball, (P, F)."""
    return terms.constant + terms.at(points @ terms.weights.T).sum(2)


def searched(terms, steps=40, starts=64):
    """The smallest value that draws in the ball and descent from them find, (F,)."""
    count, n = len(terms.radius), terms.weights.shape[1]
    points = torch.randn(starts, count, n, generator=generator(1), dtype=torch.float64)
    points = points / points.norm(dim=2, keepdim=True) * terms.radius[:, None]
    points[1::2] *= torch.rand(starts // 2, count, 1, generator=generator(2), dtype=torch.float64)
    best = values(terms, points).amin(0)
    length = terms.radius[:, None] / 2
    for _ in range(steps):
        middle = terms.z + points @ terms.weights.T
        curvature = sum(terms.activation.curvature(middle, middle)) / 2
        slope = (terms.beta * curvature) @ terms.weights
        points = points - length * slope / slope.norm(dim=2, keepdim=True).clamp_min(1e-300)
        points = points * (terms.radius / points.norm(dim=2).clamp_min(1e-300)).clamp_max(1.0)[..., None]
        best, length = torch.minimum(best, values(terms, points).amin(0)), length * 0.9
    return best


def multipliers(terms):
    """Sensible ones, and any others: every lambda gives a bound."""
    proof = ascended(terms, started(terms), 20)
    drawn = torch.randn(terms.beta.shape, generator=generator(3), dtype=torch.float64)
    return terms.chord(), terms.tangent(), proof.slopes, torch.zeros_like(drawn), drawn, drawn * terms.chord()


@pytest.mark.parametrize("trait", TRAITS)
@pytest.mark.parametrize("module", ACTIVATIONS, ids=repr)
def test_no_point_of_the_ball_is_below_the_bound(module, trait):
    terms = ugly(module, trait)
    lowest = searched(terms)
    for slopes in multipliers(terms):
        assert (terms.bound(slopes).value <= lowest).all()


@pytest.mark.parametrize("module", ACTIVATIONS[:6], ids=repr)
def test_ascent_comes_close_to_what_is_found(module):
    terms = ugly(module, "plain", hidden=3, n=4)
    # far from zero, so that nothing is decided early
    terms = replace(terms, constant=terms.constant * 0 - 5.0, radius=terms.radius.clamp_max(0.3))
    ends = terms.radius[:, None] * terms.lengths
    terms = replace(terms, low=-ends, high=ends)
    proof = ascended(terms, replace(started(terms), reached=torch.full_like(terms.radius, 10.0)), 52)
    gap = searched(terms) - proof.value
    assert (gap >= 0).all()
    assert float(gap.median()) < 0.05
    assert (proof.value >= started(terms).value).all()


def too_large(bound):
    """L without one of its terms, or a little too large."""

    def without_ball(self, values, slopes, norm):
        return bound(self, values, slopes, norm * 0)

    def one_percent(self, values, slopes, norm):
        return bound(self, values, slopes, norm) + 0.01 * values.abs().sum(1)

    def half_the_norm(self, values, slopes, norm):
        return bound(self, values, slopes, norm / 2)

    return {"without ball": without_ball, "one percent": one_percent, "half the norm": half_the_norm}


@pytest.mark.parametrize("wrong", ["without ball", "one percent", "half the norm"])
def test_bounds_that_are_too_large_are_caught(wrong, monkeypatch):
    terms = ugly(nn.Softplus(5.0), "plain", hidden=1, n=3, count=200)
    lowest = searched(terms)
    proof = ascended(terms, replace(started(terms), reached=torch.full_like(terms.radius, 10.0)), 52)
    assert (terms.bound(proof.slopes).value <= lowest).all()
    monkeypatch.setattr(Terms, "_charged", too_large(Terms._charged)[wrong])
    assert (terms.bound(proof.slopes).value > lowest).any()


def test_what_rounding_may_add_is_charged(monkeypatch):
    """On a ball of radius 0 the bound is the value: without the charge it is above it as often as not."""
    terms = ugly(nn.Tanh(), "plain", count=400, hidden=40)
    still = torch.zeros_like(terms.z)
    terms = replace(terms, low=still, high=still, radius=torch.zeros_like(terms.radius))
    exact = terms.constant + (terms.beta * terms.activation.slope_at(terms.z)).flip(1).cumsum(1)[:, -1]
    assert (terms.bound(terms.tangent()).value < exact).all()
    monkeypatch.setattr(dual_bounds, "ROUNDING", 0.0)
    assert (terms.bound(terms.tangent()).value > exact).any()


def test_a_bound_that_is_not_a_number_proves_nothing():
    terms = ugly(nn.Tanh(), "plain", count=4)
    broken = replace(terms, constant=torch.full_like(terms.constant, torch.nan))
    assert not (ascended(broken, started(broken), 5).value > 0).any()


def test_snapped_numbers_forget_their_last_digits():
    drawn = torch.randn(1000, generator=generator(0), dtype=torch.float64)
    assert torch.equal(snapped(drawn * (1 + 1e-15)), snapped(drawn))
    assert torch.allclose(snapped(drawn), drawn, rtol=1e-6)
