"""The dual bound for effects of columns: functions of one number for each neuron, as lines on pieces.

Only numbers move, and a row and the rows that it is compared with move together: where x goes to x + delta, their
pre-activations go from z and z^v to z + y and z^v + y, with the same y = w . delta. So a functional of effects is

    phi(x + delta) = constant + sum_m F_m(w_m . delta),
    F_m(y) = beta_m sigma'(z_m + y) + sum_v c_mv (sigma(z_m^v + y) - sigma(z_m^v)),

and weak duality holds as it does without the second part. F_m is tabulated: on each piece of its interval it is
above a straight line, and the smallest value of a line is at an end.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.certificates.dual_bounds import Terms
from r2et.enclosure.ball import Ball, march
from r2et.enclosure.column_effects import ColumnAttributions, score_error
from r2et.enclosure.head import Head
from r2et.enclosure.linear_pieces import Lines, Pieces, slope_lines, value_lines
from r2et.enclosure.network import ROUNDING, Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.size import COLUMN_PIECES

#: entries of the largest tensor that is kept while the tables are made
ENTRIES = 2**20
#: balls on the way to one on which the classes of the score trade weights
ON_THE_WAY = 12


@dataclass(frozen=True)
class PieceTerms(Terms):
    """F functionals whose terms are above lines on pieces; `beta` is that of their slopes of the score.

    Attributes:
        ends: of the whole intervals that are divided, (F, h).
        offset: what each line is in the middle of its piece, (F, h, P).
        line: its slope, (F, h, P).
    """

    ends: Tensor
    offset: Tensor
    line: Tensor

    def _parts(self) -> tuple[str, ...]:
        return *super()._parts(), "ends", "offset", "line"

    def least(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest value of each neuron's lines less slope y, and its place, (F, h) each."""
        middle, half = Pieces.of(self.ends, self.line.shape[-1])
        excess = self.line - slopes.unsqueeze(-1)
        # of a branch the parts of pieces that lie in it
        left = torch.maximum(-half, self.low.unsqueeze(-1) - middle)
        right = torch.minimum(half, self.high.unsqueeze(-1) - middle)
        step = torch.where(excess > 0, left, right)
        values = self.offset + excess * step - slopes.unsqueeze(-1) * middle
        # what is not a number is on no side, and counts
        value, which = values.masked_fill(right < left, torch.inf).min(-1, keepdim=True)
        return value.squeeze(-1), (middle + step).gather(-1, which).squeeze(-1)

    def least_bent(self, slopes: Tensor, bends: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest value of each neuron's lines less slope y and bend y^2 / 2, and its place, (F, h) each."""
        middle, half = Pieces.of(self.ends, self.line.shape[-1])
        slope, bend = slopes.unsqueeze(-1), bends.unsqueeze(-1)
        excess = self.line - slope - bend * middle
        left = torch.maximum(-half, self.low.unsqueeze(-1) - middle)
        right = torch.minimum(half, self.high.unsqueeze(-1) - middle)
        inner = torch.where(bend == 0, left, excess / bend)
        steps = torch.stack([left, right, torch.minimum(torch.maximum(inner, left), right)])
        values = self.offset - (slope + bend * middle / 2) * middle + (excess - bend * steps / 2) * steps
        # what is not a number is on no side, and counts
        values = values.masked_fill(right < left, torch.inf).movedim(0, -1).flatten(-2)
        value, which = values.min(-1, keepdim=True)
        places = (middle + steps).movedim(0, -1).flatten(-2)
        return value.squeeze(-1), places.gather(-1, which).squeeze(-1)

    def about_bent(self, slopes: Tensor, bends: Tensor) -> tuple[Tensor, Tensor]:
        """The same: lines have exact minima."""
        return self.least_bent(slopes, bends)

    def at(self, moves: Tensor) -> Tensor:
        """The lines at y = moves, (F, h): not above the terms, nor is any bound that rests on these lines."""
        count = self.line.shape[-1]
        middle = Pieces.of(self.ends, count).middle
        share = torch.where(self.ends > 0, moves / self.ends, 0.0).nan_to_num(nan=0.0).clamp(-1.0, 1.0)
        which = ((share + 1) / 2 * count).long().clamp_max(count - 1).unsqueeze(-1)
        offset, line, start = (part.gather(-1, which).squeeze(-1) for part in (self.offset, self.line, middle))
        return offset + line * (moves - start)

    def tangent(self) -> Tensor:
        """Slopes at x, (F, h)."""
        count = self.line.shape[-1]
        return self.line[..., count // 2 - 1 : count // 2 + 1].mean(-1)


def ball_of(network: Network, points: Tensor, head: Head, radius: Tensor) -> Ball:
    """What the network does on balls of radii (M,) around points (M, n)."""
    count = 1 if head.linear else ON_THE_WAY
    shares = torch.arange(1, count + 1, dtype=radius.dtype, device=radius.device) / count
    *_, last = march(network, points, head, radius.unsqueeze(1) * shares)
    return last


class ColumnTables:
    """What each neuron adds to the effect of each column, as lines on pieces of how far it moves.

    Args:
        of: the effects of N rows.
        ball: what the network does on their balls.
        ends: how far each pre-activation moves, at most, (N, h).
        layer: the number of the one layer that moves.
    """

    def __init__(self, of: ColumnAttributions, ball: Ball, ends: Tensor, layer: int) -> None:
        self.of, self.ball, self.ends, self.layer = of, ball, ends, layer
        activation = of.network.layers[layer].activation
        assert activation is not None
        self.activation = activation

    @cached_property
    def discrete(self) -> Tensor:
        """Which columns are compared by value, bool (columns,)."""
        return self.of.lengths == 0

    @cached_property
    def there(self) -> Ball:
        """The balls around the rows that are compared with, (N * V, ...)."""
        variants = self.of.variants
        radius = self.ball.time.repeat_interleave(variants.share.shape[1])
        return ball_of(self.of.network, variants.points, variants.head, radius)

    @cached_property
    def charges(self) -> Tensor:
        """What differences between the model and the tables may take from discrete effects, (N, columns)."""
        variants, network, here, there = self.of.variants, self.of.network, self.ball, self.there
        own, other = score_error(here) * 2, score_error(there) * 2
        count, layer = variants.share.shape[1], self.layer
        # where more than two classes trade weights, what multiplies the values is in a box
        for ball, ends in ((here, self.ends), (there, self.ends.repeat_interleave(count, 0))):
            lost = (ball.pulls[layer].radius * ball.slopes[layer].magnitude * ends).sum(1) * (1 + INFLATION)
            own, other = (own + lost, other) if ball is here else (own, other + lost)
        charges = variants.weight * own.unsqueeze(1) + variants.summed(other)
        rest = other_rows(network, layer)
        mine, theirs = here.cotangent, there.cotangent
        center = variants.weight.unsqueeze(2) * mine.center[:, None, rest] - variants.summed(
            theirs.center[:, rest]
        )
        radius = variants.weight.unsqueeze(2) * mine.radius[:, None, rest] + variants.summed(
            theirs.radius[:, rest]
        )
        # what the logits read of the input themselves moves the rows alike, unless classes trade weights
        turned = (center @ network.moving[rest]).norm(dim=2) + radius @ network.lengths[rest]
        total: Tensor = charges + turned * here.time.unsqueeze(1) * (1 + INFLATION)
        return total

    @cached_property
    def lines(self) -> Lines:
        """Of every column, closed, (N, columns, h, P)."""
        columns = self._differences().closed()
        numbers = slope_lines(self.activation, self.ball.inner[self.layer], Pieces.of(self.ends, COLUMN_PIECES))
        block = self.of.network.blocks[self.layer]
        beta = self.of.directions[:, block] * self.ball.pulls[self.layer].center.unsqueeze(1)
        own = Lines(*(part.unsqueeze(1) for part in numbers)).times(beta.unsqueeze(-1))
        return columns.plus(own)

    def _differences(self) -> Lines:
        """Of discrete columns, each less what it is at x, (N, columns, h, P)."""
        variants, layer = self.of.variants, self.layer
        pull, inner = self.ball.pulls[layer].center, self.ball.inner[layer]
        weight = variants.weight.unsqueeze(2) * pull.unsqueeze(1)
        total = Lines(*(part.unsqueeze(1) for part in self._moved(inner, self.ends))).times(weight.unsqueeze(-1))
        rows, count = variants.share.shape
        z = self.there.inner[layer].unflatten(0, (rows, count))
        factor = -variants.share.unsqueeze(2) * self.there.pulls[layer].center.unflatten(0, (rows, count))
        size = max(1, ENTRIES // max(1, z[:, 0].numel() * COLUMN_PIECES))
        for some in torch.arange(count, device=z.device).split(size):
            each = self._moved(z[:, some], self.ends.unsqueeze(1)).times(factor[:, some].unsqueeze(-1))
            place = variants.column[:, some, None, None].expand_as(each.value)
            total = Lines(*(sums.scatter_add(1, place, part) for sums, part in zip(total, each, strict=True)))
        return total

    def _moved(self, z: Tensor, ends: Tensor) -> Lines:
        """sigma(z + y) - sigma(z), (..., P)."""
        lines = value_lines(self.activation, z, Pieces.of(ends.expand_as(z), COLUMN_PIECES))
        start = self.activation.value(z).unsqueeze(-1)
        return lines._replace(value=lines.value - start, blur=lines.blur + ROUNDING * start.abs())

    def onto(
        self, terms: Terms, scale: Tensor, rows: Tensor, pair: tuple[Tensor, ...]
    ) -> tuple[PieceTerms, Tensor]:
        """Functionals a e_i + b e_j with their discrete part, and their scale (F,), from those of their slopes."""
        i, a, j, b = pair
        start = a * self.of.differences[rows, i] + b * self.of.differences[rows, j]
        lost = a.abs() * self.charges[rows, i] + b.abs() * self.charges[rows, j]
        constant = terms.constant * scale + start - lost
        lines = [
            Lines(*(part[rows, column] for part in self.lines)).times(factor[:, None, None])
            for column, factor in ((i, a), (j, b))
        ]
        both = lines[0].plus(lines[1])
        offset = both.value + both.low
        largest = (offset.amax(-1) - offset.amin(-1)).amax(1)
        scale = torch.where(largest > 0, largest, 1.0)
        parts = {name: getattr(terms, name) for name in ("activation", "weights", "lengths", "z", "low", "high")}
        return PieceTerms(
            **parts,
            beta=terms.beta,
            radius=terms.radius,
            constant=constant / scale,
            ends=self.ends[rows],
            offset=offset / scale[:, None, None],
            line=both.slope / scale[:, None, None],
        ), scale


def other_rows(network: Network, layer: int) -> Tensor:
    """The rows of the base that belong to anything but one layer, bool (K,)."""
    rest = torch.ones(len(network.base), dtype=torch.bool, device=network.base.device)
    rest[network.blocks[layer]] = False
    return rest
