"""The paper's point estimate: its formula, and that it is never called sound."""

import math

import pytest
import torch
from torch import nn

from r2et.certificates import certify, first_order
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput, IntegratedGradients
from tests.attacks.test_minimal import functionals
from tests.models_with_answers import Pair, linear, mlp, naive_order, normal, quadratic


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_the_formula_of_the_proposition(reduce):
    """min over pairs of h / ||H_i - H_j||, spelled out with the Hessian of a quadratic score."""
    model, x = quadratic(5, seed=2, c=500.0), normal(6, 5, seed=1)
    found = first_order(model, x, 2, explainer=Gradient(reduce=reduce))
    A, b = model.A.detach(), model.b.detach()
    for row in range(6):
        g = A @ x[row] + b
        scores = g if reduce == "signed" else g.abs()
        rows = A if reduce == "signed" else g.sign()[:, None] * A
        top = naive_order(scores.tolist())[:2]
        expected = min(
            float((scores[i] - scores[j]) / (rows[i] - rows[j]).norm())
            for i in top
            for j in range(5)
            if j not in top
        )
        assert float(found.radius[row]) == pytest.approx(expected, rel=1e-6)
        assert found.top[row].tolist() == top


def test_it_is_an_upper_bound_of_what_the_integral_reaches():
    """The slope at x is the smallest that an enclosure around x can give."""
    model, x = mlp(6, seed=3, activation=nn.Tanh), normal(20, 6, seed=2)
    integral = certify(model, x, 2, method="integral")
    assert (integral.radius <= first_order(model, x, 2).radius * (1 + 1e-6)).all()


def test_it_is_exact_on_a_signed_quadratic_and_too_large_elsewhere():
    model, x = quadratic(5, seed=0, c=500.0), normal(8, 5, seed=3)
    found = first_order(model, x, 2, explainer=Gradient(reduce="signed"))
    A, b = model.A.detach(), model.b.detach()
    for row in range(8):
        g = A @ x[row] + b
        exact = min(float(d @ g / (A @ d).norm()) for d in functionals(g, 2, "signed"))
        assert float(found.radius[row]) == pytest.approx(exact, rel=1e-6)


def test_it_says_that_it_is_no_certificate():
    found = certify(mlp(5), normal(2, 5), 2, method="first-order")
    assert not found.sound
    assert found.method == "first-order"
    assert "attacks succeed inside this radius" in found.assumptions[1]
    assert "not a certificate" in repr(found)


def test_a_relu_net_has_an_infinite_estimate():
    assert first_order(mlp(5, activation=nn.ReLU), normal(3, 5), 2).limits.isinf().all()
    assert first_order(linear(5), normal(3, 5), 2).limits.isinf().all()


@pytest.mark.parametrize("explainer", [GradientTimesInput(), IntegratedGradients(points=5)])
def test_any_differentiable_explainer(explainer):
    found = first_order(mlp(5, classes=3), normal(4, 5), 2, explainer=explainer)
    assert (found.radius > 0).all()
    assert found.radius.isfinite().all()


def test_both_inputs_of_a_pair_count():
    model = Pair(normal(4, 4, seed=1), c=50.0)
    x = normal(3, 2, 4, seed=2)
    found = first_order(model, x, 1, explainer=Gradient(inputs=2, reduce="signed"))
    A = model.A.detach()
    for row in range(3):
        smallest = math.inf
        for g, jacobian in ((A @ x[row, 1], A), (A.T @ x[row, 0], A.T)):
            i = naive_order(g.tolist())[0]
            smallest = min(
                smallest, *(float((g[i] - g[j]) / (jacobian[i] - jacobian[j]).norm()) for j in range(4) if j != i)
            )
        assert float(found.radius[row]) == pytest.approx(smallest, rel=1e-6)
    assert found.top.shape[0] == 3


def test_chunks_and_targets_and_training_mode():
    model, x = mlp(5, classes=3), normal(7, 5)
    whole = first_order(model, x, 2).limits
    assert torch.allclose(first_order(model, x, 2, chunk_size=3).limits, whole, rtol=1e-9)
    predicted = model(x).argmax(1)
    assert torch.equal(first_order(model, x, 2, target=predicted).limits, whole)
    assert not torch.allclose(first_order(model, x, 2, target=(predicted + 1) % 3).limits, whole)
    model.train()
    first_order(model, x, 2)
    assert model.training


def test_k_is_checked():
    with pytest.raises(InputError, match="got k=5"):
        first_order(mlp(5), normal(2, 5), 5)
