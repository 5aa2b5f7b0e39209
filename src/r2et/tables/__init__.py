"""The only way a table enters: file -> frame -> checked columns -> `Encoding` -> `Rows`."""

from typing import TYPE_CHECKING

from r2et.lazy import lazily

if TYPE_CHECKING:
    from r2et.tables.checking import check_table
    from r2et.tables.columns import numeric_inputs
    from r2et.tables.encoding import Encoding
    from r2et.tables.files import read_chunks, read_frame, read_texts, recognise
    from r2et.tables.findings import TableReport
    from r2et.tables.formats import Format, Hints
    from r2et.tables.kinds import Pooling
    from r2et.tables.labelled import LabelledTable, read_table
    from r2et.tables.labels import as_numbers, class_numbers, class_order
    from r2et.tables.origins import Origin
    from r2et.tables.plausible import Plausible, parse_plausible
    from r2et.tables.rows import Rows
    from r2et.tables.units import Units

__all__ = [
    "Encoding",
    "Format",
    "Hints",
    "LabelledTable",
    "Origin",
    "Plausible",
    "Pooling",
    "Rows",
    "TableReport",
    "Units",
    "as_numbers",
    "check_table",
    "class_numbers",
    "class_order",
    "numeric_inputs",
    "parse_plausible",
    "read_chunks",
    "read_frame",
    "read_table",
    "read_texts",
    "recognise",
]

# pandas is imported when it is used: a data set of images needs none
__getattr__ = lazily(
    "r2et.tables",
    {
        "Encoding": "encoding",
        "Format": "formats",
        "Hints": "formats",
        "LabelledTable": "labelled",
        "Origin": "origins",
        "Plausible": "plausible",
        "Pooling": "kinds",
        "Rows": "rows",
        "TableReport": "findings",
        "check_table": "checking",
        "Units": "units",
        "as_numbers": "labels",
        "class_numbers": "labels",
        "class_order": "labels",
        "numeric_inputs": "columns",
        "parse_plausible": "plausible",
        "read_chunks": "files",
        "read_frame": "files",
        "read_table": "labelled",
        "read_texts": "files",
        "recognise": "files",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
