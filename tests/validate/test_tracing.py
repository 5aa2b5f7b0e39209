"""The recorded calls, against those that torch.fx records by replacing nn.Module.__call__."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from r2et.models import CNN, MLP
from r2et.validate.tracing import plain_leaf, trace
from tests.models_with_answers import Siamese, convolution, mlp


class Everything(nn.Module):
    """Functions, methods, parameters and buffers of its own, constants, a layer used twice, nested layers."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.scale, self.parts = nn.Parameter(torch.ones(4)), nn.ParameterList([nn.Parameter(torch.ones(1))])
        self.register_buffer("shift", torch.zeros(4))
        self.none = None
        self.fixed = torch.ones(4)

    def forward(self, x, extra=None):
        h = self.first(x) * self.scale.exp() + self.shift
        h = F.relu(self.inner(h)) + self.first(h).tanh() * self.parts[0] - self.fixed
        return torch.cat([h, self.first.weight.sum(0) * h], dim=1)


class Any(nn.Module):
    """Takes whatever it is called with."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x, *, scale=2.0):
        return self.layer(x) * scale


MODELS = {
    "mlp": lambda: mlp(4),
    "convolution": convolution,
    "siamese": Siamese,
    "everything": Everything,
    "options": Any,
    "program": lambda: fx.symbolic_trace(Everything()),
    "models": lambda: nn.Sequential(MLP(4, 3), MLP(3, 2)),
    "image": lambda: CNN(1, 10, 2, filters=(2, 2), hidden=(4, 4)),
    "compiled": lambda: compiled(mlp(4)),
}


def compiled(model):
    """As Module.compile leaves it, with code that no symbol can pass."""
    model[0]._compiled_call_impl = lambda x: torch.linalg.norm(x.numpy())
    return model


def calls(graph):
    """Each step by what it does and to what; the values of parameters may be fetched earlier or later."""

    def of(node):
        if node.op in ("placeholder", "get_attr"):
            return node.op, str(node.target)
        inner = fx.node.map_arg((node.args, node.kwargs), of)
        return node.op, str(getattr(node.target, "__name__", node.target)), str(inner)

    return of(next(iter(reversed(graph.nodes))))


@pytest.mark.parametrize("name", MODELS)
def test_the_calls_are_those_that_fx_records(name):
    model = MODELS[name]()
    recorded = trace(model, plain_leaf)
    assert calls(recorded.graph) == calls(fx.Tracer().trace(model))
    assert not any(node.op == "get_attr" and not node.users for node in recorded.graph.nodes)


def test_a_graph_can_be_run_on_its_root():
    model, x = Everything(), torch.randn(3, 4)
    recorded = trace(model, plain_leaf)
    for module in recorded.root.modules():
        module.__dict__.pop("forward", None)
    assert torch.equal(fx.GraphModule(recorded.root, recorded.graph)(x, None), model(x))


def test_nothing_is_left_in_the_model():
    model = Everything()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    trace(model, plain_leaf)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    assert isinstance(model.scale, nn.Parameter)


@pytest.mark.parametrize("leaf", [plain_leaf, lambda layer: False])
def test_a_forward_that_looks_at_values_is_an_error(leaf):
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        trace(Branching(), leaf)
