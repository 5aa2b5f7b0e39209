"""Formats are stored as plain JSON, and read back only where they are whole."""

import json

import pytest

import r2et
from r2et.tables import Format, Hints
from r2et.tables.formats import ColumnFormat

FULL = Format(
    ";",
    "cp1252",
    ",",
    ".",
    (
        ColumnFormat("pay", "number", gaps=True, decimal=",", thousands=".", sign="€"),
        ColumnFormat("joined", "date", date="%d.%m.%Y"),
        ColumnFormat("quote", "number", sign="%"),
        ColumnFormat("member", words=("Ja", "nein"), kept=("none",)),
    ),
    ("99",),
    ("a sentence",),
)


def test_a_format_goes_through_json_without_its_sentences():
    back = Format.from_dict(json.loads(json.dumps(FULL.to_dict())))
    assert back == FULL
    assert back.said == ()
    assert (back.dates, back.percent, back.currency) == ({"joined": "%d.%m.%Y"}, ("quote",), {"pay": "€"})
    assert back.column("pay") == FULL.columns[0]
    assert back.column("nothing") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"separator": 5}, "separator should be text"),
        ({"columns": 5}, "columns"),
        ({"columns": [{"name": "a", "kind": "colour"}]}, "kind"),
        ({"columns": [{"kind": "text"}]}, "name"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_damaged_format_is_refused(change, words):
    with pytest.raises(r2et.errors.CheckpointError, match=words):
        Format.from_dict({**FULL.to_dict(), **change}, "a.json")


def test_hints_take_words_for_marks():
    hints = Hints(separator="tab", decimal="comma", thousands="space", missing=(" 99 ",))
    assert (hints.separator, hints.decimal, hints.thousands, hints.missing) == ("\t", ",", " ", ("99",))
    assert Hints(thousands="none").thousands == ""
