"""What valid rows do not determine about a model, taken out: the model f o A.

On rows that exist a one-hot group sums to 1, so f and f + C (sum - 1) are one model with different gradients. A
maps every input to the nearest one whose groups sum to 1: A(x) = P x + c; P centres each group, and c = 1 / m.
Rows that exist stay as they are, to the last bit; f o A is the same for all models that agree on their hull.
"""

import copy
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from r2et.domain.domain import Domain

#: of features
Sets = tuple[tuple[int, ...], ...]


class WithoutGauge(nn.Module):
    """The model f o A: as f on rows that exist, and without slope along what they do not determine.

    A(x) = x + back(correction(x)): the correction has a row for each group, (1 - sum) / m, and one for each member
    of a set of equal features, mean - value. It is zero where a row exists. Two linear layers and a sum, so that
    enclosures can read them.

    Args:
        model: maps (N, n) to logits (N, C); its parameters are shared.
        domain: groups and equal features.
        n: features of one input.
    """

    def __init__(self, model: nn.Module, domain: Domain, n: int) -> None:
        super().__init__()
        like = next(model.parameters(), torch.zeros(()))
        dtype = like.dtype if like.is_floating_point() else torch.float32
        self._exact = rows, _, _ = _corrections(
            tuple(map(tuple, domain.groups)), tuple(map(tuple, domain.equal)), n
        )
        # without drawing weights that nobody wants: the next random numbers are somebody else's
        self.correction = skip_init(nn.Linear, n, len(rows), dtype=dtype, device=like.device)
        self.back = skip_init(nn.Linear, len(rows), n, bias=False, dtype=dtype, device=like.device)
        self.model = model
        # its own mode alone: the parts of the model keep theirs
        self.training = self.correction.training = self.back.training = model.training
        self._fill()
        for layer in (self.correction, self.back):
            layer.requires_grad_(requires_grad=False)

    def _fill(self) -> None:
        rows, shifts, places = self._exact
        with torch.no_grad():
            self.correction.weight.copy_(rows)
            self.correction.bias.copy_(shifts)
            self.back.weight.copy_(places.T)

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


def without_gauge(model: nn.Module, domain: Domain, n: int) -> nn.Module:
    """The model f o A, or f itself where the domain has no groups and nothing that is always equal.

    Args:
        model: maps (N, n) to logits (N, C).
        domain: what exists.
        n: features of one input.

    >>> model = nn.Linear(3, 2)
    >>> free = without_gauge(model, Domain(groups=[[1, 2]]), 3)
    >>> x = torch.tensor([[0.3, 0.0, 1.0]])
    >>> off = x + torch.tensor([0.0, 5.0, 5.0])
    >>> torch.equal(free(x), model(x)), torch.allclose(free(off), model(x), atol=1e-5)
    (True, True)
    """
    return WithoutGauge(model, domain, n) if domain.groups or domain.equal else model


@lru_cache(maxsize=32)
def _corrections(groups: Sets, equal: Sets, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (r, n) and shifts (r,) of what is off, and where it is added (r, n), float64."""
    rows: list[Tensor] = []
    shifts: list[float] = []
    places: list[Tensor] = []
    for group in groups:
        member = torch.zeros(n, dtype=torch.float64)
        member[list(group)] = 1.0
        rows.append(-member / len(group))
        shifts.append(1 / len(group))
        places.append(member)
    for members in equal:
        for i in members:
            place = torch.zeros(n, dtype=torch.float64)
            place[i] = 1.0
            mean = torch.zeros(n, dtype=torch.float64)
            mean[list(members)] = 1 / len(members)
            rows.append(mean - place)
            shifts.append(0.0)
            places.append(place)
    return torch.stack(rows), torch.tensor(shifts, dtype=torch.float64), torch.stack(places)
