"""Anything that predicts, behind one record: from a file, a folder, a function or a module, by `open_model`."""

from r2et.predictors.factories import load_from_factory
from r2et.predictors.models import OpenedModel, open_model
from r2et.predictors.programs import Program, load_program

__all__ = [
    "OpenedModel",
    "Program",
    "load_from_factory",
    "load_program",
    "open_model",
]
