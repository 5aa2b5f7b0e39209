"""What stays in every run covers what is left to the slow one."""

from itertools import combinations, product

import pytest

from tests.covering import covering

NUMBERS, LETTERS, SIDES = (1, 2, 3, 4, 5), "abcdefgh", ("left", "right")


@pytest.mark.parametrize(("together", "most"), [(1, 8), (2, 48), (3, 80)])
def test_every_combination_is_in_a_quick_case(together, most):
    cases = covering(product(NUMBERS, SIDES, LETTERS), together)
    assert [case.values for case in cases] == list(product(NUMBERS, SIDES, LETTERS))
    quick = [case.values for case in cases if not case.marks]
    seen, wanted = (
        {part for case in chosen for part in combinations(enumerate(case), together)}
        for chosen in (quick, product(NUMBERS, SIDES, LETTERS))
    )
    assert seen == wanted
    assert len(quick) <= most
    assert all(mark.name == "slow" for case in cases for mark in case.marks)


def test_the_slow_ones_are_left_out_unless_they_are_asked_for(pytester, request):
    options = request.config.inipath.read_text()
    pytester.makefile(".toml", pyproject=options)
    path = pytester.makepyfile(
        "import pytest\ndef test_quick(): pass\n@pytest.mark.slow\ndef test_slow(): raise AssertionError"
    )
    shared = ("-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", path)
    pytester.runpytest_inprocess(*shared).assert_outcomes(passed=1, deselected=1)
    pytester.runpytest_inprocess("-m", "slow", *shared).assert_outcomes(failed=1, deselected=1)
