"""Neighbourhoods D of an input: what thickness is measured over (Eq. 2)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from r2et.domain import Domain, Threat, chosen_threat
from r2et.errors import InputError
from r2et.numerics.autograd import unit
from r2et.numerics.checks import check_generator
from r2et.numerics.values import check_choice, check_count, check_positive, plain_numbers, quoted

Aggregate = Literal["mean", "minimum"]


class Neighbours(ABC):
    """The distribution D of perturbed inputs x' around x (Eq. 2)."""

    aggregate: Aggregate = "mean"

    #: whether rounding to whole numbers must not bring a neighbour farther away: the ball is what D is about
    inside_ball: ClassVar[bool] = False

    @abstractmethod
    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Neighbours of x (N, *features) one after the other, in the shape of x: all at once may not fit."""

    def draw(self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
        """All of them, (samples, N, *features)."""
        check_count("samples", samples)
        check_generator(generator)
        return torch.stack(list(self.each(model, x, samples, generator)))


@dataclass(frozen=True)
class GaussianNeighbours(Neighbours):
    """x' = x + sigma z, z standard normal.

    Args:
        sigma: standard deviation in the units of x.
        aggregate: "mean" over the samples, or the "minimum" (Fig. 4).

    >>> GaussianNeighbours(0.1).draw(torch.nn.Identity(), torch.zeros(5, 3), 7, None).shape
    torch.Size([7, 5, 3])
    """

    sigma: float = 0.1
    aggregate: Aggregate = "mean"

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_positive("sigma", self.sigma)
        check_choice("aggregate", self.aggregate, get_args(Aggregate))

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws."""
        return (torch.add(x, _normal(x, generator), alpha=self.sigma) for _ in range(samples))


@dataclass(frozen=True)
class UniformNeighbours(Neighbours):
    """x' uniform in the L2 ball of a radius around x; a pair of inputs shares one ball.

    >>> x = UniformNeighbours(0.5).draw(torch.nn.Identity(), torch.zeros(5, 3), 7, None)
    >>> bool((x.norm(dim=-1) <= 0.5).all())
    True
    """

    radius: float
    aggregate: Aggregate = "mean"

    inside_ball: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain_numbers(self)
        check_positive("radius", self.radius)
        check_choice("aggregate", self.aggregate, get_args(Aggregate))

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws: a Gaussian direction, and the radius times a power of a uniform number."""
        dimensions = x[0].numel()
        for _ in range(samples):
            direction = unit(_normal(x, generator))
            share = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
            length = self.radius * share ** (1 / dimensions)
            yield x + length.reshape(-1, *[1] * (x.ndim - 1)) * direction


class _Attacked(Protocol):
    @property
    def x(self) -> Tensor: ...


class _Attack(Protocol):
    def __call__(
        self, model: nn.Module, x: Tensor, *, domain: Domain | None = ..., threat: Threat | None = ...
    ) -> _Attacked: ...


@dataclass(frozen=True)
class AdversarialNeighbours(Neighbours):
    """x' found by attacks (Fig. 2, Fig. 4): one neighbour for each attack given; `samples` is not used.

    Args:
        attack: one, or a tuple of them.
        aggregate: "mean" over the attacks, or the "minimum".
        domain, threat: what the attacks may do, as in a call of them; `thickness` hands over its own.

    >>> import r2et
    >>> neighbours = AdversarialNeighbours(r2et.attacks.ERAttack(k=1, radius=0.1, steps=2))
    >>> neighbours.draw(torch.nn.Linear(3, 2), torch.zeros(5, 3), 16, None).shape
    torch.Size([1, 5, 3])
    """

    attack: _Attack | tuple[_Attack, ...]
    aggregate: Aggregate = "mean"
    domain: Domain | None = None
    threat: Threat | None = None

    def __post_init__(self) -> None:
        check_choice("aggregate", self.aggregate, get_args(Aggregate))
        chosen_threat(self.threat, self.domain)
        if not self._attacks or not all(map(callable, self._attacks)):
            raise InputError(
                "attack must be an attack such as r2et.attacks.ERAttack(k=8, radius=0.1), or a tuple of them, got "
                f"attack={quoted(self.attack)}"
            )

    @property
    def _attacks(self) -> tuple[_Attack, ...]:
        return self.attack if isinstance(self.attack, tuple) else (self.attack,)

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """The perturbed inputs of each attack."""
        return (attack(model, x, domain=self.domain, threat=self.threat).x for attack in self._attacks)


def _normal(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
