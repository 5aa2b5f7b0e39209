"""What attacks must know about a model beside its values, found out once, and the copies they follow."""

import warnings
from functools import cached_property

import torch
from torch import Tensor, nn

from r2et import validate
from r2et.enclosure.network import Network
from r2et.enclosure.reading import extract
from r2et.errors import ModelError
from r2et.validate.inspection import FEW_ROWS

#: softplus sharpness of the surrogate of a piecewise-linear net unless another is asked for
DEFAULT_BETA = 10.0


class InspectedModel:
    """A model, looked at when it is first asked about and never again; its weights must stay as they are.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features); a few rows of it are run.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> inspected = InspectedModel(model, torch.randn(8, 3))
    >>> inspected.piecewise_linear, inspected.surrogate(None) is inspected.surrogate(10.0)
    (True, True)
    """

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        # a copy, because attacks see it
        self.model, self.few = model, x[:FEW_ROWS].clone()
        self._surrogates: dict[float, nn.Module] = {}

    @cached_property
    def piecewise_linear(self) -> bool:
        """Whether activations of the model have no second derivative."""
        return validate.piecewise_linear(self.model, self.few)

    @cached_property
    def network(self) -> Network | None:
        """The layers of the model, if it can be read."""
        try:
            return extract(self.model, self.few.shape[1:])
        except ModelError:
            return None

    def surrogate(self, beta: float | None) -> nn.Module:
        """The model whose slopes are followed: a softplus copy of a piecewise-linear net, or the net itself.

        Args:
            beta: sharpness of the copy; None = 10 for a piecewise-linear net, no copy for a smooth one. A net in
                which nothing is sharper than that is its own copy.
        """
        if beta is None and not self.piecewise_linear:
            return self.model
        sharpness = DEFAULT_BETA if beta is None else beta
        if sharpness not in self._surrogates:
            self._surrogates[sharpness] = self._smoothed(sharpness)
        return self._surrogates[sharpness]

    def _smoothed(self, beta: float) -> nn.Module:
        copy = validate.smooth(self.model, beta)
        # what a copy leaves as it is does not depend on its sharpness
        if not self._surrogates and self.piecewise_linear and validate.piecewise_linear(copy, self.few):
            warnings.warn(
                "the model has piecewise-linear layers that r2et.validate.smooth cannot replace: attacks see no "
                "curvature there, and its explanations look more stable than they are",
                stacklevel=3,
            )
        return self.model if self._same(copy) else copy

    def _same(self, copy: nn.Module) -> bool:
        """Whether a copy has the outputs of the model: nothing in it was replaced."""
        with torch.no_grad():
            return torch.equal(self.model(self.few.clone()), copy(self.few.clone()))
