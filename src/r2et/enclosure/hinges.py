"""Piecewise-linear networks: how far each neuron is from the edge of the linear region that holds the input."""

from collections.abc import Iterator

import torch
from torch import Tensor

from r2et.enclosure.activations import MaxPool
from r2et.enclosure.box import Box
from r2et.enclosure.jacobian import jacobian
from r2et.enclosure.network import INPUT, SMALLEST, Layer, Network, preactivation, rounding_of


def hinge_distances(network: Network, x: Tensor) -> Tensor:
    """Distance to the hinge of each neuron, by the linear map that holds at x, (N, hinges).

    The smallest of a row is the radius of a ball inside one linear region. For ReLU it is |z| / ||dz/dx||; for
    max-pooling (z_win - z_m) / ||d(z_win - z_m)/dx||; derivatives are by the features that move.

    Args:
        network: piecewise linear.
        x: (N, n), float64.
    """
    distances = [_distance(gap, towards, network.movable) for gap, towards in _hinges(network, x)]
    return torch.cat([x.new_full((len(x), 1), torch.inf), *distances], 1)


def nearest_hinges(
    network: Network, x: Tensor, count: int, movable: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The nearest hinges: distances (N, count), infinite where there are fewer, and unit steps (N, count, n).

    Args:
        network: smooth layers are passed by.
        x: (N, n), float64.
        count: how many.
        movable: 1 for features that a step may change, else 0, (n,); None = all.

    >>> from r2et.enclosure.reading import extract
    >>> network = extract(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)),
    ...                   torch.Size([2]))
    >>> distances, steps = nearest_hinges(network, torch.randn(5, 2).double(), 2)
    >>> distances.shape, steps.shape
    (torch.Size([5, 2]), torch.Size([5, 2, 2]))
    """
    distances = x.new_full((len(x), count), torch.inf)
    steps = x.new_zeros(len(x), count, x.shape[1])
    for gap, towards in _hinges(network, x):
        if movable is not None:
            towards = towards * movable
        distances, order = torch.cat([distances, _distance(gap, towards)], 1).topk(count, 1, largest=False)
        steps = torch.cat([steps, towards], 1).gather(1, order.unsqueeze(2).expand(-1, -1, x.shape[1]))
    return distances, steps / steps.norm(dim=2, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)


def _hinges(network: Network, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Layer by layer, what each neuron is away from its hinge (N, m), and the slope towards it (N, m, n).

    Slopes are those that the backward pass takes at x. Where x lies on a hinge they hold on one side alone, which
    does no harm: if the neuron moves at all, its own distance is 0 and no region is left; if it does not move,
    then nothing that is computed from it moves with either slope.
    """
    values: dict[int, Tensor] = {INPUT: x}
    slopes: list[Box] = []
    jacobians: list[Box | None] = []
    for number, layer in enumerate(network.layers):
        z = preactivation(layer, values)
        derivative = jacobian(network, number, layer.matrices, slopes, jacobians, len(x))
        jacobians.append(derivative)
        rows = (
            network.base[network.blocks[number]].expand(len(x), -1, -1)
            if derivative is None
            else derivative.center @ network.base
        )
        assert layer.activation is not None
        if not layer.activation.smooth:
            yield _gaps(layer, z, rows, rounding_of(layer, values))
        slopes.append(Box.point(layer.activation.slope_at(z)))
        values[number] = layer.activation.value(z)


def _gaps(layer: Layer, z: Tensor, rows: Tensor, unsure: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(layer.activation, MaxPool):
        return (z.abs() - unsure).clamp_min(0), torch.where(z > 0, -1.0, 1.0).to(z).unsqueeze(2) * rows
    pool = layer.activation
    winner = pool.winner(z).long().argmax(-1, keepdim=True)
    size = pool.valid.shape
    entries, unsure = z.unflatten(1, size), unsure.unflatten(1, size)
    slopes = rows.unflatten(1, size)
    gap = entries.gather(2, winner) - entries - unsure.gather(2, winner) - unsure
    steepest = slopes.gather(2, winner.unsqueeze(3).expand(-1, -1, -1, slopes.shape[3]))
    # an entry never trades places with padding, and has none to trade with itself
    towards = (slopes - steepest).masked_fill(~pool.valid.unsqueeze(-1), 0.0)
    return gap.clamp_min(0).flatten(1), towards.flatten(1, 2)


def _distance(gap: Tensor, towards: Tensor, movable: Tensor | None = None) -> Tensor:
    """gap / slope; infinite where nothing moves, also for a gap of zero: equal functions never trade places.

    Frozen features leave a neuron where it is. If that is a hinge, rounding alone decides on which side it is, and
    nothing is known.
    """
    moving = towards if movable is None else towards * movable
    slope = moving.norm(dim=2)
    never = (moving == 0).all(2) & ((gap > 0) | (towards == 0).all(2))
    # where the squares underflow nothing is known
    return torch.where(slope > SMALLEST, gap / slope, torch.where(never, torch.inf, torch.zeros_like(gap)))
