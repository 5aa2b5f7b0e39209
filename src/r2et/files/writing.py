"""The one way in which r2et writes files: in one piece, or not at all.

The content goes into a temporary file beside the old one and takes its place at the end. Whatever happens in
between, a full disk, a crash or Ctrl-C, the old file is still there, byte for byte.
"""

import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from r2et.errors import InputError

#: names of open files; what they stand for may be a pipe, a terminal or a file
_DESCRIPTORS = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/[^/]+/fd/\d+")


class WriteError(InputError):
    """A file cannot be written.

    Attributes:
        path: of the file.
        reason: why, without the path.
    """

    def __init__(self, path: str, reason: str) -> None:
        # both are arguments, so that the error survives the way between two processes
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot write {self.path!r}: {self.reason}"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    r"""Write a text as UTF-8; what UTF-8 cannot express, half of a character in a name, stays visible as \udc80.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/new/name.txt", "caf\u00e9 \udc80")
    ...     Path(f"{folder}/new/name.txt").read_text(encoding="utf-8")
    'café \\udc80'
    """
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, and the folders above it, in one piece.

    >>> write_bytes("/dev/full", b"anything")
    Traceback (most recent call last):
    r2et.files.writing.WriteError: cannot write '/dev/full': No space left on device
    """
    with writing(path) as file:
        file.write(content)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file, open for writing and reading, that takes the place of `path` if the block raises nothing.

    A link stays a link: what it points to is replaced. A pipe or a device gets the content at the end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, writing(f"{folder}/counts.txt") as file:
    ...     _ = file.write(b"1 2 3")
    """
    name = os.fspath(path)
    try:
        old = _existing(name)
        if old is None or stat.S_ISREG(old.st_mode):
            with _beside(Path(os.path.realpath(name)), old) as file:
                yield file
        else:
            buffer = io.BytesIO()
            yield buffer
            with _opened(name) as stream:
                stream.write(buffer.getbuffer())
    except OSError as error:
        if error.errno is None:  # not of the system: what was to be written cannot be made
            raise
        raise WriteError(name, error.strerror or str(error)) from error


def _opened(name: str) -> BinaryIO:
    """A pipe or a device, open for writing; a pipe that nobody reads would wait for ever."""
    try:
        descriptor = os.open(name, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe, not a file, and nobody reads from it") from error
        raise
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)  # a slow reader may take its time
    return open(descriptor, "wb")


def move(file: Path, path: Path) -> None:
    """Let a finished file, of the same file system, take the place of another."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _take_place(file, path)
    except OSError as error:
        raise WriteError(os.fspath(path), error.strerror or str(error)) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Say so before an hour of work if a file cannot be written there in the end."""
    name = os.fspath(path)
    try:
        real = Path(os.path.realpath(name))
        nearest = next((folder for folder in real.parents if os.path.exists(folder)), real)
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{str(nearest)!r} is not a folder")
        old = _existing(name)
        special = old is not None and not stat.S_ISREG(old.st_mode)
        # the new file is written beside the old one, so the folder counts
        if not special and not os.access(nearest, os.W_OK):
            raise PermissionError(errno.EACCES, f"no file can be made in {str(nearest)!r}: permission denied")
    except (OSError, ValueError) as error:
        raise WriteError(name, getattr(error, "strerror", None) or str(error)) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process, and one thread of it, at a time is inside this block for the same folder, which exists.

    The system releases the lock of a process that was killed.
    """
    descriptor = _lock(folder)
    if descriptor is None:
        from filelock import FileLock

        with FileLock(folder / ".lock"):
            yield
        return
    try:
        yield
    finally:
        _unlock(descriptor)


def _existing(name: str) -> os.stat_result | None:
    """What is at a path now; an OSError if it may not be written to."""
    try:
        old = os.stat(name)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(errno.EINVAL, f"it cannot be the name of a file ({error})") from error
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; give the name of a file")
    if stat.S_ISREG(old.st_mode) and _DESCRIPTORS.fullmatch(os.path.abspath(name)):
        # to replace it would cut off whoever has it open
        raise OSError(errno.EINVAL, "it stands for a file that is already open; give the name of another file")
    if not os.access(name, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied")
    return old


@contextmanager
def _beside(target: Path, old: os.stat_result | None) -> Iterator[BinaryIO]:
    target.parent.mkdir(parents=True, exist_ok=True)
    # a part of the name, because a long one would become too long
    temporary = target.with_name(f".{target.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "x+b") as file:
            if old is not None:
                with suppress(OSError):  # some file systems know no modes
                    os.chmod(temporary, stat.S_IMODE(old.st_mode))
            yield file
        _take_place(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _take_place(file: Path, target: Path) -> None:
    # on the disk first: else a power cut could leave the new name with an empty file
    with open(file, "r+b") as written:
        os.fsync(written.fileno())
    os.replace(file, target)
    with suppress(OSError):  # not every system opens folders
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """The folder itself, locked, which leaves no file behind; None where that cannot be done."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # network file systems lock what is open for writing, which a folder never is
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unlock(descriptor: int) -> None:
    import fcntl

    # not by closing alone: a process that was forked meanwhile has it open as well
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
