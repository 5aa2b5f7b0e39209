"""Noise of a given norm: how long it is, how it is distributed, what it leaves alone."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from r2et import Domain
from r2et.attacks import NoiseAttack
from r2et.explainers import Gradient
from tests.models_with_answers import Siamese, mlp, naive_order, normal

ROWS = 600


def draw(n=5, rows=ROWS, domain=None, seed=0, inputs=1, **settings):
    """The perturbations of many rows, (N, inputs * n)."""
    if inputs == 2:
        model, x = Siamese(n), normal(rows, 2, n, seed=4)
    else:
        model, x = mlp(n, activation=nn.Tanh), normal(rows, n, seed=4)
    shared = {"k": 2, "radius": 0.7, "keep": "last", "explainer": Gradient(inputs=inputs)}
    result = NoiseAttack(**(shared | settings))(model, x, domain=domain, seed=seed)
    return (result.x - x).flatten(start_dim=1), result


@pytest.mark.parametrize("inputs", [1, 2])
def test_gaussian_noise_has_the_full_length(inputs):
    delta, result = draw(inputs=inputs)
    torch.testing.assert_close(delta.norm(dim=1), torch.full((ROWS,), 0.7, dtype=torch.float64))
    torch.testing.assert_close(result.distance, delta.norm(dim=1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("inputs", [1, 2])
def test_gaussian_noise_in_the_largest_norm_is_every_sign(inputs):
    delta, result = draw(inputs=inputs, norm="linf")
    torch.testing.assert_close(delta.abs(), torch.full_like(delta, 0.7))
    torch.testing.assert_close(result.distance, torch.full((ROWS,), 0.7, dtype=torch.float64))
    positive = (delta > 0).double().mean(0)
    assert (positive - 0.5).abs().max() < 4 * 0.5 / math.sqrt(ROWS)


@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_directions_are_symmetric_and_independent(kind, norm):
    delta, _ = draw(n=4, kind=kind, norm=norm)
    scale = delta.std(0)
    assert (delta.mean(0).abs() < 4.5 * scale / math.sqrt(ROWS)).all()
    correlation = torch.corrcoef(delta.T) - torch.eye(4, dtype=torch.float64)
    assert correlation.abs().max() < 4.5 / math.sqrt(ROWS)
    assert float(scale.max() / scale.min()) < 1.15


def test_gaussian_directions_are_those_of_a_sphere():
    """One coordinate of a point on the sphere in five dimensions: (1 + u) / 2 is Beta(2, 2)."""
    delta, _ = draw(n=5)
    u = (delta[:, 1] / 0.7).numpy()
    assert stats.kstest((1 + u) / 2, stats.beta(2, 2).cdf).pvalue > 0.01


@pytest.mark.parametrize(("n", "inputs"), [(3, 1), (8, 1), (3, 2)])
def test_uniform_noise_fills_the_ball(n, inputs):
    """The length of a uniform point of a d-dimensional ball: (||delta|| / r)^d is uniform."""
    delta, result = draw(n=n, inputs=inputs, kind="uniform")
    length = delta.norm(dim=1)
    assert (length <= 0.7).all()
    torch.testing.assert_close(result.distance, length, atol=1e-12, rtol=0)
    volume = (length / 0.7).pow(n * inputs).numpy()
    assert stats.kstest(volume, "uniform").pvalue > 0.01
    # a test that can fail: the lengths of another dimension are told apart
    assert stats.kstest((length / 0.7).pow(1.5 * n * inputs).numpy(), "uniform").pvalue < 1e-3


def test_uniform_noise_fills_the_box():
    delta, _ = draw(n=4, kind="uniform", norm="linf")
    assert (delta.abs() <= 0.7).all()
    for column in delta.T:
        assert stats.kstest((column / 0.7).numpy(), stats.uniform(-1, 2).cdf).pvalue > 0.01


@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("inputs", [1, 2])
def test_frozen_features_are_untouched(kind, norm, inputs):
    domain = Domain(frozen=[1, 3, 4])
    delta, _ = draw(n=6, rows=40, inputs=inputs, kind=kind, norm=norm, domain=domain)
    by_input = delta.reshape(-1, 6)
    assert torch.equal(by_input[:, [1, 3, 4]], torch.zeros(40 * inputs, 3, dtype=torch.float64))
    assert (by_input[:, [0, 2, 5]] != 0).all()


def test_gaussian_noise_has_the_full_length_in_the_features_that_move():
    delta, _ = draw(n=6, domain=Domain(frozen=[1, 2, 5]))
    torch.testing.assert_close(delta.norm(dim=1), torch.full((ROWS,), 0.7, dtype=torch.float64))


def test_uniform_noise_fills_the_ball_of_the_features_that_move():
    """Freezing features must not shrink the noise: it is uniform among the perturbations that are allowed."""
    delta, _ = draw(n=10, kind="uniform", domain=Domain(frozen=range(2, 10)))
    volume = (delta.norm(dim=1) / 0.7).pow(2).numpy()
    assert stats.kstest(volume, "uniform").pvalue > 0.01


def test_bounds_are_respected():
    domain = Domain(lower=-0.5, upper=0.5)
    for kind in ("gaussian", "uniform"):
        delta, result = draw(n=5, rows=60, kind=kind, radius=3.0, domain=domain)
        clean = result.x.flatten(1) - delta
        assert (result.x >= clean.clamp(max=-0.5) - 1e-12).all()
        assert (result.x <= clean.clamp(min=0.5) + 1e-12).all()
        assert (delta.norm(dim=1) <= 3.0 + 1e-6).all()


def test_one_draw():
    """keep="last" with one step is chance itself: the draw is returned, whatever it predicts."""
    attack = NoiseAttack(k=2, radius=3.0, keep="last", history=True)
    assert attack.steps == attack.iterations() == 1
    model, x = mlp(activation=nn.Tanh), normal(50, 6, seed=4)
    result = attack(model, x)
    assert result.history.shape == (2, 50)
    torch.testing.assert_close(result.distance, torch.full((50,), 3.0, dtype=torch.float64))
    target = model(x).argmax(1)
    assert torch.equal(result.kept, model(result.x).argmax(1) == target)
    assert not result.kept.all()
    for r in range(50):
        before, after = result.before[r].tolist(), result.after[r].tolist()
        expected = len(set(naive_order(before)[:2]) & set(naive_order(after)[:2])) / 2
        assert float(result.precision[r]) == expected
        assert int(result.first_flip[r]) == (1 if expected < 1 else -1)


def test_several_draws_are_the_worst_of_them():
    """keep="best" over m draws: the lowest P@k among those that keep the prediction."""
    model, x = mlp(activation=nn.Tanh), normal(30, 6, seed=4)
    attack = NoiseAttack(k=2, radius=1.5, steps=8, history=True)
    result = attack(model, x)
    assert result.kept.all()
    draws = [NoiseAttack(k=2, radius=1.5, steps=m, keep="last")(model, x) for m in range(1, 9)]
    points = torch.stack([d.x for d in draws])
    assert len({tuple(p.flatten().tolist()) for p in points}) == 8  # every draw is another one
    precision = torch.stack([torch.where(d.kept, d.precision, 1.0) for d in draws])
    assert torch.equal(result.precision, precision.amin(0))
    assert torch.equal(result.history[1:], torch.stack([d.precision for d in draws]))
    assert float(result.precision.mean()) < float(precision[0].mean())


@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
def test_seeds(kind):
    first, _ = draw(rows=20, kind=kind, seed=1)
    again, _ = draw(rows=20, kind=kind, seed=1)
    other, _ = draw(rows=20, kind=kind, seed=2)
    assert torch.equal(first, again)
    assert (first != other).all()
    assert len({tuple(row) for row in first.tolist()}) == 20  # rows do not share their noise


def test_float32():
    model, x = mlp(activation=nn.Tanh).float(), normal(100, 6, seed=4).float()
    for norm in ("l2", "linf"):
        result = NoiseAttack(k=2, radius=0.5, keep="last", norm=norm)(model, x)
        assert result.x.dtype == torch.float32
        assert (result.distance <= 0.5 + 1e-6).all()
        torch.testing.assert_close(result.distance, torch.full((100,), 0.5), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("settings", "message"), [({"kind": "gausian"}, r"'gausian'.*'gaussian'"), ({"steps": 0}, "steps=0")]
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        NoiseAttack(**({"k": 2, "radius": 1.0} | settings))
