"""What the enclosures do not know is an error that names it, never a guess."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from r2et.certificates import certify
from r2et.enclosure import extract
from r2et.errors import ModelError
from tests.enclosure.test_reading import Written, layers


def sandwich(layer, n=6):
    return nn.Sequential(nn.Linear(6, n), layer, nn.Linear(n, 2))


@pytest.mark.parametrize(
    "layer",
    [
        nn.ELU(),
        nn.LayerNorm(6),
        nn.Hardtanh(),
        nn.ReLU6(),
        nn.PReLU(),
        nn.Mish(),
        nn.Softmax(1),
        nn.BatchNorm1d(6, track_running_stats=False),
        nn.LSTM(6, 6),
    ],
)
def test_an_unknown_layer_is_named(layer):
    with pytest.raises(ModelError, match=rf"no enclosure is known for layer '1': {type(layer).__name__}\("):
        extract(sandwich(layer).eval(), torch.Size([6]))


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool3d(1)],
)
def test_an_unknown_variant_is_named(layer):
    model = nn.Sequential(nn.Tanh(), layer, nn.Flatten(), nn.Linear(50, 2)).eval()
    with pytest.raises(ModelError, match=f"layer '1': {type(layer).__name__}"):
        extract(model, torch.Size([1, 5, 5]))


def test_attention_is_named():
    model = Written(
        lambda m, x: m.last(m.attend(*[m.first(x).unsqueeze(1)] * 3)[0].squeeze(1)),
        **layers(attend=nn.MultiheadAttention(5, 1)),
    )
    with pytest.raises(ModelError, match="layer 'attend': MultiheadAttention"):
        extract(model.eval(), torch.Size([6]))


@pytest.mark.parametrize(
    ("forward", "operation"),
    [
        (lambda m, x: m.last(torch.cat([m.first(x), m.first(x)], 1)), "cat"),
        (lambda m, x: m.last(torch.matmul(m.first(x), m.second.weight)), "matmul"),
        (lambda m, x: m.last(m.first(x) @ m.second.weight), "matmul"),
        (lambda m, x: m.last(m.first(x) * m.first(x)), "mul"),
        (lambda m, x: m.last(m.first(x) ** 2), "pow"),
        (lambda m, x: m.last(1 / m.first(x)), "truediv"),
        (lambda m, x: m.last(m.first(x).clamp(min=0)), "clamp"),
        (lambda m, x: m.last(m.first(x)[:, :5]), "getitem"),
        (lambda m, x: m.last(m.first(x).softmax(1)), "softmax"),
        (lambda m, x: m.last(torch.add(m.first(x), m.first(x), alpha=2)), "add"),
        (lambda m, x: m.last(m.first(x).detach()), "detach"),
    ],
)
def test_an_unknown_operation_is_named(forward, operation):
    with pytest.raises(
        ModelError, match=rf"no enclosure is known for the operation '{operation}' \(step '\w+' of Wri"
    ):
        extract(Written(forward, **layers()), torch.Size([6]))


@pytest.mark.parametrize(
    ("forward", "match"),
    [
        (
            lambda m, x: m.last(m.first(x)) if x.sum() > 0 else m.last(-m.first(x)),
            "Written cannot be read layer by",
        ),
        (lambda m, x: m.last(m.first(x) - m.first(x).mean(0)), "step 'mean' mixes the inputs of a batch"),
        (
            lambda m, x: m.last(m.first(x) - m.first(x).mean(1, keepdim=True)),
            r"shapes \(5,\) and \(1,\) are added",
        ),
        (lambda m, x: (m.last(m.first(x)),), "must return one tensor of logits"),
        (lambda m, x: m.first.weight, "must return one tensor of logits"),
        (lambda m, x: m.last(F.gelu(m.first(x), approximate="tanh")), r"GELU\(approximate='tanh'\)"),
        (lambda m, x: m.last(F.dropout(m.first(x))), "Dropout"),
    ],
)
def test_what_cannot_be_followed_is_an_error(forward, match):
    with pytest.raises(ModelError, match=match):
        extract(Written(forward, **layers()), torch.Size([6]))


def test_a_second_argument_is_an_error():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    with pytest.raises(ModelError, match="takes a second argument 'y'"):
        extract(Two(), torch.Size([3]))


def test_a_forward_pass_that_hides_something_is_caught():
    """A forward that does something else while it is read is not in the trace; the logits tell."""

    def forward(m, x):
        return m.last(torch.tanh(m.first(x))) * (2.0 if isinstance(x, Tensor) else 1.0)

    with pytest.raises(ModelError, match=r"Written gives logits .* its forward depends on more than they show"):
        certify(Written(forward, **layers()), torch.randn(3, 6), 2)


@pytest.mark.parametrize("layer", ["", "first", "act"])
def test_a_forward_that_was_put_on_an_object_is_no_layer(layer):
    """At these inputs it gives what the layer gives, and so does its gradient: only elsewhere it does not."""
    model = Written(lambda m, x: m.last(m.act(m.first(x))), **layers(act=nn.ReLU())).double()
    changed = model.get_submodule(layer)
    own = changed.forward
    changed.forward = lambda z: own(z).clamp(max=50.0)
    with pytest.raises(ModelError, match=rf"layer '{layer}' \(\w+\) has a forward of its own.*smoothing"):
        certify(model, torch.randn(3, 6, dtype=torch.float64), 2)


class Clipped(nn.Conv1d):
    """The part of a convolution that its forward calls."""

    def _conv_forward(self, *args):
        return super()._conv_forward(*args).clamp(max=50.0)


def test_a_convolution_that_computes_something_else_is_no_convolution():
    model = nn.Sequential(nn.Unflatten(1, (1, 6)), Clipped(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2))
    with pytest.raises(ModelError, match="no enclosure is known"):
        certify(model.double(), torch.randn(3, 6, dtype=torch.float64), 2)


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda m, h: m.act(input=h),
        lambda m, h: m.act(h),
        lambda m, h: F.relu(h, True),
        lambda m, h: F.relu(input=h, inplace=True),
        lambda m, h: torch.relu_(h),
        lambda m, h: torch.tanh_(h),
    ],
)
def test_a_value_that_is_overwritten_and_used_again_is_an_error(overwrite):
    def forward(m, x):
        h = m.first(x)
        return m.last(overwrite(m, h) + h)

    with pytest.raises(ModelError, match="overwrites a value that is used again"):
        extract(Written(forward, **layers(act=nn.ReLU(inplace=True))), torch.Size([6]))


@pytest.mark.parametrize(
    ("forward", "step"),
    [
        (lambda m, x: m.last(F.max_pool1d(m.first(x), 3)), "max_pool1d"),
        (lambda m, x: m.last(torch.tanh(m.first(x), out=None)), "tanh"),
        (lambda m, x: m.last(m.first(x).view(torch.int32)), "view"),
    ],
)
def test_what_a_layer_cannot_be_made_of_is_named(forward, step):
    with pytest.raises(ModelError, match=rf"step '{step}' of Written cannot be read for a certificate \(\w+Error"):
        extract(Written(forward, **layers()), torch.Size([6]))


def test_weights_whose_squares_vanish_are_an_error():
    model = sandwich(nn.Tanh()).double()
    model[0].weight.data[2] *= 1e-165
    with pytest.raises(ModelError, match="that their squares vanish"):
        extract(model, torch.Size([6]))


class Sharper(torch.autograd.Function):
    """ReLU, with the slope of ReLU up to 1.5 and another one beyond: around small inputs they are the same."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.relu(z)

    @staticmethod
    def backward(ctx, slope):
        (z,) = ctx.saved_tensors
        return slope * (z > 0) * torch.where(z > 1.5, 5.0, 1.0)


class SharperReLU(nn.ReLU):
    def forward(self, z):
        return Sharper.apply(z)


@pytest.mark.parametrize("layer", ["a layer", "a call"])
def test_a_backward_pass_that_somebody_wrote_is_refused(layer):
    """What is read has the slopes of ReLU: those of the model at x, and others inside of the radius."""
    model = (
        sandwich(SharperReLU())
        if layer == "a layer"
        else Written(lambda m, x: m.last(Sharper.apply(m.first(x))), **layers())
    )
    x = 0.1 * torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ModelError, match=r"the backward pass of Sharper, a torch\.autograd\.Function"):
        certify(model, x, 2)
