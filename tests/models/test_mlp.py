import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from r2et import models, validate
from r2et.errors import InputError

FORMULAS = {
    "relu": lambda z: z.clamp(min=0),
    "softplus": lambda z: torch.log(1 + torch.exp(z)),
    "tanh": lambda z: 1 - 2 / (torch.exp(2 * z) + 1),
    "sigmoid": lambda z: 1 / (1 + torch.exp(-z)),
    "gelu": lambda z: z * (1 + torch.erf(z / 2**0.5)) / 2,
    "silu": lambda z: z / (1 + torch.exp(-z)),
}


def inputs(rows: int = 7, features: int = 4) -> torch.Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def by_hand(model: nn.Module, x: torch.Tensor, activation) -> torch.Tensor:
    """W_L a(... a(W_1 x + b_1) ...) + b_L from the bare parameters, in their order."""
    parameters = list(model.parameters())
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    for number, (weight, bias) in enumerate(pairs):
        x = torch.einsum("oi,ni->no", weight, x) + bias
        if number < len(pairs) - 1:
            x = activation(x)
    return x


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("hidden", [(), (5,), (5, 3)])
def test_an_mlp_is_its_formula(activation, hidden):
    model = models.MLP(4, 3, hidden=hidden, activation=activation).double()
    x = inputs()
    torch.testing.assert_close(model(x), by_hand(model, x, FORMULAS[activation]), rtol=0, atol=1e-12)
    widths = [4, *hidden, 3]
    assert [p.shape for p in model.parameters() if p.ndim == 2] == [
        (after, before) for before, after in itertools.pairwise(widths)
    ]


def test_beta_is_the_sharpness_of_softplus():
    model = models.MLP(4, 2, hidden=(5,), activation="softplus", beta=3.0).double()
    x = inputs()
    expected = by_hand(model, x, lambda z: torch.log(1 + torch.exp(3 * z)) / 3)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-12)


def test_the_default_is_the_papers_tabular_model():
    model = models.MLP(28, 2)
    assert [type(layer) for layer in model] == [nn.Linear, nn.ReLU, nn.Linear]
    assert model[0].out_features == 32


@pytest.mark.parametrize(
    "model",
    [
        models.Linear(4, 3),
        models.MLP(4, 2),
        models.MLP(4, 5, hidden=()),
        models.MLP(4, 2, hidden=[7, 6, 5], activation="silu"),
        models.MLP(4, 2, activation="softplus"),
        models.MLP(4, 2, activation="softplus", beta=0.5),
        models.MLP(4, 2, activation="softplus", beta=2),
        models.MLP(4, 2, activation="gelu"),
        validate.smooth(models.MLP(4, 2, hidden=(6, 6)), beta=7.0),
        copy.deepcopy(models.MLP(4, 2, activation="tanh")),
    ],
    ids=lambda model: str(model.architecture),
)
def test_an_architecture_builds_the_same_model(model):
    again = models.create(**model.architecture)
    assert again.architecture == model.architecture
    again.load_state_dict(model.state_dict())
    x = inputs().float()
    assert torch.equal(again(x), model(x))


def _with(layer: nn.Module, place: int) -> nn.Module:
    model = models.MLP(4, 2, hidden=(5, 5))
    model[place] = layer
    return model


@pytest.mark.parametrize(
    "model",
    [
        _with(nn.Tanh(), 3),
        _with(nn.GELU(approximate="tanh"), 1),
        _with(nn.ELU(), 1),
        _with(nn.Identity(), 3),
        _with(nn.Linear(5, 5, bias=False), 2),
        models.MLP(4, 2).append(nn.Dropout(0.5)),
        models.MLP(4, 2).append(nn.ReLU()),
        validate.smooth(_with(nn.Tanh(), 3), beta=2.0),
    ],
    ids=["mixed", "gelu tanh", "elu", "identity", "no bias", "dropout", "relu at the end", "half smooth"],
)
def test_an_mlp_that_was_changed_is_never_described_as_another(model):
    try:
        described = models.create(**model.architecture)
    except InputError:
        return
    described.load_state_dict(model.state_dict())
    x = inputs().float()
    assert torch.equal(described(x), model.eval()(x)), f"{model.architecture} is not {model}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "reul"}, r"unknown activation 'reul': did you mean 'relu'\?"),
        ({"activation": "softmax"}, r"unknown activation 'softmax'"),
        ({"beta": 2.0}, r"beta=2.0 .* 'relu'"),
        ({"activation": "tanh", "beta": 2.0}, r"beta=2.0 .* 'tanh'"),
        ({"activation": "softplus", "beta": 0.0}, r"beta=0.0"),
        ({"activation": "softplus", "beta": -1.0}, r"beta=-1.0"),
        ({"activation": "softplus", "beta": float("nan")}, r"beta=nan"),
        ({"activation": "softplus", "beta": float("inf")}, r"beta=inf"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        models.MLP(4, 2, **settings)


def test_a_model_is_trained_like_any_other():
    torch.manual_seed(0)
    model, x = models.MLP(4, 2), inputs(60).float()
    y = (x[:, 0] > 0).long()
    before = F.cross_entropy(model(x), y)
    before.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    assert F.cross_entropy(model(x), y) < before
