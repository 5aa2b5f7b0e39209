"""Arrays and packed files of others: what they unpack to is known before memory is taken; nothing is unpickled."""

import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from numpy.lib import format as npy
from numpy.typing import NDArray

from r2et.errors import DataError, in_words
from r2et.files.reading import regular_file
from r2et.numerics.values import quoted

Array = NDArray[Any]
Order = Literal["little", "big"]

#: what any file may unpack to, in bytes
ALWAYS_ALLOWED = 128 * 2**20
#: beyond that: measured data hardly ever shrink to a hundredth, zeros shrink to a thousandth
RATIO = 100
#: kinds of elements in MATLAB's format, and the class of a variable whose entries are not all stored
_MATRIX, _PACKED, _SPARSE = 14, 15, 5
#: classes of variables that hold others: cells, structures, objects
_NESTED = (1, 2, 3)
#: kinds that there are: after anything else nothing is read
_KINDS = range(1, 19)
#: cells within cells
_DEEPEST = 20
#: entries along the axes of an array without numbers, which a file of a hundred bytes can announce
_MOST_OF_NOTHING = 2**20


def allowed(packed: int) -> int:
    """How many bytes a file of this many may unpack to.

    >>> allowed(2_000_000) < 2_000_000_000 < allowed(50_000_000)
    True
    """
    return max(ALWAYS_ALLOWED, RATIO * packed)


def too_large(path: Path, unpacked: str) -> DataError:
    """For a file that would fill the memory."""
    size = path.stat().st_size
    return DataError(
        f"{quoted(path)} has {size:,} bytes and unpacks to {unpacked}: r2et stops at {RATIO} times the size, or "
        f"{ALWAYS_ALLOWED >> 20} MB. If you trust it, unpack it yourself"
    )


def copy_within(source: IO[bytes] | gzip.GzipFile, path: Path, out: IO[bytes] | None = None) -> None:
    """Unpack the file at `path` from a stream in pieces, and stop where it becomes too much.

    Args:
        source: unpacks.
        path: of the packed file.
        out: where to; None = nowhere, to see whether it can be unpacked.
    """
    limit, seen = allowed(path.stat().st_size), 0
    while piece := source.read(2**20):
        seen += len(piece)
        if seen > limit:
            raise too_large(path, f"more than {limit:,}")
        if out is not None:
            out.write(piece)


def check_gzip(path: Path) -> None:
    """Raise unless a gzip file is whole and unpacks to a reasonable size."""
    regular_file(path)
    try:
        with gzip.open(path) as source:
            copy_within(source, path)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def check_zip(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise unless what a zip archive's directory announces is of a reasonable size."""
    total = sum(member.file_size for member in archive.infolist())
    if total > allowed(path.stat().st_size):
        raise too_large(path, f"{total:,}")


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """The arrays of a .npz file, or the one array of a .npy file under the name "".

    Args:
        path: of the file.
        names: which arrays of a .npz file, of those that it has; None = all.
    """
    regular_file(path)
    try:
        with path.open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                file.seek(0)
                return {"": _read_array(path, "the array", file, path.stat().st_size)}
        with zipfile.ZipFile(path) as archive:
            check_zip(path, archive)
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            read = {}
            for name, member in members.items():
                if names is None or name in names:
                    with archive.open(member) as source:
                        read[name] = _read_array(path, name, source, member.file_size)
            return read
    except DataError:
        raise
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise unreadable(path, error) from error


def check_mat(path: Path) -> None:
    """Raise unless the variables of a MATLAB file (version 5 to 7) are of a reasonable size, packed or not."""
    content = regular_file(path).read_bytes()
    order: Order = "little" if content[126:128] == b"IM" else "big"
    limit, seen = allowed(len(content)), 0
    for kind, part in _elements(memoryview(content)[128:], order):
        unpacked, unpacking = bytearray(), zlib.decompressobj()
        piece = bytes(part) if kind == _PACKED else b""
        while piece:
            unpacked += unpacking.decompress(piece, 2**20)
            piece = unpacking.unconsumed_tail
            if seen + len(unpacked) > limit:
                raise too_large(path, f"more than {limit:,}")
        seen += len(unpacked)
        if kind == _PACKED:  # one variable, and scipy reads no further
            kind, part = next(_elements(memoryview(unpacked), order), (kind, part))
        if kind == _MATRIX and not _fills(part, order):
            raise DataError(f"{quoted(path)} announces more entries of a cell or structure than it holds")


def _elements(content: memoryview, order: Order) -> Iterator[tuple[int, memoryview]]:
    """The elements of MATLAB's format one after the other: the number of the kind, and the bytes."""
    start = 0
    while start + 8 <= len(content):
        kind, size = (int.from_bytes(content[start + i : start + i + 4], order) for i in (0, 4))
        if kind & 0xFFFF not in _KINDS:
            return
        if kind >> 16:  # a small one, of at most four bytes within its own head
            yield kind & 0xFFFF, content[start + 4 : start + 4 + min(kind >> 16, 4)]
            start += 8
            continue
        yield kind, content[start + 8 : start + 8 + size]
        # what is inside of a variable begins at multiples of eight; packed variables follow each other
        start += 8 + size + (0 if kind == _PACKED else -size % 8)


def _fills(matrix: memoryview, order: Order, depth: int = 0) -> bool:
    """Whether a variable has room for the entries that it announces; scipy would take their memory first."""
    if depth > _DEEPEST:
        return False
    parts = _elements(matrix, order)
    nothing = (0, memoryview(b""))
    flags, sizes = next(parts, nothing)[1], next(parts, nothing)[1]
    form = int.from_bytes(flags[:4], order) & 0xFF
    entries = math.prod(int.from_bytes(sizes[i : i + 4], order) for i in range(0, len(sizes) - 3, 4))
    if form != _SPARSE and entries > len(matrix):
        return False
    inner = parts if form in _NESTED else ()
    return all(_fills(part, order, depth + 1) for kind, part in inner if kind == _MATRIX)


def array_names(path: Path) -> list[str]:
    """What the arrays of a .npz file are called."""
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> DataError:
    """For a file that is damaged, of another kind, or holds pickled objects."""
    return DataError(f"{path} cannot be read, it may be cut short or of another format: {in_words(error)}")


def _read_array(path: Path, name: str, file: Any, size: int) -> Array:
    """An array whose header announces just the bytes that follow it; numpy would take the memory first."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise DataError(f"{path}: {name} is of version {version} of numpy's format, r2et reads plain numbers")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise DataError(
            f"{path} cannot be read: {name} holds pickled objects, and reading them runs whatever code is in them"
        )
    announced = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or announced != size - file.tell():
        raise DataError(
            f"{path} may be cut short: {name} announces {dtype} of shape {shape}, {announced:,} bytes, and has "
            f"{size - file.tell():,}"
        )
    if announced == 0 and math.prod(length or 1 for length in shape) > _MOST_OF_NOTHING:
        raise DataError(f"{path}: {name} announces {dtype} of shape {shape}, which holds nothing")
    file.seek(0)
    array: Array = npy.read_array(file, allow_pickle=False)
    return array
