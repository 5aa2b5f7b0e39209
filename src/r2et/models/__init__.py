"""The paper's architectures. Any other nn.Module that returns logits works as well."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from r2et.errors import InputError
from r2et.models.additive import Additive
from r2et.models.architecture import MODELS
from r2et.models.cnn import CNN
from r2et.models.gcn import GCN
from r2et.models.linear import Linear
from r2et.models.mlp import MLP
from r2et.models.resnet import ResNet
from r2et.models.siamese import Siamese, SingleInput
from r2et.registry import Entry, Trust


def create(name: str, **settings: Any) -> nn.Module:
    """Build a model by name; a setting that is a dict with a name is itself a model, such as an embedding.

    Args:
        name: one of `MODELS.names()`, or `package.module:Class`, which is imported.
        settings: of the model.

    >>> create("mlp", features=4, classes=2, hidden=[8])
    MLP(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    >>> create("siamese", embedding={"name": "linear", "features": 4, "classes": 3})
    Siamese(
      (embedding): Linear(in_features=4, out_features=3, bias=True)
      (classifier): Linear(in_features=1, out_features=2, bias=True)
    )
    """
    return _builder({"name": name, **settings}, MODELS.find)()


def restore(architecture: Mapping[str, Any], trust: Trust = ()) -> nn.Module:
    """A model as a file describes it, on the meta device: its weights take no memory and no random numbers.

    Code that the file alone names is refused, not imported; `trust` as in `r2et.open_model`.
    """
    # found before: a module that is imported must not see the meta device
    build = _builder(architecture, lambda name: MODELS.stored(name, trust))
    with torch.device("meta"):
        return build()


def _builder(
    architecture: Mapping[str, Any], find: Callable[[str], Entry[type[nn.Module]]]
) -> Callable[[], nn.Module]:
    settings = dict(architecture)
    if "name" not in settings:
        raise InputError(f"an architecture has a name, such as 'mlp': {settings} has none")
    entry = find(settings.pop("name"))
    inner = {
        key: _builder(value, find)
        for key, value in settings.items()
        if isinstance(value, dict) and "name" in value
    }

    def build() -> nn.Module:
        model: nn.Module = MODELS.build(entry, {**settings, **{key: make() for key, make in inner.items()}})
        return model

    return build


__all__ = [
    "CNN",
    "GCN",
    "MLP",
    "MODELS",
    "Additive",
    "Linear",
    "ResNet",
    "Siamese",
    "SingleInput",
    "create",
    "restore",
]
