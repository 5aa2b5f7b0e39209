"""The activations of a named layer."""

import pytest
import torch
from torch import nn

from r2et.explainers import Activation
from tests.models_with_answers import Siamese, convolution, mlp, normal


def test_values_are_the_outputs_of_the_layer():
    model, x = mlp(), normal(4, 6)
    hidden = model[0](x)
    torch.testing.assert_close(Activation(layer="0")(model, x), hidden.detach())
    torch.testing.assert_close(Activation(layer="1")(model, x), model[1](hidden).detach())
    torch.testing.assert_close(Activation(layer="0", reduce="abs")(model, x), hidden.detach().abs())
    torch.testing.assert_close(Activation(layer="2")(model, x), model(x).detach())


def test_the_default_ranks_by_signed_value():
    assert Activation(layer="0").reduce == "signed"


def test_a_later_layer_that_works_in_place_does_not_change_what_was_seen():
    model, x = mlp(activation=lambda: nn.ReLU(inplace=True)), normal(4, 6)
    with torch.no_grad():
        expected = model[0](x)
    assert (expected < 0).any()
    torch.testing.assert_close(Activation(layer="0")(model, x), expected)


def test_images_are_flattened_or_summed_over_channels():
    model, x = convolution(), normal(3, 2, 4, 4)
    maps = model[1](model[0](x)).detach()
    torch.testing.assert_close(Activation(layer="1")(model, x), maps.flatten(1))
    found = Activation(layer="0", reduce="abs-sum")(model, x)
    torch.testing.assert_close(found, model[0](x).detach().abs().sum(1).flatten(1))


def test_nested_names():
    model, x = nn.Sequential(mlp(6, 6), nn.Tanh(), mlp(6, 2)), normal(4, 6)
    expected = model[2][1](model[2][0](model[1](model[0](x)))).detach()
    torch.testing.assert_close(Activation(layer="2.1")(model, x), expected)


def test_two_inputs_run_the_layer_twice():
    model, x = Siamese(), normal(3, 2, 5)
    found = Activation(layer="embed", inputs=2)(model, x)
    assert found.shape == (3, 2, 4)
    for side in range(2):
        torch.testing.assert_close(found[:, side], model.embed(x[:, side]).detach())


def test_two_inputs_in_one_batch():
    class Stacked(Siamese):
        def forward(self, x):
            both = self.embed(torch.cat([x[:, 0], x[:, 1]]))
            first, second = both.chunk(2)
            return self.head(first * second)

    model, x = Stacked(), normal(3, 2, 5)
    found = Activation(layer="embed", inputs=2)(model, x)
    for side in range(2):
        torch.testing.assert_close(found[:, side], model.embed(x[:, side]).detach())


def test_unknown_layer_suggests_the_closest():
    with pytest.raises(ValueError, match=r"'embedd'.*'embed'.*head"):
        Activation(layer="embedd", inputs=2)(Siamese(), normal(3, 2, 5))


def test_a_layer_that_ran_too_often_or_not_at_all():
    with pytest.raises(ValueError, match="ran 2 times"):
        Activation(layer="embed", inputs=1)(Siamese(), normal(3, 2, 5))

    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = mlp(), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match="'unused' did not run"):
        Activation(layer="unused")(Idle(), normal(3, 6))


def test_hooks_are_removed_also_after_an_error():
    model = mlp()
    Activation(layer="0")(model, normal(3, 6))
    assert not model[0]._forward_hooks

    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.calls = mlp(), 0

        def forward(self, x):
            self.calls += 1
            logits = self.net(x)
            if self.calls > 3:  # those before look whether the model can be measured
                raise RuntimeError("broken")
            return logits

    broken = Fails()
    with pytest.raises(RuntimeError, match="broken"):
        Activation(layer="net.0")(broken, normal(3, 6))
    assert not broken.net[0]._forward_hooks
