"""Piecewise-linear networks: how far each neuron is from the edge of the linear region that holds the input."""

import torch
from torch import Tensor

from r2et.enclosure.activations import MaxPool
from r2et.enclosure.box import Box
from r2et.enclosure.jacobian import jacobian
from r2et.enclosure.network import Layer, Network


def hinge_distances(network: Network, x: Tensor) -> Tensor:
    """Distance to the hinge of each neuron, by the linear map that holds at x, (N, hinges).

    The smallest of a row is the radius of a ball inside one linear region. For ReLU it is |z| / ||dz/dx||; for
    max-pooling (z_win - z_m) / ||d(z_win - z_m)/dx||.

    Args:
        network: piecewise linear.
        x: (N, n), float64.
    """
    inner, _ = network.forward(x)
    slopes: list[Box] = []
    jacobians: list[Box | None] = []
    distances = [x.new_full((len(x), 1), torch.inf)]
    for number, (layer, z) in enumerate(zip(network.layers, inner, strict=True)):
        found = jacobian(network, number, layer.matrices, slopes, jacobians, len(x))
        jacobians.append(found)
        rows = (
            network.base[network.blocks[number]].expand(len(x), -1, -1)
            if found is None
            else found.center @ network.base
        )
        distances.append(_distances(layer, z, rows))
        assert layer.activation is not None
        slopes.append(Box.between(*layer.activation.slope(z, z)))
    return torch.cat(distances, 1)


def _distances(layer: Layer, z: Tensor, rows: Tensor) -> Tensor:
    if not isinstance(layer.activation, MaxPool):
        return _ratio(z.abs(), rows.norm(dim=2))
    pool = layer.activation
    winner = pool.winner(z).long().argmax(-1, keepdim=True)
    size = pool.valid.shape
    entries = z.unflatten(1, size)
    slopes = rows.unflatten(1, size)
    best = entries.gather(2, winner)
    steepest = slopes.gather(2, winner.unsqueeze(3).expand(-1, -1, -1, slopes.shape[3]))
    apart = _ratio(best - entries, (steepest - slopes).norm(dim=3))
    itself = torch.arange(size[1], device=z.device) == winner
    return apart.masked_fill(itself | ~pool.valid, torch.inf).flatten(1)


def _ratio(gap: Tensor, slope: Tensor) -> Tensor:
    """gap / slope; infinite where nothing moves, also for a gap of zero: equal functions never trade places."""
    return torch.where(slope > 0, gap / slope, torch.inf)
