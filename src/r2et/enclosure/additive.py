"""Networks whose score is a sum over columns, and tables that enclose the slope of every column.

The slope by a feature of an additive score depends on this feature alone: g(x) = v + sum of c sigma'(w x + b).
On a cell between two edges it is no farther from its chord than h^2 / 8 times the largest second derivative, which
is enclosed unit by unit. The tables are of the model: all rows share them.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.activations import INFLATION, Softplus, extent
from r2et.enclosure.network import INPUT, ROUNDING, SMALLEST, Network
from r2et.explainers import ColumnEffects, Explainer, Gradient

#: cells of the longest table, and how close to its chord a slope need not come, as a share of its size
CELLS, FINEST = 768, 1e-10
#: where the first cells of a unit end, in beta (w x + b): beyond the last its slope is as good as constant
PLACES = (0.0, 2.0, 5.0, 12.0, 40.0)
#: no edge lies beyond
FARTHEST = 1e12
#: the tables of one direction: of g, of -g and of -|g|
PLUS, MINUS, SIZE = 0, 1, 2


def why_not_additive(network: Network, explainer: Explainer, classes: int) -> str | None:
    """Why a list is not one of an additive score, so that tables say nothing about it; None if it is."""
    if type(explainer) not in (Gradient, ColumnEffects):
        return f"it is for Gradient and ColumnEffects, not for {type(explainer).__name__}"
    if classes != 2 and explainer.score not in ("logit", "margin"):
        return f"the log-odds of {classes} classes are no sum over columns, even where the logits are"
    if len(network.layers) != 1 or not isinstance(network.layers[0].activation, Softplus):
        return "it is for a score that is a sum over columns, as r2et.models.Additive has it"
    if (network.base[network.blocks[0]] != 0).sum(1).amax() > 1:
        return f"units of layer {network.layers[0].name!r} read several features, so that columns interact"
    if isinstance(explainer, ColumnEffects) and any(
        kind == "number" and len(features) > 1
        for kind, features in zip(explainer.columns.kinds, explainer.columns.features, strict=True)
    ):
        return "a number of this table is encoded as several features"
    return None


def slopes_at(network: Network, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of an additive score at x (N, n) by its formula, what rounding may do to it, and to the score.

    Args:
        network: additive.
        x: (N, n).
        rows: the scores as combinations of logits, (N, C).

    Returns:
        (N, n), (N, n) and (N, 1).
    """
    layer, logits = network.layers[0], network.logits
    assert isinstance(layer.activation, Softplus)
    weights, z = layer.matrices[INPUT], network.forward(x)[0][0]
    nothing = weights.new_zeros(rows.shape[1], weights.shape[1])
    heights, direct = logits.matrices.get(0, nothing[:, :0]), logits.matrices.get(INPUT, nothing)
    slopes = layer.activation.slope(z, z)[0]
    gradient = rows @ direct + (rows @ heights * slopes) @ weights
    blurred = 1 + layer.activation.beta * (x.abs() @ weights.abs().T + layer.bias.abs())
    sizes = rows.abs() @ direct.abs() + (rows.abs() @ heights.abs() * blurred) @ weights.abs()
    values = layer.activation.value(z).abs() @ heights.abs().T + x.abs() @ direct.abs().T + logits.bias.abs()
    return gradient, ROUNDING * sizes + SMALLEST, ROUNDING * (rows.abs() * values).sum(1, keepdim=True)


@dataclass(frozen=True)
class Tables:
    """Lower bounds of functions of one feature each, for m features, on M cells and the two tails.

    On a cell from edge e_0 to e_1 the bound is the line from y_0 to y_1; on a tail it is constant.

    Attributes:
        features: their numbers, (m,).
        begin, end: where cells begin and end, in increasing order, from -inf to inf, (m, M + 2).
        first, last: the line's values there, for each of three functions, (3, m, M + 2).
        steep: how fast the functions themselves change there at most, (m, M + 2).
    """

    features: Tensor
    begin: Tensor
    end: Tensor
    first: Tensor
    last: Tensor
    steep: Tensor

    @cached_property
    def low(self) -> Tensor:
        """The smallest bound on each cell, (3, m, M + 2); one that is no number certifies nothing."""
        return torch.minimum(self.first, self.last).nan_to_num(nan=-torch.inf, posinf=torch.inf)

    @cached_property
    def inverse(self) -> tuple[Tensor, Tensor]:
        """The place at which a falling line is at a level, as place + rate * level; -inf if it does not fall."""
        falls = (self.first > self.last) & (self.end > self.begin) & (self.end - self.begin).isfinite()
        rate = torch.where(falls, (self.begin - self.end) / (self.first - self.last), 0.0)
        place = torch.where(falls, self.begin - rate * self.first, -torch.inf)
        return place, rate

    @cached_property
    def mirrored(self) -> "Tables":
        """The same functions of -x."""
        return replace(
            self,
            begin=-self.end.flip(-1),
            end=-self.begin.flip(-1),
            first=self.last.flip(-1),
            last=self.first.flip(-1),
            steep=self.steep.flip(-1),
        )

    @cached_property
    def _steepest(self) -> tuple[Tensor, Tensor]:
        """The steepest of 1, 2, 4, ... cells from each on, (levels, m, M + 2); the level of each length."""
        levels, cells, width = [self.steep], self.steep.shape[1], 1
        while 2 * width <= cells:
            before = levels[-1]
            levels.append(torch.maximum(before, torch.nn.functional.pad(before[:, width:], (0, width))))
            width *= 2
        length = torch.arange(cells + 1, device=self.steep.device).clamp_min(1)
        return torch.stack(levels), length.to(self.steep).log2().floor().long()

    def steepest(self, column: Tensor, begin: Tensor, end: Tensor) -> Tensor:
        """The steepest cell from `begin` to `end`, both included, of columns that begin at `column` when flat."""
        levels, of_length = self._steepest
        level = of_length[end - begin + 1]
        at = level * self.steep.numel() + column
        return torch.maximum(levels.take(at + begin), levels.take(at + end + 1 - (1 << level)))


def tables(network: Network, direction: Tensor) -> Tables | None:
    """Of the score direction . logits, direction (C,), by the features that may move; None if none does."""
    layer, activation = network.layers[0], network.layers[0].activation
    assert isinstance(activation, Softplus)
    weights = layer.matrices[INPUT]
    heights = direction @ network.logits.matrices.get(0, weights.new_zeros(len(direction), len(weights)))
    linear = network.logits.matrices.get(INPUT)
    linear = weights.new_zeros(weights.shape[1]) if linear is None else direction @ linear
    moving = weights != 0 if network.movable is None else (weights != 0) & network.movable
    features = (moving & (heights != 0).unsqueeze(1)).any(0).nonzero().flatten()
    if not len(features):
        return None
    parts = []
    for feature in features.tolist():
        units = (weights[:, feature] != 0) & (heights != 0)
        steep = weights[units, feature]
        column = _Column(float(linear[feature]), heights[units] * steep, steep, layer.bias[units], activation)
        parts.append(column.lines(column.edges()))
    longest = max(len(part[0]) for part in parts)
    edges, values, drops = (torch.stack([_padded(part[i], longest) for part in parts]) for i in range(3))
    return _assembled(features, edges, values, drops, torch.stack([part[3] for part in parts]))


@dataclass(frozen=True)
class _Column:
    """g(x) = shift + sum of size * sigma'(steep x + bias) over units (U,)."""

    shift: float
    size: Tensor
    steep: Tensor
    bias: Tensor
    activation: Softplus

    def edges(self) -> Tensor:
        """Cells that are short where the slope bends, (M + 1,)."""
        places = torch.tensor([*(-place for place in reversed(PLACES[1:])), *PLACES]).to(self.steep)
        z = places / self.activation.beta
        start = ((z.unsqueeze(1) - self.bias) / self.steep).clamp(-FARTHEST, FARTHEST).nan_to_num(nan=0.0)
        edges = start.flatten().unique()
        if len(edges) < 2:
            edges = torch.stack([edges[0] - 1, edges[0] + 1])
        root = self.sag(edges).amax(0).nan_to_num(nan=0.0, posinf=1e300).sqrt()
        coarsest = float(root.sum()) / max(1, CELLS - len(edges))
        finest = math.sqrt(FINEST * float(self.size.abs().sum()))
        parts = (root / max(coarsest, finest, 1e-300)).ceil().clamp(1, CELLS).long()
        width = edges.diff() / parts
        number = torch.arange(int(parts.sum()), device=edges.device)
        number = number - (parts.cumsum(0) - parts).repeat_interleave(parts)
        inner = edges[:-1].repeat_interleave(parts) + number * width.repeat_interleave(parts)
        # rounding must not put an edge behind the next one
        return torch.cat([inner, edges[-1:]]).cummax(0).values

    def sag(self, edges: Tensor) -> Tensor:
        """How far g may be below and above its chord on each cell, (2, M)."""
        beta = self.activation.beta

        def third(z: Tensor) -> Tensor:
            p = torch.sigmoid(beta * z)
            return beta**2 * p * torch.sigmoid(-beta * z) * (1 - 2 * p)

        turn = math.log(2 + math.sqrt(3)) / beta
        z = edges.unsqueeze(1) * self.steep + self.bias
        low, high = extent(third, torch.minimum(z[:-1], z[1:]), torch.maximum(z[:-1], z[1:]), (-turn, turn))
        factor = self.size * self.steep.square()
        ends = torch.stack([low * factor, high * factor])
        below, above = ends.amax(0).sum(1).clamp_min(0), (-ends.amin(0)).sum(1).clamp_min(0)
        return torch.stack([below, above]) * edges.diff().square() / 8 * (1 + INFLATION)

    def lines(self, edges: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Edges (M + 1,), g there, what to take off and put on for each cell (M, 2), ranges on both tails (2, 2).

        On a cell g is no steeper than its chord plus 4 / h times how far it is from the chord.
        """
        slopes = torch.sigmoid(self.activation.beta * (edges.unsqueeze(1) * self.steep + self.bias))
        values = self.shift + (slopes * self.size).sum(1)
        charge = self._charge(torch.maximum(edges[:-1].abs(), edges[1:].abs()))
        # what a unit tends to on the left and on the right
        limits = torch.stack([(self.steep < 0), (self.steep > 0)]).to(edges)
        both = torch.stack([limits * self.size, slopes[[0, -1]] * self.size])
        room = self._charge(edges[[0, -1]].abs())
        low, high = (self.shift + end.sum(1) for end in (both.amin(0), both.amax(0)))
        return edges, values, (self.sag(edges) + charge).T, torch.stack([low - room, high + room], 1)

    def _charge(self, far: Tensor) -> Tensor:
        """What rounding and softplus's switch may do to g up to |x| = far (M,), (M,)."""
        total = float(self.size.abs().sum())
        # a unit whose argument is rounded has another slope; it changes by no more than all of it
        blur = self.activation.beta * ROUNDING * (far.unsqueeze(1) * self.steep.abs() + self.bias.abs())
        rounded = (self.size.abs() * blur.clamp_max(1.0)).sum(1)
        return rounded + self.activation.slope_jump * total + INFLATION * (total + abs(self.shift))


def _padded(values: Tensor, longest: int) -> Tensor:
    """With its last entry again until it is as long; cells between them have no width."""
    missing = longest - len(values) - (1 if values.ndim == 2 else 0)
    return torch.cat([values, values[-1:].expand(missing, *values.shape[1:])])


def _assembled(features: Tensor, edges: Tensor, values: Tensor, drops: Tensor, tails: Tensor) -> Tables:
    """Lower bounds of g, -g and -|g| from edges and values (m, M + 1), drops (m, M, 2), tails (m, 2, 2)."""
    below, above = drops.unbind(2)
    # the size of a chord is below the chord of the sizes
    ends = torch.stack([values, -values, -values.abs()])
    drop = torch.stack([below, above, torch.maximum(below, above)])
    low, high = tails.unbind(2)
    tail = torch.stack([low, -high, -torch.maximum(low.abs(), high.abs())])
    infinite = torch.full_like(edges[:, :1], torch.inf)
    # its slope differs from the chord's by no more than h / 2 times the second derivative
    width = edges.diff()
    steep = (values.diff().abs() + 4 * drop[SIZE]) / width.clamp_min(torch.finfo(width.dtype).tiny)
    steep = torch.where(width > 0, steep.nan_to_num(nan=torch.inf), 0.0)
    return Tables(
        features,
        torch.cat([-infinite, edges], 1),
        torch.cat([edges, infinite], 1),
        torch.cat([tail[..., :1], ends[..., :-1] - drop, tail[..., 1:]], 2),
        torch.cat([tail[..., :1], ends[..., 1:] - drop, tail[..., 1:]], 2),
        torch.cat([infinite, steep, infinite], 1),
    )
