"""Audits whose attacks take few steps, for tests of what is done with their figures.

How strong attacks are is tested in `tests/attacks`, where they take all of their steps.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from r2et.attacks import MinimalFlip, minimal, worst_case

#: steps, searches, hops, draws and rounds of any budget, at most
MOST = 4
#: of the search for the nearest flip
NEAREST = {"steps": 4, "pairs": 2, "halvings": 4}
#: what a test needs that is about the strength of an attack
USUAL = {name: dict(getattr(worst_case, name)) for name in ("SEARCHES", "BY_FORMULAS", "DRAWS", "EFFORT")}
CONSTANTS = {"BETAS": (10.0,), "SEARCH_STEPS": 4, "HINGES": 4}


@contextmanager
def little_effort() -> Iterator[None]:
    """WorstCase and MinimalFlip take less than a tenth of their steps in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name, table in USUAL.items():
            for budget, sizes in table.items():
                patch.setitem(getattr(worst_case, name), budget, tuple(min(size, MOST) for size in sizes))
        for name, value in CONSTANTS.items():
            patch.setattr(minimal, name, value)
        for name, value in NEAREST.items():
            patch.setitem(MinimalFlip.__init__.__kwdefaults__, name, value)
        yield


@pytest.fixture(scope="package", autouse=True)
def quick_audits() -> Iterator[None]:
    """For the conftest.py of a package."""
    with little_effort():
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_audits_here() -> Iterator[None]:
    """For one module."""
    with little_effort():
        yield
