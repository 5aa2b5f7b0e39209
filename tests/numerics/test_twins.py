"""Copies of a model's structure: the same tensors and the same results, and nothing that leads back."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from r2et.numerics.twins import twin
from tests.models_with_answers import Siamese, convolution, mlp, normal


class Remembering(nn.Module):
    """Leaves traces of its forward in itself, and runs a layer that it reaches in two ways."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4).double()
        self.again = self.layer
        self.__dict__["hidden"] = self.layer
        self.seen, self.notes, self.step = [], {}, self.advance

    def advance(self, h):
        return self.layer(h)

    def forward(self, x):
        h = self.again(self.hidden(self.step(x)))
        self.seen.append(h)
        self.notes["last"] = self.last = h
        return h


MODELS = {
    "mlp": lambda: mlp(4),
    "convolution": convolution,
    "siamese": lambda: Siamese(4),
    "remembering": Remembering,
    "parametrised": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 2))).double(),
    "recurrent": lambda: nn.LSTM(4, 3, batch_first=True).double(),
    "graph": lambda: torch.fx.symbolic_trace(mlp(4)),
}
SHAPES = {"convolution": (2, 2, 4, 4), "siamese": (3, 2, 4), "recurrent": (2, 3, 4)}


def output(model, x):
    result = model(x)
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", MODELS)
def test_a_twin_computes_the_same_with_the_same_tensors(name):
    model, x = MODELS[name](), normal(*SHAPES.get(name, (3, 4)))
    other = twin(model)
    assert torch.equal(output(other, x), output(model, x))
    own = dict(model.named_parameters())
    assert {key: id(value) for key, value in other.named_parameters()} == {k: id(v) for k, v in own.items()}
    assert not {id(module) for module in model.modules()} & {id(module) for module in other.modules()}
    assert [key for key, _ in other.named_modules()] == [key for key, _ in model.named_modules()]


def test_what_is_done_to_a_twin_stays_with_it():
    model = nn.Sequential(Remembering())
    before = dict(vars(model[0]))
    other, calls = twin(model).eval(), []
    other[0].layer.register_forward_hook(lambda *_: calls.append(1))
    other(normal(3, 4))
    assert len(calls) == 3, "the layer is one, however it is reached"
    assert model.training
    assert model[0].seen == []
    assert model[0].notes == {}
    assert vars(model[0]).keys() == before.keys()
    model(normal(3, 4))
    assert len(calls) == 3


def test_hooks_of_a_model_run_in_its_twin():
    model, calls = mlp(4), []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    twin(model)(normal(3, 4))
    assert calls == [1]
