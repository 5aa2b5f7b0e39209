"""Columns read as an earlier file had them: a file of three rows has too little to recognise anything by."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from r2et.tables import formats_dates as dates
from r2et.tables import formats_numbers as numbers
from r2et.tables.formats import ColumnFormat
from r2et.tables.formats_columns import Texts, marks_of_missing
from r2et.tables.formats_numbers import Marks
from r2et.tables.recognising import Outcome, _counted, spread, with_gaps


@dataclass(frozen=True)
class Contradiction:
    """A text that cannot be what its column was: its row, counted from 0."""

    value: str
    row: int


def as_remembered(texts: Texts, column: ColumnFormat, own: tuple[str, ...] = ()) -> Outcome | Contradiction:
    """The values of a column by its format in an earlier file, or the first that contradicts it.

    Whole numbers are int64 where the column had no gaps before and has none now, else float64.

    Args:
        texts: of N rows.
        column: how an earlier file wrote them.
        own: marks of missing values that a person named.
    """
    missing = marks_of_missing(texts.texts, texts_stay=column.kind == "text", kept=column.kept, own=own)
    if column.kind == "date":
        missing = missing | np.asarray(texts.texts.isin(dates.NOTHING), dtype=bool)
    if column.kind == "text":
        return _texts(texts, column, missing)
    rest = texts.texts[~missing].reset_index(drop=True)
    read = {"whole": _numbers, "number": _numbers, "truth": _truth, "date": _dates}[column.kind]
    values = read(rest, column)
    if isinstance(values, int):
        place = int(np.flatnonzero(~missing)[values])
        return Contradiction(str(texts.texts.iloc[place]), texts.row(place))
    nothing: Any = np.datetime64("NaT", "us") if column.kind == "date" else np.nan
    every = with_gaps(texts, missing, values, nothing)
    if column.gaps and column.kind != "date":
        every = every.astype(object if column.kind == "truth" else np.float64)
    return Outcome(column, every, _counted(texts, missing), texts.padded)


def _texts(texts: Texts, column: ColumnFormat, missing: Any) -> Outcome:
    values = texts.texts.mask(missing)
    if column.words:
        spelt = {word.casefold(): word for word in column.words}
        values = values.map({text: spelt.get(text.casefold(), text) for text in texts.texts[~missing]})
    return Outcome(column, spread(texts, values), _counted(texts, missing), texts.padded)


def _numbers(rest: Any, column: ColumnFormat) -> Any:
    """Numbers, or the place of a text that is none, or has another sign."""
    if not len(rest):
        return np.empty(0, dtype=np.int64 if column.kind == "whole" else np.float64)
    bodies, sign = rest, ""
    if not numbers.numberish(bodies).all():
        bodies, sign = numbers.unsigned(numbers.plain(rest))
    if sign != column.sign and "%" in (sign, column.sign):
        # beside "12 %" a bare 0.3 may be a share
        bare = np.flatnonzero(bodies != "0")
        if len(bare):
            return int(bare[0])
    elif sign and column.sign and sign != column.sign:
        return 0
    wrong = np.ones(len(bodies), dtype=bool)
    for thousands in (
        [column.thousands] if column.thousands else ["", "," if column.decimal == "." else ".", "'", " "]
    ):
        marks = Marks(column.decimal, thousands)
        misfits = ~numbers.fits(bodies, marks)
        if not misfits.any():
            parsed = numbers.parsed(bodies, marks)
            return parsed if column.kind == "whole" else parsed.astype(np.float64)
        wrong &= misfits
    return int(np.argmax(wrong)) if wrong.any() else 0


def _truth(rest: Any, column: ColumnFormat) -> Any:
    folded = rest.str.casefold()
    wrong = np.flatnonzero(~folded.isin(["true", "false"]))
    return int(wrong[0]) if len(wrong) else np.asarray(folded == "true", dtype=bool)


def _dates(rest: Any, column: ColumnFormat) -> Any:
    moments = dates.dates(rest, column.date)
    wrong = np.flatnonzero(np.isnat(moments))
    return int(wrong[0]) if len(wrong) else moments
