"""Which layers are read, and that a function reads as the module that does the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from r2et.enclosure.layers import AS_MODULES, kind_of
from tests.models_with_answers import normal


class Renamed(nn.Linear):
    """Computes as its base does."""


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Padded(nn.Conv2d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(F.pad(x, (1, 1, 1, 1)), weight, bias)


def patched() -> nn.Module:
    layer = nn.Linear(2, 2)
    layer.forward = lambda x: x
    return layer


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (nn.Linear(2, 2), nn.Linear),
        (Renamed(2, 2), nn.Linear),
        (nn.Conv2d(1, 1, 1), nn.Conv2d),
        (nn.BatchNorm1d(2), nn.BatchNorm1d),
        (nn.Dropout2d(), nn.Dropout2d),
        (nn.MaxPool2d(2), nn.MaxPool2d),
        (Doubled(2, 2), None),
        (Padded(1, 1, 1), None),
        (patched(), None),
        (nn.LSTM(2, 2), None),
        (nn.ReLU(), None),
    ],
)
def test_a_layer_counts_if_it_computes_as_its_kind(layer, kind):
    assert kind_of(layer) is kind


#: arguments that a function and its module take by position
ARGUMENTS = {"max_pool2d": (2,), "max_pool1d": (2,), "avg_pool2d": (2,), "avg_pool1d": (2,)}
ARGUMENTS |= {"adaptive_avg_pool2d": (2,), "adaptive_avg_pool1d": (2,), "leaky_relu": (0.3,), "softplus": (2.0,)}
#: methods of tensors and what modules leave undone
NOT_FUNCTIONS = {"relu_"}


@pytest.mark.parametrize("name", sorted(AS_MODULES.keys() - NOT_FUNCTIONS))
def test_a_function_reads_as_its_module(name):
    x = normal(2, 3, 4, 4) if name.endswith("2d") else normal(2, 3, 4)
    function = getattr(F, name, None) or getattr(torch, name)
    arguments = ARGUMENTS.get(name, ())
    expected = function(x, training=False) if name == "dropout" else function(x, *arguments)
    assert torch.equal(AS_MODULES[name](*arguments)(x), expected)
