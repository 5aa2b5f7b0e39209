from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import ImageLayout
from r2et.data.images import channel_statistics
from r2et.data.oct import downsample
from r2et.errors import DataError, InputError

from . import array_files, files

FILE = "kermany_oct_128_dme_vs_normal.npz"


def grey(made: data.Dataset, split: data.Split) -> np.ndarray:
    assert isinstance(made.layout, ImageLayout)
    return (made.layout.pixels(split.x.double()) * 255).round().to(torch.uint8).numpy()[:, 0]


def patients(made: data.Dataset, raw: dict[str, np.ndarray]) -> list[set[str]]:
    """Who is in which split, found by the scans themselves."""
    owner = {
        image.tobytes(): (str(who), int(y))
        for image, who, y in zip(raw["x"], raw["patient"], raw["y"], strict=True)
    }
    found = []
    for split in (made.train, made.validation, made.test):
        rows = [owner[image.tobytes()] for image in grey(made, split)]
        assert [y for _, y in rows] == split.y.tolist()
        found.append({who for who, _ in rows})
    assert sum(map(len, (made.train, made.validation, made.test))) == len(raw["y"])
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_no_patient_crosses(arrays: Path, seed: int) -> None:
    raw = array_files.oct_arrays()
    made = data.load("oct", seed=seed)
    train, validation, test = patients(made, raw)
    assert not train & validation | train & test | validation & test
    assert len(train | validation | test) == 80
    total = len(raw["y"])
    assert [len(split) / total for split in (made.train, made.validation, made.test)] == pytest.approx(
        [0.7, 0.15, 0.15], abs=0.05
    )
    assert made.class_names == ("normal", "DME")


def test_standardised_on_train_alone(arrays: Path) -> None:
    made = data.load("oct")
    train = made.train.x.double()
    assert train.mean().item() == pytest.approx(0, abs=1e-5)
    assert train.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    raw = grey(made, made.train) / 255
    assert isinstance(made.layout, ImageLayout)
    assert made.layout.mean == pytest.approx((raw.mean(),))
    assert made.layout.std == pytest.approx((raw.std(),))
    assert made.layout.mean != pytest.approx((array_files.oct_arrays()["x"].mean() / 255,), abs=1e-9)
    assert made.domain.lower == pytest.approx(-raw.mean() / raw.std(), rel=1e-5)


def test_statistics_by_hand() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 2, 4, 3), dtype=np.uint8)
    mean, std = channel_statistics(pixels)
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 2, 3)))
    np.testing.assert_allclose(std, (pixels / 255).std((0, 2, 3)))
    assert channel_statistics(np.full((2, 1, 3, 3), 51, dtype=np.uint8)) == ((pytest.approx(0.2),), (1.0,))


def test_downsampled(arrays: Path) -> None:
    small, full = data.load("oct", size=32), data.load("oct")
    assert small.train.x.shape[1:] == (1, 32, 32)
    assert small.image_shape == (1, 32, 32)
    assert torch.equal(small.test.y, full.test.y)
    blocks = grey(full, full.test).reshape(-1, 32, 4, 32, 4).mean((2, 4))
    np.testing.assert_allclose(grey(small, small.test), blocks, atol=0.5)
    assert downsample(np.zeros((1, 1, 128, 128), np.uint8), 50).shape == (1, 1, 50, 50)


@pytest.mark.parametrize(
    ("size", "message"),
    [(256, "at most 128.*got size=256"), (0, "size=0"), (64.0, "size=64.0"), ("64", "size='64'")],
)
def test_bad_size(arrays: Path, size: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        data.load("oct", size=size)


def test_absent() -> None:
    with pytest.raises(DataError, match=rf"{FILE} of data set 'oct'.*rscbjbr9sj.*load_images"):
        data.load("oct")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"patient": np.array(["a", "b"])}, r"one patient a scan, got shape \(2,\)"),
        ({"x": np.zeros((4, 64, 64), np.uint8)}, r"\(4, 64, 64\)"),
        ({"y": np.full(len(array_files.oct_arrays()["y"]), 2)}, r"y\[0\] is 2"),
    ],
)
def test_bad_file(arrays: Path, changed: dict[str, np.ndarray], message: str) -> None:
    array_files.save(arrays / "oct" / FILE, array_files.oct_arrays() | changed)
    with pytest.raises(DataError, match=rf"{FILE}.*{message}"):
        data.load("oct")


@files.needs_real_files
def test_real_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    with np.load(Path(files.REAL) / "oct" / FILE) as archive:
        raw = {name: archive[name] for name in ("x", "y", "patient")}
    made = data.load("oct")
    train, validation, test = patients(made, raw)
    assert not train & validation | train & test | validation & test
    assert len(train | validation | test) == 714
    assert made.train.x.shape[1:] == (1, 128, 128)
    for split in (made.train, made.validation, made.test):
        assert split.y.float().mean().item() == pytest.approx(0.5, abs=0.05)
