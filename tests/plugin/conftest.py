"""A package of somebody else, installed for these tests alone."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from tests.little_effort import quick_audits

__all__ = ["quick_audits"]

TOYS = Path(__file__).parent / "toys"

# it is imported as an installed package, not collected as tests
collect_ignore = ["toys"]


def write_metadata(folder: Path, name: str, version: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """What an installer writes beside the code of a package: its name, its version and its entry points."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    sections = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    )
    (information / "entry_points.txt").write_text("\n".join(sections))


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """A folder of installed packages that holds the toys: pip builds a wheel and installs it, without an index."""
    folder = tmp_path_factory.mktemp("site")
    source = copytree(TOYS, tmp_path_factory.mktemp("source") / "toys", ignore=ignore_patterns("__pycache__"))
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def toys(site, monkeypatch) -> Path:
    """The toys are installed."""
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def install(tmp_path, monkeypatch) -> Callable[..., None]:
    """Install a package of one file."""

    def write(name: str, code: str, points: Mapping[str, Mapping[str, str]]) -> None:
        folder = tmp_path / "site"
        write_metadata(folder, name, "1.5", points)
        (folder / f"{name.replace('-', '_')}.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()

    return write
