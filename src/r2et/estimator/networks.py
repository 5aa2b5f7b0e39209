"""The networks that an estimator can train, and how long each one trains by default."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from r2et.columns import Columns
from r2et.errors import InputError
from r2et.numerics.values import check_choice
from r2et.recipes import Schedule

NetworkName = Literal["mlp", "additive"]
#: what "auto" stands for
_METHOD = {"mlp": "r2et-sf", "additive": "vanilla"}
_EPOCHS = {"mlp": 100, "additive": 40}
_LR = {"mlp": 1e-2, "additive": 3e-2}
_LARGEST_BATCH = {"mlp": 256, "additive": 512}


def method_of(method: str, network: str) -> str:
    """The method of training that is meant.

    >>> method_of("auto", "additive"), method_of("auto", "mlp"), method_of("wd", "mlp")
    ('vanilla', 'r2et-sf', 'wd')
    """
    check_choice("network", network, get_args(NetworkName))
    if method == "linear" and network == "additive":
        raise InputError('method="linear" is a linear model, which is no additive network: leave network= out')
    return _METHOD[network] if isinstance(method, str) and method == "auto" else method


def schedule_of(parameters: Mapping[str, Any], rows: int) -> Schedule:
    """How to train on this many rows, by the parameters of an estimator."""
    network, wanted = parameters["network"], parameters
    automatic = min(_LARGEST_BATCH[network], max(32, rows // 5))
    return Schedule(
        epochs=_EPOCHS[network] if wanted["epochs"] == "auto" else wanted["epochs"],
        lr=_LR[network] if wanted["lr"] == "auto" else wanted["lr"],
        batch_size=automatic if wanted["batch_size"] == "auto" else wanted["batch_size"],
        patience=wanted["patience"],
        # a shape function of an additive model is made of steps whose places settle late
        annealed=network == "additive",
    )


def outline_of(network: str, hidden: Sequence[int], columns: Columns) -> dict[str, Any]:
    """The architecture without the numbers of features and classes, as plain JSON values.

    >>> columns = Columns(("age", "job"), ((0,), (1, 2)), ("number", "category"), ((), (0.25, 0.75)))
    >>> outline_of("additive", (32,), columns)
    {'name': 'additive', 'numeric': [0], 'groups': [[1, 2]]}
    """
    if network == "mlp":
        return {"name": "mlp", "hidden": list(hidden)}
    groups = [
        list(features)
        for features, kind in zip(columns.features, columns.kinds, strict=True)
        if kind == "category" and len(features) > 1
    ]
    return {"name": "additive", "numeric": columns.continuous.nonzero().flatten().tolist(), "groups": groups}
