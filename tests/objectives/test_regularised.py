"""A regularised objective is its classification loss plus weighted terms; what depends on the mode is off."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from r2et.objectives import CrossEntropy, Regularised, Term
from r2et.objectives.regularised import evaluation_mode
from tests.models_with_answers import mlp, normal

X, Y = normal(5, 6, seed=1), torch.tensor([0, 1, 1, 1, 0])
W = torch.tensor([2.0, 0.0, 1.0, 0.5, 1.5]).double()


@dataclass(frozen=True, kw_only=True)
class TwoTerms(Regularised):
    """A term to shrink and one to enlarge, in even steps."""

    def active(self, step):
        return step is None or step % 2 == 0

    def terms(self, batch):
        return {
            "size": Term(batch.scores.square().sum(-1).mean(), 0.5),
            "margin": Term(batch.logits.diff(dim=1).abs().mean(), -2.0),
        }


@pytest.mark.parametrize("weights", [None, W], ids=["equal rows", "weighted rows"])
def test_the_total_is_the_weighted_sum_of_the_parts(weights):
    loss = TwoTerms().evaluate(mlp(), X, Y, weights=weights)
    plain = CrossEntropy().evaluate(mlp(), X, Y, weights=weights).total
    assert list(loss.parts) == ["cross-entropy", "size", "margin"]
    total = plain + 0.5 * loss.parts["size"] - 2 * loss.parts["margin"]
    torch.testing.assert_close(loss.total, total, rtol=1e-12, atol=0)


def test_a_step_that_is_not_active_is_the_classification_loss_alone():
    loss = TwoTerms().evaluate(mlp(), X, Y, step=1)
    assert list(loss.parts) == ["cross-entropy"]
    assert torch.equal(loss.total, CrossEntropy()(mlp(), X, Y))


def test_an_adaptive_weight_is_that_of_the_published_code():
    parts = TwoTerms().evaluate(mlp(), X, Y).parts
    expected = float(parts["cross-entropy"]) + (0.5 - 2.0) * (float(parts["cross-entropy"]) + 1)
    assert float(TwoTerms(adaptive=True)(mlp(), X, Y).detach()) == pytest.approx(expected, rel=1e-12)


class OwnDropout(nn.Linear):
    """A layer that drops by an attribute of its own."""

    dropout = 0.1


@pytest.mark.parametrize(
    ("layer", "depends"),
    [
        (nn.BatchNorm1d(3), True),
        (nn.Dropout(0.2), True),
        (nn.Dropout(0.0), False),
        (nn.LayerNorm(3), False),
        (nn.MultiheadAttention(4, 2, dropout=0.1), True),
        (nn.MultiheadAttention(4, 2), False),
        (OwnDropout(3, 3), True),
    ],
    ids=["batch norm", "dropout", "no dropout", "layer norm", "attention", "attention, no dropout", "own"],
)
def test_what_depends_on_the_mode_is_switched_off_and_on_again(layer, depends):
    model = nn.Sequential(nn.Linear(3, 3), layer).train()
    with evaluation_mode(model) as changed:
        assert changed == depends
        assert layer.training == (not depends)
    assert all(module.training for module in model.modules())
    layer.eval()
    with evaluation_mode(model) as changed:
        assert not changed
