"""Functions of one feature: second derivatives and values on cells, against dense points."""

import pytest
import torch

from r2et.enclosure.activations import Softplus
from r2et.enclosure.shapes import COARSE, FINER, Shape
from tests.models_with_answers import normal


def shape(*, of_slopes, beta=5.0, seed=0):
    size, steep, bias = normal(3, 6, seed=seed)
    return Shape(0.3, 0.0 if of_slopes else -0.4, size, steep, bias, Softplus(beta), of_slopes)


@pytest.mark.parametrize("of_slopes", [True, False])
@pytest.mark.parametrize("beta", [1.0, 5.0, 20.0])
def test_second_derivatives_are_inside(of_slopes, beta):
    function = shape(of_slopes=of_slopes, beta=beta)
    edges = function.edges(COARSE)
    low, high = function.bends(edges)
    for share in (0.1, 0.5, 0.9):
        x = (edges[:-1] + share * edges.diff()).requires_grad_()
        z = x.unsqueeze(1) * function.steep + function.bias
        units = torch.sigmoid(beta * z) if of_slopes else torch.logaddexp(beta * z, torch.zeros_like(z)) / beta
        (once,) = torch.autograd.grad((units * function.size).sum(), x, create_graph=True)
        (twice,) = torch.autograd.grad(once.sum(), x)
        room = 1e-7 * function.size.abs().sum() * beta**2
        assert (twice >= low - room).all()
        assert (twice <= high + room).all()


@pytest.mark.parametrize("of_slopes", [True, False])
def test_edges_are_in_order_and_at_zeros(of_slopes):
    zeros = 0
    for seed in range(6):
        function = shape(of_slopes=of_slopes, seed=seed)
        for grading in (COARSE, FINER[0]):
            edges = function.edges(grading)
            assert (edges.diff() >= 0).all()
            values = function.at(edges)
            turns = ((values[1:] > 0) != (values[:-1] > 0)).nonzero().flatten()
            assert (torch.minimum(values[turns].abs(), values[turns + 1].abs()) < 1e-10).all()
            zeros += len(turns)
    assert zeros > 5


def test_finer_cells_are_shorter_where_the_function_is_flat():
    function = shape(of_slopes=True)
    coarse, fine = (len(function.edges(grading)) for grading in (COARSE, FINER[0]))
    assert fine > 3 * coarse


def test_above_its_switch_softplus_is_straight():
    function = Shape(0.0, 0.0, *(torch.ones(1).double() for _ in range(3)), Softplus(5.0), of_slopes=True)
    edges = torch.tensor([1.0, 2.0, 3.2, 4.0, 5.0], dtype=torch.float64)
    low, high = function.bends(edges)
    assert float(function.at(edges)[-1]) == 1.0
    assert low[2:].tolist() == [0.0, 0.0]
    assert high[:1].abs() > 0
    charges = function.pieces(edges).charges
    assert charges[1] > 1e-9 > charges[0], "where the switch is, it may jump"
