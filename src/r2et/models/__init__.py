"""The paper's architectures. Any other nn.Module that returns logits works as well."""

from typing import Any

from torch import nn

from r2et.errors import InputError
from r2et.models.cnn import CNN
from r2et.models.gcn import GCN
from r2et.models.linear import Linear
from r2et.models.mlp import MLP
from r2et.models.resnet import ResNet
from r2et.models.siamese import Siamese, SingleInput
from r2et.numerics.values import check_choice

MODELS: dict[str, type[nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "cnn": CNN,
    "resnet": ResNet,
    "gcn": GCN,
    "siamese": Siamese,
    "single-input": SingleInput,
}


def create(name: str, **settings: Any) -> nn.Module:
    """Build a model by name; a setting that is a dict with a name is itself a model, such as an embedding.

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
    check_choice("model", name, MODELS)
    built = {
        key: create(**value) if isinstance(value, dict) and "name" in value else value
        for key, value in settings.items()
    }
    try:
        return MODELS[name](**built)
    except TypeError as error:
        raise InputError(f"model {name!r} cannot be built with {settings}: {error}") from error


__all__ = ["CNN", "GCN", "MLP", "Linear", "ResNet", "Siamese", "SingleInput", "create"]
