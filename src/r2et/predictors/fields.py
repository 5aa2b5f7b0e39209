"""Fields of a JSON document that somebody else wrote: each is of the kind asked for, or a sentence says so."""

from typing import Any, TypeVar

from r2et.errors import InputError

Kind = TypeVar("Kind")


def shown(value: Any) -> str:
    """A value for an error message, on one line and short.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    if isinstance(value, dict | list):
        # its text could be as long as the file
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def entry(holder: Any, key: str, kind: type[Kind]) -> Kind:
    """The field `key` of a JSON object, of exactly this kind: a flag is no number.

    >>> entry({"a": 1}, "a", int)
    1
    """
    if not isinstance(holder, dict):
        raise InputError(f"where {key!r} should be, it holds {shown(holder)}")
    value = holder.get(key)
    if type(value) is not kind:
        raise InputError(f"{key!r} should be a {kind.__name__}, it is {shown(value)}")
    return value


def only(holder: Any) -> tuple[str, Any]:
    """The one field of an object that holds one of several kinds of value, and its name.

    >>> only({"as_int": 3})
    ('as_int', 3)
    """
    if not isinstance(holder, dict) or len(holder) != 1:
        raise InputError(f"it holds {shown(holder)} where one value with its kind should be")
    return next(iter(holder.items()))


def whole(value: Any) -> int:
    """A whole number that torch can hold.

    >>> whole(3)
    3
    """
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise InputError(f"it holds {shown(value)} where a whole number of 64 bits should be")
    return value


def items(value: Any) -> list[Any]:
    """A JSON list.

    >>> items([1, 2])
    [1, 2]
    """
    if not isinstance(value, list):
        raise InputError(f"it holds {shown(value)} where a list should be")
    return value
