"""Explainers as JSON, so that a checkpoint says which explanation its model was trained for."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from r2et.errors import CheckpointError, InputError
from r2et.explainers import (
    Activation,
    Explainer,
    Gradient,
    GradientTimesInput,
    IntegratedGradients,
    SmoothGrad,
)
from r2et.numerics.values import check_kind

EXPLAINERS: dict[str, type[Explainer]] = {
    "gradient": Gradient,
    "gradient-times-input": GradientTimesInput,
    "smoothgrad": SmoothGrad,
    "integrated-gradients": IntegratedGradients,
    "activation": Activation,
}


def describe_explainer(explainer: Explainer) -> dict[str, Any]:
    """Name and settings of an explainer, as plain JSON values.

    >>> describe_explainer(Gradient(inputs=2))
    {'name': 'gradient', 'reduce': 'abs', 'inputs': 2, 'score': 'log-odds'}
    """
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    names = {kind: name for name, kind in EXPLAINERS.items()}
    settings = {entry.name: getattr(explainer, entry.name) for entry in fields(explainer)}
    plain = all(value is None or isinstance(value, str | int | float) for value in settings.values())
    if type(explainer) not in names or not plain:
        raise InputError(f"{explainer!r} cannot be described in a checkpoint: use one of {', '.join(EXPLAINERS)}")
    return {"name": names[type(explainer)], **settings}


def create_explainer(description: Mapping[str, Any]) -> Explainer:
    """The explainer that `describe_explainer` described.

    >>> create_explainer({"name": "activation", "layer": "avgpool"})
    Activation(reduce='signed', inputs=1, score='log-odds', layer='avgpool')
    """
    try:
        settings = dict(description)
        return EXPLAINERS[settings.pop("name")](**settings)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{description!r} does not describe an explainer: {error}") from error
