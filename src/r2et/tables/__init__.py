"""From a file to checked columns to the numbers that a model sees."""

from typing import TYPE_CHECKING

from r2et.lazy import lazily

if TYPE_CHECKING:
    from r2et.tables.encoding import Encoding
    from r2et.tables.labelled import (
        LabelledTable,
        class_numbers,
        class_order,
        numeric_inputs,
        read_frame,
        read_table,
    )
    from r2et.tables.origins import Origin

__all__ = [
    "Encoding",
    "LabelledTable",
    "Origin",
    "class_numbers",
    "class_order",
    "numeric_inputs",
    "read_frame",
    "read_table",
]

# pandas is imported when it is used: a data set of images needs none
__getattr__ = lazily(
    "r2et.tables",
    {"Encoding": "encoding", "Origin": "origins"}
    | dict.fromkeys(set(__all__) - {"Encoding", "Origin"}, "labelled"),
)


def __dir__() -> list[str]:
    return sorted(__all__)
