import gzip
import hashlib
import re
import socket
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from r2et import data
from r2et.data import sources
from r2et.data.sources import ManualFile, RemoteFile, cache_folder, locate
from r2et.errors import DataError

from ..full_disk import no_file_above
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


def test_a_file_with_the_right_md5_and_another_sha256_is_refused(served: RemoteFile) -> None:
    message = assert_fails_and_leaves_nothing(replace(served, sha256="0" * 64), "wrong checksum")
    assert f"sha256 {hashlib.sha256(CONTENT).hexdigest()}, expected {'0' * 64}" in message


def test_one_checksum_is_enough_and_none_is_not(served: RemoteFile) -> None:
    alone = replace(served, md5="", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert get(alone).read_bytes() == CONTENT
    with pytest.raises(DataError, match="needs a checksum"):
        replace(served, md5="")


def test_a_cached_file_must_have_both_checksums(served: RemoteFile, server: Server) -> None:
    right = replace(served, sha256=hashlib.sha256(CONTENT).hexdigest())
    path = get(right)
    assert get(right) == path
    assert len(server.requests) == 1
    with pytest.raises(DataError, match="wrong checksum"):
        get(replace(served, sha256="0" * 64))
    assert len(server.requests) == 2
    assert path.read_bytes() == CONTENT, "a refused download leaves the file in the cache"


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


class TestGzip:
    @pytest.fixture
    def gzipped(self, served: RemoteFile, server: Server) -> RemoteFile:
        (server.folder / "table.csv.gz").write_bytes(gzip.compress(CONTENT))
        return replace(served, url=f"{server.url}/table.csv.gz", gzipped=True)

    def test_what_is_unpacked_is_kept(self, gzipped: RemoteFile) -> None:
        assert get(gzipped).read_bytes() == CONTENT
        assert [p.name for p in cache_folder().rglob("*")] == ["toy", "table.csv"]

    def test_the_checksum_is_that_of_what_is_unpacked(self, gzipped: RemoteFile) -> None:
        message = assert_fails_and_leaves_nothing(replace(gzipped, md5="0" * 32), "wrong checksum")
        assert f"put table.csv (unpacked from {gzipped.url})" in message

    def test_cut_short(self, gzipped: RemoteFile, server: Server) -> None:
        path = server.folder / "table.csv.gz"
        path.write_bytes(path.read_bytes()[:-9])
        assert_fails_and_leaves_nothing(gzipped, "not table.csv compressed by gzip")

    def test_not_compressed(self, gzipped: RemoteFile, served: RemoteFile) -> None:
        assert_fails_and_leaves_nothing(replace(gzipped, url=served.url), "not table.csv compressed by gzip")


class TestManual:
    FILE = ManualFile("scans.npz", "Ask the hospital.")

    def test_says_how_and_where(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(DataError, match=r"put it at <folder>/toy/scans.npz and set R2ET_DATA.* Ask the hosp"):
            locate("toy", self.FILE, progress=True)
        monkeypatch.setenv("R2ET_DATA", str(tmp_path))
        with pytest.raises(DataError) as caught:
            locate("toy", self.FILE, progress=True)
        assert f"put it at {tmp_path / 'toy' / 'scans.npz'}. Ask" in str(caught.value)
        assert not cache_folder().exists()

    def test_own_folder_then_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cached = files.write_lines(cache_folder() / "toy" / "scans.npz", ["x"])
        assert locate("toy", self.FILE, progress=True) == cached
        own = files.write_lines(tmp_path / "own" / "toy" / "scans.npz", ["y"])
        monkeypatch.setenv("R2ET_DATA", str(tmp_path / "own"))
        assert locate("toy", self.FILE, progress=True) == own


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


class TestFullDisk:
    @pytest.fixture(params=["plain", "zip", "gzip"])
    def file(self, served: RemoteFile, server: Server, request: pytest.FixtureRequest) -> RemoteFile:
        if request.param == "zip":
            with zipfile.ZipFile(server.folder / "table.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("table.csv", CONTENT)
            return replace(served, url=f"{server.url}/table.zip", zipped=True)
        if request.param == "gzip":
            (server.folder / "table.csv.gz").write_bytes(gzip.compress(CONTENT))
            return replace(served, url=f"{server.url}/table.csv.gz", gzipped=True)
        return served

    def test_says_that_the_cache_cannot_be_written(self, file: RemoteFile) -> None:
        with no_file_above(len(CONTENT) // 2):
            message = assert_fails_and_leaves_nothing(file, "cannot be written: File too large")
        assert str(cache_folder() / "toy") in message
        assert "network" not in message
        assert get(file).read_bytes() == CONTENT, "negative control: the same with room"


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
    remote = [file for name in data.names() for file in data.describe(name).files]
    remote = [file for file in remote if isinstance(file, RemoteFile)]
    assert len({file.url for file in remote}) == 9
    assert all(file.url.startswith("https://") and len(file.md5) == 32 for file in remote)
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in remote)
    assert len({file.sha256 for file in remote}) == 9
    assert all(file.zipped == file.url.endswith(".zip") for file in remote)
    # an archive that is kept as it is has its own name
    assert all(file.gzipped == (file.url.endswith(".gz") and not file.name.endswith(".gz")) for file in remote)


@files.needs_real_files
@pytest.mark.parametrize("name", ["adult", "bank"])
def test_checksums_are_those_of_the_real_files(name: str) -> None:
    assert data.describe(name).files
    for file in data.describe(name).files:
        real = Path(files.REAL) / name / file.name
        assert hashlib.md5(real.read_bytes()).hexdigest() == file.md5
        assert hashlib.sha256(real.read_bytes()).hexdigest() == file.sha256
