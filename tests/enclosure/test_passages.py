"""First passages against a walk along a dense grid."""

import numpy as np
import pytest
import torch

from r2et.enclosure import extract
from r2et.enclosure.additive import tables
from r2et.enclosure.passages import Passages, Reached
from r2et.enclosure.tables import MINUS, PLUS, SIZE
from tests.enclosure.test_additive import DIRECTION, net
from tests.models_with_answers import normal


@pytest.mark.parametrize("kind", [PLUS, MINUS, SIZE])
@pytest.mark.parametrize("mirrored", [False, True])
def test_distances_are_those_of_a_walk(kind, mirrored):
    model, x = net(2), normal(9, 3, seed=3)
    table = tables(extract(model, x.shape[1:]), DIRECTION)
    table = table.mirrored if mirrored else table
    side = -1 if mirrored else 1
    kinds = torch.full((9, 3), kind)
    passages = Passages.of(table, side * x, kinds, torch.full((9, 3), torch.inf, dtype=torch.float64))
    levels = torch.linspace(2, -4, 25, dtype=torch.float64).expand(9, 3, -1).contiguous()
    distance = passages.reached(levels.unsqueeze(2)).distance.squeeze(2)
    steps = torch.linspace(0, 8, 8001, dtype=torch.float64)
    apart = []
    for row in range(9):
        for column in range(3):
            slopes = model.shape(column, x[row, column] + side * steps)[1]
            wanted = {PLUS: slopes, MINUS: -slopes, SIZE: -slopes.abs()}[kind].numpy()
            lowest = np.minimum.accumulate(wanted)
            place = np.searchsorted(-lowest, -levels[row, column].numpy())
            walked = np.where(place < 8001, steps.numpy()[np.minimum(place, 8000)], np.inf)
            proven = distance[row, column].numpy()
            assert (proven <= walked).all()
            near = np.isfinite(walked)
            apart += (walked[near] - proven[near]).tolist()
    # a level that only just is not reached may count as reached
    assert len(apart) > 100
    assert np.mean(np.array(apart) < 2e-3) > 0.97


def test_an_affine_function_is_below_all_distances_in_between():
    model, x = net(5), normal(6, 3, seed=3)
    table = tables(extract(model, x.shape[1:]), DIRECTION)
    kinds = torch.zeros(6, 3, dtype=torch.int64)
    passages = Passages.of(table, x, kinds, torch.full((6, 3), torch.inf, dtype=torch.float64))
    curved = 0
    for high, low in ((1.0, 0.2), (0.5, 0.45), (0.0, -1.0)):
        levels = torch.linspace(high, low, 41, dtype=torch.float64).expand(6, 3, -1).contiguous()
        reached = passages.reached(levels.unsqueeze(2))
        ends = Reached(*(part[..., [0, -1]] for part in reached))
        near, reach = ends.distance[..., :1], passages.affine(ends, torch.full((6, 3, 1, 1), high - low).double())
        line = (
            near[..., 0, 0]
            + (reach - near)[..., 0, 0] * torch.linspace(0, 1, 41, dtype=torch.float64)[:, None, None]
        )
        steps = torch.linspace(0, 8, 8001, dtype=torch.float64)
        for column in range(3):
            for row in range(6):
                slopes = model.shape(column, x[row, column] + steps)[1].cummin(0).values
                place = torch.searchsorted(-slopes, -levels[row, column])
                walked = torch.where(place < 8001, steps[place.clamp_max(8000)], torch.inf)
                if near[row, column].isfinite():
                    assert (line[:, row, column] <= walked).all()
                    curved += int(bool(reach[row, column] > near[row, column]))
    assert curved > 5
