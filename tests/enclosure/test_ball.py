"""Derivatives on balls: exact at radius 0, and holding every sampled one at a radius."""

import copy
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et.enclosure import extract, march
from r2et.enclosure.head import head
from r2et.enclosure.jacobian import norm_bound
from r2et.scores import score as score_of
from tests.enclosure.test_reading import READABLE, prepared
from tests.models_with_answers import generator, mlp, normal

SMOOTH = [
    "linear", "mlp", "nested, with identity and dropout", "convolution", "average pooling", "BatchNorm2d",
    "residual sums", "the input reaches the logits", "one activation, many uses", "functions", "reshaping",
    "numbers and parameters",
]  # fmt: skip


def around(model, x, target, name, times):
    """Balls of the radii `times` around each flattened x."""
    network = extract(model, x.shape[1:])
    flat = x.flatten(1)
    chosen = head(network, network.forward(flat)[1], target, name)
    radii = torch.as_tensor(times, dtype=torch.float64).expand(len(x), -1)
    return network, list(march(network, flat, chosen, radii))


def value(model, name, target, row):
    return score_of(name, model(row[None]), target[None])[0]


def exact(model, x, target, name):
    """Gradients (N, n) and Hessians (N, n, n) by autograd."""
    n = x[0].numel()
    functions = [partial(value, model, name, one) for one in target]
    gradients = [torch.autograd.functional.jacobian(f, row) for f, row in zip(functions, x, strict=True)]
    hessians = [torch.autograd.functional.hessian(f, row) for f, row in zip(functions, x, strict=True)]
    return torch.stack(gradients).reshape(-1, n), torch.stack(hessians).reshape(-1, n, n)


@pytest.mark.parametrize("score", ["log-odds", "logit", "margin"])
@pytest.mark.parametrize("name", SMOOTH)
def test_at_radius_zero_derivatives_are_exact(name, score):
    model, shape, _ = READABLE[name]
    model = prepared(copy.deepcopy(model))
    x = normal(3, *shape, seed=2)
    target = model(x).argmin(1)
    network, (ball,) = around(model, x, target, score, [[0.0]])
    gradient, hessian = exact(model, x, target, score)
    base = network.base
    assert torch.allclose(ball.cotangent.center @ base, gradient, rtol=1e-8, atol=1e-9)
    assert float(ball.cotangent.radius.max()) < 1e-7 * (1 + float(ball.cotangent.center.abs().max()))
    product = ball.product(base.T.expand(3, -1, -1))
    scale = float(product.center.abs().max())
    assert torch.allclose(product.center @ base, hessian, rtol=1e-7, atol=1e-8 * (1 + scale))
    assert float(product.radius.max()) <= 1e-6 * scale + 1e-12
    norms = ball.curvature(base.T.expand(3, -1, -1))
    assert (norms >= hessian.norm(dim=2) * (1 - 1e-9)).all()
    assert torch.allclose(norms, hessian.norm(dim=2), rtol=1e-4, atol=1e-6 * (1 + scale))
    assert float(ball.error.max()) < 1e-9


def check_inside(model, x, target, score, times, seed=0, count=60):
    """Gradients and Hessian-vector products at points of each ball lie in the boxes, norms below the bounds."""
    network, balls = around(model, x, target, score, [times])
    n, base = x[0].numel(), network.base
    directions = normal(2, n, seed=seed + 1)
    source = generator(seed)
    for ball, radius in zip(balls, times, strict=True):
        tangent = (directions @ base.T).expand(len(x), -1, -1)
        box, bound = ball.product(tangent), ball.curvature(tangent)
        lower = box.center @ base - box.radius @ base.abs()
        upper = box.center @ base + box.radius @ base.abs()
        steps = torch.randn(len(x), count, n, generator=source, dtype=torch.float64)
        lengths = torch.rand(len(x), count, 1, generator=source, dtype=torch.float64) ** (1 / n)
        lengths[:, : count // 2] = 1.0
        moved = x.unsqueeze(1) + (radius * lengths * steps / steps.norm(dim=2, keepdim=True)).reshape(
            len(x), count, *x.shape[1:]
        )
        points = moved.flatten(0, 1).requires_grad_()
        labels = target.repeat_interleave(count)
        logits = model(points)
        total = score_of(score, logits, labels).sum()
        gradient = torch.autograd.grad(total, points, create_graph=True)[0].flatten(1)
        slack = 1e-9 * (1 + float(gradient.detach().abs().max()))
        near, wide = ball.cotangent.center @ base, ball.cotangent.radius @ base.abs()
        off = (gradient.detach().unflatten(0, (len(x), count)) - near.unsqueeze(1)).abs()
        assert (off <= wide.unsqueeze(1) + slack).all()
        for number, d in enumerate(directions):
            product = torch.autograd.grad((gradient @ d).sum(), points, retain_graph=True)[0]
            product = product.flatten(1).unflatten(0, (len(x), count))
            assert (product <= upper[:, None, number] + slack).all()
            assert (product >= lower[:, None, number] - slack).all()
            assert (product.norm(dim=2) <= bound[:, None, number] * (1 + 1e-9) + slack).all()
        norms = gradient.detach().norm(dim=1).unflatten(0, (len(x), count))
        assert (norms <= norm_bound(network, ball.cotangent).unsqueeze(1) + slack).all()


@pytest.mark.parametrize("score", ["log-odds", "logit"])
@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "linear"])
def test_sampled_derivatives_lie_in_the_enclosures(name, score):
    model, shape, _ = READABLE[name]
    model = prepared(copy.deepcopy(model))
    x = normal(2, *shape, seed=3)
    check_inside(model, x, model(x).argmax(1), score, [0.05, 0.2, 0.7, 2.0])


ACTIVATIONS = [nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU()]


@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_random_networks(data, seed):
    n, classes = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 4))
    widths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    scale = data.draw(st.floats(0.2, 4.0))
    layers, before = [], n
    for width in widths:
        layers += [nn.Linear(before, width), data.draw(st.sampled_from(ACTIVATIONS))]
        before = width
    model = prepared(nn.Sequential(*layers, nn.Linear(before, classes)), seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    x = normal(2, n, seed=seed)
    target = torch.tensor([0, classes - 1])
    check_inside(model, x, target, "log-odds", [0.1, 0.5, 1.5], seed=seed, count=30)


@pytest.mark.parametrize("beta", [1.0, 5.0])
@pytest.mark.parametrize("threshold", [1.0, 2.0, 6.0])
def test_the_part_of_softplus_that_pytorch_cuts_off_is_in_the_error(beta, threshold):
    """Around the switch the gradient of the model differs from the enclosure by no more than `error`."""
    model = prepared(
        nn.Sequential(
            nn.Linear(3, 6),
            nn.Softplus(beta, threshold),
            nn.Linear(6, 6),
            nn.Softplus(beta, threshold),
            nn.Linear(6, 3),
        )
    )
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3.0)
    x = normal(4, 3, seed=1)
    target = model(x).argmax(1)
    network, balls = around(model, x, target, "log-odds", [[0.2, 1.0]])
    source = generator(0)
    reached = False
    for ball in balls:
        near, wide = ball.cotangent.center @ network.base, ball.cotangent.radius @ network.base.abs()
        reached = reached or bool((ball.error > 0).any())
        for _ in range(200):
            step = torch.randn(4, 3, generator=source, dtype=torch.float64)
            point = (x + ball.time.unsqueeze(1) * step / step.norm(dim=1, keepdim=True)).requires_grad_()
            total = score_of("log-odds", model(point), target).sum()
            gradient = torch.autograd.grad(total, point)[0]
            assert ((gradient - near).abs() <= wide + ball.error.unsqueeze(1) + 1e-9).all()
    assert reached, "the test must reach the switch"


def test_a_ball_that_grows_by_the_slope_at_its_start_would_be_too_small():
    """The bound of a pre-activation is the integral of right ends: it holds a net that steepens on the way."""
    model = prepared(nn.Sequential(nn.Linear(1, 1), nn.Softplus(5.0), nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 2)))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.fill_(-2.0)
        model[2].weight.fill_(1.0)
        model[2].bias.zero_()
    x = torch.zeros(1, 1, dtype=torch.float64)
    network = extract(model, torch.Size([1]))
    chosen = head(network, network.forward(x)[1], torch.tensor([0]), "log-odds")
    (ball,) = march(network, x, chosen, torch.full((1, 1), 3.0, dtype=torch.float64))
    # slope of tanh at z = 1.0 (x = 3) is 0.42; its range on the ball must reach below that
    inner = network.forward(x + 3.0)[0]
    steep = 1 - float(inner[1].tanh()) ** 2
    assert float(ball.slopes[1].lower) <= steep + 1e-12


def test_softplus_above_its_switch_costs_frozen_features_as_much_as_others():
    model, x = mlp(5, activation=nn.Softplus), normal(4, 5)
    with torch.no_grad():
        model[0].bias += 30
    network = extract(model, torch.Size([5]))
    score = head(network, network.forward(x)[1], torch.zeros(4, dtype=torch.int64), "log-odds")
    errors = [
        next(march(each, x, score, torch.zeros(4, 1).double())).error
        for each in (network, network.where(torch.tensor([True, False, False, False, False])))
    ]
    assert (errors[0] > 0).all()
    assert torch.equal(*errors)
