"""Any model that can be audited, from the text that names it or from memory."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import torch
from torch import nn

from r2et.checkpoints import load_model
from r2et.checkpoints.estimators import SavedEstimator, restore_estimator
from r2et.data import DATA_SETS
from r2et.errors import CheckpointError, InputError
from r2et.explainers import EXPLAINERS, Explainer
from r2et.files.reading import regular_file, typed
from r2et.foreign import is_code
from r2et.numerics.values import check_kind, check_path, quoted
from r2et.predictors.factories import load_from_factory
from r2et.predictors.programs import EXPORT, Program, load_program
from r2et.registry import Trust
from r2et.tables.origins import Origin, read_origin

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Kind = Literal["estimator", "checkpoint", "program", "factory", "module"]

_PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".joblib", ".ckpt", ".sav", ".model"}
_KNOWN = (
    "a folder that r2et train or StableClassifier.save wrote, a torch.export program (.pt2), or "
    "package.module:factory with --weights file.safetensors"
)


class _Information(TypedDict, total=False):
    """What the commands read of what was saved with a model; whoever saves one may add more."""

    estimator: str
    data: str | None
    target: str | None
    data_options: dict[str, Any]
    k: int
    explainer: dict[str, Any]
    attack: "_Attack"


class _Attack(TypedDict, total=False):
    radius: float
    steps: int


@dataclass(frozen=True)
class OpenedModel:
    """A model and what is known about it.

    Attributes:
        source: the text it was opened by, or its class if it was in memory.
        name: a short name, for tables and reports.
        kind: where it came from.
        model: maps (N, *features) to logits (N, C); from a file it is in evaluation mode.
        estimator: the one it belongs to, which encodes columns, such as a StableClassifier; None for others.
        information: what was saved with an r2et checkpoint.
        explainer: the explanation that it was trained for; None if that is unknown.
        origin: which rows of which file `r2et train` used; None if that is unknown.
    """

    source: str
    name: str
    kind: Kind
    model: nn.Module = field(repr=False)
    estimator: SavedEstimator | None = field(default=None, repr=False)
    information: dict[str, Any] = field(default_factory=dict, repr=False)
    explainer: Explainer | None = field(default=None, repr=False)
    origin: Origin | None = field(default=None, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        """What its inputs must be: the dtype of its weights, or the one it was exported for."""
        if isinstance(self.model, Program):
            return self.model.dtype
        floating = (weight.dtype for weight in self.model.parameters() if weight.is_floating_point())
        return next(floating, torch.float32)


def open_model(
    source: "str | os.PathLike[str] | nn.Module | ExportedProgram | SavedEstimator",
    *,
    weights: str | os.PathLike[str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    trust: Trust = (),
) -> OpenedModel:
    """Open a saved estimator, an r2et checkpoint, a torch.export program, a factory with weights, or a module.

    Each file is read once. Pickles are refused: reading one runs whatever code is in it.

    Args:
        source: a folder, a `.pt2` file, or `package.module:factory`, which is imported and run; or what is in
            memory: a module or a fitted estimator, taken as it is, or what `torch.export.export` returned.
        weights: of a factory's model, a .safetensors file.
        arguments: keyword arguments of a factory.
        trust: classes of your own, or their names `package.module:Class`, that a folder may name. Those of r2et
            and of installed plug-ins need none; any other code that a file names is refused.

    >>> open_model("torch.nn:Linear", arguments={"in_features": 3, "out_features": 2})
    OpenedModel(source='torch.nn:Linear', name='torch.nn:Linear', kind='factory')
    >>> open_model(nn.Linear(3, 2))
    OpenedModel(source='Linear', name='Linear', kind='module')
    """
    if arguments is not None:
        check_kind("arguments", arguments, Mapping, '{"hidden": 32}')
    if isinstance(source, str) and is_code(source) and not os.path.exists(source):
        model = load_from_factory(source, weights, arguments)
        return OpenedModel(source, source if weights is None else Path(weights).stem, "factory", model)
    if weights is not None or arguments:
        raise InputError(
            f"weights and arguments belong to package.module:factory, {quoted(source)} is none: leave them out"
        )
    in_memory = _from_memory(source)
    return in_memory if in_memory is not None else _from_path(source, trust)


def _from_memory(source: object) -> OpenedModel | None:
    """A module, a program or an estimator; None for anything else."""
    from torch.export import ExportedProgram

    name = type(source).__name__
    if isinstance(source, SavedEstimator):
        if not hasattr(source, "model_"):
            raise InputError(f"this {name} is not fitted: call its fit(X, y) first")
        return OpenedModel(name, name, "estimator", source.model_, source)
    if isinstance(source, ExportedProgram):
        return OpenedModel(name, name, "program", Program(source))
    if isinstance(source, nn.Module):
        return OpenedModel(name, name, "program" if isinstance(source, Program) else "module", source)
    return None


def _from_path(source: Any, trust: Trust) -> OpenedModel:
    check_path("source", source)
    text, path = os.fspath(source), Path(source)
    if os.path.isdir(path) or path.suffix == ".json":
        return _from_folder(text, path, trust)
    if not os.path.lexists(path):
        raise InputError(f"there is no model {quoted(text)}: give {_KNOWN}")
    regular_file(path, InputError)
    if path.suffix == ".pt2":
        return OpenedModel(text, path.stem, "program", load_program(path))
    raise InputError(_refusal(text, path))


def _from_folder(text: str, path: Path, trust: Trust) -> OpenedModel:
    model, information = load_model(path, trust=trust)
    typed(information, _Information, repr(text), CheckpointError)
    if is_code(information.get("data")):
        # what a file names is loaded only by who knows that code
        DATA_SETS.stored(information["data"], trust)
    name = (path if path.is_dir() else path.parent).resolve().name
    if "estimator" not in information:
        described = information.get("explainer")
        explainer = None if described is None else EXPLAINERS.restore(described, trust)
        return OpenedModel(text, name, "checkpoint", model, information=information, explainer=explainer)
    # not a second reading: another model may be in this folder by then
    estimator = restore_estimator(model, information, text, trust=trust)
    origin = read_origin(information, text)
    return OpenedModel(text, name, "estimator", estimator.model_, estimator, information, origin=origin)


def _refusal(text: str, path: Path) -> str:
    if path.suffix in _PICKLES:
        return (
            f"{text!r} is a pickle by its name, and reading a pickle runs whatever code is in it, so r2et does "
            f"not. In the program that made it, write a .pt2: {EXPORT}. Or write its weights, "
            "safetensors.torch.save_model(model, 'model.safetensors'), and name the function that makes the "
            "model: package.module:factory --weights model.safetensors"
        )
    if path.suffix == ".safetensors":
        return (
            f"{text!r} holds weights, but not the model they belong to: give package.module:factory --weights "
            f"{text}"
        )
    return f"{text!r} is not a model that r2et can open: give {_KNOWN}"
