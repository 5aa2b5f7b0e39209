"""Boxes of Jacobians: dz/dx = M base with a box for M, and norms of what such boxes hold."""

import torch
from torch import Tensor

from r2et.enclosure.box import Box
from r2et.enclosure.network import INPUT, SMALLEST, Network
from r2et.enclosure.ranges import INFLATION


def jacobian(
    network: Network,
    number: int,
    matrices: dict[int, Tensor],
    slopes: list[Box],
    jacobians: list[Box | None],
    rows: int,
) -> Box | None:
    """The box of M with dz/dx = M base, (N, m, K); None for a layer that reads the input alone."""
    if set(matrices) == {INPUT}:
        return None
    size = len(next(iter(matrices.values())))
    center = network.base.new_zeros(rows, size, len(network.base))
    radius = torch.zeros_like(center)
    if number in network.blocks:
        block = network.blocks[number]
        center[:, torch.arange(size), torch.arange(block.start, block.stop)] += 1
    for source, matrix in matrices.items():
        if source != INPUT:
            center, radius = chain(network, source, matrix, slopes, jacobians, center, radius)
    return Box(center, radius)


def chain(
    network: Network,
    source: int,
    matrix: Tensor,
    slopes: list[Box],
    jacobians: list[Box | None],
    center: Tensor,
    radius: Tensor,
) -> Box:
    """Add matrix @ diag(slopes) @ M of a source; the matrix is (m, size) or (N, m, size)."""
    slope, inner = slopes[source], jacobians[source]
    if inner is None:
        # M of the source is a block of the identity
        block = network.blocks[source]
        center = center.clone()
        radius = radius.clone()
        center[..., block] += matrix * slope.center.unsqueeze(1)
        radius[..., block] += matrix.abs() * slope.radius.unsqueeze(1)
        return Box(center, radius)
    passed = inner.times(Box(slope.center.unsqueeze(2), slope.radius.unsqueeze(2)))
    return Box(center + matrix @ passed.center, radius + matrix.abs() @ passed.radius)


def row_norms(network: Network, number: int, jacobian: Box | None, rows: int) -> Tensor:
    """An upper bound of the norm of the gradient of each pre-activation, (N, m)."""
    if jacobian is None:
        norms: Tensor = network.lengths[network.blocks[number]] * (1 + INFLATION)
        return norms.expand(rows, -1)
    return norm_bound(network, jacobian)


def norm_bound(
    network: Network,
    box: Box,
    shift: tuple[Tensor, Tensor] | None = None,
    tilt: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """An upper bound of ||base^T (v + w * (base @ delta)) + y|| over the vectors v of a box (..., K), (...,).

    Where features are frozen it is the norm over those that move: the base is `network.moving`.

    Args:
        network: has the base (K, n).
        box: of v, (..., K).
        shift: base @ y (..., K) and ||y|| (...,) of an exact vector y, 0 at frozen features; None = 0.
        tilt: w (..., K) and a radius (...,) of delta; None = 0.

    Infinite where the squares that it is made of underflow.
    """
    center, radius = box
    if network.gram is None:
        moving = network.moving
        pulled = (center @ moving) @ moving.T
        spread = (radius @ moving.abs()) @ moving.abs().T
    else:
        pulled, spread = center @ network.gram, radius @ network.gram.abs()
    square = (center * pulled).sum(-1)
    if shift is not None:
        square = square + 2 * (center * shift[0]).sum(-1) + shift[1] ** 2
        pulled = pulled + shift[0]
    # what rounding may take from the square when its terms cancel
    whole = (center.abs() * network.lengths).sum(-1)
    if shift is not None:
        whole = whole + shift[1]
    slack = 4 * sum(network.base.shape) * torch.finfo(square.dtype).eps
    square = square.clamp_min(0) + slack * whole**2
    # ||base^T (c + e) + y||^2 = ||base^T c + y||^2 + 2 e . base (base^T c + y) + e^T gram e, |e| <= radius
    if tilt is None or network.gram is None:
        if tilt is not None:
            farther = radius + tilt[0].abs() * tilt[1].unsqueeze(-1) * network.lengths
            return norm_bound(network, Box(center, farther), shift)
        square = square + (radius * (2 * pulled.abs() + spread)).sum(-1)
        return _root(network, square, box, shift)
    # the tilt adds 2 delta . base^T (w * base (base^T c + y)) and base^T diag(w) base delta
    along = tilt[0] * pulled
    first = (along * (along @ network.gram)).sum(-1).clamp_min(0) + slack * (along.abs() * network.lengths).sum(
        -1
    ) ** 2
    size = tilt[0].abs()
    second = (size * (size @ network.gram.square())).sum(-1).sqrt() * tilt[1] + (radius * spread).sum(-1).sqrt()
    square = square + 2 * tilt[1] * first.sqrt() + 2 * (radius * pulled.abs()).sum(-1) + second**2
    return _root(network, square, box, shift)


def _root(network: Network, square: Tensor, box: Box, shift: tuple[Tensor, Tensor] | None) -> Tensor:
    """The bound whose square this is, (...,)."""
    lost = square < SMALLEST**2
    if bool(lost.any()):
        # what multiplies frozen features alone adds nothing, whatever its size
        felt = network.lengths > 0
        parts = [*(part * felt for part in box), *([] if shift is None else [shift[0], shift[1].unsqueeze(-1)])]
        there = torch.stack([(part != 0).any(-1) for part in parts]).any(0)
        square = torch.where(lost & there, torch.inf, square)
    return square.sqrt() * (1 + INFLATION)
