"""Lists by contributions to an additive score, against a walk along dense grids."""

import numpy as np
import pytest
import torch

from r2et.certificates.contributions import ContributionLimits
from r2et.enclosure import extract
from tests.additive_opponent import cheapest_moves
from tests.certificates.test_additive import net
from tests.models_with_answers import normal

DIRECTION = torch.tensor([-1.0, 1.0], dtype=torch.float64)


def contributions(model, background):
    """phi of all columns at points (G, n), from `model.shape`, which shares no code with enclosures."""

    def of(points):
        with torch.no_grad():
            columns = [
                model.shape(c, torch.tensor(points[:, c]))[0] - model.shape(c, background[:, c])[0].mean()
                for c in range(points.shape[1])
            ]
        return torch.stack(columns, 1).numpy()

    return of


def limits(model, background, movable=None):
    network = extract(model.requires_grad_(requires_grad=False), background.shape[1:])
    network = network if movable is None else network.where(movable)
    return ContributionLimits(network, DIRECTION, background)


def test_contributions_are_those_of_the_shapes_and_have_mean_zero():
    model, background, x = net(4, seed=1), normal(30, 4, seed=2), normal(6, 4, seed=3)
    of = limits(model, background)
    np.testing.assert_allclose(of.contributions(x)[0], contributions(model, background)(x.numpy()), atol=1e-12)
    assert of.contributions(background)[0].mean(0).abs().max() < 1e-12


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("n", "k", "beta"), [(2, 1, 1.0), (2, 1, 5.0), (2, 1, 20.0), (5, 2, 5.0)])
def test_radii_are_those_of_a_walk(n, k, beta, signed):
    ratios = []
    for seed in range(4):
        model, background, x = (
            net(n, seed=seed, beta=beta),
            normal(40, n, seed=seed + 1),
            normal(4, n, seed=seed + 2),
        )
        found = limits(model, background)(x, k, signed=signed)
        phi = contributions(model, background)
        for row in range(len(x)):
            radius = float(found[row, 0])
            assert radius > 0
            walk = {"far": 1.001 * min(radius, 50.0), "signed": signed, "points": 4001, "thresholds": 4000}
            lengths, _ = cheapest_moves(phi, x[row].numpy(), k, **walk)
            assert (found[row, : len(lengths)].numpy() <= lengths).all()
            ratios.append(radius / lengths[0])
    # what the grid does not see is at most 2 / 4000 of the radius
    assert np.mean(np.array(ratios) > 0.998) > 0.9
    assert min(ratios) > 0.99


def test_frozen_columns_are_constants():
    model, background, x = net(4, seed=5), normal(40, 4, seed=6), normal(8, 4, seed=7)
    movable = torch.tensor([True, False, True, False])
    some, every = limits(model, background, movable)(x, 2), limits(model, background)(x, 2)
    assert (some[:, 0] >= every[:, 0] * (1 - 1e-4)).all()
    assert (some[:, 0] > every[:, 0] * 1.01).any()
    for row in range(8):
        lengths, _ = cheapest_moves(
            contributions(model, background), x[row].numpy(), 2, far=4.0, movable=movable.numpy(), points=4001
        )
        assert float(some[row, 0]) <= lengths[0]
    assert limits(model, background, torch.zeros(4, dtype=torch.bool))(x, 2).isinf().all()


def test_a_linear_score_has_the_radius_of_its_weights():
    model = net(2, seed=1)
    with torch.no_grad():
        model.heights.weight.zero_()
    x = torch.tensor([[2.0, 0.1]], dtype=torch.float64)
    a, b = model.weight[0].abs().tolist()
    values = np.array([2.0 * a, 0.1 * b])
    found = float(limits(model, torch.zeros(1, 2, dtype=torch.float64))(x, 1)[0, 0])
    # |a (2 + s)| = |b (.1 + t)|: the distance to the nearer of two lines
    assert found == pytest.approx(abs(values[0] - values[1]) / np.hypot(a, b), rel=1e-4)


def test_tables_of_slopes_instead_are_caught(monkeypatch):
    from r2et.certificates import contributions as module

    real = module.tables
    monkeypatch.setattr(module, "tables", lambda network, direction, offsets: real(network, direction))
    model, background, x = net(3, seed=3), normal(40, 3, seed=4), normal(12, 3, seed=5)
    found = limits(model, background)(x, 1)[:, 0].numpy()
    lengths = [cheapest_moves(contributions(model, background), row.numpy(), 1, far=4.0)[0][0] for row in x]
    assert (found > lengths).any()
