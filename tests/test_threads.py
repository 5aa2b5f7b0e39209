"""What one thread reads, certifies, attacks or smooths, other threads do not notice."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from r2et.attacks import BoundaryAttack, MinimalFlip
from r2et.certificates import certify
from r2et.enclosure import extract
from r2et.explainers import Activation, Gradient
from r2et.integrations import penalty
from r2et.objectives import R2ET
from r2et.validate import check, piecewise_linear, smooth
from tests.models_with_answers import generator, mlp, normal

#: seconds after which a thread that waits gives up, so that a test cannot hang
LONG = 30.0


class Gate:
    """Where a thread stops until it is told to go on; copies of a model have the same one."""

    def __init__(self):
        self.inside, self.open = Event(), Event()

    def __deepcopy__(self, memo):
        return self

    def stop_once(self):
        if not self.inside.is_set():
            self.inside.set()
            assert self.open.wait(LONG)


class Paused(nn.Module):
    """A net of two layers that stops in the middle of its first forward, until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(4, 5), nn.Softplus(), nn.Linear(5, 2)
        self.gate = Gate()
        self.double()

    def forward(self, x):
        h = self.act(self.first(x))
        self.gate.stop_once()
        return self.last(h)


def meanwhile(model, long, short):
    """Run `long(model)` up to the middle of a forward, then `short()`, then let it finish: what both return."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(long, model)
        assert model.gate.inside.wait(LONG)
        try:
            second = short()
        finally:
            model.gate.open.set()
        return running.result(LONG), second


class Called(nn.Module):
    """Calls functions, uses parameters of its own and a constant."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.tensor(0.3))
        self.double()

    def forward(self, x):
        return self.last(F.softplus(self.first(x)) * self.scale.exp()) + torch.tensor([0.5, 0.0]).double()


X = normal(3, 4, seed=1)
READERS = {
    "a network": lambda model: extract(model, torch.Size([4])).forward(X)[1],
    "a smooth copy": lambda model: smooth(model)(X),
    "piecewise linear": lambda model: torch.tensor(piecewise_linear(model, X)),
}
OTHERS = {
    "forward": lambda: mlp(4, seed=3)(X),
    "certificate": lambda: certify(mlp(4, seed=3), X, 2).radius,
    "attack": lambda: MinimalFlip(k=2, radius=1.0)(mlp(4, seed=3, activation=nn.ReLU), X[:1]).distance,
    "smooth copy": lambda: smooth(Called())(X).new_zeros(1),
}


@cache
def alone(other):
    return OTHERS[other]()


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("reader", READERS)
def test_other_models_run_while_one_is_read(reader, other):
    model = Paused()
    found, second = meanwhile(model, READERS[reader], OTHERS[other])
    assert torch.equal(found, READERS[reader](model))
    assert torch.equal(second, alone(other))


SHARED = {
    "forward": lambda model: model(X),
    "certificate": lambda model: certify(model, X, 2).radius,
    "findings": lambda model: torch.tensor(len(check(model, X, k=2).findings)),
    "piecewise linear": lambda model: torch.tensor(piecewise_linear(model, X)),
    "layer": lambda model: Activation(layer="first").attribute(model, X, torch.zeros(3).long()),
}


@pytest.mark.parametrize("second", SHARED)
@pytest.mark.parametrize("first", [*SHARED, *list(READERS)[:2]])
def test_two_threads_use_one_model(first, second):
    model = Paused().eval()
    run = {**SHARED, **READERS}[first]
    found, other = meanwhile(model, run, lambda: SHARED[second](model))
    assert torch.equal(found, run(model))
    assert torch.equal(other, SHARED[second](model))


def test_a_model_is_left_as_it_was():
    model = Called()
    before, registered = dict(vars(model)), {name: id(value) for name, value in model.named_parameters()}
    network = extract(model, torch.Size([4]), detach=False)
    assert vars(model).keys() == before.keys()
    assert {name: id(value) for name, value in model.named_parameters()} == registered
    assert torch.allclose(network.forward(X)[1], model(X))
    (slope,) = torch.autograd.grad(network.forward(X)[1].sum(), model.scale)
    assert torch.allclose(slope, torch.autograd.grad(model(X).sum(), model.scale)[0])


def jobs():
    """Work on models of many kinds, some of it on models that several jobs share."""
    pooled = nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 2), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(3, 2)
    ).double()
    with torch.no_grad():
        for p in pooled.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(5), dtype=torch.float64))
    shared = [mlp(4, 3, seed=1), mlp(4, seed=2, activation=nn.ReLU), pooled, Called()]
    for model in shared:
        model.eval()
    attacks = [
        lambda model: MinimalFlip(k=2, radius=1.0)(model, X[:1]).distance,
        lambda model: BoundaryAttack(k=2, radius=0.3, steps=2)(model, X).precision,
    ]
    kinds = [
        lambda model: certify(model, X, 2).limits,
        lambda model: smooth(model)(X),
        lambda model: Gradient()(model, X),
        lambda model: model(X),
    ]
    return [(kind, model) for kind in kinds for model in shared] + [(kind, shared[1]) for kind in attacks]


def test_four_threads_give_the_results_of_one():
    work = jobs()
    one_by_one = [kind(model) for kind, model in work]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job[0](job[1]), work))
    assert all(torch.equal(one, other) for one, other in zip(one_by_one, together, strict=True))


def test_the_kernel_of_attention_is_given_back_by_the_last_thread():
    """Each thread restores what it found would leave the math kernel set, or take it from the other one."""

    def state():
        return torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()

    before, seen = state(), []
    assert any(before)
    models = [Paused(), Paused()]
    objective = R2ET(k=2)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(penalty, objective, models[0], X)
        assert models[0].gate.inside.wait(LONG)
        second = pool.submit(penalty, objective, models[1], X)
        assert models[1].gate.inside.wait(LONG)
        models[0].gate.open.set()
        first.result(LONG)
        seen.append(state())
        models[1].gate.open.set()
        second.result(LONG)
    assert seen == [(False, False)], "the second thread is still at work"
    assert state() == before
