"""Explainers: functions from a model and inputs to one score a feature."""

from r2et.explain.activation import Activation
from r2et.explain.averaged import IntegratedGradients, SmoothGrad
from r2et.explain.base import Explainer
from r2et.explain.captum import FromCaptum
from r2et.explain.gradient import Gradient, GradientTimesInput

__all__ = [
    "Activation",
    "Explainer",
    "FromCaptum",
    "Gradient",
    "GradientTimesInput",
    "IntegratedGradients",
    "SmoothGrad",
]
