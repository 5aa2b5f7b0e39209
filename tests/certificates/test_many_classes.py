"""The certificate of log-odds of many classes: attacks inside of it, ugly nets, and controls that are caught."""

import pytest
import torch
from torch import nn

from benchmarks.hunting import hunt
from r2et.certificates import certify, quadratic
from r2et.domain import Domain
from r2et.enclosure.class_expansion import ClassExpanded
from r2et.explainers import Gradient
from tests.certificates.opponents import changed_inside
from tests.certificates.test_dual import drawn_lists
from tests.certificates.test_soundness import K, trained
from tests.covering import covering
from tests.enclosure.test_class_expansion import TRAITS, one
from tests.enclosure.test_expansion import SMOOTH

EXPLAINERS = (Gradient(), Gradient(reduce="signed"), Gradient(score="probability"))
BOTH = ("integral", "quadratic")
RADII = (0.02, 0.3)


@pytest.mark.parametrize(
    ("module", "trait", "classes"),
    covering(((m, t, c) for m in SMOOTH for t in TRAITS for c in (3, 5, 10)), together=1),
    ids=repr,
)
def test_no_attack_on_ugly_nets_displaces_more_than_certified(module, trait, classes):
    model, x = one(module, trait, classes=classes, seed=5)
    for number, k in enumerate((1, 2, x.shape[1] - 1)):
        explainer = EXPLAINERS[(number + classes) % len(EXPLAINERS)]
        certificate = certify(model, x, k, explainer=explainer)
        assert certificate.methods == BOTH
        assert not hunt(model, x, certificate.limits, explainer, k, draws=6).any()


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_no_draw_in_given_balls_displaces_more_than_certified(reduce):
    explainer = Gradient(reduce=reduce)
    for seed in range(3):
        model, x = one(nn.Softplus(3.0), TRAITS[seed], classes=3 + 2 * seed, seed=seed)
        certificate = certify(model, x, 2, explainer=explainer, radii=RADII)
        assert certificate.methods == BOTH
        for radius in RADII:
            lost = drawn_lists(model, x, radius, explainer, 2, draws=100)
            assert (certificate.precision_at(radius) <= 1 - lost / 2 + 1e-9).all()


@pytest.mark.parametrize(
    "activation",
    ["softplus 5", *(pytest.param(n, marks=pytest.mark.slow) for n in ("softplus 1", "tanh", "sigmoid", "gelu"))],
)
def test_attacks_inside_the_radius_fail_and_farther_out_mostly_succeed(activation):
    model, x = trained(f"1 x {activation}", "digits")
    x = x[:8]
    certificate, plain = certify(model, x, K), certify(model, x, K, method="integral")
    assert certificate.methods == BOTH
    assert (certificate.limits >= plain.limits).all()
    assert float((certificate.radius / plain.radius).median()) > 1.01
    everything = torch.ones(x.shape[1], dtype=torch.bool)
    assert not hunt(model, x, certificate.limits, Gradient(), K).any()
    assert not changed_inside(model, x, 0.999 * certificate.radius, Gradient(), K, movable=everything).any()
    farther = hunt(model, x, certificate.limits[:, :1], Gradient(), K, share=1.3)
    assert float(farther.double().mean()) > 0.5


def test_frozen_features_leave_the_ball():
    model, x = one(nn.Tanh(), classes=5)
    movable = torch.tensor([True, False, True, True, False])
    frozen = certify(model, x, 2, domain=Domain(frozen=[1, 4]))
    assert frozen.methods == BOTH
    assert (frozen.radius >= certify(model, x, 2).radius * (1 - 1e-3)).all()
    assert not changed_inside(model, x, 0.999 * frozen.radius, Gradient(), 2, movable=movable).any()
    assert certify(model, x, 2, domain=Domain(frozen=[0, 1, 2, 3, 4])).limits.isinf().all()


def forget(monkeypatch, wrong):
    """A certificate with one mistake."""
    if wrong == "no drift":
        monkeypatch.setattr(quadratic, "shares", lambda times, radius: 0 * times)
    else:
        slope = ClassExpanded.slope.func
        monkeypatch.setattr(ClassExpanded, "slope", property(lambda self: 0.95 * slope(self)))


@pytest.mark.parametrize("wrong", ["no drift", "a slope too small"])
def test_wrong_bounds_are_caught(wrong, monkeypatch):
    cases = [
        one(nn.Softplus(5.0), trait, classes=4, seed=seed) for seed in range(4) for trait in ("plain", "sure")
    ]

    def caught():
        return any(
            bool(hunt(model, x, certify(model, x, 1, method="quadratic").limits, Gradient(), 1, draws=6).any())
            for model, x in cases
        )

    assert not caught()
    forget(monkeypatch, wrong)
    assert caught()


def test_softplus_is_charged_for_its_switch():
    model, x = one(nn.Softplus(3.0, 4.0), classes=4, seed=2)
    with torch.no_grad():
        model[0].bias.fill_(1.4)
    certificate = certify(model, x, 2)
    assert not hunt(model, x, certificate.limits, Gradient(), 2).any()
    smooth = certify(one(nn.Softplus(3.0, 400.0), classes=4, seed=2)[0], x, 2)
    assert float(certificate.radius.sum()) < float(smooth.radius.sum())


def test_a_row_gets_the_same_alone():
    model, x = trained("1 x softplus 5", "digits")
    together = certify(model, x[:3], K)
    for row in range(3):
        assert torch.allclose(certify(model, x[row : row + 1], K).limits[0], together.limits[row], rtol=1e-6)
