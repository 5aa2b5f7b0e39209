"""What a model's forward does, as a graph of calls, read without a change that another thread could see."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from r2et.errors import ModelError
from r2et.numerics.twins import twin

Leaf = Callable[[nn.Module], bool]

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Trace(NamedTuple):
    """The calls of a forward.

    Attributes:
        graph: modules have the names that they have in the model.
        root: a copy of the model that shares its tensors; it has every attribute that the graph names.
    """

    graph: fx.Graph
    root: nn.Module


def trace(model: nn.Module, leaf: Leaf) -> Trace:
    """Run a model's forward on symbols and record what it calls.

    `fx.Tracer.trace` replaces `nn.Module.__call__` for the whole process while it runs, and a forward pass in
    another thread fails. Here a copy of the model's structure runs, whose layers and parameters record themselves.

    Args:
        model: is not changed.
        leaf: whether a layer is recorded as one call; the forward of the others is looked into.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    >>> [node.target for node in trace(model, plain_leaf).graph.nodes]
    ['input', '0', '1', 'output']
    """
    check_traceable(model)
    root = twin(model)
    return Trace(_Tracer().record(root, leaf), root)


def check_traceable(model: nn.Module) -> None:
    """Raise for a module that has no twin: symbols would be put on the model itself."""
    for name, layer in model.named_modules():
        if isinstance(layer, torch.jit.ScriptModule):
            which = f"layer {name!r}" if name else "the model"
            raise ModelError(
                f"{which} is compiled by TorchScript and cannot be looked into: use what it was compiled from"
            )


def plain_leaf(layer: nn.Module) -> bool:
    """Whether a layer is one of PyTorch's own, other than a Sequential."""
    return bool(fx.Tracer().is_leaf_module(layer, ""))


class _Tracer(fx.Tracer):
    def record(self, root: nn.Module, leaf: Leaf) -> fx.Graph:
        """The graph of a module that may be changed."""
        modules = dict(root.named_modules())
        self.root, self.tensor_attrs = root, dict(_plain_tensors(modules))
        self.graph = fx.Graph(tracer_cls=type(self))
        shown = list(self._show_parameters(modules))
        for name, module in modules.items():
            # compiled code would be run as it is
            module.__dict__.pop("_compiled_call_impl", None)
            if module is not root and leaf(module):
                self._record_calls(name, module)
        forward, args = self.create_args_for_root(type(root).forward, is_module=True)
        self.create_node("output", "output", (self.create_arg(forward(*args)),), {})
        for module, name in shown:
            module.__dict__.pop(name, None)
        for node in self.graph.find_nodes(op="get_attr"):
            if not node.users:
                self.graph.erase_node(node)
        return self.graph

    def _show_parameters(self, modules: dict[str, nn.Module]) -> Iterator[tuple[nn.Module, str]]:
        """An attribute of an instance is found before a parameter of the same name: put a symbol there."""
        symbols: dict[int, fx.Proxy] = {}
        for path, module in modules.items():
            for name, parameter in module._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in symbols:
                    symbols[id(parameter)] = self.create_proxy("get_attr", _join(path, name), (), {})
                module.__dict__[name] = symbols[id(parameter)]
                yield module, name

    def _record_calls(self, name: str, module: nn.Module) -> None:
        def forward(*args: Any, **kwargs: Any) -> fx.Proxy:
            return self.create_proxy("call_module", name, args, kwargs)

        module.__dict__["forward"] = forward
        for hooks in HOOKS:
            module.__dict__[hooks] = OrderedDict()


def _plain_tensors(modules: dict[str, nn.Module]) -> Iterator[tuple[Tensor, str]]:
    """Tensors that are attributes without being parameters or buffers, with their names."""
    for path, module in modules.items():
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                yield value, _join(path, name)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
