"""From logits to the score that is explained, with its derivatives on boxes of logits."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from r2et.enclosure.box import Box
from r2et.enclosure.jacobian import chain
from r2et.enclosure.network import INPUT, SMALLEST, Network
from r2et.enclosure.ranges import INFLATION
from r2et.scores import Score, runner_up_class


@dataclass(frozen=True)
class Head:
    """The score as a function of a few outputs, each a combination of logits: outputs = rows @ logits.

    A linear score (a logit, the margin, the log-odds of two classes, a single output) has one output. The log-odds
    of more classes,
    u_c - logsumexp of the others, depend on differences of logits alone: its outputs are the logits minus their
    mean under the softmax of the other classes at x, which keeps common changes out of the boxes.

    Attributes:
        rows: (N, rows, C).
        matrices: rows @ the matrices of the logits, for each source but the input, (N, rows, m).
        outputs: at x, (N, rows).
        others: bool (N, rows): the classes other than the explained one; None for a linear score.
    """

    rows: Tensor
    matrices: dict[int, Tensor]
    outputs: Tensor
    others: Tensor | None

    def only(self, rows: Tensor) -> "Head":
        """The head of some inputs, by their numbers (M,)."""
        matrices = {source: matrix[rows] for source, matrix in self.matrices.items()}
        others = None if self.others is None else self.others[rows]
        return Head(self.rows[rows], matrices, self.outputs[rows], others)

    @property
    def linear(self) -> bool:
        """Whether the score has no second derivative by the logits."""
        return self.others is None

    def weights(self, moved: Tensor) -> Box | None:
        """The softmax of the other classes when the outputs move by at most `moved` (N, rows); None if linear."""
        if self.others is None:
            return None
        low, high = self.outputs - moved, self.outputs + moved
        itself = torch.eye(low.shape[1], dtype=torch.bool, device=low.device)
        ends = []
        for own, rest in ((low, high), (high, low)):
            # w_j = 1 / (1 + sum over the classes i other than c and j of exp(u_i - u_j))
            pairs = torch.where(self.others.unsqueeze(1), rest.unsqueeze(1) - own.unsqueeze(2), -torch.inf)
            pairs = pairs.masked_fill(itself, 0.0)
            share = 1 / pairs.exp().sum(2)
            ends.append(torch.where(self.others, share, 0.0))
        box = Box.between(*ends)
        return Box(box.center, box.radius + INFLATION * ends[1])

    @cached_property
    def at_x(self) -> Tensor:
        """The weights at x, (N, rows)."""
        weights = self.weights(torch.zeros_like(self.outputs))
        assert weights is not None
        return weights.center

    def apart(self, weights: Box) -> Tensor:
        """How far weights in a box are from those at x, at most, (N, rows)."""
        return torch.maximum(weights.upper - self.at_x, self.at_x - weights.lower)

    def pace(self, weights: Box, heights: Tensor) -> Tensor:
        """How fast logarithms of weights move, at most, where outputs have slopes up to `heights`, (N, rows).

        The derivative of log w_j is that of output j, less its mean under w. As the mean under the weights at x
        is zero everywhere, what is left of it is due to the weights' difference from those at x.
        """
        # the outputs were centred in float64
        apart = self.apart(weights) + INFLATION
        return heights + (apart * heights).sum(1, keepdim=True)

    def closer(self, weights: Box, moved: Tensor) -> Box:
        """The part of a box (N, rows) that logarithms which move by at most `moved` (N, rows) leave of it."""
        start = self.at_x
        slack = INFLATION * (weights.upper + start)
        low, high = start * (-moved).exp() - slack, start * moved.exp() + slack
        # what is next to nothing has no digits to compare, and times infinity it is no number
        known = start > SMALLEST
        low, high = torch.where(known, low, weights.lower), torch.where(known, high, weights.upper)
        return Box.between(torch.maximum(weights.lower, low), torch.minimum(weights.upper, high))

    def slope(self, weights: Box | None) -> Box:
        """The derivative of the score by the outputs, box (N, rows)."""
        if weights is None or self.others is None:
            return Box.point(torch.ones_like(self.outputs))
        return Box((~self.others).to(weights.center) - weights.center, weights.radius)

    def jacobian(self, network: Network, slopes: list[Box], jacobians: list[Box | None], rows: int) -> Box:
        """The box of M with d outputs / dx = M base, (N, rows, K)."""
        center = self.rows.new_zeros(rows, self.rows.shape[1], len(network.base))
        radius = torch.zeros_like(center)
        number = len(network.layers)
        if number in network.blocks:
            center[..., network.blocks[number]] = self.rows
        for source, matrix in self.matrices.items():
            center, radius = chain(network, source, matrix, slopes, jacobians, center, radius)
        return Box(center, radius)


def head(network: Network, logits: Tensor, target: Tensor, score: Score, runner_up: Tensor | None = None) -> Head:
    """The head of a score at logits (N, C) of class `target` (N,).

    The margin is that over the class `runner_up` (N,); None = over the one that these logits put second.
    """
    classes = logits.shape[1]
    if classes == 1:
        return combination(network, logits, torch.ones_like(logits).unsqueeze(2))
    chosen = torch.nn.functional.one_hot(target, classes).to(logits)
    if score == "logit":
        return combination(network, logits, chosen.unsqueeze(1))
    if score == "margin":
        second = runner_up_class(logits, target) if runner_up is None else runner_up
        other = torch.nn.functional.one_hot(second, classes).to(logits)
        return combination(network, logits, (chosen - other).unsqueeze(1))
    if classes == 2:
        return combination(network, logits, (2 * chosen - 1).unsqueeze(1))
    weights = logits.masked_fill(chosen.bool(), -torch.inf).softmax(1)
    rows = torch.eye(classes).to(logits) - weights.unsqueeze(1)
    linear = combination(network, logits, rows)
    return Head(linear.rows, linear.matrices, linear.outputs, ~chosen.bool())


def combination(network: Network, logits: Tensor, rows: Tensor) -> Head:
    """A head whose outputs are given combinations (N, rows, C) of the logits (N, C), and nothing else."""
    matrices = {source: rows @ matrix for source, matrix in network.logits.matrices.items() if source != INPUT}
    return Head(rows, matrices, (rows @ logits.unsqueeze(2)).squeeze(2), None)
