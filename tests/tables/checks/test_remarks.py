"""The words of every kind of remark."""

import pytest

from r2et.tables.checks.remarks import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_a_kind_fit_together(kind):
    wording = KINDS[kind]
    assert bool(wording.reason) == wording.done.startswith("left out")
    assert wording.change.format(names="age")
    if wording.level == "error":
        assert wording.done.endswith("can be trained")
