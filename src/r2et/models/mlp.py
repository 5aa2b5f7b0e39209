"""The paper's tabular model: fully connected layers with one activation between them (Table 4)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from r2et.models.architecture import (
    MODELS,
    activation_maker,
    check_layers,
    confirmed,
    describe_activation,
    whole_numbers,
)
from r2et.numerics.values import check_count


@MODELS.register("mlp")
class MLP(nn.Sequential):
    """Fully connected layers: (N, features) -> (N, classes).

    Args:
        features: inputs.
        classes: logits.
        hidden: width of each hidden layer; the paper's tabular model has one of 32.
        activation: between the layers.
        beta: sharpness of softplus (rho in the paper); only for that activation.

    >>> MLP(28, 2, hidden=(32,), activation="softplus", beta=5.0).architecture["beta"]
    5.0
    """

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: Sequence[int] = (32,),
        activation: str = "relu",
        beta: float | None = None,
    ) -> None:
        check_count("features", features)
        check_count("classes", classes)
        # no hidden layer at all is a linear model
        widths = [] if isinstance(hidden, list | tuple) and not hidden else whole_numbers("hidden", hidden)
        check_layers("an MLP", features, *widths, classes)
        make_activation = activation_maker(activation, beta)
        layers: list[nn.Module] = []
        width = features
        for size in widths:
            layers += [nn.Linear(width, size), make_activation()]
            width = size
        super().__init__(*layers, nn.Linear(width, classes))

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again; read off the layers that are there."""
        linear, between = list(self)[::2], list(self)[1::2]
        settings: dict[str, Any] = {}
        if all(type(layer) is nn.Linear for layer in linear):
            settings = {
                "features": linear[0].in_features,
                "classes": linear[-1].out_features,
                "hidden": [layer.out_features for layer in linear[:-1]],
            }
        if between:
            settings |= describe_activation(between[0])
        return confirmed(self, MLP, settings)
