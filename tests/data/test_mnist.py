import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import mnist
from r2et.errors import DataError

from . import array_files, files
from .conftest import Server


def grey(x: torch.Tensor) -> np.ndarray:
    """Grey values 0..255 of standardised images (..., 1, 28, 28), computed by hand."""
    values = x.double() * 0.3081 + 0.1307
    return (values * 255).round().to(torch.uint8).numpy()


def check_pairs(made: data.Dataset, arrays: dict[str, np.ndarray]) -> None:
    splits = (made.train, made.validation, made.test)
    assert [split.x.shape for split in splits] == [(n, 2, 1, 28, 28) for n in (2400, 300, 600)]
    assert [split.y.bincount().tolist() for split in splits] == [[1200] * 2, [150] * 2, [300] * 2]
    assert made.member_class_names == ("3", "8")
    x = np.concatenate([arrays["x_train"], arrays["x_test"]])
    y = np.concatenate([arrays["y_train"], arrays["y_test"]])
    used = []
    for split in splits:
        items = split.items.numpy()
        np.testing.assert_array_equal(grey(split.x)[:, :, 0], x[items])
        digits = y[items]
        assert set(digits.ravel()) == {3, 8}
        np.testing.assert_array_equal(split.y.numpy(), digits[:, 0] == digits[:, 1])
        np.testing.assert_array_equal(split.members.numpy(), digits == 8)
        assert set(map(tuple, digits)) == {(3, 3), (8, 8), (3, 8), (8, 3)}
        assert (items[:, 0] != items[:, 1]).all()
        assert len(np.unique(np.sort(items, axis=1), axis=0)) == len(items)
        used.append({image.tobytes() for image in x[items.ravel()]})
    limit = len(arrays["x_train"])
    assert int(made.train.items.max()) < limit
    assert min(int(split.items.min()) for split in splits[1:]) >= limit
    assert not used[0] & used[1] | used[0] & used[2] | used[1] & used[2], "an image is in one split only"


def test_pairs(arrays: Path) -> None:
    made = data.load("mnist-pairs")
    check_pairs(made, array_files.mnist_arrays())
    assert made.domain.lower == pytest.approx(-0.1307 / 0.3081)
    assert made.domain.upper == pytest.approx((1 - 0.1307) / 0.3081)
    assert made.image_shape == (1, 28, 28)
    assert (made.train.x.min() >= made.domain.lower) & (made.train.x.max() <= made.domain.upper)


def test_all_digits(arrays: Path) -> None:
    made, raw = data.load("mnist"), array_files.mnist_arrays()
    assert [len(split) for split in (made.train, made.validation, made.test)] == [196, 40, 144]
    for split in (made.train, made.validation, made.test):
        assert split.x.shape[1:] == (1, 28, 28)
        np.testing.assert_array_equal(grey(split.x)[:, 0, 0, 0], split.y.numpy())
    seen = [{image.tobytes() for image in grey(split.x)} for split in (made.train, made.validation, made.test)]
    assert seen[0] | seen[1] == {image.tobytes() for image in raw["x_train"]}
    assert seen[2] == {image.tobytes() for image in raw["x_test"]}
    assert not seen[0] & seen[1]
    assert made.validation.y.bincount().tolist() == [2, 2, 2, 12, 2, 2, 2, 2, 12, 2]


@pytest.fixture
def served(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The registry says that the public files are on the local server, with their checksums."""
    remote = []
    for file in mnist.FILES:
        content = array_files.mnist_idx()[file.name]
        (server.folder / f"{file.name}.gz").write_bytes(array_files.gz(content))
        checksums = {kind: hashlib.new(kind, content).hexdigest() for kind in ("md5", "sha256")}
        remote.append(replace(file, url=f"{server.url}/{file.name}.gz", **checksums))
    for name in ("mnist", "mnist-pairs"):
        files.change_info(monkeypatch, name, files=tuple(remote))
    return server


def test_download_is_shared_and_gives_the_same(served: Server, tmp_path: Path, monkeypatch) -> None:
    downloaded = data.load("mnist-pairs")
    assert len(served.requests) == 4
    data.load("mnist")
    assert len(served.requests) == 4, "both sets use the same files"
    monkeypatch.setenv("R2ET_CACHE", str(tmp_path / "other"))
    array_files.write_mnist(tmp_path / "own")
    monkeypatch.setenv("R2ET_DATA", str(tmp_path / "own"))
    own = data.load("mnist-pairs")
    assert len(served.requests) == 4, "the file in R2ET_DATA stands in for them"
    assert torch.equal(own.test.x, downloaded.test.x)
    assert data.fetch("mnist-pairs") == (tmp_path / "own" / "mnist" / "mnist.npz",)


class TestBadFiles:
    def change(self, folder: Path, **changed: np.ndarray) -> None:
        arrays = array_files.mnist_arrays() | changed
        kept = {name: value for name, value in arrays.items() if value is not None}
        array_files.save(folder / "mnist" / "mnist.npz", kept)

    @pytest.mark.parametrize("name", ["mnist", "mnist-pairs"])
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"y_test": None}, "has no array 'y_test'; it has y_train, x_train, x_test"),
            ({"x_train": np.zeros((310, 28, 28))}, "x_train must be uint8 .* got float64"),
            ({"x_test": np.zeros((144, 32, 32), np.uint8)}, r"\(N, 28, 28\), got uint8 of shape \(144, 32, 32\)"),
            ({"y_test": np.zeros(7, np.uint8)}, r"y_test must be 144 whole numbers, got uint8 of shape \(7,\)"),
            ({"y_test": np.full(144, 10)}, r"y_test\[0\] is 10, but class numbers go from 0 to 9"),
            ({"y_train": np.array(["3"] * 236, dtype=object)}, "cannot be read"),
        ],
    )
    def test_arrays(self, arrays: Path, name: str, changed: dict[str, np.ndarray], message: str) -> None:
        self.change(arrays, **changed)
        with pytest.raises(DataError, match=rf"mnist\.npz.*{message}"):
            data.load(name)

    def test_no_eights(self, arrays: Path) -> None:
        self.change(arrays, y_test=np.full(144, 3))
        with pytest.raises(DataError, match="no test image of the digit 8"):
            data.load("mnist-pairs")

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x80\x04K\x01."])
    def test_damaged(self, arrays: Path, content: bytes) -> None:
        (arrays / "mnist" / "mnist.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"mnist\.npz cannot be read"):
            data.load("mnist")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "begins with nothing"),
            (b"\0\0\x0d\x01", "not an idx file of bytes: it begins with 00 00 0d 01"),
            (b"\0\0\x08\x03\0\0\0\x02", "ends after 8 bytes, inside its header"),
            (b"\0\0\x08\x01\0\0\0\x05abc", r"shape \(5,\), but has 3 values"),
            (b"\0\0\x08\x03" + b"\xff" * 12 + b"abc", "but has 3 values"),
        ],
    )
    def test_idx(self, tmp_path: Path, content: bytes, message: str) -> None:
        path = tmp_path / "idx"
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            mnist.read_idx(path)


@files.needs_real_files
def test_real_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    with np.load(Path(files.REAL) / "mnist" / "mnist.npz") as archive:
        raw = {name: archive[name] for name in archive.files}
    made = data.load("mnist-pairs")
    check_pairs(made, raw)
    # the addresses' checksums are those of this very content
    for file, name in zip(mnist.FILES, ("x_train", "y_train", "x_test", "y_test"), strict=True):
        content = array_files.idx_bytes(raw[name])
        assert hashlib.md5(content).hexdigest() == file.md5
        assert hashlib.sha256(content).hexdigest() == file.sha256
    assert raw["x_train"].mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert raw["x_train"].std() / 255 == pytest.approx(0.3081, abs=5e-5)
