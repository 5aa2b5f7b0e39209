"""The paper's tabular model: fully connected layers with one activation between them (Table 4)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from r2et._checks import InputError, check_choice, check_positive

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


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
        check_choice("activation", activation, ACTIVATIONS)
        if beta is not None and activation != "softplus":
            raise InputError(f"beta={beta} is softplus's sharpness, but the activation is {activation!r}")
        if beta is not None:
            check_positive("beta", beta)
        settings = {"beta": beta} if beta is not None else {}
        layers: list[nn.Module] = []
        width = features
        for size in hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[activation](**settings)]
            width = size
        super().__init__(*layers, nn.Linear(width, classes))

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again; read off the layers that are there."""
        linear = [layer for layer in self if isinstance(layer, nn.Linear)]
        found: dict[str, Any] = {
            "name": "mlp",
            "features": linear[0].in_features,
            "classes": linear[-1].out_features,
            "hidden": [layer.out_features for layer in linear[:-1]],
        }
        between = [layer for layer in self if not isinstance(layer, nn.Linear)]
        if between:
            names = {kind: name for name, kind in ACTIVATIONS.items()}
            if any(type(layer) not in names for layer in between):
                raise InputError(f"this MLP has layers that cannot be named in a checkpoint: {between}")
            found["activation"] = names[type(between[0])]
            if isinstance(between[0], nn.Softplus):
                found["beta"] = float(between[0].beta)
        return found
