"""Training objectives: scalars of a model and a batch, usable in any training loop."""

from r2et.objectives.adversarial import AdversarialTraining
from r2et.objectives.base import Loss, Objective
from r2et.objectives.curvature import SSR, CertifiedRadius, EstimatedHessian, ExactHessian
from r2et.objectives.plain import CrossEntropy
from r2et.objectives.r2et import R2ET, DirectThickness

__all__ = [
    "R2ET",
    "SSR",
    "AdversarialTraining",
    "CertifiedRadius",
    "CrossEntropy",
    "DirectThickness",
    "EstimatedHessian",
    "ExactHessian",
    "Loss",
    "Objective",
]
