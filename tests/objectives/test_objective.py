"""What every objective takes, what it passes on, and the classification loss that they share."""

import inspect
from dataclasses import dataclass, field

import pytest
import torch

from r2et.errors import InputError
from r2et.objectives import OBJECTIVES, R2ET, CrossEntropy, Loss, Objective
from r2et.objectives.objective import check_weights, classification_loss, mean_loss
from tests.models_with_answers import generator, mlp, normal

X, Y = normal(5, 6, seed=1), torch.tensor([0, 1, 1, 1, 0])
W = torch.tensor([2.0, 0.0, 1.0, 0.5, 1.5]).double()


@dataclass(frozen=True, kw_only=True)
class Noting(Objective):
    """Remembers what it was asked with."""

    asked: list = field(default_factory=list)

    def evaluate(self, model, x, y, **options):
        self.asked.append(options)
        return Loss(model(x).sum(), {})


class Unweighted(CrossEntropy):
    """Written without a thought of weights."""

    def evaluate(self, model, x, y, *, generator=None, step=None):
        return super().evaluate(model, x, y, generator=generator, step=step)


@pytest.mark.parametrize("name", ["cross-entropy", "r2et", "est-h", "exact-h", "ssr", "cl", "thickness", "at"])
def test_only_the_model_and_the_batch_go_by_position(name):
    kind = OBJECTIVES.find(name).thing
    for method in (kind.__call__, kind.evaluate):
        kinds = {key: parameter.kind for key, parameter in inspect.signature(method).parameters.items()}
        by_position = [key for key, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        assert by_position == ["self", "model", "x", "y"]
        assert set(kinds) - set(by_position) == {"generator", "step", "weights"}


def test_a_generator_by_position_is_refused():
    for call in (R2ET(k=2), R2ET(k=2).evaluate):
        with pytest.raises(TypeError, match="positional"):
            call(mlp(), X, Y, generator())


def test_options_reach_the_objective_as_they_are():
    objective, source = Noting(), generator(1)
    objective(mlp(), X, Y, generator=source, step=3, weights=W)
    objective(mlp(), X, Y)
    first, second = objective.asked
    assert first == {"generator": source, "step": 3, "weights": W}
    assert second == {"generator": None, "step": None}


def test_an_objective_without_weights_works_until_there_are_some():
    assert torch.equal(Unweighted()(mlp(), X, Y), CrossEntropy()(mlp(), X, Y))
    with pytest.raises(TypeError, match="weights"):
        Unweighted()(mlp(), X, Y, weights=W)


def test_weighted_cross_entropy_by_loops():
    logits = normal(5, 3, seed=2)
    rows = [float(row.exp().sum().log() - row[label]) for row, label in zip(logits, Y, strict=True)]
    weighted = sum(w * loss for w, loss in zip(W.tolist(), rows, strict=True)) / 5
    assert float(mean_loss(logits, Y)) == pytest.approx(sum(rows) / 5, rel=1e-12)
    assert float(mean_loss(logits, Y, weights=W)) == pytest.approx(weighted, rel=1e-12)
    loss = classification_loss(logits.requires_grad_(), Y, weights=W)
    assert loss.parts == {"cross-entropy": loss.total}
    assert loss.total.requires_grad
    assert not loss.parts["cross-entropy"].requires_grad


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (W[:4], r"each of 5 rows, got torch.float64 of shape \(4,\)"),
        (W.long(), "got torch.int64"),
        ([1.0] * 5, r"got \[1.0"),
        (W - 0.5, "got -0.5 in row 1"),
        (W / 0, "got inf in row 0"),
        (W * 0, "all 5 weights are zero"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(InputError, match=message):
        check_weights(weights, 5)
