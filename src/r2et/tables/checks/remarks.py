"""What a check says about one column, and the words that go with each kind of remark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Remark:
    """One thing seen in one column, or in the whole table.

    Attributes:
        kind: a key of `KINDS`.
        column: "" = the table.
        seen: what was seen, with counts and examples, without its full stop.
        figures: the same as plain JSON values.
    """

    kind: str
    column: str
    seen: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """What a kind of remark is called, and what follows from it.

    Attributes:
        title: of the finding.
        level: how bad it is.
        reason: why the column is left out, in a few words; "" = it is kept.
        done: what is done, as a sentence.
        change: how a person changes that; `{names}` are the columns.
    """

    title: str
    level: Level
    reason: str
    done: str
    change: str


_KEEP = "to keep: --keep {names}"
_DROP = "to leave out: --drop {names}"
_LEFT_OUT = "left out"
_KEPT = "kept"

KINDS: dict[str, Wording] = {
    # --- what a model cannot be trained on -------------------------------------------------------------------
    "one class": Wording(
        "nothing to predict", "error", "", "no model can be trained", "name another column by --target"
    ),
    "target is a number": Wording(
        "the target looks like a number",
        "error",
        "",
        "no classifier can be trained",
        "add --regression to predict the number, put its values into a few groups, or name another column by "
        "--target",
    ),
    "target is no number": Wording(
        "the target is no number",
        "error",
        "",
        "no regression can be trained",
        "leave out --regression to predict classes, or name another column by --target",
    ),
    "infinite": Wording(
        "infinite values", "error", "", "no model can be trained", "replace the values, or --drop {names}"
    ),
    "too few columns": Wording(
        "too few columns are left",
        "error",
        "",
        "no model can be trained",
        "bring more, or keep some by --keep or --columns",
    ),
    # --- what may ruin a model -------------------------------------------------------------------------------
    "leak": Wording(
        "gives the target away",
        "warning",
        "",
        "kept. Is it known before the target is? If not, the model is worthless on new rows",
        _DROP,
    ),
    "rare class": Wording("a rare class", "warning", "", _KEPT, "bring more rows of it, or group classes"),
    # --- what is left out ------------------------------------------------------------------------------------
    "left out by you": Wording("left out as you said", "note", "as you said", _LEFT_OUT, "no longer --drop it"),
    "row number": Wording("row numbers", "note", "row number", _LEFT_OUT, _KEEP),
    "identifier": Wording("identifiers", "note", "identifier", _LEFT_OUT, _KEEP),
    "group": Wording(
        "numbers of people or groups that have several rows",
        "note",
        "number of a group",
        "left out. Rows of one group can be in the training and in the test: figures may be too good",
        _KEEP,
    ),
    "empty": Wording("more than 95 % missing", "note", "hardly any values", _LEFT_OUT, _KEEP),
    "constant": Wording("constants", "note", "constant", _LEFT_OUT, _KEEP),
    "mixed types": Wording(
        "neither numbers nor text", "note", "neither numbers nor text", _LEFT_OUT, "convert them in the file"
    ),
    "many texts": Wording(
        "too many different texts",
        "note",
        "too many different texts",
        _LEFT_OUT,
        "put them into a few groups, or --keep {names}",
    ),
    "copy": Wording("copies of another column", "note", "copy of another column", _LEFT_OUT, _KEEP),
    # --- what is only said -----------------------------------------------------------------------------------
    "near copy": Wording(
        "nearly the same as another column",
        "note",
        "",
        "kept. Such columns share or swap their places in a list of reasons",
        _DROP,
    ),
    "missing": Wording(
        "missing values",
        "note",
        "",
        "kept. A number gets the median and a flag that says so, a text a category of its own",
        _DROP,
    ),
    "one value or none": Wording(
        "one value, or none", "note", "", "kept. What it says is whether there is a value", _DROP
    ),
    "almost constant": Wording("almost constant", "note", "", _KEPT, _DROP),
    "many categories": Wording("many categories", "note", "", "kept. Rare ones are put together", _DROP),
    "numbers as text": Wording(
        "numbers and words in one column",
        "note",
        "",
        "kept as categories",
        "empty the fields that are no numbers in the file, or --drop {names}",
    ),
    "dates as text": Wording(
        "dates that are read as text",
        "note",
        "",
        "kept as categories",
        "write them as 2026-01-31 in the file, or --drop {names}",
    ),
    "date": Wording("dates", "note", "", "kept, as a number of days", _DROP),
    "codes": Wording(
        "numbers that may be codes",
        "note",
        "",
        "kept as numbers",
        "if they only name things: --categorical {names}",
    ),
    "outlier": Wording(
        "values far from all others", "note", "", "kept", "if they are mistakes or stand for missing: empty them"
    ),
    "duplicates": Wording(
        "rows that occur several times",
        "note",
        "",
        "kept. The same row can be in the training and in the test",
        "if they are copies by mistake: keep one of each in the file",
    ),
    "contradiction": Wording(
        "the same row with different targets", "note", "", _KEPT, "mend the file, or add a column that differs"
    ),
}
