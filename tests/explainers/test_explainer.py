"""What every explainer refuses, and what it says about it; the table of second derivatives."""

import captum.attr
import pytest
import torch
from torch import nn

import r2et
from r2et.explainers import Activation, FromCaptum, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from r2et.numerics.autograd import unit
from tests.models_with_answers import Siamese, convolution, mlp, normal

EXPLAINERS = {
    "gradient": Gradient(),
    "gradient-signed": Gradient(reduce="signed"),
    "gradient-probability": Gradient(score="probability"),
    "gradient-logit": Gradient(score="logit"),
    "gradient-times-input": GradientTimesInput(),
    "smoothgrad": SmoothGrad(samples=3, sigma=0.3),
    "smoothgrad-log-odds": SmoothGrad(samples=3, sigma=0.3, score="log-odds", chunk_size=2),
    "ig": IntegratedGradients(points=4),
    "ig-trapezoid": IntegratedGradients(points=4, rule="trapezoid", baseline=0.1, chunk_size=3),
    "activation": Activation(layer="1"),
    "captum-saliency": FromCaptum(method=captum.attr.Saliency, options={"abs": False}),
    "captum-product": FromCaptum(method=captum.attr.InputXGradient),
    "captum-ig": FromCaptum(method=captum.attr.IntegratedGradients, options={"n_steps": 5}),
}
every_explainer = pytest.mark.parametrize("explainer", EXPLAINERS.values(), ids=EXPLAINERS.keys())


def x_and_model(dtype=torch.float64):
    return normal(4, 6, seed=2).to(dtype), mlp(classes=3, activation=nn.Tanh).to(dtype)


# second derivatives


@every_explainer
def test_derivative_by_the_input_agrees_with_finite_differences(explainer):
    x, model = x_and_model()
    target, step = torch.tensor([0, 1, 2, 1]), 1e-6
    direction = normal(4, 6, seed=3)
    point = x.clone().requires_grad_()
    value = explainer(model, point, target, create_graph=True)
    mix = normal(*value.shape, seed=4)
    exact = (torch.autograd.grad((value * mix).sum(), point)[0] * direction).sum()
    ahead, behind = (explainer(model, x + sign * step * direction, target) for sign in (1, -1))
    numeric = ((ahead - behind) * mix).sum() / (2 * step)
    assert float(exact) == pytest.approx(float(numeric), rel=1e-6, abs=1e-8)
    assert abs(float(exact)) > 1e-4  # not trivially zero


@every_explainer
def test_derivative_by_the_parameters_agrees_with_finite_differences(explainer):
    x, model = x_and_model()
    target, step = torch.tensor([0, 1, 2, 1]), 1e-6
    parameters = list(model.parameters())
    directions = [normal(*p.shape, seed=5 + i) for i, p in enumerate(parameters)]
    value = explainer(model, x, target, create_graph=True)
    mix = normal(*value.shape, seed=4)
    slopes = torch.autograd.grad((value * mix).sum(), parameters, allow_unused=True)
    exact = sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True) if s is not None)

    def moved(sign):
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p += sign * step * d
        result = float((explainer(model, x, target) * mix).sum())
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p -= sign * step * d
        return result

    numeric = (moved(1) - moved(-1)) / (2 * step)
    assert exact == pytest.approx(numeric, rel=1e-6, abs=1e-8)
    assert abs(exact) > 1e-4


@every_explainer
def test_values_do_not_depend_on_create_graph_or_grad_mode(explainer):
    x, model = x_and_model()
    expected = explainer(model, x)
    assert not expected.requires_grad
    torch.testing.assert_close(explainer(model, x, create_graph=True).detach(), expected, atol=1e-13, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(explainer(model, x), expected, atol=1e-13, rtol=0)
        inside = explainer(model, x, create_graph=True)
    assert inside.requires_grad
    assert all(p.grad is None for p in model.parameters())


@every_explainer
def test_rows_alone_and_together(explainer):
    x, model = x_and_model()
    together = explainer(model, x)
    assert together.ndim == 2
    assert together.dtype == x.dtype
    for r in range(4):
        torch.testing.assert_close(explainer(model, x[r : r + 1]), together[r : r + 1], atol=1e-13, rtol=0)


@every_explainer
def test_dtype_is_that_of_the_input(explainer):
    x, model = x_and_model(torch.float32)
    found = explainer(model, x)
    assert found.dtype == torch.float32
    exact = explainer(model.double(), x.double())
    torch.testing.assert_close(found.double(), exact, atol=1e-4, rtol=1e-3)


# bad input


def bad_inputs():
    x = normal(4, 6)
    with_nan, with_inf = x.clone(), x.clone()
    with_nan[2, 3], with_inf[1, 0] = float("nan"), float("inf")
    return {
        "nan": (with_nan, r"nan at x\[2, 3\]"),
        "inf": (with_inf, r"inf at x\[1, 0\]"),
        "integers": (torch.ones(4, 6, dtype=torch.int64), r"torch\.int64"),
        "bool": (torch.ones(4, 6, dtype=torch.bool), r"torch\.bool"),
        "no rows": (x[:0], r"empty: shape \(0, 6\)"),
        "no features": (x[:, :0], r"empty: shape \(4, 0\)"),
        "one sample": (x[0], r"x\[None\]"),
        "scalar": (x[0, 0], r"\(N, \*features\)"),
        "list": (x.tolist(), "list"),
        "array": (x.numpy(), "ndarray"),
    }


@every_explainer
@pytest.mark.parametrize("name", bad_inputs())
def test_bad_inputs_are_quoted(explainer, name):
    x, message = bad_inputs()[name]
    with pytest.raises(ValueError, match=message):
        explainer(mlp(), x)


class Fixed(nn.Module):
    """Returns whatever a function makes of the logits of a network."""

    def __init__(self, change):
        super().__init__()
        self.net, self.change = mlp(), change
        self.add_module("1", self.net[1])

    def forward(self, x):
        return self.change(self.net(x))


BAD_MODELS = {
    "probabilities": (lambda u: u.softmax(1), "probabilities"),
    "no column": (lambda u: u[:, :0], r"\(3, 0\)"),  # of the rows that are looked at
    "one axis": (lambda u: u[:, 0], r"\(3,\).*z.reshape\(-1, 1\).*torch.cat"),
    "three axes": (lambda u: u[:, None], r"\(3, 1, 2\)"),
    "wrong rows": (lambda u: u[:2], r"\(2, 2\)"),
    "tuple": (lambda u: (u, u), "tuple"),
    "dictionary": (lambda u: {"logits": u}, "dict"),
    "nan": (lambda u: u * float("nan"), "NaN"),
}


@every_explainer
@pytest.mark.parametrize("name", BAD_MODELS)
def test_models_that_do_not_return_logits(explainer, name):
    change, message = BAD_MODELS[name]
    with pytest.raises(r2et.errors.ModelError, match=message):
        explainer(Fixed(change), normal(4, 6))


GRADIENT_BASED = [name for name in EXPLAINERS if name != "activation"]


@pytest.mark.parametrize("name", GRADIENT_BASED)
@pytest.mark.parametrize("way", ["no_grad", "detached output", "detached input", "argmax"])
def test_models_without_gradients(name, way):
    net = mlp()

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            if way == "no_grad":
                with torch.no_grad():
                    return self.net(x)
            if way == "detached input":
                return self.net(x.detach())
            logits = self.net(x)
            if way == "argmax":
                return nn.functional.one_hot(logits.argmax(1), 2).to(x) * 3
            return logits.detach()

    with pytest.raises(r2et.errors.ModelError, match="no gradient"):
        EXPLAINERS[name](Cut(), normal(4, 6))


@every_explainer
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.tensor([0, 1, 3, 0]), "label 3 in row 2"),
        (torch.tensor([0, -1, 1, 0]), "label -1 in row 1"),
        (torch.tensor([0, 1]), "2 labels for 4 rows"),
        (torch.tensor([0.0, 1.0, 1.0, 0.0]), r"torch\.float32"),
        (torch.tensor([[0], [1], [1], [0]]), r"\(4, 1\)"),
        (1, "int"),
    ],
)
def test_bad_targets(explainer, target, message):
    x, model = x_and_model()
    with pytest.raises(ValueError, match=message):
        explainer(model, x, target)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gradient(reduce="absolute"), r"'absolute'.*'abs'"),
        (lambda: Gradient(score="log odds"), r"'log odds'.*'log-odds'"),
        (lambda: Gradient(inputs=3), "3"),
        (lambda: GradientTimesInput(inputs=0), "0"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_pairs_need_an_axis_of_two():
    for x in (normal(3, 5), normal(3, 3, 5)):
        with pytest.raises(ValueError, match=r"\(N, 2, \*features\)"):
            Gradient(inputs=2)(Siamese(), x)


def test_abs_sum_needs_a_channel_axis():
    with pytest.raises(ValueError, match="channel"):
        Gradient(reduce="abs-sum")(mlp(), normal(3, 6))
    with pytest.raises(ValueError, match="channel"):
        Gradient(reduce="abs-sum", inputs=2)(Siamese(), normal(3, 2, 5))
    assert Gradient(reduce="abs-sum")(convolution(), normal(3, 2, 4, 4)).shape == (3, 16)


def test_a_constant_score_is_not_a_refusal_of_a_saturated_one():
    """A model that depends on x has a gradient, even where it is zero."""

    class Flat(nn.Module):
        def forward(self, x):
            value = torch.relu(x).sum(1)
            return torch.stack([value, 0 * value - 1], dim=1)

    assert torch.equal(Gradient()(Flat(), -torch.ones(2, 3)), torch.zeros(2, 3))


# unit vectors


def test_unit_is_differentiable_and_safe_at_tiny_and_zero_rows():
    x = normal(3, 2, 4).requires_grad_()
    torch.testing.assert_close(unit(x).flatten(1).norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert torch.autograd.gradcheck(unit, x)
    tiny = torch.tensor([[3e-38, 4e-38], [0.0, 0.0], [3e30, 4e30]], requires_grad=True)
    torch.testing.assert_close(unit(tiny).detach(), torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.6, 0.8]]))
    slope = torch.autograd.grad(unit(tiny)[1:].sum(), tiny)[0]
    assert torch.isfinite(slope[2]).all()
    assert not torch.isnan(slope).any()
