"""Models as affine maps with activations between: what is read computes what the model computes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import r2et
from r2et.certificates import certify
from r2et.enclosure import extract
from tests.models_with_answers import generator, normal


class Written(nn.Module):
    """A forward pass given as a function of the layers and x."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.written = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.written(self, x)


def prepared(model, seed=0):
    """Float64, random weights and running statistics, evaluation mode."""
    source = generator(seed)
    model = model.double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=source, dtype=torch.float64) * 0.5)
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.copy_(torch.rand(buffer.shape, generator=source, dtype=torch.float64) + 0.3)
    return model.eval()


def layers(**more):
    return {"first": nn.Linear(6, 5), "second": nn.Linear(5, 5), "last": nn.Linear(5, 3), **more}


#: name: (model, shape of one input, number of activations)
READABLE = {
    "linear": (nn.Linear(6, 3), (6,), 0),
    "mlp": (
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.SiLU(), nn.Linear(4, 3)),
        (6,),
        2,
    ),
    "linear layers in a row": (nn.Sequential(nn.Linear(6, 9, bias=False), nn.Linear(9, 3)), (6,), 0),
    "nested, with identity and dropout": (
        nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.9)), nn.Identity(), nn.GELU(), nn.Linear(5, 3)),
        (6,),
        1,
    ),
    "convolution": (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.Softplus(5.0),
            nn.Conv2d(4, 6, 2, dilation=2, groups=2, bias=False),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(24, 3),
        ),
        (2, 8, 8),
        2,
    ),
    "same padding, unequal kernel": (
        nn.Sequential(nn.Conv2d(1, 2, (3, 2), padding="same"), nn.Tanh(), nn.Flatten(), nn.Linear(40, 2)),
        (1, 4, 5),
        1,
    ),
    "one-dimensional": (
        nn.Sequential(
            nn.Conv1d(2, 3, 3, padding=2, dilation=2),
            nn.BatchNorm1d(3),
            nn.ReLU(),
            nn.MaxPool1d(3, stride=2, padding=1),
            nn.AvgPool1d(2),
            nn.Flatten(),
            nn.Linear(6, 2),
        ),
        (2, 9),
        2,
    ),
    "average pooling": (
        nn.Sequential(
            nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
            nn.Tanh(),
            nn.AdaptiveAvgPool2d((2, 1)),
            nn.Flatten(),
            nn.Linear(4, 2),
        ),
        (2, 7, 6),
        1,
    ),
    "max-pooling": (
        nn.Sequential(
            nn.Conv2d(1, 3, 2),
            nn.ReLU(),
            nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 1)),
            nn.Flatten(),
            nn.Linear(54, 3),
        ),
        (1, 6, 6),
        2,
    ),
    "BatchNorm2d": (
        nn.Sequential(
            nn.BatchNorm2d(2),
            nn.Conv2d(2, 3, 3),
            nn.BatchNorm2d(3, affine=False),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(12, 2),
        ),
        (2, 4, 4),
        1,
    ),
    "BatchNorm1d": (
        nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.LeakyReLU(0.2), nn.Linear(5, 2)),
        (6,),
        1,
    ),
    "residual sums": (
        Written(
            lambda m, x: m.last((lambda h: h + m.second(torch.tanh(h)) - m.second(h))(m.first(x)) + m.skip(x)),
            **layers(skip=nn.Linear(6, 5)),
        ),
        (6,),
        1,
    ),
    "the input reaches the logits": (
        Written(
            lambda m, x: m.last(m.act(m.first(x))) + m.direct(x), **layers(act=nn.SiLU(), direct=nn.Linear(6, 3))
        ),
        (6,),
        1,
    ),
    "one activation, many uses": (
        Written(
            lambda m, x: m.last(m.act(m.second(m.act(m.first(x)))) + m.act(m.first(x))),
            **layers(act=nn.Softplus()),
        ),
        (6,),
        3,
    ),
    "functions": (
        Written(
            lambda m, x: m.last(
                F.softplus(m.second(F.silu(m.first(x))), beta=3.0)
                + F.gelu(m.first(x))
                + torch.sigmoid(m.first(x)).tanh()
            ),
            **layers(),
        ),
        (6,),
        5,
    ),
    "kinked functions": (
        Written(
            lambda m, x: m.last(F.leaky_relu(m.second(F.relu(input=m.first(x))), 0.1) + torch.relu(m.first(x))),
            **layers(),
        ),
        (6,),
        3,
    ),
    "reshaping": (
        Written(
            lambda m, x: m.last(
                torch.flatten(m.act(m.conv(x)), start_dim=1)
                .reshape(x.shape[0], 5, 2)
                .view(x.size(0), -1, 5)
                .mean(1)
            ),
            act=nn.Tanh(),
            conv=nn.Conv2d(1, 5, 2),
            last=nn.Linear(5, 3),
        ),
        (1, 2, 3),
        1,
    ),
    "axes of length one": (
        Written(
            lambda m, x: m.last(m.act(x.unsqueeze(1)).squeeze(1).contiguous().flatten(1)),
            act=nn.Tanh(),
            last=nn.Linear(6, 2),
        ),
        (6,),
        1,
    ),
    "functional pooling": (
        Written(
            lambda m, x: m.last(F.avg_pool2d(F.max_pool2d(m.conv(x), 2), 2, 1).flatten(1)),
            conv=nn.Conv2d(1, 2, 1),
            last=nn.Linear(2, 2),
        ),
        (1, 4, 4),
        1,
    ),
    "numbers and parameters": (
        Written(
            lambda m, x: (
                m.last(2 * m.act(-m.first(x) / 3 + 1) - 0.5) * m.scale.exp() + (1 - m.direct(x)) + m.scale
            ),
            **layers(act=nn.Tanh(), direct=nn.Linear(6, 3), scale=nn.Parameter(torch.zeros(3))),
        ),
        (6,),
        1,
    ),
    "dropout by function": (
        Written(lambda m, x: m.last(F.dropout(torch.tanh(m.first(x)), 0.5, m.training)), **layers()),
        (6,),
        1,
    ),
    "padding and unflatten": (
        nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)),
            nn.ZeroPad2d(1),
            nn.Conv2d(1, 2, 2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(24, 2),
        ),
        (6,),
        1,
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_the_network_computes_what_the_model_computes(name):
    model, shape, activations = READABLE[name]
    model = prepared(copy.deepcopy(model))
    network = extract(model, torch.Size(shape))
    assert len(network.layers) == activations
    x = 2 * normal(20, *shape, seed=5)
    inner, logits = network.forward(x.flatten(1))
    assert torch.allclose(logits, model(x), rtol=1e-12, atol=1e-12)
    assert [z.shape[1] for z in inner] == [len(layer.bias) for layer in network.layers]
    # without layers a network is one matrix, however many it was made of
    assert network.base.shape[1] == x[0].numel()


def test_reading_leaves_float32_behind_and_can_stay_connected():
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    network = extract(model, torch.Size([6]), detach=False)
    assert network.base.dtype == torch.float64
    network.forward(normal(2, 6))[1].sum().backward()
    assert model[0].weight.grad is not None
    assert not extract(model, torch.Size([6])).base.requires_grad


def test_batch_norm_in_training_mode_is_certified_as_in_evaluation():
    model = prepared(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)))
    x = normal(4, 6, seed=1)
    expected = certify(model, x, 2).limits
    model.train()
    mean = model[1].running_mean.clone()
    assert torch.equal(certify(model, x, 2).limits, expected)
    assert all(module.training for module in model.modules())
    assert torch.equal(model[1].running_mean, mean)


def test_a_subclass_that_computes_the_same_is_the_layer_it_is_made_of() -> None:
    class Named(nn.Conv1d):
        pass

    class Scaled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    class Multiplied(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.matmul(input, self.weight.T)

    x = torch.randn(3, 6, dtype=torch.float64)
    linear = r2et.models.Linear(6, 3).double()
    assert torch.allclose(extract(linear, x.shape[1:]).forward(x)[1], linear(x))
    nested = nn.Sequential(
        nn.Unflatten(1, (1, 6)), Named(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2)
    ).double()
    assert torch.allclose(extract(nested, x.shape[1:]).forward(x)[1], nested(x))
    # what computes something else is followed into its own code, or refused
    scaled = nn.Sequential(Scaled(6, 2)).double()
    assert torch.allclose(extract(scaled, x.shape[1:]).forward(x)[1], scaled(x))
    with pytest.raises(r2et.errors.ModelError, match="'matmul'"):
        extract(nn.Sequential(Multiplied(6, 2)).double(), x.shape[1:])


@pytest.mark.parametrize("index", [[0, 2, 5], [3], [-1, 1]])
def test_features_by_number_are_read(index) -> None:
    class Chosen(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(input[:, index], self.weight)

    x, model = normal(3, 6, seed=1), nn.Sequential(Chosen(len(index), 2)).double()
    assert torch.allclose(extract(model, x.shape[1:]).forward(x)[1], model(x))
