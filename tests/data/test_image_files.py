from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from r2et import data
from r2et.data import ImageLayout
from r2et.errors import DataError, InputError


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of 40 grey images 8 x 6, two a patient; the first pixel is the patient, the second the class."""
    root = tmp_path / "scans"
    rng = np.random.default_rng(0)
    for patient in range(40):
        kind = patient % 2
        for number in range(2):
            pixels = rng.integers(0, 256, (8, 6), dtype=np.uint8)
            pixels[0, :2] = patient, kind
            save(root / ("healthy", "ill")[kind] / f"P{patient}-{number}.png", pixels)
    (root / ".DS_Store").write_text("")
    (root / "ill" / ".hidden").write_text("")
    return root


def patient(path: Path) -> str:
    return path.stem.split("-")[0]


def grey(made: data.Dataset, split: data.Split) -> np.ndarray:
    assert isinstance(made.layout, ImageLayout)
    return (made.layout.pixels(split.x.double()) * 255).round().to(torch.uint8).numpy()


def parts(made: data.Dataset) -> tuple[data.Split, data.Split, data.Split]:
    return made.train, made.validation, made.test


def test_by_class_and_by_patient(folder: Path) -> None:
    made = data.load_images(folder, colour="grey", groups=patient, k=5)
    assert (made.name, made.class_names, made.k) == ("scans", ("healthy", "ill"), 5)
    assert made.image_shape == (1, 8, 6)
    assert [len(split) for split in parts(made)] == [56, 12, 12]
    owners = []
    for split in parts(made):
        values = grey(made, split)[:, 0]
        np.testing.assert_array_equal(values[:, 0, 1], split.y.numpy())
        owners.append(set(values[:, 0, 0].tolist()))
    assert not owners[0] & owners[1] | owners[0] & owners[2] | owners[1] & owners[2]
    assert set.union(*owners) == set(range(40))
    free = data.load_images(folder, colour="grey", k=5)
    owners = [set(grey(free, split)[:, 0, 0, 0].tolist()) for split in parts(free)]
    assert owners[0] & owners[2], "without groups somebody is on both sides"


def test_standardised_on_train_alone(folder: Path) -> None:
    made = data.load_images(folder, colour="grey", k=5)
    assert made.train.x.double().mean().item() == pytest.approx(0, abs=1e-5)
    assert made.train.x.double().std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert abs(made.test.x.double().mean().item()) > 1e-4
    assert (made.domain.lower, made.domain.upper) == made.layout.bounds()


def test_seed_and_fractions(folder: Path) -> None:
    first, again, other = (data.load_images(folder, colour="grey", k=5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.train.x, again.train.x)
    assert not torch.equal(first.train.x, other.train.x)
    halves = data.load_images(folder, colour="grey", k=5, fractions=(0.5, 0.25, 0.25))
    assert [len(split) for split in parts(halves)] == [40, 20, 20]


def test_groups_from_a_table(folder: Path) -> None:
    table = folder / "patients.csv"
    files = sorted(path.relative_to(folder) for path in folder.rglob("*.png"))
    rows = [f"{file.as_posix()},{patient(file)}" for file in files]
    table.write_text("\n".join(["file,group", *rows]) + "\n")
    made = data.load_images(folder, colour="grey", groups=table, k=5)
    owners = [set(grey(made, split)[:, 0, 0, 0].tolist()) for split in parts(made)]
    assert not owners[0] & owners[1] | owners[0] & owners[2] | owners[1] & owners[2]
    table.write_text("\n".join(["file,group", *rows[1:]]) + "\n")
    with pytest.raises(DataError, match=r"patients.csv says nothing about the file 'healthy/P0-0.png' \(1 such"):
        data.load_images(folder, groups=table)
    table.write_text("\n".join(["file,group", rows[0], *rows]) + "\n")
    with pytest.raises(DataError, match=r"row 2 of .*patients.csv is the second one about .*healthy/P0-0.png"):
        data.load_images(folder, groups=table)
    table.write_text("name,group\na,b\n")
    with pytest.raises(DataError, match="has no column 'file'"):
        data.load_images(folder, groups=table)


@pytest.mark.parametrize("size", [4, (4, 4)])
def test_colours_formats_and_sizes(tmp_path: Path, size: int | tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for number in range(24):
        ending = ("png", "JPG", "bmp", "tiff")[number // 2 % 4]
        pixels = np.full((5 + number % 3, 7, 3), 0, dtype=np.uint8)
        pixels[..., number % 2] = 200 + rng.integers(0, 9)
        save(tmp_path / ("red", "green")[number % 2] / "deeper" / f"{number}.{ending}", pixels)
    made = data.load_images(tmp_path, size=size, k=3)
    assert made.image_shape == (3, 4, 4)
    assert made.class_names == ("green", "red")
    for split in parts(made):
        values = grey(made, split).mean((2, 3))
        np.testing.assert_array_equal(values[:, 0] > values[:, 1], split.y.numpy() == 1)
    with pytest.raises(DataError, match=r"pass size=\(height, width\)"):
        data.load_images(tmp_path)


def test_size_is_height_then_width(folder: Path) -> None:
    assert data.load_images(folder, size=(4, 9), colour="grey", k=3).image_shape == (1, 4, 9)


class TestBadInput:
    def test_settings(self, folder: Path) -> None:
        for settings, message in (
            ({"colour": "gray"}, "unknown colour 'gray': did you mean 'grey'"),
            ({"size": 0}, "height must be a whole number of at least 1, got height=0"),
            ({"size": (3, 4, 5)}, r"size must be one number or \(height, width\), got \(3, 4, 5\)"),
            ({"fractions": (0.5, 0.5)}, r"train, validation and test, got \(0.5, 0.5\)"),
            ({"fractions": (0.5, 0.4, 0.4)}, "sum to 1"),
            ({"seed": -1}, "seed must be"),
            ({"groups": 3}, "groups must be a function of a path or a CSV file, got int"),
            ({"groups": lambda path: None}, "gave None for the file 'healthy/P0-0.png'"),
            ({"groups": lambda path: path.parts[0]}, "too few groups"),
            ({"k": 48 * 3}, "k=144"),
        ):
            with pytest.raises(InputError, match=message):
                data.load_images(folder, **settings)  # type: ignore[arg-type]

    def test_folders(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"nowhere' is not a folder"):
            data.load_images(tmp_path / "nowhere")
        save(tmp_path / "one" / "deeper" / "a.png", np.zeros((3, 3), np.uint8))
        with pytest.raises(DataError, match="only 'deeper'"):
            data.load_images(tmp_path / "one")
        (folder / "new").mkdir()
        with pytest.raises(DataError, match="new is a class without files"):
            data.load_images(folder)
        (folder / "new").rmdir()
        save(folder / "stray.png", np.zeros((8, 6), np.uint8))
        with pytest.raises(DataError, match=r"stray.png lies in no class: make one sub-folder a class"):
            data.load_images(folder)
        (folder / "stray.png").unlink()
        (folder / "ill" / "notes.txt").write_text("")
        with pytest.raises(DataError, match=r"notes.txt is not one of .png, .jpg"):
            data.load_images(folder)
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match=r"empty has no file with one of the endings .png"):
            data.load_images(tmp_path / "empty")

    @pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
    def test_damaged(self, folder: Path, content: bytes) -> None:
        (folder / "ill" / "P1-0.png").write_bytes(content)
        with pytest.raises(DataError, match=r"P1-0.png cannot be read as an image"):
            data.load_images(folder)

    def test_cut_short(self, folder: Path) -> None:
        path = folder / "ill" / "P1-0.png"
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DataError, match=r"P1-0.png cannot be read as an image"):
            data.load_images(folder)

    def test_sixteen_bits_are_not_cut_off_silently(self, folder: Path) -> None:
        save(folder / "ill" / "P1-0.png", np.full((8, 6), 40_000, dtype=np.uint16))
        with pytest.raises(DataError, match=r"P1-0.png has more than 8 bits a pixel"):
            data.load_images(folder)
