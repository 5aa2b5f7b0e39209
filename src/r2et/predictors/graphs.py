"""The program of an archive as an fx graph: names of the file are keys and hints, and never become code."""

import keyword
from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx, nn

from r2et.errors import InputError
from r2et.predictors.archive import Archive, dtype_of
from r2et.predictors.arguments import SEVERAL, SINGLE, SYMBOLIC, placed
from r2et.predictors.fields import entry, items, only, shown
from r2et.predictors.operators import ARITHMETIC, operator_of
from r2et.predictors.sizes import size_of

#: the major version of the schema that is read
_SCHEMA = 8
#: what a program may cost: fx writes every call and every argument as Python, and compiles it
_MOST = 200_000
_CALL, _MODULE, _ARGUMENT = 20, 4, 1
#: parts of the path of a module
_DEEPEST = 64
#: what a signature calls the tensors that a program holds, and where it puts their names
_HELD = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}


@dataclass(frozen=True)
class TensorValue:
    """What is known of a tensor before it is computed.

    Attributes:
        dtype: of its numbers.
        shape: its sizes; None for one that varies.
    """

    dtype: torch.dtype
    shape: tuple[int | None, ...]

    @property
    def ndim(self) -> int:
        """Its dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class ProgramSource:
    """A program before its operators became layers.

    Attributes:
        root: holds the tensors that the graph takes as attributes.
        graph: its last node returns a tuple.
        inputs: names of what a user passes in.
        outputs: names of what a user gets.
        batch: the one input, if it is one tensor.
    """

    root: nn.Module
    graph: fx.Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: TensorValue | None


class GraphReader:
    """Builds the graph of an archive node by node.

    Args:
        archive: its JSON may hold anything.
    """

    def __init__(self, archive: Archive) -> None:
        version = entry(entry(archive.model, "schema_version", dict), "major", int)
        if version != _SCHEMA:
            raise InputError(f"its format has the major version {shown(version)}, r2et reads version {_SCHEMA}")
        module = entry(archive.model, "graph_module", dict)
        self.stored, self.signature = entry(module, "graph", dict), entry(module, "signature", dict)
        self.metas, self.tensors = entry(self.stored, "tensor_values", dict), archive.tensors
        self.root, self.graph = nn.Module(), fx.Graph()
        self.values: dict[str, fx.Node] = {}
        self.left = _MOST
        self.single, self.several = self._kinds(), self._kinds_of_lists()

    def read(self) -> ProgramSource:
        """The graph, with its tensors as attributes of a module."""
        inputs = [name for spec in items(self.signature.get("input_specs")) for name in self._input(*only(spec))]
        for node in items(self.stored.get("nodes")):
            self._node(node)
        outputs = [self._output(*only(spec)) for spec in items(self.signature.get("output_specs"))]
        self.graph.output(tuple(self.values[name] for name in outputs))
        batch = self.values[inputs[0]].meta.get("val") if inputs[:1] and inputs[0] in self.values else None
        return ProgramSource(
            self.root, self.graph, tuple(inputs), tuple(outputs), batch if len(inputs) == 1 else None
        )

    # --- what goes in and comes out -----------------------------------------------------------------------------

    def _input(self, kind: str, spec: Any) -> list[str]:
        """Adds an input of the graph; its name if a user passes it in."""
        if kind in _HELD:
            name = entry(spec, _HELD[kind], str)
            if name not in self.tensors:
                raise InputError(f"it has no tensor {shown(name)}")
            self._hold(entry(entry(spec, "arg", dict), "name", str), self.tensors[name])
            return []
        if kind == "user_input":
            kind, argument = only(entry(spec, "arg", dict))
            return [self._placeholder(entry(argument, "name", str)) if kind == "as_tensor" else shown(argument)]
        if kind == "constant_input":
            return [shown(spec.get("name") if isinstance(spec, dict) else spec)]
        raise InputError(f"it takes an input of the kind {shown(kind)}: r2et reads tensors alone")

    def _placeholder(self, name: str) -> str:
        node = self.graph.create_node("placeholder", "x", (), {}, _hint(name))
        # the target is the name of the argument in the code that fx writes; the name is one that it made fit
        node.target = node.name
        self._keep(name, node)
        return name

    def _hold(self, name: str, tensor: Tensor) -> None:
        target = f"tensor_{len(self.values)}"
        if isinstance(tensor, nn.Parameter):
            self.root.register_parameter(target, tensor)
        else:
            self.root.register_buffer(target, tensor)
        self._keep(name, self.graph.create_node("get_attr", target, (), {}, _hint(name)))

    def _output(self, kind: str, spec: Any) -> str:
        if kind != "user_output":
            raise InputError(
                f"running it changes something ({shown(kind)}): export the model in evaluation mode, model.eval()"
            )
        kind, argument = only(entry(spec, "arg", dict))
        if kind != "as_tensor":
            raise InputError(f"it returns a value of the kind {shown(kind)}, r2et needs the logits")
        name = entry(argument, "name", str)
        self._value(name)
        return name

    # --- calls --------------------------------------------------------------------------------------------------

    def _node(self, node: Any) -> None:
        target = entry(node, "target", str)
        stored, results = entry(node, "inputs", list), entry(node, "outputs", list)
        function, arguments, named = self._call(target, stored)
        hint = node.get("name")
        if hint is None and len(results) == 1 and only(results[0])[0] == "as_tensor":
            hint = entry(only(results[0])[1], "name", str)
        call = self.graph.create_node("call_function", function, arguments, named, _hint(hint))
        call.meta["nn_module_stack"] = stack = _stack(entry(node, "metadata", dict).get("nn_module_stack"))
        self._spend(_CALL + _MODULE * sum(path.count(".") for path, _ in stack.values()))
        if target not in ARITHMETIC and len(results) != len(function._schema.returns):
            raise InputError(f"{shown(target)} returns {len(function._schema.returns)} values, not {len(results)}")
        self._results(call, results)

    def _call(self, target: str, stored: list[Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The function, its positional arguments and its named ones."""
        names = [entry(item, "name", str) for item in stored]
        values = [self._argument(*only(item.get("arg"))) for item in stored]
        if target not in ARITHMETIC:
            function = operator_of(target)
            return function, *placed(target, function._schema.arguments, names, values)
        # sizes are numbers; of text or lists `mul` could make anything
        if not 1 <= len(values) <= 2 or any(not isinstance(value, fx.Node | int | float) for value in values):
            raise InputError(f"{target} is called with something else than one or two sizes")
        return ARITHMETIC[target], tuple(values), {}

    def _results(self, call: fx.Node, results: list[Any]) -> None:
        """Names what a call returns; several values are items of one tuple, as fx has it."""
        kinds = [only(result) for result in results]
        if len(kinds) == 1 and kinds[0][0] != "as_tensors":
            self._result(call, *kinds[0])
            return
        parts = [("as_tensor", part) for part in items(kinds[0][1])] if len(kinds) == 1 else kinds
        for number, (kind, part) in enumerate(parts):
            self._spend(_CALL)
            hint = part.get("name") if kind == "as_tensor" and isinstance(part, dict) else None
            item = self.graph.create_node("call_function", getitem, (call, number), {}, _hint(hint))
            self._result(item, kind, part)

    def _result(self, node: fx.Node, kind: str, value: Any) -> None:
        if kind == "as_tensor":
            self._keep(entry(value, "name", str), node)
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            self._keep(entry(value, "as_name", str), node)
        elif kind != "as_none":
            raise InputError(f"a call returns a value of the kind {shown(kind)}, which r2et does not read")

    def _keep(self, name: str, node: fx.Node) -> None:
        if name in self.values:
            raise InputError(f"it gives the name {shown(name)} to two values")
        if name in self.metas:
            meta = self.metas[name]
            shape = tuple(map(size_of, items(entry(self.metas, name, dict).get("sizes"))))
            node.meta["val"] = TensorValue(dtype_of(meta), shape)
        self.values[name] = node

    # --- arguments ----------------------------------------------------------------------------------------------

    def _argument(self, kind: str, value: Any) -> Any:
        self._spend(_ARGUMENT)
        if kind in self.single:
            return self.single[kind](value)
        if kind in self.several:
            self._spend(_ARGUMENT * len(items(value)))
            return [self.several[kind](item) for item in value]
        raise InputError(f"an argument is of the kind {shown(kind)}, which r2et does not read")

    def _kinds(self) -> dict[str, Callable[[Any], Any]]:
        sizes = dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), self._symbol)
        return {**SINGLE, **sizes, "as_tensor": self._tensor}

    def _kinds_of_lists(self) -> dict[str, Callable[[Any], Any]]:
        sizes = dict.fromkeys(("as_sym_ints", "as_sym_floats", "as_sym_bools"), self._symbol)
        return {**SEVERAL, **sizes, "as_tensors": self._tensor, "as_optional_tensors": self._optional}

    def _tensor(self, value: Any) -> fx.Node:
        return self._value(entry(value, "name", str))

    def _optional(self, value: Any) -> fx.Node | None:
        kind, tensor = only(value)
        return None if kind == "as_none" else self._tensor(tensor)

    def _symbol(self, value: Any) -> Any:
        """A size that is computed, or one that is fixed."""
        kind, content = only(value)
        if kind == "as_name" and isinstance(content, str):
            return self._value(content)
        if kind not in SYMBOLIC:
            raise InputError(f"a size is of the kind {shown(kind)}")
        return SINGLE[kind](content)

    def _value(self, name: str) -> fx.Node:
        if name not in self.values:
            raise InputError(f"it uses the value {shown(name)} before it is computed")
        return self.values[name]

    def _spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise InputError(f"it has more than {_MOST // _CALL} calls, or {_MOST} arguments of calls")


def _hint(name: Any) -> str | None:
    """A name that fx may use in the code that it writes."""
    plain = isinstance(name, str) and len(name) < 200 and name.isascii() and name.isidentifier()
    return name if plain and not keyword.iskeyword(name) and not name.startswith("__") and name != "self" else None


def _stack(text: Any) -> dict[str, tuple[str, str]]:
    """The module that made a call: its key, and its path and its class."""
    last = text.rsplit(";", 1)[-1].split(",") if isinstance(text, str) else []
    return {last[0]: (last[1], last[-1])} if len(last) >= 3 and last[1].count(".") < _DEEPEST else {}
