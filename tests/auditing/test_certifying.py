import pytest
import torch

import r2et
from r2et import audit
from r2et.auditing import certifying
from r2et.domain import under_threat
from r2et.explainers import Gradient
from tests.auditing.toys import X, Y
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
    certificate, places = certifier(x, 0)
    assert places.tolist() == [0, 1, 2, 3]
    assert torch.equal(certificate.limits, r2et.certify(model, x, 3, domain=DOMAIN).limits)
    assert not torch.equal(certificate.limits, r2et.certify(model, x, 3).limits)
