"""Checkpoints: tensors as safetensors, everything else as JSON; nothing is ever unpickled.

A checkpoint is a JSON file that names its tensor file and that file's SHA-256. The tensors are written first and
under a new name, the JSON file is then replaced atomically: whoever reads it finds a complete checkpoint, the old
one or the new one, also when the process was killed in between. Savers of one folder wait for each other, so that
none removes what another is about to name.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor, nn

from r2et.errors import CheckpointError, InputError, TrustError, shortened
from r2et.files.reading import read_json, regular_file, typed
from r2et.files.serialising import to_json, untagged
from r2et.files.writing import WriteError, locked, write_bytes
from r2et.models import restore
from r2et.numerics.values import check_path, quoted
from r2et.registry import Trust

FORMAT = "r2et-checkpoint"
VERSION = 1
MODEL_FILE = "checkpoint.json"


class _TensorFile(TypedDict):
    file: str
    sha256: str


class _Tensors(TypedDict):
    tensors: _TensorFile


class _Model(TypedDict):
    architecture: dict[str, Any]
    information: NotRequired[dict[str, Any]]


def write(folder: Path, name: str, content: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write `name`.json and its tensors into a folder, atomically; the path of the JSON file."""
    from safetensors.torch import save

    # copies, because safetensors refuses weights that share memory
    blob = save({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()})
    digest = hashlib.sha256(blob).hexdigest()
    tensor_file = folder / f"{name}-{digest[:12]}.safetensors"
    record = {
        "format": FORMAT,
        "version": VERSION,
        **content,
        "tensors": {"file": tensor_file.name, "sha256": digest},
    }
    text = to_json(record, CheckpointError)
    path = folder / f"{name}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            write_bytes(tensor_file, blob)
            write_bytes(path, text.encode())
            _remove_older(folder, name, tensor_file)
    except (OSError, WriteError) as error:
        reason = error.reason if isinstance(error, WriteError) else error
        raise CheckpointError(f"cannot write a checkpoint to {str(folder)!r}: {reason}") from error
    return path


def _remove_older(folder: Path, name: str, tensor_file: Path) -> None:
    for old in folder.iterdir():
        ours = re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{12}}\.safetensors", old.name) and old != tensor_file
        # of a process that was killed in the middle of writing: whoever is alive waits for the lock
        unfinished = re.fullmatch(rf"\.{re.escape(name)}[-.].*\.tmp", old.name)
        if ours or unfinished:
            old.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote, also while somebody writes it anew; anything else is a CheckpointError."""
    failed: tuple[int, ...] | None = None
    while True:
        current = _identity(path)
        try:
            return _read_once(path)
        except CheckpointError:
            # a saver may have replaced the checkpoint between its two files; of one that stays, the error is true
            if current == failed or current is None:
                raise
            failed = current


def _identity(path: Path) -> tuple[int, ...] | None:
    """Of the file that is at a path at the moment."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _read_once(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load

    if not os.path.lexists(path):
        raise CheckpointError(f"there is no checkpoint at {quoted(path)}")
    try:
        record = untagged(read_json(path, CheckpointError))
    except ValueError as error:
        raise CheckpointError(f"{quoted(path)} is not a readable r2et checkpoint: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise CheckpointError(f"{quoted(path)} is not an r2et checkpoint: its format is not {FORMAT!r}")
    if record.get("version") != VERSION:
        raise CheckpointError(
            f"{str(path)!r} has checkpoint version {record.get('version')!r}, this r2et reads {VERSION}: "
            "use the version of r2et that wrote it"
        )
    named = typed(record, _Tensors, quoted(path), CheckpointError)["tensors"]
    try:
        # the name alone: a foreign file must not make us read outside of its folder
        tensor_file = regular_file(path.parent / Path(named["file"]).name, CheckpointError)
        blob = tensor_file.read_bytes()
        if hashlib.sha256(blob).hexdigest() != named["sha256"]:
            raise CheckpointError(f"{str(tensor_file)!r} is truncated or was changed: its checksum differs")
        return record, load(blob)
    except Exception as error:
        raise CheckpointError(f"the tensors of {quoted(path)} cannot be read: {error}") from error


def save_model(model: nn.Module, folder: str | os.PathLike[str], **information: Any) -> Path:
    """Save a model of `r2et.models` with the information that belongs to it: numbers, text, lists and dicts.

    >>> import tempfile, r2et
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_model(r2et.models.Linear(3, 2), folder, data="mine")
    ...     model, information = load_model(folder)
    >>> model, information["data"]
    (Linear(in_features=3, out_features=2, bias=True), 'mine')
    """
    check_path("folder", folder)
    architecture = getattr(model, "architecture", None)
    if not isinstance(architecture, dict):
        raise InputError(
            f"{type(model).__name__} is not a model of r2et.models, so it cannot be rebuilt from a checkpoint: "
            "save its state_dict() with safetensors"
        )
    content = {"kind": "model", "architecture": architecture, "information": information}
    return write(Path(folder), MODEL_FILE.removesuffix(".json"), content, model.state_dict())


def load_model(folder: str | os.PathLike[str], *, trust: Trust = ()) -> tuple[nn.Module, dict[str, Any]]:
    """The model in evaluation mode, and the information that was saved with it.

    Args:
        folder: what `save_model` wrote.
        trust: classes of models of your own, or their names `package.module:Class`, that the file may name. Those
            of r2et and of installed plug-ins need none; any other code that a file names is refused.
    """
    check_path("folder", folder)
    path = Path(folder)
    path = path if path.suffix == ".json" else path / MODEL_FILE
    record, tensors = read(path)
    if record.get("kind") != "model":
        raise CheckpointError(f"{quoted(path)} holds {record.get('kind')!r}, not a model")
    saved = typed(record, _Model, quoted(path), CheckpointError)
    try:
        _check_weights(saved["architecture"], tensors)
        model = restore(saved["architecture"], trust)
        # assigned, so that the weights keep the precision they were saved in
        model.load_state_dict(tensors, assign=True)
    except TrustError:
        raise
    # a foreign description can make torch raise nearly anything
    except Exception as error:
        told = shortened(str(error))
        raise CheckpointError(f"the weights in {quoted(path)} do not fit their architecture: {told}") from error
    return model.eval(), saved.get("information", {})


def _check_weights(architecture: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Weights in one precision that torch computes in, and no more layers described than there are weights for."""
    floating = {tensor.dtype for tensor in tensors.values() if tensor.dtype != torch.int64}
    if len(floating) != 1 or not floating <= {torch.float16, torch.bfloat16, torch.float32, torch.float64}:
        raise CheckpointError(f"they are in {', '.join(map(str, floating)) or 'no numbers'}, not in one precision")
    if len(str(architecture)) > 10_000 + 100 * len(tensors):
        raise CheckpointError(f"{len(tensors)} tensors are too few for {quoted(str(architecture))}")


def flatten_optimiser(state: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state_dict as tensors, and the rest as JSON."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, entries in state["state"].items():
        for key, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{key}"] = value
            else:
                numbers[f"{index}.{key}"] = value
    return tensors, {"groups": state["param_groups"], "numbers": numbers}


def restore_optimiser(tensors: dict[str, Tensor], rest: dict[str, Any]) -> dict[str, Any]:
    """The state_dict that `flatten_optimiser` took apart."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in {**tensors, **rest["numbers"]}.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    return {"state": state, "param_groups": rest["groups"]}


def fingerprint(*tensors: Tensor) -> str:
    """A short hash of the values of some tensors, to recognise a data set by."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        # flat, because the counters of a BatchNorm have no axis to view as bytes
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
