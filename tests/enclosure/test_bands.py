"""Tilted bands: between their lines lies every value, and what follows from them holds sampled products."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et.enclosure import Box
from r2et.enclosure.activations import activation
from r2et.enclosure.bands import band
from r2et.enclosure.jacobian import norm_bound
from r2et.scores import score as score_of
from tests.enclosure.test_ball import SMOOTH, around
from tests.enclosure.test_box import box, members, network_of
from tests.enclosure.test_reading import READABLE, prepared
from tests.models_with_answers import generator, normal

LAYERS = [nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU()]


@pytest.mark.parametrize("which", ["slope", "curvature"])
@pytest.mark.parametrize("layer", LAYERS, ids=repr)
@settings(max_examples=25, deadline=None)
@given(center=st.floats(-6, 6), width=st.floats(0, 4) | st.floats(1e-18, 1e-6))
def test_a_band_holds_the_function(which, layer, center, width):
    found = activation(layer)
    z, spread = (torch.tensor([[value]], dtype=torch.float64) for value in (center, width))
    values = getattr(found, which)
    made = band(values, z, spread)
    y = torch.linspace(-1, 1, 501, dtype=torch.float64)[:, None] * spread
    exact = values(z + y, z + y)[0]
    off = (exact - made.center - made.tilt * y).abs()
    assert (off <= made.radius + 1e-14).all()
    factor = Box(normal(1, 1, seed=1), torch.zeros(1, 1).double())
    scaled = made.times(factor)
    off = (exact * factor.center - scaled.center - scaled.tilt * y).abs()
    assert (off <= scaled.radius + 1e-14).all()


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_a_band_is_narrower_than_the_range_where_the_function_is_nearly_straight(layer):
    found = activation(layer)
    z, spread = torch.full((1, 1), 0.7).double(), torch.full((1, 1), 0.2).double()
    low, high = found.slope(z - spread, z + spread)
    assert float(band(found.slope, z, spread).radius) < 0.5 * float(high - low) / 2


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 7),
    rows=st.integers(1, 8),
    radius=st.floats(0, 3),
    gram=st.booleans(),
    shifted=st.booleans(),
)
def test_the_norm_bound_with_a_tilt_holds_sampled_vectors(seed, n, rows, radius, gram, shifted):
    network = network_of(n, rows, seed)
    if not gram:
        object.__setattr__(network, "gram", None)
    found, tilt, y = (
        box(4, rows, seed=seed, zeros=0.3),
        normal(4, rows, seed=seed + 1),
        normal(4, n, seed=seed + 2),
    )
    shift = (y @ network.base.T, y.norm(dim=-1)) if shifted else None
    bound = norm_bound(network, found, shift, (tilt, torch.full((4,), radius, dtype=torch.float64)))
    steps = torch.randn(300, 4, n, generator=generator(seed), dtype=torch.float64)
    delta = radius * steps / steps.norm(dim=2, keepdim=True)
    inner = members(found, 300, seed) + tilt * (delta @ network.base.T)
    vectors = inner @ network.base + (y if shifted else 0.0)
    assert (vectors.norm(dim=-1) <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("score", ["log-odds", "logit"])
@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "linear"])
def test_tilted_products_hold_sampled_hessians(name, score):
    """H d = base^T (v + w * (base @ delta)) at x + delta, for a v of the box."""
    model, shape, _ = READABLE[name]
    model = prepared(copy.deepcopy(model))
    x = normal(2, *shape, seed=4)
    target, n, count = model(x).argmax(1), x[0].numel(), 40
    network, balls = around(model, x, target, score, [[0.1, 0.5, 1.5]])
    base, d = network.base, normal(1, n, seed=6)
    tangent = (d @ base.T).expand(2, -1, -1)
    source = generator(1)
    narrower = False
    for ball in balls:
        found, tilt = ball.tilted_product(tangent)
        narrower = narrower or bool((found.radius < 0.9 * ball.product(tangent).radius).any())
        steps = torch.randn(2, count, n, generator=source, dtype=torch.float64)
        delta = float(ball.time[0]) * steps / steps.norm(dim=2, keepdim=True)
        points = (x.unsqueeze(1) + delta.reshape(2, count, *shape)).flatten(0, 1).requires_grad_()
        total = score_of(score, model(points), target.repeat_interleave(count)).sum()
        gradient = torch.autograd.grad(total, points, create_graph=True)[0].flatten(1)
        product = torch.autograd.grad((gradient @ d[0]).sum(), points)[0].flatten(1).unflatten(0, (2, count))
        rest = product - (tilt * (delta @ base.T)) @ base - found.center @ base
        slack = 1e-9 * (1 + float(product.abs().max()))
        assert (rest.abs() <= found.radius @ base.abs() + slack).all()
        bound = norm_bound(network, found, None, (tilt, ball.time.unsqueeze(1)))
        assert (product.norm(dim=2) <= bound * (1 + 1e-9) + slack).all()
    assert narrower
