"""One progress bar for everything that takes longer than a few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from r2et.numerics.modes import random_states_kept

Advance = Callable[[int], None]
_WATCHED: ContextVar[bool] = ContextVar("watched", default=False)


@contextmanager
def watching(enabled: bool) -> Iterator[None]:
    """Inside, what an estimator does in `fit` shows bars: scikit-learn has no place to ask for one.

    >>> with watching(enabled=True):
    ...     watched()
    True
    """
    token = _WATCHED.set(enabled)
    try:
        yield
    finally:
        _WATCHED.reset(token)


def watched() -> bool:
    """Whether somebody looks at the bars of a `fit`."""
    return _WATCHED.get()


@contextmanager
def progress_bar(description: str, total: int, enabled: bool) -> Iterator[Advance]:
    """A transient bar on stderr; yields a function that advances it by a number of units.

    >>> with progress_bar("attack", 10, enabled=False) as advance:
    ...     advance(10)
    """
    if not enabled:
        yield lambda units: None
        return
    # importing rich draws a random number
    with random_states_kept(torch.device("cpu")):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda units: bar.advance(task, units)
