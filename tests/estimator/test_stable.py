"""What both estimators share, held against both."""

import numpy as np
import pytest

from r2et.estimator import StableClassifier, StableRegressor

from .frames import QUICK, mixed, numeric

BOTH = {
    StableClassifier: lambda rows: numeric(rows),
    StableRegressor: lambda rows: (numeric(rows)[0], numeric(rows)[0][:, 0] - 2 * numeric(rows)[0][:, 1]),
}


@pytest.mark.parametrize("kind", BOTH)
def test_the_shared_parameters_are_those_of_both(kind):
    model = kind(**QUICK)
    assert {name: model.get_params()[name] for name in QUICK} == QUICK
    other = {StableClassifier: "tolerance", StableRegressor: "class_weight"}[kind]
    assert other not in model.get_params()


@pytest.mark.parametrize("kind", BOTH)
def test_a_fit_that_fails_leaves_the_fitted_estimator_as_it_was(kind):
    x, y = BOTH[kind](60)
    model = kind(**QUICK).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(x, np.where(np.arange(60) == 3, np.nan, y.astype(float)))
    assert np.array_equal(model.predict(x), before)


@pytest.mark.parametrize("kind", BOTH)
def test_the_same_seed_gives_the_same_network_and_saving_keeps_it(kind, tmp_path):
    x, y = BOTH[kind](60)
    first, second = (kind(**QUICK).fit(x, y) for _ in range(2))
    assert np.array_equal(first.predict(x), second.predict(x))
    first.save(tmp_path)
    again = kind.load(tmp_path)
    assert np.array_equal(again.predict(x), first.predict(x))
    assert again.outputs == first.outputs == first.model_(first.encode(x)).shape[1]


def test_a_mixed_table_is_encoded_alike_by_both():
    frame, y = mixed()
    classifier = StableClassifier(**QUICK).fit(frame, y)
    regressor = StableRegressor(**QUICK).fit(frame, np.arange(float(len(frame))))
    assert classifier.encoding_.names == regressor.encoding_.names
    assert np.array_equal(classifier.encode(frame).numpy(), regressor.encode(frame).numpy())
