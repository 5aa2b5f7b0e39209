"""Errors are sentences: short, on one line, with the reason."""

import pytest

from r2et import errors
from r2et.errors import in_words, shortened


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_value_error_about_an_input(name):
    kind = getattr(errors, name)
    assert issubclass(kind, errors.InputError)
    assert issubclass(kind, ValueError)


def test_every_error_is_offered():
    kinds = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert kinds == set(errors.__all__)


@pytest.mark.parametrize("length", [0, 1, 599, 600, 601, 10_000])
def test_a_long_text_is_cut_in_the_middle(length):
    text = "".join(chr(ord("a") + number % 26) for number in range(length))
    cut = shortened(text)
    if length <= 600:
        assert cut == text
    else:
        assert len(cut) < 600
        assert text.startswith(cut.partition(" ... ")[0])
        assert text.endswith(cut.partition(" ... ")[2])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("first line\nsecond line"), "ValueError: first line"),
        (RuntimeError("\n  \n late"), "RuntimeError: late"),
        (MemoryError(), "MemoryError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OSError("no number"), "OSError: no number"),
        (FileNotFoundError(2, "No such file or directory", "/secret/path"), "No such file or directory"),
    ],
)
def test_an_error_in_words(error, words):
    assert in_words(error) == words
