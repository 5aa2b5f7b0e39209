"""The dual bound for gradient times input: what multiplies the slope of a neuron moves too.

With e_i = x_i g_i a functional a e_i + b e_j is

    phi(x + delta) = constant + c . delta + sum_m (beta_m + l_m u_m) sigma'(z_m + y_m),

y_m = w_m . delta and u_m = U_m . delta, U_m a vector of length 1 along the features i and j: l_m u_m is what
q_m (a w_mi x_i + b w_mj x_j) gains. Both are variables of their own, with multipliers lambda_m and nu_m. For a
given y_m a term is straight in u_m, so its smallest value is at an end of u_m: two minima of the known kind.

    phi >= constant + sum_m min_{y, u} [(beta_m + l_m u) sigma'(z_m + y) - lambda_m y - nu_m u]
           - r ||W^T lambda + U^T nu + c||
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from r2et.certificates.dual_bounds import ROUNDING, Bound, Terms
from r2et.enclosure.attributions import Attributions
from r2et.enclosure.ball import Ball
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.scalar_minima import Neurons, least


@dataclass(frozen=True)
class ProductTerms(Terms):
    """F functionals with two variables for each of h neurons: all y first, then all u.

    Attributes:
        lengths: of w, then 1 for each U, (2 h,).
        beta: beta, then l, (F, 2 h).
        low, high: ends of y, then of u, (F, 2 h).
        features: i and j, int64 (F, 2).
        units: U along feature i and along feature j, (F, 2, h).
        drift: c along these two, (F, 2).
        axes: what i and j are in the space of `weights`, (F, 2, d); None = the features themselves.
    """

    features: Tensor
    units: Tensor
    drift: Tensor
    axes: Tensor | None = None

    def _parts(self) -> tuple[str, ...]:
        own = ("features", "units", "drift") if self.axes is None else ("features", "units", "drift", "axes")
        return *super()._parts(), *own

    @property
    def bendable(self) -> bool:
        """No: there are two variables for each neuron."""
        return False

    def least(self, slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest value of each neuron's term less both slopes, (F, h), and its place, (F, 2 h)."""
        (beta, steep), (low, small), (high, large) = (_two(part) for part in (self.beta, self.low, self.high))
        slope, other = _two(slopes)
        ends = []
        for end in (small, large):
            value, place = least(self.activation, Neurons(beta + steep * end, self.z, low, high), slope)
            ends.append((value - other * end, place, end))
        first = ends[0][0] <= ends[1][0]
        # a value that is not a number stays one
        value = torch.minimum(ends[0][0], ends[1][0])
        y, u = (torch.where(first, ends[0][part], ends[1][part]) for part in (1, 2))
        return value, torch.cat([y, u], 1)

    def at(self, moves: Tensor) -> Tensor:
        """The terms at y and u = moves (F, 2 h), (F, h)."""
        (beta, steep), (y, u) = _two(self.beta), _two(moves)
        return (beta + steep * u) * self.activation.slope_at(self.z + y)

    def chord(self) -> Tensor:
        """Slopes from end to end, (F, 2 h)."""
        (beta, steep), (low, _), (high, _) = (_two(part) for part in (self.beta, self.low, self.high))
        left, right = self.activation.slope_at(self.z + low), self.activation.slope_at(self.z + high)
        width = high - low
        rise = torch.where(width > 0, beta * (right - left) / width, 0.0)
        return torch.cat([rise, steep * (left + right) / 2], 1)

    def tangent(self) -> Tensor:
        """Slopes at x, (F, 2 h)."""
        beta, steep = _two(self.beta)
        low, high = self.activation.curvature(self.z, self.z)
        return torch.cat([beta * (low + high) / 2, steep * self.activation.slope_at(self.z)], 1)

    def bound(self, slopes: Tensor) -> Bound:
        """L at multipliers (F, 2 h)."""
        values, places = self.least(slopes)
        slope, other = _two(slopes)
        along = (self.units * other.unsqueeze(1)).sum(2) + self.drift
        pull, norm, two = self._pull(slope @ self.weights, along)
        shorter = (-self.radius / norm.clamp_min(1e-300)).unsqueeze(1)
        step, two = pull * shorter, two * shorter
        moves = torch.cat([step @ self.weights.T, (self.units * two.unsqueeze(2)).sum(1)], 1)
        return Bound(
            value=self._charged(values, slopes, norm),
            places=places,
            moves=moves,
            gaps=self._gaps(slopes, places, moves, values),
            reached=self.constant + self.at(moves).sum(1) + (self.drift * two).sum(1),
        )

    def _pull(self, pull: Tensor, along: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors (F, d) in the space of the weights with `along` (F, 2) added along the two features.

        Returns:
            As much of them as lies in that space (F, d), their length (F,), and what they are along the features
            (F, 2).
        """
        if self.axes is None:
            pull = pull.scatter_add(1, self.features, along)
            return pull, pull.norm(dim=1), pull.gather(1, self.features)
        pull = pull + (self.axes * along.unsqueeze(2)).sum(1)
        # the features stick out of that space, and what sticks out of it are two vectors with these products
        same = self.features.unsqueeze(1) == self.features.unsqueeze(2)
        products = same.to(pull) - self.axes @ self.axes.mT
        out = (products @ along.unsqueeze(2)).squeeze(2)
        beside = (out * along).sum(1).clamp_min(0)
        return pull, (pull.square().sum(1) + beside).sqrt(), (self.axes @ pull.unsqueeze(2)).squeeze(2) + out

    def _gaps(self, slopes: Tensor, places: Tensor, moves: Tensor, values: Tensor) -> Tensor:
        """By how much each term grows if one of its two variables leaves its place for `moves`, (F, 2 h)."""
        (y, u), (to_y, to_u) = _two(places), _two(moves)
        gaps = []
        for moved in (torch.cat([to_y, u], 1), torch.cat([y, to_u], 1)):
            first, second = _two(slopes * moved)
            gaps.append(self.at(moved) - first - second - values)
        return torch.cat(gaps, 1)

    def _charged(self, values: Tensor, slopes: Tensor, norm: Tensor) -> Tensor:
        """Sums of the terms of L, less what the ball takes and what rounding may have added, (F,)."""
        ends = torch.maximum(self.low.abs(), self.high.abs())
        size = slopes.abs() * (2 * ends + self.radius.unsqueeze(1) * self.lengths)
        drift = self.drift.abs().sum(1) * self.radius
        lost = ROUNDING * (values.abs().sum(1) + size.sum(1) + drift + self.constant.abs())
        return self.constant + values.sum(1) - self.radius * norm * (1 + INFLATION) - lost


def _two(both: Tensor) -> tuple[Tensor, Tensor]:
    """What belongs to y and what to u, (F, h) each."""
    first, second = both.chunk(2, 1)
    return first, second


@dataclass(frozen=True)
class Products:
    """Gradient times input of N inputs on balls.

    Attributes:
        of: the attributions.
        ball: what the network does on the balls.
        ends: how far each pre-activation moves, at most, (N, h).
        layer: the number of the one layer that moves.
        direct: the rows of the base that belong to anything else, bool (K,).
    """

    of: Attributions
    ball: Ball
    ends: Tensor
    layer: int
    direct: Tensor

    def terms(self, rows: Tensor, pair: tuple[Tensor, ...]) -> tuple[ProductTerms, Tensor]:
        """Functionals a e_i + b e_j of inputs `rows`, each (F,), and their scale (F,)."""
        network, ball = self.of.network, self.ball
        i, a, j, b = pair
        factors, features = torch.stack([a, b], 1), torch.stack([i, j], 1)
        at = self.of.x[rows].gather(1, features)
        # the part of each feature, at x and for each unit that it moves, (F, 2, K)
        moving = self.of.directions[features] * (factors * self.of.moves[features]).unsqueeze(2)
        still = (self.of.directions[features] * (factors * at).unsqueeze(2)).sum(1)
        block, radius = network.blocks[self.layer], ball.time[rows]
        pull = ball.pulls[self.layer].center[rows]
        gain = moving[:, :, block] * pull.unsqueeze(1)
        steep = torch.hypot(gain[:, 0], gain[:, 1])
        beta = still[:, block] * pull
        constant, drift = self._constant(rows, still, moving)
        far = at.abs() + radius.unsqueeze(1)
        constant = constant - 2 * ball.error[rows] * (factors * far).norm(dim=1)
        scale = torch.maximum(beta.abs().amax(1), steep.amax(1))
        scale = torch.where(scale > 0, scale, 1.0)
        activation = network.layers[self.layer].activation
        assert activation is not None
        reach = torch.where(steep > 0, (radius * (1 + INFLATION)).unsqueeze(1), 0.0)
        ends = torch.cat([self.ends[rows], reach], 1)
        lengths = network.lengths[block]
        return ProductTerms(
            activation=activation,
            weights=network.frame[block],
            lengths=torch.cat([lengths, torch.ones_like(lengths)]),
            beta=torch.cat([beta, steep], 1) / scale.unsqueeze(1),
            z=ball.inner[self.layer][rows],
            low=-ends,
            high=ends,
            radius=radius,
            constant=constant / scale,
            features=features,
            units=torch.where(steep.unsqueeze(1) > 0, gain / steep.unsqueeze(1), 0.0),
            drift=drift / scale.unsqueeze(1),
            axes=None if network.basis is None else network.basis[features],
        ), scale

    def _constant(self, rows: Tensor, still: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
        """What no neuron that moves adds, less what boxes may take, (F,); and how it drifts, (F, 2)."""
        ball, block, radius = self.ball, self.of.network.blocks[self.layer], self.ball.time[rows]
        # of both features together: as much of a direction as a ball can move, and as much as there is
        size = still.abs() + radius.unsqueeze(1) * torch.hypot(moving[:, 0], moving[:, 1])
        # where more than two classes trade weights, what multiplies the slopes is in a box
        box = ball.pulls[self.layer].radius * ball.slopes[self.layer].magnitude
        constant = -(size[:, block] * box[rows]).sum(1)
        center, width = (part[:, self.direct][rows] for part in ball.cotangent)
        constant = constant + (still[:, self.direct] * center).sum(1)
        # the sum itself was rounded
        constant = constant - (size[:, self.direct] * (width + 1e-12 * center.abs())).sum(1)
        return constant, (moving[:, :, self.direct] * center.unsqueeze(1)).sum(2)
