"""A package that imports what it offers when it is asked for."""

import sys

import pytest

from r2et.lazy import lazily


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two modules, of which one raises when it is imported."""
    folder = tmp_path / "drowsy"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "useful.py").write_text("answer = 42\n")
    (folder / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return lazily("drowsy", {"answer": "useful", "useful": "", "gone": "useful", "cause": "broken"})


def test_nothing_is_imported_before_it_is_asked_for(package):
    assert "drowsy.useful" not in sys.modules
    assert package("answer") == 42
    assert package("useful") is sys.modules["drowsy.useful"]
    assert "drowsy.broken" not in sys.modules


def test_a_name_that_is_not_offered_is_no_attribute(package):
    """`hasattr` and `from drowsy import name` count on this very error."""
    with pytest.raises(AttributeError, match="module 'drowsy' has no attribute 'answers'"):
        package("answers")
    with pytest.raises(AttributeError, match="gone"):
        package("gone")


def test_what_a_module_raises_is_not_hidden(package):
    with pytest.raises(ZeroDivisionError):
        package("cause")
