"""Models that are not what their layers show, and numbers that overflow: no certificate, not a wrong one."""

import pytest
import torch
from torch import nn

import r2et
from r2et.certificates import certify
from r2et.certificates.integral import crossing
from r2et.enclosure import extract
from tests.models_with_answers import normal


class FarFromTheBend(nn.Module):
    """Log-odds gelu(x_1 + 27) + x_0 / 2: nothing bends at x; the list changes where the first term has bent."""

    def __init__(self):
        super().__init__()
        self.inner, self.bend = nn.Linear(2, 1), nn.GELU()
        self.outer, self.direct = nn.Linear(1, 2, bias=False), nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.inner.weight.copy_(torch.tensor([[0.0, 1.0]]))
            self.inner.bias.fill_(27.0)
            self.outer.weight.copy_(torch.tensor([[1.0], [0.0]]))
            self.direct.weight.copy_(torch.tensor([[0.5, 0.0], [0.0, 0.0]]))

    def forward(self, x):
        return self.outer(self.bend(self.inner(x))) + self.direct(x)


def test_a_vanishing_slope_gives_no_endless_radius():
    model, x = FarFromTheBend().double(), torch.zeros(1, 2, dtype=torch.float64)
    found = certify(model, x, 1)
    moved = x + torch.tensor([[0.0, -40.0]])
    target = model(x).argmax(1)
    before, after = (r2et.explainers.Gradient()(model, point, target) for point in (x, moved))
    assert before.argmax() != after.argmax()
    assert 0 <= float(found.radius) <= 40


def test_a_gradient_made_of_rounding_errors_is_not_certified():
    """gelu'(-9) is 1e-17, and PyTorch computes it to the precision of 1: the list is one of rounding errors."""
    model = nn.Sequential(nn.Linear(3, 1), nn.GELU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))
        model[0].bias.fill_(-9.0)
        model[2].weight.copy_(torch.tensor([[1.0], [-1.0]]))
    found = certify(model, torch.zeros(1, 3, dtype=torch.float64), 1)
    assert float(found.radius) == 0
    with torch.no_grad():
        model[0].bias.fill_(-3.0)
    assert float(certify(model, torch.zeros(1, 3, dtype=torch.float64), 1).radius) > 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_unscaled_inputs_of_a_gelu_net(seed):
    from sklearn.datasets import load_breast_cancer

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(30, 8), nn.GELU(), nn.Linear(8, 2)).double()
    x = torch.tensor(load_breast_cancer().data[:40])
    found = certify(model, x, 8)
    assert found.limits.isfinite().all()
    assert (found.radius < 1e12).all()


def test_what_is_not_a_number_certifies_nothing():
    slopes = torch.tensor([[[1.0, float("nan"), 1.0]]])
    found = crossing(torch.tensor([[5.0]]), slopes, torch.ones(1, 3), torch.zeros(1, 1, 3))
    assert found.tolist() == [[1.0]]
    first = crossing(torch.tensor([[5.0]]), slopes[..., 1:], torch.ones(1, 2), torch.zeros(1, 1, 2))
    assert first.tolist() == [[0.0]]


def test_steps_of_very_different_size():
    slopes = torch.full((1, 1, 2), 1.0, dtype=torch.float64)
    steps = torch.tensor([[1e-3, 1e16]], dtype=torch.float64)
    found = crossing(torch.tensor([[0.5]], dtype=torch.float64), slopes, steps, torch.zeros_like(slopes))
    assert float(found) == pytest.approx(0.5)


class Overwriting(nn.Module):
    """An activation whose input is used again, with and without overwriting it."""

    def __init__(self, how):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)
        self.how, self.bend = how, nn.ReLU(inplace=how == "layer")

    def forward(self, x):
        hidden = self.first(x)
        if self.how == "view":
            bent = hidden.view(-1, 6).relu_()
        elif self.how == "method":
            bent = hidden.relu_()
        elif self.how == "function":
            bent = nn.functional.relu(hidden, inplace=True)
        elif self.how == "sum":
            bent = hidden
            bent += 1.0
        else:
            bent = self.bend(hidden)
        return self.second(bent) - self.third(hidden)


@pytest.mark.parametrize("how", ["layer", "method", "function", "view", "sum"])
def test_values_that_are_overwritten_and_used_again(how):
    with pytest.raises(r2et.errors.ModelError, match=r"overwrites a value that is used again|gives logits"):
        certify(Overwriting(how).double(), normal(2, 4), 1)


def test_overwriting_what_nobody_needs_is_fine():
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)]
    plain = nn.Sequential(layers[0], nn.ReLU(), layers[2]).double()
    x = normal(3, 4)
    assert torch.equal(certify(nn.Sequential(*layers).double(), x, 1).radius, certify(plain, x, 1).radius)
    certify(Overwriting("none").double(), x, 1)


@pytest.mark.parametrize("kind", ["forward", "forward-pre", "backward"])
def test_hooks_are_refused(kind):
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    register = {
        "forward": lambda: model[0].register_forward_hook(lambda m, i, o: o.clamp(max=0.3)),
        "forward-pre": lambda: model[0].register_forward_pre_hook(lambda m, i: None),
        "backward": lambda: model[1].register_full_backward_hook(lambda m, gi, go: (gi[0].clamp(min=0),)),
    }
    handle = register[kind]()
    with pytest.raises(r2et.errors.ModelError, match="hooks"):
        certify(model, normal(2, 4), 1)
    handle.remove()
    certify(model, normal(2, 4), 1)


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return z.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient


class Guided(nn.Tanh):
    """Computes tanh and something else on the way back."""

    def forward(self, z):
        return Straight.apply(super().forward(z))


def test_another_backward_pass_is_caught():
    model = nn.Sequential(nn.Linear(4, 6), Guided(), nn.Linear(6, 2)).double()
    r2et.enclosure.register(Guided, lambda layer: r2et.enclosure.activations.activation(nn.Tanh()))
    with pytest.raises(r2et.errors.ModelError, match="backward pass"):
        certify(model, normal(2, 4), 1)


def test_negative_beta_of_softplus():
    model = nn.Sequential(nn.Linear(4, 6), nn.Softplus(-3.0, 1.0), nn.Linear(6, 2)).double()
    with pytest.raises(r2et.errors.ModelError, match="beta=-3"):
        certify(model, normal(2, 4), 1)


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.bend, self.last = nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.bend(input=self.first(x)))


class BatchSize(Keyword):
    def forward(self, x):
        return self.last(self.bend(self.first(x))) * (x.size(0) * 1)


class Broadcast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.offset = nn.Linear(4, 1), nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.first(x) + self.offset


def test_named_arguments_are_read():
    model, x = Keyword().double(), normal(2, 4)
    assert torch.allclose(extract(model, x.shape[1:]).forward(x)[1], model(x))


@pytest.mark.parametrize(
    ("model", "words"), [(BatchSize(), "size of the batch"), (Broadcast(), r"\(1,\) into \(2,\)")]
)
def test_what_cannot_be_followed_is_named(model, words):
    with pytest.raises(r2et.errors.ModelError, match=words):
        extract(model.double(), torch.Size([4]))


def test_precisions_must_agree():
    with pytest.raises(r2et.errors.InputError, match=r"float64, the model torch\.float32"):
        certify(nn.Linear(4, 2), normal(2, 4), 1)
