"""What others wrote: a file is looked at before it is opened, JSON is compared with a type before it is used."""

import json
import math
import os
import stat
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from r2et.errors import DataError, InputError, in_words
from r2et.numerics.values import quoted

#: bytes; what r2et writes is far smaller
MAX_JSON = 64 * 2**20
#: lists and objects inside of each other; what r2et writes has a handful
MAX_DEPTH = 64

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

T = TypeVar("T")
Path_ = str | os.PathLike[str]


def regular_file(path: Path_, error: type[InputError] = DataError) -> Path:
    """A path where there is a file to read: nothing, a folder, a device or a pipe (which would hang) is refused.

    >>> regular_file("/dev/null")
    Traceback (most recent call last):
    r2et.errors.DataError: '/dev/null' is a device, not a file
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError as reason:
        raise error(f"there is no file {quoted(path)}") from reason
    # a name with a NUL byte is a ValueError; a link to itself was a RuntimeError before Python 3.13
    except (OSError, ValueError, RuntimeError) as reason:
        raise error(f"{quoted(path)} cannot be opened: {in_words(reason)}") from reason
    if not stat.S_ISREG(mode):
        kind = next((word for is_kind, word in _KINDS if is_kind(mode)), "something else")
        raise error(f"{quoted(path)} is {kind}, not a file")
    return Path(path)


def read_json(path: Path_, error: type[InputError] = InputError) -> Any:
    """The content of a JSON file."""
    file = regular_file(path, error)
    try:
        if file.stat().st_size > MAX_JSON:
            raise error(f"{quoted(path)} is larger than {MAX_JSON >> 20} MB: r2et writes no such JSON")
        return parse_json(file.read_bytes())
    except OSError as reason:
        raise error(f"{quoted(path)} cannot be read: {in_words(reason)}") from reason
    except ValueError as reason:
        if isinstance(reason, InputError):
            raise
        raise error(f"{quoted(path)} is not readable as JSON: {reason}") from reason


def parse_json(text: str | bytes) -> Any:
    """JSON as its standard has it: a key twice, NaN, a number too large and endless nesting are ValueErrors.

    >>> parse_json('{"k": 8, "k": 9}')
    Traceback (most recent call last):
    ValueError: the key 'k' is there twice
    """
    try:
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [entry for part in level for entry in _entries(part)]
        if not level:
            return value
    raise ValueError("it is nested too deeply")


def typed(value: Any, kind: type[T], where: str, error: type[InputError] = InputError) -> T:
    """A value of JSON as a type says it is: a dataclass is made from an object, a tuple from a list.

    A whole number may stand for a float. A TypedDict may have further keys, a dataclass may not.

    Args:
        value: what the JSON holds.
        kind: built from str, int, float, bool, None, Any, Literal, unions, list, tuple, dict, dataclasses and
            TypedDicts.
        where: the file, for the message.
        error: what to raise.

    >>> typed([0.5, 1], tuple[float, ...], "a.json")
    (0.5, 1)
    >>> typed({"k": [8, "x"]}, dict[str, list[int]], "a.json")
    Traceback (most recent call last):
    r2et.errors.InputError: a.json: k[1] should be a whole number, it is 'x'
    """
    try:
        fitted: T = _fit(value, kind, "")
    except _MisfitError as reason:
        raise error(f"{where}: {reason}") from reason
    return fitted


class _MisfitError(ValueError):
    pass


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    type(None): ((type(None),), "null"),
}


def _fit(value: Any, kind: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if kind in _PLAIN:
        allowed, _ = _PLAIN[kind]
        wrong = not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool)
        # a whole number of JSON has any length
        if wrong or (isinstance(value, int) and abs(value) > 2**63):
            raise _misfit(value, kind, place)
        return value
    if origin in (typing.Union, types.UnionType):
        return _fit_one_of(value, kind, arguments, place)
    if origin is typing.Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise _misfit(value, kind, place)
        return value
    if origin in (typing.Required, typing.NotRequired):
        return _fit(value, arguments[0], place)
    if origin in (list, tuple, Sequence):
        if not isinstance(value, list | tuple):
            raise _misfit(value, kind, place)
        entries = [_fit(entry, arguments[0], f"{place}[{i}]") for i, entry in enumerate(value)]
        return tuple(entries) if origin is tuple else entries
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _misfit(value, kind, place)
    if origin in (dict, Mapping):
        return {key: _fit(entry, arguments[1], _inside(place, key)) for key, entry in value.items()}
    return _fit_fields(value, kind, place)


def _fit_one_of(value: Any, kind: Any, choices: Sequence[Any], place: str) -> Any:
    for choice in choices:
        try:
            return _fit(value, choice, place)
        except _MisfitError as reason:
            deeper = str(reason)
            # a list that is nearly right is told where it is wrong
            if len([other for other in choices if other is not type(None)]) == 1 and value is not None:
                raise _MisfitError(deeper) from None
    raise _misfit(value, kind, place)


def _fit_fields(value: dict[str, Any], kind: Any, place: str) -> Any:
    """A TypedDict or a dataclass."""
    hints = typing.get_type_hints(kind)
    if is_dataclass(kind):
        entries = fields(kind)
        needed = [e.name for e in entries if e.default is MISSING and e.default_factory is MISSING]
        unknown = [key for key in value if key not in hints]
        if unknown:
            raise _MisfitError(f"{_inside(place, unknown[0])} is nothing that belongs there")
    else:
        needed = [name for name in hints if name in kind.__required_keys__]
    for name in needed:
        if name not in value:
            raise _MisfitError(f"{_inside(place, name)} is missing")
    fitted = {key: _fit(entry, hints.get(key, Any), _inside(place, key)) for key, entry in value.items()}
    return kind(**fitted)  # a TypedDict is a dict


def _misfit(value: Any, kind: Any, place: str) -> _MisfitError:
    return _MisfitError(f"{place or 'it'} should be {_described(kind)}, it is {quoted(value)}")


def _described(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind][1]
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_described, arguments))
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    return "a list" if origin in (list, tuple, Sequence) else "an object"


def _inside(place: str, key: str) -> str:
    name = key if key.isidentifier() else quoted(key)
    return f"{place}.{name}" if place else name


def _entries(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {quoted(next(key for key in keys if keys.count(key) > 1))} is there twice")
    return read


def _finite(text: str) -> float:
    value = float(text.replace("Infinity", "inf"))
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
