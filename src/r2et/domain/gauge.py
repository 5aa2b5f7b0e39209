"""What valid rows do not determine about a model, taken out: the model f o A.

On rows that exist a one-hot group sums to 1, so f and f + C (sum - 1) are one model with different gradients. A
maps every input to the nearest one whose groups sum to 1: A(x) = P x + c; P centres each group, and c = 1 / m.
Rows that exist stay as they are, to the last bit; f o A is the same for all models that agree on their hull.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from r2et.domain.domain import Domain
from r2et.domain.ties import equations
from r2et.numerics.preflight import check_module
from r2et.numerics.values import check_kind


class WithoutGauge(nn.Module):
    """The model f o A: as f on rows that exist, and without slope along what they do not determine.

    A(x) = x + back(correction(x)): the correction is C x - d for the equations of `r2et.domain.ties`, which is
    zero where a row exists, and goes back by minus the pseudo-inverse of C. Two linear layers and a sum, so that
    enclosures can read them.

    Args:
        model: maps (N, n) to logits (N, C); its parameters are shared.
        domain: groups and equal features.
        n: features of one input.
        like: inputs that it will take, for their dtype and device; None = the model's first parameter.
    """

    def __init__(self, model: nn.Module, domain: Domain, n: int, *, like: Tensor | None = None) -> None:
        super().__init__()
        if like is None:
            first = next(model.parameters(), torch.zeros(()))
            like = first if first.is_floating_point() else first.float()
        self._exact = rows, _, _ = equations(tuple(map(tuple, domain.groups)), tuple(map(tuple, domain.equal)), n)
        # first, so that its parameters are what a look at the first one sees
        self.model = model
        # without drawing weights that nobody wants: the next random numbers are somebody else's
        self.correction = skip_init(nn.Linear, n, len(rows), dtype=like.dtype, device=like.device)
        self.back = skip_init(nn.Linear, len(rows), n, bias=False, dtype=like.dtype, device=like.device)
        # its own mode alone: the parts of the model keep theirs
        self.training = self.correction.training = self.back.training = model.training
        self._fill()
        for layer in (self.correction, self.back):
            layer.requires_grad_(requires_grad=False)

    def _fill(self) -> None:
        rows, values, inverse = self._exact
        with torch.no_grad():
            self.correction.weight.copy_(rows)
            self.correction.bias.copy_(-values)
            self.back.weight.copy_(-inverse)

    def _apply(self, fn: Callable[[Tensor], Tensor], *options: bool) -> "WithoutGauge":
        # a third in single precision is not a third in double precision: groups would not sum to 1 there
        super()._apply(fn, *options)  # type: ignore[no-untyped-call]  # torch does not say
        self._fill()
        return self

    def around(self, model: nn.Module) -> "WithoutGauge":
        """Another model without the same gauge."""
        other = copy.copy(self)
        other._modules = {**self._modules, "model": model}
        return other

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, C) of the nearest inputs whose groups sum to 1."""
        logits: Tensor = self.model(x + self.back(self.correction(x)))
        return logits


def without_gauge(model: nn.Module, domain: Domain, n: int, *, like: Tensor | None = None) -> nn.Module:
    """The model f o A, or f itself where the domain has no groups and nothing that is always equal.

    Args:
        model: maps (N, n) to logits (N, C).
        domain: what exists.
        n: features of one input.
        like: inputs that it will take, for their dtype and device; None = the model's first parameter.

    >>> model = nn.Linear(3, 2)
    >>> free = without_gauge(model, Domain(groups=[[1, 2]]), 3)
    >>> x = torch.tensor([[0.3, 0.0, 1.0]])
    >>> off = x + torch.tensor([0.0, 5.0, 5.0])
    >>> torch.equal(free(x), model(x)), torch.allclose(free(off), model(x), atol=1e-5)
    (True, True)
    """
    check_module(model)
    check_kind("domain", domain, Domain, "r2et.Domain(groups=[[0, 1]])")
    domain.check(n)
    return WithoutGauge(model, domain, n, like=like) if domain.groups or domain.equal else model
