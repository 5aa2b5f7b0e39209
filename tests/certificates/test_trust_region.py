"""Lower bounds of quadratic functions on balls: against the exact smallest value, and points of the ball."""

import pytest
import torch

from r2et.certificates import trust_region
from r2et.certificates.trust_region import least_on_balls
from tests.models_with_answers import normal


def drawn(size, scale, *, count=200, seed=0):
    bent = normal(count, size, size, seed=seed) * scale
    return normal(count, size, seed=seed + 1), bent + bent.mT, normal(count, seed=seed + 2).abs() + 0.05


def exact(slope, curvature, radius):
    """The smallest value by eigenvalues: the multiplier where the step is as long as the radius, by halving."""
    values, vectors = torch.linalg.eigh(curvature)
    along = (vectors.mT @ slope.unsqueeze(2)).squeeze(2)
    low = (-values[:, 0]).clamp_min(0)
    high = low + slope.norm(dim=1) / radius + 1
    for _ in range(200):
        mu = (low + high) / 2
        longer = (along / (values + mu[:, None])).norm(dim=1) > radius
        low, high = torch.where(longer, mu, low), torch.where(longer, high, mu)
    return -(along.square() / (values + high[:, None])).sum(1) / 2 - high * radius.square() / 2


@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 1e3])
def test_bounds_are_below_the_smallest_value(size, scale):
    slope, curvature, radius = drawn(size, scale)
    bound, least = least_on_balls(slope, curvature, radius), exact(slope, curvature, radius)
    assert (bound <= least + 1e-9 * least.abs()).all()


@pytest.mark.parametrize("size", [1, 3, 20])
def test_bounds_are_close_where_the_slope_decides(size):
    slope, curvature, radius = drawn(size, 0.02)
    bound, least = least_on_balls(slope, curvature, radius), exact(slope, curvature, radius)
    assert (bound >= least - 1e-8 * least.abs()).all()


def test_no_point_of_the_ball_is_lower():
    slope, curvature, radius = drawn(4, 0.5)
    bound = least_on_balls(slope, curvature, radius)
    for seed in range(50):
        step = normal(*slope.shape, seed=seed + 9)
        step = step / step.norm(dim=1, keepdim=True) * radius[:, None] * (1.0 if seed % 2 else 0.6)
        value = (step * slope).sum(1) + (step.unsqueeze(1) @ curvature @ step.unsqueeze(2)).flatten() / 2
        assert (bound <= value + 1e-12).all()


def test_bowls_flat_ones_and_saddles():
    eye = torch.eye(2, dtype=torch.float64)
    curvature = torch.stack([3 * eye, 0 * eye, -eye, torch.diag(torch.tensor([-1.0, 2.0], dtype=torch.float64))])
    slope = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    radius = torch.full((4,), 2.0, dtype=torch.float64)
    # inside the ball; on its edge, three times
    expected = torch.tensor([-1.5, -4.0, -4.0, -6.0], dtype=torch.float64)
    assert torch.allclose(least_on_balls(slope, curvature, radius), expected, atol=1e-8)


def test_nothing_is_said_of_what_is_not_a_number():
    slope, curvature, radius = drawn(3, 0.1, count=3)
    slope[0, 0], curvature[1, 0, 0], curvature[2, 1, 1] = torch.nan, torch.nan, torch.inf
    assert not (least_on_balls(slope, curvature, radius) > -1e300).any()


@pytest.mark.parametrize("wrong", ["without the multiplier", "any multiplier", "without the tangent"])
def test_wrong_bounds_are_caught(wrong, monkeypatch):
    value, cholesky = trust_region._value, torch.linalg.cholesky_ex

    def without_multiplier(slope, curvature, radius, mu, place):
        return value(slope, curvature, radius, mu, place) + mu * radius.square() / 2

    def without_tangent(slope, curvature, radius, mu, place):
        far = place * 0.7
        bent = (curvature @ far.unsqueeze(2)).squeeze(2) + mu.unsqueeze(1) * far
        return (far * (slope + bent / 2)).sum(1) - mu * radius.square() / 2

    if wrong == "any multiplier":
        # as if every matrix had been positive definite
        monkeypatch.setattr(
            torch.linalg, "cholesky_ex", lambda matrix: (cholesky(matrix)[0], torch.zeros(len(matrix)))
        )
    else:
        chosen = {"without the multiplier": without_multiplier, "without the tangent": without_tangent}[wrong]
        monkeypatch.setattr(trust_region, "_value", chosen)
    slope, curvature, radius = drawn(4, 1.0)
    bound = least_on_balls(slope, curvature, radius)
    assert (bound > exact(slope, curvature, radius) + 1e-6).any()
