"""Radii in multiples of plausible change: the same model and rows, with every number in units of its own."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from r2et.domain.domain import Domain
from r2et.errors import InputError
from r2et.numerics.checks import check_inputs
from r2et.numerics.preflight import check_module
from r2et.numerics.values import check_kind


class InUnits(nn.Module):
    """The model f(z * scale): as f, on inputs whose features are counted in units.

    Args:
        model: maps (N, *features) to logits (N, C); its parameters are shared.
        scale: one unit of each feature, (*features), in any dtype.
        like: inputs that it will take, for their dtype and device.
    """

    scale: Tensor

    def __init__(self, model: nn.Module, scale: Tensor, like: Tensor) -> None:
        super().__init__()
        # first, so that its parameters are what a look at the first one sees
        self.model = model
        self._exact = scale.detach().double().cpu()
        self.register_buffer("scale", self._exact.to(like.device, like.dtype), persistent=False)
        # its own mode alone: the parts of the model keep theirs
        self.training = model.training

    def _apply(self, fn: Callable[[Tensor], Tensor], *options: bool) -> "InUnits":
        # a scale in single precision is another one in double precision
        super()._apply(fn, *options)  # type: ignore[no-untyped-call]  # torch does not say
        self.scale = self._exact.to(self.scale.device, self.scale.dtype)
        return self

    def forward(self, z: Tensor) -> Tensor:
        """Logits (N, C) of the inputs z * scale."""
        logits: Tensor = self.model(z * self.scale)
        return logits

    def parts(self, z: Tensor) -> Tensor:
        """What each feature adds to each logit, (N, C, n), where the model itself says so."""
        parts: Tensor = self.model.parts(z * self.scale)  # type: ignore[operator]  # it has been looked at
        return parts


def units_of(domain: Domain, n: int) -> Tensor:
    """One plausible change of each of n features, float64 (n,); 1 for what cannot move by itself.

    >>> units_of(Domain(scale=torch.tensor([0.5, 9.0]), frozen=[1]), 2)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    domain.check(n)
    if domain.scale is None:
        raise InputError(
            "the domain does not say what a plausible change is: give it scale=, one change of each feature in "
            "the units of x"
        )
    scale = torch.as_tensor(domain.scale).detach().double().cpu().flatten().expand(n).clone()
    flags = [flag for _, flag in domain.absent]
    scale[[int(i) for i in (*domain.frozen, *flags, *(i for group in domain.groups for i in group))]] = 1.0
    for members in domain.equal:
        apart = scale[list(members)].unique()
        if len(apart) > 1:
            raise InputError(
                f"features {list(members)} are always equal, but the domain's scale has {apart.tolist()} there"
            )
    return scale


def in_plausible_units(
    model: nn.Module, x: Tensor, domain: Domain, *, inputs: int = 1
) -> tuple[InUnits, Tensor, Domain]:
    """The same model, inputs and domain where one unit of every number is one plausible change of it.

    An attack of radius r then moves a number by at most r plausible changes, and a certified radius is a multiple
    of them. Contributions do not depend on units, but slopes do: explain by `explainer.in_units(model.scale)`,
    which ranks as the explainer itself ranks the model as it was.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features), or (N, 2, *features) for two inputs.
        domain: with a scale; flags and categories keep their units.
        inputs: of the model, 1 or 2.

    Returns:
        The model f(z * scale), z = x / scale, and the domain of z, whose scale is 1.

    >>> model, x = nn.Linear(2, 2), torch.tensor([[30.0, 1870.0]])
    >>> domain = Domain(lower=0.0, unit=1.0, scale=torch.tensor([1.0, 37.4]))
    >>> scaled, z, units = in_plausible_units(model, x, domain)
    >>> z, units.unit
    (tensor([[30.0000, 50.0000]]), tensor([1.0000, 0.0267], dtype=torch.float64))
    >>> torch.allclose(scaled(z), model(x))
    True
    """
    check_module(model)
    check_inputs(x)
    check_kind("domain", domain, Domain, "r2et.Domain(scale=0.1)")
    n = x[0].numel() // inputs
    scale = units_of(domain, n)
    lower, upper, unit = (_counted(value, scale) for value in (domain.lower, domain.upper, domain.unit))
    # a bound in the dtype of the inputs: a rounded value may lie outside of the exact bound that it is
    lower, upper = (None if bound is None else bound.to(x.dtype) for bound in (lower, upper))
    scaled = InUnits(model, scale.reshape(x.shape[inputs:]), x)
    return scaled, x / scaled.scale, replace(domain, lower=lower, upper=upper, unit=unit, scale=1.0)


def _counted(value: Tensor | float | None, scale: Tensor) -> Tensor | None:
    return None if value is None else torch.as_tensor(value).detach().double().cpu().flatten() / scale
