from dataclasses import replace

import pytest
import torch

import r2et
from r2et import audit
from r2et.attacks import WorstCase
from r2et.auditing import certifying
from r2et.certificates.bracketing import judged_in_float64
from r2et.certificates.choice import certify_within
from r2et.domain import under_threat
from r2et.explainers import Gradient
from tests.auditing.toys import X, Y, strict_json
from tests.tables_with_traps import DOMAIN, network, table


def test_no_certificate_is_a_sentence(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2}
    neurons = audit(fragile, X, Y, explainer=r2et.explainers.Activation(layer="0"), **options)
    assert neurons.certificate is None
    assert neurons.settings.uncertified.startswith("No sound method applies: no sound certificate for Activation")
    assert "no certificate: No sound method applies" in neurons.summary()
    assert neurons.samples.certified.isnan().all()
    assert neurons.feature_names[0] == "neuron 0"
    unwanted = audit(fragile, X, Y, certificate=False, **options)
    assert unwanted.settings.uncertified == "It was not asked for."


def test_a_proof_that_breaks_does_not_break_the_audit(fragile, monkeypatch):
    def broken(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(certifying, "certify_within", broken)
    found = audit(fragile, X, Y, k=2, radii=(0.5,), budget="fast", steps=2)
    assert found.settings.uncertified == "The certificate failed with MemoryError: no room."


@pytest.mark.parametrize("size", [None, 13])
def test_larger_networks_are_certified_in_part_or_not_at_all(fragile, monkeypatch, size):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2, "chunk_size": size}
    neurons = 6 * (8 + 8 + 2)
    monkeypatch.setattr(certifying, "CHEAP", 1)
    monkeypatch.setattr(certifying, "TOTAL", 4 * neurons)
    part = audit(fragile, X, Y, **options)
    assert (~part.samples.certified.isnan()).nonzero().flatten().tolist() == [0, 6, 12, 18]
    assert len(part.certificate.limits) == 4
    assert "for 4 of the 24 rows, evenly spread" in part.settings.uncertified
    assert part.to_dict()["certificate"]["rows"] == [0, 6, 12, 18]
    monkeypatch.setattr(certifying, "DEAR", neurons - 1)
    none = audit(fragile, X, Y, **options)
    assert none.certificate is None
    assert "too large for a certificate inside an audit (6 features, 18 neurons)" in none.settings.uncertified


def test_what_has_no_room_is_not_certified(fragile, monkeypatch):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2}
    monkeypatch.setattr(certifying, "MOST_BYTES", 1000)
    found = audit(fragile, X, Y, **options)
    assert found.certificate is None
    told = "A certificate of one row would take at least"
    assert found.settings.uncertified.startswith(told)
    assert "(6 features, 18 neurons, k=2)" in found.settings.uncertified


def test_both_ends_of_a_bracket_are_about_one_threat():
    model, x = network(), table(4)
    free, reach = under_threat(model, x, DOMAIN, "domain")
    certifier = certifying.Certifier(free, x, 3, Gradient(), reach=reach, wanted=True)
    attack, radii = WorstCase(k=3, radius=0.1, budget="fast"), (0.05, 0.1)
    bracket, places = certifier(x, 0, attack, attack(model, x, domain=DOMAIN, radii=radii), radii)
    assert places.tolist() == [0, 1, 2, 3]
    assert bracket.threat == "domain"
    searched = r2et.certify(model, x, 3, domain=DOMAIN).limits
    at_radii = r2et.certify(model, x, 3, domain=DOMAIN, radii=radii, budget=0).limits
    assert torch.equal(bracket.certificate.limits, torch.maximum(searched, at_radii))
    assert not torch.equal(bracket.certificate.limits, r2et.certify(model, x, 3).limits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_audit_shows_both_ends_of_the_same_rows(fragile, dtype):
    found = audit(fragile.to(dtype), X.to(dtype), Y, k=2, radii=(0.05, 0.5), budget="fast", steps=2)
    fragile.double()
    bracket = found.bracket
    assert bracket.radii == (0.05, 0.5)
    assert bracket.certificate is found.certificate
    assert (bracket.proven <= bracket.attacked).all()
    assert float(bracket.proven[:, 0].mean()) > 0
    worst = [row.precision for row in found.attacks if row.attack == "WorstCase"]
    # rounding may judge a point on the boundary either way
    assert bracket.attacked.mean(0).tolist() == pytest.approx(worst, abs=0 if dtype is torch.float64 else 0.05)
    words = " ".join(found.summary().split())
    assert "bracket of P@2 over 24 inputs, [proven, attacked]: [" in words
    assert "threat paper, prediction kept: attackers must keep the prediction" in words
    assert strict_json(found.to_dict())["bracket"]["prediction"] == "kept"


def test_a_certificate_that_an_attack_contradicts_is_withdrawn(fragile, monkeypatch):
    def boastful(*args, **settings):
        certificate = certify_within(*args, **settings)
        # it is right about the first chunk, and about no other
        return replace(certificate, limits=certificate.limits + (10 if len(seen) > 1 else 0))

    def attacked(*args, **settings):
        seen.append(args)
        return judged_in_float64(*args, **settings)

    seen = []
    monkeypatch.setattr(certifying, "certify_within", boastful)
    monkeypatch.setattr(certifying, "judged_in_float64", attacked)
    with pytest.warns(UserWarning, match="withdrawn: it was proven that 100.0 % of the list of input"):
        found = audit(fragile, X, Y, k=2, radii=(0.5, 2.0), budget="fast", steps=2, chunk_size=10)
    assert len(seen) > 1
    assert found.certificate is found.bracket is None
    assert found.settings.uncertified.startswith("It was withdrawn: it was proven that")
    assert found.samples.certified.isnan().all()
