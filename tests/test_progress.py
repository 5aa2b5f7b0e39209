"""A bar for people: on stderr, only where it is asked for, and nothing else changes."""

import random

import pytest
import torch

from r2et.progress import progress_bar


def work(enabled):
    with progress_bar("attack", 3, enabled=enabled) as advance:
        for _ in range(3):
            advance(1)


def test_nothing_is_shown_unless_asked_for(capsys):
    work(enabled=False)
    assert capsys.readouterr() == ("", "")


def test_it_is_shown_on_stderr_alone(capsys, monkeypatch):
    # newer versions of rich read the first, older ones the second
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    work(enabled=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "attack" in shown.err
    assert "3/3" in shown.err


def test_random_numbers_are_left_alone():
    before = random.getstate(), torch.get_rng_state()
    work(enabled=True)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_an_error_goes_through():
    with pytest.raises(KeyError, match="inside"), progress_bar("attack", 3, enabled=True):
        raise KeyError("inside")
