"""Data sets by name, split, scaled and described: `load("breast-cancer")`."""

import importlib
import pkgutil

from r2et.data.base import Dataset, Split
from r2et.data.registry import Info, describe, fetch, load, names

__all__ = ["Dataset", "Info", "Split", "describe", "fetch", "load", "names"]

# Every module of the package is imported, so that a new data set is one new file and no second edit.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
