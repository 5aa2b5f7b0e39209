"""What reasons can be for: a class, or a higher or a lower prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from r2et import models
from r2et.errors import InputError
from r2et.numerics.values import quoted, suggestion


@dataclass(frozen=True)
class Sides:
    """A network whose outputs reasons can be for.

    Attributes:
        model: maps (N, n) to logits (N, C).
        names: what `toward` may be, one for each output.
        directions: what a reason does: "speaks for bad", "raises the predicted price".
        what: what the names are, for a message.
        unit: of a contribution, in what is told.
    """

    model: nn.Module
    names: Sequence[Any]
    directions: tuple[str, ...]
    what: str
    unit: float = 1.0

    @property
    def texts(self) -> list[str]:
        """The names as text."""
        return [str(name) for name in self.names]

    def number(self, toward: Any) -> int:
        """The output of a name, or of its text, as a command line has it."""
        if isinstance(toward, bool | str | int | float | np.generic):
            plain = toward.item() if isinstance(toward, np.generic) else toward
            for number, name in enumerate(self.names):
                if type(name) is type(plain) and name == plain:
                    return number
            if str(plain) in self.texts:
                return self.texts.index(str(plain))
        meant = str(toward) if isinstance(toward, str | int | float) else ""
        raise InputError(f"toward={quoted(toward)} is none of the {self.what}{suggestion(meant, self.texts)}")


def two_sided(model: nn.Module) -> nn.Module:
    """A network with the logits (0, s) in place of one output s (N, 1): s speaks for one, -s for the other.

    Args:
        model: of `r2et.models`, which knows its architecture.

    >>> model, x = models.MLP(3, 1, hidden=(4,)).double(), torch.randn(5, 3).double()
    >>> logits = two_sided(model)(x)
    >>> torch.allclose(logits[:, 1:], model(x)), bool((logits[:, 0] == 0).all())
    (True, True)
    """
    outline: Any = model.architecture
    with torch.device("meta"):  # no weights are drawn
        copy = models.create(**{**outline, "classes": 2})
    shapes = {name: value.shape for name, value in copy.state_dict().items()}
    weights = {name: _below_zeros(value, shapes[name]) for name, value in model.state_dict().items()}
    copy.load_state_dict(weights, assign=True)
    return copy.double().eval().requires_grad_(requires_grad=False)


def _below_zeros(value: Tensor, shape: torch.Size) -> Tensor:
    """The weights of one output as those of the second of two."""
    return value if value.shape == shape else torch.cat([torch.zeros_like(value), value])
