"""A bar for people: on stderr, only where it is asked for, and nothing else changes."""

import random
from contextlib import contextmanager

import pytest
import torch

from r2et.progress import progress_bar, watching


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


def test_a_fit_shows_a_bar_only_where_somebody_watches(monkeypatch):
    """Of the epochs, or of the models of a search; and nothing else changes."""
    from r2et import StableClassifier
    from r2et.estimator import choosing
    from r2et.training import trainer
    from tests.estimator.frames import QUICK, mixed

    shown = []

    @contextmanager
    def recorded(description, total, enabled):
        if not enabled:
            yield lambda units: None
            return
        done = []
        yield done.append
        shown.append((description, total, sum(done)))

    monkeypatch.setattr(choosing, "progress_bar", recorded)
    monkeypatch.setattr(trainer, "progress_bar", recorded)
    frame, labels = mixed()
    searching = {**QUICK, "settings": None, "grid": {"gap": [0.1, 1.0]}}
    for options, bar in ((QUICK, ("training", 2, 2)), (searching, ("training models", 3, 3))):
        plain, seen = (StableClassifier(**{**options, "epochs": 2}) for _ in range(2))
        plain.fit(frame, labels)
        assert shown == []
        with watching(enabled=True):
            seen.fit(frame, labels)
        assert shown == [bar]
        shown.clear()
        assert plain.predict_proba(frame).tolist() == seen.predict_proba(frame).tolist()
