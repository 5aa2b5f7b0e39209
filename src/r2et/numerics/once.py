"""A check that passed is not made again on the same numbers or model, while one call of r2et is under way."""

import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

Thing = TypeVar("Thing", bound=object)
Rest = ParamSpec("Rest")


class _Passed(threading.local):
    """What passed in this thread since the outermost `looking_once` began; a thing that is gone is out."""

    def __init__(self) -> None:
        self.depth = 0
        self.things: dict[Hashable, weakref.ref[object]] = {}


_PASSED = _Passed()


@contextmanager
def looking_once() -> Iterator[None]:
    """Remember which tensors and models passed which checks until the outermost of these ends.

    Outside nothing is remembered: between two calls a person may change an array that a tensor shares its memory
    with, which no tensor notices.
    """
    _PASSED.depth += 1
    try:
        yield
    finally:
        _PASSED.depth -= 1
        if _PASSED.depth == 0:
            _PASSED.things.clear()


def once(check: Callable[Concatenate[Thing, Rest], None]) -> Callable[Concatenate[Thing, Rest], None]:
    """Let a check of a tensor or a model pass at once inside `looking_once` if it passed there before.

    Other numbers, other weights or another mode are looked at anew.

    >>> seen = []
    >>> @once
    ... def look(x: Tensor) -> None:
    ...     seen.append(x.tolist())
    >>> x = torch.ones(2)
    >>> with looking_once():
    ...     look(x)
    ...     look(x[:])
    ...     look(x.add_(1))
    >>> seen
    [[1.0, 1.0], [2.0, 2.0]]
    """

    @functools.wraps(check)
    def looked(thing: Thing, /, *rest: Rest.args, **options: Rest.kwargs) -> None:
        key = None if torch.compiler.is_compiling() or not _PASSED.depth else _key(thing)
        if key is None:
            check(thing, *rest, **options)
            return
        # what a tensor is called in a message makes no other check of it
        others = [value for value in (*rest, *options.values()) if not isinstance(value, str)]
        known = (check.__name__, key, *(_key(value) if isinstance(value, Tensor) else value for value in others))
        passed = _PASSED.things.get(known)
        if passed is not None and passed() is not None:
            return
        check(thing, *rest, **options)
        _PASSED.things[known] = weakref.ref(thing)

    return looked


def _key(x: object) -> Hashable | None:
    """Equal for the same numbers at the same place, or the same model with them; None if there is no telling."""
    if isinstance(x, nn.Module):
        weights = [_key(tensor) for tensor in (*x.parameters(), *x.buffers())]
        modes = tuple(module.training for module in x.modules())
        return None if None in weights else (id(x), modes, *weights)
    if not isinstance(x, Tensor) or x.is_nested or x.layout != torch.strided or x.is_inference():
        return None
    try:
        return x.data_ptr(), tuple(x.shape), x.stride(), x.dtype, x.device, x._version
    except RuntimeError:  # of torch.func it has no place of its own
        return None
