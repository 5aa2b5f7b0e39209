"""The hunt can fail: certificates that are wrong on purpose are caught; and it goes through random networks."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et import Gradient, GradientTimesInput, SmoothGrad
from r2et.certificates import certify, deterministic
from r2et.enclosure import Box, attributions, march
from tests.certificates.test_deterministic import neuron
from tests.certificates.test_soundness import K, hunt, smallest_flips, trained
from tests.models_with_answers import generator, normal


def caught(model, x, radius, k=K, explainer=None):
    """Rows where an attack changes the set inside the radius."""
    explainer = explainer or Gradient()
    found = hunt(model, x, radius.unsqueeze(1), explainer, k)
    return found | (smallest_flips(model, x, explainer, k) < 0.999 * radius)


def left_ends(network, x, head, times, frozen=False):
    """Each step is enclosed on the ball at its start."""
    return march(network, x, head, torch.cat([torch.zeros_like(times[:, :1]), times[:, :-1]], 1), frozen)


def without_first_layer(network, x, head, times, frozen=False):
    """The curvature of the first layer is forgotten."""
    for ball in march(network, x, head, times, frozen):
        none = Box.point(torch.zeros_like(ball.bends[0].center))
        yield replace(ball, bends=[none, *ball.bends[1:]])


def without_softmax(network, x, head, times, frozen=False):
    """The second derivative of the log-odds by the logits is forgotten."""
    for ball in march(network, x, head, times, frozen):
        yield replace(ball, weights=None)


def half_the_ball(network, x, head, times, frozen=False):
    """Enclosures on balls of half the radius."""
    return march(network, x, head, times / 2, frozen)


def toward(start, end):
    """A net whose gap closes at a known distance, on the side where its slope grows."""
    w = torch.tensor([0.6, 1.6, 0.9], dtype=torch.float64)
    slope = torch.tensor([4.0 * torch.sigmoid(torch.tensor(end)), 0.0, -9.0], dtype=torch.float64)
    return neuron(w, 4.0, start, slope), torch.zeros(1, 3, dtype=torch.float64), (end - start) / float(w.norm())


@pytest.mark.parametrize(("start", "end"), [(-3.0, -1.0), (-2.5, -0.5), (-2.0, -0.3)])
def test_left_ends_are_caught_even_with_fine_steps(start, end, monkeypatch):
    model, x, exact = toward(start, end)
    explainer = Gradient(reduce="signed")
    sound = certify(model, x, 1, explainer)
    assert float(sound.radius) <= exact
    assert not caught(model, x, sound.radius, 1, explainer).any()
    monkeypatch.setattr(attributions, "march", left_ends)
    wrong = certify(model, x, 1, explainer)
    assert float(wrong.radius) > exact
    assert caught(model, x, wrong.radius, 1, explainer).all()


@pytest.mark.parametrize(
    ("variant", "architecture", "name"),
    [
        (left_ends, "1 x softplus 5", "breast-cancer"),
        (left_ends, "2 x tanh", "breast-cancer"),
        (without_first_layer, "2 x softplus 1", "breast-cancer"),
        (without_first_layer, "2 x tanh", "digits"),
        (without_softmax, "1 x softplus 1", "digits"),
        (without_softmax, "1 x leaky relu", "digits"),
        (half_the_ball, "1 x softplus 5", "digits"),
    ],
)
def test_wrong_enclosures_are_caught(variant, architecture, name, monkeypatch):
    """With two coarse steps the right ends still hold, and each of these does not."""
    monkeypatch.setattr(deterministic, "FINE", 2)
    model, x = trained(architecture, name)
    x = x[:20]
    sound = certify(model, x, K).radius
    assert (sound > 0).any()
    assert not caught(model, x, sound).any()
    monkeypatch.setattr(attributions, "march", variant)
    assert caught(model, x, certify(model, x, K).radius.clamp_max(20.0)).any()


@pytest.mark.parametrize(("architecture", "name"), [("1 x softplus 5", "breast-cancer"), ("2 x tanh", "digits")])
def test_the_first_order_radius_is_caught(architecture, name):
    model, x = trained(architecture, name)
    estimate = certify(model, x, K, method="first-order")
    assert not estimate.sound
    assert float(caught(model, x, estimate.radius).double().mean()) > 0.1


def test_the_first_order_radius_of_a_relu_net_is_infinite_and_wrong():
    model, x = trained("1 x relu", "breast-cancer")
    estimate = certify(model, x, K, method="first-order")
    assert estimate.radius.isinf().all()
    assert caught(model, x, estimate.radius.clamp_max(5.0)).any()


@pytest.mark.parametrize("share", [1.5, 3.0])
def test_radii_that_are_too_large_are_caught(share):
    model, x = trained("1 x tanh", "breast-cancer")
    assert float(caught(model, x, share * certify(model, x, K).radius).double().mean()) > 0.5


ACTIVATIONS = {
    "smooth": [
        nn.Softplus(),
        nn.Softplus(5.0),
        nn.Softplus(3.0, 4.0),
        nn.Tanh(),
        nn.Sigmoid(),
        nn.GELU(),
        nn.SiLU(),
    ],
    "kinked": [nn.ReLU(), nn.LeakyReLU(0.2), nn.LeakyReLU(-0.3)],
}
EXPLAINERS = [
    Gradient(),
    Gradient(reduce="signed"),
    Gradient(score="logit"),
    Gradient(score="margin"),
    GradientTimesInput(),
    GradientTimesInput(reduce="signed", score="margin"),
    SmoothGrad(samples=2, sigma=0.3, score="log-odds"),
]


@settings(max_examples=15, deadline=None, derandomize=True)  # more of them by hand: a find must not depend on luck
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_random_networks_hold(data, seed):
    n, classes = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 4))
    k = data.draw(st.integers(1, n - 1))
    kinds = data.draw(st.sampled_from(list(ACTIVATIONS.values())))
    scale = data.draw(st.sampled_from([0.3, 1.0, 2.0, 5.0]))
    skip = data.draw(st.booleans())
    explainer = data.draw(st.sampled_from(EXPLAINERS))
    layers, before = [], n
    for width in data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)):
        layers += [nn.Linear(before, width), data.draw(st.sampled_from(kinds))]
        before = width
    model = Skip(nn.Sequential(*layers, nn.Linear(before, classes)), n, classes, skip).double()
    source = generator(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(scale * torch.randn(p.shape, generator=source, dtype=torch.float64) / p.shape[-1] ** 0.5)
    x = normal(5, n, seed=seed)
    certificate = certify(model, x, k, explainer, prediction=data.draw(st.booleans()))
    assert (certificate.limits >= 0).all()
    assert (certificate.limits[:, 1:] >= certificate.limits[:, :-1]).all()
    assert not hunt(model, x, certificate.limits, explainer, k).any()


class Skip(nn.Module):
    """A net, with or without a direct way from the input to the logits."""

    def __init__(self, net, n, classes, skip):
        super().__init__()
        self.net, self.direct, self.skip = net, nn.Linear(n, classes), skip

    def forward(self, x):
        return self.net(x) + self.direct(x) if self.skip else self.net(x)
