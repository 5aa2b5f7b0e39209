"""The exact certificate of lists by contributions to an additive score: phi_c = f_c(x_c) - mean of f_c over rows.

These are its interventional Shapley values. Like a slope, a contribution depends on its column alone, so the same
search over thresholds is exact for it, with tables of values instead of slopes. No explainer is built on it yet.
"""

import torch
from torch import Tensor

from r2et.certificates.additive import limits_of
from r2et.certificates.thresholds import Lists
from r2et.enclosure.activations import Softplus
from r2et.enclosure.additive import tables
from r2et.enclosure.feature_pairs import TIE, FeaturePairs
from r2et.enclosure.network import INPUT, ROUNDING, Network


class ContributionLimits:
    """Limits (N, k) of lists by contributions, of one score of a network; its tables are made once.

    Args:
        network: additive, in float64; `network.movable` alone move, so that discrete columns are constants.
        direction: the score as a combination of logits, (C,).
        background: rows whose mean contribution is zero, (B, n).
    """

    def __init__(self, network: Network, direction: Tensor, background: Tensor) -> None:
        self.network, self.direction = network, direction
        self.means = self._values(background)[0].mean(0)
        self.table = tables(network, direction, self.means)

    def contributions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of every feature of rows x (N, n), and what rounding may have made of them, each (N, n)."""
        values, sizes = self._values(x)
        return values - self.means, ROUNDING * (sizes + self.means.abs())

    def __call__(self, x: Tensor, k: int, *, signed: bool = False) -> Tensor:
        """Radii below which at most 0, 1, ... k - 1 features leave the list, (N, k).

        Args:
            x: rows (N, n).
            k: length of the lists.
            signed: whether lists are by value, or by magnitude.
        """
        values, blur = self.contributions(x)
        opposite = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        lists = Lists.of(FeaturePairs.lists(values, k, signed), values, blur + TIE * values.abs(), opposite)
        if self.table is None:
            return limits_of(lists, lists.frozen())[0]
        features = self.table.features
        return limits_of(lists, lists.moves(self.table, x[:, features], features))[0]

    def _values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What features add to the score, and the sizes of the terms that make it, each (N, n)."""
        layer, logits = self.network.layers[0], self.network.logits
        assert isinstance(layer.activation, Softplus)
        weights = layer.matrices[INPUT]
        heights = self.direction @ logits.matrices.get(0, weights.new_zeros(len(self.direction), len(weights)))
        direct = logits.matrices.get(INPUT)
        linear = weights.new_zeros(weights.shape[1]) if direct is None else self.direction @ direct
        # a unit reads one feature, or none, and then it is a constant of the score
        owner = (weights != 0).to(weights)
        units = layer.activation.value(x @ weights.T + layer.bias)
        reach = x.abs() @ weights.abs().T + layer.bias.abs() + 1 / layer.activation.beta
        return (
            x * linear + (units * heights) @ owner,
            x.abs() * linear.abs() + (reach * heights.abs()) @ owner,
        )
