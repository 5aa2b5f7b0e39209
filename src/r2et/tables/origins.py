"""Which rows of which file a classifier was trained on, so that an audit can take the others.

It is saved in the classifier's own JSON file: one write replaces both, so that no model has the rows of another.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r2et.errors import CheckpointError, InputError
from r2et.numerics.values import check_count, check_kind, check_text, is_whole, quoted
from r2et.tables.formats import Format


@dataclass(frozen=True)
class Origin:
    """The file of a training and its rows that were held out. No data is kept, only numbers of rows.

    Attributes:
        target: the column that was predicted.
        sha256: of the file's bytes; another file is another table.
        rows: how many the file has.
        held_out: numbers of the rows, from 0, that training did not see.
        format: how the file is written; later files are read in the same way. None = that is not known.
        dropped: columns of the file that were left out, with the reason.
    """

    target: str
    sha256: str
    rows: int
    held_out: tuple[int, ...]
    format: Format | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("target", "sha256"):
            check_text(name, getattr(self, name))
        check_kind("dropped", self.dropped, Mapping, '{"row": "row number"}')
        for text in (*self.dropped, *self.dropped.values()):
            check_text("a text in dropped", text)
        check_count("rows", self.rows, least=0)
        if self.format is not None:
            check_kind("format", self.format, Format, "r2et.tables.recognise(path)")
        if not isinstance(self.held_out, tuple) or not all(map(is_whole, self.held_out)):
            raise InputError(f"held_out must be a tuple of numbers of rows, got held_out={quoted(self.held_out)}")
        if not all(0 <= row < self.rows for row in self.held_out):
            raise CheckpointError(
                f"rows {min(self.held_out)} to {max(self.held_out)} were held out, but the file of the training "
                f"has {self.rows} rows"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON.

        >>> Origin("bought", "ab", 4, (1, 3)).to_dict()
        {'target': 'bought', 'sha256': 'ab', 'rows': 4, 'held_out': [1, 3], 'format': None, 'dropped': {}}
        """
        written = None if self.format is None else self.format.to_dict()
        plain = {"target": self.target, "sha256": self.sha256, "rows": self.rows, "held_out": list(self.held_out)}
        return {**plain, "format": written, "dropped": dict(self.dropped)}

    def caveat(self, name: str, sha256: str, rows: NDArray[np.int64]) -> str:
        """What to know about rows of a file, by position, before believing figures from them; "" = nothing.

        >>> origin = Origin("bought", "ab", 4, (1, 3))
        >>> origin.caveat("people.csv", "ab", np.array([1, 3]))
        ''
        >>> origin.caveat("people.csv", "ab", np.array([1, 2]))
        '1 of these 2 rows was in the training of this model: on new rows it may do worse'
        """
        if sha256 != self.sha256:
            return (
                f"{name} is not the file that this model was trained on (its checksum differs): rows of the "
                "training may be among these, and on new rows the model may do worse"
            )
        seen = len(np.setdiff1d(rows, self.held_out))
        if not seen:
            return ""
        verb = "was" if seen == 1 else "were"
        return (
            f"{seen} of these {len(rows)} rows {verb} in the training of this model: on new rows it may do worse"
        )


def read_origin(information: Mapping[str, Any], source: str) -> Origin | None:
    """The origin in what was saved with a classifier; None where there is none.

    >>> saved = {"target": "bought", "sha256": "ab", "rows": 4, "held_out": [1, 3]}
    >>> read_origin({"origin": saved}, "plain")
    Origin(target='bought', sha256='ab', rows=4, held_out=(1, 3), format=None, dropped={})
    """
    saved = information.get("origin")
    if saved is None:
        return None
    try:
        held_out = tuple(map(operator.index, saved["held_out"]))
        written = saved.get("format")
        return Origin(
            str(saved["target"]),
            str(saved["sha256"]),
            operator.index(saved["rows"]),
            held_out,
            None if written is None else Format.from_dict(written, f"{source!r}: format of the file"),
            saved.get("dropped", {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{source!r} says wrongly which rows it was trained on: {error}. Train it again"
        ) from error
