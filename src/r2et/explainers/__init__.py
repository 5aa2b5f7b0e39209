"""Explainers: functions from a model and inputs to one score per feature."""

from r2et.explainers.activation import Activation
from r2et.explainers.averaged import IntegratedGradients, SmoothGrad
from r2et.explainers.background import Background
from r2et.explainers.by_columns import ByColumns
from r2et.explainers.captum import FromCaptum
from r2et.explainers.column_effects import ColumnEffects, table_explainer
from r2et.explainers.contributions import Contributions
from r2et.explainers.explainer import EXPLAINERS, Explainer
from r2et.explainers.gradient import Gradient, GradientTimesInput

__all__ = [
    "EXPLAINERS",
    "Activation",
    "Background",
    "ByColumns",
    "ColumnEffects",
    "Contributions",
    "Explainer",
    "FromCaptum",
    "Gradient",
    "GradientTimesInput",
    "IntegratedGradients",
    "SmoothGrad",
    "table_explainer",
]
