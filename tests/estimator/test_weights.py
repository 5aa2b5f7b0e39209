"""Weights of rows: in the loss of every objective, in the loop of training, and in the estimator."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from r2et import StableClassifier, fit, objectives
from r2et.errors import InputError
from r2et.training import Settings, WeightedRows
from tests.models_with_answers import generator, mlp, normal
from tests.training.toy import net, problem, weights

from .frames import QUICK, mixed, numeric

X, Y = normal(10, 6), torch.arange(10) % 2
W = torch.arange(10).double()
ALL = [
    objectives.CrossEntropy(),
    objectives.R2ET(k=2),
    objectives.R2ET(k=2, every=2),
    objectives.EstimatedHessian(),
    objectives.ExactHessian(),
    objectives.SSR(),
    objectives.CertifiedRadius(k=2),
    objectives.DirectThickness(k=2),
]


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("objective", ALL, ids=lambda objective: type(objective).__name__)
def test_every_objective_weighs_its_classification_loss_and_nothing_else(objective, step):
    model = mlp()
    plain = objective.evaluate(model, X, Y, generator=generator(1), step=step)
    weighted = objective.evaluate(model, X, Y, generator=generator(1), step=step, weights=W)
    losses = F.cross_entropy(model(X), Y, reduction="none")
    by_hand = float(sum(w * loss for w, loss in zip(W.tolist(), losses.tolist(), strict=True))) / 10
    assert float(weighted.parts["cross-entropy"]) == pytest.approx(by_hand, rel=1e-12)
    difference = weighted.parts["cross-entropy"] - plain.parts["cross-entropy"]
    assert float((weighted.total - plain.total - difference).detach()) == pytest.approx(0, abs=1e-10)
    assert {n: float(v) for n, v in weighted.parts.items() if n != "cross-entropy"} == {
        n: float(v) for n, v in plain.parts.items() if n != "cross-entropy"
    }


def test_adversarial_training_weighs_its_loss():
    objective, model = objectives.AdversarialTraining(k=2, radius=0.3), mlp()
    only = torch.zeros(10).double()
    only[3] = 10.0
    alone = objective(model, X[3:4], Y[3:4])
    assert float(objective(model, X, Y, weights=only).detach()) == pytest.approx(float(alone.detach()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.ones(3), "one for each of 10 rows"),
        (torch.ones(10, dtype=torch.int64), "got torch.int64"),
        ([1.0] * 10, "floating-point tensor"),
        (torch.tensor([1.0] * 9 + [-2.0]), "got -2.0 in row 9"),
        (torch.tensor([float("nan")] + [1.0] * 9), "got nan in row 0"),
        (torch.zeros(10), "all 10 weights are zero"),
    ],
)
def test_weights_that_cannot_be_used(given, message):
    with pytest.raises(InputError, match=message):
        objectives.CrossEntropy()(mlp(), X, Y, weights=given)
    with pytest.raises(InputError, match=message):
        WeightedRows(X, Y, given)


def one_step(train, validation):
    model = net(dtype=torch.float64)
    made = fit(
        model,
        train,
        validation,
        settings=Settings(
            epochs=1,
            batch_size=1000,
            optimiser=lambda parameters: torch.optim.SGD(parameters, lr=0.5),
            accelerator="cpu",
        ),
    )
    return weights(model), made.records[0]


def test_a_weighted_step_is_a_step_on_repeated_rows():
    (x, y), validation = problem(20, dtype=torch.float64)
    times = torch.arange(20) % 4
    repeated = (x.repeat_interleave(times, 0), y.repeat_interleave(times))
    given = times.double() / times.double().mean()
    weighted, record = one_step(WeightedRows(x, y, given), validation)
    expected, expected_record = one_step(repeated, validation)
    for name, value in expected.items():
        torch.testing.assert_close(weighted[name], value, rtol=0, atol=1e-12)
    assert record["loss"] == pytest.approx(expected_record["loss"], rel=1e-12)
    plain, _ = one_step((x, y), validation)
    assert max(float((plain[name] - weighted[name]).abs().max()) for name in plain) > 1e-4


def test_the_validation_loss_is_weighted_and_the_auc_is_not():
    train, (x, y) = problem(20, dtype=torch.float64)
    given = torch.linspace(0, 2, len(x), dtype=torch.float64)
    model, record = one_step(train, WeightedRows(x, y, given))
    _, plain = one_step(train, (x, y))
    same = net(dtype=torch.float64)
    same.load_state_dict(model)
    expected = (given * F.cross_entropy(same(x), y, reduction="none")).mean()
    assert record["validation loss"] == pytest.approx(float(expected.detach()), rel=1e-12)
    assert record["validation auc"] == plain["validation auc"]


def test_weights_of_one_change_nothing():
    train, validation = problem(30)
    both = []
    for part in (train, WeightedRows(*train, torch.ones(30))):
        model = net()
        fit(model, part, validation, settings=Settings(epochs=2, batch_size=8, accelerator="cpu"))
        both.append(weights(model))
    for name, value in both[0].items():
        torch.testing.assert_close(both[1][name], value, rtol=0, atol=1e-6)


def test_a_weighted_step_is_not_compiled():
    train, validation = problem(30)
    rows = WeightedRows(*train, torch.linspace(0.5, 1.5, 30))
    with pytest.warns(UserWarning, match="the rows have weights"):
        fit(net(), rows, validation, settings=Settings(epochs=1, compile=True, accelerator="cpu"))


def test_other_weights_are_another_run(tmp_path):
    train, validation = problem(30)
    fit(net(), train, validation, settings=Settings(epochs=1, accelerator="cpu"), checkpoint=tmp_path)
    rows = WeightedRows(*train, torch.linspace(0.5, 1.5, 30))
    with pytest.raises(InputError, match="its data was"):
        fit(
            net(),
            rows,
            validation,
            settings=Settings(epochs=2, accelerator="cpu"),
            checkpoint=tmp_path,
            resume=True,
        )


def probabilities(x, y, sample_weight=None, **options):
    model = StableClassifier(**{**QUICK, **options}).fit(x, y, sample_weight=sample_weight)
    return model.predict_proba(x)


def test_a_row_of_weight_zero_is_not_there():
    x, y = mixed()
    kept = np.arange(len(x)) % 3 > 0
    with_zeros = StableClassifier(**QUICK).fit(x, y, sample_weight=kept.astype(float))
    without = StableClassifier(**QUICK).fit(x[kept], y[kept])
    np.testing.assert_array_equal(with_zeros.predict_proba(x), without.predict_proba(x))


def test_equal_weights_are_none():
    x, y = numeric()
    np.testing.assert_array_equal(probabilities(x, y, np.full(len(x), 7.0)), probabilities(x, y))


def test_only_the_ratio_of_weights_counts():
    x, y = numeric()
    given = np.linspace(0.5, 2.0, len(x))
    np.testing.assert_allclose(probabilities(x, y, given), probabilities(x, y, 1000 * given), rtol=1e-4)


def test_a_class_weight_is_the_weight_of_its_rows():
    x, y = mixed()
    rows = np.where(y == "refuse", 3.0, 1.0)
    by_class = probabilities(x, y, class_weight={"refuse": 3.0})
    np.testing.assert_array_equal(by_class, probabilities(x, y, rows))
    own = np.linspace(0.5, 2.0, len(x))
    both = probabilities(x, y, own, class_weight={"refuse": 3.0})
    np.testing.assert_array_equal(both, probabilities(x, y, own * rows))


def test_balanced_classes_have_equal_weight():
    x, y = mixed()
    rows = np.where(y == "refuse", 1 / (y == "refuse").sum(), 1 / (y == "accept").sum())
    balanced = probabilities(x, y, class_weight="balanced")
    np.testing.assert_allclose(balanced, probabilities(x, y, rows), rtol=1e-4)


@pytest.mark.parametrize("method", ["r2et-sf", "vanilla", "at", "linear"])
def test_a_heavy_class_is_predicted_more_often(method):
    x, y = numeric()
    y = np.random.default_rng(1).permutation(y)  # nothing to learn but the share of the classes
    light = StableClassifier(method=method, **{**QUICK, "epochs": 10}).set_params(class_weight={1: 0.1})
    heavy = StableClassifier(method=method, **{**QUICK, "epochs": 10}).set_params(class_weight={1: 10.0})
    assert heavy.fit(x, y).predict(x).mean() > light.fit(x, y).predict(x).mean() + 0.3
