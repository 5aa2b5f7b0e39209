"""Single columns that give the target away."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from r2et.tables.checks.leaks import LeakTest, _auc_of_bins, _macro_auc, leak, sample
from r2et.tables.checks.profile import profiled

RNG = np.random.default_rng(0)


def normals(auc: float, y: np.ndarray) -> np.ndarray:
    """A number that tells two classes with this AUC."""
    return RNG.normal(size=len(y)) + np.sqrt(2) * norm.ppf(auc) * y


def called(values, y, seed=0):
    classes = [f"class {c}" for c in range(int(y.max()) + 1)]
    return leak(profiled(pd.Series(values), "a"), LeakTest(y, seed), "bought", classes, y)


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("auc", [0.5, 0.9, 0.95])
def test_a_good_column_is_no_leak(auc, share):
    y = (RNG.random(3000) < share).astype(int)
    assert called(normals(auc, y), y) is None


@pytest.mark.parametrize("rows", [600, 3000, 30_000])
@pytest.mark.parametrize("share", [0.15, 0.5])
def test_leaks_of_every_shape(rows, share):
    y = (np.arange(rows) < share * rows).astype(int)
    inside = np.where(y == 1, RNG.uniform(-1, 1, rows), RNG.uniform(2, 3, rows) * RNG.choice([-1, 1], rows))
    for values in (
        y + 0.0,
        normals(0.99999, y),
        inside,
        np.where(y == 1, np.nan, RNG.normal(size=rows)),
        np.where(y == 1, RNG.choice(["a", "b"], rows), "c"),
        y == 1,
    ):
        remark = called(values, y)
        assert remark is not None
        assert remark.figures["auc"] > 0.99


def test_leaks_of_several_classes():
    y = RNG.integers(0, 7, 4000)
    grades = [f"{'ABCDEFG'[c]}{d}" for c, d in zip(y, RNG.integers(1, 6, 4000), strict=True)]
    assert called(grades, y).figures["auc"] == 1
    assert called(y + RNG.normal(scale=0.05, size=4000), y) is not None
    assert called(y + RNG.normal(scale=1.0, size=4000), y) is None
    # it knows one class of seven
    assert called(np.where(y == 3, "three", "other"), y) is None


def test_many_categories_do_not_learn_the_rows_by_heart():
    y = RNG.integers(0, 2, 1000)
    assert called([f"text {i}" for i in range(1000)], y) is None
    assert called(RNG.normal(size=1000), y) is None


def test_few_rows_prove_nothing():
    y = np.array([0, 1] * 8)
    assert not LeakTest(y).possible(1)
    assert LeakTest(np.array([0, 1] * 15)).possible(1)
    assert not LeakTest(np.array([0] * 1000 + [1] * 4)).possible(1), "no four rows in five folds"


def test_the_same_seed_is_the_same_answer():
    y = RNG.integers(0, 2, 5000)
    values = normals(0.992, y)
    for seed in (0, 1):
        first, second = (LeakTest(y, seed).auc(profiled(pd.Series(values), "a")) for _ in range(2))
        assert first == second


def test_auc_of_bins_is_that_of_scikit_learn():
    for classes in (2, 4):
        y = RNG.integers(0, classes, 300)
        bins = RNG.integers(0, 12, 300)
        aucs = []
        for c in range(classes):
            rates = np.array([(y[bins == b] == c).mean() if (bins == b).any() else 0 for b in range(12)])
            aucs.append(roc_auc_score(y == c, rates[bins]))
        assert _auc_of_bins(bins, y) == pytest.approx(np.mean(aucs))
        scores = RNG.integers(0, 5, (300, classes)) / 5
        expected = np.mean([roc_auc_score(y == c, scores[:, c]) for c in range(classes)])
        assert _macro_auc(scores, y) == pytest.approx(expected)


def test_a_sample_keeps_rare_classes():
    y = np.array([0] * 99_000 + [1] * 900 + [2] * 100)
    counts = np.bincount(y[sample(y, 20_000, seed=0)])
    assert counts[0] == pytest.approx(19_800, abs=1)
    assert counts[1:].tolist() == [200, 100]
