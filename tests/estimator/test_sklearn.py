"""scikit-learn's own checks, and life inside its pipelines and searches."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
)

from r2et import StableClassifier
from r2et.data.adult import COLUMNS

from .frames import QUICK, mixed

#: checks that fail, and why that is right
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 2 is one row in one batch and on one side of the validation split, two rows are not; the "
        "same holds for scikit-learn's SGDClassifier. test_weights.py shows that a full batch of weighted rows is "
        "exactly one of repeated rows, and that a row of weight 0 is exactly as if it were not there"
    )
}


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    quick = StableClassifier(k=2, settings={}, epochs=8, lr=0.05, hidden=(8,))
    found = check_estimator(quick, expected_failed_checks=EXPECTED, on_skip=None)
    status = {entry["check_name"]: entry["status"] for entry in found}
    assert len(status) > 50
    assert {name for name, value in status.items() if value not in ("passed", "skipped")} == set(EXPECTED)


@pytest.mark.filterwarnings("ignore")
def test_names_of_columns_are_checked():
    quick = StableClassifier(**{**QUICK, "k": 2, "epochs": 1})
    check_dataframe_column_names_consistency("StableClassifier", quick)


def test_importing_r2et_does_not_import_scikit_learn():
    code = "import sys, r2et; print('sklearn' in sys.modules, 'StableClassifier' in dir(r2et))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_clone_has_the_same_parameters_and_no_memory():
    model = StableClassifier(**{**QUICK, "grid": {"gap": (0.1,)}, "class_weight": {"accept": 2.0}})
    again = clone(model.fit(*mixed()))
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "model_")
    assert "StableClassifier(" in repr(again)


def test_the_defaults_on_breast_cancer():
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    train_x, test_x, train_y, test_y = train_test_split(x, y, random_state=0, stratify=y)
    model = StableClassifier(random_state=0).fit(train_x, train_y)
    assert model.k_ == 8
    assert len(model.candidates_) == 4
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train_x, train_y)
    theirs = roc_auc_score(test_y, linear.decision_function(test_x))
    ours = roc_auc_score(test_y, model.decision_function(test_x))
    assert ours > theirs - 0.015
    assert model.score(test_x, test_y) > 0.93
    assert model.sanity_.linear_is_as_good


def adult() -> tuple[pd.DataFrame, pd.Series]:
    """300 rows of Adult as they come, or where that is not on this machine a table of the same kinds."""
    path = Path(os.environ.get("R2ET_DATA", "nowhere")) / "adult" / "adult.data"
    if not path.is_file():
        return mixed(300)
    frame = pd.read_csv(path, names=list(COLUMNS), skipinitialspace=True, nrows=300)
    return frame.drop(columns=["income", "fnlwgt"]), frame["income"]


@pytest.mark.filterwarnings("ignore:column .* has values that were not there")
def test_grid_search_over_a_pipeline_of_mixed_columns():
    frame, y = adult()
    encode = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(), StandardScaler()),
                make_column_selector(dtype_include="number"),
            ),
            (
                "rest",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_exclude="number"),
            ),
        ]
    )
    inside = StableClassifier(**{**QUICK, "epochs": 10})
    search = GridSearchCV(
        make_pipeline(encode, inside),
        {"stableclassifier__settings": [{"gap": 0.1}, {"gap": 1.0}], "stableclassifier__k": [2, np.int64(3)]},
        cv=2,
        scoring="roc_auc",
        error_score="raise",
    ).fit(frame, y)
    assert search.best_score_ > 0.7
    best = search.best_estimator_
    assert best[-1].k_ == search.best_params_["stableclassifier__k"]
    assert set(best.predict(frame)) <= set(y)
    # columns of 0 and 1 are recognised: an attacker does not move them
    names = best[0].get_feature_names_out()
    movable = best[-1].domain_.reach("domain", len(names)).movable.numpy()
    assert set(names[movable]) == {name for name in names if name.startswith("numbers__")}


@pytest.mark.filterwarnings("ignore:column .* has values that were not there")
def test_grid_search_over_the_raw_frame():
    frame, y = adult()
    model = StableClassifier(**{**QUICK, "epochs": 10})
    search = GridSearchCV(model, {"method": ["r2et-sf", "linear"]}, cv=2, scoring="roc_auc", error_score="raise")
    assert search.fit(frame, y).best_score_ > 0.7
    found = search.best_estimator_.explain(frame.head(2))
    assert set(found["column"]) <= set(frame.columns)


def test_cross_validation_of_text_labels():
    frame, y = mixed()
    scores = cross_val_score(StableClassifier(**{**QUICK, "epochs": 10}), frame, y, cv=3, error_score="raise")
    assert scores.mean() > 0.6


def test_a_frame_from_a_column_transformer_keeps_its_names():
    frame, y = mixed()
    encode = ColumnTransformer([("job", OneHotEncoder(sparse_output=False), ["job"])], remainder="passthrough")
    pipeline = make_pipeline(encode, StableClassifier(**QUICK)).set_output(transform="pandas").fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist()[:3] == ["job__job_cook", "job__job_nurse", "job__job_pilot"]
    assert "remainder__grade: b" in pipeline[-1].encoding_.names


def test_weights_reach_through_a_pipeline():
    frame, y = mixed()
    weights = np.where(y == "refuse", 5.0, 1.0)
    pipeline = make_pipeline(StableClassifier(**QUICK)).fit(frame, y, stableclassifier__sample_weight=weights)
    alone = StableClassifier(**QUICK).fit(frame, y, sample_weight=weights)
    np.testing.assert_array_equal(pipeline.predict_proba(frame), alone.predict_proba(frame))
