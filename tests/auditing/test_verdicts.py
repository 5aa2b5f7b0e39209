"""The first sentences say what holds and whose lists they are."""

from dataclasses import replace

import pytest
import torch

from r2et.auditing.verdicts import attack_lines, holds, told_radius
from tests.report.audits import random_audit
from tests.report.test_own_lists import OWN, SAME, with_lists


def test_both_ends_and_individuality_come_first(report):
    text = report.verdict()
    worst = report.worst
    ends = next(ends for ends in report.bracket.mean() if ends.radius == worst.radius)
    first = text.partition(". ")[0]
    low, high = (float(end.strip("[]<")) for end in first.partition(": ")[2].split(" %")[0].split(", "))
    assert first.startswith(f"P@2 at radius {worst.radius:g}: [")
    assert low <= 100 * ends.proven + 1e-9
    assert high >= 100 * ends.attacked - 1e-9
    assert high - 100 * ends.attacked < 0.11
    assert "The lists differ between inputs" in text
    assert text.index("differ") < text.index("replaces")
    assert f"{report.individuality.effective:.1f} in effect for 24" in text


def test_one_list_for_everybody_is_said_before_that_nothing_changed():
    text = with_lists(SAME).verdict()
    assert text.startswith("P@3 at radius ")
    assert 0 < text.index("It is one list for everybody (two share 100 %)") < text.index("replaces")
    assert "differ" not in text
    assert "one list" not in with_lists(OWN).verdict()


def test_nothing_proven_is_said():
    audit = replace(random_audit(8, 9, 3), bracket=None)
    assert holds(audit).endswith("attacked; nothing is proven.")
    assert "at most" in holds(audit)


def test_a_proof_of_some_rows_says_of_how_many():
    audit = random_audit(8, 9, 3)
    assert "over" not in holds(audit)
    assert "over 8 of the 20 inputs" in holds(replace(audit, rows=20))


@pytest.mark.parametrize(("share", "said"), [(0.9996, ">99.9"), (1.0, "100.0"), (0.5, "50.0")])
def test_no_figure_is_rounded_up_to_all(share, said):
    audit = random_audit(8, 9, 3)
    attacks = [replace(row, precision=share, changed=1 - share) for row in audit.attacks]
    lines = attack_lines(replace(audit, attacks=attacks))
    assert all(line.split()[2] == said for line in lines[1:-1])
    if share == 0.9996:
        assert all("<0.1%" in line for line in lines[1:-1])


def test_some_affected_rows_are_not_none_and_not_all():
    audit = random_audit(2000, 9, 3)
    for changed, said in ((0.9996, ">99.9 %"), (0.0004, "<0.1 %")):
        attacks = [replace(row, changed=changed, displaced=0.004) for row in audit.attacks]
        text = replace(audit, attacks=attacks).verdict()
        assert f"for {said} of the inputs, fewer than 0.1 of 3 on average" in text


def test_without_a_finding_the_largest_radius_is_told():
    audit = random_audit(8, 9, 3)
    calm = replace(
        audit,
        attacks=[replace(row, displaced=0.0, changed=0.0, precision=1.0) for row in audit.attacks],
        bracket=None,
        samples=replace(audit.samples, precision=torch.ones_like(audit.samples.precision)),
    )
    assert told_radius(calm) == 1.0
    assert calm.verdict().startswith("P@3 at radius 1: at most 100.0 %")
