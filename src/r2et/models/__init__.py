"""The paper's architectures. Any other nn.Module that returns logits works as well."""

from typing import Any

from torch import nn

from r2et._checks import InputError, check_choice
from r2et.models.linear import Linear
from r2et.models.mlp import MLP

MODELS: dict[str, type[nn.Module]] = {"linear": Linear, "mlp": MLP}


def create(name: str, **settings: Any) -> nn.Module:
    """Build a model by name.

    >>> create("mlp", features=4, classes=2, hidden=[8])
    MLP(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    """
    check_choice("model", name, MODELS)
    try:
        return MODELS[name](**settings)
    except TypeError as error:
        raise InputError(f"model {name!r} cannot be built with {settings}: {error}") from error


__all__ = ["MLP", "Linear", "create"]
