"""How much memory a block takes."""

import contextlib
import resource
import sys


def peak() -> int:
    """The most bytes that this process had so far."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


@contextlib.contextmanager
def little_memory(most: int = 2**27):
    """The peak of the process does not rise by more than this many bytes."""
    before = peak()
    yield
    assert peak() - before < most
