"""Certificates under threats: what cannot move leaves the ball, what no row determines counts nowhere."""

import itertools

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.certificates import Smoothing, certify, first_order
from r2et.domain import without_gauge
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput, SmoothGrad
from r2et.validate import smooth
from tests.certificates.opponents import changed_inside
from tests.certificates.test_deterministic import known_square, squares  # noqa: F401 - a fixture
from tests.models_with_answers import mlp, naive_order, normal
from tests.tables_with_traps import COLUMNS, DOMAIN, GROUPS, ReadableSumTrap, network, neuron_trap, table

FROZEN = Domain(frozen=[0, 3, 4])
EXPLAINERS = [Gradient(), GradientTimesInput(), SmoothGrad(samples=2, score="log-odds")]
MOVABLE = torch.tensor([False, True, True, False, False, True])


def test_a_quadratic_score_has_the_radius_of_the_movable_part_of_its_hessian():
    model, hessian, shift = squares(6, 8, 0)
    x = normal(6, 6, seed=1)
    certificate, estimate = (method(model, x, 2, domain=FROZEN) for method in (certify, first_order))
    for row, gradient in enumerate(x @ hessian + shift):
        order = naive_order(gradient.abs().tolist())
        radii = []
        for i, j, sign in itertools.product(order[:2], order[2:], (-1.0, 1.0)):
            own = gradient[i].sign()
            slope = (own * hessian[i] + sign * hessian[j])[MOVABLE].norm()
            radii.append(float((own * gradient[i] + sign * gradient[j]) / slope))
        assert float(certificate.radius[row]) == pytest.approx(min(radii), rel=1e-6)
        assert float(estimate.radius[row]) == pytest.approx(min(radii), rel=1e-6)


@pytest.mark.parametrize("explainer", EXPLAINERS)
@pytest.mark.parametrize("activation", [nn.Softplus, nn.ReLU])
def test_frozen_features_leave_the_ball(activation, explainer):
    model, x = mlp(6, activation=activation).double(), normal(40, 6, seed=2)
    paper, domain = (certify(model, x, 2, explainer=explainer, domain=known) for known in (None, FROZEN))
    # not for every row: the radii at which enclosures are computed differ
    assert (domain.radius >= paper.radius).double().mean() > 0.9
    assert float((domain.radius / paper.radius).median()) > 1.1
    guide = smooth(model, 10.0) if activation is nn.ReLU else None
    shared = {"explainer": explainer, "k": 2, "guide": guide}
    certain = domain.radius.clamp_max(100.0) * (1 - 1e-6)
    assert not changed_inside(model, x, certain, movable=MOVABLE, **shared).any()
    assert changed_inside(model, x, 2.5 * certain, movable=MOVABLE, **shared).double().mean() > 0.5


def test_an_attacker_who_moves_everything_gets_inside_the_radius_of_the_domain():
    model, x = mlp(6).double(), normal(40, 6, seed=2)
    domain = Domain(frozen=[0, 1, 3, 4])
    radius = certify(model, x, 2, domain=domain).radius.clamp_max(100.0)
    everything = torch.ones(6, dtype=torch.bool)
    assert changed_inside(model, x, radius, Gradient(), 2, movable=everything).double().mean() > 0.5


@pytest.mark.parametrize("threat", ["tangent", "domain"])
@pytest.mark.parametrize("trap", [ReadableSumTrap, neuron_trap])
@pytest.mark.parametrize("activation", [nn.Softplus, nn.ReLU])
@pytest.mark.parametrize("explainer", EXPLAINERS)
def test_a_trap_changes_no_certificate(threat, trap, activation, explainer):
    model, x = network(activation=activation), table(8)
    before = certify(model, x, 3, explainer=explainer, domain=DOMAIN, threat=threat)
    after = certify(trap(model), x, 3, explainer=explainer, domain=DOMAIN, threat=threat)
    assert torch.allclose(before.limits, after.limits, rtol=1e-8, atol=1e-8)
    assert torch.equal(before.top, after.top)


@pytest.mark.parametrize("trap", [ReadableSumTrap, neuron_trap])
def test_without_the_mending_a_trap_changes_certificates(trap):
    model, x = network(), table(8)
    before, after = (certify(each, x, 3).limits for each in (model, trap(model)))
    assert not torch.allclose(before, after, rtol=1e-2)


def test_under_tangent_the_ball_is_that_of_the_model_without_its_gauge():
    model, x = network(), table(6)
    free = without_gauge(model, DOMAIN, COLUMNS.n)
    assert torch.equal(certify(model, x, 3, domain=DOMAIN, threat="tangent").limits, certify(free, x, 3).limits)
    # the part of a step that changes a sum does nothing: a ball of all steps is that of those that keep the sums
    step = normal(6, COLUMNS.n, seed=8)
    kept = DOMAIN.reach("tangent", COLUMNS.n).allowed(step)
    assert torch.allclose(free(x + step), free(x + kept), atol=1e-12)


def test_the_model_without_its_gauge_is_exact_in_the_precision_of_the_proof():
    model, x = network().float(), table(6).float()
    free = without_gauge(model, DOMAIN, COLUMNS.n).double()
    off = x.double() + 3 * torch.nn.functional.one_hot(torch.tensor(GROUPS[0][0]), COLUMNS.n)
    exact = without_gauge(network(), DOMAIN, COLUMNS.n)
    assert torch.equal(free.correction(off), exact.correction(off))


def test_single_precision_changes_no_certificate_by_much():
    model, x = ReadableSumTrap(network()), table(6)
    exact = certify(model, x, 3, domain=DOMAIN).limits
    single = certify(model.float(), x.float(), 3, domain=DOMAIN).limits
    # a search ends within 2 % of what it could find, and another precision may end elsewhere
    assert torch.allclose(exact, single, rtol=0.025)
    exact = certify(model.double(), x.double(), 3, domain=DOMAIN, method="integral").limits
    single = certify(model.float(), x.float(), 3, domain=DOMAIN, method="integral").limits
    assert torch.allclose(exact, single, rtol=1e-3)


@pytest.mark.parametrize("activation", [nn.Softplus, nn.ReLU])
def test_the_prediction_stays_while_what_moves_is_inside(activation):
    model, x = mlp(6, activation=activation).double(), normal(30, 6, seed=4)
    paper = certify(model, x, 2, prediction=True).details["prediction"]
    held = certify(model, x, 2, prediction=True, domain=FROZEN).details["prediction"]
    assert float((held / paper).median()) > 1.1
    steps = normal(200, 30, 6, seed=5) * MOVABLE
    points = x + steps / steps.norm(dim=2, keepdim=True) * held[:, None] * (1 - 1e-6)
    assert (model(points.flatten(0, 1)).argmax(1).reshape(200, 30) == model(x).argmax(1)).all()


def test_a_linear_models_prediction_radius_is_the_margin_over_the_movable_weights():
    model, x = nn.Linear(6, 2).double(), normal(5, 6, seed=6)
    weights = (model.weight[0] - model.weight[1]).detach()
    margin = (x @ weights + model.bias[0] - model.bias[1]).detach().abs()
    held = certify(model, x, 2, prediction=True, domain=FROZEN).details["prediction"]
    assert torch.allclose(held, margin / weights[MOVABLE].norm(), rtol=1e-6)


@pytest.mark.parametrize("activation", [nn.Softplus, nn.ReLU])
def test_where_nothing_moves_the_list_stays_for_ever(activation):
    frozen = Domain(frozen=range(6))
    model, x = mlp(6, activation=activation).double(), normal(3, 6)
    certificate = certify(model, x, 2, domain=frozen, prediction=True)
    assert certificate.radius.isinf().all()


def test_smoothing_has_no_noise_on_what_is_frozen():
    model, x = mlp(6).double(), normal(2, 6)
    noise = Smoothing(samples=50)
    still = certify(model, x, 2, method=noise, domain=Domain(frozen=range(6)))
    assert set(still.details["scores"].unique().tolist()) == {0.0, 1.0}
    some = certify(model, x, 2, method=noise, domain=FROZEN)
    assert "on what may move" in some.explanation
    assert some.assumptions[0].startswith("threat domain")


@pytest.mark.parametrize("threat", ["domain", "tangent", "paper"])
@pytest.mark.parametrize("method", ["auto", "first-order", Smoothing(samples=20)])
def test_a_certificate_names_its_threat(threat, method):
    certificate = certify(network(), table(2), 3, method=method, domain=DOMAIN, threat=threat)
    assert certificate.assumptions[0].startswith(f"threat {threat}: ")


def test_rows_that_cannot_exist_are_refused():
    x = table(3)
    x[1, 3:6] = 1.0
    with pytest.raises(InputError, match="row 1 is not a row that exists"):
        certify(network(), x, 3, domain=DOMAIN)
