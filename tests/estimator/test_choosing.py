import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from r2et import StableClassifier
from r2et.attacks import WorstCase
from r2et.estimator import Sanity, choosing
from r2et.estimator.choosing import compare_with_linear
from r2et.explainers import ColumnEffects
from r2et.training import WeightedRows

from .frames import QUICK, mixed, numeric

SEARCHED = {**QUICK, "settings": None, "epochs": 8}


@pytest.fixture(scope="module")
def searched() -> StableClassifier:
    x, y = numeric(120)
    flipped = np.random.default_rng(0).random(120) < 0.1
    return StableClassifier(**SEARCHED).fit(x, np.where(flipped, 1 - y, y))


def test_the_grid_is_that_of_the_preset(searched):
    pairs = list(zip(searched.candidates_["gap"], searched.candidates_["curvature"], strict=True))
    assert pairs == [(0.1, 0.03), (0.1, 0.1), (1.0, 0.03), (1.0, 0.1)]


def test_the_rule_of_the_paper(searched):
    """The highest P@k of those within 0.01 of the vanilla model's AUC; else the most accurate."""
    table = searched.candidates_
    assert table["vanilla_auc"].nunique() == 1
    passes = table["validation_auc"] >= table["vanilla_auc"] - 0.01
    assert table["passed"].tolist() == passes.tolist()
    best = table[passes]["precision"].round(3).idxmax() if passes.any() else table["validation_auc"].idxmax()
    assert table.index[table["chosen"]].tolist() == [best]
    assert searched.settings_["gap"] == table["gap"][best]
    assert searched.settings_["curvature"] == table["curvature"][best]
    assert searched.sanity_.auc == table["validation_auc"][best]


@pytest.mark.parametrize(
    ("precision", "everyone", "expected"),
    [({0.1: 0.6, 1.0: 0.9}, True, 1.0), ({0.1: 0.9, 1.0: 0.6}, True, 0.1), ({0.1: 0.1, 1.0: 0.9}, False, 0.1)],
)
def test_the_winner_by_precision_unless_it_fails(monkeypatch, precision, everyone, expected):
    """Precisions are made up, and in the last case only the light weight passes."""
    judged = iter(precision)
    monkeypatch.setattr(choosing, "judge", lambda model, x, attack, limit, domain: precision[next(judged)])
    trained, made, thresholds = choosing.train_method, {}, []

    def train_method(name, train, validation, settings, **options):
        result = trained(name, train, validation, settings=settings, **options)
        thresholds.append(options["threshold"])
        made[settings.get("gap")] = result
        passed = name == "vanilla" or everyone or settings["gap"] == 0.1
        return dataclasses.replace(result, passed=passed)

    monkeypatch.setattr(choosing, "train_method", train_method)
    x, y = numeric()
    model = StableClassifier(**{**SEARCHED, "epochs": 2, "grid": {"gap": list(precision)}}).fit(x, y)
    assert model.settings_["gap"] == expected
    assert thresholds == [None, *[pytest.approx(made[None].auc - 0.01, abs=1e-12)] * 2]
    for name, value in model.model_.state_dict().items():
        torch.testing.assert_close(value, made[expected].model.state_dict()[name].double(), rtol=0, atol=0)


def test_candidates_are_judged_by_the_worst_case_inside_the_domain(monkeypatch):
    """For the columns that are shown."""
    seen = []

    def judge(model, x, attack, limit, domain):
        seen.append((attack, domain, x))
        return 0.5

    monkeypatch.setattr(choosing, "judge", judge)
    frame, y = mixed()
    model = StableClassifier(**{**SEARCHED, "epochs": 2, "grid": {"gap": [0.1, 1.0]}}).fit(frame, y)
    assert len(seen) == 2
    attack, domain, x = seen[0]
    assert isinstance(attack, WorstCase)
    assert attack.budget == "fast"
    assert attack.explainer == ColumnEffects(columns=model.encoding_.as_columns)
    assert domain is model.domain_
    model.encoding_.as_columns.check_rows(x)


def test_a_grid_of_ones_own():
    x, y = numeric()
    options = {
        **SEARCHED,
        "epochs": 2,
        "method": "est-h",
        "grid": {"weight": (0.01, 1.0), "difference": np.array([0.1])},
    }
    model = StableClassifier(**options).fit(x, y)
    assert model.candidates_[["weight", "difference"]].to_numpy().tolist() == [[0.01, 0.1], [1.0, 0.1]]


def test_one_candidate_needs_no_attack(monkeypatch):
    monkeypatch.setattr(choosing, "judge", lambda *_, **__: pytest.fail("there is nothing to compare"))
    x, y = numeric()
    model = StableClassifier(**{**SEARCHED, "epochs": 2, "method": "exact-h"}).fit(x, y)
    assert len(model.candidates_) == 1
    assert StableClassifier(**{**SEARCHED, "epochs": 2, "method": "vanilla"}).fit(x, y).candidates_.empty


# --- is a network needed? ---------------------------------------------------------------------------------------


def parts(x, y, weights=None):
    x, y = torch.tensor(x).float(), torch.tensor(y).long()
    return WeightedRows(x[:60], y[:60], None if weights is None else weights[:60]), WeightedRows(x[60:], y[60:])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_linear_model_is_scikit_learns(classes, weighted):
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=(100, 4))
    y = np.digitize(x[:, 0] + drawn.normal(size=100), [0.0] if classes == 2 else [-0.5, 0.5])
    weights = torch.tensor(np.where(x[:, 1] > 0, 0.01, 2.0)).float() if weighted else None
    train, validation = parts(x, y, weights)
    own = weights[:60].numpy() if weighted else None
    fitted = LogisticRegression(max_iter=300).fit(train.x.numpy(), train.y.numpy(), sample_weight=own)
    probability = fitted.predict_proba(validation.x.numpy())
    if classes == 2:
        expected = roc_auc_score(validation.y.numpy(), probability[:, 1])
    else:
        expected = roc_auc_score(validation.y.numpy(), probability, multi_class="ovr")
    assert compare_with_linear(train, validation, 0.9).linear_auc == pytest.approx(expected, abs=1e-9)


def test_sanity_on_a_plane_and_on_a_chessboard():
    x, y = numeric(150)
    plane = StableClassifier(**{**QUICK, "epochs": 20}).fit(x, y).sanity_
    assert plane.linear_is_as_good
    assert str(plane).startswith(f"A linear model is as good here (validation AUC {plane.linear_auc:.4f}")
    drawn = np.random.default_rng(0).normal(size=(300, 3))
    board = (drawn[:, 0] * drawn[:, 1] > 0).astype(int)
    options = {**QUICK, "k": 2, "epochs": 40, "hidden": (16,), "method": "vanilla"}
    found = StableClassifier(**options).fit(drawn, board).sanity_
    assert not found.linear_is_as_good
    assert found.auc > 0.9 > 0.7 > found.linear_auc
    assert str(found).startswith("A linear model is worse here")


@pytest.mark.parametrize(("linear", "good"), [(0.9951, True), (0.9949, False), (1.0, True)])
def test_as_good_is_within_the_margin(linear, good):
    assert Sanity(auc=1.0, linear_auc=linear).linear_is_as_good is good
