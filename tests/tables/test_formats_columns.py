"""Texts of a column and the marks of missing values among them."""

import pandas as pd
import pytest

from r2et.tables.formats_columns import Texts, kept_marks, marks_of_missing, yes_and_no


@pytest.mark.parametrize("count", [6, 5000])
def test_texts_are_trimmed_and_spread_again(count):
    """Each once, and row by row where hardly any comes twice."""
    raw = pd.Series(
        [f" {i // 2 if count == 6 else i}" if i % 2 else f"{i // 2 if count == 6 else i}" for i in range(count)]
    )
    texts = Texts.of(raw)
    assert (texts.codes is None) == (count == 5000)
    assert texts.expand(texts.texts.to_numpy(dtype=object)).tolist() == raw.str.strip().tolist()
    assert texts.padded == count // 2
    assert texts.counts.sum() == count
    last = len(texts.texts) - 1
    assert raw.str.strip()[texts.row(last)] == texts.texts[last]


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (["brick", "NA", "-", ".", "?", "", "null", "k.A."], ["NA", "-", ".", "?", "", "null", "k.A."]),
        (["attached", "none", "None"], []),
        (["DE", "AT", "NA"], []),
        (["+", "-", "?"], ["?"]),
    ],
)
def test_which_marks_are_values_in_a_column_of_texts(values, missing):
    texts = pd.Series(values)
    marked = marks_of_missing(texts, texts_stay=True, kept=kept_marks(texts))
    assert texts[marked].tolist() == missing
    # in a column of numbers each of them is missing
    assert marks_of_missing(pd.Series(missing or ["none", "-"]), texts_stay=False).all()


def test_a_mark_that_a_person_names_is_missing_everywhere():
    assert marks_of_missing(pd.Series(["none", "99"]), texts_stay=True, kept=("none",), own=("99", "none")).all()


def test_words_for_yes_and_no():
    assert yes_and_no(pd.Series(["J", "n"]))
    assert yes_and_no(pd.Series(["Yes"]))
    assert not yes_and_no(pd.Series(["yes", "nein"]))
