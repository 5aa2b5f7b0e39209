"""How models are trained: methods, presets, grids and the rule that selects, in one place."""

from r2et.recipes.methods import METHODS, Method, find_method, method_names, method_title, train_method
from r2et.recipes.presets import PRESETS, Preset, Schedule, find_preset
from r2et.recipes.selection import Candidate, choose

__all__ = [
    "METHODS",
    "PRESETS",
    "Candidate",
    "Method",
    "Preset",
    "Schedule",
    "choose",
    "find_method",
    "find_preset",
    "method_names",
    "method_title",
    "train_method",
]
