"""Data sets by name, split, scaled and described: `load("breast-cancer")`; and people's own images and graphs."""

from r2et.data.augmented import MovedImages
from r2et.data.base import Dataset, Split
from r2et.data.catalogue import DATA_SETS, Info, Request, Source, describe, fetch, load, names, register
from r2et.data.graph_files import load_graphs
from r2et.data.image_files import load_images
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.data.pairs import DrawnPairs, PairCounts, Pairs

__all__ = [
    "DATA_SETS",
    "Dataset",
    "DrawnPairs",
    "GraphLayout",
    "ImageLayout",
    "Info",
    "MovedImages",
    "PairCounts",
    "Pairs",
    "Request",
    "Source",
    "Split",
    "describe",
    "fetch",
    "load",
    "load_graphs",
    "load_images",
    "names",
    "register",
]
