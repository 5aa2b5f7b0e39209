"""`package.module:factory` with safetensors weights as a model: this imports and runs the user's code."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from r2et.errors import InputError, ModelError, in_words
from r2et.files.reading import parse_json, regular_file
from r2et.foreign import import_code, importable_here, is_code
from r2et.numerics.values import check_kind, check_path, check_text, quoted


def load_from_factory(
    source: str,
    weights: str | os.PathLike[str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Import a module, call its factory, and load weights into what it returns.

    The current folder can be imported from. The code that is named here is run.

    Args:
        source: `package.module:factory`, or `package.module:Class.method`.
        weights: a .safetensors file of the model's state_dict; None = the model as the factory made it.
        arguments: keyword arguments of the factory.

    >>> load_from_factory("torch.nn:Linear", arguments={"in_features": 3, "out_features": 2})
    Linear(in_features=3, out_features=2, bias=True)
    """
    check_text("source", source)
    if weights is not None:
        check_path("weights", weights)
    if arguments is not None:
        check_kind("arguments", arguments, Mapping, '{"hidden": 32}')
    factory = _find(source)
    keywords = dict(arguments or {})
    called = f"{source}({', '.join(f'{name}={value!r}' for name, value in keywords.items())})"
    try:
        with importable_here():
            model = factory(**keywords)
    # sys.exit() of somebody's code is not the end of ours
    except (Exception, SystemExit) as error:
        raise InputError(f"{called} raised {in_words(error)}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{called} returned {type(model).__name__}, not a torch.nn.Module")
    if weights is not None:
        _load_weights(model, Path(weights), called)
    return model.eval()


def parse_arguments(pairs: list[str]) -> dict[str, Any]:
    """`["hidden=[32, 16]", "name=wide"]` as keyword arguments: JSON where it is JSON, else text.

    >>> parse_arguments(["hidden=[32, 16]", "dropout=0.1", "bias=false", "name=wide"])
    {'hidden': [32, 16], 'dropout': 0.1, 'bias': False, 'name': 'wide'}
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.isidentifier() or not equals:
            raise InputError(f"--factory-arg takes name=value, such as hidden=32; got {pair!r}")
        try:
            arguments[name] = parse_json(value)
        except ValueError:
            arguments[name] = {"True": True, "False": False, "None": None}.get(value, value)
    return arguments


def _find(source: str) -> Any:
    if not is_code(source):
        raise InputError(f"{source!r} is not of the form package.module:factory")
    factory = import_code(source)
    if not callable(factory):
        raise InputError(f"{source!r} is {type(factory).__name__}, not a function or class that makes a model")
    return factory


def _load_weights(model: nn.Module, path: Path, called: str) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file, load_model

    if not os.path.lexists(path):
        raise InputError(f"there is no weights file {quoted(path)}")
    regular_file(path, InputError)
    if path.suffix != ".safetensors":
        raise InputError(
            f"{str(path)!r} is not a .safetensors file. Write one by "
            "safetensors.torch.save_model(model, 'model.safetensors')"
        )
    try:
        tensors = load_file(path)
        if any(tensor.dtype == torch.float64 for tensor in tensors.values()):
            model.double()
        # knows weights that share memory, of which a file holds one
        missing, unexpected = load_model(model, path, strict=False)
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"the weights in {str(path)!r} do not fit {called}: {error}") from error
    if missing or unexpected:
        parts = [
            f"{what} {', '.join(sorted(names)[:4])}{' ...' if len(names) > 4 else ''}"
            for what, names in (("missing", missing), ("unexpected", unexpected))
            if names
        ]
        raise InputError(f"the weights in {str(path)!r} do not fit {called}: {'; '.join(parts)}")
