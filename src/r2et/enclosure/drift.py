"""How far the derivatives of activations drift from those at x while a ball grows."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from r2et.enclosure.ranges import INFLATION, EnclosedActivation

#: what the last digits of a sum may be wrong by, as a share of its absolute terms
LAST_DIGITS = 1e-12


class Derivatives(NamedTuple):
    """sigma', sigma'' and sigma''' of one layer, or how far each of them drifts; all of one shape."""

    slope: Tensor
    bend: Tensor
    twist: Tensor

    def of(self, rows: Tensor) -> "Derivatives":
        """Those of some inputs, by their numbers (F,)."""
        return Derivatives(self.slope[rows], self.bend[rows], self.twist[rows])


@dataclass(frozen=True)
class Drift:
    """How far what is known at x drifts on each of T balls around N inputs.

    Attributes:
        times: radii of the balls, (N, T).
        first, second: derivatives of the layers, (N, T, h).
        pull: the derivative of the score by the first activations, (N, T, h_1).
        values: what bounds e = v - v_0 on the unit ball, (N, T, h_2).
        loss: how much a derivative in a direction of length 1 may differ from what PyTorch computes, (N, T).
    """

    times: Tensor
    first: Derivatives
    second: Derivatives
    pull: Tensor
    values: Tensor
    loss: Tensor


def at_point(activation: EnclosedActivation | None, z: Tensor) -> Derivatives:
    """The derivatives at z (N, m)."""
    assert activation is not None
    twist = activation.twist(z, z)
    assert twist is not None
    return Derivatives(activation.slope(z, z)[0], activation.curvature(z, z)[0], twist[0])


def drifted(activation: EnclosedActivation | None, at: Derivatives, z: Tensor, spread: Tensor) -> Derivatives:
    """How far derivatives are from those at z (N, m), at most, within each spread (N, T, m), (N, T, m).

    >>> from r2et.enclosure.activations import Softplus
    >>> z = torch.zeros(1, 1, dtype=torch.float64)
    >>> far = drifted(Softplus(), at_point(Softplus(), z), z, z.unsqueeze(1) + 2.0)
    >>> [round(float(part), 4) for part in far]                     # slopes from .12 to .88 around .5
    [0.3808, 0.145, 0.0962]
    """
    assert activation is not None
    wide = spread * (1 + INFLATION)
    ends = z.unsqueeze(1) - wide, z.unsqueeze(1) + wide
    twist = activation.twist(*ends)
    assert twist is not None
    ranges = activation.slope(*ends), activation.curvature(*ends), twist
    return Derivatives(*(_apart(value.unsqueeze(1), *each) for value, each in zip(at, ranges, strict=True)))


def _apart(value: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How far a range reaches from a value, with more than rounding may take from it."""
    farthest = torch.maximum(high - value, value - low)
    return farthest * (1 + INFLATION) + LAST_DIGITS * torch.maximum(high.abs(), low.abs())
