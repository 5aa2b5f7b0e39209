"""Saved estimators are found through the registry, also those of other packages; a checkpoint is read once."""

import json

import numpy as np
import pytest
import torch

import r2et
from r2et.checkpoints import load_model, models, save_model
from r2et.checkpoints.estimators import ESTIMATORS, SavedEstimator, restore_estimator
from r2et.errors import CheckpointError, TrustError
from r2et.estimator import StableClassifier
from tests.estimator.frames import QUICK, mixed


class Thresholds(SavedEstimator):
    """Somebody's own estimator: columns as they are."""

    def encode(self, X):
        return torch.as_tensor(np.asarray(X)).float()

    def target_numbers(self, y):
        return torch.as_tensor(y)

    def target_options(self):
        return {}

    @classmethod
    def restore(cls, model, information, where, *, trust=()):
        restored = cls()
        restored.model_, restored.k_ = model, information["k"]
        return restored


@pytest.fixture
def own(tmp_path):
    save_model(r2et.models.Linear(3, 2), tmp_path / "own", estimator="thresholds", k=2)
    ESTIMATORS.register("thresholds")(Thresholds)
    yield tmp_path / "own"
    ESTIMATORS.entries.pop("thresholds", None)


def test_an_estimator_of_somebody_else_is_opened_by_its_name(own):
    opened = r2et.open_model(own)
    assert type(opened.estimator) is Thresholds
    assert (opened.kind, opened.estimator.k_, opened.name) == ("estimator", 2, "own")


def test_an_estimator_that_nobody_registered_is_refused(own):
    ESTIMATORS.entries.pop("thresholds")
    with pytest.raises(CheckpointError, match=r"own.*estimator.*'thresholds'"):
        r2et.open_model(own)


def test_code_that_the_file_alone_names_is_not_imported(tmp_path):
    save_model(r2et.models.Linear(3, 2), tmp_path, estimator="tests.checkpoints.test_estimators:Thresholds", k=2)
    with pytest.raises(TrustError, match="test_estimators:Thresholds"):
        r2et.open_model(tmp_path)
    assert type(r2et.open_model(tmp_path, trust=[Thresholds]).estimator) is Thresholds


def test_a_model_without_an_estimator():
    with pytest.raises(CheckpointError, match="'here' holds a model, but no estimator"):
        restore_estimator(r2et.models.Linear(3, 2), {}, "here")


def test_a_classifier_is_read_once_whoever_opens_it(tmp_path, monkeypatch):
    frame, y = mixed()
    StableClassifier(**QUICK).fit(frame, y).save(tmp_path)
    reads = []
    once = models._read_once
    monkeypatch.setattr(models, "_read_once", lambda path: reads.append(path) or once(path))
    for number, opening in enumerate((StableClassifier.load, r2et.open_model, load_model), start=1):
        opening(tmp_path)
        assert len(reads) == number


def test_the_name_in_the_file_is_that_of_the_registry(tmp_path):
    frame, y = mixed()
    StableClassifier(**QUICK).fit(frame, y).save(tmp_path)
    written = json.loads((tmp_path / "checkpoint.json").read_text())["information"]["estimator"]
    assert ESTIMATORS.find(written).thing is StableClassifier
