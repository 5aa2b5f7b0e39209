"""The steps of automatic differentiation, against closed forms."""

import pytest
import torch

from r2et.numerics.autograd import derivative, forward, unit
from tests.models_with_answers import mlp, normal, quadratic


def test_forward_leaves_the_input_alone():
    x = normal(3, 6)
    point, logits = forward(mlp(), x)
    assert not x.requires_grad
    assert point.requires_grad
    assert torch.equal(point, x)
    assert torch.equal(logits, mlp()(x))


def test_forward_differentiates_under_no_grad():
    with torch.no_grad():
        point, logits = forward(mlp(), normal(3, 6))
        assert logits.requires_grad
    assert derivative(logits.sum(), point).abs().sum() > 0


def test_a_point_that_requires_gradients_is_kept_where_a_graph_is_wanted():
    x = normal(3, 6).requires_grad_()
    assert forward(mlp(), x, create_graph=True)[0] is x
    assert forward(mlp(), x)[0] is not x


def test_derivatives_of_a_quadratic_are_its_matrix():
    """Twice: the gradient of the difference of logits, and its derivative in a direction."""
    model, x, direction = quadratic(), normal(1, 5), normal(1, 5, seed=3)
    point, logits = forward(model, x)
    gradient = derivative(logits[:, 1].sum() - logits[:, 0].sum(), point, create_graph=True)
    product = derivative(gradient, point, direction)

    def score(row):
        return (model(row[None])[0] * torch.tensor([-1.0, 1.0], dtype=row.dtype)).sum()

    torch.testing.assert_close(gradient[0], torch.func.grad(score)(x[0]))
    torch.testing.assert_close(product[0], torch.func.hessian(score)(x[0]) @ direction[0])


def test_what_is_not_connected_has_a_derivative_of_zero():
    x = normal(2, 3).requires_grad_()
    assert torch.equal(derivative(normal(2), x), torch.zeros(2, 3, dtype=x.dtype))
    other = normal(2).requires_grad_()
    assert torch.equal(derivative(other.sum(), x), torch.zeros(2, 3, dtype=x.dtype))


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_unit_is_the_quotient_by_the_norm(scale):
    rows = normal(4, 2, 3)
    expected = rows / rows.flatten(1).norm(dim=1)[:, None, None]
    torch.testing.assert_close(unit(rows * scale), expected)


def test_unit_has_the_derivative_of_the_quotient():
    rows = normal(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(unit, rows)


@pytest.mark.parametrize("entry", [0.0, torch.inf, torch.nan, 1e-320])
def test_the_derivative_of_unit_is_always_finite(entry):
    rows = normal(2, 3)
    rows[0] = entry
    rows.requires_grad_()
    unit(rows).sum().backward()
    assert rows.grad.isfinite().all()
    assert torch.equal(rows.grad[0], torch.zeros(3, dtype=rows.dtype))
    assert rows.grad[1].abs().sum() > 0
