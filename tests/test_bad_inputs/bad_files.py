"""Files that are not what they seem, and how a JSON file is changed in one place."""

import gzip
import io
import json
import os
import socket
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

#: removes a key instead of setting it
GONE = object()
LONG = "x" * 5000


def change(path: Path, place: str, value: Any) -> None:
    """Set `a.b.0.c` of a JSON file; an empty place is the whole file, bytes are written as they are."""
    if isinstance(value, bytes):
        path.write_bytes(value)
        return
    content = json.loads(path.read_bytes())
    *before, last = place.split(".")
    inside = content
    for key in before:
        inside = inside[int(key) if isinstance(inside, list) else key]
    key = int(last) if isinstance(inside, list) else last
    if not place:
        content = value
    elif value is GONE:
        del inside[key]
    else:
        inside[key] = value
    path.write_text(json.dumps(content))


def put(folder: Path, name: str, content: Any) -> Path:
    """A file of bytes or text, or a folder, a pipe, a socket, a device or a link to itself."""
    path = folder / name
    if "\0" in name or len(name) > 255 or content is None:
        return path
    if content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content == "loop":
        path.symlink_to(path)
    elif content == "device":
        path.symlink_to("/dev/zero")
    elif content == "socket":
        here = os.open(folder, os.O_RDONLY)
        # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{name}")
        os.close(here)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def lying_npy(shape: tuple[int, ...]) -> bytes:
    """An array whose header announces more than there is."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue() + bytes(16)


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def zip_bomb(name: str = "x", size: int = 3 * 2**30) -> bytes:
    """A zip archive whose directory announces gigabytes, with a few bytes in it."""
    packed = bytearray(zipped(**{name: bytes(100)}))
    directory = packed.index(b"PK\x01\x02")
    packed[directory + 24 : directory + 28] = struct.pack("<I", size)
    return bytes(packed)


def npz_bomb() -> bytes:
    """An array of zeros that is what it says, and shrinks to a thousandth of its 160 megabytes."""
    header, out = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2, 3200, 3200)}
    )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(header.getvalue())
        for _ in range(2 * 32):
            member.write(bytes(100 * 3200 * 8))
    return out.getvalue()


def gzip_bomb(start: bytes = b"a,b\n") -> bytes:
    """A hundred and fifty megabytes of zeros, shrunk to a thousandth."""
    return gzip.compress(start) + gzip.compress(bytes(10 * 2**20)) * 15


def mat_bomb() -> bytes:
    packed = zlib.compress(bytes(10 * 2**20))
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + 15 * (struct.pack("<II", 15, len(packed)) + packed)


def mat_cell(entries: int) -> bytes:
    """A MATLAB file with one empty cell array that announces this many entries: scipy takes their memory first."""

    def element(kind: int, content: bytes) -> bytes:
        return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)

    cell = element(6, struct.pack("<II", 1, 0)) + element(5, struct.pack("<ii", entries, 1)) + element(1, b"x")
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + element(14, cell)


def commas() -> bytes:
    """A packed table of twenty million empty values, each a byte of text and eight in memory."""
    return gzip.compress(b"a,b\n") + gzip.compress(b",\n" * 10**6) * 20


def tar_of(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return out.getvalue()


def link_to_itself() -> tarfile.TarInfo:
    member = tarfile.TarInfo("data_batch_1.bin")
    member.type, member.linkname = tarfile.SYMTYPE, "data_batch_1.bin"
    return member


def png_bomb() -> bytes:
    """A picture of 60,000 by 60,000 pixels by its header."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(99)))
        + chunk(b"IEND", b"")
    )


def listing(*folders: Path) -> dict[str, int]:
    """Every file below some folders, with the time it was changed."""
    return {
        str(path): path.lstat().st_mtime_ns
        for folder in folders
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }
