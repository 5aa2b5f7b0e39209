"""A program from a file is run without numbers first: what it would take, and whether its sizes fit together.

torch takes the memory that a call asks for, and some of its kernels believe what they are told: where the sizes
of their arguments do not fit together, they read and write beside a tensor. A network that was exported never asks
for either, a file can.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

from r2et.errors import ModelError
from r2et.numerics.twins import twin
from r2et.predictors.operators import ARITHMETIC
from r2et.validate.tracing import HOOKS

aten = torch.ops.aten

#: bytes that a pass over a batch may take, and as much again for each byte of weights and inputs
MOST_BYTES, TIMES = 2**30, 1000
#: calls of torch's kernels in one pass, and parts that one call may cut a tensor into
_MOST_CALLS = 50_000
#: torch multiplies kernel sizes and dilations without care
_LONGEST = 2**31
#: factors by which an image may be enlarged
_SCALES = (2**-20, 2**20)


class Rehearsals:
    """What a program was rehearsed with.

    Args:
        graph: of the program.
    """

    def __init__(self, graph: fx.Graph) -> None:
        arithmetic = {*ARITHMETIC.values()}
        #: no size is less for a larger batch, and no kernel asks for sizes that fit together
        self.grows = not any(
            node.op == "call_function" and (node.target in arithmetic or _name(node.target) in _FITS)
            for node in graph.nodes
        )
        self.known: dict[tuple[Any, ...], set[int]] = {}

    def before(self, program: fx.GraphModule, x: Tensor) -> None:
        """Rehearse a pass over x (N, *features), unless that was done."""
        rows, *features = x.shape if x.ndim else (1,)
        known = self.known.setdefault((*features, x.dtype), set())
        if rows in known or (self.grows and rows <= max(known, default=-1)):
            return
        rehearse(program, x)
        known.add(rows)


def rehearse(program: fx.GraphModule, x: Tensor) -> None:
    """Raise a ModelError if a pass over x (N, *features) would take far too much memory, or misuse a kernel.

    >>> x = torch.zeros(4, 3)
    >>> rehearse(fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2))), x)
    >>> graph = fx.Graph()
    >>> _ = graph.output(graph.call_function(aten.full.default, ([1000, 10**9], 1.0)))
    >>> rehearse(fx.GraphModule(torch.nn.Module(), graph), x)
    Traceback (most recent call last):
    r2et.errors.ModelError: the program takes 3725.3 GB for a batch of shape (4, 3), ...
    """
    held = sum(_bytes(tensor) for tensor in (*program.parameters(), *program.buffers(), x))
    budget = _Budget(MOST_BYTES + TIMES * held, tuple(x.shape))
    try:
        # whoever listens to the calls of the real pass is not told of this one
        with torch.no_grad(), torch._C.DisableTorchFunction(), budget:
            _Rehearsal(program).run(_hollow(x))
    except NotImplementedError as error:
        raise _of_values(error) from error
    except RuntimeError as error:
        if "meta" not in str(error):
            raise
        raise _of_values(error) from error


def _of_values(error: Exception) -> ModelError:
    told = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelError(
        f"the sizes of what the program computes depend on its inputs' values, so that nobody knows what it takes "
        f"({told[:200]}). Give such a model as package.module:factory with --weights file.safetensors"
    )


def _name(target: Any) -> str:
    """`lstm` of `aten::lstm.input`."""
    whole = target.name() if isinstance(target, torch._ops.OpOverload) else ""
    return str(whole).removeprefix("aten::").partition(".")[0]


def _hollow(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.dtype.itemsize


class _Rehearsal(fx.Interpreter):
    """Runs a graph call by call on tensors that have sizes and no numbers, and looks at the arguments of each.

    Args:
        program: is not changed.
    """

    def __init__(self, program: fx.GraphModule) -> None:
        shadow = twin(program)
        #: which features a mask leaves is a matter of its numbers
        self.masks: dict[Tensor, Tensor] = {}
        for module in shadow.modules():
            for hooks in HOOKS:
                module.__dict__[hooks] = OrderedDict()
            registries: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for registry in registries:
                registry.update({name: self._emptied(tensor) for name, tensor in registry.items()})
        super().__init__(shadow, graph=program.graph)
        # a message is a sentence, without the graph
        self.extra_traceback = False

    def _emptied(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        hollow = _hollow(tensor)
        if tensor.dtype is torch.bool:
            self.masks[hollow] = tensor
        return hollow

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator returns, if its arguments fit together."""
        if isinstance(target, torch._ops.OpOverload):
            name = _name(target)
            names = [argument.name for argument in target._schema.arguments]
            arguments = {**dict(zip(names, args, strict=False)), **kwargs}
            if not (_short(arguments) and _FITS.get(name, _short)(arguments)):
                raise ModelError(f"the program calls {target} with arguments that do not fit together")
            if name in ("index", "index_put", "index_put_"):
                indices = [self.masks.get(index, index) for index in arguments["indices"]]
                args = (args[0], indices, *args[2:])
        return super().call_function(target, args, kwargs)


class _Budget(TorchDispatchMode):
    """Adds up the memory of what torch's kernels return, and keeps everything on a device without any.

    Args:
        most: bytes.
        shape: of the batch, for messages.
    """

    def __init__(self, most: int, shape: tuple[int, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.most, self.shape, self.taken, self.calls = most, shape, 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        keywords = dict(kwargs or {})
        if any(argument.name == "device" for argument in func._schema.arguments):
            keywords["device"] = torch.device("meta")
        self.calls += 1
        if self.calls > _MOST_CALLS or _parts(func, args) > _MOST_CALLS:
            raise ModelError(f"the program makes more than {_MOST_CALLS} calls or parts for one batch")
        result = func(*args, **keywords)
        for value, returned in zip(
            result if isinstance(result, tuple | list) else [result], _forever(func), strict=False
        ):
            if isinstance(value, Tensor):
                # a view takes none, but the next kernel may write it out
                self._take(_bytes(value), new=returned.alias_info is None)
        return result

    def _take(self, number: int, *, new: bool) -> None:
        self.taken += number if new else 0
        if max(self.taken, number) > self.most:
            raise ModelError(
                f"the program takes {max(self.taken, number) / 2**30:.1f} GB for a batch of shape {self.shape}, "
                f"more than {self.most / 2**30:.1f} GB: r2et stops at 1 GB and {TIMES} times its weights and "
                "inputs. Use fewer rows at once, or give the model as package.module:factory with --weights "
                "file.safetensors"
            )


def _forever(func: Any) -> Iterable[Any]:
    """What is known of each value that an operator returns; of a list of tensors, the same for all."""
    returned = func._schema.returns
    return returned if len(returned) != 1 else iter(lambda: returned[0], None)


def _parts(func: Any, args: tuple[Any, ...]) -> int:
    """How many tensors an operator returns that cuts one into pieces."""
    if func is aten.unbind.int:
        return int(max(args[0].shape, default=1))
    if func is aten.split.Tensor:
        return int(max(args[0].shape, default=1) // max(args[1], 1))
    return 1


# --- what kernels believe ---------------------------------------------------------------------------------------


def _short(arguments: Mapping[str, Any]) -> bool:
    """No list of sizes has a number beyond what kernels multiply."""
    lists = (value for value in arguments.values() if isinstance(value, list | tuple))
    return all(abs(size) < _LONGEST for sizes in lists for size in sizes if isinstance(size, int))


def _attention(arguments: Mapping[str, Any]) -> bool:
    """As many keys as values."""
    return bool(arguments["key"].shape[-2:-1] == arguments["value"].shape[-2:-1])


def _batch_norm(arguments: Mapping[str, Any]) -> bool:
    """A number per channel in each tensor, and something to normalise."""
    x = arguments["input"]
    numbers = (arguments[name] for name in ("weight", "bias", "running_mean", "running_var"))
    return x.numel() > 0 and all(tensor is None or tensor.shape == x.shape[1:2] for tensor in numbers)


def _lstm(arguments: Mapping[str, Any]) -> bool:
    """Weights of each layer and direction that fit the states (layers x directions, N, H) and the layer below."""
    x, states, weights = arguments["input"], list(arguments["hx"]), list(arguments["params"])
    layers, directions = arguments["num_layers"], 2 if arguments["bidirectional"] else 1
    each = 4 if arguments["has_biases"] else 2
    if x.ndim != 3 or len(states) != 2 or layers < 1 or len(weights) != each * directions * layers:
        return False
    rows, width = x.shape[0 if arguments["batch_first"] else 1], states[0].shape[-1]
    if any(tuple(state.shape) != (layers * directions, rows, width) for state in states):
        return False
    for place in range(layers * directions):
        below = x.shape[2] if place < directions else directions * width
        wanted = [(4 * width, below), (4 * width, width), (4 * width,), (4 * width,)][:each]
        if [tuple(weight.shape) for weight in weights[each * place : each * (place + 1)]] != wanted:
            return False
    return True


def _enlarged(arguments: Mapping[str, Any]) -> bool:
    """Factors that are factors."""
    factors = [value for name, value in arguments.items() if name.startswith("scale")]
    flat = [part for value in factors for part in (value if isinstance(value, list | tuple) else [value])]
    return all(part is None or (math.isfinite(part) and _SCALES[0] <= part <= _SCALES[1]) for part in flat)


def _cut(arguments: Mapping[str, Any]) -> bool:
    """Not into very many parts: torch makes room for them before it looks at the tensor."""
    return all(value <= _MOST_CALLS for name, value in arguments.items() if name in ("chunks", "sections"))


def _divided(arguments: Mapping[str, Any]) -> bool:
    """Not whole numbers cut off: the least one divided by -1 stops the process."""
    pair = (arguments["self"], arguments["other"])
    dtypes = [value.dtype if isinstance(value, Tensor) else torch.tensor(value).dtype for value in pair]
    whole = not any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes)
    return not (whole and arguments.get("rounding_mode") == "trunc")


_FITS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "scaled_dot_product_attention": _attention,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "lstm": _lstm,
    **dict.fromkeys(("chunk", "tensor_split", "hsplit", "vsplit"), _cut),
    **dict.fromkeys(("div", "div_", "divide", "divide_"), _divided),
    **dict.fromkeys(
        (
            "upsample_bicubic2d",
            "upsample_bilinear2d",
            "upsample_linear1d",
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "upsample_trilinear3d",
        ),
        _enlarged,
    ),
}
