"""The one way in which models are saved and loaded: safetensors and JSON, whole or not at all."""

from r2et.checkpoints.explanations import create_explainer, describe_explainer
from r2et.checkpoints.models import load_model, save_model

__all__ = ["create_explainer", "describe_explainer", "load_model", "save_model"]
