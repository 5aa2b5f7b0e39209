"""Which torch functions a model calls, and in which of its layers."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from r2et.numerics.autograd import forward
from r2et.numerics.preflight import foreign_errors
from r2et.numerics.twins import twin


@dataclass(frozen=True)
class Call:
    """One call of a torch function.

    Attributes:
        name: of the function, without the underscore of its in-place form.
        where: the layer that made the call; with the function, unless the layer is one of torch's own.
        in_place: whether the input is overwritten.
        arguments: by position, None for tensors.
        options: by name, None for tensors.
    """

    name: str
    where: str
    in_place: bool
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def option(self, place: int, *names: str) -> Any:
        """An argument by its position or by one of its names; None if it was not given."""
        if len(self.arguments) > place:
            return self.arguments[place]
        return next((self.options[name] for name in names if name in self.options), None)


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        #: the layers that are running, innermost last: label, and whether it is one operation of torch's own
        self.layers: list[tuple[str, bool]] = []
        self.calls: list[Call] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        # operators of exported programs are called relu.default
        name = getattr(func, "__name__", "").split(".")[0]
        in_place = bool(named.get("inplace")) or (name.endswith("_") and not name.endswith("__"))
        layer, one_operation = self.layers[-1] if self.layers else ("the model", False)
        call = Call(
            name=name.rstrip("_"),
            where=layer if one_operation else f"{name}() in {layer}",
            in_place=in_place,
            arguments=tuple(_plain(value) for value in args),
            options={key: _plain(value) for key, value in named.items()},
        )
        self.calls.append(call)
        return func(*args, **named)


def _plain(value: Any) -> Any:
    # a number, a flag or a name; holding on to tensors would keep every activation in memory
    return value if isinstance(value, int | float | str) else None


def record(model: nn.Module, x: Tensor) -> tuple[list[Call], Any]:
    """Every torch function that the model calls on x (N, *features), with the layer whose forward calls it.

    Besides, what the model returns where x requires gradients; None if it cannot run there.
    """
    recorder = _Recorder()
    # hooks of the model itself would be run by other threads as well
    model = twin(model)

    def enter(layer: nn.Module, _: Any) -> None:
        recorder.layers.append(known[layer])

    def leave(*_: Any) -> None:
        recorder.layers.pop()

    known = {
        layer: (label(name, layer), type(layer).__module__.startswith("torch.nn") and not list(layer.children()))
        for name, layer in model.named_modules()
        if not isinstance(layer, torch.jit.ScriptModule)
    }
    with ExitStack() as stack:
        for layer in known:
            stack.callback(layer.register_forward_pre_hook(enter).remove)
            stack.callback(layer.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(recorder)
        try:
            output: Any = forward(model, x)[1]
        except RuntimeError:
            output = None
        if output is None:
            # a model that overwrites its own input cannot run on one that needs a gradient, but can be looked at
            recorder.layers.clear()
            recorder.calls.clear()
            with torch.no_grad(), foreign_errors(model, x):
                model(x.clone())
    return recorder.calls, output


def label(name: str, layer: nn.Module) -> str:
    """How a layer is called in a finding."""
    return f"layer {name!r} ({type(layer).__name__})" if name else f"the model ({type(layer).__name__})"


def places(calls: list[Call]) -> str:
    """Where calls were made, each place once."""
    return listed(list(dict.fromkeys(call.where for call in calls)))


def listed(items: list[str], limit: int = 8) -> str:
    """A few names and the number of the others.

    >>> listed(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more
