from pathlib import Path

import numpy as np
import pytest
import torch

from r2et import data
from r2et.data import GraphLayout, abide
from r2et.errors import DataError, InputError

from . import array_files, files

FILE = "abide_aal116_corr.npz"


def people(made: data.Dataset, x: torch.Tensor, raw: np.ndarray) -> np.ndarray:
    """Which row of the file each connectome (N, 6670) is, found by its values."""
    assert isinstance(made.layout, GraphLayout)
    weights = made.layout.weights(x.double()).numpy()[:, :20]
    distance = np.abs(weights[:, None] - raw[None, :, :20].astype(np.float64)).max(-1)
    assert distance.min(1).max() < 1e-5
    return distance.argmin(1)


def check_pairs(
    made: data.Dataset, raw: dict[str, np.ndarray], y: np.ndarray, counts: tuple[int, int, int]
) -> None:
    splits = (made.train, made.validation, made.test)
    assert [split.x.shape for split in splits] == [(count, 2, abide.EDGES) for count in counts]
    found = []
    for split in splits:
        rows = people(made, split.x[:100].flatten(0, 1), raw["corr_triu"]).reshape(-1, 2)
        np.testing.assert_array_equal(y[rows], split.members[:100].numpy())
        np.testing.assert_array_equal(split.y[:100].numpy(), y[rows[:, 0]] == y[rows[:, 1]])
        assert split.y.bincount().tolist() == [len(split) // 2] * 2
        found.append(rows)
    train, validation, test = (set(split.items[:, 0].tolist()) for split in splits)
    training = set(made.train.pool.items.tolist())
    assert train | set(made.train.items[:, 1].tolist()) <= training
    assert not validation & test
    assert not (validation | test) & training
    for split in splits[1:]:
        assert set(split.items[:, 1].tolist()) <= training, "compared with people of the training set"
    # the same by the values of the connectomes
    assert not {*found[1][:, 0]} & {*found[2][:, 0]}
    assert not {*found[1][:, 0], *found[2][:, 0]} & {*found[0].ravel(), *found[1][:, 1], *found[2][:, 1]}


def test_age_groups(arrays: Path) -> None:
    raw = array_files.abide_arrays()
    y = np.select([raw["age"] <= 13, raw["age"] >= 18], [0, 1], -1)
    made = data.load("abide")
    check_pairs(made, raw, y, (300, 60, 120))
    assert made.member_class_names == ("at most 13 years", "at least 18 years")
    assert made.feature_names[:2] == ("Area_0 - Area_1", "Area_0 - Area_2")
    assert made.feature_names[-1] == "Area_114 - Area_115"
    assert made.region_names == tuple(f"Area_{i}" for i in range(116))


def test_diagnosis(arrays: Path) -> None:
    raw = array_files.abide_arrays()
    made = data.load("abide", target="diagnosis")
    check_pairs(made, raw, raw["y"], (300, 60, 120))
    assert made.member_class_names == ("control", "autism")
    assert len(made.train.pool) == 126


def test_numbers_of_the_paper() -> None:
    assert data.PairCounts(train=4000, validation=300, test=600) == abide.PAIRS
    assert data.describe("abide").rows == 4900


def test_single_graphs_are_standardised_on_train_alone(arrays: Path) -> None:
    made, raw = data.load("abide", pairs=False), array_files.abide_arrays()
    assert (made.inputs, made.class_names) == (1, ("at most 13 years", "at least 18 years"))
    assert [len(split) for split in (made.train, made.validation, made.test)] == [105, 22, 23]
    assert made.train.y.bincount().tolist() == [42, 63]
    train = made.train.x.double()
    assert train.mean(0).abs().max() < 1e-5
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-5
    rows = people(made, made.train.x, raw["corr_triu"])
    mean, std = raw["corr_triu"][rows].astype(float).mean(0), raw["corr_triu"][rows].astype(float).std(0)
    held_out = people(made, made.test.x, raw["corr_triu"])
    expected = (raw["corr_triu"][held_out].astype(float) - mean) / std
    np.testing.assert_allclose(made.test.x.numpy(), expected, atol=1e-4)
    np.testing.assert_allclose(torch.as_tensor(made.domain.lower).numpy(), (-1 - mean) / std, rtol=1e-4)
    np.testing.assert_allclose(torch.as_tensor(made.domain.upper).numpy(), (1 - mean) / std, rtol=1e-4)


def test_the_pool_is_the_training_part_of_single_graphs(arrays: Path) -> None:
    pairs, single = data.load("abide"), data.load("abide", pairs=False)
    assert torch.equal(pairs.train.singles().x, single.train.x)
    assert torch.equal(pairs.train.singles().y, single.train.y)


def test_names_without_the_atlas(arrays: Path) -> None:
    (arrays / "abide" / "aal_labels.csv").unlink()
    assert data.load("abide", pairs=False).feature_names[0] == "2000 - 2001"
    raw = array_files.abide_arrays()
    del raw["roi"]
    array_files.save(arrays / "abide" / FILE, raw)
    assert data.load("abide", pairs=False).feature_names[0] == "region 0 - region 1"
    array_files.write_abide(arrays)
    array_files.save(arrays / "abide" / FILE, raw)
    assert data.load("abide", pairs=False).feature_names[0] == "Area_0 - Area_1"


def test_absent() -> None:
    with pytest.raises(DataError, match=rf"{FILE} of data set 'abide' .*R2ET_DATA.*fetch_abide_pcp"):
        data.load("abide")


def test_bad_option(arrays: Path) -> None:
    with pytest.raises(InputError, match="pairs must be True or False, got pairs='no'"):
        data.load("abide", pairs="no")


NOT_A_CORRELATION = array_files.abide_arrays()["corr_triu"].copy()
NOT_A_CORRELATION[3, 5] = np.nan


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"corr_triu": np.zeros((180, 3321))},
            r"corr_triu must be .*\(N, 6670\), got float64 of shape \(180, 3321\)",
        ),
        ({"corr_triu": NOT_A_CORRELATION}, r"corr_triu\[3, 5\] is nan, which is not a correlation"),
        ({"age": np.zeros(7)}, r"age must be 180 numbers"),
        ({"age": np.full(180, 9.0)}, "nobody in one of the classes"),
        ({"roi": np.array(["1"] * 116)}, "name 1 different regions, expected 116"),
    ],
)
def test_bad_file(arrays: Path, changed: dict[str, np.ndarray], message: str) -> None:
    array_files.save(arrays / "abide" / FILE, array_files.abide_arrays() | changed)
    with pytest.raises(DataError, match=rf"{FILE}.*{message}"):
        data.load("abide")


@files.needs_real_files
def test_real_connectomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2ET_DATA", files.REAL)
    with np.load(Path(files.REAL) / "abide" / FILE) as archive:
        raw = {name: archive[name] for name in ("corr_triu", "age")}
    y = np.select([raw["age"] <= 13, raw["age"] >= 18], [0, 1], -1)
    assert np.bincount(y + 1).tolist()[1:] == [383, 284]
    made = data.load("abide")
    check_pairs(made, raw, y, (4000, 300, 600))
    assert made.feature_names[0] == "Precentral_L - Precentral_R"
    assert len(made.train.pool) == 467
