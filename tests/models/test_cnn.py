import pytest
import torch
from torch import nn
from torch.nn import functional as F

import r2et
from r2et import models
from r2et.errors import InputError


def images(rows: int = 3, channels: int = 2, height: int = 12, width: int = 15) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, channels, height, width, generator=generator, dtype=torch.float64)


def windows(x: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """All windows (N, C, rows, columns, size, size) of images (N, C, H, W)."""
    return x.unfold(2, size, step).unfold(3, size, step)


def by_hand(model: models.CNN, x: torch.Tensor, pool: str) -> torch.Tensor:
    """The definition from the bare parameters, in their order."""
    weights = list(model.parameters())
    for kernel, bias in (weights[0:2], weights[2:4]):
        x = torch.einsum("ncrsij,ocij->nors", windows(x, 3, 1), kernel) + bias[:, None, None]
        cells = windows(x.clamp(min=0), 2, 2)
        x = cells.amax((4, 5)) if pool == "max" else cells.mean((4, 5))
    x = x.reshape(len(x), -1)
    x = (x @ weights[4].T + weights[5]).clamp(min=0)
    x = (x @ weights[6].T + weights[7]).clamp(min=0)
    return x @ weights[8].T + weights[9]


@pytest.mark.parametrize("pool", ["max", "avg"])
def test_a_cnn_is_its_formula(pool):
    torch.manual_seed(0)
    model = models.CNN(2, (12, 15), 4, filters=(3, 5), hidden=(7, 6), pool=pool).double()
    x = images()
    torch.testing.assert_close(model(x), by_hand(model, x, pool), rtol=0, atol=1e-12)
    assert model(x).shape == (3, 4)


def test_the_default_is_the_papers():
    model = models.CNN(1, 28, 10)
    kernels = [p.shape for p in model.parameters() if p.ndim == 4]
    dense = [p.shape for p in model.parameters() if p.ndim == 2]
    assert [tuple(k[2:]) for k in kernels] == [(3, 3), (3, 3)]
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in model.modules()) == 2
    assert dense == [(120, 32 * 5 * 5), (84, 120), (10, 84)]
    convolutions = 16 * 9 + 16 + 32 * 16 * 9 + 32
    assert (
        sum(p.numel() for p in model.parameters()) == convolutions + 800 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10
    )


def test_names_of_the_weights():
    names = list(models.CNN(1, 12, 2).state_dict())
    assert [name.removesuffix(".weight") for name in names[::2]] == [
        "features.0",
        "features.3",
        "dense.0",
        "dense.2",
        "dense.4",
    ]


@pytest.mark.parametrize("size", [10, 11, 13, (10, 17)])
def test_any_size_from_10_works(size):
    model = models.CNN(1, size, 2)
    height, width = (size, size) if isinstance(size, int) else size
    assert model(torch.zeros(2, 1, height, width)).shape == (2, 2)


def test_softplus_and_average_pooling_are_smooth():
    torch.manual_seed(0)
    model = models.CNN(
        1, 10, 2, filters=(2, 2), hidden=(3, 3), pool="avg", activation="softplus", beta=2.0
    ).double()
    x = images(1, 1, 10, 10).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: F.log_softmax(model(z), 1)[:, 0], x)
    assert not r2et.validate.piecewise_linear(model, x)


def test_the_penultimate_layer_has_a_name():
    model, x = models.CNN(1, 12, 2, hidden=(7, 6)), torch.randn(3, 1, 12, 12)
    scores = r2et.explainers.Activation(layer=models.CNN.penultimate)(model, x)
    assert scores.shape == (3, 6)
    torch.testing.assert_close(scores @ model.dense[4].weight.T + model.dense[4].bias, model(x))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 0}, "channels=0"),
        ({"classes": 2.5}, "classes=2.5"),
        ({"classes": True}, "classes=True"),
        ({"size": 9}, "size=9"),
        ({"size": (28, 28, 3)}, r"size=\(28, 28, 3\)"),
        ({"size": 28.0}, "size=28.0"),
        ({"size": (28.0, 28)}, "size=28.0"),
        ({"filters": (4,)}, r"filters=\(4,\)"),
        ({"filters": 8}, "filters=8"),
        ({"filters": (4, 0)}, "filters=0"),
        ({"hidden": (4, 5, 6)}, r"hidden=\(4, 5, 6\)"),
        ({"hidden": (4, "5")}, "hidden='5'"),
        ({"pool": "maximum"}, "unknown pool 'maximum'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        models.CNN(**{"channels": 1, "size": 28, "classes": 2, **settings})


@pytest.mark.parametrize("shape", [(3, 1, 14, 12), (3, 12, 12), (3, 2, 12, 12)])
def test_bad_images(shape):
    model = models.CNN(1, 12, 2)
    with pytest.raises(InputError, match=r"shape \(N, 1, 12, 12\), got \(3, "):
        model(torch.zeros(shape))
