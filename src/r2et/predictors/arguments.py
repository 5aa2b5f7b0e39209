"""Arguments of a call that stands in a file: numbers, flags and words, and the order that an operator wants."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import fx

from r2et.errors import InputError
from r2et.predictors.archive import DTYPES
from r2et.predictors.fields import shown, whole

_LAYOUTS = {7: torch.strided}
_MEMORY = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format}
_NOT_FINITE = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def placed(
    target: str, schema: list[Any], names: list[str], values: list[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the order of the operator; those after a gap, and those that need it, by name.

    Args:
        target: what is called, for messages.
        schema: the arguments that the operator takes.
        names: of the values.
        values: that the file has; tensors are nodes.

    >>> node = fx.Graph().placeholder("x")
    >>> placed("elu", torch.ops.aten.elu.default._schema.arguments, ["input_scale", "self"], [2.0, node])
    ((x,), {'input_scale': 2.0})
    """
    known, passed = {argument.name: argument for argument in schema}, dict(zip(names, values, strict=True))
    missing = [name for name, argument in known.items() if name not in passed and not argument.has_default_value()]
    if missing or len(passed) != len(names) or not passed.keys() <= known.keys():
        raise InputError(f"{shown(target)} takes {', '.join(known)}, it is given {shown(', '.join(names))}")
    wrong = [
        name
        for name, value in passed.items()
        if not _fits(str(known[name].real_type), value, first=name == schema[0].name)
    ]
    if wrong:
        raise InputError(f"{shown(target)} is given {shown(passed[wrong[0]])} as {wrong[0]!r}")
    placed: list[Any] = []
    for argument in schema:
        if argument.kwarg_only or argument.name not in passed:
            break
        placed.append(passed.pop(argument.name))
    return tuple(placed), passed


def _fits(kind: str, value: Any, *, first: bool) -> bool:
    """Whether a value is of the kind that the operator takes: torch believes that a number is a type of numbers.

    It makes a tensor of a number, but not of the first argument.
    """
    if kind.startswith("Optional["):
        return value is None or _fits(kind.removeprefix("Optional[").removesuffix("]"), value, first=first)
    if kind.startswith("List["):
        inner = kind.removeprefix("List[").removesuffix("]")
        if isinstance(value, list):
            return all(_fits(inner, item, first=True) for item in value)
        # one number for all of them
        return inner in ("int", "float") and _fits(inner, value, first=first)
    if kind == "Tensor":
        return isinstance(value, fx.Node if first else fx.Node | int | float)
    return type(value) in _TYPES[kind]


#: what may stand for each kind of argument; a node is a size that is computed
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int, fx.Node),
    "float": (int, float, fx.Node),
    "bool": (bool, fx.Node),
    "number": (int, float, bool, fx.Node),
    "str": (str,),
    "ScalarType": (torch.dtype,),
    "Layout": (torch.layout,),
    "MemoryFormat": (torch.memory_format,),
    "Device": (torch.device,),
    "Generator": (),
}


def _short(value: Any) -> int:
    """One of several sizes, strides or axes; torch multiplies them without care."""
    if not -(2**31) < whole(value) < 2**31:
        raise InputError(f"it holds {shown(value)} where a size, a stride or an axis should be")
    return whole(value)


def _number(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) not in (int, float):
        raise InputError(f"it holds {shown(value)} where a number should be")
    return float(whole(value) if type(value) is int else value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"it holds {shown(value)} where true or false should be")
    return value


def _word(value: Any) -> str:
    """A mode of an operator, or an equation of einsum."""
    if not isinstance(value, str) or len(value) > 200 or not value.isascii() or not value.isprintable():
        raise InputError(f"it holds {shown(value)} where a word should be")
    return value


def _listed(table: Mapping[int, Any], value: Any) -> Any:
    if type(value) is not int or value not in table:
        raise InputError(f"it holds {shown(value)} where one of {sorted(table)} should be")
    return table[value]


#: an argument by the kind that a file gives it
SINGLE: dict[str, Callable[[Any], Any]] = {
    "as_none": lambda value: None,
    "as_int": whole,
    "as_float": _number,
    "as_bool": _flag,
    "as_string": _word,
    "as_scalar_type": partial(_listed, DTYPES),
    "as_layout": partial(_listed, _LAYOUTS),
    "as_memory_format": partial(_listed, _MEMORY),
    # tensors are read into the memory of the processor
    "as_device": lambda value: torch.device("cpu"),
}
#: those that can stand for a size
SYMBOLIC = ("as_int", "as_float", "as_bool")
SEVERAL: dict[str, Callable[[Any], Any]] = {"as_ints": _short, "as_floats": _number, "as_bools": _flag}
