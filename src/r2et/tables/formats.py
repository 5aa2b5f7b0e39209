"""How a file writes its values: what was recognised, what a person said, and how it is kept for later files."""

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from r2et.errors import CheckpointError, InputError
from r2et.files.reading import typed
from r2et.numerics.values import check_kind, check_text, quoted

Kind = Literal["whole", "number", "truth", "date", "text"]

#: separators by the names that people may type
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "\\t": "\t"}
_MARKS = {"dot": ".", "point": ".", "comma": ",", "space": " ", "apostrophe": "'", "none": ""}


@dataclass(frozen=True)
class ColumnFormat:
    """How one column writes its values.

    Attributes:
        name: of the column.
        kind: "whole" numbers, "number", "truth" (true and false), "date" or "text".
        gaps: whether values were missing.
        decimal, thousands: the marks in its numbers.
        sign: a currency sign or "%" that stands beside the numbers, and is left out.
        date: how its dates are written, as strptime has it, or "ISO".
        words: its yes and no as the file writes them most often.
        kept: marks such as "none" that are values of their own in this column, not missing ones.
    """

    name: str
    kind: Kind = "text"
    gaps: bool = False
    decimal: str = "."
    thousands: str = ""
    sign: str = ""
    date: str = ""
    words: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """How a file is written: `recognise` finds it out, a saved classifier keeps it.

    Attributes:
        separator: between the values of a line; "" for Parquet, which says its types itself.
        encoding: of the text.
        decimal, thousands: the marks of most of its numbers.
        columns: each column in the order of the file.
        missing: texts that stand for a missing value beside the usual ones, as a person said.
        said: what a person should know about how the file was read, as sentences without their full stop. They are
            about one file, so they are neither compared nor stored.

    >>> Format(";", "cp1252", decimal=",", columns=(ColumnFormat("pay", "number", decimal=",", sign="%"),)).percent
    ('pay',)
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    columns: tuple[ColumnFormat, ...] = ()
    missing: tuple[str, ...] = ()
    said: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("separator", "encoding", "decimal", "thousands"):
            check_text(name, getattr(self, name))
        if not isinstance(self.columns, tuple) or not all(isinstance(each, ColumnFormat) for each in self.columns):
            raise InputError(f"columns must be a tuple of ColumnFormat, got columns={quoted(self.columns)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def dates(self) -> dict[str, str]:
        """Columns of dates, and how they are written."""
        return {column.name: column.date for column in self.columns if column.kind == "date"}

    @property
    def percent(self) -> tuple[str, ...]:
        """Columns whose numbers have a percent sign: 12 % is 12."""
        return tuple(column.name for column in self.columns if column.sign == "%")

    @property
    def currency(self) -> dict[str, str]:
        """Columns whose numbers have a currency sign, and which."""
        return {column.name: column.sign for column in self.columns if column.sign not in ("", "%")}

    def column(self, name: str) -> ColumnFormat | None:
        """A column's own format, if the file had that column."""
        return next((column for column in self.columns if column.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is as usual is left out of the columns.

        >>> Format(columns=(ColumnFormat("age", "whole"),)).to_dict()["columns"]
        [{'name': 'age', 'kind': 'whole'}]
        """
        content = asdict(self)
        del content["said"]
        content["missing"] = list(self.missing)
        content["columns"] = [_brief(column) for column in self.columns]
        return content

    @classmethod
    def from_dict(cls, content: object, source: str = "a format") -> "Format":
        """From plain values that `to_dict` wrote, checked.

        >>> Format.from_dict(Format(";", decimal=",").to_dict()) == Format(";", decimal=",")
        True
        """
        stored = typed(content, _Stored, source, CheckpointError)
        return cls(**{entry.name: getattr(stored, entry.name) for entry in fields(stored)})


@dataclass(frozen=True)
class _Stored:
    """What `to_dict` writes."""

    separator: str
    encoding: str
    decimal: str
    thousands: str
    columns: tuple[ColumnFormat, ...]
    missing: tuple[str, ...]


def _brief(column: ColumnFormat) -> dict[str, Any]:
    usual = ColumnFormat(column.name)
    values = {name: value for name, value in asdict(column).items() if value != getattr(usual, name)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"name": column.name, **plain}


@dataclass(frozen=True)
class Hints:
    """What a person says about a file; None = to be recognised.

    Args:
        separator: of the values of a line: a character, or comma, semicolon, tab, pipe.
        decimal: "." or ",".
        thousands: ".", ",", "'", " " or "" (none).
        encoding: such as "utf-8" or "cp1252".
        dates: how columns write their dates: column -> strptime format, or "ISO".
        missing: texts that stand for a missing value beside the usual ones.
        texts: columns that are left out later: nothing is decided about them, they stay text.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: Mapping[str, str] | None = None
    missing: tuple[str, ...] | None = None
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._set("separator", _mark("separator", self.separator, SEPARATORS, None))
        self._set("decimal", _mark("decimal", self.decimal, _MARKS, (".", ",")))
        self._set("thousands", _mark("thousands", self.thousands, _MARKS, (".", ",", "'", " ", "")))
        if self.decimal is not None and self.decimal == self.thousands:
            raise InputError(f"decimal and thousands are both {self.decimal!r}: a number could be read either way")
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.dates is not None:
            check_kind("dates", self.dates, Mapping, '{"joined": "%d/%m/%Y"}')
            for name, date in self.dates.items():
                _check_date(name, date)
        if self.missing is not None:
            for mark in self.missing:
                check_text("a mark in missing", mark)
            self._set("missing", tuple(mark.strip() for mark in self.missing))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def _mark(name: str, value: str | None, words: Mapping[str, str], allowed: tuple[str, ...] | None) -> str | None:
    if value is None:
        return None
    check_text(name, value)
    mark = words.get(value.lower(), value)
    wrong = len(mark) != 1 or mark in '"\r\n' if allowed is None else mark not in allowed
    if wrong:
        choices = "one character, or comma, semicolon, tab, pipe"
        if allowed is not None:
            choices = ", ".join(repr(each) if each else "none" for each in allowed)
        raise InputError(f"{name} must be {choices}; got {name}={quoted(value)}")
    return mark


def _check_encoding(encoding: str) -> None:
    check_text("encoding", encoding)
    try:
        codecs.lookup(encoding)
        # some encodings of Python turn bytes into bytes
        b"a".decode(encoding, errors="ignore")
    except (LookupError, ValueError) as error:
        raise InputError(
            f"encoding must be one that Python knows, such as utf-8 or cp1252; got encoding={quoted(encoding)}"
        ) from error


def _check_date(name: object, date: object) -> None:
    check_text("a column in dates", name)
    if not isinstance(date, str) or not (date == "ISO" or "%" in date):
        raise InputError(
            f"dates must say how {name!r} writes its dates, such as %d.%m.%Y, or ISO; got {quoted(date)}"
        )
