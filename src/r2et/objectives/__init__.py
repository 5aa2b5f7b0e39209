"""Training objectives: scalars of a model and a batch, usable in any training loop."""

from r2et.objectives.adversarial import AdversarialTraining
from r2et.objectives.curvature import SSR, CertifiedRadius, EstimatedHessian, ExactHessian
from r2et.objectives.explained_batch import ExplainedBatch
from r2et.objectives.objective import OBJECTIVES, Loss, Objective
from r2et.objectives.plain import CrossEntropy
from r2et.objectives.r2et import R2ET, DirectThickness
from r2et.objectives.regularised import Regularised, Term

__all__ = [
    "OBJECTIVES",
    "R2ET",
    "SSR",
    "AdversarialTraining",
    "CertifiedRadius",
    "CrossEntropy",
    "DirectThickness",
    "EstimatedHessian",
    "ExactHessian",
    "ExplainedBatch",
    "Loss",
    "Objective",
    "Regularised",
    "Term",
]
