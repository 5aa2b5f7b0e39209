"""Which networks an estimator trains, and how by default."""

import numpy as np
import pytest
import torch

from r2et import StableClassifier
from r2et.errors import InputError
from r2et.estimator.networks import schedule_of

from .frames import mixed

BRIEF = {"k": 2, "settings": {}, "epochs": 2, "random_state": 0}
AUTOMATIC = {"epochs": "auto", "lr": "auto", "batch_size": "auto", "patience": 10}


def test_an_additive_network_starts_where_the_rows_are():
    frame, y = mixed()
    model = StableClassifier(**{**BRIEF, "epochs": 1, "lr": 1e-12}, network="additive").fit(frame, y)
    knots = -model.model_.shift / model.model_.steepness
    x = model.encode(frame)[:, model.model_.numeric]
    assert model.model_.architecture["name"] == "additive"
    assert model.model_.groups == [[1, 2, 3]]
    assert model.encoding_.as_columns.continuous.nonzero().flatten().tolist() == model.model_.numeric
    assert (knots >= x.amin(0)[:, None] - 1e-5).all()
    assert (knots <= x.amax(0)[:, None] + 1e-5).all()
    # half of them are quantiles, which a random start would not hit
    assert torch.equal(knots[0].sort().values.diff() >= 0, torch.ones(15, dtype=torch.bool))
    assert (
        float((knots[:, 0::2] - x.quantile((torch.arange(16).double() + 0.5)[0::2] / 16, dim=0).T).abs().max())
        < 0.5
    )


def test_by_default_an_additive_network_is_trained_plainly_and_an_mlp_is_not():
    frame, y = mixed()
    plain = StableClassifier(k=2, network="additive", epochs=1).fit(frame, y)
    assert plain.settings_ == {}
    assert plain.candidates_.empty
    hardened = StableClassifier(k=2, settings={"gap": 0.1}, epochs=1).fit(frame, y)
    assert hardened.settings_["gap"] == 0.1
    assert hardened.model_.architecture["name"] == "mlp"


def test_scale_free_training_of_an_additive_network():
    frame, y = mixed()
    options = {**BRIEF, "settings": {"gap": 1.0, "beta": 3.0}, "epochs": 8}
    model = StableClassifier(**options, network="additive", method="r2et-sf").fit(frame, y)
    assert model.model_.architecture["name"] == "additive"
    assert model.model_.architecture["beta"] == model.settings_["beta"] == 3.0
    assert "gap" in model.history_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "additiv"}, "unknown network 'additiv': did you mean 'additive'"),
        ({"network": None}, "unknown network None"),
        ({"network": "additive", "method": "linear"}, "is a linear model"),
    ],
)
def test_networks_that_there_are_not(options, message):
    with pytest.raises(InputError, match=message):
        StableClassifier(**{**BRIEF, **options}).fit(*mixed())


@pytest.mark.parametrize(
    ("network", "rows", "expected"),
    [
        ("mlp", 10_000, (100, 1e-2, 256, False)),
        ("mlp", 100, (100, 1e-2, 32, False)),
        ("additive", 10_000, (40, 3e-2, 512, True)),
        ("additive", 1000, (40, 3e-2, 200, True)),
    ],
)
def test_what_auto_stands_for(network, rows, expected):
    schedule = schedule_of({**AUTOMATIC, "network": network}, rows)
    assert (schedule.epochs, schedule.lr, schedule.batch_size, schedule.annealed) == expected
    own = schedule_of({"epochs": 3, "lr": 0.5, "batch_size": 7, "patience": None, "network": network}, rows)
    assert (own.epochs, own.lr, own.batch_size, own.patience) == (3, 0.5, 7, None)


@pytest.mark.parametrize("options", [{"epochs": "many"}, {"lr": "fast"}, {"epochs": 0}, {"lr": np.nan}])
def test_schedules_that_there_are_not(options):
    with pytest.raises(InputError, match=next(iter(options))):
        StableClassifier(**{**BRIEF, **options}).fit(*mixed())


def test_an_additive_network_bends_where_a_line_cannot():
    """A class in the middle of one column."""
    x = np.random.default_rng(0).normal(size=(400, 2))
    y = np.abs(x[:, 0]) < 0.7
    model = StableClassifier(k=1, network="additive", random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9
    assert not model.sanity_.linear_is_as_good
