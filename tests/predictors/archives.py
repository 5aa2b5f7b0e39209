"""Archives of torch.export, altered as somebody might who means harm."""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MODEL, WEIGHTS, CONSTANTS = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
)


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def contents(path: Path) -> dict[str, bytes]:
    """The records of an archive by their names without its folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def write(path: Path, records: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    """An archive of these records; a name that starts with a slash is taken as it is."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in records:
            archive.writestr(name if name.startswith(("/", "..")) else f"model/{name}", content)
    return path


def altered(source: Path, record: str, change: Callable[[Any], Any]) -> Path:
    """A copy of an archive with another JSON in one record."""
    records = contents(source)
    document = json.loads(records[record])
    change(document)
    return write(source.with_name("altered.pt2"), {**records, record: json.dumps(document).encode()}.items())
