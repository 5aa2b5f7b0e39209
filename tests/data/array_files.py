"""Small files with the layout of the real images and connectomes."""

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np

from r2et.data import abide

TRAIN_COUNTS = [12, 12, 12, 70, 12, 12, 12, 12, 70, 12]
TEST_COUNTS = [6, 6, 6, 48, 6, 6, 6, 6, 48, 6]


def numbered_images(count: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random grey values; no two images are alike."""
    made = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    assert len({image.tobytes() for image in made}) == count
    return made


def mnist_arrays() -> dict[str, np.ndarray]:
    made = {}
    for half, counts, seed in (("train", TRAIN_COUNTS, 0), ("test", TEST_COUNTS, 1)):
        y = np.repeat(np.arange(10), counts).astype(np.uint8)
        made[f"y_{half}"] = np.random.default_rng(seed).permutation(y)
        made[f"x_{half}"] = numbered_images(len(y), (28, 28), seed)
        made[f"x_{half}"][:, 0, 0] = made[f"y_{half}"]  # each image says which digit it is
    return made


def save(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def write_mnist(folder: Path) -> Path:
    return save(folder / "mnist" / "mnist.npz", mnist_arrays())


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist_idx() -> dict[str, bytes]:
    """The content of the four public files, unpacked."""
    arrays = mnist_arrays()
    return {
        "train-images-idx3-ubyte": idx_bytes(arrays["x_train"]),
        "train-labels-idx1-ubyte": idx_bytes(arrays["y_train"]),
        "t10k-images-idx3-ubyte": idx_bytes(arrays["x_test"]),
        "t10k-labels-idx1-ubyte": idx_bytes(arrays["y_test"]),
    }


def cifar_arrays(train: int = 100, test: int = 30) -> dict[str, np.ndarray]:
    """x_* are (N, 32, 32, 3), as in the subset; each image says in its first red pixel what it shows."""
    made = {}
    for half, count, seed in (("train", train, 2), ("test", test, 3)):
        made[f"y_{half}"] = (np.arange(count) % 10).astype(np.uint8)
        made[f"x_{half}"] = numbered_images(count, (32, 32, 3), seed)
        made[f"x_{half}"][:, 0, 0, 0] = made[f"y_{half}"]
    return made


def write_cifar_subset(folder: Path) -> Path:
    return save(folder / "cifar10" / "cifar10_10k2k.npz", cifar_arrays())


def write_cifar_whole(path: Path, arrays: dict[str, np.ndarray] | None = None, drop: str = "") -> Path:
    """The binary version: five batches and a test batch of label, then red, green and blue."""
    arrays = arrays or cifar_arrays()
    path.parent.mkdir(parents=True, exist_ok=True)

    def records(half: str) -> np.ndarray:
        pixels = arrays[f"x_{half}"].transpose(0, 3, 1, 2).reshape(len(arrays[f"x_{half}"]), -1)
        return np.concatenate([arrays[f"y_{half}"][:, None], pixels], axis=1)

    batches = {f"data_batch_{i + 1}.bin": part for i, part in enumerate(np.array_split(records("train"), 5))}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {**batches, "test_batch.bin": records("test"), "readme.html": np.zeros(3)}.items():
            if name != drop:
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = content.nbytes
                archive.addfile(member, io.BytesIO(content.tobytes()))
    return path


def oct_arrays(patients: int = 80, size: int = 128) -> dict[str, np.ndarray]:
    """One to five scans per patient, who has one diagnosis; each scan says in its first pixels whose it is."""
    rng = np.random.default_rng(4)
    patient = np.repeat(np.arange(patients), rng.integers(1, 6, patients))
    rng.shuffle(patient)
    x = numbered_images(len(patient), (size, size), 5)
    x[:, 0, 0] = patient
    names = np.array([f"P-{number}" for number in range(patients)])
    return {"x": x, "y": (patient % 2).astype(np.uint8), "patient": names[patient]}


def write_oct(folder: Path) -> Path:
    return save(folder / "oct" / "kermany_oct_128_dme_vs_normal.npz", oct_arrays())


def abide_arrays(people: int = 180) -> dict[str, np.ndarray]:
    """A third up to 13 years, a sixth in between, half from 18; no two connectomes are alike."""
    rng = np.random.default_rng(6)
    age = np.tile([8.0, 13.0, 15.5, 18.0, 21.0, 40.0], people // 6).astype(np.float32)
    edges = rng.uniform(-1, 1, (len(age), abide.EDGES)) * np.linspace(0.2, 0.9, abide.EDGES)
    return {
        "corr_triu": edges.astype(np.float16),
        "y": rng.permutation(np.arange(len(age)) % 2).astype(np.uint8),
        "age": age,
        "roi": np.array([str(2000 + i) for i in range(abide.REGIONS)]),
    }


def write_abide(folder: Path) -> Path:
    labels = folder / "abide" / "aal_labels.csv"
    path = save(folder / "abide" / "abide_aal116_corr.npz", abide_arrays())
    lines = ["# from somewhere,", *(f"{2000 + i},Area_{i}" for i in range(abide.REGIONS))]
    labels.write_text("\n".join(lines) + "\n")
    return path


def gz(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)
