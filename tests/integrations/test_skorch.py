"""skorch: the same weights as a plain loop, and a grid search over the weight of the objective."""

import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import r2et
from r2et.integrations.skorch import StableNetClassifier
from tests.integrations.table import OBJECTIVE, network, plain_loop, rows, same_weights


def classifier(**options) -> StableNetClassifier:
    settings = {
        "objective": OBJECTIVE,
        "max_epochs": 3,
        "lr": 0.1,
        "batch_size": 64,
        "train_split": None,
        "verbose": 0,
        **options,
    }
    return StableNetClassifier(network(), **settings)


def test_the_weights_are_those_of_a_plain_loop():
    x, y = rows()
    net = classifier().fit(x.numpy(), y.numpy())
    expected = network()
    plain_loop(expected, x, y, steps=3)
    same_weights(net.module_, expected)
    assert net.predict_proba(x.numpy()).sum(1) == pytest.approx(1.0, abs=1e-6)


def test_without_an_objective_it_is_plain_training():
    x, y = rows()
    net = classifier(objective=None).fit(x.numpy(), y.numpy())
    expected = network()
    plain_loop(expected, x, y, steps=3)
    with pytest.raises(AssertionError):
        same_weights(net.module_, expected)


def test_settings_of_the_objective_are_parameters():
    x, y = rows()
    by_name = classifier(objective=r2et.objectives.R2ET(k=2), objective__gap=0.3, objective__curvature=0.2)
    assert by_name.used_objective() == OBJECTIVE
    assert clone(by_name).used_objective() == OBJECTIVE
    assert by_name.set_params(objective__gap=0.7).used_objective().gap == 0.7
    same_weights(
        classifier().fit(x.numpy(), y.numpy()).module_,
        by_name.set_params(objective__gap=0.3).fit(x.numpy(), y.numpy()).module_,
    )
    assert clone(by_name.set_params(objective__gap=0.9)).used_objective().gap == 0.9, "of a fitted one too"
    with pytest.raises(r2et.errors.InputError, match="'gapp': did you mean 'gap'"):
        by_name.set_params(objective__gapp=0.7)


def test_a_validation_split_is_not_regularised():
    x, y = rows()
    net = classifier(train_split=classifier().train_split, max_epochs=1)
    net.initialize()
    plain = torch.nn.functional.cross_entropy(net.module_(x), y)
    with torch.no_grad():
        assert float(net.get_loss(net.module_(x), y, X=x, training=False)) == pytest.approx(float(plain))
    assert float(net.get_loss(net.module_(x), y, X=x, training=True)) != pytest.approx(float(plain), abs=1e-4)


def test_a_grid_search_over_the_weight():
    x, y = rows()
    search = GridSearchCV(classifier(max_epochs=2), {"objective__gap": [0.1, 5.0]}, cv=2)
    search.fit(x.numpy(), y.numpy())
    assert search.best_params_["objective__gap"] in (0.1, 5.0)
    assert len(search.cv_results_["params"]) == 2


def test_an_objective_that_is_none_of_these():
    x, y = rows()
    with pytest.raises(r2et.errors.InputError, match="as the loss itself"):
        classifier(objective=r2et.objectives.AdversarialTraining(k=2)).fit(x.numpy(), y.numpy())


def test_a_weight_that_is_no_number_is_refused_where_it_is_set():
    with pytest.raises(r2et.errors.InputError, match="gap=nan"):
        StableNetClassifier(network(), objective=OBJECTIVE).set_params(objective__gap=float("nan"))
