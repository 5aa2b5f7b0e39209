"""Tables of slopes: below the slopes everywhere, close to them, and only for what is additive."""

import pytest
import torch
from torch import nn

from r2et import models
from r2et.enclosure import extract
from r2et.enclosure.additive import slopes_at, tables, why_not_additive
from r2et.enclosure.tables import MINUS, PLUS, SIZE
from r2et.explainers import Gradient, SmoothGrad
from tests.models_with_answers import normal

DIRECTION = torch.tensor([-1.0, 1.0], dtype=torch.float64)


def net(seed=0, beta=5.0, stretch=1.0):
    model = models.Additive(3, 2, units=6, beta=beta).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
        model.steepness.mul_(stretch)
    return model.eval().requires_grad_(requires_grad=False)


def bound(table, kind, column, points):
    """The parabolas of a table at points, one by one."""
    found = []
    for point in points.tolist():
        cell = min(int((table.end[column] <= point).sum()), table.end.shape[1] - 1)
        anchor, value, slope, bend = table.curve[kind, column, cell].tolist()
        found.append(value + (point - anchor) * (slope + (point - anchor) * bend))
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("beta", [0.5, 5.0, 80.0])
@pytest.mark.parametrize("stretch", [1e-3, 1.0, 100.0])
def test_lines_are_below_and_close(beta, stretch):
    model = net(beta=beta, stretch=stretch)
    table = tables(extract(model, torch.Size([3])), DIRECTION)
    far = 6 / stretch
    points = torch.linspace(-far, far, 1501, dtype=torch.float64)
    for column in range(3):
        # as the model has them: its softplus is straight above its switch
        points.requires_grad_()
        (slopes,) = torch.autograd.grad(model.shape(column, points)[0].sum(), points)
        points = points.detach()
        for kind, real in ((PLUS, slopes), (MINUS, -slopes), (SIZE, -slopes.abs())):
            apart = real - bound(table, kind, column, points)
            assert apart.min() >= 0
            assert apart.median() < 1e-6 * slopes.abs().amax()
    ends = torch.tensor([-1e15, 1e15], dtype=torch.float64)
    for column in range(3):
        assert (model.shape(column, ends)[1] >= bound(table, PLUS, column, ends)).all()


def test_the_formula_is_the_gradient():
    model, x = net(4), normal(7, 3, seed=1)
    gradient, blur, _ = slopes_at(extract(model, x.shape[1:]), x, DIRECTION.expand(7, -1))
    real = Gradient(reduce="signed")(model, x, torch.ones(7, dtype=torch.int64))
    assert ((gradient - real).abs() <= blur + 1e-8).all()
    assert blur.max() < 1e-9


def test_what_cannot_move_has_no_table():
    network = extract(net(), torch.Size([3])).where(torch.tensor([False, True, False]))
    assert tables(network, DIRECTION).features.tolist() == [1]
    assert tables(network.where(torch.tensor([False, False, False])), DIRECTION) is None


def test_what_is_not_additive_is_told():
    dense = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2)).double()
    tanh = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    size = torch.Size([3])
    assert why_not_additive(extract(net(), size), Gradient(), 2) is None
    assert "interact" in why_not_additive(extract(dense, size), Gradient(), 2)
    assert "sum over columns" in why_not_additive(extract(tanh, size), Gradient(), 2)
    assert "SmoothGrad" in why_not_additive(extract(net(), size), SmoothGrad(sigma=0.1), 2)
    assert "3 classes" in why_not_additive(extract(net(), size), Gradient(), 3)
