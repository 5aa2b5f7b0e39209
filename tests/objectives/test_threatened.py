"""Objectives under threats: against Hessians written out, and where their attacks and neighbours go."""

import pytest
import torch
from torch import nn

import r2et
from r2et.domain import without_gauge
from r2et.errors import CheckpointError, InputError
from r2et.objectives import (
    OBJECTIVES,
    R2ET,
    SSR,
    AdversarialTraining,
    CrossEntropy,
    DirectThickness,
    EstimatedHessian,
    ExactHessian,
)
from r2et.training import Settings
from tests.domain.test_reach import DOMAIN, GROUPS, table_rows
from tests.models_with_answers import generator, mlp

X, Y = table_rows(5), torch.tensor([0, 1, 0, 1, 1])
MOVABLE = [0, 7]


def hessian(model, row):
    """Of the probability of the predicted class, for the model without its gauge, (8, 8)."""
    free = without_gauge(model, DOMAIN, 8)
    c = int(model(row[None]).argmax())
    return torch.autograd.functional.hessian(lambda point: free(point[None]).softmax(1)[0, c], row)


@pytest.mark.parametrize("threat", ["domain", "tangent"])
def test_curvature_is_that_along_what_may_move(threat):
    model = mlp(n=8)
    known = {"domain": DOMAIN, "threat": threat}
    parts = [hessian(model, row)[:, MOVABLE if threat == "domain" else slice(None)] for row in X]
    plain = float(CrossEntropy()(model, X, Y).detach())
    exact = float(ExactHessian(**known)(model, X, Y).detach()) - plain
    assert exact == pytest.approx(float(torch.stack([part.norm() for part in parts]).mean()), abs=1e-10)
    largest = float(SSR(iterations=60, **known)(model, X, Y, generator=generator(1)).detach()) - plain
    expected = torch.stack([torch.linalg.matrix_norm(part, 2) for part in parts]).mean()
    assert largest == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("direction", ["gradient", "random", "adversarial"])
def test_differences_are_taken_within_reach(direction):
    model, seen = mlp(n=8), []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    objective = R2ET(k=3, direction=direction, domain=DOMAIN) if direction == "adversarial" else None
    objective = objective or EstimatedHessian(direction=direction, domain=DOMAIN)
    objective.evaluate(model, X, Y, generator=generator(1))
    moved = seen[-1] - X
    assert torch.equal(moved[:, 1:7], torch.zeros(5, 6).double())
    assert bool((moved.norm(dim=1) - 1e-2).abs().max() < 1e-12)


@pytest.mark.parametrize("threat", ["domain", "tangent", "paper"])
def test_adversarial_training_sees_what_the_attack_may_do(threat):
    model, seen = mlp(n=8), []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    AdversarialTraining(k=3, radius=0.7, domain=DOMAIN, threat=threat).evaluate(model, X, Y)
    attack = r2et.attacks.ERAttack(k=3, radius=0.7, steps=1, keep="last")
    assert torch.equal(seen[-1], attack(mlp(n=8), X, domain=DOMAIN, threat=threat).x)
    assert bool((seen[-1] - X)[:, 1:4].sum(1).abs().max() > 1e-3) == (threat == "paper")


def test_thickness_looks_at_neighbours_within_reach():
    model, seen = mlp(n=8), []
    model.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    DirectThickness(k=3, domain=DOMAIN).evaluate(model, X, Y, generator=generator(1))
    points = seen[-1].unflatten(0, (-1, 5))
    assert torch.equal(points[..., 1:7], X[:, 1:7].expand_as(points[..., 1:7]))
    assert bool((points[..., 0] != X[:, 0]).any())


def test_the_ranking_of_a_reference_has_no_gauge_either():
    model, reference = mlp(n=8), mlp(n=8, seed=5)
    free, free_reference = (without_gauge(net, DOMAIN, 8) for net in (model, reference))
    known = R2ET(k=3, reference=reference, domain=DOMAIN, threat="tangent")
    by_hand = R2ET(k=3, reference=free_reference)
    torch.testing.assert_close(known(model, X, Y), by_hand(free, X, Y), atol=1e-12, rtol=0)


def test_the_classification_loss_and_the_random_numbers_stay():
    model = mlp(n=8)
    state = torch.get_rng_state()
    loss = R2ET(k=3, domain=DOMAIN).evaluate(model, X, Y, generator=generator(1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(loss.parts["cross-entropy"], CrossEntropy()(model, X, Y).detach())


def test_the_penalty_is_that_of_the_objective():
    model, objective = mlp(n=8), R2ET(k=3, domain=DOMAIN)
    added = r2et.integrations.penalty(objective, model, X).total
    assert float(added) == pytest.approx(float((objective(model, X, Y) - CrossEntropy()(model, X, Y)).detach()))


def test_a_file_holds_the_domain():
    objective = R2ET(k=3, domain=DOMAIN, threat="tangent")
    back = OBJECTIVES.restore(OBJECTIVES.describe(objective))
    assert back.threat == "tangent"
    assert back.domain.groups == tuple(map(tuple, GROUPS))
    assert torch.equal(objective(mlp(n=8), X, Y), back(mlp(n=8), X, Y))


def test_a_run_is_not_resumed_in_another_domain(tmp_path):
    rows, how = (X, Y), Settings(epochs=1, seed=0)

    def train(objective, **options):
        model = nn.Linear(8, 2).double()
        return r2et.fit(model, rows, rows, objective, settings=how, checkpoint=tmp_path, **options)

    train(R2ET(k=3, domain=DOMAIN))
    train(R2ET(k=3, domain=DOMAIN), resume=True)
    for other in (R2ET(k=3), R2ET(k=3, domain=DOMAIN, threat="tangent")):
        with pytest.raises(CheckpointError, match="its domain was domain in"):
            train(other, resume=True)


def test_rows_that_do_not_exist_are_refused_before_training():
    objective, bad = R2ET(k=3, domain=DOMAIN), X + 1
    model = mlp(n=8)
    for call in (
        lambda: objective(model, bad, Y),
        lambda: r2et.integrations.penalty(objective, model, bad),
        lambda: r2et.fit(model, (bad, Y), (X, Y), objective, settings=Settings(epochs=1)),
    ):
        with pytest.raises(InputError, match="row 0 is not a row that exists"):
            call()
    with pytest.raises(InputError, match="domain="):
        SSR(threat="tangent")
