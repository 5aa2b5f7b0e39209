"""Gradient and gradient times input: closed forms, captum, shapes and targets."""

import captum.attr
import pytest
import torch
from torch import nn

import r2et
from r2et.explainers import Gradient, GradientTimesInput
from tests.models_with_answers import (
    OneNeuron,
    Pair,
    Siamese,
    convolution,
    linear,
    mlp,
    naive_gradient,
    normal,
    quadratic,
)

SCORES = ["log-odds", "probability", "logit"]


def test_quadratic_closed_form():
    model, x = quadratic(), normal(4, 5, seed=3)
    g = (x @ model.A + model.b).detach()
    torch.testing.assert_close(Gradient(reduce="signed")(model, x), g, atol=1e-12, rtol=0)
    torch.testing.assert_close(Gradient()(model, x), g.abs(), atol=1e-12, rtol=0)
    torch.testing.assert_close(GradientTimesInput(reduce="signed")(model, x), g * x, atol=1e-12, rtol=0)
    torch.testing.assert_close(GradientTimesInput()(model, x), (g * x).abs(), atol=1e-12, rtol=0)


def test_one_neuron_closed_form():
    model, x = OneNeuron(normal(5)), normal(4, 5, seed=3)
    torch.testing.assert_close(
        Gradient(reduce="signed")(model, x, torch.ones(4, dtype=torch.int64)), model.gradient(x).detach()
    )


def test_pair_closed_form():
    model, x = Pair(normal(4, 4), c=50.0), normal(3, 2, 4, seed=3)
    g = model.gradient(x).detach()
    torch.testing.assert_close(Gradient(inputs=2, reduce="signed")(model, x), g, atol=1e-12, rtol=0)
    torch.testing.assert_close(GradientTimesInput(inputs=2)(model, x), (g * x).abs(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("classes", [2, 4])
def test_against_one_row_at_a_time(score, classes):
    model, x = mlp(classes=classes), normal(5, 6, seed=2)
    target = torch.arange(5) % classes
    found = Gradient(reduce="signed", score=score)(model, x, target)
    times = GradientTimesInput(reduce="signed", score=score)(model, x, target)
    for r in range(5):
        expected = naive_gradient(model, x[r], int(target[r]), score)
        torch.testing.assert_close(found[r], expected, atol=1e-13, rtol=1e-10)
        torch.testing.assert_close(times[r], expected * x[r], atol=1e-13, rtol=1e-10)


@pytest.mark.parametrize("name", ["log-odds", "probability", "logit"])
def test_agrees_with_captum(name):
    model, x, target = mlp(classes=3), normal(5, 6, seed=4), torch.tensor([0, 1, 2, 1, 0])

    def forward(points):
        return r2et.scores.score(name, model(points), target)

    saliency = captum.attr.Saliency(forward).attribute(x.clone().requires_grad_(), abs=False)
    product = captum.attr.InputXGradient(forward).attribute(x.clone().requires_grad_())
    torch.testing.assert_close(Gradient(score=name, reduce="signed")(model, x, target), saliency)
    torch.testing.assert_close(GradientTimesInput(score=name, reduce="signed")(model, x, target), product.detach())


def test_the_predicted_class_is_the_default_target():
    model, x = mlp(classes=4), normal(12, 6, seed=1)
    predicted = model(x).argmax(1)
    assert len(set(predicted.tolist())) > 1
    explainer = Gradient(reduce="signed")
    assert torch.equal(explainer(model, x), explainer(model, x, predicted))
    assert not torch.allclose(explainer(model, x), explainer(model, x, (predicted + 1) % 4))


def test_probability_and_log_odds_rank_alike():
    model, x = mlp(classes=3), normal(8, 6, seed=1)
    for kind in (Gradient, GradientTimesInput):
        a, b = kind()(model, x), kind(score="probability")(model, x)
        assert torch.equal(r2et.ranking.ranks(a), r2et.ranking.ranks(b))


def test_shapes_and_reductions_of_images():
    model, x = convolution(), normal(3, 2, 4, 4)
    signed = Gradient(reduce="signed")(model, x)
    assert signed.shape == (3, 32)
    raw = torch.stack([naive_gradient(model, x[r], int(model(x).argmax(1)[r])) for r in range(3)])
    torch.testing.assert_close(signed, raw.flatten(1), atol=1e-13, rtol=0)
    torch.testing.assert_close(Gradient()(model, x), raw.abs().flatten(1), atol=1e-13, rtol=0)
    pixels = Gradient(reduce="abs-sum")(model, x)
    assert pixels.shape == (3, 16)
    torch.testing.assert_close(pixels, raw.abs().sum(1).flatten(1), atol=1e-13, rtol=0)


def test_pairs_of_images_sum_the_channels_of_each():
    inner = convolution(classes=2)

    class Both(nn.Module):
        def forward(self, x):
            return inner(x[:, 0]) - inner(x[:, 1])

    x = normal(3, 2, 2, 4, 4)
    explainer = Gradient(inputs=2, reduce="abs-sum")
    found = explainer(Both(), x)
    signed = Gradient(inputs=2, reduce="signed")(Both(), x).reshape(x.shape)
    assert found.shape == (3, 2, 16)
    torch.testing.assert_close(found, signed.abs().sum(2).flatten(2))
    mask = found > found.median()
    wide = explainer.spread(mask, x)
    assert wide.shape == x.shape
    assert torch.equal(wide[:, :, 0].flatten(2), mask)
    assert torch.equal(wide[:, :, 1].flatten(2), mask)


def test_spread_is_a_reshape_without_channels():
    x = normal(3, 2, 4, 4)
    mask = normal(3, 32, seed=1) > 0
    assert torch.equal(Gradient().spread(mask, x).flatten(1), mask)


@pytest.mark.parametrize("kind", [Gradient, GradientTimesInput])
def test_works_without_grad_mode_and_leaves_no_trace(kind):
    model, x = mlp(), normal(3, 6)
    expected = kind()(model, x)
    with torch.no_grad():
        found = kind()(model, x)
    assert torch.equal(found, expected)
    assert not found.requires_grad
    assert not x.requires_grad
    assert all(p.grad is None for p in model.parameters())
    point = x.clone().requires_grad_()
    assert not kind()(model, point).requires_grad
    assert point.grad is None


def test_rows_are_independent():
    model, x = mlp(classes=3), normal(5, 6)
    together = GradientTimesInput()(model, x)
    alone = torch.cat([GradientTimesInput()(model, x[r : r + 1]) for r in range(5)])
    torch.testing.assert_close(together, alone, atol=1e-14, rtol=0)


def test_float32_of_a_sure_model_is_ranked_by_its_log_odds():
    """At a margin of thousands the probability's gradient is zero; the ranking of the log-odds is right."""
    model = linear().float()
    with torch.no_grad():
        model.weight *= 1000
    x = normal(4, 6).float()
    expected = (model.weight[1] - model.weight[0]).abs().detach().expand(4, -1)
    torch.testing.assert_close(Gradient()(model, x), expected, rtol=1e-5, atol=0)


def test_siamese_rows_of_a_pair_are_explained_separately():
    model, x = Siamese(), normal(3, 2, 5)
    found = Gradient(inputs=2, reduce="signed")(model, x)
    assert found.shape == (3, 2, 5)
    target = model(x).argmax(1)
    for r in range(3):
        expected = naive_gradient(model, x[r], int(target[r]))
        torch.testing.assert_close(found[r], expected, atol=1e-13, rtol=0)
