"""Boxes and the norms of what they hold: every sampled member is inside."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et.enclosure import Box, extract
from r2et.enclosure.jacobian import norm_bound
from tests.models_with_answers import generator, normal

SEEDS = st.integers(0, 10**6)


def box(*shape, seed, zeros=0.0):
    """A random box; a share of its radii is zero."""
    source = generator(seed)
    center = torch.randn(shape, generator=source, dtype=torch.float64)
    radius = torch.rand(shape, generator=source, dtype=torch.float64)
    return Box(center, radius * (torch.rand(shape, generator=source) >= zeros))


def members(of, count, seed):
    """Inner points and corners, (count, ...)."""
    source = generator(seed)
    inside = 2 * torch.rand(count, *of.center.shape, generator=source, dtype=torch.float64) - 1
    corners = inside[: count // 2].sign()
    return of.center + torch.cat([corners, inside[count // 2 :]]) * of.radius


def holds(of, values):
    slack = 1e-12 * (1 + of.magnitude)
    return bool((values >= of.lower - slack).all() and (values <= of.upper + slack).all())


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, zeros=st.sampled_from([0.0, 0.5, 1.0]))
def test_arithmetic_holds_sampled_members(seed, zeros):
    a, b = box(3, 7, seed=seed, zeros=zeros), box(3, 7, seed=seed + 1, zeros=zeros)
    one, other = members(a, 200, seed), members(b, 200, seed + 2)
    assert holds(a.plus(b), one + other)
    assert a.plus(None) is a
    assert holds(a.times(b), one * other)
    assert holds(a.exact_times(b), one * other)
    matrix = normal(7, 4, seed=seed)
    assert holds(a.mapped(matrix, matrix.abs()), one @ matrix)
    assert torch.allclose(a.magnitude, torch.maximum(a.lower.abs(), a.upper.abs()), atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_exact_products_are_attained_and_never_wider(seed):
    a, b = box(20, seed=seed), box(20, seed=seed + 1)
    product = a.exact_times(b)
    ends = torch.stack([p * q for p in (a.lower, a.upper) for q in (b.lower, b.upper)])
    assert torch.allclose(product.lower, ends.amin(0), atol=1e-14)
    assert torch.allclose(product.upper, ends.amax(0), atol=1e-14)
    cheap = a.times(b)
    assert (cheap.lower <= product.lower + 1e-14).all()
    assert (cheap.upper >= product.upper - 1e-14).all()


def test_a_linear_map_of_a_box_is_attained():
    a, matrix = box(6, seed=3), normal(6, 5, seed=4)
    found = a.mapped(matrix, matrix.abs())
    for column in range(5):
        corner = a.center + matrix[:, column].sign() * a.radius
        assert float(corner @ matrix[:, column]) == pytest.approx(float(found.upper[column]), abs=1e-13)


def test_points_and_ends():
    point = Box.point(torch.tensor([2.0]))
    assert point.radius.tolist() == [0.0]
    between = Box.between(torch.tensor([-1.0]), torch.tensor([3.0]))
    assert (between.center.tolist(), between.radius.tolist()) == ([1.0], [2.0])


def network_of(n, rows, seed):
    model = nn.Sequential(nn.Linear(n, rows), nn.Tanh(), nn.Linear(rows, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(normal(rows, n, seed=seed))
    return extract(model, torch.Size([n]))


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n=st.integers(2, 9), rows=st.integers(1, 9), gram=st.booleans(), shifted=st.booleans())
def test_the_norm_bound_holds_sampled_vectors(seed, n, rows, gram, shifted):
    network = network_of(n, rows, seed)
    if not gram:
        object.__setattr__(network, "gram", None)
    found = box(4, rows, seed=seed, zeros=0.3)
    y = normal(4, n, seed=seed + 5)
    shift = (y @ network.base.T, y.norm(dim=-1)) if shifted else None
    bound = norm_bound(network, found, shift)
    vectors = members(found, 400, seed) @ network.base + (y if shifted else 0.0)
    assert (vectors.norm(dim=-1) <= bound * (1 + 1e-12)).all()


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n=st.integers(2, 9), rows=st.integers(1, 9), gram=st.booleans(), shifted=st.booleans())
def test_the_norm_bound_is_the_norm_of_a_point(seed, n, rows, gram, shifted):
    network = network_of(n, rows, seed)
    if not gram:
        object.__setattr__(network, "gram", None)
    v, y = normal(4, rows, seed=seed), normal(4, n, seed=seed + 5)
    shift = (y @ network.base.T, y.norm(dim=-1)) if shifted else None
    exact = (v @ network.base + (y if shifted else 0.0)).norm(dim=-1)
    bound = norm_bound(network, Box.point(v), shift)
    assert (bound >= exact * (1 - 1e-15)).all()
    assert torch.allclose(bound, exact, rtol=1e-7, atol=1e-6)


def test_the_norm_bound_survives_cancellation():
    """Two rows that are nearly opposite: what is left of their sum is not lost to rounding."""
    network = network_of(5, 2, 0)
    base = normal(2, 5, seed=1)
    base[1] = -base[0] * (1 + 1e-9)
    object.__setattr__(network, "base", base)
    object.__setattr__(network, "gram", base @ base.T)
    object.__setattr__(network, "lengths", base.norm(dim=1))
    v = torch.ones(1, 2, dtype=torch.float64)
    assert float(norm_bound(network, Box.point(v))) >= float((v @ base).norm())
