"""Other people's models and tables: from a file, a folder or a function to what `r2et.audit` takes."""

from r2et.loading.factories import load_from_factory
from r2et.loading.models import OpenedModel, open_model
from r2et.loading.origins import Origin
from r2et.loading.programs import Program, load_program
from r2et.loading.subjects import Subject, choose_rows, from_data_set, from_table
from r2et.loading.tables import LabelledTable, class_numbers, class_order, numeric_inputs, read_frame, read_table

__all__ = [
    "LabelledTable",
    "OpenedModel",
    "Origin",
    "Program",
    "Subject",
    "choose_rows",
    "class_numbers",
    "class_order",
    "from_data_set",
    "from_table",
    "load_from_factory",
    "load_program",
    "numeric_inputs",
    "open_model",
    "read_frame",
    "read_table",
]
