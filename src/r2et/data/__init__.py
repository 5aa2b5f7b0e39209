"""Data sets by name, split, scaled and described: `load("breast-cancer")`; and people's own images and graphs."""

import importlib
import pkgutil

from r2et.data.augmented import MovedImages
from r2et.data.base import Dataset, Split
from r2et.data.graph_files import load_graphs
from r2et.data.image_files import load_images
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.data.pairs import DrawnPairs, PairCounts, Pairs
from r2et.data.registry import Info, describe, fetch, load, names

__all__ = [
    "Dataset",
    "DrawnPairs",
    "GraphLayout",
    "ImageLayout",
    "Info",
    "MovedImages",
    "PairCounts",
    "Pairs",
    "Split",
    "describe",
    "fetch",
    "load",
    "load_graphs",
    "load_images",
    "names",
]

# Every module of the package is imported, so that a new data set is one new file and no second edit.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
