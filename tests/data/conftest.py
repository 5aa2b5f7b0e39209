import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from r2et.data import PairCounts, abide
from r2et.data.sources import RemoteFile

from . import array_files, files


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the real data, the user's cache or a proxy unless it asks for them."""
    monkeypatch.delenv("R2ET_DATA", raising=False)
    monkeypatch.setenv("R2ET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def synthetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """R2ET_DATA with small files in the layout of the real ones."""
    folder = tmp_path / "own"
    files.write_all(folder)
    monkeypatch.setenv("R2ET_DATA", str(folder))
    return folder


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """R2ET_DATA with small images and connectomes, and fewer pairs of the latter."""
    folder = tmp_path / "own"
    for write in (
        array_files.write_mnist,
        array_files.write_cifar_subset,
        array_files.write_oct,
        array_files.write_abide,
    ):
        write(folder)
    monkeypatch.setattr(abide, "PAIRS", PairCounts(300, 60, 120))
    monkeypatch.setenv("R2ET_DATA", str(folder))
    return folder


@dataclass
class Server:
    folder: Path
    url: str
    requests: list[str] = field(default_factory=list)
    claimed_length: int | None = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A web server on this machine; `claimed_length` makes it announce more than it sends."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def send_header(self, keyword: str, value: str) -> None:
            if keyword.lower() == "content-length" and state.claimed_length:
                value = str(state.claimed_length)
            super().send_header(keyword, value)

        def log_request(self, *args: object) -> None:
            state.requests.append(self.path)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as httpd:
        state = Server(folder, f"http://127.0.0.1:{httpd.server_port}")
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        httpd.shutdown()
        thread.join()


@pytest.fixture
def served_adult(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The registry says that adult's files are on the local server, with their checksums."""
    files.write_adult(server.folder)
    remote = tuple(
        RemoteFile(
            name,
            f"{server.url}/adult/{name}",
            hashlib.md5((server.folder / "adult" / name).read_bytes()).hexdigest(),
        )
        for name in ("adult.data", "adult.test")
    )
    files.change_info(monkeypatch, "adult", files=remote)
    return server
