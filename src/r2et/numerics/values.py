"""Checks of plain values, without torch: every message quotes the input and says what to do about it."""

import difflib
import operator
import os
from collections.abc import Iterable, Mapping, Sequence

from r2et.errors import InputError

#: beyond it the square of a number overflows in float32, and Python's whole numbers do not fit into torch's
LARGEST = 1e18
#: of whole numbers
MOST = 2**63 - 1


def check_k(k: int, n: int) -> None:
    """The top-k set must be a proper, non-empty part of the n features."""
    if not is_whole(k):
        raise InputError(f"k must be a whole number, got {quoted(k)}")
    if not 1 <= k < n:
        raise InputError(f"k must be at least 1 and less than the {n} features that are ranked, got k={k}")


def is_truth(value: object) -> bool:
    """Whether a value is a truth value: Python's, numpy's or a tensor's."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def is_whole(value: object) -> bool:
    """Whether a value is one whole number: Python's, numpy's or a tensor's without axes, but no truth value."""
    if is_truth(value) or _is_array(value):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]  # what it is for: other types raise
    except TypeError:
        return False
    return True


def as_number(value: object) -> float | None:
    """One real number as a float, or None: text, truth values, complex numbers and arrays are not.

    Nor are numbers that torch cannot compute with, such as fractions and decimals.
    """
    if is_truth(value) or _is_array(value):
        return None
    if not isinstance(value, int | float) and not (hasattr(value, "dtype") and hasattr(value, "__float__")):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError, RuntimeError):
        return None


def _is_array(value: object) -> bool:
    """Whether a value has axes, or could have: numpy's arrays without any cannot be hashed, its numbers can."""
    return getattr(value, "ndim", 0) != 0 or (hasattr(value, "dtype") and type(value).__hash__ is None)


def quoted(value: object) -> str:
    """A path or a value as an error message shows it: on one line, and cut in the middle if it is long.

    >>> import torch
    >>> quoted("age"), len(quoted("x" * 5000)) < 200, quoted(torch.zeros(2, 3))
    ("'age'", True, 'a tensor of shape (2, 3)')
    """
    try:
        if getattr(value, "ndim", 0) and hasattr(value, "requires_grad"):
            return f"a tensor of shape {tuple(getattr(value, 'shape', ()))}"
        text = " ".join(repr(os.fspath(value) if isinstance(value, os.PathLike) else value).split())
    # a nested tensor has no shape, and somebody's own repr may raise anything
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 160 else f"{text[:80]} ... {text[-40:]}"


def few(values: Sequence[object]) -> str:
    """The first of a list, and how many more there are.

    >>> few(["age", "pay"]), few(range(9))
    ('age, pay', '0, 1, 2, 3, 4, 5 and 3 more')
    """
    more = f" and {len(values) - 6} more" if len(values) > 6 else ""
    return ", ".join(map(str, values[:6])) + more


def check_number(
    name: str, value: float, low: float = -float("inf"), high: float = float("inf"), *, inside: bool = False
) -> None:
    """A finite number from low to high, or with `inside` strictly between them."""
    number = as_number(value)
    _refuse_huge(name, value, number)
    fits = number is not None and abs(number) < float("inf") and low <= number <= high
    if fits and not (inside and number in (low, high)):
        return
    bounds = {(True, True): "", (False, True): f" of at least {low:g}", (True, False): f" of at most {high:g}"}
    both = f" between {low:g} and {high:g}" if inside else f" from {low:g} to {high:g}"
    where = bounds.get((low == -float("inf"), high == float("inf")), both)
    raise InputError(f"{name} must be a finite number{where}, got {name}={quoted(value)}")


def check_positive(name: str, value: float) -> None:
    """A radius, a learning rate, a scale: finite and above zero."""
    number = as_number(value)
    _refuse_huge(name, value, number)
    if number is None or not 0 < number < float("inf"):
        raise InputError(f"{name} must be a positive, finite number, got {name}={quoted(value)}")


def _refuse_huge(name: str, value: object, number: float | None) -> None:
    if number is not None and LARGEST <= abs(number) < float("inf"):
        raise InputError(f"{name} must be a finite number below {LARGEST:g}, got {name}={quoted(value)}")


def check_weight(name: str, value: float) -> None:
    """The weight of a term: finite and not negative."""
    check_number(name, value, low=0.0)


def check_share(name: str, value: float) -> None:
    """A part of a whole: above 0 and at most 1."""
    number = as_number(value)
    if number is None or not 0 < number <= 1:
        raise InputError(f"{name} must be a number above 0 and at most 1, got {name}={quoted(value)}")


def check_chunk_size(chunk_size: int | None) -> None:
    """None, or a positive whole number."""
    if chunk_size is not None:
        check_count("chunk_size", chunk_size)


def plain_numbers(settings: object) -> None:
    """Turn numbers of numpy and torch among the fields of a dataclass into Python's, which everything can use.

    Attributes of a frozen dataclass are set before anybody sees it: call it first in `__post_init__`.
    """
    for name, value in list(vars(settings).items()):
        if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 and hasattr(value, "item"):
            object.__setattr__(settings, name, value.item())


def check_count(name: str, value: int, least: int = 1) -> None:
    """A whole number of at least 1, or of another least one."""
    if not is_whole(value) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {name}={quoted(value)}")
    if value > MOST:
        raise InputError(f"{name} must be a whole number of at most 2**63 - 1, got {name}={quoted(value)}")


def check_seed(seed: int) -> None:
    """A whole number that every generator takes."""
    if not is_whole(seed) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to 2**32 - 1, got seed={quoted(seed)}")


def check_radii(radii: Iterable[float], name: str = "radii") -> tuple[float, ...]:
    """Several radii, at least one, each positive and finite; a tuple of Python's numbers."""
    if (
        isinstance(radii, str | bytes | Mapping)
        or not isinstance(radii, Iterable)
        or getattr(radii, "ndim", 1) != 1
    ):
        raise InputError(f"{name} must be a list of numbers such as [0.1, 0.5], got {name}={quoted(radii)}")
    values = tuple(radii)
    if not values:
        raise InputError(f"{name} is empty: name at least one")
    for value in values:
        number = as_number(value)
        _refuse_huge("radius", value, number)
        if number is None or not 0 < number < float("inf"):
            raise InputError(
                f"every radius in {name} must be a positive, finite number, got radius={quoted(value)}"
            )
    return tuple(value if type(value) in (int, float) else float(value) for value in values)


def check_flag(name: str, value: object) -> None:
    """True or False; text such as "no" would count as true."""
    if getattr(value, "ndim", 0) != 0 or not (is_truth(value) or (is_whole(value) and value in (0, 1))):
        raise InputError(f"{name} must be True or False, got {name}={quoted(value)}")


def check_kind(name: str, value: object, kind: type | tuple[type, ...], example: str) -> None:
    """An object of a class: an explainer, a domain, a generator; the message shows how one is made."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be such as {example}, got {name}={quoted(value)}")


def check_path(name: str, value: object) -> None:
    """The name of a file or folder, as text or a path."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError(f"{name} must be the name of a file or folder, got {name}={quoted(value)}")


def check_text(name: str, value: object) -> None:
    """Text."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {name}={quoted(value)}")


def check_names(name: str, values: Iterable[object], count: int | None = None) -> tuple[str, ...]:
    """Names of features, classes or regions as text: not one text in their place, no two alike."""
    if (
        isinstance(values, str | bytes | Mapping)
        or hasattr(values, "requires_grad")
        or not isinstance(values, Iterable)
    ):
        raise InputError(f"{name} must be a list of names, got {name}={quoted(values)}")
    listed = tuple(values)
    for value in listed:
        if value is None or isinstance(value, list | dict | set):
            raise InputError(f"{name} must be names, got {quoted(value)} among them")
    names = tuple(map(str, listed))
    if count is not None and len(names) != count:
        raise InputError(f"{name} must be {count} names, got {len(names)}: {quoted(names)}")
    if len(set(names)) < len(names):
        twice = next(entry for entry in names if names.count(entry) > 1)
        raise InputError(f"{name} has {twice!r} twice: an explanation could not tell them apart")
    return names


def check_columns(name: str, columns: Iterable[object]) -> None:
    """Raise unless every column of a table has a name of its own.

    >>> check_columns("x", ["age", "pay"])
    """
    seen: set[str] = set()
    for column in columns:
        if str(column) in seen:
            raise InputError(
                f"{name} has several columns called {quoted(column)}: an explanation could not tell them apart"
            )
        seen.add(str(column))


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """One of a few names; the closest match is suggested."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"unknown {name} {quoted(value)}{suggestion(value, known)}")


def suggestion(value: str, known: Sequence[str]) -> str:
    """`": did you mean 'x'? Known: ..."`, to end an error message with."""
    close = difflib.get_close_matches(str(value).lower(), known, n=1, cutoff=0.5)
    hint = f": did you mean {close[0]!r}?" if close else "."
    return f"{hint} Known: {', '.join(known)}"
