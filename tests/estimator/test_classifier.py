import json
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import r2et
from r2et import StableClassifier
from r2et.errors import InputError
from r2et.recipes import METHODS

from .frames import QUICK, mixed, numeric


@pytest.fixture(scope="module")
def fitted() -> StableClassifier:
    return StableClassifier(**{**QUICK, "epochs": 15}).fit(*mixed())


@pytest.fixture(scope="module")
def three() -> tuple[StableClassifier, np.ndarray, np.ndarray]:
    x, y = numeric(90)
    y = y + (x[:, 3] > 5)
    return StableClassifier(**{**QUICK, "epochs": 15}).fit(x, y), x, y


# --- fitting ----------------------------------------------------------------------------------------------------


def test_what_fit_leaves_behind(fitted):
    frame, y = mixed()
    assert fitted.classes_.tolist() == ["accept", "refuse"]
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert fitted.n_features_in_ == 6
    assert fitted.k_ == 3
    assert fitted.settings_ == METHODS["r2et-sf"].defaults
    assert fitted.candidates_.empty
    assert len(fitted.history_) == 15
    assert fitted.score(frame, y) > 0.7
    assert fitted.model_.architecture["features"] == len(fitted.encoding_.names) == 8
    assert fitted.model_.architecture["hidden"] == [8]


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method):
    x, y = numeric(60)
    model = StableClassifier(**{**QUICK, "method": method, "epochs": 2}).fit(x, y)
    assert model.settings_ == METHODS[method].defaults
    kind = {"linear": "linear"}.get(method, "mlp")
    assert model.model_.architecture["name"] == kind
    if kind == "mlp":
        assert model.model_.architecture["activation"] == METHODS[method].activation
    assert model.explain(x[:2]).shape == (6, 6)


def test_given_settings_are_the_ones_that_train():
    x, y = numeric()
    weak, strong = (
        StableClassifier(**{**QUICK, "settings": {"gap": gap}, "epochs": 10}).fit(x, y) for gap in (0.0, 1.0)
    )
    assert strong.settings_ == {**METHODS["r2et-sf"].defaults, "gap": 1.0}
    assert "gap" not in weak.history_
    assert strong.history_["gap"].iloc[-1] > strong.history_["gap"].iloc[0]


def test_the_seed_decides_everything():
    x, y = numeric()
    torch.manual_seed(1)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    first, again, other = (
        StableClassifier(**{**QUICK, "random_state": seed}).fit(x, y).predict_proba(x) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])


def test_arrays_and_frames_train_the_same_model():
    x, y = numeric()
    frame = pd.DataFrame(x, columns=list("abcde"))
    by_array = StableClassifier(**QUICK).fit(x, y)
    by_frame = StableClassifier(**QUICK).fit(frame, pd.Series(y))
    np.testing.assert_array_equal(by_array.predict_proba(x), by_frame.predict_proba(frame))
    assert not hasattr(by_array, "feature_names_in_")
    assert by_array.encoding_.names == ("x0", "x1", "x2", "x3", "x4")
    assert by_frame.encoding_.names == tuple("abcde")


def test_an_array_of_objects_is_the_same_table(fitted):
    frame, y = mixed()
    by_array = StableClassifier(**{**QUICK, "epochs": 15}).fit(frame.to_numpy(dtype=object), y)
    np.testing.assert_array_equal(
        by_array.predict_proba(frame.to_numpy(dtype=object)), fitted.predict_proba(frame)
    )


def test_units_do_not_matter():
    """Scaling is inside: metres or millimetres, the model is the same."""
    x, y = numeric()
    first = StableClassifier(**QUICK).fit(x, y)
    second = StableClassifier(**QUICK).fit(1000 * x - 7, y)
    np.testing.assert_allclose(first.predict_proba(x), second.predict_proba(1000 * x - 7), rtol=1e-4)


def test_categorical_features_are_passed_on():
    frame, y = mixed()
    frame["zip"] = np.arange(len(frame)) % 3 + 7
    model = StableClassifier(**{**QUICK, "categorical_features": ["zip"]}).fit(frame, y)
    assert model.encoding_.names[-3:] == ("zip: 7", "zip: 8", "zip: 9")


@pytest.mark.parametrize(
    ("k", "columns", "expected"), [(8, 5, 4), (5, 5, 4), (4, 5, 4), (1, 5, 1), (8, 2, 1), (np.int64(2), 5, 2)]
)
def test_k_is_lowered_with_a_warning(k, columns, expected):
    x, y = numeric(60, columns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = StableClassifier(**{**QUICK, "k": k, "epochs": 1}).fit(x, y)
    told = [str(w.message) for w in caught if "lowered" in str(w.message)]
    assert model.k_ == expected
    assert len(told) == (k > expected)
    for sentence in told:
        assert f"k={k} is lowered to k_={expected}" in sentence


def test_k_counts_columns():
    frame, y = mixed()
    with pytest.warns(UserWarning, match="k=4 is lowered to k_=1: there are 2 columns"):
        model = StableClassifier(**{**QUICK, "k": 4, "epochs": 1}).fit(frame[["job", "grade"]], y)
    assert model.k_ == 1  # though there are four encoded features


# --- predicting -------------------------------------------------------------------------------------------------


def test_probabilities_decisions_and_labels_agree(fitted, three):
    frame, _ = mixed()
    probability, decision = fitted.predict_proba(frame), fitted.decision_function(frame)
    np.testing.assert_allclose(probability.sum(1), 1)
    np.testing.assert_allclose(decision, np.log(probability[:, 1] / probability[:, 0]), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(frame) == "refuse", decision > 0)
    model, x, _ = three
    assert model.decision_function(x).shape == (90, 3)
    np.testing.assert_array_equal(model.predict(x), model.decision_function(x).argmax(1))


def test_a_new_category_is_predicted_with_a_warning(fitted):
    frame = mixed()[0].head(3).copy()
    frame.iloc[0, 1] = "chef"
    with pytest.warns(UserWarning, match="'chef' in row 'person 0'"):
        assert len(fitted.predict(frame)) == 3


# --- explaining -------------------------------------------------------------------------------------------------


def test_explain_is_tidy(fitted):
    frame, _ = mixed()
    found = fitted.explain(frame.head(4), k=2)
    assert found.columns.tolist() == ["row", "rank", "column", "value", "score", "radius"]
    assert found["row"].tolist() == [f"person {i}" for i in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert found["rank"].tolist() == [1, 2] * 4
    assert (found.groupby("row")["radius"].nunique(dropna=False) == 1).all()
    shown = fitted.explain(frame.head(4), radius=False)
    assert shown.columns.tolist() == ["row", "rank", "column", "value", "score"]
    assert len(fitted.explain(frame.head(4))) == 4 * fitted.k_
    assert fitted.explain(frame.head(1).to_numpy(dtype=object))["row"].tolist() == [0, 0, 0]


def test_explain_says_how_alike_the_lists_are(fitted):
    found = fitted.explain(mixed()[0].head(20), k=2, radius=False)
    lists = [frozenset(group) for _, group in found.groupby("row", sort=False)[found.columns[2]]]
    pairs = [len(a & b) / 2 for a, b in combinations(lists, 2)]
    alike = found.attrs["individuality"]
    assert (alike["lists"], alike["distinct"]) == (20, len(set(lists)))
    assert alike["overlap"] == pytest.approx(sum(pairs) / len(pairs))
    assert json.loads(json.dumps(alike)) == alike


def test_explain_names_columns_with_the_persons_own_values(fitted):
    frame, _ = mixed()
    found = fitted.explain(frame, k=5, radius=False)
    assert set(found["column"]) <= set(frame.columns)
    for row, column, value in found[["row", "column", "value"]].itertuples(index=False):
        assert value == str(frame.loc[row, column])
    whole = fitted.explain(frame.astype({"age": float}), k=5, radius=False)
    assert whole["value"].tolist() == found["value"].tolist()


def test_scores_are_slopes_of_the_decision(fitted):
    """By finite differences in the person's own units: one standard deviation of a column is one unit."""
    frame, _ = mixed()
    frame = frame.astype({"age": float})
    scores = fitted.explain(frame, k=5, radius=False).set_index(["row", "column"])["score"]
    for column in ("age", "pay"):
        step = 1e-4 * frame[column].std(ddof=0)
        up, down = (frame.assign(**{column: frame[column] + sign * step}) for sign in (1, -1))
        slope = np.abs(fitted.decision_function(up) - fitted.decision_function(down)) / 2e-4
        for row, expected in zip(frame.index, slope, strict=True):
            if (row, column) in scores.index:
                assert scores[row, column] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_scores_of_categories_and_flags_are_differences_of_the_decision(fitted):
    """From the mean over all values of the column, weighted by how often they occur in fit."""
    frame, _ = mixed()
    scores = fitted.explain(frame, k=5, radius=False).set_index(["row", "column"])["score"]
    for column in ("job", "grade", "smokes", "owns"):
        mean = np.zeros(len(frame))
        for value, share in frame[column].value_counts(normalize=True).items():
            if share:
                mean += share * fitted.decision_function(frame.assign(**{column: value}))
        difference = np.abs(fitted.decision_function(frame) - mean)
        for row, expected in zip(frame.index, difference, strict=True):
            if (row, column) in scores.index:
                assert scores[row, column] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_value_that_was_not_there_in_fit_has_no_effect_to_tell(fitted):
    frame = mixed()[0].head(3).copy()
    frame.iloc[1, 1] = "chef"
    with (
        pytest.warns(UserWarning, match="'chef'"),
        pytest.raises(InputError, match="row 1 has no valid value of the category 'job'"),
    ):
        fitted.explain(frame)


def test_ranks_follow_scores(fitted):
    frame, _ = mixed()
    effects = r2et.explainers.ColumnEffects(columns=fitted.encoding_.as_columns)
    all_scores = effects(fitted.model_, fitted.encode(frame)).numpy()
    found = fitted.explain(frame, radius=False)
    for row, part in enumerate(np.split(found["score"].to_numpy(), len(frame))):
        np.testing.assert_allclose(part, np.sort(all_scores[row])[::-1][:3])


def test_a_linear_model_has_one_explanation_for_all():
    x, y = numeric()
    model = StableClassifier(**{**QUICK, "method": "linear", "epochs": 20}).fit(x, y)
    weight = model.model_.weight
    slopes = (weight[1] - weight[0]).abs()
    found = model.explain(x[:5])
    expected = [f"x{i}" for i in slopes.argsort(descending=True)[:3].tolist()]
    assert found["column"].tolist() == expected * 5
    np.testing.assert_allclose(found["score"], np.tile(np.sort(slopes.numpy())[::-1][:3], 5))
    assert np.isinf(found["radius"]).all()


def test_no_step_inside_the_radius_changes_the_list(three):
    model, x, _ = three
    encoded, found = model.encode(x[:20]), model.explain(x[:20])
    radius = torch.tensor(found["radius"].to_numpy()[::3])
    top = [set(columns) for columns in np.split(found["column"].to_numpy(), 20)]
    assert (radius > 0).all()
    source = torch.Generator().manual_seed(0)
    target = model.model_(encoded).argmax(1)
    for _ in range(20):
        direction = torch.randn(encoded.shape, generator=source, dtype=torch.float64)
        moved = encoded + 0.999 * radius[:, None] * direction / direction.norm(dim=1, keepdim=True)
        ranked = model.explainer_(model.model_, moved, target).topk(3).indices
        assert [{model.encoding_.column_names[i] for i in row} for row in ranked.tolist()] == top


def test_certify_is_that_of_r2et(three):
    model, x, _ = three
    ours = model.certify(x[:5], prediction=True)
    theirs = r2et.certify(model.model_, model.encode(x[:5]), 3, prediction=True, domain=model.domain_)
    assert torch.equal(ours.limits, theirs.limits)
    assert ours.sound
    names = np.array(model.encoding_.column_names)[ours.top.numpy()].ravel()
    assert model.explain(x[:5])["column"].tolist() == names.tolist()
    assert model.certify(x[:5], k=1).limits.shape == (5, 1)


def test_audit_is_that_of_r2et_inside_the_domain(fitted):
    frame, y = mixed()
    frame, y = frame.head(12), y.head(12)
    options = {"radii": (2.0,), "budget": "fast", "steps": 10}
    ours = fitted.audit(frame, y, **options)
    labels = torch.tensor((y == "refuse").to_numpy()).long()
    x = fitted.encode(frame)
    effects = r2et.explainers.ColumnEffects(columns=fitted.encoding_.as_columns)
    theirs = r2et.audit(fitted.model_, x, labels, k=3, domain=fitted.domain_, explainer=effects, **options)
    # the columns' own units are known to the classifier alone
    assert {**ours.to_dict(), "examples": []} == theirs.to_dict()
    assert ours.accuracy == pytest.approx(fitted.score(frame, y))
    assert ours.feature_names == tuple(frame.columns)
    assert ours.samples.row_names == tuple(frame.index)
    paper = fitted.audit(frame, y, threat="paper", **options)
    assert paper.feature_names == fitted.encoding_.names
    assert paper.worst.precision < ours.worst.precision


def test_a_table_of_categories_alone_can_be_audited():
    frame, y = mixed()
    model = StableClassifier(**QUICK).fit(frame[["job", "grade"]], y)
    report = model.audit(frame[["job", "grade"]].head(6), y.head(6), radii=(0.5,), budget="fast", steps=5)
    assert (report.to_frame()["precision"] == 1).all()  # there is nothing that an attacker can move


def test_several_classes_are_explained_and_certified(three):
    model, x, y = three
    found = model.explain(x[:4])
    assert len(found) == 12
    assert (found["radius"] >= 0).all()
    assert model.audit(x[:6], y[:6], radii=(0.1,), budget="fast", steps=5).rows == 6


# --- what cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, got k=0"),
        ({"k": "3"}, "got k='3'"),
        ({"method": "r2et-fs"}, "unknown method 'r2et-fs': did you mean 'r2et-sf'"),
        ({"settings": {"gapp": 1.0}}, "'gapp': did you mean 'gap'"),
        ({"settings": {"gap": "x"}}, r"settings\['gap'\] must be a finite number, got settings\['gap'\]='x'"),
        ({"settings": {"gap": float("nan")}}, r"settings\['gap'\] must be a finite number"),
        ({"settings": [1]}, r"settings must be a dict of hyper-parameters, got \[1\]"),
        ({"settings": None, "grid": {"gap": []}}, r"grid\['gap'\] must be a list of values"),
        ({"settings": None, "grid": {"gap": "12"}}, r"grid\['gap'\] must be a list of values"),
        ({"settings": None, "grid": {"weight": [1.0]}}, "unknown hyper-parameter of R2ET scale-free 'weight'"),
        ({"method": "vanilla", "settings": {"gap": 1.0}}, "unknown hyper-parameter of Vanilla 'gap'"),
        ({"hidden": ()}, r"hidden must be a list of widths such as \(32,\), got \(\)"),
        ({"hidden": 32}, "hidden must be a list of widths"),
        ({"hidden": None}, "hidden must be a list of widths"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got epochs=0"),
        ({"lr": -1.0}, "lr must be a positive, finite number, got lr=-1.0"),
        ({"lr": "fast"}, "lr must be a positive, finite number, got lr='fast'"),
        ({"batch_size": "x"}, "batch_size must be a whole number"),
        ({"patience": 0}, "patience must be a whole number"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a share below 1"),
        ({"radius": 0.0}, "radius must be a positive"),
        ({"categorical_features": ["zip"]}, "categorical_features names 'zip', but the columns are 'age'"),
        ({"class_weight": "fair"}, "class_weight is \"balanced\" or a dict of classes, got 'fair'"),
        ({"class_weight": {"maybe": 1.0}}, "class_weight names 'maybe', the classes are 'accept', 'refuse'"),
        (
            {"class_weight": {"accept": -1}},
            r"class_weight\['accept'\] must be a finite number of at least 0, got .*-1",
        ),
        ({"class_weight": {"accept": 0}}, "rows of positive weight have one class, 'refuse'"),
    ],
)
def test_parameters_that_cannot_be_used(given, message):
    model = StableClassifier(**{**QUICK, **given})  # storing them is no error: that is scikit-learn's rule
    with pytest.raises(InputError, match=message):
        model.fit(*mixed())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 3, r"one weight for each of 90 rows, got shape \(3,\)"),
        (3.0, r"got shape \(\)"),
        ([-1.0] + [1.0] * 89, "must not be negative, got -1.0 in row 0"),
        ([0.0] * 90, "all weights of rows are zero"),
        ([np.nan] + [1.0] * 89, "sample_weight contains NaN"),
    ],
)
def test_weights_that_cannot_be_used(weights, message):
    with pytest.raises(ValueError, match=message):
        StableClassifier(**QUICK).fit(*mixed(), sample_weight=weights)


def test_labels_that_cannot_be_used(fitted):
    frame, y = mixed()
    with pytest.raises(InputError, match="4 labels for 90 rows"):
        StableClassifier(**QUICK).fit(frame, y.head(4))
    with pytest.raises(InputError, match="have one class, 'accept'"):
        StableClassifier(**QUICK).fit(frame, ["accept"] * 90)
    with pytest.raises(InputError, match=r"two classes need at least two rows each.* 'accept' 89, 'refuse' 1"):
        StableClassifier(**QUICK).fit(frame, ["refuse"] + ["accept"] * 89)
    with pytest.raises(InputError, match=r"label 'maybe' in row 1.* is not among the classes 'accept', 'refuse'"):
        fitted.audit(frame.head(2), ["accept", "maybe"])
    with pytest.raises(InputError, match="1 labels for 2 rows"):
        fitted.audit(frame.head(2), ["accept"])


def test_tables_that_cannot_be_used(fitted):
    frame, y = mixed()
    with pytest.raises(InputError, match="several columns called 'age'"):
        StableClassifier(**QUICK).fit(pd.concat([frame, frame[["age"]]], axis=1), y)
    with pytest.raises(InputError, match=r"X has 1 feature\(s\) .'age'"):
        StableClassifier(**QUICK).fit(frame[["age"]], y)
    with pytest.raises(InputError, match="it needs at least one row"):
        fitted.predict(frame.head(0))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        fitted.predict(frame[frame.columns[::-1]])
    with pytest.raises(InputError, match="k must be at least 1 and less than the 6 features"):
        fitted.explain(frame, k=9)


def test_a_row_of_an_error_is_the_row_of_the_table():
    frame, y = mixed()
    frame.loc["person 7", "pay"] = np.inf
    weights = np.where(np.arange(90) < 5, 0.0, 1.0)  # the first rows are left out
    with pytest.raises(InputError, match=r"column 'pay' has infinite values, first inf in row 'person 7'"):
        StableClassifier(**QUICK).fit(frame, y, sample_weight=weights)


def test_a_fit_that_fails_leaves_the_old_model():
    frame, y = mixed()
    model = StableClassifier(**QUICK)
    with pytest.raises(InputError, match="no value in any of 90 rows"):
        model.fit(frame.assign(pay=np.nan), y)
    with pytest.raises(NotFittedError):
        model.predict(frame)
    before = model.fit(frame, y).predict_proba(frame)
    with pytest.raises(InputError, match="no value in any of 90 rows"):
        model.fit(frame.assign(pay=np.nan), np.where(y == "accept", "yes", "no"))
    assert model.classes_.tolist() == ["accept", "refuse"]
    np.testing.assert_array_equal(model.predict_proba(frame), before)


@pytest.mark.parametrize("call", ["predict", "predict_proba", "decision_function", "explain", "certify", "encode"])
def test_before_fit(call):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(StableClassifier(), call)(mixed()[0])


def test_before_fit_there_is_nothing_to_audit_or_save(tmp_path):
    with pytest.raises(NotFittedError):
        StableClassifier().audit(*mixed())
    with pytest.raises(NotFittedError):
        StableClassifier().save(tmp_path)


# --- what must not go wrong in silence --------------------------------------------------------------------------


def test_a_fit_that_fails_leaves_the_classifier_as_it_was():
    frame, y = mixed()
    fitted = StableClassifier(**QUICK).fit(frame, y)
    before = fitted.predict_proba(frame)
    other = frame.rename(columns={"age": "size"})
    with pytest.raises(InputError, match="one class"):
        fitted.fit(other, np.full(len(other), "accept"))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert (fitted.predict_proba(frame) == before).all()
    with pytest.raises(InputError, match="feature names should match"):
        fitted.predict(other)


def test_columns_without_names_of_text_are_compared_too():
    """scikit-learn compares names only if all of them are text: swapped columns would be read as each other."""
    x, y = numeric()
    for columns in (range(5), [("a", i) for i in range(5)]):
        frame = pd.DataFrame(x)
        frame.columns = pd.Index(columns) if isinstance(columns, range) else pd.MultiIndex.from_tuples(columns)
        fitted = StableClassifier(**QUICK).fit(frame, y)
        assert len(fitted.predict(frame)) == len(frame)
        with pytest.raises(InputError, match="same order"):
            fitted.predict(frame.iloc[:, [1, 0, 2, 3, 4]])
    on_arrays = StableClassifier(**QUICK).fit(x, y)
    assert len(on_arrays.predict(pd.DataFrame(x))) == len(x), "an array has no names to compare with"


def test_rows_are_called_by_plain_numbers():
    x, y = numeric()
    frame = pd.DataFrame(x, columns=list("abcde"), index=np.arange(len(x)))
    frame.iloc[7, 2] = np.inf
    with pytest.raises(InputError, match=r"in row 7:"):
        StableClassifier(**QUICK).fit(frame, y)
