"""Anything that predicts: from a file, a folder or a function to what `r2et.audit` takes."""

from r2et.predictors.factories import load_from_factory
from r2et.predictors.models import OpenedModel, open_model
from r2et.predictors.programs import Program, load_program
from r2et.predictors.subjects import Subject, choose_rows, from_data_set, from_table

__all__ = [
    "OpenedModel",
    "Program",
    "Subject",
    "choose_rows",
    "from_data_set",
    "from_table",
    "load_from_factory",
    "load_program",
    "open_model",
]
