"""The lines of a text file: its encoding, its separator, and records of as many values as there are names."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

from r2et.errors import DataError
from r2et.numerics.values import few, quoted

#: what may separate values; commas stand in texts and numbers too, so they come last
MARKS = ("\t", "|", ";", ",")
#: lines and characters that the separator is chosen by
_LINES, _CHARACTERS = 1000, 2**20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x0b\x1a"))
#: columns; beyond it the first line is no list of names
_MOST_NAMES = 100_000
#: lines after the table, such as "(1000 rows)"
_MOST_FOOTERS = 3


def encoding_of(path: Path, content: bytes, remembered: str | None = None) -> str:
    """In which encoding bytes are text: by their mark, else UTF-8 if they are, else that of Windows.

    Args:
        path: for messages.
        content: all of the file, or its first part.
        remembered: the encoding of an earlier file like this one.
    """
    for mark, name in _BOMS:
        if content.startswith(mark):
            return name
    if controls := len(content) - len(content.translate(None, _CONTROLS)):
        zeros = content.count(b"\x00")
        told = f"{zeros:,} NUL bytes" if zeros else f"{controls:,} control characters"
        raise DataError(
            f"{quoted(path)} cannot be read as a table: it is no text, it has {told}. If it is UTF-16 without its "
            "mark, name it: --encoding utf-16-le"
        )
    if decodes(content, "utf-8"):
        return "utf-8"
    if remembered not in (None, "utf-8", "utf-8-sig") and decodes(content, str(remembered)):
        return str(remembered)
    strange = len(content) - len(content.translate(None, bytes(range(128, 256))))
    if strange > len(content) // 3:
        raise DataError(
            f"{quoted(path)} cannot be read as a table: it is not in UTF-8, and most of it would be accented "
            "letters in Western encodings. Save it in UTF-8, or name its encoding, such as --encoding cp1251"
        )
    return "cp1252" if decodes(content, "cp1252") else "latin-1"


def decodes(content: bytes, encoding: str) -> bool:
    """Whether bytes are text in an encoding; the last character may be cut."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(content)
    except (UnicodeError, LookupError):
        return False
    return True


def separator_of(text: str) -> str:
    r"""The mark between the values: the one by which most of the first lines have as many values as names.

    >>> separator_of("age;pay, in EUR\n30;1,5\n40;2,5\n")
    ';'
    """
    lines = "".join(islice(io.StringIO(text[:_CHARACTERS], newline=""), _LINES + 1))
    announced = re.match(r"sep=(.)\r?\n", lines)
    if announced:
        return announced[1]
    quality = {mark: _fit(lines, mark) for mark in MARKS}
    best = max(MARKS, key=lambda mark: quality[mark])
    return best if quality[best][0] else ","


def _fit(lines: str, mark: str) -> tuple[float, int]:
    """How well a mark separates lines: the share that has as many values as there are names, and how many."""
    try:
        sizes = [
            len(record) for record in islice(csv.reader(io.StringIO(lines, newline=""), delimiter=mark), _LINES)
        ]
    except csv.Error:
        return 0.0, 0
    if not sizes or sizes[0] < 2:
        return 0.0, 0
    body = [size for size in sizes[1:] if size]
    # a line too many or too few is a mistake in the file, not another separator
    alike = sum(size == sizes[0] for size in body) / len(body) if body else 1.0
    return round(alike, 1), sizes[0]


@dataclass
class Records:
    """The records of an open text file, in blocks.

    Args:
        path: for messages.
        lines: the text, with the ends of its lines as they are.
        separator: between values.

    Attributes:
        names: of the columns, "" where the first line has none.
        footers: lines after the table that are not part of it.
    """

    path: Path
    lines: TextIO
    separator: str
    names: list[str] = field(init=False)
    footers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = csv.reader(self.lines, delimiter=self.separator, strict=True)
        first = next(self._records(), [])
        if len(first) == 1 and first[0] == f"sep={self.separator}":
            first = next(self._records(), [])
        elif first[:1] == ["sep="]:
            # the line was cut at the very mark that it announces
            first = next(self._records(), [])
        self.names = [name.strip() for name in first]
        if not any(self.names):
            raise DataError(f"{quoted(self.path)} cannot be read as a table: it has no line of names")
        if len(first) > _MOST_NAMES:
            raise DataError(
                f"{quoted(self.path)} has {len(first):,} values in its first line: they are no names of columns"
            )

    def blocks(self, rows: int) -> Iterator[list[list[str]]]:
        """Records of as many values as names, at most `rows` at a time; others are errors with their line."""
        block: list[list[str]] = []
        for record in self._records():
            if len(record) != len(self.names):
                self._footer(record)
                continue
            if self.footers:
                raise self._ragged(1, self._first_footer)
            block.append(record)
            if len(block) == rows:
                yield block
                block = []
        if block:
            yield block

    def _records(self) -> Iterator[list[str]]:
        try:
            for record in self._reader:
                if record:
                    yield record
        except csv.Error as error:
            raise DataError(
                f"{quoted(self.path)} cannot be read as a table: line {self._reader.line_num:,}: {error}. A value "
                "with quotes inside doubles them and stands in quotes itself"
            ) from error

    def _footer(self, record: list[str]) -> None:
        """Keep a line that is a remark: words, or in brackets; a cut record has none."""
        remark = len(record) == 1 and re.search(r"\S\s+\S|^[(#*=-]", record[0].strip())
        if not remark or len(self.footers) == _MOST_FOOTERS:
            raise self._ragged(len(record), self._reader.line_num)
        if not self.footers:
            self._first_footer = self._reader.line_num
        self.footers.append(record[0].strip())

    def _ragged(self, values: int, line: int) -> DataError:
        verb = "more" if values > len(self.names) else "fewer"
        return DataError(
            f"{quoted(self.path)} cannot be read as a table: line {line:,} has {values} "
            f"value{'s' * (values != 1)}, {verb} than the {len(self.names)} names of the first line "
            f"({few(list(map(quoted, self.names)))}). Name every column, and put values that hold the separator "
            f"{self.separator!r} in quotes"
        )
