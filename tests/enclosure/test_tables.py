"""Tables of parabolas: how low and how steep functions are, mirrored, and where a level is first reached."""

import torch

from r2et.enclosure import extract
from r2et.enclosure.additive import tables
from r2et.enclosure.tables import lowest
from tests.enclosure.test_additive import DIRECTION, bound, net
from tests.models_with_answers import normal


def test_steepness_is_not_underestimated():
    model = net(3)
    table = tables(extract(model, torch.Size([3])), DIRECTION)
    for column in range(3):
        for cell in range(1, table.begin.shape[1] - 1, 7):
            ends = table.begin[column, cell], table.end[column, cell]
            if ends[0] == ends[1]:  # a column with fewer cells than the others
                continue
            points = torch.linspace(float(ends[0]), float(ends[1]), 20, dtype=torch.float64, requires_grad=True)
            (turn,) = torch.autograd.grad(model.shape(column, points)[1].sum(), points)
            assert turn.abs().max() <= table.steep[column, cell] * (1 + 1e-9)
    column = torch.tensor(table.steep.shape[1])
    for begin, end in ((3, 3), (3, 4), (10, 47), (0, table.steep.shape[1] - 1)):
        expected = table.steep[1, begin : end + 1].amax()
        assert table.steepest(column, torch.tensor(begin), torch.tensor(end)) == expected


def test_a_table_mirrored_is_of_the_same_functions_of_the_opposite():
    table = tables(extract(net(), torch.Size([3])), DIRECTION)
    points = normal(40, seed=1)
    for kind in range(3):
        for column in range(3):
            there = bound(table.mirrored, kind, column, -points)
            torch.testing.assert_close(there, bound(table, kind, column, points), atol=1e-9, rtol=0)
    torch.testing.assert_close(table.mirrored.mirrored.curve, table.curve, atol=1e-9, rtol=1e-9)


def test_the_lowest_point_of_a_parabola():
    curve = torch.tensor(
        [[1.0, 2.0, -4.0, 2.0], [1.0, 2.0, 3.0, -1.0], [0.0, 1.0, -1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    )
    begin, end = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([3.0, 5.0, torch.inf, torch.inf])
    assert lowest(curve, begin, end).tolist() == [0.0, -2.0, -torch.inf, 1.0]
    assert lowest(torch.full((1, 4), torch.nan), begin[:1], end[:1]).item() == -torch.inf


def test_the_first_cell_at_a_level_is_that_of_a_walk():
    table = tables(extract(net(3), torch.Size([3])), DIRECTION)
    cells, found = table.begin.shape[1], 0
    for kind in range(3):
        for column in range(3):
            low = table.low[kind, column]
            levels = torch.linspace(float(low.min()) - 0.1, float(low.max()), 30, dtype=torch.float64)
            for start in (0, 7, cells // 2, cells - 1, cells):
                first = table.first_at(torch.tensor((kind * 3 + column) * cells), torch.tensor(start), levels)
                for level, cell in zip(levels, first.tolist(), strict=True):
                    walked = (low[start:] <= level).nonzero()
                    assert cell == (start + int(walked[0]) if len(walked) else cells)
                    found += len(walked) > 0
    assert found > 100
