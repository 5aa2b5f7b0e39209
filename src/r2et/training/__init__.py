"""Training: the fit loop, its settings and its steps."""

from r2et.training.batches import Batch, WeightedRows
from r2et.training.fitting import fit
from r2et.training.settings import FitResult, Retraining, Settings
from r2et.training.trainer import Trainer

__all__ = ["Batch", "FitResult", "Retraining", "Settings", "Trainer", "WeightedRows", "fit"]
