"""Where files come from: the folder named by R2ET_DATA, then the cache, then a checked download."""

import errno
import gzip
import os
import tempfile
import zipfile
import zlib
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from r2et.errors import DataError
from r2et.files.unpacking import check_zip, copy_within
from r2et.files.writing import WriteError, move, writing
from r2et.progress import Advance, progress_bar


@dataclass(frozen=True)
class RemoteFile:
    """A file on a public host.

    Args:
        name: what it is called on disk; in an archive also the name of the member.
        url: where it is downloaded from.
        md5, sha256: its checksums, of what is unpacked, not of the archive; "" = not known.
        zipped: the address is that of a zip archive with the file in it.
        gzipped: the address is that of the file compressed by gzip.
    """

    name: str
    url: str
    md5: str = ""
    zipped: bool = False
    gzipped: bool = False
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.checksums:
            raise DataError(f"{self.name} from {self.url} needs a checksum: give its sha256")

    @property
    def checksums(self) -> dict[str, str]:
        """Those that are known, by their kind, the stronger one first."""
        known = {"sha256": self.sha256, "md5": self.md5}
        return {kind: value for kind, value in known.items() if value}


@dataclass(frozen=True)
class ManualFile:
    """A file that cannot simply be downloaded.

    Args:
        name: what it is called on disk.
        obtain: what it holds and how a person gets it, as sentences; they end the error message.
    """

    name: str
    obtain: str


File = RemoteFile | ManualFile


def cache_folder() -> Path:
    """Where downloads are kept: `R2ET_CACHE`, or else the operating system's place for caches."""
    import pooch

    return Path(os.environ.get("R2ET_CACHE") or pooch.os_cache("r2et")).expanduser()


def find(folder: str, file: File) -> Path | None:
    """The path of a data set's file if it is on this machine.

    A file in `R2ET_DATA` is the user's own and is trusted; one in the cache must have the right checksum.
    """
    root = os.environ.get("R2ET_DATA")
    if root:
        if not os.path.isdir(Path(root).expanduser()):
            raise DataError(f"R2ET_DATA={root} is not a folder: correct it, or unset it to use the cache")
        own = Path(root).expanduser() / folder / file.name
        if os.path.isfile(own):
            return own
    cached = cache_folder() / folder / file.name
    if os.path.isfile(cached) and (isinstance(file, ManualFile) or not _damage(cached, file)):
        return cached
    return None


def obtain(folder: str, file: File, *, progress: bool) -> Path:
    """Download a file into the cache; one that cannot be downloaded is an error that says how to get it."""
    if isinstance(file, ManualFile):
        raise DataError(
            f"{file.name} of data set {folder!r} is neither in R2ET_DATA nor in the cache, and cannot be "
            f"downloaded automatically: {_by_hand(folder, file)}. {file.obtain}"
        )
    cached = cache_folder() / folder / file.name
    _download(folder, file, cached, progress)
    return cached


def locate(folder: str, file: File, *, progress: bool) -> Path:
    """The path of a data set's file, downloaded if need be."""
    return find(folder, file) or obtain(folder, file, progress=progress)


def _download(folder: str, file: RemoteFile, destination: Path, progress: bool) -> None:
    """Everything happens in a scratch folder inside the cache; only a checked file leaves it, in one move."""
    cache = destination.parent.parent
    is_new = not cache.exists()
    with ExitStack() as cleanup:
        if is_new:
            cleanup.callback(_remove_if_empty, cache)
        try:
            cache.mkdir(parents=True, exist_ok=True)
            scratch = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix=".part-", dir=cache)))
        except OSError as error:
            raise _unwritable(cache, folder, file, error) from error
        try:
            move(_checked(folder, file, scratch, progress), destination)
        except WriteError as error:
            raise _unwritable(destination.parent, folder, file, error.reason) from error


def _checked(folder: str, file: RemoteFile, scratch: Path, progress: bool) -> Path:
    """A file in the scratch folder, downloaded, unpacked, and the one that it should be."""
    arrived = scratch / "download"
    _transfer(folder, file, arrived, progress)
    if file.zipped:
        arrived = _unzip(file, arrived, scratch / "member")
    elif file.gzipped:
        arrived = _gunzip(file, arrived, scratch / "unpacked")
    if damage := _damage(arrived, file):
        raise DataError(
            f"{file.name} from {file.url} has the wrong checksum ({damage}), so it was not kept: the download was "
            f"damaged or the public file has changed. If you trust it, {_by_hand(folder, file)}"
        )
    return arrived


def _transfer(folder: str, file: RemoteFile, path: Path, progress: bool) -> None:
    import pooch

    with ExitStack() as stack:
        get = pooch.HTTPDownloader(
            progressbar=_Bar(f"download {file.name}", progress, stack),
            chunk_size=2**16,
            headers={"Accept-Encoding": "identity"},  # so that the announced length is that of the file
        )
        try:
            get(file.url, str(path), None)
        except OSError as error:  # every error of requests is one
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise WriteError(str(path), os.strerror(error.errno)) from error
            raise DataError(
                f"{file.name} of data set {folder!r} is neither in R2ET_DATA nor in the cache, and could not "
                f"be downloaded from {file.url}: {error}. Check the network, or {_by_hand(folder, file)}"
            ) from error


def _unzip(file: RemoteFile, archive: Path, target: Path) -> Path:
    try:
        with zipfile.ZipFile(archive) as zipped, zipped.open(file.name) as source, writing(target) as out:
            check_zip(archive, zipped)
            copy_within(source, archive, out)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise DataError(f"{file.url} is not a zip archive with {file.name} in it: {error}") from error
    return target


def _gunzip(file: RemoteFile, archive: Path, target: Path) -> Path:
    try:
        with gzip.open(archive) as source, writing(target) as out:
            copy_within(source, archive, out)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{file.url} is not {file.name} compressed by gzip: {error}") from error
    return target


def _damage(path: Path, file: RemoteFile) -> str:
    """Which checksum of a file is not the published one, in words; "" = all that are known are right."""
    import pooch

    for kind, expected in file.checksums.items():
        try:
            checksum = str(pooch.file_hash(str(path), alg=kind))
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error}") from error
        if checksum != expected:
            return f"{kind} {checksum}, expected {expected}"
    return ""


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _unwritable(path: Path, folder: str, file: RemoteFile, error: OSError | str) -> DataError:
    return DataError(
        f"the cache folder {path} cannot be written: {error}. Set R2ET_CACHE to a folder that can, "
        f"or {_by_hand(folder, file)}"
    )


def _by_hand(folder: str, file: File) -> str:
    root = os.environ.get("R2ET_DATA")
    place = Path(root or "<folder>") / folder / file.name
    if isinstance(file, ManualFile):
        what = "it"
    elif file.gzipped:
        what = f"{file.name} (unpacked from {file.url})"
    else:
        what = f"{file.name} (inside {file.url})" if file.zipped else file.url
    return f"put {what} at {place}" + ("" if root else " and set R2ET_DATA=<folder>")


class _Bar:
    """Shows a download of pooch in the library's own progress bar, once its length is known."""

    def __init__(self, description: str, enabled: bool, stack: ExitStack) -> None:
        self.description, self.enabled, self.stack = description, enabled, stack
        self.total = 0
        self.shown = 0
        self.advance: Advance | None = None

    def update(self, amount: int) -> None:
        if self.advance is None:
            bar = progress_bar(self.description, self.total, self.enabled)
            self.advance = self.stack.enter_context(bar)
        # pooch counts whole chunks, and at the end the whole file once more
        step = min(amount, self.total - self.shown)
        self.advance(step)
        self.shown += step

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
