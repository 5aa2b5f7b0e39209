"""What the models share: activations by name, checks of shapes, and descriptions to rebuild a model from."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from r2et.errors import InputError
from r2et.numerics.values import check_choice, check_count, check_positive, quoted
from r2et.registry import Registry

#: of one layer: 32 GB of float32
MOST_WEIGHTS = 2**33
MODELS: Registry[type[nn.Module]] = Registry("model", "r2et.models", package="r2et.models", base=nn.Module)
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def activation_maker(activation: str, beta: float | None) -> Callable[[], nn.Module]:
    """Check the settings of an activation once; what comes back makes one layer per call.

    The layers are never in-place: that would break the double backward of an explanation's derivative.

    >>> activation_maker("softplus", 5.0)()
    Softplus(beta=5.0, threshold=20.0)
    """
    check_choice("activation", activation, ACTIVATIONS)
    if beta is None:
        return ACTIVATIONS[activation]
    if activation != "softplus":
        raise InputError(f"beta={beta} is softplus's sharpness, but the activation is {activation!r}")
    check_positive("beta", beta)
    return lambda: nn.Softplus(float(beta))


def describe_activation(layer: nn.Module) -> dict[str, Any]:
    """The settings that `activation_maker` makes such a layer from.

    >>> describe_activation(nn.Softplus(2.0))
    {'activation': 'softplus', 'beta': 2.0}
    """
    names = {kind: name for name, kind in ACTIVATIONS.items()}
    settings: dict[str, Any] = {"activation": names.get(type(layer))}
    if isinstance(layer, nn.Softplus):
        settings["beta"] = float(layer.beta)
    return settings


def confirmed(model: nn.Module, build: type[nn.Module], settings: dict[str, Any]) -> dict[str, Any]:
    """Name and settings of a model of a class, if they describe it: built again and compared layer by layer.

    A model that was changed must not come back from a checkpoint as another one.
    """
    try:
        # without memory for weights, and without touching the random numbers of a training that is under way
        with torch.device("meta"):
            rebuilt = build(**settings)
    except (TypeError, InputError):
        rebuilt = None
    if rebuilt is None or _layers(rebuilt) != _layers(model):
        raise InputError(f"this {build.__name__} was changed and cannot be described in a checkpoint: {model}")
    return {"name": MODELS.name_of(build), **settings}


def _layers(model: nn.Module) -> list[tuple[str, str]]:
    return [(name, repr(layer)) for name, layer in model.named_children()]


def whole_numbers(name: str, values: Sequence[int], length: int | None = None) -> list[int]:
    """Whole numbers of at least 1, one per layer; exactly `length` of them, if it is not None.

    >>> whole_numbers("filters", (16, 32), 2)
    [16, 32]
    >>> whole_numbers("filters", 16, 2)
    Traceback (most recent call last):
    r2et.errors.InputError: filters must be a list of 2 whole numbers, got filters=16
    """
    listed = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    numbers = list(values) if listed and getattr(values, "ndim", 1) == 1 else []
    if len(numbers) == 0 or (length is not None and len(numbers) != length):
        many = "" if length is None else f"{length} "
        raise InputError(f"{name} must be a list of {many}whole numbers, got {name}={quoted(values)}")
    for value in numbers:
        check_count(name, value)
    return [int(value) for value in numbers]


def check_layers(model: str, *sizes: int) -> None:
    """Widths of layers, each read by the next: refuse what no memory holds, before it is asked for.

    >>> check_layers("an MLP", 10**6, 10**6, 2)
    Traceback (most recent call last):
    r2et.errors.InputError: an MLP with layers of 1000000 x 1000000 needs 1.0e+12 weights: make it smaller
    """
    for before, after in itertools.pairwise(sizes):
        if before * after > MOST_WEIGHTS:
            weights = f"{before * after:.1e}"
            raise InputError(f"{model} with layers of {before} x {after} needs {weights} weights: make it smaller")


def traced(x: object) -> bool:
    """Whether a model is being traced, as `r2et.validate.smooth` does: then there are no values to check."""
    return isinstance(x, fx.Proxy)


def check_shape(x: Tensor, features: Sequence[int | str], model: str) -> None:
    """A batch (N, *features); a word stands for any size.

    >>> check_shape(torch.zeros(2, 3, 8, 8), (3, "height", "width"), "a net")
    >>> check_shape(torch.zeros(2, 8, 8), (1, 8, 8), "a net")
    Traceback (most recent call last):
    r2et.errors.InputError: a net takes inputs of shape (N, 1, 8, 8), got (2, 8, 8)
    """
    if traced(x):
        return
    fits = x.ndim == 1 + len(features) and all(
        isinstance(wanted, str) or size == wanted for size, wanted in zip(x.shape[1:], features, strict=True)
    )
    if not fits:
        wanted = ", ".join(["N", *map(str, features)])
        raise InputError(f"{model} takes inputs of shape ({wanted}), got {tuple(x.shape)}")
