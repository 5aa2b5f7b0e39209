"""What the texts of a column are: numbers, true and false, dates or text, decided over all of its rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from r2et.errors import DataError
from r2et.numerics.values import quoted
from r2et.tables import formats_dates as dates
from r2et.tables import formats_numbers as numbers
from r2et.tables.formats import ColumnFormat, Hints
from r2et.tables.formats_columns import (
    Texts,
    commonest_spellings,
    kept_marks,
    marks_of_missing,
    matches,
    yes_and_no,
)
from r2et.tables.formats_numbers import Marks

Series: TypeAlias = "pd.Series[Any]"

#: a column of which more than this share are numbers, or dates, may have been meant to be one
NEARLY = 0.5
_TRUTH = {"true", "false"}
#: different texts that are compared regardless of their case
_MOST_TWINS = 1000


@dataclass(frozen=True)
class Spoiler:
    """A value for whose sake a column is text: what the others are, in which row it is, and how many there are."""

    others: str
    share: float
    value: str
    row: int
    rows: int


@dataclass(frozen=True)
class Outcome:
    """A column as it was read: its format, N values, and what to say about it.

    Attributes:
        format: of the column.
        values: N values.
        missing: how often each mark of a missing value occurs.
        padded: rows with blanks around their value.
        unified: spellings of yes and no, and what they became.
        twins: two texts that differ only in case, and stay apart.
        alternative: a number as the file has it and as it might have been read, where that is not certain.
        code: a whole number that was read as text.
        spoiler: what prevented numbers or dates.
        before: the kind in an earlier file, where the values contradict it.
    """

    format: ColumnFormat
    values: Any
    missing: dict[str, int] = field(default_factory=dict)
    padded: int = 0
    unified: tuple[tuple[str, str], ...] = ()
    twins: tuple[str, str] | None = None
    alternative: tuple[str, str, Marks] | None = None
    code: str = ""
    spoiler: Spoiler | None = None
    before: ColumnFormat | None = None


@dataclass(frozen=True)
class Look:
    """A column before the decision between marks of numbers, which is one of the whole file.

    Attributes:
        name: of the column.
        texts: of the column.
        missing: which texts are missing, if the column is not of texts (U,).
        kind: "empty", "truth", "numbers", "dates" or "text".
        bodies: the numbers without signs.
        sign: of currency, or "%".
        options: the marks that the numbers may have.
        marked: whether they have any dots or commas.
        formats: the formats that the dates may have.
        code: a whole number that is none.
        spoiler: see `Outcome`.
    """

    name: str
    texts: Texts
    missing: NDArray[np.bool_]
    kind: str
    bodies: "Series | None" = None
    sign: str = ""
    options: tuple[Marks, ...] = ()
    marked: bool = False
    formats: tuple[str, ...] = ()
    code: str = ""
    spoiler: Spoiler | None = None

    @property
    def evidence(self) -> str | None:
        """The decimal mark that the numbers leave no doubt about; None = they have no marks, or leave doubt."""
        return self.options[0].decimal if self.marked and len(self.options) == 1 else None


def look(name: str, texts: Texts, hints: Hints) -> Look:
    """What a column may be."""
    own = hints.missing or ()
    missing = marks_of_missing(texts.texts, texts_stay=False, own=own)
    if name in hints.texts:
        return Look(name, texts, missing, "text")
    rest = texts.texts[~missing].reset_index(drop=True)
    if written := (hints.dates or {}).get(name):
        return _dates_as_told(name, texts, written, own)
    if not len(rest):
        return Look(name, texts, missing, "empty")
    if len(rest) <= 6 and set(rest.str.casefold()) <= _TRUTH:
        return Look(name, texts, missing, "truth")
    bodies, sign, options = rest, "", numbers.possible(rest)
    if not options:
        bodies, sign = numbers.unsigned(numbers.plain(rest))
        options = numbers.possible(bodies)
    if options:
        code = None if sign or not numbers.whole(bodies) else numbers.code(bodies)
        if code is not None:
            return Look(name, texts, missing, "text", code=str(rest.iloc[code]))
        marked = not matches(bodies, "[^.,]*").all()
        return Look(name, texts, missing, "numbers", bodies, sign, _told(options, hints), marked)
    nothing = missing | np.asarray(texts.texts.isin(dates.NOTHING), dtype=bool)
    real = texts.texts[~nothing].reset_index(drop=True)
    if len(real) and (formats := dates.date_formats(real)):
        return Look(name, texts, nothing, "dates", formats=formats)
    return Look(name, texts, missing, "text", spoiler=_spoiler(texts, missing, rest, bodies))


def _told(options: tuple[Marks, ...], hints: Hints) -> tuple[Marks, ...]:
    """The options that agree with what a person said about the file, or all if none does."""
    agreeing = [
        marks
        for marks in options
        if hints.decimal in (None, marks.decimal)
        and (
            hints.thousands is None
            or (marks.thousands in ("", hints.thousands) and marks.decimal != hints.thousands)
        )
    ]
    return tuple(agreeing) or options


def _dates_as_told(name: str, texts: Texts, written: str, own: tuple[str, ...]) -> Look:
    missing = marks_of_missing(texts.texts, texts_stay=False, own=own)
    missing = missing | np.asarray(texts.texts.isin(dates.NOTHING), dtype=bool)
    wrong = np.isnat(dates.dates(texts.texts, written)) & ~missing
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"column {name!r} has {quoted(texts.texts.iloc[place])} in row {texts.row(place)} (counted from 0), "
            f"which is no date of the form {written} ({int(texts.counts[wrong].sum())} such rows): change "
            "--dates, or leave the column out by --drop"
        )
    return Look(name, texts, missing, "dates", formats=(written,))


def _spoiler(texts: Texts, missing: NDArray[np.bool_], rest: Series, bodies: Series) -> Spoiler | None:
    """What keeps a column from being numbers or dates, if nearly all of its values are."""
    counts = texts.counts[~missing]
    places = np.flatnonzero(~missing)
    wrong = _no_numbers(bodies, counts)
    others = "numbers"
    if (share := _share(wrong, counts)) <= NEARLY:
        written, wrong = dates.nearly_dates(rest)
        others, share = f"dates of the form {written}", _share(wrong, counts)
    if share <= NEARLY:
        return None
    place = int(np.flatnonzero(wrong)[0])
    rows = int(counts[wrong].sum())
    return Spoiler(others, share, str(rest.iloc[place]), texts.row(int(places[place])), rows)


def _share(wrong: NDArray[np.bool_], counts: NDArray[np.int64]) -> float:
    return 1 - float(counts[wrong].sum() / counts.sum())


def _no_numbers(bodies: Series, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which texts are no numbers by the marks that most of them have (U,)."""
    alike = numbers.numberish(bodies)
    if counts[alike].sum() <= NEARLY * counts.sum():
        # signs of currency and percent, whatever else is there
        bodies = bodies.str.replace(r"\s*[%€$£]\s*", "", regex=True)
        alike = numbers.numberish(bodies)
    if counts[alike].sum() <= NEARLY * counts.sum():
        return ~alike
    # what most of them have: two marks side by side are a mistake too
    misfits = [~numbers.fits(bodies, marks) for marks in numbers.EVERY]
    return min(misfits, key=lambda wrong: int(counts[wrong].sum()))


@dataclass(frozen=True)
class Settled:
    """The marks of the numbers of a file.

    Attributes:
        marks: of the columns of numbers, by name.
        usual: of most columns.
        doubtful: columns that could be read otherwise, and the marks that they would have then.
    """

    marks: dict[str, Marks]
    usual: Marks
    doubtful: dict[str, Marks]


def settle(looks: Sequence[Look], separator: str, hints: Hints) -> Settled:
    """Decide between the marks that columns may have: what one column leaves open, others may decide.

    Without such evidence, "1,234" are thousands where many of them stand beside whole numbers below 1000, else
    where the separator is not a semicolon, which programs with decimal commas write; "1.234" is a decimal point.
    """
    evidence = Counter(look.evidence for look in looks if look.evidence is not None)
    first = evidence.most_common(2)
    sure = first[0][0] if first and (len(first) == 1 or first[0][1] > first[1][1]) else None
    marks: dict[str, Marks] = {}
    doubtful: dict[str, Marks] = {}
    for entry in looks:
        if entry.kind != "numbers":
            continue
        chosen = marks[entry.name] = _choose(entry, separator, sure)
        others = [option for option in entry.options if option != chosen]
        usual = chosen == Marks(".", "") and separator != ";"
        if others and not usual and len(evidence) != 1:
            doubtful[entry.name] = others[0]
    decimals = Counter(marks[entry.name].decimal for entry in looks if entry.marked)
    thousands = Counter(chosen.thousands for chosen in marks.values() if chosen.thousands)
    decimal = hints.decimal or (decimals.most_common(1)[0][0] if decimals else ".")
    wide = next((mark for mark, _ in thousands.most_common() if mark != decimal), "")
    return Settled(marks, Marks(decimal, wide), doubtful)


def _choose(entry: Look, separator: str, sure: str | None) -> Marks:
    if len(entry.options) == 1:
        return entry.options[0]
    for option in entry.options:
        if sure == option.decimal:
            return option
    assert entry.bodies is not None
    wide = next(option for option in entry.options if option.thousands)
    narrow = next(option for option in entry.options if not option.thousands)
    if numbers.grouped(entry.bodies, entry.texts.counts[~entry.missing]):
        return wide
    return narrow if narrow.decimal == "." or separator == ";" else wide


def finish(entry: Look, settled: Settled, *, na_is_missing: bool, own: tuple[str, ...] = ()) -> Outcome:
    """The values of a column, and what to say about it."""
    if entry.kind == "numbers":
        return _as_numbers(entry, settled)
    if entry.kind == "dates":
        return _as_dates(entry)
    if entry.kind == "truth":
        return _as_truth(entry.name, entry.texts, entry.missing)
    kept = tuple(mark for mark in kept_marks(entry.texts.texts) if mark not in own)
    if na_is_missing:
        kept = tuple(mark for mark in kept if mark != "NA")
    missing = marks_of_missing(entry.texts.texts, texts_stay=True, kept=kept, own=own)
    if missing.all():
        values = entry.texts.expand(np.full(len(missing), np.nan))
        column = ColumnFormat(entry.name, "number", gaps=True, decimal=settled.usual.decimal)
        return Outcome(column, values, _counted(entry.texts, missing))
    outcome = _as_text(ColumnFormat(entry.name, kept=kept), entry.texts, missing)
    return replace(outcome, code=entry.code, spoiler=entry.spoiler)


def _counted(texts: Texts, missing: NDArray[np.bool_]) -> dict[str, int]:
    counted: dict[str, int] = {}
    # a text may stand there several times: see Texts
    for mark, count in zip(texts.texts[missing].tolist(), texts.counts[missing].tolist(), strict=True):
        counted[mark] = counted.get(mark, 0) + count
    return counted


def with_gaps(texts: Texts, missing: NDArray[np.bool_], values: Any, nothing: Any) -> Any:
    """Values of the texts that are not missing, spread over N rows."""
    if not missing.any():
        return texts.expand(values)
    dtype = np.result_type(values.dtype, type(nothing)) if values.dtype.kind in "if" else values.dtype
    every = np.full(len(missing), nothing, dtype=object if values.dtype.kind == "b" else dtype)
    every[~missing] = values
    return texts.expand(every)


def _as_numbers(entry: Look, settled: Settled) -> Outcome:
    assert entry.bodies is not None
    marks = settled.marks[entry.name]
    parsed = numbers.parsed(entry.bodies, marks)
    gaps = bool(entry.missing.any())
    kind = "whole" if parsed.dtype.kind == "i" else "number"
    # numbers without marks will have those of their file when they come
    decimal = marks.decimal if entry.marked else settled.usual.decimal
    column = ColumnFormat(entry.name, kind, gaps, decimal, marks.thousands, entry.sign)  # type: ignore[arg-type]
    other = settled.doubtful.get(entry.name)
    example = None
    if other is not None:
        shown = entry.bodies[entry.bodies.str.contains("[.,]", regex=True)].iloc[[0]]
        example = (str(shown.iloc[0]), f"{numbers.parsed(shown, other)[0]:g}", other)
    values = with_gaps(entry.texts, entry.missing, parsed, np.nan)
    return Outcome(column, values, _counted(entry.texts, entry.missing), entry.texts.padded, alternative=example)


def _as_dates(entry: Look) -> Outcome:
    if len(entry.formats) > 1:
        one, other = entry.formats[:2]
        example = entry.texts.texts[~entry.missing].iloc[0]
        if not np.array_equal(
            dates.dates(entry.texts.texts[~entry.missing], one),
            dates.dates(entry.texts.texts[~entry.missing], other),
        ):
            raise DataError(
                f"column {entry.name!r} has dates such as {example!r}, and no value says whether the day or the "
                f"month comes first: say it by --dates {entry.name}={one} or {entry.name}={other}, or leave the "
                f"column out by --drop {entry.name}"
            )
    moments = dates.dates(entry.texts.texts[~entry.missing], entry.formats[0])
    column = ColumnFormat(entry.name, "date", bool(entry.missing.any()), date=entry.formats[0])
    values = with_gaps(entry.texts, entry.missing, moments, np.datetime64("NaT", "us"))
    return Outcome(column, values, _counted(entry.texts, entry.missing), entry.texts.padded)


def _as_truth(name: str, texts: Texts, missing: NDArray[np.bool_]) -> Outcome:
    values = np.asarray(texts.texts[~missing].str.casefold() == "true", dtype=bool)
    column = ColumnFormat(name, "truth", bool(missing.any()))
    return Outcome(column, with_gaps(texts, missing, values, np.nan), _counted(texts, missing), texts.padded)


def _as_text(column: ColumnFormat, texts: Texts, missing: NDArray[np.bool_]) -> Outcome:
    values = texts.texts.mask(missing)
    rest, counts = texts.texts[~missing], texts.counts[~missing]
    unified: tuple[tuple[str, str], ...] = ()
    twins = None
    if yes_and_no(rest):
        spelt = commonest_spellings(rest, counts)
        unified = tuple((text, spelt[text.casefold()]) for text in rest if spelt[text.casefold()] != text)
        values = values.map({text: spelt[text.casefold()] for text in rest})
        column = replace(column, words=tuple(sorted(spelt.values())))
    elif len(rest) <= _MOST_TWINS:
        twins = _twins(rest)
    column = replace(column, gaps=bool(missing.any()))
    return Outcome(
        column, spread(texts, values), _counted(texts, missing), texts.padded, unified=unified, twins=twins
    )


def spread(texts: Texts, values: Series) -> Series:
    """Texts of N rows, as pandas has them."""
    return values if texts.codes is None else values.take(texts.codes).reset_index(drop=True)


def _twins(values: Series) -> tuple[str, str] | None:
    """Two texts that differ only in case."""
    folded = values.str.casefold()
    doubles = values[folded.duplicated(keep=False)]
    if not len(doubles):
        return None
    first = doubles.iloc[0]
    return first, next(text for text in doubles.iloc[1:] if text.casefold() == first.casefold())
