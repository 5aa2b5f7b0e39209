"""Equations between features, against least squares by another library."""

import numpy as np
import torch

from r2et.domain.ties import equations, tied_part

GROUPS, EQUAL = ((0, 1, 2), (4, 5)), ((2, 6), (3, 7))


def test_the_equations_hold_in_a_row_that_exists_and_not_elsewhere():
    rows, values, _ = equations(GROUPS, EQUAL, 8)
    row = torch.tensor([0.0, 0, 1, 0.3, 1, 0, 1, 0.3], dtype=torch.float64)
    assert torch.equal(rows @ row, values)
    for feature in range(8):
        moved = row.clone()
        moved[feature] += 0.5
        assert not torch.equal(rows @ moved, values)


def test_the_projector_is_that_of_least_squares():
    rows, _, _ = equations(GROUPS, EQUAL, 8)
    places, broken = tied_part(GROUPS, EQUAL, 8)
    assert places.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    step = np.random.default_rng(0).normal(size=8)
    multipliers = np.linalg.lstsq(rows.numpy().T, step, rcond=None)[0]
    assert np.allclose(rows.numpy().T @ multipliers, broken.numpy() @ step)


def test_free_features_are_left_out():
    places, broken = tied_part(((1, 3),), (), 5)
    assert places.tolist() == [1, 3]
    assert torch.allclose(broken, torch.full((2, 2), 0.5, dtype=torch.float64))
