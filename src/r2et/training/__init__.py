"""Training: the fit loop, the selection rule, the paper's methods and presets by name, checkpoints."""

from r2et.training.checkpoints import load_model, save_model
from r2et.training.explanations import create_explainer, describe_explainer
from r2et.training.fitting import fit
from r2et.training.methods import METHODS, Method, train_method
from r2et.training.presets import PRESETS, Preset, Schedule, find_preset
from r2et.training.selection import Candidate, choose
from r2et.training.settings import FitResult, Retraining, Settings, WeightedRows
from r2et.training.trainer import Trainer

__all__ = [
    "METHODS",
    "PRESETS",
    "Candidate",
    "FitResult",
    "Method",
    "Preset",
    "Retraining",
    "Schedule",
    "Settings",
    "Trainer",
    "WeightedRows",
    "choose",
    "create_explainer",
    "describe_explainer",
    "find_preset",
    "fit",
    "load_model",
    "save_model",
    "train_method",
]
