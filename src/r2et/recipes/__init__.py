"""How models are trained: methods, presets, grids and the rule that selects, in one place."""

from r2et.recipes.method import Method
from r2et.recipes.methods import METHODS, find_method, grids, method_names, method_title, train_method
from r2et.recipes.presets import PRESETS, Preset, Schedule, find_preset
from r2et.recipes.selection import Trial, select

__all__ = [
    "METHODS",
    "PRESETS",
    "Method",
    "Preset",
    "Schedule",
    "Trial",
    "find_method",
    "find_preset",
    "grids",
    "method_names",
    "method_title",
    "select",
    "train_method",
]
