"""A fitted estimator as safetensors and JSON; nothing is ever unpickled."""

import os
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np
import pandas as pd

from r2et.checkpoints import save_model
from r2et.errors import CheckpointError, in_words
from r2et.estimator.choosing import Sanity
from r2et.estimator.inputs import check_parameters
from r2et.explainers import Background
from r2et.files.reading import typed
from r2et.foreign import is_code
from r2et.numerics.values import quoted
from r2et.objectives import OBJECTIVES, Objective
from r2et.registry import Trust
from r2et.tables.encoding import Encoding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from r2et.estimator.stable import StableEstimator
    from r2et.recipes.methods import OwnObjective

    Kind = TypeVar("Kind", bound=StableEstimator)

VERSION = 4


class _Saved(TypedDict):
    parameters: dict[str, Any]
    predicted: dict[str, Any]
    feature_names: list[str] | None
    columns: list[dict[str, Any]]
    background: list[list[float]]
    k: int
    settings: dict[str, float]
    candidates: list[dict[str, Any]]
    history: list[dict[str, Any]]
    sanity: Sanity


def save(
    fitted: "StableEstimator", path: str | os.PathLike[str], origin: "Mapping[str, Any] | None" = None
) -> None:
    """Write a fitted estimator into a folder, atomically, and which rows of which file it was trained on."""
    parameters = fitted.get_params(deep=False)
    if isinstance(fitted.random_state, np.random.RandomState):
        parameters["random_state"] = None  # a generator is a state, not a setting
    parameters["objective"] = _described(fitted.objective)
    names = getattr(fitted, "feature_names_in_", None)
    save_model(
        fitted.model_,
        path,
        estimator=type(fitted).__name__,
        estimator_version=VERSION,
        parameters=parameters,
        predicted=fitted.described_target(),
        feature_names=names,
        columns=fitted.encoding_.describe(),
        background=fitted.background_.tensor.tolist(),
        k=fitted.k_,
        settings=fitted.settings_,
        candidates=fitted.candidates_.to_dict("records"),
        history=fitted.history_.to_dict("records"),
        sanity=fitted.sanity_,
        **({} if origin is None else {"origin": dict(origin)}),
    )


def restore(
    kind: "type[Kind]", model: "nn.Module", content: dict[str, Any], where: str, *, trust: Trust
) -> "Kind":
    """An estimator from its network and what was saved with it; `where` is for the error messages.

    Objectives of people's own that the file names are refused unless `trust` names them too.
    """
    name = kind.__name__
    if content.get("estimator") != name:
        raise CheckpointError(f"{where!r} holds a model, but not a {name}: use r2et.open_model")
    if content.get("estimator_version") != VERSION:
        raise CheckpointError(
            f"{where!r} has version {content.get('estimator_version')!r} of {name}, this r2et reads {VERSION}: "
            "use the version of r2et that wrote it"
        )
    saved = typed(content, _Saved, f"{where!r} is not a complete {name}", CheckpointError)
    try:
        parameters = saved["parameters"]
        parameters["hidden"] = tuple(parameters["hidden"])
        parameters["objective"] = _objective(parameters.get("objective"), trust)
        if is_code(parameters["method"]):
            OBJECTIVES.stored(parameters["method"], trust)
        restored = kind(**parameters)
        check_parameters(restored.get_params(deep=False))
        restored.take_target(saved["predicted"])
        restored.encoding_ = Encoding.from_description(saved["columns"])
        restored.domain_ = restored.encoding_.domain
        restored.n_features_in_ = len(restored.encoding_.columns)
        if saved["feature_names"] is not None:
            restored.feature_names_in_ = np.array(saved["feature_names"], dtype=object)
        restored.background_ = Background(saved["background"])
        restored.k_ = saved["k"]
        restored.settings_ = saved["settings"]
        restored.candidates_ = pd.DataFrame(saved["candidates"])
        restored.history_ = pd.DataFrame(saved["history"])
        restored.sanity_ = saved["sanity"]
        restored.model_ = model.requires_grad_(requires_grad=False)
        _check_fit(restored)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{where!r} is not a complete {name}: {in_words(error)}") from error
    return restored


def _described(objective: "OwnObjective | None") -> Any:
    """An objective as JSON: its name, or its settings too if it is an object."""
    if objective is None or isinstance(objective, str):
        return objective
    if isinstance(objective, type):
        return OBJECTIVES.name_of(objective)
    return OBJECTIVES.describe(objective)


def _objective(described: Any, trust: Trust) -> "OwnObjective | None":
    """What `_described` described: an object, or the name of one that may be looked up."""
    if isinstance(described, dict):
        objective: Objective = OBJECTIVES.restore(described, trust)
        return objective
    return None if described is None else OBJECTIVES.stored(described, trust).name


def _check_fit(restored: "StableEstimator") -> None:
    """The parts of a file must belong together."""
    shape = {key: restored.model_.architecture.get(key) for key in ("features", "classes")}  # type: ignore[union-attr, operator]
    n = len(restored.encoding_.names)
    names = getattr(restored, "feature_names_in_", None)
    named = names is None or names.tolist() == [column.name for column in restored.encoding_.columns]
    if (
        shape != {"features": n, "classes": restored.outputs}
        or not 1 <= restored.k_ < len(restored.encoding_.columns)
        or not named
        or restored.background_.tensor.shape[1] != n
    ):
        raise CheckpointError(
            f"the parts do not fit: a model of {shape}, {n} encoded features, {restored.outputs} outputs, "
            f"k={restored.k_}, columns called {quoted(names if names is None else names.tolist())}"
        )
