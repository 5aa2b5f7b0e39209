"""The one way from objects to JSON: `plain` out, `r2et.files.reading.typed` back into dataclasses.

cattrs and msgspec were tried and left, because a file is somebody else's input: cattrs takes "8" and true for 8,
msgspec the last of two equal keys, both pass over a field that nobody knows, and neither quotes what stands there.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypedDict

from r2et.errors import CheckpointError, InputError
from r2et.files.reading import typed
from r2et.numerics.values import quoted


def plain(value: Any, error: type[InputError] = InputError) -> Any:
    """The value as dicts, lists, text, numbers, booleans and None.

    A dataclass becomes a dict of its fields; a tuple, and whatever has `tolist` (arrays, tensors, columns of
    pandas, numpy's numbers), becomes what Python has for it. Keys stay numbers where they are.

    Args:
        value: what is to be written.
        error: what to raise at anything else.

    >>> import numpy as np
    >>> plain({"k": np.int64(3), "radii": (0.1, np.float32(0.5)), "classes": np.array(["no", "yes"])})
    {'k': 3, 'radii': [0.1, 0.5], 'classes': ['no', 'yes']}
    """
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {plain(key, error): plain(entry, error) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, error) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name), error) for entry in fields(value)}
    raise error(
        f"{quoted(value)} of type {type(value).__name__} cannot be saved: use numbers, text, lists and dicts"
    )


def to_json(value: Any, error: type[InputError] = InputError) -> str:
    r"""A value as the text of a JSON file; what JSON has no form for is tagged, and `untagged` on the way back.

    >>> to_json({"auc": float("nan")})
    '{\n "auc": {\n  "__float__": "nan"\n }\n}\n'
    """
    return to_strict_json(tagged(plain(value, error)), error)


def to_strict_json(value: Any, error: type[InputError] = InputError) -> str:
    """A value as the text of a JSON file that any program reads; NaN and infinities are a ValueError."""
    return json.dumps(plain(value, error), indent=1, allow_nan=False) + "\n"


def tagged(value: Any) -> Any:
    """JSON has neither infinities nor keys that are numbers; the milestones of a schedule are such keys.

    >>> tagged({2: float("inf")})
    {'__pairs__': [[2, {'__float__': 'inf'}]]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return {"__float__": str(value)}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: tagged(entry) for key, entry in value.items()}
        return {"__pairs__": [[tagged(key), tagged(entry)] for key, entry in value.items()]}
    if isinstance(value, list):
        return [tagged(entry) for entry in value]
    return value


_Float = TypedDict("_Float", {"__float__": Literal["inf", "-inf", "nan"]})


def untagged(value: Any) -> Any:
    """What `tagged` was given; tags that are none of its own are a CheckpointError.

    >>> untagged({"__pairs__": [[2, {"__float__": "inf"}]]})
    {2: inf}
    """
    if isinstance(value, list):
        return [untagged(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"__float__"}:
        return float(typed(value, _Float, "a number")["__float__"])
    if value.keys() == {"__pairs__"}:
        pairs = typed(value["__pairs__"], list[list[Any]], "__pairs__")
        if any(len(pair) != 2 or isinstance(pair[0], list | dict) for pair in pairs):
            raise CheckpointError(f"__pairs__ should be pairs of key and value, it is {quoted(pairs)}")
        return {untagged(key): untagged(entry) for key, entry in pairs}
    return {key: untagged(entry) for key, entry in value.items()}
