"""captum's methods as explainers: the right values, the right second derivative, or a refusal."""

import captum.attr
import pytest
import torch
from torch import nn

import r2et
from r2et.explainers import FromCaptum
from tests.models_with_answers import Siamese, mlp, normal, quadratic

REFUSED = {
    "guided backpropagation": FromCaptum(method=captum.attr.GuidedBackprop),
    "deconvolution": FromCaptum(method=captum.attr.Deconvolution),
    "deeplift": FromCaptum(method=captum.attr.DeepLift),
    "occlusion": FromCaptum(method=captum.attr.Occlusion, options={"sliding_window_shapes": (2,)}),
    "feature ablation": FromCaptum(method=captum.attr.FeatureAblation),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_where_the_derivative_is_wrong_or_missing_and_still_measures(name):
    """Guided backpropagation and deconvolution keep a graph whose derivative is wrong on a ReLU network (it can
    have the wrong sign), DeepLift and the perturbation methods are detached or cannot take a graph."""
    model, x = mlp(activation=nn.ReLU), normal(3, 6)
    explainer = REFUSED[name]
    values = explainer(model, x)
    assert values.shape == (3, 6)
    assert torch.isfinite(values).all()
    assert float(values.max()) > 0
    with pytest.raises(
        ValueError, match=f"{explainer.method.__name__} cannot be used where.*r2et.explainers.Gradient"
    ):
        explainer(model, x.clone().requires_grad_(), create_graph=True)


def check_derivative(explainer, model, x):
    direction, step = normal(*x.shape, seed=9), 1e-6
    point = x.clone().requires_grad_()
    target = model(x).argmax(1)
    value = explainer(model, point, target, create_graph=True)
    mix = normal(*value.shape, seed=4)
    exact = (torch.autograd.grad((value * mix).sum(), point)[0] * direction).sum()
    ahead, behind = (explainer(model, x + sign * step * direction, target) for sign in (1, -1))
    numeric = ((ahead - behind) * mix).sum() / (2 * step)
    assert float(exact) == pytest.approx(float(numeric), rel=1e-5)


@pytest.mark.parametrize("score", ["log-odds", "probability", "logit"])
def test_values_equal_our_own_explainers(score):
    model, x, target = mlp(classes=3), normal(5, 6), torch.tensor([0, 1, 2, 1, 0])
    pairs = [
        (FromCaptum(method=captum.attr.Saliency, score=score), r2et.explainers.Gradient(score=score)),
        (
            FromCaptum(method=captum.attr.InputXGradient, score=score),
            r2et.explainers.GradientTimesInput(score=score),
        ),
        (
            FromCaptum(method=captum.attr.IntegratedGradients, options={"n_steps": 30}, score=score),
            r2et.explainers.IntegratedGradients(points=30, score=score),
        ),
    ]
    for theirs, ours in pairs:
        torch.testing.assert_close(theirs(model, x, target), ours(model, x, target), atol=1e-7, rtol=1e-6)


def test_second_derivative_of_the_quadratic():
    model, x = quadratic(), normal(2, 5)
    explainer = FromCaptum(method=captum.attr.InputXGradient, reduce="signed")
    point = x.clone().requires_grad_()
    value = explainer(model, point, create_graph=True)
    slopes = r2et.numerics.jacobian.jacobian(value, point)
    g = x @ model.A + model.b
    expected = torch.diag_embed(g) + x[:, :, None] * model.A
    torch.testing.assert_close(slopes, expected.detach(), atol=1e-12, rtol=0)


def test_rows_keep_their_own_class_in_methods_that_repeat_each_row():
    """GradientShap copies every row n times in a row, IntegratedGradients copies the batch: both must be right."""
    model = mlp(classes=3)
    x = normal(4, 6)
    target = torch.tensor([0, 1, 2, 1])
    options = {"baselines": torch.zeros(1, 6, dtype=torch.float64), "n_samples": 300, "stdevs": 0.0}
    explainer = FromCaptum(method=captum.attr.GradientShap, options=options, reduce="signed")
    torch.manual_seed(0)
    together = explainer(model, x, target)
    torch.manual_seed(0)
    alone = torch.cat([explainer(model, x[r : r + 1], target[r : r + 1]) for r in range(4)])
    # the same Monte-Carlo integral over the path from zero, with other draws
    scale = alone.abs().max()
    assert float((together - alone).abs().max() / scale) < 0.15
    exact = r2et.explainers.IntegratedGradients(score="log-odds", reduce="signed")(model, x, target)
    assert float((alone - exact).abs().max() / scale) < 0.15


def test_two_inputs():
    model, x = Siamese(), normal(3, 2, 5)
    found = FromCaptum(method=captum.attr.InputXGradient, inputs=2)(model, x)
    torch.testing.assert_close(found, r2et.explainers.GradientTimesInput(inputs=2)(model, x))


def test_usable_in_an_attack_and_an_objective():
    model, x = mlp(activation=nn.Tanh), normal(3, 6)
    explainer = FromCaptum(method=captum.attr.InputXGradient)
    ours = r2et.attacks.ERAttack(k=2, radius=0.5, steps=5, explainer=r2et.explainers.GradientTimesInput())(
        model, x
    )
    theirs = r2et.attacks.ERAttack(k=2, radius=0.5, steps=5, explainer=explainer)(model, x)
    torch.testing.assert_close(theirs.x, ours.x, atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="GuidedBackprop"):
        r2et.attacks.ERAttack(k=2, radius=0.5, steps=5, explainer=REFUSED["guided backpropagation"])(model, x)


def test_a_baseline_in_the_shape_of_the_input_is_no_reason_to_refuse():
    options = {"n_steps": 5, "baselines": torch.zeros(1, 6, dtype=torch.float64)}
    with_baseline = FromCaptum(method=captum.attr.IntegratedGradients, options=options)
    check_derivative(with_baseline, mlp(activation=nn.Tanh), normal(3, 6))
