"""captum's explanations in an audit."""

import pytest
import torch
from captum.attr import DeepLift, InputXGradient, Saliency

import r2et
from tests.integrations.table import network, rows

OPTIONS = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2}


@pytest.mark.parametrize(
    ("method", "options", "ours"),
    [
        (Saliency, {"abs": False}, r2et.explainers.Gradient()),
        (InputXGradient, {}, r2et.explainers.GradientTimesInput()),
    ],
)
def test_the_audit_is_that_of_our_own_explainer(method, options, ours):
    model, (x, y) = network().eval(), rows(6)
    theirs = r2et.audit(
        model, x, y, explainer=r2et.explainers.FromCaptum(method=method, options=options), **OPTIONS
    )
    own = r2et.audit(model, x, y, explainer=ours, **OPTIONS)
    found, expected = (
        [
            (row.attack, row.precision, row.changed)
            for row in audit.attacks
            if row.attack in ("ERAttack", "MSEAttack")
        ]
        for audit in (theirs, own)
    )
    assert found == expected
    assert torch.equal(theirs.samples.certified.isnan(), torch.ones(6, dtype=torch.bool)), (
        "captum has no certificate"
    )


def test_a_method_with_a_wrong_second_derivative_is_refused():
    model, (x, y) = network().eval(), rows(6)
    with pytest.raises(
        r2et.errors.InputError, match="DeepLift cannot be used where the explanation is differentiated"
    ):
        r2et.audit(model, x, y, explainer=r2et.explainers.FromCaptum(method=DeepLift), **OPTIONS)
