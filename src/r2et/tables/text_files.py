"""Text files as typed frames: by what is recognised, by what a person said, or as an earlier file was written."""

import codecs
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from r2et.errors import DataError, InputError
from r2et.files.unpacking import check_gzip
from r2et.numerics.values import few, quoted
from r2et.tables.formats import ColumnFormat, Format, Hints
from r2et.tables.formats_text import Records, decodes, encoding_of, separator_of

if TYPE_CHECKING:
    import pandas as pd

    from r2et.tables.recognising import Outcome

#: records that become columns of text at a time, so that only these are lists of Python's
_BLOCK = 20_000
#: bytes and characters by which a file that is read in pieces is recognised
_HEAD = 2**20
ROW_NUMBER, ROW_NAME = "row number", "row name"


class FormatError(DataError):
    """A file is written otherwise than its format says."""


#: which of the columns a person wants
Choice = Callable[[list[str]], Sequence[str]]


def read_text(
    path: Path, content: bytes, like: Format | None, hints: Hints, choose: Choice | None
) -> "tuple[pd.DataFrame, Format]":
    """A typed frame, and how the file is written.

    Args:
        path: for messages.
        content: of the file, unpacked.
        like: how an earlier file was written.
        hints: what a person said.
        choose: the columns to read, of those that there are; None = all.
    """
    import pandas as pd

    encoding = _encoding(path, content, like, hints)
    text = content.decode(encoding)
    separator, notes = _separator(text, like, hints)
    records = Records(path, io.StringIO(text, newline=""), separator)
    refuse_repeated(path, [name for name in records.names if name])
    blocks = [_frame(block) for block in records.blocks(_BLOCK)]
    if not blocks:
        raise DataError(f"{quoted(path)} has no rows")
    raw = pd.concat(blocks, ignore_index=True)
    names, dropped = _named(records.names, raw, like)
    raw.columns = pd.Index(names)
    notes += _about_names(records.names, names, dropped)
    if records.footers:
        notes.append(
            f"{_lines(len(records.footers))} after the table left out: {few(list(map(quoted, records.footers)))}"
        )
    wanted = [name for name in names if name not in dropped]
    if choose is not None:
        wanted = list(choose(wanted))
    _check_dated(hints, names)
    outcomes, usual = _columns(raw, wanted, separator, like, hints)
    own = hints.missing or (like.missing if like is not None else ())
    written = Format(separator, encoding, *usual, tuple(outcome.format for outcome in outcomes), own)
    return _typed(outcomes), replace(written, said=tuple(_said(notes, written, outcomes)))


def _said(notes: list[str], written: Format, outcomes: "list[Outcome]") -> list[str]:
    from r2et.tables.formats_said import about_columns, about_file

    return [*about_file(written.separator, written.encoding), *notes, *about_columns(outcomes)]


def _lines(count: int) -> str:
    return "a line" if count == 1 else f"{count} lines"


def _encoding(path: Path, content: bytes, like: Format | None, hints: Hints) -> str:
    if hints.encoding is None:
        return encoding_of(path, content, None if like is None else like.encoding)
    if not decodes(content, hints.encoding):
        raise DataError(f"{quoted(path)} is not in {hints.encoding}: leave out --encoding, or name another one")
    return "utf-8-sig" if hints.encoding.lower() in ("utf-8", "utf8") else hints.encoding


def _separator(text: str, like: Format | None, hints: Hints) -> tuple[str, list[str]]:
    """The separator, and a sentence if it is not that of an earlier file."""
    if hints.separator is not None:
        return hints.separator, []
    recognised = separator_of(text)
    if like is None or not like.separator or recognised == like.separator:
        return recognised, []
    header = text.partition("\n")[0]
    # of the names that are known, whichever separator shows more
    known = [
        sum(name.strip(' "\r\ufeff') in like.names for name in header.split(mark))
        for mark in (like.separator, recognised)
    ]
    if known[0] >= max(1, known[1]):
        return like.separator, []
    return recognised, [
        f"values are separated by {recognised!r}, in the file of the training by {like.separator!r}: the marks of "
        "its numbers were recognised anew"
    ]


def _frame(block: list[list[str]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(block, dtype="str")


def _named(header: list[str], raw: "pd.DataFrame", like: Format | None) -> tuple[list[str], list[str]]:
    """A name for every column, and those without name and values, which are left out."""
    names, dropped = list(header), []
    for place, name in enumerate(header):
        if name:
            continue
        if place == 0 and (raw[0] != "").any():
            remembered = next((each for each in (ROW_NUMBER, ROW_NAME) if like and each in like.names), None)
            new = remembered or (ROW_NUMBER if _counts_up(raw[0]) else ROW_NAME)
        else:
            new = f"column {place + 1}"
        while new in names:
            new += "'"
        names[place] = new
        if not (raw[place] != "").any():
            dropped.append(new)
    return names, dropped


def _counts_up(texts: "pd.Series[Any]") -> bool:
    """Whether texts are whole numbers, each one more than the one before."""
    import numpy as np

    if not texts.str.fullmatch("[0-9]{1,18}").all():
        return False
    return bool((np.diff(texts.to_numpy(dtype=object).astype(np.int64)) == 1).all())


def _about_names(header: list[str], names: list[str], dropped: list[str]) -> list[str]:
    new = [name for old, name in zip(header, names, strict=True) if not old and name not in dropped]
    told = (
        [f"the first line has no name for {_count(len(new))}, called {few(list(map(repr, new)))} here"]
        if new
        else []
    )
    return told + ([f"{_count(len(dropped))} without name and values left out"] if dropped else [])


def _count(columns: int) -> str:
    return "a column" if columns == 1 else f"{columns} columns"


def _check_dated(hints: Hints, names: list[str]) -> None:
    for name in hints.dates or {}:
        if name not in names:
            raise InputError(f"--dates names {name!r}, the columns are {few(list(map(repr, names)))}")


def _columns(
    raw: "pd.DataFrame", wanted: Sequence[str], separator: str, like: Format | None, hints: Hints
) -> "tuple[list[Outcome], tuple[str, str]]":
    """Each column that is wanted, and the decimal mark and that of thousands that are usual in the file."""
    from r2et.tables.formats_columns import Texts
    from r2et.tables.recognising import finish, look, settle
    from r2et.tables.remembering import Contradiction, as_remembered

    own = hints.missing or (like.missing if like is not None else ())
    hints = replace(hints, missing=own or None)
    outcomes: dict[str, Outcome] = {}
    looks = []
    before: dict[str, ColumnFormat] = {}
    for name in wanted:
        texts = Texts.of(raw[name])
        column = None if like is None else like.column(name)
        if column is not None and _still(column, separator, like, hints):
            remembered = as_remembered(texts, column, own)
            if not isinstance(remembered, Contradiction):
                outcomes[name] = remembered
                continue
        if column is not None:
            before[name] = column
        looks.append(look(name, texts, hints))
    if like is not None and separator == like.separator:
        hints = replace(hints, decimal=hints.decimal or like.decimal)
    settled = settle(looks, separator, hints)
    # where numbers have "NA" for what is missing, codes of two letters have it too
    na = any(
        "NA" in set(entry.texts.texts[entry.missing]) for entry in looks if entry.kind not in ("text", "empty")
    )
    for entry in looks:
        outcomes[entry.name] = finish(entry, settled, na_is_missing=na, own=own)
        earlier = before.get(entry.name)
        if earlier is not None and not _same(earlier, outcomes[entry.name].format):
            outcomes[entry.name] = replace(outcomes[entry.name], before=earlier)
    usual = settled.usual if like is None or looks else (like.decimal, like.thousands)
    return [outcomes[name] for name in wanted], (usual[0], usual[1])


def _still(column: ColumnFormat, separator: str, like: Format | None, hints: Hints) -> bool:
    """Whether a column is to be read as in an earlier file: no person, and no other separator, says otherwise."""
    if column.name in (hints.dates or {}):
        return False
    numeric = column.kind in ("whole", "number")
    said = hints.decimal is not None or hints.thousands is not None
    return not (numeric and (said or like is None or separator != like.separator))


def _same(one: ColumnFormat, other: ColumnFormat) -> bool:
    if {one.kind, other.kind} <= {"whole", "number"}:
        marked = other.kind == "number" or other.thousands
        return one.sign == other.sign and (one.decimal == other.decimal or not marked)
    return one.kind == other.kind and one.date == other.date


def _typed(outcomes: "list[Outcome]") -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({outcome.format.name: outcome.values for outcome in outcomes})


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Raise where two columns have one name."""
    seen: set[str] = set()
    repeated = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if repeated:
        shown = few(list(map(quoted, dict.fromkeys(repeated))))
        raise DataError(f"{quoted(path)} has several columns called {shown}: give each a name of its own")


def text_chunks(path: Path, written: Format, rows: int, columns: Sequence[str] | None) -> "Iterator[pd.DataFrame]":
    """Frames of at most `rows` rows, read as a format says and no otherwise; the memory of one at a time."""
    import pandas as pd

    with _records(path, written) as (records, encoding):
        names = _names_as_before(records.names, written)
        refuse_repeated(path, [name for name in names if name])
        wanted = _wanted(path, names, written, columns)
        start = 0
        try:
            for block in records.blocks(rows):
                raw = _frame(block)
                raw.columns = pd.Index(names)
                yield _chunk(path, raw, wanted, start, own=written.missing)
                start += len(block)
        except UnicodeError as error:
            raise FormatError(f"{quoted(path)} is not all in {encoding}: save it in UTF-8") from error


def text_names(path: Path, written: Format) -> list[str]:
    """The names of the columns of a file, called as in the file of a format."""
    with _records(path, written) as (records, _):
        return _names_as_before(records.names, written)


@contextmanager
def _records(path: Path, written: Format) -> "Iterator[tuple[Records, str]]":
    """The lines of a file, taken apart as a format says, and their encoding."""
    packed = path.suffix.lower() == ".gz"
    if packed:
        check_gzip(path)
    opener: Any = gzip.open if packed else open
    with opener(path, "rb") as stream:
        head, encoding = _scanned(path, stream, written)
    separator, _ = _separator(head.decode(encoding, errors="ignore"), written, Hints())
    with opener(path, "rb") as stream:
        yield Records(path, io.TextIOWrapper(stream, encoding=encoding, newline=""), separator), encoding


def _scanned(path: Path, stream: IO[bytes], written: Format) -> tuple[bytes, str]:
    """The first bytes, and the encoding of all of them: what is not ASCII may come late."""
    head = piece = stream.read(_HEAD)
    decoder = codecs.getincrementaldecoder("utf-8")()
    encoding = encoding_of(path, head, written.encoding)
    try:
        while piece and encoding == "utf-8":
            decoder.decode(piece)
            piece = stream.read(_HEAD)
    except UnicodeError:
        # of the same family as before, which has no wrong bytes to notice
        encoding = encoding_of(path, head[-1:] + piece, written.encoding)
    return head, encoding


def _names_as_before(header: list[str], written: Format) -> list[str]:
    names = list(header)
    for place, name in enumerate(header):
        if not name:
            first = (
                next((each for each in (ROW_NUMBER, ROW_NAME) if each in written.names), "") if place == 0 else ""
            )
            names[place] = first or f"column {place + 1}"
    return names


def _wanted(path: Path, names: list[str], written: Format, columns: Sequence[str] | None) -> list[ColumnFormat]:
    chosen = [name for name in written.names if name in names] if columns is None else list(columns)
    missing = [name for name in chosen if name not in names]
    if missing:
        raise InputError(f"{quoted(path)} has no column {few(list(map(repr, missing)))}")
    unknown = [name for name in chosen if written.column(name) is None]
    if unknown or not chosen:
        raise InputError(
            f"the format does not say how {quoted(path)} writes its column "
            f"{few(list(map(repr, unknown or names)))}: recognise the format of this file"
        )
    return [column for name in chosen if (column := written.column(name)) is not None]


def _chunk(
    path: Path, raw: "pd.DataFrame", wanted: list[ColumnFormat], start: int, *, own: tuple[str, ...]
) -> "pd.DataFrame":
    from r2et.tables.formats_columns import Texts
    from r2et.tables.remembering import Contradiction, as_remembered

    outcomes = []
    for column in wanted:
        outcome = as_remembered(Texts.of(raw[column.name]), column, own)
        if isinstance(outcome, Contradiction):
            raise FormatError(
                f"{quoted(path)} has {quoted(outcome.value)} in row {start + outcome.row} (counted from 0) of "
                f"column {column.name!r}, which is not written as before ({column.kind}): mend it, or recognise "
                "the format of this file anew"
            )
        outcomes.append(outcome)
    frame = _typed(outcomes)
    frame.index = frame.index + start
    return frame
