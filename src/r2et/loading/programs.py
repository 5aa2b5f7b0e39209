"""torch.export programs (`.pt2`) as models."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx

from r2et._checks import InputError, ModelError
from r2et.loading.layers import LayerBuilder

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: how to export a model so that it can be audited, for error messages
EXPORT = (
    "torch.export.save(torch.export.export(model.eval(), (x[:2],), "
    "dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), 'model.pt2')"
)
#: files of an archive that are pickles of arbitrary Python objects
_PICKLED = ("custom_obj_", "opaque_obj_", "opaque_")


class Program(fx.GraphModule):
    """An exported program as a module: (N, *features) to logits (N, C).

    Its operators become torch's layers again where they are known, under the names that they had: a certificate
    can read them, and findings name them.

    Args:
        program: what `torch.export.export` returned, with a batch of any size.

    Attributes:
        dtype: of the inputs.
        features: the shape of one input.

    >>> model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    >>> shapes = ({0: torch.export.Dim.DYNAMIC},)
    >>> torch.equal(Program(torch.export.export(model, (x,), dynamic_shapes=shapes))(x), model(x))
    True
    """

    def __init__(self, program: "ExportedProgram") -> None:
        dtype, features = _check_input(program)
        source = program.module()
        assert isinstance(source, fx.GraphModule)
        super().__init__(*LayerBuilder(source).build(), class_name="Program")
        self.dtype, self.features = dtype, features
        self.eval()


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a `.pt2` file that `torch.export.save` wrote.

    Weights are read as plain tensors; a file that holds pickled objects is refused. torch itself refuses one that
    calls anything but its operators. Still, open files of people you trust: torch parses the rest.

    >>> import tempfile
    >>> model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    >>> program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.export.save(program, f"{folder}/model.pt2")
    ...     torch.equal(load_program(f"{folder}/model.pt2")(x), model(x))
    True
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    try:
        names = zipfile.ZipFile(path).namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{str(path)!r} is not a torch.export program: {error}. Make one by {EXPORT}") from error
    pickled = [name for name in names if name.rsplit("/", 1)[-1].startswith(_PICKLED)]
    if pickled:
        raise InputError(
            f"{str(path)!r} holds pickled objects ({pickled[0]}): unpickling runs whatever code is in them. "
            "Export a model whose constants are tensors"
        )
    try:
        with _tensors_only():
            program = torch.export.load(str(path))
    except Exception as error:
        raise InputError(
            f"{str(path)!r} cannot be read as a torch.export program: {type(error).__name__}: "
            f"{_first_line(error)}. Make it by the torch that you use here ({torch.__version__}): {EXPORT}"
        ) from error
    try:
        return Program(program)
    except ModelError as error:
        raise ModelError(f"{str(path)!r}: {error}") from error


@contextmanager
def _tensors_only() -> Iterator[None]:
    """torch.export.load falls back to an unrestricted pickle where a restricted one fails; not here."""
    import logging

    log = logging.getLogger("torch.export")
    before, level = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), log.level
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    # it logs a traceback of what we turn into one sentence
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
        if before is None:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
        else:
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = before


def _check_input(program: "ExportedProgram") -> tuple[torch.dtype, tuple[int, ...]]:
    """The dtype and the shape of one row; the program must take one batch of any size."""
    wanted = program.graph_signature.user_inputs
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    batch = values.get(str(wanted[0])) if len(wanted) == 1 else None
    if not isinstance(batch, Tensor):
        raise ModelError(
            f"the program takes {len(wanted)} inputs ({', '.join(map(str, wanted))}); r2et explains one tensor "
            "(N, *features): export a module that takes it alone"
        )
    if not batch.is_floating_point():
        raise ModelError(f"the program takes {batch.dtype}; gradients need floating-point inputs")
    # a size that may vary is symbolic, whatever the type says
    if batch.ndim < 2 or type(batch.shape[0]) is int:
        raise ModelError(
            f"the program was exported for inputs of the fixed shape {tuple(batch.shape)}; r2et runs batches of "
            f"many sizes: export it by {EXPORT}"
        )
    results = program.graph_signature.user_outputs
    if len(results) != 1:
        raise ModelError(
            f"the program returns {len(results)} values ({', '.join(map(str, results))}); r2et needs the logits "
            "alone"
        )
    return batch.dtype, tuple(batch.shape[1:])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
