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
        linear, between = list(self)[::2], list(self)[1::2]
        found: dict[str, Any] = {"name": "mlp"}
        if all(type(layer) is nn.Linear for layer in linear):
            found |= {
                "features": linear[0].in_features,
                "classes": linear[-1].out_features,
                "hidden": [layer.out_features for layer in linear[:-1]],
            }
        if between:
            names = {kind: name for name, kind in ACTIVATIONS.items()}
            found["activation"] = names.get(type(between[0]))
            if isinstance(between[0], nn.Softplus):
                found["beta"] = float(between[0].beta)
        # built again and compared layer by layer: a model that was changed must not come back as another one
        try:
            rebuilt = MLP(**{key: value for key, value in found.items() if key != "name"})
        except (TypeError, InputError):
            rebuilt = None
        if rebuilt is None or [repr(layer) for layer in rebuilt] != [repr(layer) for layer in self]:
            raise InputError(f"this MLP was changed and cannot be described in a checkpoint: {list(self)}")
        return found
