"""From a file to checked columns to the numbers that a model sees."""

from r2et.tables.encoding import Encoding
from r2et.tables.labelled import LabelledTable, class_numbers, class_order, numeric_inputs, read_frame, read_table

__all__ = [
    "Encoding",
    "LabelledTable",
    "class_numbers",
    "class_order",
    "numeric_inputs",
    "read_frame",
    "read_table",
]
