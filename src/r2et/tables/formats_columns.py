"""The texts of one column: each once, trimmed, with the marks of missing values told from values."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Series: TypeAlias = "pd.Series[Any]"

#: never a value of its own
_ALWAYS = (
    *(
        "",
        "?",
        "N/A",
        "n/a",
        "n.a.",
        "k.A.",
        "k. A.",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "<NA>",
        "NULL",
        "null",
        "Null",
        "NaN",
        "nan",
        "-NaN",
    ),
    *("-nan", "NaT", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "NA", "None", "none", "NONE", "-", "--", "."),
)
#: in a column of texts a thing that there is not: "garage: none"
_NO_SUCH_THING = ("None", "none", "NONE")
#: in a column of codes of two letters, Namibia
_NAMIBIA = ("NA",)
#: beside "+" the other sign
_MINUS = ("-",)
_WORDS = (
    *(("yes", "no"), ("y", "n"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no"), ("sí", "no")),
    *(("wahr", "falsch"), ("vrai", "faux"), ("on", "off"), ("t", "f"), ("true", "false")),
)
#: different texts among the first so many rows, beyond which each row is looked at by itself
_HEAD, _VARIED = 2000, 1000


def matches(texts: Series, pattern: str) -> NDArray[np.bool_]:
    """Which of N texts are wholly what a pattern says (N,).

    >>> matches(pd.Series(["7", "x"]), "[0-9]")
    array([ True, False])
    """
    if len(texts) > _VARIED:
        return np.asarray(texts.str.fullmatch(pattern), dtype=bool)
    # of few texts pandas spends its time on the pattern
    whole = re.compile(pattern).fullmatch
    return np.array([whole(text) is not None for text in texts], dtype=bool)


@dataclass(frozen=True)
class Texts:
    """The trimmed texts of a column, each once (U), or all of them where hardly any comes twice.

    Attributes:
        texts: U texts.
        counts: how many rows have each (U,).
        codes: the text of each row (N,); None = row by row.
        padded: how many rows had blanks around their value.
    """

    texts: Series
    counts: NDArray[np.int64]
    codes: NDArray[np.int64] | None
    padded: int

    @classmethod
    def of(cls, raw: Series) -> "Texts":
        """Of N texts as the file has them."""
        if raw.iloc[:_HEAD].nunique() > _VARIED:
            trimmed = raw.str.strip()
            padded = int((trimmed != raw).sum())
            return cls(trimmed, np.ones(len(raw), dtype=np.int64), None, padded)
        codes, values = pd.factorize(raw)
        unique = pd.Series(values)
        trimmed = unique.str.strip()
        counts = np.bincount(codes, minlength=len(unique))
        padded = int(counts[np.asarray(trimmed != unique, dtype=bool)].sum())
        again, values = pd.factorize(trimmed)
        merged = np.bincount(again, weights=counts, minlength=len(values)).astype(np.int64)
        return cls(pd.Series(values), merged, again[codes].astype(np.int64), padded)

    def expand(self, values: Any) -> Any:
        """U values as those of N rows."""
        return values if self.codes is None else values[self.codes]

    def row(self, place: int) -> int:
        """The first row that has the text at a place, from 0."""
        return place if self.codes is None else int(np.argmax(self.codes == place))


def marks_of_missing(
    texts: Series, *, texts_stay: bool, kept: tuple[str, ...] = (), own: tuple[str, ...] = ()
) -> NDArray[np.bool_]:
    """Which of U texts stand for a missing value (U,).

    Args:
        texts: trimmed.
        texts_stay: whether the column is of texts: marks that are `kept` are values of their own then.
        kept: such marks of this column.
        own: further marks, that a person named: they are missing everywhere.
    """
    usual = set(_ALWAYS) - set(kept) if texts_stay else set(_ALWAYS)
    return np.asarray(texts.isin([*usual, *own]), dtype=bool)


def kept_marks(texts: Series) -> tuple[str, ...]:
    """Marks that are values of their own in a column of texts.

    "none" is no such thing ("garage: none"), "NA" among codes of two letters is Namibia, "-" beside "+" is the
    other sign. Everything else of the list is missing.

    >>> kept_marks(pd.Series(["DE", "NA", "AT"])), kept_marks(pd.Series(["brick", "NA"]))
    (('None', 'none', 'NONE', 'NA'), ('None', 'none', 'NONE'))
    """
    values = texts[~marks_of_missing(texts, texts_stay=True, kept=_NO_SUCH_THING)]
    kept: tuple[str, ...] = _NO_SUCH_THING
    if len(values) > 1 and matches(values, "[A-Z]{2}").all():
        kept += _NAMIBIA
    if (values == "+").any():
        kept += _MINUS
    return kept


def yes_and_no(values: Series) -> bool:
    """Whether texts are words for yes and no, in whatever case.

    >>> yes_and_no(pd.Series(["Ja", "NEIN", "ja"])), yes_and_no(pd.Series(["yes", "perhaps"]))
    (True, False)
    """
    folded = set(values.iloc[:20].str.casefold())
    return len(values) <= 20 and any(folded <= set(pair) for pair in _WORDS)


def commonest_spellings(values: Series, counts: NDArray[np.int64]) -> dict[str, str]:
    """The spelling that most rows have of each text, by the text in lower case."""
    ordered = pd.DataFrame({"text": values, "count": counts}).sort_values(
        ["count", "text"], ascending=[False, True]
    )
    spelt: dict[str, str] = {}
    for text in ordered["text"]:
        spelt.setdefault(text.casefold(), text)
    return spelt
