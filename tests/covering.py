"""Tables of cases that are too long for every run: a part that covers all of it, and the rest under `-m slow`."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest


def covering(cases: Iterable[Sequence[Any]], together: int = 2) -> list[Any]:
    """The same cases for `parametrize`; those are slow whose values all occur in the others, in the same company.

    Args:
        cases: tuples of values, as many in each.
        together: any so many values of a case are those of one that is not slow; 1 = each value occurs.

    >>> cases = covering([(a, b, c) for a in "xy" for b in "mn" for c in "pq"])
    >>> ["".join(case.values) for case in cases if not case.marks]
    ['xmp', 'xnq', 'ymq', 'ynp']
    """
    listed = [tuple(case) for case in cases]
    missing = set().union(*(_parts(case, together) for case in listed))
    quick: set[int] = set()
    while missing:
        # the first of those that cover most: the same in every process
        best = max(
            range(len(listed)), key=lambda number: (len(_parts(listed[number], together) & missing), -number)
        )
        quick.add(best)
        missing -= _parts(listed[best], together)
    return [
        pytest.param(*case, marks=() if number in quick else pytest.mark.slow)
        for number, case in enumerate(listed)
    ]


def _parts(case: tuple[Any, ...], together: int) -> set[tuple[tuple[int, Hashable], ...]]:
    """Any so many places of a case, with the values that are there."""
    return set(combinations(enumerate(case), together))
