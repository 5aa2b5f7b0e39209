"""What functionals that are known to second order have in common, and the squares that bound their errors.

Along a line x + t delta such a functional has the second derivative

    phi'' = sum_l kappa_l v_l^2 + 2 sum_l rho_l v_l b_l + sum_i D_i y_i^2,

y = W_1 delta, v the derivative of what comes after the first layer, b that of its derivative along d. With v_0 and
b_0 those at x, which are linear in delta, what a ball adds to phi'' is at most

    sum_l omega_l v_0l^2 + sum_l nu_l b_0l^2 + sum_i c_i y_i^2.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.drift import Derivatives
from r2et.enclosure.network import Network
from r2et.enclosure.ranges import INFLATION


class Errors(NamedTuple):
    """Weights of squares that bound how phi'' moves on each of T balls.

    Attributes:
        first: of y, (F, T, h_1).
        second: of v_0, (F, T, h_2).
        turned: of b_0, (F, T, h_2).
    """

    first: Tensor
    second: Tensor
    turned: Tensor

    def mean(self, weights: Tensor) -> "Errors":
        """Weighted sums over the balls, weights (F, T), each without its second axis."""
        return Errors(*(torch.einsum("ft,fth->fh", weights, part) for part in self))

    def plus(self, other: "Errors") -> "Errors":
        """The errors of a sum."""
        return Errors(*(one + two for one, two in zip(self, other, strict=True)))

    def inflated(self) -> "Errors":
        """With more than rounding may take from them."""
        return Errors(*(part * (1 + INFLATION) for part in self))


class Sizes(NamedTuple):
    """Upper bounds of |kappa| and |rho| on each of T balls, and of how far they move, each (F, T, h_2)."""

    kappa: Tensor
    kappa_moved: Tensor
    rho: Tensor
    rho_moved: Tensor


class Around(ABC):
    """A network around N inputs.

    Attributes:
        first: W_1 by the c coordinates of the ball, (h_1, c).
        lengths: upper bounds of the norms of its rows, (h_1,).
        at_first: derivatives of the first layer at x, (N, h_1).
    """

    first: Tensor
    lengths: Tensor
    at_first: Derivatives

    @property
    @abstractmethod
    def rho(self) -> Tensor:
        """At x, (N, h_2)."""

    @property
    @abstractmethod
    def pull(self) -> Tensor:
        """The derivative of the score by the first activations at x, (N, h_1)."""

    @property
    @abstractmethod
    def jacobian(self) -> Tensor:
        """J with v_0 = J delta, (N, h_2, c)."""

    @cached_property
    def jacobian_lengths(self) -> Tensor:
        """Norms of its rows, (N, h_2)."""
        lengths: Tensor = self.jacobian.norm(dim=2)
        return lengths


@dataclass(frozen=True)
class SecondOrder(ABC):
    """F functionals to second order, in c coordinates of the ball.

    Attributes:
        of: the network and inputs.
        rows: the input of each, (F,).
        hidden: W_1 d, (F, h_1).
        tangent: the derivative along d of what comes after the first layer, at x, (F, h_2).
    """

    of: Around
    rows: Tensor
    hidden: Tensor
    tangent: Tensor

    @property
    @abstractmethod
    def kappa(self) -> Tensor:
        """At x, (F, h_2)."""

    @property
    @abstractmethod
    def pulled(self) -> Tensor:
        """What multiplies sigma'' of the first layer in D, at x, (F, h_1)."""

    @property
    @abstractmethod
    def turning(self) -> Tensor:
        """B with b_0 = B delta, (F, h_2, c)."""

    @property
    @abstractmethod
    def slope_error(self) -> Tensor:
        """What rounding may have done to the length of `slope`, (F,)."""

    @abstractmethod
    def errors(self, drift: Any) -> Errors:
        """How phi'' moves on each of T balls, from what its own kind of network drifts by."""

    @cached_property
    def turning_lengths(self) -> Tensor:
        """Norms of the rows of B, (F, h_2)."""
        lengths: Tensor = self.turning.norm(dim=2)
        return lengths

    @cached_property
    def slope(self) -> Tensor:
        """The gradient of phi at x, (F, c)."""
        of, rows = self.of, self.rows
        inner = self.hidden * of.at_first.bend[rows] * of.pull[rows]
        outer = of.rho[rows] * self.tangent
        return inner @ of.first + (outer.unsqueeze(1) @ of.jacobian[rows]).squeeze(1)

    def curvature(self, errors: Errors) -> Tensor:
        """The smallest curvature that errors (F, h) leave: phi'' >= delta^T this delta, (F, c, c)."""
        of, rows = self.of, self.rows
        jacobian, turning = of.jacobian[rows], self.turning
        inner = self._first_bend() - errors.first
        kappa = self.kappa - errors.second
        crossed = of.rho[rows].unsqueeze(2) * jacobian - errors.turned.unsqueeze(2) * turning / 2
        half = jacobian.mT @ (kappa.unsqueeze(2) * jacobian / 2) + turning.mT @ crossed
        half = half + of.first.T @ (inner.unsqueeze(2) * of.first / 2)
        return half + half.mT

    def no_errors(self) -> Errors:
        """As if nothing moved: with these, `curvature` is that at x."""
        first, second = torch.zeros_like(self.hidden), torch.zeros_like(self.tangent)
        return Errors(first, second, second)

    def _first_bend(self) -> Tensor:
        """D at x, (F, h_1)."""
        at = self.of.at_first.of(self.rows)
        return self.hidden * at.twist * self.of.pull[self.rows] + at.bend * self.pulled

    def products(self, sizes: Sizes, first: Derivatives, values: Tensor, weights: Tensor) -> Errors:
        """What v = v_0 + e and b = b_0 + f do to products of two of them: squares, each on its own scale.

        Args:
            sizes: of kappa and rho.
            first: how far derivatives of the first layer drift, (F, T, h_1).
            values: bounds e on the unit ball, (F, T, h_2).
            weights: absolute values of the matrix after the first layer, (h_2, h_1) or (F, h_2, h_1).
        """
        of, u = self.of, self.hidden.abs().unsqueeze(1)
        v, b = of.jacobian_lengths[self.rows].unsqueeze(1), self.turning_lengths.unsqueeze(1)
        e, f = values, (u * first.bend * of.lengths) @ weights.mT
        kappa, kappa_moved, rho, rho_moved = sizes
        inner = first.slope * ((kappa * (v + e) + rho * (b + f)) @ weights)
        inner = inner + u * first.bend * ((rho * (v + e)) @ weights)
        outer = kappa_moved + (kappa * e + rho_moved * b + rho * f) * inverse(v)
        turned = (rho_moved * v + rho * e) * inverse(b)
        return Errors(inner * inverse(of.lengths), outer, turned)


def known_twists(network: Network) -> str | None:
    """Which activation of a network has no third derivative that is known; None if all have one."""
    at = torch.zeros(1, 1, dtype=network.base.dtype, device=network.base.device)
    for layer in network.layers:
        if layer.activation is None or not layer.activation.smooth or layer.activation.twist(at, at) is None:
            return f"the third derivative of layer {layer.name!r} is not known"
    return None


def coordinates(moving: Tensor) -> Tensor:
    """Rows with the same products with each other, in as few coordinates as there are rows or columns, (K, c).

    >>> wide = torch.tensor([[3.0, 0.0, 4.0]])
    >>> float(coordinates(wide).abs())
    5.0
    """
    if moving.shape[1] <= moving.shape[0]:
        return moving
    fewer: Tensor = torch.linalg.qr(moving.T, mode="r").R.T
    return fewer


def inverse(values: Tensor) -> Tensor:
    """1 / values, and 0 where what they are the scale of is 0.

    >>> inverse(torch.tensor([4.0, 0.0]))
    tensor([0.2500, 0.0000])
    """
    inverted: Tensor = torch.where(values > 0, 1 / values, 0.0)
    return inverted
