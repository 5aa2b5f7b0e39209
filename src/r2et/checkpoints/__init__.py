"""The one way in which models are saved and loaded: safetensors and JSON, whole or not at all."""

from r2et.checkpoints.models import load_model, save_model

__all__ = ["load_model", "save_model"]
