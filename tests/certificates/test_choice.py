"""`certify`: which method it takes, what it refuses and how it treats models and batches."""

import copy

import pytest
import torch
from torch import nn

from r2et.certificates import certify
from r2et.errors import InputError, ModelError
from r2et.explainers import Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from tests.models_with_answers import Siamese, convolution, linear, mlp, normal


@pytest.mark.parametrize(
    ("model", "method", "why_not"),
    [
        (mlp(5), "deterministic", "piecewise"),
        (linear(5, classes=3), "deterministic", "piecewise"),
        (mlp(5, activation=nn.ReLU), "piecewise", "deterministic"),
        (mlp(5, activation=nn.LeakyReLU), "piecewise", "deterministic"),
    ],
)
def test_auto_takes_what_applies_and_says_why_not_the_others(model, method, why_not):
    x = normal(3, 5)
    found = certify(model, x, 2)
    assert found.method == method
    assert found.sound
    assert set(found.reasons) == {why_not, "smoothing", "first-order"}
    assert "another explanation" in found.reasons["smoothing"]
    assert "not a certificate" in found.reasons["first-order"]
    assert torch.equal(certify(model, x, 2, method=method).limits, found.limits)


def test_reasons_name_the_layer():
    assert "'1' has not" in certify(mlp(5, activation=nn.ReLU), normal(2, 5), 2).reasons["deterministic"]
    assert "'1' is curved" in certify(mlp(5), normal(2, 5), 2).reasons["piecewise"]
    assert "no hinge at all" in certify(linear(5), normal(2, 5), 2).reasons["piecewise"]


@pytest.mark.parametrize(
    ("explainer", "match"),
    [
        (
            IntegratedGradients(),
            r"for IntegratedGradients\(.*the derivative of IntegratedGradients is not enclosed",
        ),
        (SmoothGrad(), r"for SmoothGrad\(.*ask for SmoothGrad\(score='log-odds'\)"),
        (SmoothGrad(score="margin"), r"score='margin'.*ask for score='log-odds'"),
    ],
)
def test_explanations_that_are_not_enclosed(explainer, match):
    with pytest.raises(InputError, match=match):
        certify(mlp(5), normal(2, 5), 2, explainer=explainer)


def test_a_subclass_may_explain_something_else():
    class Doubled(Gradient):
        def attribute(self, model, x, target, *, create_graph=False, logits=None):
            return super().attribute(model, x, target, create_graph=create_graph, logits=logits) ** 2

    with pytest.raises(InputError, match="the derivative of Doubled is not enclosed"):
        certify(mlp(5), normal(2, 5), 2, explainer=Doubled())


def test_pairs_of_inputs_are_refused():
    with pytest.raises(InputError, match=r"inputs=2.*one input \(inputs=1\)"):
        certify(Siamese(), normal(2, 2, 5), 2, explainer=Gradient(inputs=2))


def test_summed_channels_are_refused_unless_there_is_one():
    with pytest.raises(InputError, match="reduce='abs-sum' over 2 channels is not enclosed"):
        certify(convolution(), normal(2, 2, 4, 4), 3, explainer=Gradient(reduce="abs-sum"))
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)).double()
    x = normal(2, 1, 4, 4)
    summed = certify(model, x, 3, explainer=Gradient(reduce="abs-sum"))
    assert torch.equal(summed.limits, certify(model, x, 3).limits)


def test_mixed_networks_are_refused_by_name():
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 2)).double()
    with pytest.raises(ModelError, match=r"mixes smooth layers \('3': Softplus\) with .* \('1': LeakyReLU\)"):
        certify(model, normal(2, 5), 2)


@pytest.mark.parametrize(
    ("activation", "method", "match"),
    [
        (
            nn.ReLU,
            "deterministic",
            r'method="deterministic" does not apply .* layer \'1\' has not; use "piecewise"',
        ),
        (nn.Tanh, "piecewise", r'method="piecewise" does not apply .* layer \'1\' is curved; use "deterministic"'),
    ],
)
def test_a_method_that_does_not_apply(activation, method, match):
    with pytest.raises(InputError, match=match):
        certify(mlp(5, activation=activation), normal(2, 5), 2, method=method)


@pytest.mark.parametrize("method", ["smoothing", "first-order"])
def test_only_enclosures_certify_the_prediction(method):
    with pytest.raises(InputError, match=f'prediction=True needs an enclosure of the network; method="{method}"'):
        certify(mlp(5), normal(2, 5), 2, method=method, prediction=True)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"k": 0}, "got k=0"),
        ({"k": 5}, "less than the 5 features that are ranked, got k=5"),
        ({"k": 2.0}, r"k must be a whole number, got 2\.0"),
        ({"method": "deterministik"}, "did you mean 'deterministic'"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"target": torch.tensor([0, 7])}, "label 7 in row 1 is out of range"),
        ({"target": torch.tensor([0])}, "1 labels for 2 rows"),
        ({"x": torch.tensor([[1.0, 2.0, 3.0, 4.0, float("nan")]])}, "NaN or infinite"),
        ({"x": torch.zeros(5)}, r"must have shape \(N, \*features\)"),
    ],
)
def test_bad_input_is_quoted(settings, match):
    arguments = {"x": normal(2, 5), "k": 2, **settings}
    with pytest.raises(InputError, match=match):
        certify(mlp(5, classes=3), **arguments)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_float32_models_are_certified_in_float64(activation):
    model, x = mlp(6, activation=activation).float(), normal(5, 6).float()
    found = certify(model, x, 2)
    exact = certify(copy.deepcopy(model).double(), x.double(), 2)
    assert found.limits.dtype == torch.float64
    assert torch.equal(found.limits, exact.limits)
    assert next(model.parameters()).dtype == torch.float32


EXPLAINERS = [Gradient(), GradientTimesInput(reduce="signed"), SmoothGrad(samples=3, score="log-odds")]


@pytest.mark.parametrize("explainer", EXPLAINERS)
@pytest.mark.parametrize("activation", [nn.SiLU, nn.ReLU])
def test_a_row_alone_is_the_row_in_a_batch(explainer, activation):
    model, x = mlp(5, 3, activation=activation, seed=2), normal(3, 5, seed=1)
    # rows of very different radii
    x[1], x[2] = 0.1 * x[1], 30 * x[2]
    whole = certify(model, x, 2, explainer=explainer)
    alone = certify(model, x, 2, explainer=explainer, chunk_size=1)
    assert torch.allclose(alone.limits, whole.limits, rtol=1e-9, atol=0)
    assert torch.equal(alone.top, whole.top)


def test_chunks_and_single_rows():
    model, x = mlp(6, 3), normal(7, 6, seed=1)
    x[3] = 0.0
    whole = certify(model, x, 2).limits
    for size in (3, 100):
        assert torch.allclose(certify(model, x, 2, chunk_size=size).limits, whole, rtol=1e-9, atol=0)
    assert torch.allclose(certify(model, x[4:5], 2).limits, whole[4:5], rtol=1e-9, atol=0)


def test_images():
    model, x = convolution(), normal(3, 2, 4, 4, seed=1)
    found = certify(model, x, 5)
    assert found.limits.shape == (3, 5)
    flat = nn.Sequential(nn.Unflatten(1, (2, 4, 4)), model)
    assert torch.allclose(certify(flat, x.flatten(1), 5).limits, found.limits, rtol=1e-12)
    assert torch.equal(found.top, Gradient()(model, x).topk(5).indices)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    model = nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)
    ).double().train(training)  # fmt: skip
    model[1].eval()
    model[0].weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    before = copy.deepcopy(model.state_dict())
    x = normal(4, 6).requires_grad_()
    found = certify(model, x, 2, prediction=True)
    assert not found.limits.requires_grad
    assert [module.training for module in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == [False, *[True] * 5]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert x.grad is None


def test_the_class_can_be_chosen():
    model, x = mlp(5, classes=3), normal(4, 5)
    predicted = model(x).argmax(1)
    assert torch.equal(certify(model, x, 2, target=predicted).limits, certify(model, x, 2).limits)
    other = certify(model, x, 2, target=(predicted + 1) % 3)
    assert torch.equal(other.top, Gradient()(model, x, (predicted + 1) % 3).topk(2).indices)


def test_two_classes_and_one_margin():
    model, x = mlp(5), normal(4, 5)
    expected = certify(model, x, 2).limits
    for score in ("margin", "probability"):
        assert torch.allclose(certify(model, x, 2, explainer=Gradient(score=score)).limits, expected, rtol=1e-9)
    assert not torch.allclose(certify(model, x, 2, explainer=Gradient(score="logit")).limits, expected)


@pytest.mark.parametrize(
    ("explainer", "phrase"),
    [
        (Gradient(score="probability"), "probability (the log-odds rank in the same way), by magnitude"),
        (Gradient(reduce="signed"), "the gradient of the log-odds, by signed value"),
        (GradientTimesInput(), "the gradient times input of the log-odds, by magnitude"),
        (SmoothGrad(samples=2, sigma=0.3, seed=4, score="logit"), "2 fixed noise vectors (SmoothGrad, sigma 0.3"),
    ],
)
def test_the_explanation_is_named(explainer, phrase):
    found = certify(mlp(5), normal(2, 5), 2, explainer=explainer)
    assert phrase in found.explanation
    assert any("noise vectors are fixed" in entry for entry in found.assumptions) == isinstance(
        explainer, SmoothGrad
    )


def test_the_prediction_is_an_assumption_or_certified():
    model, x = mlp(5), normal(3, 5)
    assert any("may change inside the radius" in entry for entry in certify(model, x, 2).assumptions)
    found = certify(model, x, 2, prediction=True)
    assert not any("may change inside the radius" in entry for entry in found.assumptions)
    expected = torch.minimum(certify(model, x, 2).limits, found.details["prediction"][:, None])
    assert torch.equal(found.limits, expected)
