"""The hunt can fail: certificates that are wrong on purpose are caught; and it goes through random networks."""

import pytest
import torch
from torch import nn

from benchmarks.hunting import TRAITS, drawn_case, hunt, smallest_flips
from benchmarks.wrong import TIES, WRONG, half_the_ball, left_ends, without_first_layer, without_softmax
from r2et.certificates import certify, deterministic
from r2et.enclosure import attributions, extract
from r2et.explainers import Gradient, GradientTimesInput, SmoothGrad
from tests.certificates.test_deterministic import neuron
from tests.certificates.test_soundness import K, trained
from tests.certificates.test_ties import EXPLAINERS, Pooled
from tests.models_with_answers import mlp, normal


def caught(model, x, radius, k=K, explainer=None):
    """Rows where an attack changes the set inside the radius."""
    explainer = explainer or Gradient()
    found = hunt(model, x, radius.unsqueeze(1), explainer, k)
    return found | (smallest_flips(model, x, explainer, k) < 0.999 * radius)


def toward(start, end):
    """A net whose gap closes at a known distance, on the side where its slope grows."""
    w = torch.tensor([0.6, 1.6, 0.9], dtype=torch.float64)
    slope = torch.tensor([4.0 * torch.sigmoid(torch.tensor(end)), 0.0, -9.0], dtype=torch.float64)
    return neuron(w, 4.0, start, slope), torch.zeros(1, 3, dtype=torch.float64), (end - start) / float(w.norm())


@pytest.mark.parametrize(("start", "end"), [(-3.0, -1.0), (-2.5, -0.5), (-2.0, -0.3)])
def test_left_ends_are_caught_even_with_fine_steps(start, end, monkeypatch):
    model, x, exact = toward(start, end)
    explainer = Gradient(reduce="signed")
    sound = certify(model, x, 1, explainer=explainer)
    assert float(sound.radius) <= exact
    assert not caught(model, x, sound.radius, 1, explainer).any()
    monkeypatch.setattr(attributions, "march", left_ends)
    wrong = certify(model, x, 1, explainer=explainer)
    assert float(wrong.radius) > exact
    assert caught(model, x, wrong.radius, 1, explainer).all()


@pytest.mark.parametrize(
    ("variant", "architecture", "name"),
    [
        (left_ends, "1 x softplus 5", "breast-cancer"),
        (left_ends, "2 x tanh", "breast-cancer"),
        (without_first_layer, "2 x softplus 1", "breast-cancer"),
        (without_first_layer, "2 x tanh", "digits"),
        (without_softmax, "2 x softplus 1", "digits"),
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


@pytest.mark.parametrize("seed", [8, 30, 133, 154])
def test_draws_that_catch_half_slopes_at_ties_hold(seed):
    """Where each of several equal entries of a window has half a slope, the hunt changes a list in these draws."""
    case = drawn_case(seed, 6, "max-pooling of units", "copies")
    certificate = certify(case.model, case.x, case.k, explainer=case.explainer)
    assert not hunt(case.model, case.x, certificate.limits, case.explainer, case.k, draws=4).any()


def test_the_draws_that_catch_half_slopes_are_about_every_kind_of_explanation():
    found = {type(drawn_case(seed, 1, "max-pooling of units", "copies").explainer) for seed in (8, 30, 154)}
    assert found == {Gradient, GradientTimesInput, SmoothGrad}


def test_a_radius_of_zero_claims_nothing_that_could_be_caught():
    """The third and second score of row 3 differ by rounding, which depends on how many rows are explained."""
    case = drawn_case(8, 6, "max-pooling of units", "whole numbers")
    limits = certify(case.model, case.x, case.k, explainer=case.explainer).limits
    assert limits[3, 0] == 0
    assert not hunt(case.model, case.x, limits, case.explainer, case.k, draws=4).any()


def tied_windows(case):
    """How many windows of max-pooling have an entry that equals the winner, at each input."""
    network = extract(case.model, case.x.shape[1:])
    pools = [
        (layer.activation, z)
        for layer, z in zip(network.layers, network.forward(case.x)[0], strict=True)
        if hasattr(layer.activation, "winner")
    ]
    windows = [pool.windows(z, -torch.inf) for pool, z in pools]
    return sum(((z == z.amax(-1, keepdim=True)).sum(-1) > 1).sum(1) for z in windows)


def test_the_draws_are_as_awkward_as_they_claim():
    cases = {trait: [drawn_case(seed, 4, "max-pooling of units", trait) for seed in range(6)] for trait in TRAITS}
    tied = {trait: sum(int(tied_windows(case).sum()) for case in found) for trait, found in cases.items()}
    assert tied["plain"] == 0
    assert tied["copies"] > 10
    assert tied["whole numbers"] > 5
    assert any((case.model.units.weight == 0).all(1).any() for case in cases["dead"])
    assert all((case.x == 0).any() and not case.model.units.bias.any() for case in cases["zeros"])


@pytest.mark.parametrize("explainer", EXPLAINERS)
def test_slopes_halfway_between_the_sides_of_a_tie_are_caught(explainer):
    """Three equal entries of a window, each with a slope of 1/2, let a hinge disappear."""
    model, x = Pooled(), torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    with WRONG[TIES]():
        certificate = certify(model, x, 1, explainer=explainer)
    assert hunt(model, x, certificate.limits.clamp_max(1.0), explainer, 1).all()


@pytest.mark.parametrize("explainer", EXPLAINERS)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("size", [1e-120, 1e-150, 1e-165, 1e-200, 1e-310])
def test_squares_that_vanish_prove_nothing(size, activation, explainer):
    """A factor on the logits moves no list; one whose square underflowed made every slope 0 and every radius 22.

    Balls are not the same ones, so that a radius may differ by a little.
    """
    model, x = mlp(4, hidden=6, seed=1, activation=activation), normal(4, 4, seed=2)
    expected = certify(model, x, 2, explainer=explainer).limits
    assert (expected > 0).any()
    with torch.no_grad():
        model[2].weight.mul_(size)
        model[2].bias.mul_(size)
    assert (certify(model, x, 2, explainer=explainer).limits <= expected * 1.1).all()


def test_squares_that_vanish_behind_the_first_layer_prove_nothing():
    model = nn.Sequential(*mlp(4, 6, hidden=6, seed=1, activation=nn.ReLU), nn.ReLU(), *mlp(6, seed=2)[:1])
    model = nn.Sequential(*model, nn.ReLU(), nn.Linear(8, 2)).double()
    x = normal(4, 4, seed=2)
    expected = certify(model, x, 2).limits
    with torch.no_grad():
        model[2].weight.mul_(1e-165)
        model[2].bias.mul_(1e-165)
        model[4].weight.div_(1e-165)
    assert (certify(model, x, 2).limits <= expected * 1.1).all()
