"""Distances between derivatives, in pieces and with an own part, against all of them written out."""

import pytest
import torch

from r2et.enclosure import slopes
from r2et.enclosure.slopes import Beside, Slopes, SlopesBeside
from tests.models_with_answers import normal

TOP, REST = torch.tensor([[4, 0], [1, 2]]), torch.tensor([[1, 2, 3], [0, 3, 4]])
SIGN = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double()


def expected(rows, side):
    """||sign_i row_i + side row_j||, (N, a, b)."""
    picked = [
        [[sign * rows[r, i] + side * rows[r, j] for j in REST[r]] for i, sign in zip(TOP[r], SIGN[r], strict=True)]
        for r in range(2)
    ]
    return torch.stack([torch.stack([torch.stack(line).norm(dim=1) for line in row]) for row in picked])


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("kept", [1, 2**20])
def test_distances_are_those_of_the_rows(monkeypatch, side, kept):
    monkeypatch.setattr(slopes, "ENTRIES_AT_ONCE", kept)
    rows = normal(2, 5, 7)
    of = Slopes.known(rows)
    assert of.at_once == max(1, kept // 14)
    found = torch.cat([of.apart(of.of(TOP), SIGN, of.of(part), side) for part in REST.split(2, 1)], 2)
    torch.testing.assert_close(found, expected(rows, side), rtol=1e-12, atol=0)


def test_few_rows_are_made_once_and_many_in_pieces(monkeypatch):
    asked = []

    def rows_of(numbers):
        asked.append(numbers.shape[1])
        return normal(2, numbers.shape[1], 3)

    of = Slopes(rows_of, 5, 10)
    of.of(TOP), of.of(REST)
    assert asked == [5]
    asked.clear()
    monkeypatch.setattr(slopes, "ENTRIES_AT_ONCE", 20)
    of = Slopes(rows_of, 5, 10)
    of.of(TOP), of.of(REST[:, :1])
    assert asked == [2, 1]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_own_part_of_each_feature_counts(side):
    base, vectors, own = normal(3, 5, seed=1), normal(2, 5, 3, seed=2), normal(2, 5, seed=3)
    basis, upper = torch.linalg.qr(base.T)
    assert basis.shape == (5, 3)
    lines = torch.arange(2).unsqueeze(1)

    def parts_of(numbers):
        return Beside(vectors[lines, numbers], own[lines, numbers], base.T[numbers])

    of = SlopesBeside(parts_of, upper.T, entries=6)
    written_out = vectors @ base + torch.diag_embed(own)
    found = of.apart(of.of(TOP), SIGN, of.of(REST), side)
    torch.testing.assert_close(found, expected(written_out, side), rtol=1e-12, atol=0)
    without = of.apart(of.of(TOP)._replace(own=0 * SIGN), SIGN, of.of(REST), side)
    assert not torch.allclose(found, without)
