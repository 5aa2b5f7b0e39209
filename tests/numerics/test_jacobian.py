"""The derivative of an explanation by its input."""

import pytest
import torch

from r2et.explainers import Gradient, GradientTimesInput
from r2et.numerics.jacobian import jacobian, jacobian_rows
from tests.models_with_answers import OneNeuron, Pair, convolution, mlp, normal, quadratic


def explained(explainer, model, x, target=None):
    point = x.clone().requires_grad_()
    return explainer(model, point, target, create_graph=True), point


@pytest.mark.parametrize("chunk_size", [1, 4, 64])
def test_quadratic(chunk_size):
    model, x = quadratic(), normal(3, 5)
    found = jacobian(*explained(Gradient(reduce="signed"), model, x), chunk_size=chunk_size)
    torch.testing.assert_close(found, model.A.detach().expand(3, 5, 5), atol=1e-12, rtol=0)
    g = (x @ model.A + model.b).detach()
    absolute = jacobian(*explained(Gradient(), model, x), chunk_size=chunk_size)
    torch.testing.assert_close(absolute, g.sign()[:, :, None] * model.A.detach(), atol=1e-12, rtol=0)
    product = jacobian(*explained(GradientTimesInput(reduce="signed"), model, x), chunk_size=chunk_size)
    torch.testing.assert_close(product, torch.diag_embed(g) + x[:, :, None] * model.A.detach(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("chunk_size", [1, 64])
def test_rows_of_some_features_of_each_input(chunk_size):
    scores, point = explained(Gradient(reduce="signed"), mlp(5), normal(3, 5))
    numbers = torch.tensor([[4, 0], [1, 1], [2, 3]])
    found = jacobian_rows(scores, point, numbers, chunk_size=chunk_size)
    whole = jacobian(scores, point)
    torch.testing.assert_close(found, whole[torch.arange(3).unsqueeze(1), numbers])


def test_one_neuron():
    model, x = OneNeuron(normal(5)), normal(3, 5, seed=1)
    target = torch.ones(3, dtype=torch.int64)
    found = jacobian(*explained(Gradient(reduce="signed"), model, x, target))
    torch.testing.assert_close(found, model.hessian(x).detach(), atol=1e-12, rtol=0)


def test_pairs_depend_on_both_inputs():
    model, x = Pair(normal(4, 4), c=50.0), normal(3, 2, 4, seed=1)
    found = jacobian(*explained(Gradient(inputs=2, reduce="signed"), model, x))
    A, zero = model.A.detach(), torch.zeros(4, 4, dtype=torch.float64)
    expected = torch.cat([torch.cat([zero, A], 1), torch.cat([A.T, zero], 1)])
    torch.testing.assert_close(found, expected.expand(3, 8, 8), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [Gradient, GradientTimesInput])
def test_against_torch(kind):
    for model, x in ((mlp(classes=3), normal(2, 6)), (convolution(), normal(2, 2, 4, 4))):
        explainer = kind(reduce="signed", score="probability")
        target = model(x).argmax(1)
        found = jacobian(*explained(explainer, model, x, target), chunk_size=5)
        for r in range(2):

            def one(row, model=model, explainer=explainer, c=target[r : r + 1]):
                return explainer(model, row[None], c, create_graph=True)[0]

            expected = torch.autograd.functional.jacobian(one, x[r]).flatten(1)
            torch.testing.assert_close(found[r], expected, atol=1e-12, rtol=1e-9)


def test_create_graph_reaches_the_parameters():
    model, x = quadratic(), normal(2, 5)
    value, point = explained(Gradient(reduce="signed"), model, x)
    kept = jacobian(value, point, create_graph=True)
    slope = torch.autograd.grad(kept[:, 0, 0].sum(), model.A)[0]
    expected = torch.zeros(5, 5, dtype=torch.float64)
    expected[0, 0] = 2.0  # one for each row
    torch.testing.assert_close(slope, expected, atol=1e-12, rtol=0)
    assert not jacobian(*explained(Gradient(), model, x)).requires_grad


def test_no_curvature_is_a_zero():
    point = normal(2, 3).requires_grad_()
    weight = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.equal(jacobian(weight * 2, point), torch.zeros(2, 3, 3, dtype=torch.float64))
