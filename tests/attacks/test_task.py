"""The task: frozen, shared by attacks of one explainer, and copied before an attack gets it."""

from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import BoundaryAttack, ERAttack, Task
from r2et.errors import InputError, ModelError
from r2et.explainers import Gradient, GradientTimesInput, IntegratedGradients
from tests.models_with_answers import mlp, normal

ATTACK = ERAttack(k=2, radius=0.5, steps=3)


def test_one_pass_gives_logits_class_and_explanation():
    model, x = mlp(activation=nn.Tanh), normal(4, 6)
    passes = []
    model.register_forward_pre_hook(lambda layer, args: passes.append(len(args[0])))
    task = Task.prepare(ATTACK, model, x)
    assert passes == [4]
    assert torch.equal(task.logits, model(x).detach())
    assert torch.equal(task.target, task.logits.argmax(1))
    assert torch.equal(task.before, Gradient()(model, x))
    assert not task.before.requires_grad


def test_a_task_cannot_be_changed():
    task = Task.prepare(ATTACK, mlp(), normal(4, 6))
    with pytest.raises(FrozenInstanceError):
        task.model = mlp(seed=9)


def test_a_copy_shares_no_tensor():
    task = Task.prepare(ATTACK, mlp(), normal(4, 6))
    own = task.copied()
    for name in ("x", "logits", "target", "before"):
        assert torch.equal(getattr(own, name), getattr(task, name))
        assert getattr(own, name).data_ptr() != getattr(task, name).data_ptr()
    top = task.top.clone()
    own.top.logical_not_()
    assert torch.equal(task.top, top)


def test_some_rows_for_another_attack():
    model, x = mlp(), normal(4, 6)
    task = Task.prepare(ATTACK, model, x)
    attack = BoundaryAttack(k=2, radius=0.1)
    part = task.for_attack(attack, torch.tensor([2, 0]))
    assert part.attack is attack
    assert torch.equal(part.x, x[[2, 0]])
    assert torch.equal(part.before, task.before[[2, 0]])
    assert part.inspected is task.inspected


def test_attacks_on_a_shared_task_find_what_they_find_alone():
    model, x, domain = mlp(activation=nn.ReLU), normal(6, 6, seed=4), Domain(frozen=[1], lower=-2.0)
    task = Task.prepare(ATTACK, model, x, reach=domain.reach("domain", 6), seed=3)
    for attack in (ATTACK, BoundaryAttack(k=2, radius=0.5, steps=5, restarts=2)):
        shared = attack.on([task], [0.5, 0.2])
        alone = [replace(attack, radius=0.2)(model, x, domain=domain, seed=3)]
        assert torch.equal(shared[1].x, alone[0].x)
        assert torch.equal(shared[1].precision, alone[0].precision)
        assert [len(result.x) for result in shared] == [6, 6]


def test_an_attack_on_another_explanation_needs_a_task_of_its_own():
    task = Task.prepare(ATTACK, mlp(), normal(4, 6))
    assert task.for_attack(replace(ATTACK, explainer=Gradient())).before is task.before
    with pytest.raises(InputError, match=r"prepared for Gradient.*ERAttack attacks GradientTimesInput"):
        task.for_attack(replace(ATTACK, explainer=GradientTimesInput()))


def test_baselines_that_print_alike_are_told_apart():
    def attack(middle: float) -> ERAttack:
        # torch prints the ends of a long tensor only
        baseline = torch.zeros(2000)
        baseline[1000] = middle
        return replace(ATTACK, explainer=IntegratedGradients(baseline=baseline))

    assert repr(attack(0.0)) == repr(attack(1.0))
    task = Task.prepare(attack(0.0), nn.Linear(2000, 2).double(), normal(1, 2000))
    assert task.for_attack(attack(0.0)).before is task.before
    with pytest.raises(InputError, match="prepared for IntegratedGradients"):
        task.for_attack(attack(1.0))


def test_probabilities_are_refused():
    model = nn.Sequential(mlp(), nn.Softmax(1))
    with pytest.raises(ModelError, match="probabilities"):
        Task.prepare(ATTACK, model, normal(4, 6))


def test_whole_numbers_never_leave_the_budget():
    """Almost eight steps and a little of another feature fill the budget: eight whole steps would not fit."""
    reach = Domain(unit=torch.tensor([0.25, 0.0, 0.0])).reach("domain", 3)
    attack, x = BoundaryAttack(k=1, radius=2.0), torch.zeros(2, 3, dtype=torch.float64)
    task = Task.prepare(attack, mlp(3), x, reach=reach)
    almost = 7.99995 * 0.25
    points = torch.tensor([[almost, (4 - almost**2) ** 0.5, 0.0], [almost, 0.0, 0.0]], dtype=torch.float64)
    rounded = task.rounded(points)
    assert rounded[:, 0].tolist() == [1.75, 2.0]
    assert (task.distance(rounded) <= 2.0).all()
