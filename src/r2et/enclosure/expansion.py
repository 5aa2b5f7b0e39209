"""Functionals of the gradient to second order, for networks of two hidden layers, with the errors of that.

Along a line x + t delta the functional phi = sum_l q_l sigma'(z_2l) a_l, a = W_2 (sigma'(z_1) * W_1 d), has

    phi'' = sum_l kappa_l v_l^2 + 2 sum_l rho_l v_l b_l + sum_i D_i y_i^2,

y = W_1 delta, v and b the derivatives of z_2 and of a, kappa = q sigma''' a, rho = q sigma'', D what the first
layer bends. All of them are known at x, and how far they drift on a ball is enclosed. With v_0 and b_0 those at x,
which are linear in delta, what that adds to phi'' is at most

    sum_l omega_l v_0l^2 + sum_l nu_l b_0l^2 + sum_i c_i y_i^2.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.attributions import Attributions
from r2et.enclosure.drift import LAST_DIGITS, Drift, at_point, drifted
from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.second_order import Around, Errors, SecondOrder, Sizes, coordinates, known_twists


def why_not_expanded(network: Network) -> str | None:
    """Why functionals of a network are not expanded; None if they are."""
    if len(network.layers) != 2 or INPUT not in network.layers[0].matrices or 0 not in network.layers[1].matrices:
        return f"it is for networks of two hidden layers, and this one has {len(network.layers)}"
    return known_twists(network)


@dataclass(frozen=True)
class Expanded(SecondOrder):
    """F functionals of a network of two hidden layers; `tangent` is a at x."""

    of: "Expansion"

    @cached_property
    def kappa(self) -> Tensor:
        """q sigma''' a of the second layer at x, (F, h_2)."""
        return self.of.q[self.rows] * self.of.at_second.twist[self.rows] * self.tangent

    @cached_property
    def pulled(self) -> Tensor:
        """sum_l W_li rho_l a_l at x, what the second layer's bend sends back, (F, h_1)."""
        return (self.of.rho[self.rows] * self.tangent) @ self.of.second

    @cached_property
    def turning(self) -> Tensor:
        """B with b_0 = B delta, (F, h_2, c)."""
        inner = self.hidden * self.of.at_first.bend[self.rows]
        return (self.of.second * inner.unsqueeze(1)) @ self.of.first

    @cached_property
    def slope_error(self) -> Tensor:
        """What rounding may have done to the length of `slope`, (F,)."""
        of, rows = self.of, self.rows
        sizes = self.hidden.abs() * of.at_first.bend[rows].abs() * of.pull_size[rows] * of.lengths
        tangent = (self.hidden.abs() * of.at_first.slope[rows].abs()) @ of.second.abs().T + self.tangent.abs()
        others = of.rho[rows].abs() * tangent * of.jacobian_size[rows]
        return LAST_DIGITS * (sizes.sum(1) + others.sum(1))

    def errors(self, drift: Drift) -> Errors:
        """How phi'' moves on each of T balls."""
        of, rows = self.of, self.rows
        weights, u, tangent = of.second.abs(), self.hidden.abs().unsqueeze(1), self.tangent.abs().unsqueeze(1)
        first, second = drift.first.of(rows), drift.second.of(rows)
        at, beyond = (part.of(rows) for part in (of.at_first, of.at_second))
        q, rho = of.q[rows].abs().unsqueeze(1), of.rho[rows].abs().unsqueeze(1)
        tangent_moved = (u * first.slope) @ weights.T
        twist = beyond.twist.abs().unsqueeze(1)
        kappa_moved = q * (second.twist * tangent + (twist + second.twist) * tangent_moved)
        kappa = kappa_moved + q * twist * tangent
        rho_moved = q * second.bend
        rho = rho + rho_moved
        sent_back = (rho_moved * tangent + rho * tangent_moved) @ weights
        bends, twists = at.bend.abs().unsqueeze(1), at.twist.abs().unsqueeze(1)
        inner = u * (first.twist * of.pull[rows].abs().unsqueeze(1) + (twists + first.twist) * drift.pull[rows])
        inner = inner + first.bend * self.pulled.abs().unsqueeze(1) + (bends + first.bend) * sent_back
        sizes = Sizes(kappa, kappa_moved, rho, rho_moved)
        bent = Errors(inner, torch.zeros_like(kappa), torch.zeros_like(kappa))
        return self.products(sizes, first, drift.values[rows], weights).plus(bent).inflated()


class Expansion(Around):
    """A network of two hidden layers around N inputs, to second order.

    Coordinates of the ball are the features, or directions that the rows of the base span if these are fewer.

    Attributes:
        first: W_1 by the c coordinates, (h_1, c).
        second: W_2, (h_2, h_1).
        q: the derivative of the score by the second activations, (N, h_2).
    """

    def __init__(self, of: Attributions) -> None:
        network, head = of.network, of.head
        self.of = of
        moving = coordinates(network.moving)
        self.first = moving[network.blocks[0]]
        self.lengths: Tensor = network.lengths[network.blocks[0]] * (1 + INFLATION)
        self.second = network.layers[1].matrices[0]
        self.q = _matrix(head.matrices, 1, len(of.x), len(self.second), of.x)
        self.direct = _matrix(head.matrices, 0, len(of.x), len(self.first), of.x)
        self.skip = moving[network.blocks[1]] if 1 in network.blocks else None
        inner, _ = network.forward(of.x)
        self.at_first, self.at_second = (
            at_point(layer.activation, z) for layer, z in zip(network.layers, inner, strict=True)
        )

    @cached_property
    def rho(self) -> Tensor:
        """q sigma'' of the second layer, (N, h_2)."""
        return self.q * self.at_second.bend

    @cached_property
    def pull(self) -> Tensor:
        """The derivative of the score by the first activations at x, (N, h_1)."""
        return self.direct + (self.q * self.at_second.slope) @ self.second

    @cached_property
    def pull_size(self) -> Tensor:
        """Sums of the absolute terms of `pull`, (N, h_1)."""
        return self.direct.abs() + (self.q * self.at_second.slope).abs() @ self.second.abs()

    @cached_property
    def jacobian(self) -> Tensor:
        """J with v_0 = J delta, (N, h_2, c)."""
        inner = (self.second * self.at_first.slope.unsqueeze(1)) @ self.first
        return inner if self.skip is None else inner + self.skip

    @cached_property
    def jacobian_size(self) -> Tensor:
        """What these would be if nothing cancelled, at most, (N, h_2)."""
        size = (self.at_first.slope.abs() * self.lengths) @ self.second.abs().T
        return size if self.skip is None else size + self.skip.norm(dim=1)

    def expanded(self, rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> Expanded:
        """Functionals a e_i + b e_j of inputs `rows`, each (F,)."""
        network, directions = self.of.network, self.of.directions
        tangent = directions[i] * a.unsqueeze(1) + directions[j] * b.unsqueeze(1)
        hidden = tangent[:, network.blocks[0]]
        outer = (hidden * self.at_first.slope[rows]) @ self.second.T
        if 1 in network.blocks:
            outer = outer + tangent[:, network.blocks[1]]
        return Expanded(self, rows, hidden, outer)

    def drift(self, times: Tensor) -> Drift:
        """What drifts on balls of radii `times` (N, T), in increasing order."""
        enclosed, network = self.of.on_balls(times), self.of.network
        layers = zip(network.layers, (self.at_first, self.at_second), strict=True)
        first, second = (
            drifted(
                layer.activation,
                at,
                enclosed.balls[0].inner[n],
                torch.stack([b.spreads[n] for b in enclosed.balls], 1),
            )
            for n, (layer, at) in enumerate(layers)
        )
        weights = self.second.abs()
        pull = (self.q.abs().unsqueeze(1) * second.slope) @ weights
        values = (first.slope * self.lengths) @ weights.T
        return Drift(times, first, second, pull, values, 2 * enclosed.error)


def _matrix(matrices: dict[int, Tensor], source: int, rows: int, size: int, like: Tensor) -> Tensor:
    """What multiplies the activations of a layer in the score, (N, size); 0 where nothing does."""
    return matrices[source][:, 0] if source in matrices else like.new_zeros(rows, size)
