"""Packages that import what they offer when it is asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names live in its modules; "" = the name is a module itself.

    >>> find = lazily("r2et", {"precision_at_k": "ranking", "scores": ""})
    >>> find("precision_at_k").__module__, find("scores").__name__
    ('r2et.ranking', 'r2et.scores')
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{homes[name] or name}")
        return getattr(module, name) if homes[name] else module

    return find
