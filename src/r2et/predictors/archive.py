"""The records of a `.pt2` archive, by an allow-list: plain tensors and JSON, never a pickle.

torch's own reader looks names up without case, follows older layouts, inflates what is compressed and unpickles
some of what it finds. It is not used: the records are read one by one, after all names and sizes were checked.
"""

import io
import json
import math
import os
import re
import struct
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.predictors.fields import entry, items, only, shown, whole

#: bytes of a JSON record; Python's objects take about twenty times as much
MOST_JSON = 2**24
#: the dimensions of a tensor that torch's kernels can have
_MOST_DIMENSIONS = 64
_MODEL = "models/model.json"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"
#: a record that is read, and what must stand in it
_MARKS = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": sys.byteorder.encode()}
_NUMBER = "(0|[1-9][0-9]{0,8})"
#: what torch.export.save writes, relative to the one folder of the archive; the last line is never opened
_RECORDS = re.compile(
    rf"{'|'.join(map(re.escape, (*_MARKS, _MODEL, _WEIGHTS, _CONSTANTS)))}"
    rf"|data/weights/weight_{_NUMBER}|data/constants/tensor_{_NUMBER}"
    r"|\.data/version|\.data/serialization_id|data/sample_inputs/model\.pt|extra(/\w[\w.-]{0,99}){1,9}",
    re.ASCII,
)
#: how torch numbers the types of numbers
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    10: torch.complex64,
    11: torch.complex128,
    12: torch.bool,
    13: torch.bfloat16,
}
_STRIDED = 7
#: what zipfile raises for a broken archive
_BROKEN = (OSError, EOFError, RuntimeError, ValueError, OverflowError, struct.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class Archive:
    """What an archive holds that is used.

    Attributes:
        model: the JSON of the program.
        tensors: weights, buffers and constants, by their names in the module that was exported.
    """

    model: dict[str, Any]
    tensors: dict[str, Tensor]


def read_archive(path: Path) -> Archive:
    """Read the program and the tensors of a `.pt2` file.

    Args:
        path: what `torch.export.save` wrote.

    Returns:
        The JSON of the program, unchecked, and the tensors.

    >>> import tempfile
    >>> program = torch.export.export(nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.export.save(program, f"{folder}/model.pt2")
    ...     archive = read_archive(Path(folder, "model.pt2"))
    >>> {name: tuple(tensor.shape) for name, tensor in archive.tensors.items()}
    {'weight': (2, 3), 'bias': (2,)}
    """
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            return _Records(archive, os.fstat(stream.fileno()).st_size).read()
    except InputError:
        raise
    except _BROKEN as error:
        raise InputError(f"it is not a whole zip archive ({type(error).__name__}: {shown(str(error))})") from error


class _Records:
    """The records of an open archive, by their names within its folder.

    Args:
        archive: of any content.
        size: bytes of the file, which no reading of it may exceed by far.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive, self.size = archive, size
        self.records = _checked(archive.infolist(), size)

    def read(self) -> Archive:
        for name, wanted in _MARKS.items():
            if self.records[name].file_size != len(wanted) or self._bytes(name) != wanted:
                raise InputError(f"its record {name!r} is not {wanted.decode()!r}")
        tensors = _Tensors(self, 4 * self.size + 2**20)
        constants = tensors.read(_CONSTANTS, "data/constants/", "tensor_")
        return Archive(self._json(_MODEL), {**constants, **tensors.read(_WEIGHTS, "data/weights/", "weight_")})

    def _bytes(self, name: str) -> bytes:
        return self.archive.read(self.records[name])

    def _json(self, name: str) -> dict[str, Any]:
        if self.records[name].file_size > MOST_JSON:
            raise InputError(f"{name!r} is longer than {MOST_JSON} bytes, which no model of r2et's kind needs")
        try:
            document = json.loads(self._bytes(name))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name!r} is not JSON ({type(error).__name__}: {shown(str(error))})") from error
        if not isinstance(document, dict):
            raise InputError(f"{name!r} should be a JSON object, it is {shown(document)}")
        return document

    def payloads(self, name: str) -> dict[str, Any]:
        """The description of the tensors in a folder, by their names."""
        return entry(self._json(name), "config", dict)

    def length(self, name: str) -> int:
        """Bytes of a record that holds a tensor."""
        if name not in self.records:
            raise InputError(f"it has no record {shown(name)}, which holds a tensor")
        return self.records[name].file_size

    def storage(self, name: str) -> Tensor:
        """A record as bytes (B,) of its own memory, aligned as torch's kernels like it."""
        content = torch.empty(self.length(name), dtype=torch.uint8)
        stream = cast(io.BufferedIOBase, self.archive.open(self.records[name]))
        if stream.readinto(content.numpy().data) != len(content):
            raise InputError(f"its record {shown(name)} ends too early")
        return content


def _checked(listed: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The records by their names within the one folder that holds them all."""
    folder = listed[0].filename.split("/", 1)[0] + "/" if listed else ""
    records: dict[str, zipfile.ZipInfo] = {}
    for record in listed:
        # all names that are read are in small letters; torch looks them up without case
        name = _name(record, folder).casefold()
        if name in records:
            raise InputError(f"it holds {shown(name)} twice")
        records[name] = record
    if sum(record.file_size for record in listed) > size:
        raise InputError(f"its records are longer than the file of {size} bytes: they overlap")
    missing = [name for name in (*_MARKS, _MODEL, _WEIGHTS, _CONSTANTS) if name not in records]
    if missing:
        raise InputError(f"it has no record {missing[0]!r}")
    return records


def _name(record: zipfile.ZipInfo, folder: str) -> str:
    name = record.filename.removeprefix(folder)
    outside = folder in ("/", "./", "../") or not record.filename.startswith(folder)
    if outside or not _RECORDS.fullmatch(name):
        raise InputError(
            f"it holds {shown(record.filename)}, which is no plain tensor nor JSON of a program: pickled objects, "
            "compiled code and the formats of older versions of torch are not read, as they can run code"
        )
    if record.compress_type != zipfile.ZIP_STORED or record.compress_size != record.file_size:
        raise InputError(f"its record {shown(name)} is compressed: torch stores its own as they are")
    return name


class _Tensors:
    """Tensors of records, each of which is read once.

    Args:
        records: of the archive.
        most: bytes that all tensors may have together, as views of the records.
    """

    def __init__(self, records: _Records, most: int) -> None:
        self.records, self.left = records, most
        self.storages: dict[tuple[str, bool], Tensor] = {}
        self.views: dict[tuple[Any, ...], Tensor] = {}

    def read(self, description: str, folder: str, prefix: str) -> dict[str, Tensor]:
        """The tensors that a record describes, by their names."""
        return {
            name: self._tensor(payload, folder, prefix)
            for name, payload in self.records.payloads(description).items()
        }

    def _tensor(self, payload: Mapping[str, Any], folder: str, prefix: str) -> Tensor:
        record = entry(payload, "path_name", str)
        if entry(payload, "use_pickle", bool):
            raise InputError(f"its record {shown(record)} is a pickle, which can run code when it is read")
        if not record.startswith(prefix):
            raise InputError(f"it takes a tensor from {shown(record)}, not from a record {prefix}N")
        meta = entry(payload, "tensor_meta", dict)
        trained, differentiable = entry(payload, "is_param", bool), entry(meta, "requires_grad", bool)
        layout = _layout(meta)
        key = (folder + record, trained, differentiable, *layout)
        if key not in self.views:
            view = self._view(folder + record, *layout)
            self.views[key] = _parameter(view, differentiable=differentiable) if trained else view
        return self.views[key]

    def _view(
        self, name: str, dtype: torch.dtype, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> Tensor:
        elements, stored = math.prod(sizes), self.records.length(name) // dtype.itemsize
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        self.left -= elements * dtype.itemsize
        if (elements and last >= stored) or self.left < 0 or math.prod(size or 1 for size in sizes) >= 2**59:
            raise InputError(
                f"a tensor of shape {shown(sizes)} and strides {shown(strides)} is longer than its record "
                f"{shown(name)} of {stored} numbers"
            )
        return self._numbers(name, dtype).as_strided(sizes, strides, offset if elements else 0)

    def _numbers(self, name: str, dtype: torch.dtype) -> Tensor:
        """A record as numbers (L,); tensors of one record share its memory."""
        logical = dtype is torch.bool
        if (name, logical) not in self.storages:
            content = self.records.storage(name)
            # a byte that is neither 0 nor 1 is no truth value: kernels that count them would miscount
            self.storages[name, logical] = content != 0 if logical else content
        content = self.storages[name, logical]
        return content[: len(content) // dtype.itemsize * dtype.itemsize].view(dtype)


def _parameter(view: Tensor, *, differentiable: bool) -> nn.Parameter:
    numbers = view.dtype.is_floating_point or view.dtype.is_complex
    return nn.Parameter(view, requires_grad=differentiable and numbers)


def _layout(meta: dict[str, Any]) -> tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int]:
    sizes, strides = _lengths(meta, "sizes"), _lengths(meta, "strides")
    if len(sizes) != len(strides) or len(sizes) > _MOST_DIMENSIONS:
        raise InputError(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
    if entry(meta, "layout", int) != _STRIDED:
        raise InputError("a tensor is not dense (its layout is not strided): convert it before the export")
    return dtype_of(meta), sizes, strides, _length(meta.get("storage_offset"))


def _lengths(meta: dict[str, Any], key: str) -> tuple[int, ...]:
    return tuple(map(_length, items(meta.get(key))))


def _length(value: Any) -> int:
    kind, number = only(value)
    if kind != "as_int" or whole(number) < 0:
        raise InputError(f"a stored tensor has a size or a stride {kind} {shown(number)}, not a fixed one")
    return whole(number)


def dtype_of(meta: dict[str, Any]) -> torch.dtype:
    """The type of the numbers of a tensor that is described.

    >>> dtype_of({"dtype": 7})
    torch.float32
    """
    number = entry(meta, "dtype", int)
    if number not in DTYPES:
        raise InputError(f"r2et does not read tensors of torch's type number {shown(number)}")
    return DTYPES[number]
