"""Training objectives: scalars of a model and a batch, usable in any training loop."""

from r2et.objectives.adversarial import AdversarialTraining
from r2et.objectives.base import OBJECTIVES, ExplainedBatch, Loss, Objective, Regularised, Term
from r2et.objectives.curvature import SSR, CertifiedRadius, EstimatedHessian, ExactHessian
from r2et.objectives.plain import CrossEntropy
from r2et.objectives.r2et import R2ET, DirectThickness

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
