"""`package.module:factory` with safetensors weights as a model: this imports and runs the user's code."""

import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from r2et._checks import InputError, ModelError, check_kind, check_path, check_text, quoted, suggestion
from r2et._foreign import in_words, parse_json, regular_file

_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_factory(text: str) -> bool:
    """Whether a text has the form `package.module:factory`.

    >>> is_factory("shop.models:make"), is_factory("models/net.pt2")
    (True, False)
    """
    return _PATTERN.fullmatch(text) is not None


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
    given = dict(arguments or {})
    called = f"{source}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    try:
        with _importable_here():
            model = factory(**given)
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
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name.isidentifier() or not equals:
            raise InputError(f"--factory-arg takes name=value, such as hidden=32; got {pair!r}")
        try:
            found[name] = parse_json(value)
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(value, value)
    return found


def _find(source: str) -> Any:
    if not is_factory(source):
        raise InputError(f"{source!r} is not of the form package.module:factory")
    module_name, _, path = source.partition(":")
    try:
        with _importable_here():
            found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"module {module_name!r} of {source!r} cannot be imported: {error}. It is looked for in the current "
            "folder and among the installed packages"
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(f"importing {module_name!r} raised {in_words(error)}") from error
    for name in path.split("."):
        if not _has(found, name):
            known = [entry for entry in dir(found) if callable(getattr(found, entry, None)) and entry[0] != "_"]
            raise InputError(f"{module_name!r} has no {path!r}{suggestion(name, known[:20])}")
        found = getattr(found, name)
    if not callable(found):
        raise InputError(f"{source!r} is {type(found).__name__}, not a function or class that makes a model")
    return found


def _has(found: Any, name: str) -> bool:
    """Whether it has an attribute; a module's own `__getattr__` may raise anything."""
    try:
        return hasattr(found, name)
    except (Exception, SystemExit) as error:
        raise InputError(f"looking up {name!r} raised {in_words(error)}") from error


@contextmanager
def _importable_here() -> Iterator[None]:
    """An installed command does not look into the current folder, unlike `python`."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    # a file that was written a moment ago is not in the finder's cache
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)


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
