"""Distances to the edges of a linear region, against a search along many directions."""

import pytest
import torch
from torch import nn

from r2et.enclosure import extract, march
from r2et.enclosure.head import head
from r2et.enclosure.hinges import hinge_distances, nearest_hinges
from tests.models_with_answers import generator, mlp, normal


def pattern(network, x):
    """Which linear piece each neuron is on, (N, hinges)."""
    found = []
    for layer, z in zip(network.layers, network.forward(x)[0], strict=True):
        pool = hasattr(layer.activation, "winner")
        found.append(layer.activation.winner(z).flatten(1) if pool else z > 0)
    return torch.cat(found, 1)


def pooled():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ).double()


def deep(activation):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(5, 7), activation, nn.Linear(7, 6), activation, nn.Linear(6, 3)
    ).double()  # fmt: skip


every_kind = pytest.mark.parametrize(
    ("model", "shape"),
    [
        (mlp(5, activation=nn.ReLU), (5,)),
        (deep(nn.ReLU()), (5,)),
        (deep(nn.LeakyReLU(0.3)), (5,)),
        (pooled(), (1, 4, 4)),
    ],
)


@every_kind
def test_no_direction_leaves_the_region_sooner_and_one_leaves_it_then(model, shape):
    network = extract(model, torch.Size(shape))
    x = normal(6, *shape, seed=2).flatten(1)
    radius = hinge_distances(network, x).amin(1)
    assert (radius > 0).all()
    directions = torch.randn(3000, x.shape[1], generator=generator(3), dtype=torch.float64)
    directions = directions / directions.norm(dim=1, keepdim=True)
    for row in range(len(x)):
        home = pattern(network, x[row : row + 1])
        inside = pattern(network, x[row] + 0.9999 * radius[row] * directions)
        assert (inside == home).all()
        outside = pattern(network, x[row] + 3 * radius[row] * directions)
        assert (outside != home).any()


@every_kind
def test_the_step_to_the_nearest_hinge_ends_there(model, shape):
    network = extract(model, torch.Size(shape))
    x = normal(6, *shape, seed=2).flatten(1)
    distances, steps = nearest_hinges(network, x, 3)
    assert torch.equal(distances, hinge_distances(network, x).sort(1).values[:, :3])
    assert torch.allclose(steps.norm(dim=2), torch.ones(6, 3, dtype=torch.float64))
    ends = distances[:, :1] * steps[:, 0]
    assert torch.equal(pattern(network, x + 0.9999 * ends), pattern(network, x))
    assert (pattern(network, x + 1.0001 * ends) != pattern(network, x)).any(1).all()


def test_fewer_hinges_than_asked_for():
    network = extract(mlp(5, hidden=2, activation=nn.ReLU), torch.Size([5]))
    distances, steps = nearest_hinges(network, normal(4, 5), 3)
    assert distances[:, 2].isinf().all()
    assert not steps[:, 2].any()


def test_a_relu_neuron_by_hand():
    model = mlp(2, hidden=2, activation=nn.ReLU)
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
        model[0].bias.copy_(torch.tensor([1.0, -6.0]))
    distances = hinge_distances(extract(model, torch.Size([2])), torch.tensor([[1.0, 1.0]], dtype=torch.float64))
    assert sorted(distances[0].tolist()) == pytest.approx([8 / 5, 2.0, float("inf")])


def test_dead_neurons_never_turn_and_a_neuron_on_its_hinge_is_at_distance_zero():
    model = mlp(2, hidden=2, activation=nn.ReLU)
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        model[0].bias.zero_()
    found = hinge_distances(
        extract(model, torch.Size([2])), torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    )
    assert found[0].min() == pytest.approx(2**0.5)
    assert found[1].min() == 0.0


def test_a_hinge_that_reads_frozen_features_alone_is_never_reached_unless_the_input_lies_on_it():
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.1, 0.2, -0.3, 0.0], [0.0, 0.0, 0.5, 2.0]], dtype=torch.float64))
        model[0].bias.copy_(torch.tensor([0.0, 1.0]))
    network = extract(model, torch.Size([4])).where(torch.tensor([False, False, False, True]))
    away = torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    # 0.1 + 0.2 - 0.3 is 0 or not, as rounding has it
    on = torch.tensor([[1.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    assert hinge_distances(network, away)[0].tolist() == pytest.approx([torch.inf, torch.inf, 0.5])
    assert hinge_distances(network, on)[0, 1] == 0
    ball = next(march(network, on, head(network, network.forward(on)[1], torch.tensor([0]), "logit"), on[:, :1]))
    assert ball.slopes[0].lower[0, 0] <= 0
    assert ball.slopes[0].upper[0, 0] >= 1
