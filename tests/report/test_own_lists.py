"""What the report says about lists, from audits that are made up."""

from dataclasses import replace

import torch

from r2et.auditing import Audit
from r2et.auditing.lists import count_lists
from r2et.report import own_lists, page, words
from tests.report.audits import random_audit


def with_lists(lists, **changes) -> Audit:
    """An audit whose rows have these lists (N, k) of 9 features."""
    audit = random_audit(len(lists), 9, lists.shape[1])
    samples = replace(audit.samples, top=lists[:, None].int(), **changes)
    bracket = replace(audit.bracket, attacked=samples.precision.T)
    individuality, kappas = count_lists(samples, 9, bracket=bracket, signed=False, seed=0)
    return replace(audit, samples=samples, bracket=bracket, individuality=individuality, kappas=kappas)


def plain(text):
    return text.replace(words.HARD_SPACE, " ").replace(words.MINUS, "-")


SAME = torch.tensor([[0, 1, 2]]).repeat(8, 1)
OWN = (torch.arange(8)[:, None] + torch.tensor([0, 1, 3])) % 9


def test_one_list_is_said_at_the_top_and_has_no_kappa():
    audit = with_lists(SAME)
    text = plain(page.render(audit))
    assert "It is one list for everybody (two share 100 %): it says nothing about a single input." in text
    assert ", and it is one list for everybody.</h1>" in text
    assert "All 8 inputs have the same list; lists drawn by chance would share 33 %." in text
    assert "<strong>One list for everybody.</strong>" in text
    assert 'class="kappas"' not in text


def test_lists_of_their_own_have_kappas_with_intervals():
    audit = with_lists(OWN)
    text = plain(page.render(audit))
    assert "ne list for everybody" not in text
    assert "The lists differ between inputs: 8.0 in effect for 8, two share" in text
    assert "The 8 inputs have 8 different lists, as diverse as 8 that are equally frequent." in text
    rows = own_lists.kappa_rows(audit)
    for row, bracket in zip(rows, audit.kappas, strict=True):
        for cell, kappa in ((row["proven"], bracket.proven), (row["attacked"], bracket.attacked)):
            assert plain(cell) == f"{kappa.value:.2f} ({kappa.low:.2f} to {kappa.high:.2f})"
            assert f"<td>{cell}</td>" in page.render(audit)


def test_what_is_not_proven_is_a_dash():
    audit = with_lists(OWN)
    bare = replace(audit, kappas=tuple(replace(bracket, proven=None) for bracket in audit.kappas))
    assert {row["proven"] for row in own_lists.kappa_rows(bare)} == {words.number(None)}


def test_what_cannot_move_is_told():
    audit = with_lists(OWN)
    assert "can move" not in own_lists.lists_in_words(audit)
    assert plain(own_lists.lists_in_words(replace(audit, movable=0.25))).endswith(
        "25 % of the reasons are features that an attacker can move; the others are attacked through those."
    )


def test_the_winner_of_a_comparison_may_be_one_list():
    stable, fragile = with_lists(SAME), with_lists(OWN)
    stable = replace(stable, name="a", attacks=[replace(row, displaced=0.0) for row in stable.attacks])
    fragile = replace(fragile, name="b", attacks=[replace(row, displaced=2.0) for row in fragile.attacks])
    assert words.comparison([stable, fragile])[1].endswith("it says nothing about a single input.")
    assert "one list" not in words.comparison([replace(fragile, attacks=stable.attacks), stable])[1]


def test_one_list_per_class_is_told():
    predicted = torch.arange(8) % 2
    audit = with_lists(OWN[predicted], predicted=predicted)
    assert "It is one list for each predicted class" in own_lists.lists_in_words(audit)
    assert "each predicted class" not in own_lists.lists_in_words(with_lists(OWN, predicted=predicted))


def test_a_single_row_is_compared_with_none():
    audit = with_lists(OWN[:1], predicted=torch.zeros(1, dtype=torch.int64))
    assert own_lists.lists_in_words(audit) == "There is one list only, and no other to compare it with."
    assert "one list for everybody" not in page.render(audit).lower()
