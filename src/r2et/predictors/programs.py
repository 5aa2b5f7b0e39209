"""torch.export programs (`.pt2`) as models."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from r2et.errors import InputError, ModelError
from r2et.files.reading import regular_file
from r2et.numerics.values import check_path
from r2et.predictors.archive import read_archive
from r2et.predictors.fields import shown
from r2et.predictors.graphs import GraphReader, ProgramSource, TensorValue
from r2et.predictors.layers import LayerBuilder
from r2et.predictors.rehearsal import Rehearsals

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: how to export a model so that it can be audited, for error messages
EXPORT = (
    "torch.export.save(torch.export.export(model.eval(), (x[:2],), "
    "dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), 'model.pt2')"
)


class Program(fx.GraphModule):
    """An exported program as a module: (N, *features) to logits (N, C).

    Its operators become torch's layers again where they are known, under the names that they had: a certificate
    can read them, and findings name them.

    Args:
        program: what `torch.export.export` returned, with a batch of any size, or what was read from a file.

    Attributes:
        dtype: of the inputs.
        input_shape: of one input, without the batch.

    >>> model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    >>> shapes = ({0: torch.export.Dim.DYNAMIC},)
    >>> torch.equal(Program(torch.export.export(model, (x,), dynamic_shapes=shapes))(x), model(x))
    True
    """

    def __init__(self, program: "ExportedProgram | ProgramSource") -> None:
        source = program if isinstance(program, ProgramSource) else _exported(program)
        dtype, shape = _check_input(source)
        super().__init__(*LayerBuilder(source.root, source.graph).build(), class_name="Program")
        self.dtype, self.input_shape = dtype, shape
        self.eval()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Logits (N, C); before the first batch of a shape is run, a rehearsal says what that takes."""
        if "_rehearsals" not in self.__dict__:  # fx copies a program without what __init__ sets
            self.__dict__["_rehearsals"] = Rehearsals(self.graph)
        for x in (*args, *kwargs.values()):
            if isinstance(x, Tensor):
                self.__dict__["_rehearsals"].before(self, x)
        return super().__call__(*args, **kwargs)


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a `.pt2` file that `torch.export.save` wrote, so that nothing in it can run code.

    torch's own reader is not used: it unpickles and evaluates parts of a file. Read are plain tensors, whose sizes
    must fit what is stored, and the graph of the program, which may call the operators of torch that networks are
    made of and nothing else. Pickled or compressed records, other ones and unknown operators are refused. A
    batch is rehearsed without numbers before it is run, which bounds the memory; it may take any time.

    Args:
        path: of a current torch; older ones pickled the weights.

    >>> import tempfile
    >>> model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    >>> program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.export.save(program, f"{folder}/model.pt2")
    ...     torch.equal(load_program(f"{folder}/model.pt2")(x), model(x))
    True
    """
    check_path("path", path)
    path = regular_file(path, InputError)
    try:
        return Program(GraphReader(read_archive(path)).read())
    except ModelError as error:
        raise ModelError(f"{str(path)!r}: {error}") from error
    except InputError as error:
        raise InputError(_unreadable(path, str(error))) from error
    except Exception as error:
        # fx and torch check what they are handed in their own words
        raise InputError(_unreadable(path, f"{type(error).__name__}: {shown(_first_line(error))}")) from error


def _unreadable(path: Path, reason: str) -> str:
    return (
        f"{str(path)!r} cannot be read as a torch.export program: {reason}. Make one by a current torch (here is "
        f"{torch.__version__}): {EXPORT}"
    )


def _exported(program: "ExportedProgram") -> ProgramSource:
    """A program in memory, as one from a file is."""
    try:
        module, signature = program.module(), program.graph_signature
    except SyntaxError as error:
        raise ModelError(
            f"torch cannot write the program as Python ({_first_line(error)}): a module of it has a keyword as "
            "its name. Rename it before the export"
        ) from error
    assert isinstance(module, fx.GraphModule)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    batch = values.get(str(signature.user_inputs[0])) if len(signature.user_inputs) == 1 else None
    known = TensorValue(batch.dtype, tuple(map(_fixed, batch.shape))) if isinstance(batch, Tensor) else None
    inputs, outputs = (tuple(map(str, names)) for names in (signature.user_inputs, signature.user_outputs))
    return ProgramSource(module, module.graph, inputs, outputs, known)


def _fixed(size: object) -> int | None:
    # a size that may vary is symbolic, whatever the type says
    return size if type(size) is int else None


def _check_input(source: ProgramSource) -> tuple[torch.dtype, tuple[int, ...]]:
    """The dtype and the shape of one row; the program must take one batch of any size."""
    batch = source.batch
    if batch is None:
        raise ModelError(
            f"the program takes {len(source.inputs)} inputs ({', '.join(source.inputs)}); r2et explains one "
            "tensor (N, *features): export a module that takes it alone"
        )
    if not batch.dtype.is_floating_point:
        raise ModelError(f"the program takes {batch.dtype}; gradients need floating-point inputs")
    shape = batch.shape
    if batch.ndim < 2 or shape[0] is not None:
        raise ModelError(
            f"the program was exported for inputs of the fixed shape {shape}; r2et runs batches of many sizes: "
            f"export it by {EXPORT}"
        )
    features = tuple(size for size in shape[1:] if size is not None)
    if len(features) != batch.ndim - 1:
        raise ModelError(f"the program takes rows of many shapes; r2et explains those of one: {EXPORT}")
    if len(source.outputs) != 1:
        raise ModelError(
            f"the program returns {len(source.outputs)} values ({', '.join(source.outputs)}); r2et needs the "
            "logits alone"
        )
    return batch.dtype, features


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
