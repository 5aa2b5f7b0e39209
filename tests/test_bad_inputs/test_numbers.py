"""Numbers of numpy and torch count as Python's do; what torch cannot compute with is refused before it does."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from r2et import attacks, metrics, objectives, stability
from r2et.certificates import certify, first_order
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import SmoothGrad
from r2et.ranking import precision_at_k
from tests.test_bad_inputs.objects import NET, X, Y


def er(**settings):
    return attacks.ERAttack(**{"k": 2, "radius": 0.3, "steps": 2, **settings})(NET, X).x


def boundary(**settings):
    return attacks.BoundaryAttack(**{"k": 2, "radius": 0.3, "steps": 3, **settings})(NET, X).x


#: what is computed, with which argument, and a value of it
WHOLE = {
    "ERAttack.k": (lambda v: er(k=v), 2),
    "ERAttack.steps": (lambda v: er(steps=v), 3),
    "BoundaryAttack.steps": (lambda v: boundary(steps=v), 3),
    "attack.chunk_size": (lambda v: attacks.ERAttack(k=2, radius=0.3, steps=2)(NET, X, chunk_size=v).x, 2),
    "certify.chunk_size": (lambda v: certify(NET, X, 2, chunk_size=v).limits, 2),
    "first_order.chunk_size": (lambda v: first_order(NET, X, 2, chunk_size=v).limits, 2),
    "dffot.chunk_size": (lambda v: metrics.dffot(NET, X, chunk_size=v), 2),
    "R2ET.k": (lambda v: objectives.R2ET(k=v)(NET, X, Y).detach(), 2),
    "SmoothGrad.samples": (lambda v: SmoothGrad(samples=v)(NET, X), 3),
}
REAL = {
    "ERAttack.radius": (lambda v: er(radius=v), 0.5),
    "ERAttack.cap": (lambda v: er(cap=v), 0.5),
    "ERAttack.flip_below": (lambda v: er(flip_below=v), 0.5),
    "BoundaryAttack.radius": (lambda v: boundary(radius=v), 0.5),
    "BoundaryAttack.beta": (lambda v: boundary(beta=v), 0.5),
    "R2ET.gap": (lambda v: objectives.R2ET(k=2, gap=v)(NET, X, Y).detach(), 0.5),
    "SmoothGrad.sigma": (lambda v: SmoothGrad(samples=2, sigma=v)(NET, X), 0.5),
    "dffot.fractions": (lambda v: metrics.dffot(NET, X, fractions=[v]), 0.5),
}


@pytest.mark.parametrize("number", [np.int64, np.uint8, torch.tensor])
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_of_another_library_counts(name, number):
    compute, value = WHOLE[name]
    assert torch.equal(compute(number(value)), compute(value))


@pytest.mark.parametrize("number", [np.float32, np.float64, lambda v: torch.tensor(v, requires_grad=True)])
@pytest.mark.parametrize("name", REAL)
def test_a_number_of_another_library_counts(name, number):
    compute, value = REAL[name]
    assert torch.equal(compute(number(value)), compute(value))


@pytest.mark.parametrize("number", [Decimal("0.5"), Fraction(1, 2), 10**400])
@pytest.mark.parametrize("name", REAL)
def test_a_number_that_torch_cannot_use_is_refused(name, number):
    with pytest.raises(InputError, match=r"number|fractions"):
        REAL[name][0](number)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_without_end_is_refused(name):
    with pytest.raises(InputError, match=r"whole number|less than|at most"):
        WHOLE[name][0](10**400)


def test_an_array_without_axes_is_no_number_of_a_call():
    for call in (
        lambda: certify(NET, X, np.array(2)),
        lambda: stability.thickness_bounds(NET, X, 2, radius=np.array(0.1)),
        lambda: precision_at_k(X, X, np.array(2)),
    ):
        with pytest.raises(InputError, match="number"):
            call()


def test_features_given_as_bytes_are_numbers_and_no_mask():
    """As a mask, these would freeze all features but the second and the fifth."""
    frozen = np.array([1, 0, 2, 3, 0, 4], dtype=np.uint8)
    assert Domain(frozen=list(frozen)).reach("domain", 6).movable.tolist() == [False] * 5 + [True]


@pytest.mark.parametrize("radius", [True, 10**400])
def test_a_certificate_is_asked_about_a_number(radius):
    with pytest.raises(InputError, match="radius must"):
        certify(NET, X, 2).precision_at(radius)
