"""The one writer: errors at any moment, permissions, links, pipes, and places where nothing can be written."""

import errno
import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

from r2et.files.writing import WriteError, check_writable, write_bytes, write_text, writing

OLD = b"the old file, worth keeping\n" * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_any_error_in_the_middle_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def interrupted() -> None:
        with writing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_of_the_last_steps_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(WriteError, match="No space left on device"):
        write_bytes(path, b"new")
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_the_permissions_are_those_of_an_ordinary_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "new", "x")
        (tmp_path / "ordinary").write_text("x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == mode(tmp_path / "ordinary") == 0o640
    (tmp_path / "new").chmod(0o604)
    write_text(tmp_path / "new", "y")
    assert mode(tmp_path / "new") == 0o604, "a file that was there keeps its own"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("there", [True, False], ids=["file", "dangling"])
def test_a_link_stays_a_link(tmp_path, there):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    if there:
        target.write_bytes(OLD)
    link.symlink_to(Path("elsewhere") / "file")
    check_writable(link)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*")) == sorted([target.parent, target, link])


def test_a_link_to_itself_is_an_error(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for refuse in (check_writable, lambda path: write_text(path, "x")):
        with pytest.raises(WriteError, match="symbolic links"):
            refuse(tmp_path / "loop")


def test_folders_above_are_made_and_names_may_be_long(tmp_path):
    path = tmp_path / "a" / "b" / ("ü" * 127)
    check_writable(path)
    write_text(path, "x")
    assert path.read_text() == "x"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "it is a folder; give the name of a file"),
        ("file/below", "is not a folder"),
        ("file/far/below", "is not a folder"),
        ("n\0ll", "null"),
        ("\ud800", "surrogates"),
        ("x" * 300, "File name too long"),
    ],
)
def test_places_where_nothing_can_be_written(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(OLD)
    path = f"{tmp_path}/{name}"
    with pytest.raises(WriteError, match=reason) as caught:
        check_writable(path)
    assert repr(path) in str(caught.value)
    with pytest.raises(WriteError) as caught:
        write_text(path, "x")
    assert repr(path) in str(caught.value)
    assert (tmp_path / "file").read_bytes() == OLD
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("protected", ["file", "folder"])
def test_what_is_protected_is_not_replaced(tmp_path, monkeypatch, protected):
    # tests may run as root, whom no file mode stops
    path = tmp_path / "file"
    path.write_bytes(OLD)
    refused = str(path if protected == "file" else tmp_path)
    monkeypatch.setattr(os, "access", lambda name, _: str(name) != refused)
    with pytest.raises(WriteError, match="permission denied"):
        check_writable(path)
    if protected == "file":
        with pytest.raises(WriteError, match="permission denied"):
            write_text(path, "x")
        assert path.read_bytes() == OLD


def test_a_pipe_gets_the_content():
    reading, written = os.pipe()
    try:
        check_writable(f"/dev/fd/{written}")
        with writing(f"/dev/fd/{written}") as file:
            np.savez(file, x=np.arange(3))
        with os.fdopen(os.dup(reading), "rb", buffering=0) as pipe:
            assert pipe.read(4) == b"PK\x03\x04"
    finally:
        os.close(reading)
        os.close(written)


def test_a_pipe_that_nobody_reads_is_an_error_and_no_endless_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WriteError, match="nobody reads from it"):
        write_text(tmp_path / "pipe", "x")


def test_an_open_file_is_not_replaced_under_whoever_writes_to_it(tmp_path):
    with open(tmp_path / "redirected", "wb") as output:
        output.write(OLD)
        output.flush()
        for name in (f"/dev/fd/{output.fileno()}", f"/proc/self/fd/{output.fileno()}"):
            for refuse in (check_writable, lambda path: write_text(path, "x")):
                with pytest.raises(WriteError, match="already open; give the name of another file"):
                    refuse(name)
    assert (tmp_path / "redirected").read_bytes() == OLD


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(WriteError("a/b", "No space left on device")))
    assert str(error) == "cannot write 'a/b': No space left on device"
    assert error.reason == "No space left on device"
