import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from r2et import data
from r2et.data import GraphLayout, PairCounts
from r2et.errors import DataError, InputError

COUNTS = PairCounts(40, 10, 20)
SIZE, EDGES = 6, 15


def matrices(count: int = 60) -> np.ndarray:
    """Symmetric (count, 6, 6); entry 0,1 is the graph's number, 0,2 its class number 0 or 1."""
    made = np.random.default_rng(0).normal(size=(count, SIZE, SIZE))
    made += made.transpose(0, 2, 1)
    made[:, 0, 1] = made[:, 1, 0] = np.arange(count)
    made[:, 0, 2] = made[:, 2, 0] = np.arange(count) % 2
    return made


LABELS = ["old" if number % 2 else "new" for number in range(60)]


def weights(made: data.Dataset, x: torch.Tensor) -> np.ndarray:
    assert isinstance(made.layout, GraphLayout)
    return made.layout.weights(x.double()).numpy()


def check(made: data.Dataset) -> None:
    """Single graphs: all are there once, with their own class and values."""
    assert (made.inputs, made.class_names) == (1, ("new", "old"))
    assert [split.x.shape for split in (made.train, made.validation, made.test)] == [
        (42, EDGES),
        (8, EDGES),
        (10, EDGES),
    ]
    seen = []
    for split in (made.train, made.validation, made.test):
        found = weights(made, split.x)
        number = found[:, 0].round().astype(int)
        np.testing.assert_array_equal(number % 2, split.y.numpy())
        first, second = np.triu_indices(SIZE, 1)
        np.testing.assert_allclose(found, matrices()[number][:, first, second], atol=1e-4)
        seen += number.tolist()
    assert sorted(seen) == list(range(60))


def single(source: object, labels: object = None, **settings: object) -> data.Dataset:
    return data.load_graphs(source, labels, pairs=False, k=3, **settings)  # type: ignore[arg-type]


class TestSources:
    @pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy, lambda array: list(array)])
    def test_array(self, convert: Callable[[np.ndarray], object]) -> None:
        check(single(convert(matrices()), LABELS))

    def test_npy(self, tmp_path: Path) -> None:
        np.save(tmp_path / "all.npy", matrices())
        check(single(tmp_path / "all.npy", LABELS))

    def test_npz(self, tmp_path: Path) -> None:
        path = tmp_path / "all.npz"
        np.savez(path, graphs=matrices(), group=np.array(LABELS))
        check(single(str(path), "group"))
        np.savez(path, graphs=matrices(), group=np.array(LABELS), other=np.zeros(3))
        check(single(path, "group", key="graphs"))
        with pytest.raises(DataError, match=r"all.npz holds 'graphs', 'other': say which one with key="):
            single(path, "group")
        with pytest.raises(DataError, match=r"no variable 'graph'; it has 'graphs', 'group', 'other'"):
            single(path, "group", key="graph")

    def test_mat(self, tmp_path: Path) -> None:
        path = tmp_path / "all.mat"
        cells = np.empty((1, 60), dtype=object)
        cells[0, :] = list(matrices())
        names = np.empty((60, 1), dtype=object)
        names[:, 0] = LABELS
        for graphs in (matrices(), matrices().transpose(1, 2, 0), cells):
            scipy.io.savemat(path, {"W": graphs, "group": names})
            check(single(path, "group"))
        scipy.io.savemat(path, {"W": matrices(), "group": np.arange(60)[:, None] % 2})
        assert single(path, "group").class_names == ("0", "1")

    @pytest.mark.parametrize("suffix", ["npy", "npz", "mat", "csv"])
    def test_folder_by_class(self, tmp_path: Path, suffix: str) -> None:
        for number, (matrix, label) in enumerate(zip(matrices(), LABELS, strict=True)):
            path = tmp_path / label / f"{number:02}.{suffix}"
            path.parent.mkdir(exist_ok=True)
            if suffix == "npy":
                np.save(path, matrix)
            elif suffix == "npz":
                np.savez(path, anything=matrix)
            elif suffix == "mat":
                scipy.io.savemat(path, {"W": matrix})
            else:
                np.savetxt(path, matrix, delimiter=",")
        check(single(tmp_path))

    def test_folder_with_a_table(self, tmp_path: Path) -> None:
        for number, matrix in enumerate(matrices()):
            np.savetxt(tmp_path / f"{number}.csv", matrix, delimiter=",")
        lines = [f"{number}.csv,{label}" for number, label in enumerate(LABELS)]
        table = tmp_path / "labels.csv"
        table.write_text("\n".join(["file,label", *lines]) + "\n")
        check(single(tmp_path, table))
        table.unlink()
        check(single(tmp_path, {f"{number}.csv": label for number, label in enumerate(LABELS)}))
        made = single(tmp_path, dict(line.split(",") for line in lines), groups=lambda p: int(p.stem) // 4)
        owners = [
            set((weights(made, s.x)[:, 0].round() // 4).tolist()) for s in (made.train, made.validation, made.test)
        ]
        assert not owners[0] & owners[1] | owners[0] & owners[2] | owners[1] & owners[2]
        with pytest.raises(DataError, match=r"labels says nothing about the file '0.csv' \(60 such files\)"):
            single(tmp_path, {"0.npy": "old"})
        with pytest.raises(DataError, match=r"0.csv lies in no class"):
            single(tmp_path)
        with pytest.raises(InputError, match=r"labels of a folder are a CSV file, a dict .* got \[1, 2\]"):
            single(tmp_path, [1, 2])


def test_pairs() -> None:
    people = [number // 2 for number in range(60)]
    kind = [number // 2 % 2 for number in range(60)]
    made = data.load_graphs(matrices(), kind, pairs=COUNTS, groups=people, k=3, name="mine")
    assert (made.name, made.inputs, made.class_names, made.member_class_names) == (
        "mine",
        2,
        ("different", "same"),
        ("0", "1"),
    )
    splits = (made.train, made.validation, made.test)
    assert [split.x.shape for split in splits] == [(40, 2, EDGES), (10, 2, EDGES), (20, 2, EDGES)]
    owners = [{number // 2 for number in split.items[:, 0].tolist()} for split in splits]
    training = {number // 2 for number in made.train.pool.items.tolist()}
    assert owners[0] <= training
    assert not owners[1] & owners[2] | owners[1] & training | owners[2] & training
    for split in splits:
        number = weights(made, split.x)[..., 0].round()
        np.testing.assert_array_equal(number, split.items.numpy())
        np.testing.assert_array_equal(number // 2 % 2, split.members.numpy())
    assert made.train.redraw(torch.Generator().manual_seed(0)).x.shape == (40, 2, EDGES)


def test_standardised_and_bounded_by_train_alone() -> None:
    made = single(matrices(), LABELS)
    train = made.train.x.double()
    assert train.mean(0).abs().max() < 1e-5
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-5
    assert torch.equal(torch.as_tensor(made.domain.lower), made.train.x.amin(0))
    assert torch.equal(torch.as_tensor(made.domain.upper), made.train.x.amax(0))
    still = matrices()
    still[:, 3, 4] = still[:, 4, 3] = 7.0
    assert (single(still, LABELS).test.x == 0).all(0).sum() == 1, "a constant edge becomes zero"


def test_names() -> None:
    made = single(matrices(), LABELS, region_names=list("abcdef"))
    assert made.feature_names[:6] == ("a - b", "a - c", "a - d", "a - e", "a - f", "b - c")
    assert made.region_names == tuple("abcdef")
    with pytest.raises(InputError, match="region_names has 'e' twice"):
        single(matrices(), LABELS, region_names=list("abcdee"))


def test_symmetrised() -> None:
    lopsided = matrices()
    lopsided[5, 3, 4] += 1
    with pytest.raises(DataError, match=r"graphs\[5\] is not symmetric: .* from node 3 to 4.*symmetrise=True"):
        single(lopsided, LABELS)
    made = single(lopsided, LABELS, symmetrise=True)
    every = np.concatenate([weights(made, split.x) for split in (made.train, made.validation, made.test)])
    row = every[np.abs(every[:, 0] - 5) < 0.1][0]
    first, second = np.triu_indices(SIZE, 1)
    np.testing.assert_allclose(row, ((lopsided[5] + lopsided[5].T) / 2)[first, second], atol=1e-4)
    single(matrices().astype(np.float32) + 1e-7 * np.arange(6), LABELS)


class TestBadInput:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (np.zeros((60, 6)), r"graphs has shape \(60, 6\); an array of graphs is \(M, R, R\)"),
            (np.zeros((60, 6, 5)), r"graphs\[0\] has shape \(6, 5\); an adjacency matrix is square"),
            (np.full((60, 6, 6), "a"), r"graphs\[0\] holds <U1, not numbers"),
            (
                np.full((60, 6, 6), np.nan),
                r"graphs\[0\] has a value that is NaN or infinite between nodes 0 and 1",
            ),
            ("nowhere.npz", "there is no file 'nowhere.npz'"),
        ],
    )
    def test_matrices(self, source: object, message: str) -> None:
        with pytest.raises(DataError, match=message):
            single(source, LABELS)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"labels": LABELS[1:]}, "59 labels for 60 graphs"),
            ({"labels": None}, "labels must be one value a graph, got None"),
            ({"labels": ["a"] * 60}, "two classes or more are needed, got only 'a'"),
            ({"labels": [0.5, 1.5] * 30}, r"labels must be whole numbers or texts, got \[0.5, 1.5"),
            ({"groups": [1, 2]}, "2 groups for 60 graphs"),
            ({"groups": "who.csv"}, "groups must be one value a graph, got 'who.csv'"),
            ({"pairs": 7}, "pairs must be True, False or PairCounts"),
            ({"pairs": True}, "ask for fewer pairs"),
            ({"fractions": (0.5, 0.5)}, "train, validation and test"),
            ({"seed": 1.5}, "seed must be"),
            ({"k": 15}, "k=15"),
        ],
    )
    def test_settings(self, settings: dict[str, object], message: str) -> None:
        given = {"labels": LABELS, "pairs": False, "k": 3} | settings
        with pytest.raises(InputError, match=message):
            data.load_graphs(matrices(), given.pop("labels"), **given)  # type: ignore[arg-type]

    def test_sizes_differ(self, tmp_path: Path) -> None:
        for label, size in (("a", 4), ("b", 5)):
            (tmp_path / label).mkdir()
            np.save(tmp_path / label / "1.npy", np.zeros((size, size)))
        with pytest.raises(DataError, match=r"1.npy is \(5, 5\), but .*1.npy is \(4, 4\): sizes must agree"):
            single(tmp_path)

    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".csv"])
    @pytest.mark.parametrize("content", [b"", b"not, a, matrix", b"\x80\x04K\x01."])
    def test_damaged(self, tmp_path: Path, suffix: str, content: bytes) -> None:
        for label in "ab":
            (tmp_path / label).mkdir()
            (tmp_path / label / f"1{suffix}").write_bytes(content)
        with pytest.raises(DataError, match=rf"1{suffix} (cannot be read|has shape)"):
            single(tmp_path)

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        class Trap:
            def __reduce__(self) -> tuple[object, tuple[object, ...]]:
                return os.mkdir, (str(tmp_path / "trapped"),)

        np.save(tmp_path / "all.npy", np.array([Trap()], dtype=object), allow_pickle=True)
        np.savez(tmp_path / "all.npz", graphs=np.array([Trap()], dtype=object))
        for name in ("all.npy", "all.npz"):
            with pytest.raises(DataError, match=rf"{name} cannot be read.*pickled objects"):
                single(tmp_path / name, LABELS)
        assert not (tmp_path / "trapped").exists()

    def test_the_newest_format_of_matlab(self, tmp_path: Path) -> None:
        path = tmp_path / "all.mat"
        header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
        path.write_bytes(header + b"\0" * 400)
        with pytest.raises(DataError, match=r"all.mat cannot be read.*v7.3.*'-v7'"):
            single(path, LABELS)

    def test_a_table_is_not_an_array(self, tmp_path: Path) -> None:
        (tmp_path / "all.csv").write_text("1,2\n2,1\n")
        with pytest.raises(
            DataError, match=r"all.csv is not one of .npy, .npz, .mat; .csv files go into a folder"
        ):
            single(tmp_path / "all.csv", LABELS)
