"""The only way a table enters: file -> frame -> checked columns -> `Encoding` -> `Rows`."""

from typing import TYPE_CHECKING

from r2et.lazy import lazily

if TYPE_CHECKING:
    from r2et.tables.columns import numeric_inputs
    from r2et.tables.encoding import Encoding
    from r2et.tables.files import read_frame, read_texts
    from r2et.tables.labelled import LabelledTable, read_table
    from r2et.tables.labels import as_numbers, class_numbers, class_order
    from r2et.tables.origins import Origin
    from r2et.tables.rows import Rows

__all__ = [
    "Encoding",
    "LabelledTable",
    "Origin",
    "Rows",
    "as_numbers",
    "class_numbers",
    "class_order",
    "numeric_inputs",
    "read_frame",
    "read_table",
    "read_texts",
]

# pandas is imported when it is used: a data set of images needs none
__getattr__ = lazily(
    "r2et.tables",
    {
        "Encoding": "encoding",
        "LabelledTable": "labelled",
        "Origin": "origins",
        "Rows": "rows",
        "as_numbers": "labels",
        "class_numbers": "labels",
        "class_order": "labels",
        "numeric_inputs": "columns",
        "read_frame": "files",
        "read_table": "labelled",
        "read_texts": "files",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
