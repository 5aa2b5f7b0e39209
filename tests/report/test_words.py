"""What the report says in words, from figures that are made up."""

from dataclasses import replace

import pytest
import torch

from r2et.report import words
from tests.report.audits import random_audit


def audit(certified=None, thickness=None, displaced=0.0):
    """As many rows as values; every attack displaces as many reasons on average; the largest norm is 1."""
    values = certified if certified is not None else thickness
    made_up = random_audit(len(values), 9, 3)
    attacks = [replace(row, displaced=displaced, changed=displaced) for row in made_up.attacks]
    made_up = replace(made_up, attacks=attacks)
    if thickness is not None:
        made_up = replace(made_up, thickness=torch.tensor(thickness))
    if certified is not None:
        proven = torch.tensor(certified, dtype=torch.float64)
        made_up = replace(made_up, samples=replace(made_up.samples, certified=proven))
    return made_up


def plain(text):
    return text.replace(words.HARD_SPACE, " ")


@pytest.mark.parametrize(
    ("certified", "share"),
    [
        ([2.0, 2.0, 2.0, 0.5], "75 %"),
        ([2.0, 0.1, 0.2, 0.3], "25 %"),
        ([float("inf"), float("inf"), 0.5, 0.5], "50 %"),
        ([1.0, 1.0, 1.0, 1.0], "0 %"),  # a radius below which nothing changes says nothing about the norm itself
        ([float("nan")] * 4, "0 %"),
    ],
)
def test_what_is_proven_for_some_rows_is_not_called_proven(certified, share):
    short, full = words.headline(audit(certified))
    assert short == "No attack changed these reasons."
    assert plain(full).endswith(f"That is not yet a proof: it is one for {share} of the inputs.")


def test_what_is_proven_for_all_rows_is_called_proven():
    short, full = words.headline(audit([2.0, 1.1, float("inf"), 1.5]))
    assert short == "No change of this size can change these reasons."
    assert full.endswith("None can: it is proven.")


def test_what_is_proven_for_all_rows_and_sizes_says_so():
    short, full = words.headline(audit([float("inf")] * 4))
    assert short == "Nothing can change these reasons."
    assert "it is proven for changes of any size" in full


def test_what_an_attack_changed_is_not_called_proven():
    short, _ = words.headline(audit([2.0, 2.0], displaced=0.5))
    said = "50 % of these inputs can be given other reasons without changing the prediction"
    assert plain(short) == f"{said}, and it is one list for everybody."  # of two rows that are alike


def test_half_of_the_rows_are_at_least_as_thick_as_the_median():
    said = plain(words.thickness_in_words(audit(thickness=[0.9, 0.2, 0.5, 0.6, 0.95])))
    assert said == (
        "On average 63 % of the pairs keep their order; for half of the rows at least 60 % do, "
        "and for the thinnest one (row 1) 20 %."
    )


def test_a_median_thickness_of_one_is_all_of_the_pairs():
    said = plain(words.thickness_in_words(audit(thickness=[1.0, 0.5, 1.0])))
    assert "for half of the rows all of them do, and for the thinnest one (row 1) 50 %" in said
    assert words.thickness_in_words(audit(thickness=[1.0, 1.0])) == "Every pair keeps its order, for every row."


def test_the_proven_radius_of_half_of_the_rows_is_the_median():
    said = words.proof_in_words(audit([0.8, float("nan"), 0.1, 0.3, 0.2, 5.0]))
    assert said == (
        "It is proven that for half of the rows no change of norm below 0.3 replaces a reason "
        "(smallest 0.1, largest 5)."
    )


def test_no_change_of_any_size_is_said_of_all_rows_that_are_known():
    assert "no change of any size" in words.proof_in_words(audit([float("inf"), float("nan")]))
    assert "no change of any size" not in words.proof_in_words(audit([float("inf"), 0.5]))
