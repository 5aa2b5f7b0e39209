"""The regularisers alone: the loss that is already there plus them is the objective."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import r2et
from r2et.integrations import penalty
from tests.integrations.table import OBJECTIVE, network, rows

objectives = r2et.objectives
OBJECTIVES = {
    "R2ET": OBJECTIVE,
    "boundary": objectives.R2ET(k=2, pairs="boundary", boundary_pairs=1),
    "gap only": objectives.R2ET(k=2, curvature=0.0),
    "scale-free": objectives.R2ET(k=2, scale_free=True, direction="gradient"),
    "Est-H": objectives.EstimatedHessian(weight=0.3),
    "Exact-H": objectives.ExactHessian(weight=0.3),
    "CL": objectives.CertifiedRadius(k=2, weight=0.3),
}


def gradients(loss: torch.Tensor, model: nn.Module) -> list[torch.Tensor]:
    # the last bias has no part in a slope
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_cross_entropy_and_penalty_are_the_objective(name):
    objective, model, (x, y) = OBJECTIVES[name], network(), rows()
    whole = objective(model, x, y)
    found = penalty(objective, model, x)
    parts = F.cross_entropy(model(x), y) + found.total
    torch.testing.assert_close(parts, whole)
    for ours, theirs in zip(gradients(parts, model), gradients(whole, model), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
    assert all(not value.requires_grad for value in found.parts.values())
    assert any(float(part.abs().max()) > 1e-4 for part in gradients(penalty(objective, model, x).total, model))


def test_nothing_is_added_between_regularised_steps():
    objective = objectives.R2ET(k=2, every=3)
    model, (x, _) = network(), rows()
    assert penalty(objective, model, x, step=1).total.item() == 0
    assert penalty(objective, model, x, step=3).total.item() != 0


def test_batch_norm_and_dropout_are_off_in_the_penalty_and_on_afterwards():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Softplus(), nn.Dropout(0.5), nn.Linear(8, 2))
    x, _ = rows()
    before = model[1].running_mean.clone()
    first, second = (penalty(OBJECTIVE, model, x).total.item() for _ in range(2))
    assert first == second
    assert torch.equal(model[1].running_mean, before)
    assert model.training
    assert model[3].training


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (objectives.AdversarialTraining(k=2), "as the loss itself"),
        (objectives.CrossEntropy(), "as the loss itself"),
        (objectives.R2ET(k=2, adaptive=True), "adaptive=False"),
    ],
)
def test_what_cannot_be_added(objective, words):
    with pytest.raises(r2et.errors.InputError, match=words):
        penalty(objective, network(), rows()[0])
