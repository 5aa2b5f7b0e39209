"""Ranges of a function of one number and of its derivatives on intervals: what every enclosure rests on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_number, quoted

#: bounds are widened by this share, far more than rounding in float64 can take away
INFLATION = 1e-9


class EnclosedActivation(ABC):
    """An elementwise function z -> sigma(z), with ranges of its derivatives on intervals.

    Attributes:
        smooth: whether it has two continuous derivatives (or is treated as such, with `value_error` and
            `slope_error` saying how far off that is).
    """

    smooth: ClassVar[bool] = True

    @abstractmethod
    def value(self, z: Tensor) -> Tensor:
        """sigma(z), (N, m) -> (N, m)."""

    @abstractmethod
    def slope(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest and largest sigma' on [lower, upper], each (..., N, m)."""

    @abstractmethod
    def curvature(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest and largest sigma'' on [lower, upper], each (..., N, m)."""

    def slope_at(self, z: Tensor) -> Tensor:
        """sigma' at z as the backward pass takes it, also at a hinge, where `slope` leaves it open, (N, m)."""
        return self.slope(z, z)[0]

    def curvature_at(self, z: Tensor, slope: Tensor) -> Tensor:
        """sigma'' at z, (N, m), where sigma' is known; no bound, and near enough for a search."""
        return self.curvature(z, z)[0]

    def places(self, curvature: Tensor) -> tuple[Tensor, ...] | None:
        """Every z with sigma''(z) = curvature, tensors of its shape, NaN where there is none; None = not known."""
        return None

    def twist(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor] | None:
        """The smallest and largest sigma''' on [lower, upper], each (..., N, m); None = not known."""
        return None

    def value_error(self, upper: Tensor) -> Tensor | None:
        """How far what PyTorch computes may be from the sigma modelled here, below `upper`; None = nowhere."""
        return None

    def slope_error(self, upper: Tensor) -> Tensor | None:
        """The same for sigma'."""
        return None


class Smooth(EnclosedActivation):
    """An activation given by formulas for sigma, sigma', sigma'' and the points where these two turn.

    Args:
        value: sigma.
        slope: sigma'.
        curvature: sigma''.
        slope_turns: every point where sigma' has a local minimum or maximum.
        curvature_turns: the same for sigma''.
        places: from curvatures to every z with that curvature, NaN where there is none; without it, what needs
            such places divides intervals into pieces.
        twist: sigma'''; without it, what needs a third derivative does not apply.
        twist_turns: every point where sigma''' has a local minimum or maximum.

    >>> tanh = Smooth(torch.tanh, lambda z: 1 - torch.tanh(z) ** 2,
    ...               lambda z: -2 * torch.tanh(z) * (1 - torch.tanh(z) ** 2), (0.0,), (-0.6585, 0.6585))
    >>> lower, upper = tanh.slope(torch.tensor([-1.0]), torch.tensor([2.0]))
    >>> float(upper)
    1.0
    """

    def __init__(
        self,
        value: Callable[[Tensor], Tensor],
        slope: Callable[[Tensor], Tensor],
        curvature: Callable[[Tensor], Tensor],
        slope_turns: Sequence[float] = (),
        curvature_turns: Sequence[float] = (),
        *,
        places: Callable[[Tensor], tuple[Tensor, ...]] | None = None,
        twist: Callable[[Tensor], Tensor] | None = None,
        twist_turns: Sequence[float] = (),
    ) -> None:
        for name, function in (("value", value), ("slope", slope), ("curvature", curvature)):
            check_function(name, function)
        for turn in (*slope_turns, *curvature_turns, *twist_turns):
            check_number("turn", turn)
        for name, optional in (("places", places), ("twist", twist)):
            if optional is not None:
                check_function(name, optional)
        self._twist, self.twist_turns = twist, tuple(twist_turns)
        self._value, self._slope, self._curvature, self._places = value, slope, curvature, places
        self.slope_turns, self.curvature_turns = tuple(slope_turns), tuple(curvature_turns)

    def value(self, z: Tensor) -> Tensor:
        """sigma(z)."""
        return self._value(z)

    def slope(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """From the end points and the turning points between them."""
        return extent(self._slope, lower, upper, self.slope_turns)

    def curvature(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """From the end points and the turning points between them."""
        return extent(self._curvature, lower, upper, self.curvature_turns)

    def bend(self, z: Tensor) -> Tensor:
        """sigma'' at z by its formula, of any shape."""
        return self._curvature(z)

    def slope_at(self, z: Tensor) -> Tensor:
        """sigma' at z, (N, m)."""
        return self._slope(z)

    def curvature_at(self, z: Tensor, slope: Tensor) -> Tensor:
        """sigma'' at z, (N, m)."""
        return self._curvature(z)

    def places(self, curvature: Tensor) -> tuple[Tensor, ...] | None:
        """As given."""
        return None if self._places is None else self._places(curvature)

    def twist(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor] | None:
        """From the end points and the turning points between them."""
        return None if self._twist is None else extent(self._twist, lower, upper, self.twist_turns)


def extent(
    function: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor, turns: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """The range of a function on intervals [lower, upper], from its turning points; tensors of one shape.

    >>> extent(torch.cos, torch.tensor([-1.0]), torch.tensor([0.5]), (0.0,))
    (tensor([0.5403]), tensor([1.]))
    """
    check_function("function", function)
    for name, end in (("lower", lower), ("upper", upper)):
        if not isinstance(end, Tensor):
            raise InputError(f"{name} must be a tensor, got {name}={quoted(end)}")
    ends = function(lower), function(upper)
    least, most = torch.minimum(*ends), torch.maximum(*ends)
    for turn in turns:
        inside = (lower < turn) & (turn < upper)
        value = function(torch.as_tensor(turn, dtype=lower.dtype, device=lower.device))
        least = torch.where(inside, torch.minimum(least, value), least)
        most = torch.where(inside, torch.maximum(most, value), most)
    return least, most


def check_function(name: str, function: object) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise InputError(f"{name} must be a function of a tensor, got {name}={quoted(function)}")
