import hashlib
import socket
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from r2et import data
from r2et._checks import DataError
from r2et.data import registry, sources
from r2et.data.sources import RemoteFile, cache_folder, locate

from . import files
from .conftest import Server

CONTENT = b"a table\n" * 50_000


@pytest.fixture
def served(server: Server) -> RemoteFile:
    (server.folder / "table.csv").write_bytes(CONTENT)
    return RemoteFile("table.csv", f"{server.url}/table.csv", hashlib.md5(CONTENT).hexdigest())


def get(file: RemoteFile) -> Path:
    return locate("toy", file, progress=True)


def assert_fails_and_leaves_nothing(file: RemoteFile, message: str) -> str:
    with pytest.raises(DataError, match=message) as caught:
        get(file)
    assert not cache_folder().exists()
    return str(caught.value)


def test_download_then_cache(served: RemoteFile, server: Server) -> None:
    path = get(served)
    assert path == cache_folder() / "toy" / "table.csv"
    assert path.read_bytes() == CONTENT
    assert [p.name for p in cache_folder().rglob("*")] == ["toy", "table.csv"]
    assert get(served) == path
    assert server.requests == ["/table.csv"]


def test_own_folder_comes_first_and_is_trusted(
    served: RemoteFile, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get(served)
    own = tmp_path / "own" / "toy" / "table.csv"
    files.write_lines(own, ["other content"])
    monkeypatch.setenv("R2ET_DATA", str(tmp_path / "own"))
    assert get(served) == own
    assert len(server.requests) == 1


def test_a_file_that_is_not_in_the_own_folder_is_downloaded(
    served: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("R2ET_DATA", str(tmp_path))
    assert get(served).is_relative_to(cache_folder())


def test_a_damaged_cached_file_is_replaced(served: RemoteFile, server: Server) -> None:
    get(served).write_text("damaged")
    assert get(served).read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_progress_reaches_the_total(served: RemoteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, bool]] = []
    steps: list[int] = []

    @contextmanager
    def recorded(description: str, total: int, enabled: bool) -> Iterator[Callable[[int], None]]:
        seen.append((description, total, enabled))
        yield steps.append

    monkeypatch.setattr(sources, "progress_bar", recorded)
    get(served)
    assert seen == [("download table.csv", len(CONTENT), True)]
    assert sum(steps) == len(CONTENT)
    assert len([step for step in steps if step]) > 3


def test_nothing_is_printed_on_stdout(served: RemoteFile, capfd: pytest.CaptureFixture[str]) -> None:
    get(served)
    assert capfd.readouterr().out == ""


def test_wrong_checksum(served: RemoteFile) -> None:
    message = assert_fails_and_leaves_nothing(replace(served, md5="0" * 32), "wrong checksum")
    assert served.md5 in message
    assert "0" * 32 in message
    assert "R2ET_DATA" in message


def test_a_failed_update_keeps_other_files(served: RemoteFile) -> None:
    get(served)
    with pytest.raises(DataError, match="wrong checksum"):
        get(replace(served, name="second.csv", md5="0" * 32))
    assert [p.name for p in cache_folder().rglob("*")] == ["toy", "table.csv"]


def test_not_found(served: RemoteFile, server: Server) -> None:
    file = replace(served, url=f"{server.url}/gone.csv")
    message = assert_fails_and_leaves_nothing(file, "404")
    assert f"{server.url}/gone.csv" in message


def test_no_network(served: RemoteFile) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = replace(served, url=f"http://127.0.0.1:{port}/table.csv")
    message = assert_fails_and_leaves_nothing(file, "could not be downloaded")
    assert "<folder>/toy/table.csv and set R2ET_DATA=<folder>" in message


def test_no_network_names_the_own_folder_that_is_set(
    served: RemoteFile, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("R2ET_DATA", str(tmp_path))
    message = assert_fails_and_leaves_nothing(replace(served, url=f"{server.url}/gone.csv"), "404")
    assert message.endswith(f"at {tmp_path / 'toy' / 'table.csv'}")


def test_connection_lost_half_way(served: RemoteFile, server: Server) -> None:
    server.claimed_length = 2 * len(CONTENT)
    assert_fails_and_leaves_nothing(served, "could not be downloaded|wrong checksum")


class TestZip:
    @pytest.fixture
    def zipped(self, served: RemoteFile, server: Server) -> RemoteFile:
        with zipfile.ZipFile(server.folder / "table.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table.csv", CONTENT)
            archive.writestr("other.csv", b"other")
        return replace(served, url=f"{server.url}/table.zip", zipped=True)

    def test_only_the_member_is_kept(self, zipped: RemoteFile) -> None:
        assert get(zipped).read_bytes() == CONTENT
        assert [p.name for p in cache_folder().rglob("*")] == ["toy", "table.csv"]

    def test_the_checksum_is_that_of_the_member(self, zipped: RemoteFile) -> None:
        assert_fails_and_leaves_nothing(replace(zipped, md5="0" * 32), "wrong checksum")

    def test_missing_member(self, zipped: RemoteFile) -> None:
        assert_fails_and_leaves_nothing(replace(zipped, name="gone.csv"), "not a zip archive with gone.csv")

    def test_not_an_archive(self, zipped: RemoteFile, served: RemoteFile) -> None:
        assert_fails_and_leaves_nothing(replace(zipped, url=served.url), "not a zip archive")


class TestReadOnlyCache:
    def test_cannot_be_made(
        self, served: RemoteFile, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        cache = tmp_path / "file" / "cache"
        monkeypatch.setenv("R2ET_CACHE", str(cache))
        with pytest.raises(DataError, match=r"cannot be written.*R2ET_CACHE") as caught:
            get(served)
        assert str(cache) in str(caught.value)
        assert server.requests == []

    def test_exists_but_refuses(self, served: RemoteFile, monkeypatch: pytest.MonkeyPatch) -> None:
        # tests may run as root, whom no file mode stops
        def refuse(*args: object, **kwargs: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
        message = assert_fails_and_leaves_nothing(served, "cannot be written")
        assert str(cache_folder()) in message

    def test_sub_folder_refuses(self, served: RemoteFile) -> None:
        cache_folder().mkdir()
        (cache_folder() / "toy").write_text("in the way")
        with pytest.raises(DataError, match="cannot be written") as caught:
            get(served)
        assert str(cache_folder() / "toy") in str(caught.value)
        assert [p.name for p in cache_folder().iterdir()] == ["toy"]


def test_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R2ET_CACHE")
    assert cache_folder().name == "r2et"


def test_a_whole_set_is_downloaded_once(served_adult: Server) -> None:
    made = data.load("adult")
    assert made.train.x.shape == (105, 28)
    assert served_adult.requests == ["/adult/adult.data", "/adult/adult.test"]
    data.load("adult", seed=1)
    assert len(served_adult.requests) == 2


def test_public_addresses() -> None:
    remote = [file for info, _ in registry.REGISTRY.values() for file in info.files]
    assert len(remote) == 4
    assert all(file.url.startswith("https://") and len(file.md5) == 32 for file in remote)
    assert all(file.zipped == file.url.endswith(".zip") for file in remote)


@files.needs_real_files
@pytest.mark.parametrize("name", ["adult", "bank"])
def test_checksums_are_those_of_the_real_files(name: str) -> None:
    for file in data.describe(name).files:
        real = Path(files.REAL) / name / file.name
        assert hashlib.md5(real.read_bytes()).hexdigest() == file.md5
