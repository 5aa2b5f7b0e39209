"""The sentence of a reason: true of the person, and no claim about causes."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from r2et.errors import InputError
from r2et.numerics.values import check_text, quoted, suggestion
from r2et.tables.columns import MISSING

#: what stands for itself in a phrase
_PLACES = re.compile(r"\{([^{}]*)\}")
_KNOWN = ("value", "column", "toward", "direction")
#: for a column without a phrase, and for a value that is missing
DEFAULT = "{column} is {value}, which {direction}"


def checked_phrases(phrases: Mapping[str, str] | None, columns: Sequence[str]) -> dict[str, str]:
    """Sentences by column, each with places for what is known.

    >>> checked_phrases({"income": "Your income of {value}"}, ["income", "age"])
    {'income': 'Your income of {value}'}
    """
    if phrases is None:
        return {}
    if not isinstance(phrases, Mapping):
        raise InputError(f'phrases must be such as {{"age": "You are {{value}}"}}, got phrases={quoted(phrases)}')
    for column, phrase in phrases.items():
        if column not in columns:
            raise InputError(
                f"phrases has the column {quoted(column)}, which the model has not"
                f"{suggestion(str(column), list(columns)[:40])}"
            )
        check_text(f"phrases[{column!r}]", phrase)
        unknown = [place for place in _PLACES.findall(phrase) if place not in _KNOWN]
        if unknown or set(_PLACES.sub("", phrase)) & {"{", "}"}:
            asked = "{" + unknown[0] + "}" if unknown else "a brace of its own"
            raise InputError(
                f"phrases[{column!r}] has {asked}: known are {{value}}, {{column}}, {{toward}} and "
                f"{{direction}}, got {quoted(phrase)}"
            )
    return dict(phrases)


def sentences(known: Sequence[Mapping[str, str]], phrases: Mapping[str, str]) -> NDArray[np.object_]:
    """One sentence for each reason: the column's phrase, or what is true of every value, (M,).

    Args:
        known: of each reason column, value, toward and direction.
        phrases: by column.

    >>> age = {"column": "age", "value": "30", "toward": "bad", "direction": "speaks for bad"}
    >>> job = {**age, "column": "job", "value": "missing"}
    >>> list(sentences([age, job], {"age": "You are {value}."}))
    ['You are 30.', 'job is missing, which speaks for bad']
    """
    told = []
    for one in known:
        phrase = DEFAULT if one["value"] == MISSING else phrases.get(one["column"], DEFAULT)
        told.append(_PLACES.sub(lambda place: one[place[1]], phrase))  # noqa: B023 - called at once
    return np.array(told, dtype=object)
