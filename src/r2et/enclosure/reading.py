"""Reads a model as a Network: convolution, pooling by averages, BatchNorm in evaluation mode, reshaping and
residual sums are folded into matrices. What is not known is an error that names the layer, never a guess.
"""

import math
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from r2et.enclosure.activations import MaxPool, activation, known
from r2et.enclosure.affine import Affine, Source
from r2et.enclosure.layers import (
    AS_MODULES,
    CONVOLUTIONS,
    DROPOUTS,
    HOMOGENEOUS,
    MAXIMA,
    NORMS,
    RESHAPES,
    kind_of,
)
from r2et.enclosure.network import INPUT, Layer, Network
from r2et.enclosure.ranges import EnclosedActivation
from r2et.errors import ModelError, in_words
from r2et.numerics.modes import buffers_kept, evaluating
from r2et.numerics.preflight import check_ready
from r2et.numerics.values import check_count, check_kind
from r2et.validate.tracing import HOOKS, Trace, check_traceable, plain_leaf, trace

#: what `x.size(0)` stands for while a model is read
_BATCH = object()


def extract(model: nn.Module, shape: torch.Size, detach: bool = True) -> Network:
    """Read a model in evaluation mode as a Network in float64.

    Args:
        model: maps (N, *shape) to logits (N, C).
        shape: of one input.
        detach: without it the matrices stay connected to the parameters, for objectives.

    >>> network = extract(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.Size([3]))
    >>> len(network.layers), network.base.shape
    (1, torch.Size([4, 3]))
    """
    check_kind("shape", shape, tuple, "x.shape[1:]")
    for size in shape:
        check_count("shape", size)
    check_ready(model)
    # a forward that counts its passes counts the one that reads it, too
    with evaluating(model), buffers_kept(model):
        return _Reader(model, shape, detach).network()


def _leaf(layer: nn.Module) -> bool:
    return known(layer) or kind_of(layer) is not None or plain_leaf(layer)


class _Reader:
    """Walks the traced graph of a model and keeps every value as an Affine."""

    def __init__(self, model: nn.Module, shape: torch.Size, detach: bool) -> None:
        self.model, self.shape, self.detach = model, shape, detach
        self.layers: list[Layer] = []
        check_traceable(model)
        for name, layer in model.named_modules():
            if any(getattr(layer, hooks, None) for hooks in HOOKS):
                raise ModelError(
                    f"layer {name!r} ({type(layer).__name__}) has hooks, which may change what it computes: "
                    'remove them, or use method="smoothing"'
                )
            if "forward" in vars(layer):
                raise ModelError(
                    f"layer {name!r} ({type(layer).__name__}) has a forward of its own, which is not its class's: "
                    'delete the attribute, write a class, or use method="smoothing"'
                )
        self.modules = dict(model.named_modules())

    def network(self) -> Network:
        graph, self.root = self._trace()
        values: dict[fx.Node, Any] = {}
        result: Any = None
        for node in graph.nodes:
            if node.op == "output":
                result = fx.node.map_arg(node.args[0], lambda n: values[n])
            else:
                values[node] = self._read(node, values)
        if not isinstance(result, Affine) or result.bias.ndim != 2:
            raise ModelError("the model must return one tensor of logits (N, classes) for a certificate")
        logits = _layer("logits", None, result)
        stacked = [*self.layers, logits]
        direct = {number: layer.matrices[INPUT] for number, layer in enumerate(stacked) if INPUT in layer.matrices}
        blocks, start = {}, 0
        for number, matrix in direct.items():
            blocks[number] = slice(start, start + len(matrix))
            start += len(matrix)
        if not direct:
            raise ModelError("the model's logits do not depend on its input")
        return Network(tuple(self.layers), logits, torch.cat(list(direct.values())), blocks)

    def _trace(self) -> Trace:
        if known(self.model) or kind_of(self.model) is not None:
            # a lone layer would be traced into its own code
            self.model = nn.Sequential(self.model)
            self.modules = dict(self.model.named_modules())
        try:
            return trace(self.model, _leaf)
        except Exception as error:
            raise ModelError(
                f"{type(self.model).__name__} cannot be read layer by layer for a certificate "
                f"({str(error).splitlines()[0]}); write it without branches on tensor values, or use "
                'method="smoothing", which needs no look inside'
            ) from error

    def _constant(self, tensor: Tensor) -> Tensor:
        tensor = tensor.detach() if self.detach else tensor
        return tensor.double() if tensor.is_floating_point() else tensor

    def _read(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        try:
            return self._evaluate(node, values)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"step {node.name!r} of {type(self.model).__name__} cannot be read for a certificate "
                f'({in_words(error)}); use layers that are known, or method="smoothing"'
            ) from error

    def _evaluate(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            if any(isinstance(value, Affine) for value in values.values()):
                if node.args:
                    return node.args[0]
                raise ModelError(
                    f"the model takes a second argument {node.target!r}; a certificate needs one input"
                )
            return self._source(INPUT, self.shape)
        if node.op == "get_attr":
            attribute: Any = self.root
            for part in str(node.target).split("."):
                attribute = getattr(attribute, part)
            return self._constant(attribute) if isinstance(attribute, Tensor) else attribute
        args = fx.node.map_arg(node.args, lambda n: values[n])
        kwargs = fx.node.map_arg(node.kwargs, lambda n: values[n])
        self._check_in_place(node)
        if node.op == "call_module":
            return self._module(
                str(node.target), self.modules[str(node.target)], next(iter([*args, *kwargs.values()]))
            )
        if not any(isinstance(value, Affine) for value in (*_flat(args), *_flat(kwargs.values()))):
            # arithmetic on sizes and parameters
            try:
                if node.op == "call_function":
                    return node.target(*args, **kwargs)  # type: ignore[operator]  # fx types it as str | Callable
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            except TypeError as error:
                raise ModelError(
                    f"step {node.name!r} of {type(self.model).__name__} computes with the size of the batch, "
                    "which a certificate cannot follow"
                ) from error
        return self._call(node, args, kwargs)

    def _check_in_place(self, node: fx.Node) -> None:
        """A value that is overwritten and used again would be read as it was before."""
        layer = self.modules.get(str(node.target)) if node.op == "call_module" else None
        name = _name(node)
        in_place = (
            getattr(layer, "inplace", False) or node.kwargs.get("inplace") or name in ("iadd", "isub", "imul")
        )
        # not __getitem__ and the like
        overwrites = name.endswith("_") and not name.endswith("__")
        if not (in_place or overwrites):
            return
        changed = next(iter([*node.args, *node.kwargs.values()]), None)
        while isinstance(changed, fx.Node):
            if len(changed.users) > 1:
                raise ModelError(
                    f"step {node.name!r} of {type(self.model).__name__} overwrites a value that is used again; "
                    "make it a copy (inplace=False, a + b in place of a += b)"
                )
            # what may share its memory with its input
            shares = _name(changed) in RESHAPES or isinstance(
                self.modules.get(str(changed.target)), (nn.Flatten, nn.Unflatten, nn.Identity, *DROPOUTS)
            )
            changed = changed.args[0] if shares and changed.args else None

    def _source(self, number: int, shape: torch.Size) -> Affine:
        like = next((p for p in self.model.parameters()), torch.empty(0))
        return Source(number, torch.zeros(1, *shape, dtype=torch.float64, device=like.device))

    def _activate(self, name: str, activation: EnclosedActivation, z: Affine) -> Affine:
        self.layers.append(_layer(name, activation, z))
        return self._source(len(self.layers) - 1, z.bias.shape[1:])

    def _module(self, name: str, layer: Any, z: Any) -> Any:
        if not isinstance(z, Affine):
            raise self._unknown(name, layer)
        if known(layer):
            return self._activate(name, activation(layer), z)
        kind = kind_of(layer)
        if kind is nn.Linear:
            weight = self._constant(layer.weight)
            return z.mapped(lambda rows: F.linear(rows, weight), self._bias(layer))
        if kind in CONVOLUTIONS and layer.padding_mode == "zeros":
            weight, convolve = self._constant(layer.weight), CONVOLUTIONS[kind]
            settings = (layer.stride, layer.padding, layer.dilation, layer.groups)
            shift = self._bias(layer, z.bias.ndim)
            return z.mapped(lambda rows: convolve(rows, weight, None, *settings), shift)
        if kind in NORMS and layer.running_mean is not None and not layer.training:
            return self._batch_norm(layer, z)
        if kind in HOMOGENEOUS and not (layer.training and isinstance(layer, DROPOUTS)):
            return z.mapped(layer)
        if kind in MAXIMA:
            return self._max_pool(name, layer, z)
        raise self._unknown(name, layer)

    def _unknown(self, name: str, layer: nn.Module) -> ModelError:
        return ModelError(
            f"no enclosure is known for layer {name!r}: {layer!r}; replace it, register its activation with "
            'r2et.enclosure.register, or use method="smoothing", which needs no look inside'
        )

    def _bias(self, layer: Any, ndim: int = 0) -> Tensor | float:
        if layer.bias is None:
            return 0.0
        bias = self._constant(layer.bias)
        return bias.reshape(-1, *[1] * (ndim - 2)) if ndim else bias

    def _batch_norm(self, layer: Any, z: Affine) -> Affine:
        scale = (self._constant(layer.running_var) + layer.eps).rsqrt()
        if layer.weight is not None:
            scale = scale * self._constant(layer.weight)
        shift = -self._constant(layer.running_mean) * scale
        if layer.bias is not None:
            shift = shift + self._constant(layer.bias)
        per_channel = (-1, *[1] * (z.bias.ndim - 2))
        return z.mapped(lambda rows: rows * scale.reshape(per_channel), shift.reshape(per_channel))

    def _max_pool(self, name: str, layer: Any, z: Affine) -> Affine:
        if layer.ceil_mode or layer.return_indices:
            raise self._unknown(name, layer)
        shape = z.bias.shape[1:]
        spatial = 2 if type(layer) is nn.MaxPool2d else 1
        kernel, stride, padding, dilation = (
            (1, value)
            if spatial == 1 and isinstance(value, int)
            else (value, value)
            if isinstance(value, int)
            else ((1, *value) if spatial == 1 else tuple(value))
            for value in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        )
        if spatial == 1:
            padding, stride = (0, padding[1]), (1, stride[1])
        numbers = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64, device=z.bias.device)
        image = numbers.reshape(shape[0], 1, *([1] if spatial == 1 else []), *shape[1:])
        windows = F.unfold(image, kernel, dilation, padding, stride).transpose(1, 2)
        channels, places, size = windows.shape
        entries = windows.reshape(channels * places, size).long() - 1
        chosen = z.mapped(lambda rows: rows.flatten(1)[:, entries.clamp_min(0).flatten()])
        self.layers.append(_layer(name, MaxPool(entries >= 0), chosen))
        sides = _pooled(layer, shape)
        total = self._source(len(self.layers) - 1, torch.Size([entries.numel()]))
        return total.mapped(lambda rows: rows.unflatten(1, entries.shape).sum(-1).reshape(len(rows), *sides))

    def _call(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = _name(node).removesuffix("_")
        first = args[0]
        if name in ("add", "iadd", "sub", "isub") and len(args) == 2 and not kwargs:
            return self._sum(first, args[1], -1.0 if "sub" in name else 1.0)
        if name in ("mul", "imul", "truediv", "div") and len(args) == 2 and not kwargs:
            factor, z = (args[1], first) if isinstance(first, Affine) else (first, args[1])
            if not isinstance(factor, Affine) and (isinstance(first, Affine) or "mul" in name):
                return z.mapped(lambda rows: rows * factor if "mul" in name else rows / factor)
        if isinstance(first, Affine):
            if name == "linear":
                return self._linear(first, *args[1:], **kwargs)
            if name == "getitem" and _columns(args[1]):
                return first.mapped(lambda rows: rows[args[1]])
            if name == "neg":
                return first.mapped(operator.neg)
            if name in ("size", "getattr"):
                return self._size(node, first, args, kwargs)
            if name in RESHAPES:
                return self._reshape(name, first, args[1:], kwargs, node)
            if name in AS_MODULES:
                return self._module(node.name, AS_MODULES[name](*args[1:], **kwargs), first)
        raise ModelError(
            f"no enclosure is known for the operation {name!r} (step {node.name!r} of "
            f'{type(self.model).__name__}); use layers that are known, or method="smoothing"'
        )

    @staticmethod
    def _linear(z: Affine, weight: Tensor, bias: Tensor | None = None) -> Affine:
        return z.mapped(lambda rows: F.linear(rows, weight), 0.0 if bias is None else bias)

    def _sum(self, first: Any, second: Any, sign: float) -> Affine:
        if isinstance(first, Affine) and isinstance(second, Affine):
            if first.bias.shape != second.bias.shape:
                raise ModelError(
                    f"values of shapes {tuple(first.bias.shape[1:])} and {tuple(second.bias.shape[1:])} are "
                    "added: a certificate needs equal shapes"
                )
            return first.plus(second, sign)
        known, shift = (first, sign * second) if isinstance(first, Affine) else (second, first)
        total = known.mapped(lambda rows: rows if known is first else sign * rows, shift)
        if total.bias.shape[1:] != known.bias.shape[1:]:
            raise ModelError(
                f"a constant turns values of shape {tuple(known.bias.shape[1:])} "
                f"into {tuple(total.bias.shape[1:])}: a certificate needs equal shapes"
            )
        return total

    @staticmethod
    def _size(node: fx.Node, z: Affine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sizes = (_BATCH, *z.bias.shape[1:])
        if node.target is getattr:
            if args[1] != "shape":
                raise ModelError(f"a certificate cannot follow the attribute {args[1]!r} of a tensor")
            return sizes
        index = args[1] if len(args) > 1 else kwargs.get("dim")
        return sizes if index is None else sizes[index]

    @staticmethod
    def _reshape(name: str, z: Affine, args: tuple[Any, ...], kwargs: dict[str, Any], node: fx.Node) -> Affine:
        operation = getattr(Tensor, name)

        def apply(rows: Tensor) -> Tensor:
            filled = (
                [len(rows) if value is _BATCH else value for value in _flat(args)]
                if name in ("view", "reshape")
                else args
            )
            result: Tensor = operation(rows, *filled, **kwargs)
            if result.ndim < 2 or len(result) != len(rows):
                raise ModelError(f"step {node.name!r} mixes the inputs of a batch")
            return result

        if name == "view":
            operation = Tensor.reshape
        return z.mapped(apply)


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _columns(index: Any) -> bool:
    """Whether an index takes the same features of every row: x[:, [0, 2]]."""
    whole = isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None)
    return whole and isinstance(index[1], list) and all(isinstance(i, int) for i in index[1])


def _flat(values: Any) -> list[Any]:
    leaves = []
    for value in values:
        leaves += _flat(value) if isinstance(value, (tuple, list, torch.Size)) else [value]
    return leaves


def _layer(name: str, activation: EnclosedActivation | None, z: Affine) -> Layer:
    return Layer(
        name, activation, {s: matrix.flatten(1).T.contiguous() for s, matrix in z.terms.items()}, z.bias.flatten()
    )


def _pooled(layer: nn.Module, shape: torch.Size) -> torch.Size:
    sides: torch.Size = layer(torch.zeros(1, *shape)).shape[1:]
    return sides
