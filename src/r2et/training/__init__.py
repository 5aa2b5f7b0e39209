"""Training: the fit loop, the selection rule, the paper's methods by name, checkpoints."""

from r2et.training.checkpoints import load_model, save_model
from r2et.training.fitting import fit
from r2et.training.methods import METHODS, Method, train_method
from r2et.training.selection import Candidate, choose
from r2et.training.settings import FitResult, Retraining, Settings
from r2et.training.trainer import Trainer

__all__ = [
    "METHODS",
    "Candidate",
    "FitResult",
    "Method",
    "Retraining",
    "Settings",
    "Trainer",
    "choose",
    "fit",
    "load_model",
    "save_model",
    "train_method",
]
