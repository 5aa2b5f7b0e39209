"""First and second derivatives of a network on balls that grow around each input (MATH of Prop. 4.5, made sound).

For a score s the product of its Hessian with a direction d is computed as in forward-over-reverse differentiation,
with a box for every factor: tangents J_l d go forward, curvature enters at each layer, cotangents go back. What
arrives at the matrices that multiply the input is a box of vectors v with H d = base^T v.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.bands import Band, band
from r2et.enclosure.box import Box
from r2et.enclosure.head import Head
from r2et.enclosure.jacobian import jacobian, norm_bound, row_norms
from r2et.enclosure.network import INPUT, Layer, Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.switches import model_error

#: how often the weights of classes are bounded by each other
CLOSER = 2


@dataclass(frozen=True)
class Ball:
    """Enclosures on the L2 ball of one radius around each of N inputs.

    Attributes:
        time: the radii, (N,).
        slopes: sigma' of each layer, boxes (N, m).
        bends: sigma'' times the derivative of the score by the activation, boxes (N, m).
        pulls: that derivative itself, boxes (N, m).
        inner: pre-activations at x, (N, m).
        spreads: how far they may move, (N, m).
        cotangent: the gradient of the score is base^T times this, box (N, K).
        head: with the weights of the classes on this ball.
        weights: of the classes in the score's second derivative, box (N, C); None where it has none.
        heights: upper bounds of the norms of the gradients of the head's outputs, (N, rows).
        error: how much a gradient times a direction of length 1 may differ from what PyTorch computes, (N,).
        output_error: the same for the head's outputs, (N, rows).
    """

    network: Network
    head: Head
    time: Tensor
    slopes: list[Box]
    bends: list[Box]
    pulls: list[Box]
    inner: list[Tensor]
    spreads: list[Tensor]
    cotangent: Box
    weights: Box | None
    heights: Tensor
    error: Tensor
    output_error: Tensor

    @cached_property
    def _bands(self) -> dict[int, tuple[Band, Band]]:
        """For layers that read the input alone, bands of what multiplies tangents, and of the slope."""
        bands = {}
        for number, layer in enumerate(self.network.layers):
            if layer.activation is not None and set(layer.matrices) == {INPUT}:
                at = self.inner[number], self.spreads[number] * (1 + INFLATION)
                pull, known = self.pulls[number], layer.activation
                bend = band(known.curvature, *at).times(pull)
                steepest = torch.stack(known.curvature(at[0] - at[1], at[0] + at[1])).abs().amax(0)
                bend = Band(bend.center, bend.tilt, bend.radius + pull.radius * steepest * (1 + INFLATION))
                bands[number] = bend, band(known.slope, *at)
        return bands

    def product(self, tangent: Tensor) -> Box:
        """The box of v with H d = base^T v, (N, D, K), for tangents base @ d (N, D, K)."""
        return self._product(tangent, {})[0]

    def tilted_product(self, tangent: Tensor) -> tuple[Box, Tensor]:
        """A box of v and a tilt w with H d = base^T (v + w * (base @ delta)) at x + delta, each (N, D, K).

        Where a neuron reads the input alone, its part of v follows its own pre-activation: the box around that
        line is much smaller than around all values.
        """
        return self._product(tangent, self._bands)

    def _product(self, tangent: Tensor, bands: dict[int, tuple[Band, Band]]) -> tuple[Box, Tensor]:
        network = self.network
        tangents: list[Box | Tensor] = []
        passed: dict[int, Box] = {}
        for number, layer in enumerate(network.layers):
            reached = _gather(network, number, layer, passed, tangent)
            tangents.append(reached)
            if number in network.inner or self.weights is not None:
                passed[number] = _scaled(reached, self.slopes[number])
        cotangents: list[Box | None] = [None] * len(network.layers)
        result = _Blocks(network, tangent)
        tilts: dict[int, Tensor] = {}
        blocks = network.blocks.items()
        if self.weights is not None:
            self._through_head(tangent, passed, cotangents, result)
        for number in reversed(range(len(network.layers))):
            arriving, reached = cotangents[number], tangents[number]
            if number in bands and not isinstance(reached, Box):
                back, tilts[number] = self._tilted(number, bands[number], reached, arriving)
            else:
                back = _scaled(reached, self.bends[number])
                if arriving is not None:
                    back = back.plus(arriving.times(_row(self.slopes[number])))
            _send_back(network.layers[number], back, cotangents)
            result.add(number, back)
        tilt = torch.cat([tilts.get(n, tangent.new_zeros(1)).expand(tangent[..., b].shape) for n, b in blocks], -1)
        return result.box(), tilt

    def _tilted(
        self, number: int, bands: tuple[Band, Band], tangent: Tensor, arriving: Box | None
    ) -> tuple[Box, Tensor]:
        """sigma'' p tau + sigma' u of one layer as a box and a tilt, (N, D, m)."""
        bend, slope = (Band(*(part.unsqueeze(1) for part in of_layer)) for of_layer in bands)
        center, tilt, radius = tangent * bend.center, tangent * bend.tilt, tangent.abs() * bend.radius
        if arriving is not None:
            steepest = _row(self.slopes[number]).magnitude
            center, tilt = center + arriving.center * slope.center, tilt + arriving.center * slope.tilt
            radius = radius + arriving.center.abs() * slope.radius + arriving.radius * steepest
        return Box(center, radius), tilt

    def _through_head(
        self, tangent: Tensor, passed: dict[int, Box], cotangents: list[Box | None], result: "_Blocks"
    ) -> None:
        """What the second derivative of the score by the logits adds: -w_j (tau_j - sum_i w_i tau_i)."""
        head, weights = self.head, self.weights
        assert weights is not None
        outputs: Box | None = None
        for source, matrix in head.matrices.items():
            outputs = passed[source].mapped(matrix.mT, matrix.abs().mT).plus(outputs)
        number = len(self.network.layers)
        if number in self.network.blocks:
            direct = tangent[..., self.network.blocks[number]] @ head.rows.mT
            outputs = Box.point(direct).plus(outputs)
        assert outputs is not None
        w = _row(weights)
        mean = outputs.times(w)
        centered = outputs.plus(Box(-mean.center.sum(-1, keepdim=True), mean.radius.sum(-1, keepdim=True)))
        bent = centered.times(Box(-w.center, w.radius))
        for source, matrix in head.matrices.items():
            cotangents[source] = bent.mapped(matrix, matrix.abs()).plus(cotangents[source])
        if number in self.network.blocks:
            result.add(number, bent.mapped(head.rows, head.rows.abs()))

    def tilted_cotangent(self) -> tuple[Box, Tensor]:
        """`cotangent` as a box and a tilt w: the gradient is base^T (v + w * (base @ delta)), (N, K) each."""
        center, radius = (part.clone() for part in self.cotangent)
        tilt = torch.zeros_like(center)
        for number, (_, slope) in self._bands.items():
            block, pull = self.network.blocks[number], self.pulls[number]
            band = slope.times(pull)
            center[:, block], tilt[:, block] = band.center, band.tilt
            radius[:, block] = band.radius + pull.radius * self.slopes[number].magnitude
        return Box(center, radius), tilt

    def gradient(self) -> Box:
        """As `cotangent`, with the derivative of the score by the outputs held at its value at x."""
        head = self.head
        return _reverse(self.network, head, self.slopes, head.slope(head.weights(torch.zeros_like(self.heights))))[
            1
        ]

    def curvature(self, tangent: Tensor) -> Tensor:
        """An upper bound of ||H d|| on the ball, (N, D), for tangents base @ d (N, D, K)."""
        return norm_bound(self.network, self.product(tangent))


def _row(box: Box) -> Box:
    """(N, m) as (N, 1, m), to multiply what is kept for each direction."""
    return Box(box.center.unsqueeze(1), box.radius.unsqueeze(1))


def _scaled(tangent: Box | Tensor, factor: Box) -> Box:
    """Tangents (N, D, m), exact or in a box, times what is known of each neuron (N, m)."""
    factor = _row(factor)
    if isinstance(tangent, Box):
        return tangent.times(factor)
    return Box(tangent * factor.center, tangent.abs() * factor.radius)


def _gather(network: Network, number: int, layer: Layer, passed: dict[int, Box], tangent: Tensor) -> Box | Tensor:
    """Tangents of a layer, (N, D, m): exact where it reads the input alone."""
    direct = tangent[..., network.blocks[number]] if number in network.blocks else None
    if direct is not None and len(layer.matrices) == 1:
        return direct
    gathered = None if direct is None else Box.point(direct)
    for source, matrix in layer.matrices.items():
        if source != INPUT:
            gathered = passed[source].mapped(matrix.T, matrix.abs().T).plus(gathered)
    assert gathered is not None
    return gathered


def _send_back(layer: Layer, back: Box, cotangents: list[Box | None]) -> None:
    for source, matrix in layer.matrices.items():
        if source != INPUT:
            cotangents[source] = back.mapped(matrix, matrix.abs()).plus(cotangents[source])


class _Blocks:
    """Collects the parts of a box (..., K) that belong to the blocks of the base."""

    def __init__(self, network: Network, like: Tensor) -> None:
        self.network, self.like = network, like
        self.parts: dict[int, Box] = {}

    def add(self, number: int, box: Box) -> None:
        if number in self.network.blocks:
            self.parts[number] = box.plus(self.parts.get(number))

    def box(self) -> Box:
        parts = []
        for number, block in self.network.blocks.items():
            empty = self.like[..., block].new_zeros(*self.like.shape[:-1], block.stop - block.start)
            parts.append(self.parts.get(number, Box(empty, empty)))
        if len(parts) == 1:
            return parts[0]
        return Box(torch.cat([part.center for part in parts], -1), torch.cat([part.radius for part in parts], -1))


def march(network: Network, x: Tensor, head: Head, times: Tensor, frozen: bool = False) -> Iterator[Ball]:
    """Enclosures on growing balls; each row of `times` (N, T) increases. The first ball may have radius 0.

    The range of a pre-activation grows by the step times the largest norm of its gradient on the ball at the end
    of the step: the norm at the start would be unsound.

    Args:
        network: with L layers.
        x: (N, n), float64.
        head: the score.
        times: radii of the balls, (N, T).
        frozen: take every slope as the backward pass takes it at x, which holds inside one linear region.
    """
    inner, _ = network.forward(x)
    blurs = network.blurs(x)
    spreads = [torch.zeros_like(z) for z in inner]
    moved = head.outputs.new_zeros(head.outputs.shape)
    shifted = torch.zeros_like(moved)
    before = torch.zeros_like(times[:, 0])
    for time in times.unbind(1):
        step = (time - before).unsqueeze(1)
        slopes: list[Box] = []
        ranges: list[tuple[Tensor, Tensor]] = []
        jacobians: list[Box | None] = []
        lengths: list[Tensor] = []
        for number, layer in enumerate(network.layers):
            derivative = jacobian(network, number, layer.matrices, slopes, jacobians, len(x))
            jacobians.append(derivative)
            lengths.append(row_norms(network, number, derivative, len(x)))
            spreads[number] = spreads[number] + step * lengths[number]
            wide = spreads[number] * (0.0 if frozen else 1 + INFLATION) + (0.0 if frozen else blurs[number])
            ends = inner[number] - wide, inner[number] + wide
            ranges.append(ends)
            assert layer.activation is not None
            if frozen:
                # not the middle of what is open at a hinge: of equal functions in a window one alone counts
                taken = layer.activation.slope_at(inner[number])
                slopes.append(_inflated((taken, taken)))
            else:
                slopes.append(_inflated(layer.activation.slope(*ends)))
        last = head.jacobian(network, slopes, jacobians, len(x))
        heights = norm_bound(network, last)
        moved = moved + step * heights
        weights = head.weights(moved * (1 + INFLATION))
        if weights is not None:
            reached = shifted
            for _ in range(CLOSER):
                reached = shifted + step * head.pace(weights, heights)
                weights = head.closer(weights, reached * (1 + INFLATION))
            shifted = reached
        slope = head.slope(weights)
        pulls, cotangent = _reverse(network, head, slopes, slope)
        bends = [
            pull.exact_times(_inflated(layer.activation.curvature(*ends)))
            for layer, pull, ends in zip(network.layers, pulls, ranges, strict=True)
            if layer.activation is not None
        ]
        error = model_error(network, head, ranges, [*jacobians, last], slope)
        yield Ball(
            network, head, time, slopes, bends, pulls, inner, list(spreads), cotangent, weights, heights, *error
        )
        before = time


def _reverse(network: Network, head: Head, slopes: list[Box], slope: Box) -> tuple[list[Box], Box]:
    """Derivatives of the score by each activation, boxes (N, m), and by base @ x, a box (N, K)."""
    rows = len(slope.center)
    pulls: list[Box | None] = [None] * len(network.layers)
    result = _Blocks(network, slope.center.new_zeros(rows, len(network.base)))
    for source, matrix in head.matrices.items():
        pulls[source] = _pull(slope, matrix).plus(pulls[source])
    if len(network.layers) in network.blocks:
        result.add(len(network.layers), _pull(slope, head.rows))
    reversed_pulls: list[Box] = []
    for number in reversed(range(len(network.layers))):
        pull = pulls[number]
        if pull is None:
            pull = Box.point(torch.zeros_like(slopes[number].center))
        reversed_pulls.append(pull)
        back = pull.exact_times(slopes[number])
        _send_back(network.layers[number], back, pulls)
        result.add(number, back)
    return reversed_pulls[::-1], result.box()


def _inflated(ends: tuple[Tensor, Tensor]) -> Box:
    box = Box.between(*ends)
    return Box(box.center, box.radius * (1 + INFLATION) + INFLATION * 1e-3 * box.center.abs())


def _pull(slope: Box, matrix: Tensor) -> Box:
    """(N, rows) through the head's matrices (N, rows, m)."""
    return Box(
        (slope.center.unsqueeze(1) @ matrix).squeeze(1), (slope.radius.unsqueeze(1) @ matrix.abs()).squeeze(1)
    )
