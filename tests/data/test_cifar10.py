import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import cifar10
from r2et.errors import DataError

from . import array_files, files
from .conftest import Server

MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]).double(), torch.tensor([0.2470, 0.2435, 0.2616]).double()


def grey(x: torch.Tensor) -> np.ndarray:
    values = x.double() * STD.view(3, 1, 1) + MEAN.view(3, 1, 1)
    return (values * 255).round().to(torch.uint8).numpy()


def images(split: data.Split) -> set[bytes]:
    return {image.tobytes() for image in grey(split.x)}


def test_subset(arrays: Path) -> None:
    made, raw = data.load("cifar10"), array_files.cifar_arrays()
    assert made.name == "cifar10-10k2k"
    assert "subset" in made.description
    assert [len(split) for split in (made.train, made.validation, made.test)] == [90, 10, 30]
    assert made.train.x.shape == (90, 3, 32, 32)
    expected = {image.tobytes() for image in raw["x_train"].transpose(0, 3, 1, 2)}
    assert images(made.train) | images(made.validation) == expected
    assert not images(made.train) & images(made.validation)
    for split in (made.train, made.validation, made.test):
        np.testing.assert_array_equal(grey(split.x)[:, 0, 0, 0], split.y.numpy())
    assert made.validation.y.bincount().tolist() == [1] * 10
    assert made.feature_names[1024] == "green 0,0"
    lower = torch.as_tensor(made.domain.lower).view(3, -1)
    assert torch.allclose(lower, (-MEAN / STD).float().view(3, 1).expand(3, 1024))
    again = data.load(made.name)
    assert again.name == made.name
    assert torch.equal(again.test.x, made.test.x)


def test_whole_set_is_preferred_and_reads_the_same(arrays: Path, tmp_path: Path) -> None:
    subset = data.load("cifar10")
    array_files.write_cifar_whole(arrays / "cifar10" / "cifar-10-binary.tar.gz")
    whole = data.load("cifar10")
    assert (whole.name, whole.description) == ("cifar10", data.describe("cifar10").description)
    for part in ("train", "validation", "test"):
        assert torch.equal(getattr(whole, part).x, getattr(subset, part).x)
        assert torch.equal(getattr(whole, part).y, getattr(subset, part).y)
    assert data.load("cifar10-10k2k").name == "cifar10-10k2k"


def test_download_and_cache(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = array_files.write_cifar_whole(server.folder / "cifar.tar.gz")
    checksums = {kind: hashlib.new(kind, path.read_bytes()).hexdigest() for kind in ("md5", "sha256")}
    served = replace(cifar10.WHOLE, url=f"{server.url}/cifar.tar.gz", **checksums)
    files.change_info(monkeypatch, "cifar10", files=(served,))
    assert data.load("cifar10").name == "cifar10"
    array_files.write_cifar_subset(tmp_path / "own")
    monkeypatch.setenv("R2ET_DATA", str(tmp_path / "own"))
    assert data.load("cifar10").name == "cifar10", "the whole set is in the cache"
    monkeypatch.setenv("R2ET_CACHE", str(tmp_path / "other"))
    assert data.load("cifar10").name == "cifar10-10k2k", "the subset comes before a download"
    assert len(server.requests) == 1


def test_the_subset_cannot_be_downloaded() -> None:
    with pytest.raises(DataError, match=r"cifar10_10k2k.npz of data set 'cifar10' .* load 'cifar10', which is"):
        data.load("cifar10-10k2k")


class TestBadFiles:
    def test_subset(self, arrays: Path) -> None:
        raw = array_files.cifar_arrays()
        path = arrays / "cifar10" / "cifar10_10k2k.npz"
        array_files.save(path, raw | {"x_test": raw["x_test"].transpose(0, 3, 1, 2)})
        with pytest.raises(DataError, match=r"x_test must be uint8 of shape \(N, 32, 32, 3\).*\(30, 3, 32, 32\)"):
            data.load("cifar10")

    def test_missing_batch(self, arrays: Path) -> None:
        path = array_files.write_cifar_whole(
            arrays / "cifar10" / "cifar-10-binary.tar.gz", drop="data_batch_3.bin"
        )
        with pytest.raises(
            DataError, match=r"must hold data_batch_3.bin .* it has data_batch_1.bin, data_batch_2"
        ):
            cifar10.read_archive(path)

    def test_wrong_label(self, arrays: Path) -> None:
        raw = array_files.cifar_arrays()
        raw["y_test"][4] = 77
        path = array_files.write_cifar_whole(arrays / "whole.tar.gz", raw)
        with pytest.raises(DataError, match=r"labels of test_batch.bin\[4\] is 77"):
            cifar10.read_archive(path)

    @pytest.mark.parametrize("keep", [0, 10, 5000, -5000])
    def test_cut_short(self, tmp_path: Path, keep: int) -> None:
        path = array_files.write_cifar_whole(tmp_path / "whole.tar.gz")
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(DataError, match=r"whole.tar.gz (cannot be read|must hold)"):
            cifar10.read_archive(path)


@files.needs_real_files
def test_real_subset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    made = data.load("cifar10-10k2k")
    assert [len(split) for split in (made.train, made.validation, made.test)] == [9000, 1000, 2000]
    assert made.test.y.bincount().tolist() == [200] * 10
    # near, because the statistics are those of the whole set
    assert made.train.x.mean((0, 2, 3)).abs().max() < 0.01
    assert (made.train.x.std((0, 2, 3)) - 1).abs().max() < 0.01
    seen = [images(split) for split in (made.train, made.validation, made.test)]
    assert not seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2]
