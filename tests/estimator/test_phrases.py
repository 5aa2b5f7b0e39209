"""Sentences are filled in once, with what is known, and nothing else is looked up in them."""

from hypothesis import given
from hypothesis import strategies as st

from r2et.estimator.phrases import checked_phrases, sentences

TEXTS = st.text(max_size=5)


@given(value=TEXTS, column=TEXTS, toward=TEXTS, before=st.text(st.characters(exclude_characters="{}"), max_size=9))
def test_places_are_filled_in_once(value, column, toward, before):
    phrases = checked_phrases({column: before + "{value}|{toward}|{column}"}, [column])
    known = {"column": column, "value": value, "toward": toward, "direction": f"speaks for {toward}"}
    (told,) = sentences([known], phrases)
    if value == "missing":
        assert told == f"{column} is missing, which speaks for {toward}"
    else:
        assert told == f"{before}{value}|{toward}|{column}"


def test_a_missing_value_gets_the_sentence_that_is_true_of_it():
    known = {"column": "pay", "toward": "bad", "direction": "speaks for bad"}
    told = sentences([{**known, "value": value} for value in ("missing", "7")], {"pay": "Your income of {value}."})
    assert list(told) == ["pay is missing, which speaks for bad", "Your income of 7."]


def test_no_phrases():
    assert checked_phrases(None, ["pay"]) == {}
    assert list(sentences([], {})) == []
