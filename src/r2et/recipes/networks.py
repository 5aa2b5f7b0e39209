"""From the outline of an architecture to a network for data of a given shape."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from r2et.errors import InputError

Outline = Mapping[str, Any]


def complete(outline: Outline, shape: Sequence[int], classes: int) -> dict[str, Any]:
    """An architecture for `r2et.models.create`: the outline with what follows from the data.

    Args:
        outline: the settings of a model of `r2et.models` without those that the data decide (features, channels,
            size, nodes, classes). The embedding of a "siamese" one is an outline too; the width of its output is
            its "classes" where its kind of model needs that.
        shape: of one input, (*features), or of one pair (2, *features).
        classes: logits.

    >>> complete({"name": "mlp", "hidden": [32]}, (28,), 2)
    {'name': 'mlp', 'hidden': [32], 'features': 28, 'classes': 2}
    >>> complete({"name": "siamese", "embedding": {"name": "gcn", "hidden": 256}}, (2, 6670), 2)
    {'name': 'siamese', 'embedding': {'name': 'gcn', 'hidden': 256, 'nodes': 116, 'classes': None}}
    """
    if outline["name"] != "siamese":
        return {**outline, **_from_data(outline["name"], shape), "classes": classes}
    if len(shape) < 2 or shape[0] != 2:
        raise InputError(f"a Siamese net takes pairs of shape (2, *features), got inputs of shape {tuple(shape)}")
    if classes != 2:
        raise InputError(f"a Siamese net has the classes 'different' and 'same', got {classes} classes")
    embedding = outline["embedding"]
    complete_embedding = {"classes": None, **embedding, **_from_data(embedding["name"], shape[1:])}
    # at the end, as in the models' own descriptions
    complete_embedding["classes"] = complete_embedding.pop("classes")
    return {**outline, "embedding": complete_embedding}


def with_activation(outline: Outline, activation: str, beta: float | None) -> dict[str, Any]:
    """The outline with another activation, in the embedding of a Siamese net.

    >>> with_activation({"name": "mlp"}, "softplus", 5.0)
    {'name': 'mlp', 'activation': 'softplus', 'beta': 5.0}
    """
    if "embedding" in outline and outline["name"] == "siamese":
        return {**outline, "embedding": with_activation(outline["embedding"], activation, beta)}
    if outline["name"] == "additive":  # its units are softplus whatever the method
        return {**outline, "beta": beta}
    return {**outline, "activation": activation, "beta": beta}


def of_single_inputs(outline: Outline) -> dict[str, Any]:
    """The outline of a classifier of single inputs: of a Siamese net, its embedding's.

    >>> of_single_inputs({"name": "siamese", "embedding": {"name": "cnn", "classes": 64}})
    {'name': 'cnn'}
    """
    if outline["name"] != "siamese":
        return dict(outline)
    return {key: value for key, value in outline["embedding"].items() if key != "classes"}


def _from_data(name: str, shape: Sequence[int]) -> dict[str, Any]:
    needs = {"linear": 1, "mlp": 1, "gcn": 1, "cnn": 3, "resnet": 3}
    if name in needs and len(shape) != needs[name]:
        wanted = {1: "(features,)", 3: "(channels, height, width)"}[needs[name]]
        raise InputError(f"a model {name!r} takes inputs of shape {wanted}, one input here has {tuple(shape)}")
    if name == "gcn":
        nodes = (1 + math.isqrt(1 + 8 * shape[0])) // 2
        if nodes * (nodes - 1) // 2 != shape[0]:
            raise InputError(
                f"a graph of R nodes has R (R - 1) / 2 edges, {shape[0]} is no such number: give the upper "
                "triangle of its matrix without the diagonal"
            )
        return {"nodes": nodes}
    if name == "cnn":
        return {"channels": shape[0], "size": list(shape[1:])}
    return {"channels": shape[0]} if name == "resnet" else {"features": shape[0]}
