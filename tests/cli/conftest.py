"""What the tests of the commands share."""

import pytest

from tests.little_effort import quick_audits
from tests.test_cli import Run

__all__ = ["quick_audits"]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def run(capsys):
    return lambda *arguments: Run(capsys, *arguments)
