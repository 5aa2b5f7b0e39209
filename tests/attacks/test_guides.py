"""How fast slopes turn, and which copies are followed."""

import pytest
import torch
from torch import nn

from r2et.attacks import NextFeatureAttack
from r2et.attacks.guides import SCHEDULES, guides, turning
from r2et.attacks.task import Task
from tests.models_with_answers import linear, mlp, normal, quadratic


def prepared(model, radius, rows=20, features=6):
    return Task.prepare(NextFeatureAttack(k=2, radius=radius), model, normal(rows, features, seed=4))


def softplus(beta):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 24), nn.Softplus(beta), nn.Linear(24, 2)).double()


def test_slopes_turn_more_the_farther_and_the_sharper():
    for beta in (1.0, 5.0):
        near, far = (turning(prepared(softplus(beta), radius)).missed for radius in (0.01, 1.0))
        assert float(near.median()) < float(far.median())
    soft, sharp = (turning(prepared(softplus(beta), 0.3)) for beta in (1.0, 1000.0))
    assert float(soft.missed.median()) < 0.2 < 0.9 < float(sharp.missed.median())
    assert soft.sloped.all()
    assert sharp.sharp.all()
    assert not turning(prepared(softplus(1.0), 0.001)).sharp.any()


def test_a_quadratic_score_has_the_same_slopes_everywhere_up_to_signs():
    """Its gradient is linear: at a small radius no sign of it changes and nothing is missed."""
    known = turning(prepared(quadratic(6), 1e-3))
    assert float(known.missed.median()) < 1e-6


def test_a_row_alone_gets_the_same_answer():
    task = prepared(softplus(20.0), 0.3)
    alone = turning(task.for_attack(task.attack, torch.tensor([7])))
    torch.testing.assert_close(alone.missed[0], turning(task).missed[7])


@pytest.mark.parametrize(
    ("model", "copies"), [(mlp(), len(SCHEDULES)), (softplus(1000.0), len(SCHEDULES) + 1), (softplus(2.0), 3)]
)
def test_every_copy_that_is_softer_is_followed(model, copies):
    task = prepared(model, 0.3)
    assert guides(task, sharp=False) == [(model,)]
    followed = guides(task, sharp=True)
    assert len(followed) == copies
    assert len(set(followed)) == copies


def test_a_model_that_has_no_softer_copy_is_followed_itself():
    model = linear()
    assert set(guides(prepared(model, 0.3), sharp=True)[0]) == {model}
