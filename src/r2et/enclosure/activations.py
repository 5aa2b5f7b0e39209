"""The activations that are known, with ranges of their derivatives, and the hook that makes another one known."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from r2et.enclosure.ranges import EnclosedActivation, Smooth, check_function
from r2et.errors import InputError, ModelError
from r2et.numerics.values import quoted

#: where the third derivative of tanh turns, beside 0: tanh^2 = 2 / 3
TANH_TWIST = math.atanh(math.sqrt(2 / 3))


class Softplus(Smooth):
    """log(1 + exp(beta z)) / beta; PyTorch replaces it by z above beta z = threshold, which is accounted for."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        if beta <= 0:
            raise ModelError(f"Softplus(beta={beta:g}) has no enclosure: beta must be above 0")

        def slope(z: Tensor) -> Tensor:
            return torch.sigmoid(beta * z)

        def curvature(z: Tensor) -> Tensor:
            return beta * torch.sigmoid(beta * z) * torch.sigmoid(-beta * z)

        def places(wanted: Tensor) -> tuple[Tensor, ...]:
            # p (1 - p) = c with p = sigmoid(beta z); no difference of near numbers, however small c is
            c = wanted / beta
            place = torch.log((1 + (1 - 4 * c).sqrt()) ** 2 / (4 * c)) / beta
            return place, -place

        def twist(z: Tensor) -> Tensor:
            # 1 - 2 p = -tanh(beta z / 2), without a difference of near numbers
            return -beta * curvature(z) * torch.tanh(beta * z / 2)

        turn = math.log(2 + math.sqrt(3)) / beta
        super().__init__(
            lambda z: F.softplus(z, beta, threshold),
            slope,
            curvature,
            (),
            (0.0,),
            places=places,
            twist=twist,
            twist_turns=(-turn, turn),
        )
        self.beta, self.switch = beta, threshold / beta
        below = torch.tensor(-threshold, dtype=torch.float64)
        # log(1 + exp(-threshold)), also where that overflows
        self.value_jump = float(torch.logaddexp(below, torch.zeros_like(below))) / beta
        self.slope_jump = float(torch.sigmoid(below))

    def curvature_at(self, z: Tensor, slope: Tensor) -> Tensor:
        """beta sigma' (1 - sigma')."""
        return (slope - slope * slope).mul_(self.beta)

    def value_error(self, upper: Tensor) -> Tensor:
        """The jump at the switch, where it may be reached."""
        return (upper >= self.switch).to(upper) * self.value_jump

    def slope_error(self, upper: Tensor) -> Tensor:
        """The jump at the switch, where it may be reached."""
        return (upper >= self.switch).to(upper) * self.slope_jump


def _sigmoid() -> Smooth:
    def slope(z: Tensor) -> Tensor:
        return torch.sigmoid(z) * torch.sigmoid(-z)

    def curvature(z: Tensor) -> Tensor:
        return slope(z) * (1 - 2 * torch.sigmoid(z))

    turn = math.log(2 + math.sqrt(3))
    # t = tanh(z / 2): sigma'' = -t (1 - t^2) / 4
    return Smooth(
        torch.sigmoid,
        slope,
        curvature,
        (0.0,),
        (-turn, turn),
        places=lambda wanted: tuple(2 * place for place in _cubic_places(-4 * wanted)),
        twist=lambda z: slope(z) * (1 - 6 * slope(z)),
        twist_turns=(-2 * TANH_TWIST, 0.0, 2 * TANH_TWIST),
    )


def _tanh() -> Smooth:
    def slope(z: Tensor) -> Tensor:
        return 4 * torch.sigmoid(2 * z) * torch.sigmoid(-2 * z)

    def curvature(z: Tensor) -> Tensor:
        return -2 * torch.tanh(z) * slope(z)

    turn = math.atanh(1 / math.sqrt(3))
    # t = tanh(z): sigma'' = -2 t (1 - t^2)
    return Smooth(
        torch.tanh,
        slope,
        curvature,
        (0.0,),
        (-turn, turn),
        places=lambda wanted: _cubic_places(-wanted / 2),
        twist=lambda z: slope(z) * (4 - 6 * slope(z)),
        twist_turns=(-TANH_TWIST, 0.0, TANH_TWIST),
    )


def _cubic_places(right: Tensor) -> tuple[Tensor, Tensor]:
    """The two z with t - t^3 = right for t = tanh(z), NaN where there are none."""
    size = right.abs()
    angle = (1.5 * math.sqrt(3) * size).acos() / 3
    # of t^3 - t + size = 0 one root is below -1; the others are those of size, mirrored
    far, near = (2 / math.sqrt(3) * torch.cos(math.pi / 3 + side * angle) for side in (-1, 1))
    # 1 - t = size / (t (1 + t)): no difference of near numbers, however small it is
    place = torch.log(far * (1 + far).square() / size) / 2
    return place.copysign(right), near.atanh().copysign(right)


def _gelu() -> Smooth:
    def density(z: Tensor) -> Tensor:
        return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    def curvature(z: Tensor) -> Tensor:
        # the square overflows where the density has long been zero
        near = z.clamp(-100.0, 100.0)
        return density(near) * (2 - near * near)

    def slope(z: Tensor) -> Tensor:
        below: Tensor = torch.special.ndtr(z)
        return below + z * density(z)

    def twist(z: Tensor) -> Tensor:
        near = z.clamp(-100.0, 100.0)
        return density(near) * near * (near * near - 4)

    root = math.sqrt(2)
    # z^4 - 7 z^2 + 4 = 0
    turns = [sign * math.sqrt((7 + side * math.sqrt(33)) / 2) for sign in (-1, 1) for side in (-1, 1)]
    return Smooth(F.gelu, slope, curvature, (-root, root), (-2.0, 0.0, 2.0), twist=twist, twist_turns=tuple(turns))


def _silu() -> Smooth:
    def slope(z: Tensor) -> Tensor:
        s = torch.sigmoid(z)
        return s + z * s * (1 - s)

    def curvature(z: Tensor) -> Tensor:
        s = torch.sigmoid(z)
        return s * (1 - s) * (2 + z * (1 - 2 * s))

    def twist(z: Tensor) -> Tensor:
        s = torch.sigmoid(z)
        bell = s * (1 - s)
        return bell * (3 * (1 - 2 * s) + z * (1 - 6 * bell))

    # zeros of the second, of the third and of the fourth derivative
    first, second, third = 2.3993572805154676, 3.435840993535111, (1.0319582417807491, 4.4292351005572295)
    turns = (*(-turn for turn in third), *third)
    return Smooth(
        F.silu, slope, curvature, (-first, first), (-second, 0.0, second), twist=twist, twist_turns=turns
    )


@dataclass(frozen=True)
class LeakyReLU(EnclosedActivation):
    """a z below zero, z above: the slope is one of two numbers, or between them where the sign is open."""

    smooth: ClassVar[bool] = False

    negative_slope: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        """sigma(z)."""
        return F.leaky_relu(z, self.negative_slope)

    def slope(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Both slopes where zero lies in the interval; 0 itself counts as both sides."""
        one, other = torch.ones_like(lower), torch.full_like(lower, self.negative_slope)
        left = torch.where(upper < 0, other, one)
        right = torch.where(lower > 0, one, other)
        return torch.minimum(left, right), torch.maximum(left, right)

    def slope_at(self, z: Tensor) -> Tensor:
        """At zero the slope of the left side, as in PyTorch."""
        if self.negative_slope == 0:
            return (z > 0).to(z)
        return torch.where(z > 0, torch.ones_like(z), self.negative_slope)

    def curvature(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Zero: within a linear region nothing bends."""
        return torch.zeros_like(lower), torch.zeros_like(upper)


class MaxPool(EnclosedActivation):
    """Max-pooling as a product: each entry of a window counts fully if it is the largest and not at all if not.

    The entries z (N, windows * size) are laid out window by window; summing each window is left to the next
    linear map.

    Args:
        valid: bool (windows, size); False marks padding.
    """

    smooth: ClassVar[bool] = False

    def __init__(self, valid: Tensor) -> None:
        self.valid = valid

    def windows(self, z: Tensor, outside: float) -> Tensor:
        """(N, windows, size), with padding set to a number."""
        entries: Tensor = z.unflatten(-1, self.valid.shape)
        return entries.masked_fill(~self.valid, outside)

    def winner(self, z: Tensor) -> Tensor:
        """The entry each window passes on, bool (N, windows, size); the first of equals, as in PyTorch."""
        entries = self.windows(z, -math.inf)
        return F.one_hot(entries.argmax(-1), entries.shape[-1]).bool()

    def value(self, z: Tensor) -> Tensor:
        """z where it is the largest of its window, else 0."""
        return z * self.winner(z).flatten(-2)

    def slope(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """1 for an entry above all others, 0 for one below another, [0, 1] where it is open."""
        low, high = self.windows(lower, -math.inf), self.windows(upper, -math.inf)
        best_low = low.amax(-1, keepdim=True)
        possible = (high >= best_low) & self.valid
        certain = possible & (possible.sum(-1, keepdim=True) == 1)
        return certain.to(lower).flatten(-2), possible.to(lower).flatten(-2)

    def slope_at(self, z: Tensor) -> Tensor:
        """1 for the winner alone: c equal entries, each open between 0 and 1, still have slopes that sum to 1."""
        return self.winner(z).flatten(-2).to(z)

    def curvature(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Zero: within a linear region nothing bends."""
        return torch.zeros_like(lower), torch.zeros_like(upper)


def _exact_gelu(layer: nn.GELU) -> EnclosedActivation:
    if layer.approximate != "none":
        raise ModelError(
            f"GELU(approximate={layer.approximate!r}) has no enclosure: use nn.GELU(), whose formula is exact"
        )
    return _gelu()


_KNOWN: dict[type[nn.Module], Callable[[Any], EnclosedActivation]] = {
    nn.Softplus: lambda layer: Softplus(float(layer.beta), float(layer.threshold)),
    nn.Tanh: lambda layer: _tanh(),
    nn.Sigmoid: lambda layer: _sigmoid(),
    nn.GELU: _exact_gelu,
    nn.SiLU: lambda layer: _silu(),
    nn.ReLU: lambda layer: LeakyReLU(),
    nn.LeakyReLU: lambda layer: LeakyReLU(float(layer.negative_slope)),
}


def register(kind: type[nn.Module], build: Callable[[Any], EnclosedActivation]) -> None:
    """Make another elementwise activation known to the certificates.

    A wrong range makes wrong certificates: check it against a fine grid.

    Args:
        kind: the module's class.
        build: from a module of that class to its EnclosedActivation, e.g. a `Smooth`.

    >>> class Cube(nn.Module):
    ...     def forward(self, z):
    ...         return z ** 3
    >>> register(Cube, lambda layer: Smooth(lambda z: z ** 3, lambda z: 3 * z ** 2, lambda z: 6 * z, (0.0,)))
    >>> known(Cube())
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputError(f"register takes a class of modules, got {quoted(kind)}")
    check_function("build", build)
    _KNOWN[kind] = build


def known(layer: nn.Module) -> bool:
    """Whether a module is an activation with an enclosure; a subclass of a known one is not."""
    return type(layer) in _KNOWN


def activation(layer: nn.Module) -> EnclosedActivation:
    """The enclosure of a known activation."""
    return _KNOWN[type(layer)](layer)
