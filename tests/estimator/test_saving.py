import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et import StableClassifier
from r2et.errors import CheckpointError, InputError

from .frames import QUICK, mixed, numeric


@pytest.fixture(scope="module")
def fitted() -> StableClassifier:
    options = {
        **QUICK,
        "settings": None,
        "grid": {"gap": (0.1, 1.0)},
        "class_weight": "balanced",
    }
    return StableClassifier(**options).fit(*mixed())


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_there_and_back(fitted, saved):
    frame, y = mixed()
    again = StableClassifier.load(saved)
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    pd.testing.assert_frame_equal(again.explain(frame.head(3)), fitted.explain(frame.head(3)))
    assert again.score(frame, y) == fitted.score(frame, y)
    assert {**again.get_params(), "grid": 0} == {**fitted.get_params(), "grid": 0}
    for name in ("k_", "n_features_in_", "settings_", "sanity_", "encoding_"):
        assert getattr(again, name) == getattr(fitted, name)
    assert again.domain_.groups == fitted.domain_.groups
    assert torch.equal(again.domain_.upper, fitted.domain_.upper)
    assert again.classes_.dtype == fitted.classes_.dtype
    assert again.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    pd.testing.assert_frame_equal(again.candidates_, fitted.candidates_)
    pd.testing.assert_frame_equal(again.history_, fitted.history_)
    again.fit(frame, y)  # it is an estimator like any other


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 7]),
        np.array([0.5, 1.0]),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([10, 20, 30], dtype=np.int8),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_every_kind(labels, tmp_path):
    x, y = numeric(60)
    y = labels[(y + np.arange(60) % 2) if len(labels) == 3 else y]
    model = StableClassifier(**{**QUICK, "epochs": 1, "class_weight": {labels[0]: np.float32(2.0)}})
    if labels.dtype == float:
        y = np.where(y == 0.5, 0.0, 1.0)  # floats are labels where they are whole
        model.set_params(class_weight=None)
    model.fit(x, y).save(tmp_path)
    again = StableClassifier.load(tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.class_weight == model.class_weight
    assert not hasattr(again, "feature_names_in_")


def test_nothing_is_pickled(saved):
    assert sorted(path.suffix for path in saved.iterdir()) == [".json", ".safetensors"]
    model, information = r2et.checkpoints.load_model(saved)  # a folder like any other of r2et
    assert information["estimator"] == "StableClassifier"
    assert next(model.parameters()).dtype == torch.float64


def test_a_generator_is_not_saved(tmp_path):
    x, y = numeric(60)
    StableClassifier(**{**QUICK, "random_state": np.random.RandomState(0)}).fit(x, y).save(tmp_path)
    assert StableClassifier.load(tmp_path).random_state is None


def test_a_parameter_that_json_cannot_hold(tmp_path):
    x, y = numeric(60)
    model = StableClassifier(**QUICK).fit(x, y).set_params(class_weight=object())
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(tmp_path)


def changed(saved, change):
    path = saved / "checkpoint.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(version=99), "has checkpoint version 99, this r2et reads 1"),
        (lambda record: record["information"].update(estimator_version=1), "has version 1 of StableClassifier"),
        (
            lambda record: record["information"].update(estimator=None),
            "not a StableClassifier: use r2et.open_model",
        ),
        (lambda record: record["information"].pop("columns"), "is not a complete StableClassifier"),
        (lambda record: record["information"].pop("parameters"), "is not a complete StableClassifier"),
        (lambda record: record["information"]["parameters"].update(size=3), "unexpected keyword argument 'size'"),
        (lambda record: record["information"]["columns"].pop(), "the parts do not fit"),
        (lambda record: record["information"]["columns"][0].pop("mean"), "does not describe a column"),
        (lambda record: record["information"]["predicted"]["values"].pop(), "the parts do not fit"),
        (lambda record: record["information"]["predicted"].update(dtype="no type"), "not a complete"),
        (lambda record: record["information"].update(k=9), "the parts do not fit"),
        (lambda record: record["information"].update(sanity={}), "not a complete"),
        (lambda record: record["architecture"].update(features=5), "do not fit their architecture"),
        (lambda record: record["information"].update(settings=3), "not a complete"),
    ],
)
def test_files_that_cannot_be_used(saved, change, message):
    changed(saved, change)
    with pytest.raises(CheckpointError, match=message):
        StableClassifier.load(saved)


def test_broken_and_missing_files(saved):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        StableClassifier.load(saved / "elsewhere")
    weights = next(saved.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="truncated"):
        StableClassifier.load(saved)
    (saved / "checkpoint.json").write_text("{")
    with pytest.raises(CheckpointError, match="not a readable"):
        StableClassifier.load(saved)
    shutil.rmtree(saved)
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        StableClassifier.load(saved)


def test_pickles_too(fitted):
    frame, _ = mixed()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    pd.testing.assert_frame_equal(again.explain(frame.head(2)), fitted.explain(frame.head(2)))
