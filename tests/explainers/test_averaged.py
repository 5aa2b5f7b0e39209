"""SmoothGrad and Integrated Gradients: closed forms, captum, completeness, convergence."""

import captum.attr
import pytest
import torch

import r2et
from r2et.explainers import IntegratedGradients, SmoothGrad
from tests.models_with_answers import OneNeuron, Siamese, convolution, mlp, naive_gradient, normal, quadratic

SMOOTH = {"score": "log-odds", "reduce": "signed"}


def test_smoothgrad_of_a_quadratic_is_its_gradient_at_the_mean_of_the_noise():
    model, x = quadratic(), normal(4, 5, seed=3)
    explainer = SmoothGrad(samples=7, sigma=0.3, **SMOOTH)
    noise = explainer.noise(x.shape[1:]).double()
    assert noise.shape == (7, 5)
    expected = ((x + noise.mean(0)) @ model.A + model.b).detach()
    torch.testing.assert_close(explainer(model, x), expected, atol=1e-13, rtol=1e-12)


@pytest.mark.parametrize("score", ["log-odds", "probability", "logit"])
def test_smoothgrad_is_a_mean_of_gradients_at_the_noisy_points(score):
    model, x, target = mlp(classes=3), normal(3, 6, seed=3), torch.tensor([0, 2, 1])
    explainer = SmoothGrad(samples=6, sigma=0.4, score=score, reduce="signed", seed=5)
    noise = explainer.noise(x.shape[1:]).double()
    found = explainer(model, x, target)
    for r in range(3):
        parts = [naive_gradient(model, x[r] + noise[m], int(target[r]), score) for m in range(6)]
        torch.testing.assert_close(found[r], sum(parts) / 6, atol=1e-14, rtol=1e-12)


def test_smoothgrad_noise_has_the_scale_asked_for():
    noise = SmoothGrad(samples=2000, sigma=0.25).noise(torch.Size([40]))
    assert float(noise.std()) == pytest.approx(0.25, rel=0.01)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.003)
    assert float(SmoothGrad(samples=4000).noise(torch.Size([20])).var()) == pytest.approx(0.5, rel=0.02)


def test_smoothgrad_statistics_agree_with_captum():
    """Two independent Monte-Carlo means of one distribution: their difference is within five standard errors."""
    model, x, target = mlp(), normal(2, 6, seed=3), torch.tensor([1, 0])
    samples, sigma = 3000, 0.5
    ours = SmoothGrad(samples=samples, sigma=sigma, reduce="signed", seed=3)(model, x, target)

    def of_class(points, chosen):
        return r2et.scores.probability(model(points), chosen)

    torch.manual_seed(0)
    theirs = captum.attr.NoiseTunnel(captum.attr.Saliency(of_class)).attribute(
        x.clone(), nt_samples=samples, stdevs=sigma, abs=False, additional_forward_args=(target,)
    )
    noise = sigma * normal(800, 1, 6, seed=11)
    points = (x + noise).reshape(-1, 6)
    spread = r2et.explainers.Gradient(score="probability", reduce="signed")(model, points, target.repeat(800))
    error = spread.reshape(800, 2, 6).std(0) * (2 / samples) ** 0.5
    assert float(((ours - theirs).abs() / error).max()) < 5
    assert float(error.max()) < 0.05 * float(ours.abs().max())  # the comparison can tell them apart


def test_smoothgrad_is_a_function_of_x_alone():
    model, x = mlp(), normal(6, 6)
    explainer = SmoothGrad(samples=5)
    together = explainer(model, x)
    torch.testing.assert_close(together[2:3], explainer(model, x[2:3]), atol=1e-15, rtol=0)
    assert torch.equal(together, SmoothGrad(samples=5)(model, x))
    assert not torch.allclose(together, SmoothGrad(samples=5, seed=1)(model, x))
    state = torch.get_rng_state()
    SmoothGrad(samples=5, seed=77)(model, x)
    assert torch.equal(state, torch.get_rng_state())  # the user's own random numbers are left alone


@pytest.mark.parametrize("rule", ["gauss-legendre", "trapezoid"])
def test_ig_of_a_quadratic(rule):
    """The path integral of A(x0 + a(x - x0)) + b is A(x + x0)/2 + b, exactly by both rules."""
    model, x = quadratic(), normal(4, 5, seed=3)
    start = normal(5, seed=8)
    expected = ((x - start) * ((x + start) / 2 @ model.A + model.b)).detach()
    found = IntegratedGradients(baseline=start, points=4, rule=rule, **SMOOTH)(model, x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_ig_of_one_neuron():
    """x * w v int_0^1 sigmoid(b + a w.x) da, and the integral is (softplus(b + w.x) - softplus(b)) / w.x."""
    model, x = OneNeuron(normal(5)), normal(4, 5, seed=3)
    target = torch.ones(4, dtype=torch.int64)
    z = (x @ model.w).detach()
    soft = torch.nn.functional.softplus
    b = torch.tensor(model.b, dtype=torch.float64)
    integral = model.v * (soft(b + z) - soft(b)) / z
    expected = x * integral[:, None] * model.w.detach()
    found = IntegratedGradients(points=30, **SMOOTH)(model, x, target)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("score", ["log-odds", "probability", "logit"])
@pytest.mark.parametrize("rule", ["gauss-legendre", "trapezoid"])
def test_completeness(score, rule):
    """The attributions add up to the difference of the score between x and the baseline."""
    model, x, target = mlp(classes=3), normal(5, 6, seed=3), torch.tensor([0, 1, 2, 0, 1])
    start = 0.3 * normal(6, seed=4)
    explainer = IntegratedGradients(score=score, reduce="signed", baseline=start, rule=rule, points=100)
    difference = r2et.scores.score(score, model(x), target) - r2et.scores.score(
        score, model(start.expand_as(x)), target
    )
    tolerance = 1e-10 if rule == "gauss-legendre" else 2e-3
    torch.testing.assert_close(explainer(model, x, target).sum(1), difference.detach(), atol=tolerance, rtol=0)


def test_convergence_of_the_two_rules():
    """Trapezoid: error falls by 4 when the step halves. Gauss-Legendre: nearly exact with a few points."""
    model, x = mlp(), normal(4, 6, seed=3)
    exact = IntegratedGradients(points=60, reduce="signed")(model, x)

    def error(points, rule):
        return float(
            (IntegratedGradients(points=points, rule=rule, reduce="signed")(model, x) - exact).abs().max()
        )

    assert error(9, "trapezoid") / error(17, "trapezoid") == pytest.approx(4, rel=0.3)
    assert error(17, "trapezoid") / error(33, "trapezoid") == pytest.approx(4, rel=0.2)
    assert error(16, "gauss-legendre") < 1e-3 * error(17, "trapezoid")


def test_ig_agrees_with_captum():
    model, x, target = mlp(classes=3), normal(4, 6, seed=3), torch.tensor([0, 2, 1, 1])
    start = 0.2 * normal(6, seed=4)

    def forward(points, chosen):
        return r2et.scores.probability(model(points), chosen)

    theirs = captum.attr.IntegratedGradients(forward).attribute(
        x, baselines=start.expand_as(x), n_steps=50, method="gausslegendre", additional_forward_args=(target,)
    )
    ours = IntegratedGradients(points=50, baseline=start, reduce="signed")(model, x, target)
    torch.testing.assert_close(ours, theirs.detach(), atol=1e-8, rtol=1e-7)  # captum keeps float32 weights


@pytest.mark.parametrize(
    "explainer",
    [SmoothGrad(samples=7, reduce="signed"), IntegratedGradients(points=9, reduce="signed")],
    ids=["SG", "IG"],
)
def test_chunk_size_changes_nothing(explainer):
    from dataclasses import replace

    model, x = mlp(classes=3), normal(4, 6)
    expected = explainer(model, x)
    for chunk_size in (1, 2, 4, 100):
        torch.testing.assert_close(
            replace(explainer, chunk_size=chunk_size)(model, x), expected, atol=1e-14, rtol=0
        )


def test_two_inputs_and_images():
    x = normal(3, 2, 5)
    for kind in (SmoothGrad(inputs=2, samples=3), IntegratedGradients(inputs=2, points=3)):
        assert kind(Siamese(), x).shape == (3, 2, 5)
    images = normal(3, 2, 4, 4)
    for kind in (SmoothGrad(reduce="abs-sum", samples=3), IntegratedGradients(reduce="abs-sum", points=3)):
        assert kind(convolution(), images).shape == (3, 16)


def test_ig_averages_over_the_path_of_both_inputs_of_a_pair():
    model, x = Siamese(), normal(3, 2, 5)
    found = IntegratedGradients(inputs=2, reduce="signed", score="log-odds", points=40)(model, x)
    target = model(x).argmax(1)
    difference = r2et.scores.log_odds(model(x), target) - r2et.scores.log_odds(model(0 * x), target)
    torch.testing.assert_close(found.sum((1, 2)), difference.detach(), atol=1e-9, rtol=0)


def test_the_paper_explains_the_probability():
    assert SmoothGrad().score == IntegratedGradients().score == "probability"
    assert SmoothGrad().samples == 50
    assert SmoothGrad().sigma ** 2 == pytest.approx(0.5)
    assert IntegratedGradients().points == 100


@pytest.mark.parametrize("explainer", [SmoothGrad(samples=3), IntegratedGradients(points=3)], ids=["SG", "IG"])
def test_works_without_grad_mode(explainer):
    model, x = mlp(), normal(3, 6)
    expected = explainer(model, x)
    with torch.no_grad():
        found = explainer(model, x)
    assert torch.equal(found, expected)
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SmoothGrad(samples=0), "samples=0"),
        (lambda: SmoothGrad(sigma=-1.0), r"sigma=-1\.0"),
        (lambda: SmoothGrad(sigma=float("nan")), "sigma=nan"),
        (lambda: IntegratedGradients(points=1), "points=1"),
        (lambda: IntegratedGradients(rule="trapezium"), r"'trapezium'.*'trapezoid'"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_baseline_that_does_not_fit_is_an_error_of_the_input():
    with pytest.raises(ValueError, match="baseline"):
        IntegratedGradients(baseline=torch.zeros(4))(mlp(), normal(3, 6))
