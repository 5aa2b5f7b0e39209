"""Functionals of the gradient of log-odds to second order, for one hidden layer and many classes, with errors.

The log-odds are o_c - logsumexp of the other outputs o = V sigma(z). These are centred: their mean under the
weights w of the other classes at x is zero, at x and everywhere. With a and v the derivatives of o along d and
along a line x + t delta, b that of a, and means under w, phi = sum_j pi_j a_j with pi = e_c - w has

    phi'' = sum_j kappa_j v_j^2 + 2 sum_j rho_j v_j b_j + sum_i D_i y_i^2
            + 2 mean(v) (mean(b) - sum_j kappa_j v_j),

y = W_1 delta, rho = -w, kappa = -w (a - mean(a)), D_i = sigma''_i (V^T kappa)_i + sigma'''_i (W_1 d)_i (V^T pi)_i.
At x the second line is zero, and the first as for two hidden layers. How far they drift on a ball is enclosed.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.attributions import Attributions
from r2et.enclosure.drift import LAST_DIGITS, Derivatives, at_point, drifted
from r2et.enclosure.network import INPUT, Network
from r2et.enclosure.ranges import INFLATION
from r2et.enclosure.second_order import Around, Errors, SecondOrder, Sizes, coordinates, inverse, known_twists


def why_not_classes(network: Network) -> str | None:
    """Why log-odds of more than two classes are not expanded for a network; None if they are."""
    if len(network.layers) != 1 or set(network.layers[0].matrices) != {INPUT}:
        layers = len(network.layers)
        return f"with more than two classes it is for networks of one hidden layer, and this one has {layers}"
    if set(network.logits.matrices) != {0}:
        return "with more than two classes it is for logits that read the hidden layer alone"
    return known_twists(network)


@dataclass(frozen=True)
class ClassDrift:
    """How far what is known at x drifts on each of T balls around N inputs.

    Attributes:
        times: radii of the balls, (N, T).
        first: derivatives of the hidden layer, (N, T, h).
        weights: those of the classes, (N, T, C).
        values: what bounds e = v - v_0 on the unit ball, (N, T, C).
        loss: how much a derivative in a direction of length 1 may differ from what PyTorch computes, (N, T).
    """

    times: Tensor
    first: Derivatives
    weights: Tensor
    values: Tensor
    loss: Tensor


@dataclass(frozen=True)
class ClassExpanded(SecondOrder):
    """F functionals of log-odds; `tangent` is a at x, and h_2 is the number of classes C."""

    of: "ClassExpansion"

    @cached_property
    def kappa(self) -> Tensor:
        """-w a at x, (F, C)."""
        return self.of.rho[self.rows] * self.tangent

    @cached_property
    def pulled(self) -> Tensor:
        """V^T kappa at x, (F, h)."""
        return _times(self.kappa, self.of.second[self.rows])

    @cached_property
    def turning(self) -> Tensor:
        """B with b_0 = B delta, (F, C, c)."""
        inner = self.hidden * self.of.at_first.bend[self.rows]
        return (self.of.second[self.rows] * inner.unsqueeze(1)) @ self.of.first

    @cached_property
    def slope_error(self) -> Tensor:
        """What rounding may have done to the length of `slope`, (F,)."""
        of, rows, hidden = self.of, self.rows, self.hidden.abs()
        at = of.at_first.of(rows)
        sizes = hidden * at.bend.abs() * of.pull_size[rows] * of.lengths
        tangent = (of.size[rows] @ (hidden * at.slope.abs()).unsqueeze(2)).squeeze(2)
        others = of.rho[rows].abs() * tangent * of.jacobian_size[rows]
        return LAST_DIGITS * (sizes.sum(1) + others.sum(1))

    def errors(self, drift: ClassDrift) -> Errors:
        """How phi'' moves on each of T balls."""
        matrix, first = self.of.second[self.rows].abs(), drift.first.of(self.rows)
        at = self.of.at_first.of(self.rows)
        most = Derivatives(*(there.abs().unsqueeze(1) + moved for there, moved in zip(at, first, strict=True)))
        sizes = self._sizes(drift.weights[self.rows], first, most, matrix)
        errors = self.products(sizes, first, drift.values[self.rows], matrix)
        bent, means = self._bent(sizes, first, most, matrix), self._means(sizes, first, most, matrix)
        return errors.plus(bent).plus(means).inflated()

    @property
    def _hidden_size(self) -> Tensor:
        return self.hidden.abs().unsqueeze(1)

    def _sizes(self, moved: Tensor, first: Derivatives, most: Derivatives, matrix: Tensor) -> Sizes:
        """Those of kappa = -w (a - mean(a)) and rho = -w, whose weights move by `moved` (F, T, C)."""
        weight, tangent = self.of.rho[self.rows].abs().unsqueeze(1), self.tangent.abs().unsqueeze(1)
        tangent_moved = (self._hidden_size * first.slope) @ matrix.mT
        mean = (moved * (tangent + tangent_moved)).sum(2, keepdim=True)
        mean = mean + (self._off * self._hidden_size * most.slope).sum(2, keepdim=True)
        kappa_moved = moved * tangent + (weight + moved) * (tangent_moved + mean)
        return Sizes(kappa_moved + weight * tangent, kappa_moved, weight + moved, moved)

    @property
    def _off(self) -> Tensor:
        return self.of.off[self.rows].unsqueeze(1)

    def _bent(self, sizes: Sizes, first: Derivatives, most: Derivatives, matrix: Tensor) -> Errors:
        """How far D moves."""
        of, rows = self.of, self.rows
        pull, size = of.pull[rows].abs().unsqueeze(1), of.pull_size[rows].unsqueeze(1)
        pull_moved = sizes.rho_moved @ matrix + LAST_DIGITS * size
        inner = self._hidden_size * (first.twist * pull + most.twist * pull_moved)
        inner = inner + first.bend * self.pulled.abs().unsqueeze(1) + most.bend * (sizes.kappa_moved @ matrix)
        return Errors(inner, torch.zeros_like(sizes.kappa), torch.zeros_like(sizes.kappa))

    def _means(self, sizes: Sizes, first: Derivatives, most: Derivatives, matrix: Tensor) -> Errors:
        """What 2 mean(v) (mean(b) - sum_j kappa_j v_j) is, at most: means are those of the weights' difference."""
        moved, u = sizes.rho_moved, self._hidden_size
        through = moved @ matrix
        mean = Errors(first.slope * through + self._off * most.slope, moved, torch.zeros_like(moved))
        other = first.slope * (sizes.kappa @ matrix) + u * (first.bend * through + self._off * most.bend)
        lengths = (
            self.of.lengths,
            self.of.jacobian_lengths[self.rows].unsqueeze(1),
            self.turning_lengths.unsqueeze(1),
        )
        return crossed(mean, Errors(other, sizes.kappa, moved), Errors(*lengths))


def crossed(one: Errors, other: Errors, lengths: Errors) -> Errors:
    """Weights of squares for twice the product of two sums.

    Args:
        one: coefficients of |y|, |v_0| and |b_0| in a sum, (F, T, h).
        other: those of the other sum.
        lengths: what these are at most on the unit ball, which is the scale of each.

    >>> length = torch.tensor([[[2.0]]])
    >>> each = Errors(length / 2, length * 0, length * 0)
    >>> crossed(each, each, Errors(length, length, length)).first               # 2 |y| |y|
    tensor([[[2.]]])
    """
    whole = [
        torch.stack([(part * length).sum(2) for part, length in zip(each, lengths, strict=True)])
        .sum(0)
        .unsqueeze(2)
        for each in (one, other)
    ]
    parts = zip(one, other, lengths, strict=True)
    return Errors(*((first * whole[1] + second * whole[0]) * inverse(length) for first, second, length in parts))


class ClassExpansion(Around):
    """A network of one hidden layer around N inputs whose log-odds are explained, to second order.

    Attributes:
        first: W_1 by the c coordinates, (h, c).
        second: V, the centred matrix of the logits, (N, C, h).
        size: what entries of V were computed from, (N, C, h).
    """

    def __init__(self, of: Attributions) -> None:
        network, head = of.network, of.head
        self.of = of
        self.first = coordinates(network.moving)[network.blocks[0]]
        self.lengths: Tensor = network.lengths[network.blocks[0]] * (1 + INFLATION)
        self.second = head.matrices[0]
        self.size = head.rows.abs() @ network.logits.matrices[0].abs()
        self.at_first = at_point(network.layers[0].activation, network.forward(of.x)[0][0])

    @cached_property
    def rho(self) -> Tensor:
        """Less the weights of the classes at x, (N, C)."""
        return -self.of.head.at_x

    @cached_property
    def pi(self) -> Tensor:
        """The derivative of the score by the outputs at x, (N, C)."""
        assert self.of.head.others is not None
        return (~self.of.head.others).to(self.rho) + self.rho

    @cached_property
    def off(self) -> Tensor:
        """How far rounding may have left the mean of V under the weights at x from zero, (N, h)."""
        return LAST_DIGITS * _times(self.rho.abs(), self.size)

    @cached_property
    def pull(self) -> Tensor:
        """The derivative of the score by the activations at x, (N, h)."""
        return _times(self.pi, self.second)

    @cached_property
    def pull_size(self) -> Tensor:
        """Sums of the absolute terms of `pull`, (N, h)."""
        return _times(self.pi.abs(), self.size)

    @cached_property
    def jacobian(self) -> Tensor:
        """J with v_0 = J delta, (N, C, c)."""
        return (self.second * self.at_first.slope.unsqueeze(1)) @ self.first

    @cached_property
    def jacobian_size(self) -> Tensor:
        """What these would be if nothing cancelled, at most, (N, C)."""
        return (self.size @ (self.at_first.slope.abs() * self.lengths).unsqueeze(2)).squeeze(2)

    def expanded(self, rows: Tensor, i: Tensor, a: Tensor, j: Tensor, b: Tensor) -> ClassExpanded:
        """Functionals a e_i + b e_j of inputs `rows`, each (F,)."""
        directions = self.of.directions[:, self.of.network.blocks[0]]
        hidden = directions[i] * a.unsqueeze(1) + directions[j] * b.unsqueeze(1)
        outer = (self.second[rows] @ (hidden * self.at_first.slope[rows]).unsqueeze(2)).squeeze(2)
        return ClassExpanded(self, rows, hidden, outer)

    def drift(self, times: Tensor) -> ClassDrift:
        """What drifts on balls of radii `times` (N, T), in increasing order."""
        enclosed, network, head = self.of.on_balls(times), self.of.network, self.of.head
        spreads = torch.stack([ball.spreads[0] for ball in enclosed.balls], 1)
        first = drifted(network.layers[0].activation, self.at_first, enclosed.balls[0].inner[0], spreads)
        boxes = [ball.weights for ball in enclosed.balls if ball.weights is not None]
        weights = torch.stack([head.apart(box) for box in boxes], 1) + LAST_DIGITS * head.at_x.unsqueeze(1)
        values = (first.slope * self.lengths) @ self.second.abs().mT
        return ClassDrift(times, first, weights, values, 2 * enclosed.error)


def _times(rows: Tensor, matrices: Tensor) -> Tensor:
    """(F, C) times matrices (F, C, h), (F, h)."""
    return (rows.unsqueeze(1) @ matrices).squeeze(1)
