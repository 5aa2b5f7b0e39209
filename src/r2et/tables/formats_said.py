"""What was recognised in a file, in sentences without their full stop."""

from collections.abc import Callable, Iterable, Sequence

from r2et.numerics.values import few
from r2et.tables.formats_numbers import Marks
from r2et.tables.recognising import Outcome

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "pipes (|)", ",": "commas"}
_ENCODINGS = {"cp1252": "cp1252 (Windows)", "latin-1": "latin-1"}
_THOUSANDS = {" ": "blanks", "'": "apostrophes", ",": "commas", ".": "dots"}


def about_file(separator: str, encoding: str) -> list[str]:
    """What is unusual about the text.

    >>> about_file(";", "cp1252")
    ['values are separated by semicolons; the text is in cp1252 (Windows), not UTF-8 (else: --sep, --encoding)']
    """
    told = []
    if separator != ",":
        told.append(f"values are separated by {_SEPARATORS.get(separator, repr(separator))}")
    if encoding not in ("utf-8", "utf-8-sig"):
        told.append(f"the text is in {_ENCODINGS.get(encoding, encoding)}, not UTF-8")
    return [f"{'; '.join(told)} (else: --sep, --encoding)"] if told else []


def about_columns(outcomes: Sequence[Outcome]) -> list[str]:
    """What is to be known about the columns, alike ones in one sentence."""
    told = [sentence for group in _GROUPS for sentence in group(outcomes)]
    for outcome in outcomes:
        told += [sentence for each in _SINGLY if (sentence := each(outcome))]
    return told


def _columns(names: Iterable[str]) -> str:
    listed = list(names)
    return f"column{'s' * (len(listed) > 1)} {few(listed)}"


def _marked(outcomes: Sequence[Outcome]) -> list[str]:
    """Decimal commas and marks of thousands."""
    groups: dict[Marks, list[str]] = {}
    for outcome in outcomes:
        column = outcome.format
        if column.thousands or (column.kind == "number" and column.decimal == ","):
            groups.setdefault(Marks(column.decimal, column.thousands), []).append(column.name)
    told = []
    for marks, names in groups.items():
        text = f"1{marks.thousands}234{marks.decimal}56"
        parts = ["a decimal comma"] if marks.decimal == "," else []
        if marks.thousands:
            parts.append(f"{_THOUSANDS[marks.thousands]} between thousands")
        told.append(
            f"numbers have {' and '.join(parts)}: {text} is 1234.56 ({_columns(names)}; else: --decimal, "
            "--thousands)"
        )
    return told


def _signed(outcomes: Sequence[Outcome]) -> list[str]:
    signs: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.format.sign:
            signs.setdefault(outcome.format.sign, []).append(outcome.format.name)
    return [
        f"numbers have a {'percent' if sign == '%' else 'currency'} sign, 12 {sign} is 12 ({_columns(names)})"
        for sign, names in signs.items()
    ]


def _dated(outcomes: Sequence[Outcome]) -> list[str]:
    formats: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.format.kind == "date":
            formats.setdefault(outcome.format.date, []).append(outcome.format.name)
    return [
        f"dates of the form {'2024-12-31' if form == 'ISO' else form} ({_columns(names)}; else: --dates)"
        for form, names in formats.items()
    ]


def _missing(outcomes: Sequence[Outcome]) -> list[str]:
    gaps = {outcome.format.name: outcome.missing for outcome in outcomes if outcome.missing}
    empty = {outcome.format.name for outcome in outcomes if sum(outcome.missing.values()) == len(outcome.values)}
    some = [
        f"{name} {sum(marks.values()):,} ({', '.join(repr(mark) if mark else 'empty' for mark in sorted(marks))})"
        for name, marks in gaps.items()
        if name not in empty
    ]
    told = [f"values are missing in {_columns(some)}; further marks: --missing"] if some else []
    if empty:
        told.append(f"no value in {_columns(name for name in gaps if name in empty)}")
    return told


def _padded(outcomes: Sequence[Outcome]) -> list[str]:
    padded = [
        f"{outcome.format.name} ({outcome.padded:,} row{'s' * (outcome.padded > 1)})"
        for outcome in outcomes
        if outcome.padded
    ]
    return [f"blanks around values were taken away in {_columns(padded)}"] if padded else []


_GROUPS: tuple[Callable[[Sequence[Outcome]], list[str]], ...] = (
    _marked,
    _signed,
    _dated,
    _missing,
    _padded,
)


def _doubt(outcome: Outcome) -> str:
    if outcome.alternative is None:
        return ""
    text, other, marks = outcome.alternative
    column = outcome.format
    how = f"--thousands '{marks.thousands}'" if marks.thousands else f"--decimal '{marks.decimal}'"
    chosen = "thousands" if column.thousands else "a decimal mark"
    return (
        f"column {column.name}: the mark in {text} could be of thousands or decimal; it was taken as {chosen}. If "
        f"{text} is {other}, say {how}"
    )


def _spoilt(outcome: Outcome) -> str:
    spoiler = outcome.spoiler
    if spoiler is None:
        return ""
    more = f" ({spoiler.rows:,} such rows)" if spoiler.rows > 1 else ""
    return (
        f"column {outcome.format.name} is text: {_percent(spoiler.share)} of its values are {spoiler.others}, but "
        f"row {spoiler.row} (counted from 0) has {spoiler.value!r}{more}. Mend the file, or name it as missing by "
        "--missing"
    )


def _percent(share: float) -> str:
    """A share that is not all.

    >>> _percent(0.999999)
    '99.9 %'
    """
    return f"{min(100 * share, 99.9):.1f} %"


def _coded(outcome: Outcome) -> str:
    if not outcome.code:
        return ""
    return (
        f"column {outcome.format.name} is text, not numbers: {outcome.code} begins with zeros or is longer than a "
        "quantity, so it is a code"
    )


def _unified(outcome: Outcome) -> str:
    if not outcome.unified:
        return ""
    became = [f"{text!r} became {word!r}" for text, word in outcome.unified]
    return f"column {outcome.format.name} has words for yes and no: {few(became)}"


def _twinned(outcome: Outcome) -> str:
    if outcome.twins is None:
        return ""
    one, other = outcome.twins
    return (
        f"column {outcome.format.name} has values that differ only in case and stay apart: {one!r} and {other!r}"
    )


def _kept(outcome: Outcome) -> str:
    """Marks that often mean nothing, and are values here."""
    if outcome.format.kind != "text" or not outcome.format.kept:
        return ""
    values = set(outcome.values.dropna().unique()) if len(outcome.format.kept) else set()
    here = [mark for mark in outcome.format.kept if mark in values]
    if not here:
        return ""
    return (
        f"column {outcome.format.name}: {', '.join(map(repr, here))} is a value of its own, not a missing one; "
        f"else: --missing {','.join(here)}"
    )


_KINDS = {
    "whole": "whole numbers",
    "number": "numbers",
    "truth": "true and false",
    "date": "dates",
    "text": "text",
}


def _changed(outcome: Outcome) -> str:
    before = outcome.before
    if before is None:
        return ""
    return (
        f"column {outcome.format.name} is not written as in the file of the training, where it held "
        f"{_KINDS[before.kind]}; here it was read anew, as {_KINDS[outcome.format.kind]}"
    )


_SINGLY: tuple[Callable[[Outcome], str], ...] = (_changed, _doubt, _spoilt, _coded, _unified, _twinned, _kept)
