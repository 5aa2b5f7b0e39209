"""The operators of an exported graph as torch's own layers again, so that a certificate can read them."""

import keyword
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

aten = torch.ops.aten


def _filled(layer: nn.Module, **tensors: Tensor | None) -> nn.Module:
    """A layer with these parameters and buffers in place of its own."""
    for name, tensor in tensors.items():
        if name in layer._buffers:
            layer._buffers[name] = tensor
        elif tensor is not None:
            parameter = tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, requires_grad=False)
            layer._parameters[name] = parameter
    return layer


def _linear(x: fx.Node, weight: Tensor, bias: Tensor | None = None) -> nn.Module:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    return _filled(layer, weight=weight, bias=bias)


def _convolution(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    def make(
        x: fx.Node,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> nn.Module:
        layer = kind(
            weight.shape[1] * groups,
            weight.shape[0],
            tuple(weight.shape[2:]),
            *map(_each, (stride, padding, dilation)),
            groups,
            bias is not None,
            device="meta",
        )
        return _filled(layer, weight=weight, bias=bias)

    return make


def _batch_norm(
    x: fx.Node,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> nn.Module | None:
    if training or mean is None or variance is None or (weight is None) != (bias is None):
        return None
    kinds: dict[int, Callable[..., nn.Module]] = {
        2: nn.BatchNorm1d,
        3: nn.BatchNorm1d,
        4: nn.BatchNorm2d,
        5: nn.BatchNorm3d,
    }
    layer = kinds[x.meta["val"].ndim](len(mean), eps, momentum, weight is not None, device="meta")
    count = torch.zeros((), dtype=torch.int64)
    return _filled(
        layer, weight=weight, bias=bias, running_mean=mean, running_var=variance, num_batches_tracked=count
    )


def _dropout(x: fx.Node, p: float, training: bool) -> nn.Module | None:
    return None if training else nn.Dropout(p)


def _pool(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    def make(x: fx.Node, kernel: Any, stride: Any = (), *rest: Any) -> nn.Module:
        return kind(_each(kernel), _each(stride) if stride else None, *map(_each, rest))

    return make


def _each(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


#: what a graph module has besides its layers
_RESERVED = {*dir(fx.GraphModule), *vars(nn.Module()), "meta", "dtype", "input_shape"}


def _is_plain(part: str) -> bool:
    """Whether a layer can have this name, and fx can write it into the code of a graph."""
    if not part.isascii() or keyword.iskeyword(part) or part in _RESERVED:
        return False
    return part.isidentifier() or part.isdigit()


#: operators that are a layer; the first argument is the node of the input
_LAYERS: dict[Any, Callable[..., nn.Module | None]] = {
    aten.linear.default: _linear,
    aten.conv1d.default: _convolution(nn.Conv1d),
    aten.conv2d.default: _convolution(nn.Conv2d),
    aten.conv3d.default: _convolution(nn.Conv3d),
    aten.batch_norm.default: _batch_norm,
    aten.dropout.default: _dropout,
    aten.relu.default: lambda x: nn.ReLU(),
    aten.leaky_relu.default: lambda x, slope=0.01: nn.LeakyReLU(slope),
    aten.softplus.default: lambda x, beta=1.0, threshold=20.0: nn.Softplus(beta, threshold),
    aten.tanh.default: lambda x: nn.Tanh(),
    aten.sigmoid.default: lambda x: nn.Sigmoid(),
    aten.gelu.default: lambda x, approximate="none": nn.GELU(approximate),
    aten.silu.default: lambda x: nn.SiLU(),
    aten.unflatten.int: lambda x, dim, sizes: nn.Unflatten(dim, tuple(sizes)),
    aten.max_pool1d.default: _pool(nn.MaxPool1d),
    aten.max_pool2d.default: _pool(nn.MaxPool2d),
    aten.avg_pool1d.default: _pool(nn.AvgPool1d),
    aten.avg_pool2d.default: _pool(nn.AvgPool2d),
    aten.adaptive_avg_pool1d.default: lambda x, size: nn.AdaptiveAvgPool1d(_each(size)),
    aten.adaptive_avg_pool2d.default: lambda x, size: nn.AdaptiveAvgPool2d(_each(size)),
}
#: operators that are a function of torch, called with the same arguments
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.add.Tensor: operator.add,
    aten.sub.Tensor: operator.sub,
    aten.mul.Tensor: operator.mul,
    aten.div.Tensor: operator.truediv,
    aten.neg.default: torch.neg,
    aten.flatten.using_ints: torch.flatten,
    aten.view.default: torch.reshape,
    aten.reshape.default: torch.reshape,
    aten.mean.dim: torch.mean,
    aten.squeeze.dim: torch.squeeze,
    aten.unsqueeze.default: torch.unsqueeze,
}


class LayerBuilder:
    """Copies the graph of a module node by node; what is not known stays an operator.

    Args:
        source: holds the weights of an exported program as attributes.
        graph: of that program; its last node returns a tuple.
    """

    def __init__(self, source: nn.Module, graph: fx.Graph) -> None:
        self.source, self.stored, self.root, self.graph = source, graph, nn.Module(), fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}

    def build(self) -> tuple[nn.Module, fx.Graph]:
        """The layers, and the graph that calls them."""
        for node in self.stored.nodes:
            if node.op == "get_attr" or "_guards_fn" in str(node.target):
                # weights go into layers; a guard repeats the shapes of the export
                continue
            if node.op == "output":
                self.graph.output(self._copied(node.args[0][0]))
            elif node.op == "call_function":
                self.copies[node] = self._call(node)
            else:
                self.copies[node] = self.graph.node_copy(node, self._copied)
        return self.root, self.graph

    def _call(self, node: fx.Node) -> fx.Node:
        layer = self._layer(node)
        if layer is not None:
            name = self._name(node, layer)
            self._put(name, layer)
            return self.graph.call_module(name, (self._copied(node.args[0]),))
        if node.target is aten.sym_size.int:
            return self.graph.call_method("size", self._mapped(node.args))
        if node.target in _FUNCTIONS and not node.kwargs:
            return self.graph.call_function(_FUNCTIONS[node.target], self._mapped(node.args))
        return self.graph.node_copy(node, self._copied)

    def _layer(self, node: fx.Node) -> nn.Module | None:
        make = _LAYERS.get(node.target)
        tensors: list[fx.Node] = []
        fx.node.map_arg((node.args[1:], node.kwargs), tensors.append)
        if make is None or any(value.op != "get_attr" for value in tensors):
            return None
        rest = [self._attribute(value) if isinstance(value, fx.Node) else value for value in node.args[1:]]
        try:
            return make(node.args[0], *rest, **node.kwargs)
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError):
            # an overload, or arguments, that the layer does not know
            return None

    def _name(self, node: fx.Node, layer: nn.Module) -> str:
        """Where the layer was in the model that was exported, if it was a layer there."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = stack[-1] if stack else ("", "")
        kind = kind if isinstance(kind, str) else kind.__name__
        same = kind.rsplit(".", 1)[-1] == type(layer).__name__
        names = [path, node.name] if same else [node.name]
        plain = (name for name in names if all(map(_is_plain, name.split("."))))
        return next(name for name in (*plain, f"layer_{node.name}") if not self._taken(name))

    def _taken(self, name: str) -> bool:
        module: Any = self.root
        for part in name.split("."):
            module = getattr(module, part, None)
        return module is not None

    def _put(self, name: str, value: Any) -> None:
        holder, *parts = self.root, *name.split(".")
        for part in parts[:-1]:
            if not isinstance(getattr(holder, part, None), nn.Module):
                holder.add_module(part, nn.Module())
            holder = getattr(holder, part)
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            holder.register_buffer(parts[-1], value)
        else:
            setattr(holder, parts[-1], value)

    def _attribute(self, node: fx.Node) -> Any:
        value: Any = self.source
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def _copied(self, node: Any) -> Any:
        if node not in self.copies:
            # a weight that an operator takes by itself
            name = f"constant_{node.name}"
            self._put(name, self._attribute(node))
            self.copies[node] = self.graph.get_attr(name)
        return self.copies[node]

    def _mapped(self, arguments: Any) -> Any:
        return fx.node.map_arg(arguments, self._copied)
