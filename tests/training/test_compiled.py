import copy
import warnings

import pytest
import torch
from torch import nn

from r2et import fit
from r2et.objectives import R2ET, AdversarialTraining, CrossEntropy
from r2et.training import Settings
from r2et.training.compiled import CompiledStep
from tests.training.toy import distance, net, problem, remembering, same, weights

TRAIN, VALIDATION = problem(rows=40)
DOUBLE = problem(rows=40, dtype=torch.float64)


@pytest.fixture
def traced_only(monkeypatch):
    """Leave out the compiler: the traced graph is run as it is, which takes no time to build."""
    monkeypatch.setattr(torch, "compile", lambda graph: graph)


@pytest.mark.parametrize(
    "objective",
    [
        pytest.param(CrossEntropy(), marks=pytest.mark.slow, id="plain"),
        pytest.param(R2ET(k=2, direction="gradient"), id="r2et"),
    ],
)
def test_a_compiled_run_equals_an_eager_one(objective):
    eager, compiled = remembering(), remembering()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="compile=True")
        for (trainer, _), option in ((eager, False), (compiled, True)):
            fit(
                net(),
                TRAIN,
                VALIDATION,
                objective,
                settings=Settings(epochs=3, batch_size=20, compile=option),
                trainer=trainer,
            )
    assert len(eager[1]) == len(compiled[1]) == 3
    assert distance(eager[1][2], weights(net())) > 0.01
    for a, b in zip(eager[1], compiled[1], strict=True):
        assert distance(a, b) < 1e-5


@pytest.mark.parametrize(
    "objective",
    [
        CrossEntropy(),
        R2ET(k=2, direction="gradient"),
        R2ET(k=2, every=2),
        R2ET(k=2, reference=net(seed=4).double()),
    ],
    ids=["plain", "r2et", "every second step", "reference"],
)
def test_the_traced_step_is_the_eager_step(traced_only, objective):
    results = [
        fit(
            net(dtype=torch.float64),
            *DOUBLE,
            objective,
            settings=Settings(epochs=3, batch_size=15, compile=compiled),
        )
        for compiled in (False, True)
    ]
    assert distance(*(weights(result.model) for result in results)) < 1e-12
    for a, b in zip(results[0].records, results[1].records, strict=True):
        assert a.keys() == b.keys()
        assert {name: value for name, value in a.items() if name != "seconds"} == pytest.approx(
            {name: value for name, value in b.items() if name != "seconds"}, abs=1e-10
        )


def test_a_traced_step_sets_loss_parts_and_gradients(traced_only):
    model, objective = net(dtype=torch.float64), R2ET(k=2, gap=0.5, curvature=0.2)
    eager = copy.deepcopy(model)
    expected = objective.evaluate(eager, *DOUBLE[0])
    expected.total.backward()
    found = CompiledStep(objective, model)(*DOUBLE[0], step=0)
    assert found.total == pytest.approx(expected.total.item(), abs=1e-12)
    assert found.parts.keys() == expected.parts.keys()
    for name in found.parts:
        assert float(found.parts[name]) == pytest.approx(float(expected.parts[name]), abs=1e-12), name
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-12)


def test_frozen_parameters_stay_frozen(traced_only):
    def partly_frozen() -> nn.Module:
        model = net()
        model[0].requires_grad_(False)
        return model

    results = [
        fit(partly_frozen(), TRAIN, VALIDATION, settings=Settings(epochs=3, compile=compiled)).model
        for compiled in (False, True)
    ]
    for result in results:
        assert torch.equal(result[0].weight, net()[0].weight)
        assert not torch.equal(result[2].weight, net()[2].weight)
    assert distance(weights(results[0]), weights(results[1])) < 1e-6


def test_random_directions_are_drawn_anew_in_every_step(traced_only):
    model, objective = net(), R2ET(k=2, scale_free=True, difference=1.0)
    step = CompiledStep(objective, model)
    values = {float(step(*TRAIN, step=0).parts["curvature"]) for _ in range(5)}
    assert len(values) == 5


def test_batch_norm_is_not_compiled_and_the_warning_says_why():
    def model() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Softplus(), nn.Linear(4, 2))

    with pytest.warns(UserWarning, match=r"compile=True was not possible: .*BatchNorm.*uncompiled"):
        result = fit(model(), TRAIN, VALIDATION, settings=Settings(epochs=2, batch_size=20, compile=True))
    eager = fit(model(), TRAIN, VALIDATION, settings=Settings(epochs=2, batch_size=20))
    assert same(weights(result.model), weights(eager.model))


def test_adversarial_training_is_not_compiled_and_the_warning_says_why():
    objective = AdversarialTraining(k=2, radius=0.3)
    with pytest.warns(
        UserWarning, match=r"compile=True was not possible: AdversarialTraining cannot be traced: \w+"
    ):
        result = fit(net(), TRAIN, VALIDATION, objective, settings=Settings(epochs=2, batch_size=20, compile=True))
    eager = fit(net(), TRAIN, VALIDATION, objective, settings=Settings(epochs=2, batch_size=20))
    assert same(weights(result.model), weights(eager.model))
    assert not same(weights(result.model), weights(net()))


def test_a_model_that_cannot_be_traced_falls_back_once():
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) if float(x.detach().sum()) > 0 else self.net(x) * 2

    with pytest.warns(UserWarning, match="compile=True was not possible") as caught:
        result = fit(Branching(), TRAIN, VALIDATION, settings=Settings(epochs=2, batch_size=20, compile=True))
    assert len([w for w in caught if "compile=True" in str(w.message)]) == 1
    assert len(result.records) == 2
