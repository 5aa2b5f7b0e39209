"""Models that are sure of themselves: logits times 1, 1e2, 1e4 and 1e8, through everything there is.

With two classes the log-odds are the difference of two logits. A factor on the logits multiplies their gradient
and changes no ranking of it, no certificate and no sign: only the probability saturates, and its gradient
underflows.
"""

import warnings
from dataclasses import fields

import pytest
import torch
from torch import nn

import r2et
from r2et import metrics, objectives, ranking
from r2et.attacks import (
    BoundaryAttack,
    ConstrainedAttack,
    ERAttack,
    MinimalFlip,
    MSEAttack,
    NoiseAttack,
    TrustRegion,
    WorstCase,
)
from r2et.certificates import Smoothing, certify, statistical_stability
from r2et.explainers import Activation, Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from r2et.stability import AdversarialNeighbours, GaussianNeighbours, UniformNeighbours
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture
from tests.models_with_answers import mlp, normal

FACTORS = (1.0, 1e2, 1e4, 1e8)
KINDS = {"relu": nn.ReLU, "softplus": nn.Softplus}
DTYPES = (torch.float32, torch.float64)
K, RADIUS = 2, 0.8
every_kind = pytest.mark.parametrize("kind", KINDS)


def case(kind, factor, dtype=torch.float32, rows=3):
    """A net whose logits are multiplied by the factor, inputs, and labels of both classes.

    The log-odds of the first input are 0.95 times the factor: at 1e2 the gradient of its probability is subnormal
    in float32, and later it is zero.
    """
    model, x = mlp(activation=KINDS[kind]), normal(rows, 6, seed=4)
    with torch.no_grad():
        factor = factor * 0.95 / abs(float(model(x[:1]) @ torch.tensor([1.0, -1.0], dtype=x.dtype)))
        model[2].weight.mul_(factor)
        model[2].bias.mul_(factor)
    return model.to(dtype), x.to(dtype), torch.arange(rows) % 2


def finite(values):
    """Everything in a result that has numbers is free of NaN and infinity."""
    if isinstance(values, torch.Tensor):
        assert values.isfinite().all(), values
    elif isinstance(values, dict):
        for value in values.values():
            finite(value)
    elif isinstance(values, list | tuple):
        for value in values:
            finite(value)
    elif isinstance(values, float):
        assert values == values, values
        assert abs(values) < float("inf")


def legal(result, x, norm="l2", radius=RADIUS):
    finite([getattr(result, entry.name) for entry in fields(result)])
    moved = (result.x - x).flatten(start_dim=1).double()
    length = moved.norm(dim=1) if norm == "l2" else moved.abs().amax(1)
    assert float(length.max()) <= radius * (1 + 2e-5)
    assert ((result.precision >= 0) & (result.precision <= 1)).all()
    assert not result.rejected


ATTACKS = {
    "er": lambda **s: ERAttack(**s, steps=6),
    "er-log-odds": lambda **s: ERAttack(**s, steps=6, score="log-odds"),
    "mse": lambda **s: MSEAttack(**s, steps=6),
    "mse-last": lambda **s: MSEAttack(**s, steps=6, keep="last"),
    "er-linf": lambda **s: ERAttack(**s, steps=6, norm="linf"),
    "mse-linf": lambda **s: MSEAttack(**s, steps=6, norm="linf"),
    "hinge": lambda **s: BoundaryAttack(**s, steps=6, restarts=2),
    "soft": lambda **s: BoundaryAttack(**s, steps=6, loss="soft"),
    "minimal": lambda **s: MinimalFlip(**s, steps=2, pairs=2, halvings=3),
    "gaussian": lambda **s: NoiseAttack(**s, steps=2),
    "uniform": lambda **s: NoiseAttack(**s, steps=2, kind="uniform"),
    "trust": lambda **s: TrustRegion(**s, steps=3),
    "worst": lambda **s: WorstCase(**s, budget="fast"),
    **{
        f"{objective.__name__}-{rule}": lambda objective=objective, rule=rule, **s: ConstrainedAttack(
            **s, steps=6, weights=rule, objective=objective, keep="last"
        )
        for objective in (ERAttack, MSEAttack)
        for rule in ("fixed", "gda", "hedge", "qp")
    },
}
EXPLAINERS = {
    "gradient": Gradient(),
    "margin": Gradient(score="margin"),
    "logit": Gradient(score="logit"),
    "gradient-probability": Gradient(score="probability"),
    "times-input": GradientTimesInput(),
    "smoothgrad": SmoothGrad(samples=3),
    "smoothgrad-log-odds": SmoothGrad(samples=3, score="log-odds"),
    "integrated": IntegratedGradients(points=3),
    "integrated-log-odds": IntegratedGradients(points=3, score="log-odds"),
    "activation": Activation(layer="1"),
}
#: those of the probability; a factor on the logits does not change the ranking of any other
UNDERFLOWING = ("gradient-probability", "smoothgrad", "integrated")


@every_kind
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack(name, kind):
    for factor in FACTORS[1::2] if name == "worst" else FACTORS[1:]:
        model, x, _ = case(kind, factor)
        attack = ATTACKS[name](k=K, radius=RADIUS, history=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = attack(model, x)
        legal(result, x, attack.norm)


@every_kind
@pytest.mark.parametrize("name", ["er", "mse", "mse-last", "MSEAttack-fixed", "MSEAttack-gda", "MSEAttack-hedge"])
def test_attacks_on_the_way_into_underflow(name, kind):
    """Log-odds of 84 to 107 in float32: the gradient of the probability becomes subnormal, then zero."""
    results = []
    for margin in range(84, 108):
        model, x, _ = case(kind, margin / 0.95)
        results.append((ATTACKS[name](k=K, radius=RADIUS)(model, x), x))
    for result, x in results:
        legal(result, x)


@every_kind
@pytest.mark.parametrize("explainer", UNDERFLOWING)
@pytest.mark.parametrize("name", ["er", "mse", "hinge", "soft", "minimal", "trust", "ERAttack-qp"])
def test_attacks_on_explanations_that_underflow(name, explainer, kind):
    for factor in FACTORS[1:3]:
        model, x, _ = case(kind, factor)
        legal(ATTACKS[name](k=K, radius=RADIUS, explainer=EXPLAINERS[explainer])(model, x), x)


@every_kind
@pytest.mark.parametrize("name", ["er", "mse", "hinge", "ERAttack-hedge"])
def test_attacks_in_float64(name, kind):
    for factor in (7.6e2, 1e8):  # subnormal in float64, and beyond
        model, x, _ = case(kind, factor, torch.float64)
        legal(ATTACKS[name](k=K, radius=RADIUS)(model, x), x)


@every_kind
@pytest.mark.parametrize("name", EXPLAINERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_explainer(name, kind, dtype):
    tops = []
    for factor in FACTORS:
        model, x, _ = case(kind, factor, dtype)
        scores = EXPLAINERS[name](model, x)
        finite(scores)
        tops.append(ranking.top_k_mask(scores, K))
    if name not in UNDERFLOWING:
        assert all(torch.equal(top, tops[0]) for top in tops)


OBJECTIVES = {
    "plain": objectives.CrossEntropy(),
    "adversarial": objectives.AdversarialTraining(k=K, radius=RADIUS),
    "r2et": objectives.R2ET(k=K),
    "r2et-boundary": objectives.R2ET(k=K, pairs="boundary", direction="adversarial"),
    "r2et-log-odds": objectives.R2ET(k=K, explainer=Gradient()),
    "scale-free": objectives.R2ET(k=K, scale_free=True),
    "scale-free-adversarial": objectives.R2ET(k=K, scale_free=True, direction="adversarial"),
    "scale-free-probability": objectives.R2ET(k=K, scale_free=True, explainer=Gradient(score="probability")),
    "direct": objectives.DirectThickness(k=K),
    "estimated": objectives.EstimatedHessian(),
    "exact": objectives.ExactHessian(),
    "exact-log-odds": objectives.ExactHessian(explainer=Gradient()),
    "ssr": objectives.SSR(),
    "ssr-log-odds": objectives.SSR(explainer=Gradient()),
    "certified": objectives.CertifiedRadius(k=K),
    "certified-point": objectives.CertifiedRadius(k=K, denominator="point"),
    "certified-log-odds": objectives.CertifiedRadius(k=K, denominator="point", explainer=Gradient()),
    "adaptive": objectives.R2ET(k=K, adaptive=True),
    "smoothgrad": objectives.R2ET(k=K, explainer=SmoothGrad(samples=2)),
}


@every_kind
@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_objective(name, kind, dtype):
    for factor in FACTORS[1:] if dtype == torch.float32 else FACTORS[-1:]:
        model, x, y = case(kind, factor, dtype)
        loss = OBJECTIVES[name](model, x, y, generator=torch.Generator().manual_seed(0))
        finite(loss)
        loss.backward()
        finite([parameter.grad for parameter in model.parameters() if parameter.grad is not None])


VARIANTS = ("probability", "gap", "average-precision", "dcg")
NEIGHBOURS = {
    "gaussian": GaussianNeighbours(0.1),
    "minimum": GaussianNeighbours(0.1, aggregate="minimum"),
    "uniform": UniformNeighbours(0.1),
    "adversarial": AdversarialNeighbours(MSEAttack(k=K, radius=RADIUS, steps=3)),
}


@every_kind
@pytest.mark.parametrize(
    ("variant", "neighbours"), [*((v, "gaussian") for v in VARIANTS), *(("gap", n) for n in NEIGHBOURS)]
)
def test_every_thickness(variant, neighbours, kind):
    for factor in FACTORS[1:]:
        model, x, _ = case(kind, factor)
        drawn = torch.Generator().manual_seed(0)
        values = r2et.thickness(
            model, x, K, variant=variant, neighbours=NEIGHBOURS[neighbours], samples=3, steps=2, generator=drawn
        )
        finite(values)
        finite(r2et.stability.pairwise_thickness(model, x, 0, 1, samples=2, steps=2, generator=drawn))


@every_kind
def test_the_share_of_pairs_in_order_does_not_see_the_factor(kind):
    found = []
    for factor in FACTORS:
        model, x, _ = case(kind, factor)
        found.append(r2et.thickness(model, x, K, samples=4, steps=2, generator=torch.Generator().manual_seed(0)))
    assert all(torch.equal(values, found[0]) for values in found)
    assert (found[0] < 1).any() or kind == "relu"


@every_kind
@pytest.mark.parametrize("name", ["gradient", "gradient-probability", "times-input", "logit"])
def test_thickness_bounds(name, kind):
    for factor in FACTORS:
        model, x, _ = case(kind, factor)
        bounds = r2et.thickness_bounds(model, x, K, radius=0.1, explainer=EXPLAINERS[name], samples=3)
        finite([bounds.lower, bounds.upper])
        assert (bounds.lower <= bounds.upper).all()


@every_kind
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_metric(kind, dtype):
    for factor in FACTORS:
        model, x, y = case(kind, factor, dtype)
        result = ERAttack(k=K, radius=RADIUS, steps=2, keep="last")(model, x)
        found = {
            "auc": metrics.auc(model, x, y),
            "adversarial": metrics.adversarial_auc(model, result, y),
            "sensitivity": metrics.sensitivity(result),
            "displaced": metrics.displaced(result, K),
            "dffot": metrics.dffot(model, x),
            "comprehensiveness": metrics.comprehensiveness(model, x),
            "sufficiency": metrics.sufficiency(model, x),
            **metrics.faithfulness(model, x, explainer=GradientTimesInput()),
        }
        finite(found)
        finite(ranking.rank_correlation(result.before, result.after))
        assert all(float(torch.as_tensor(found[name]).min()) >= 0 for name in found)
        assert all(float(torch.as_tensor(found[name]).max()) <= 1 for name in found if name != "displaced")


CERTIFICATES = {
    "gradient": (Gradient(), "auto"),
    "times-input": (GradientTimesInput(), "auto"),
    "smoothgrad": (SmoothGrad(samples=2, sigma=0.1, score="log-odds"), "auto"),
    "margin": (Gradient(score="margin"), "auto"),
    "smoothing": (Gradient(), Smoothing(samples=50)),
    "first-order": (Gradient(), "first-order"),
}


@every_kind
@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificates_do_not_see_the_factor(name, kind):
    explainer, method = CERTIFICATES[name]
    radii = []
    for factor in FACTORS if name == "gradient" else FACTORS[::3]:
        model, x, _ = case(kind, factor, torch.float64, rows=2)
        radii.append(certify(model, x, K, explainer=explainer, method=method).limits)
    assert not any(found.isnan().any() for found in radii)
    for found in radii[1:]:
        torch.testing.assert_close(found, radii[0], rtol=1e-6, atol=1e-9)
    assert (radii[0] > 0).any()


@every_kind
def test_certificates_of_the_prediction_do_not_see_the_factor(kind):
    held = []
    for factor in FACTORS[::3]:
        model, x, _ = case(kind, factor, torch.float64, rows=2)
        held.append(certify(model, x, K, prediction=True).details["prediction"])
    for found in held:
        finite(found)
        torch.testing.assert_close(found, held[0], rtol=1e-6, atol=1e-9)


@every_kind
def test_float32_models_get_certificates(kind):
    for factor in FACTORS[1::2]:
        model, x, _ = case(kind, factor, rows=2)
        certificate = certify(model, x, K)
        assert not certificate.limits.isnan().any()
        assert (certificate.radius >= 0).all()


@every_kind
def test_statistical_stability(kind):
    for factor in FACTORS:
        model, x, _ = case(kind, factor)
        found = statistical_stability(
            model, x, K, margin=0.1, samples=8, generator=torch.Generator().manual_seed(0)
        )
        finite([found.empirical, found.risk, found.surrogate, found.margin_risk, found.exceedance, found.gap])


@pytest.mark.parametrize(("kind", "factor"), [("relu", 1e2), ("softplus", 1e8)])
def test_audit(kind, factor):
    model, x, y = case(kind, factor)
    found = r2et.audit(model, x, y, k=K, radii=(0.3, RADIUS), steps=4, budget="fast")
    finite(found.to_dict() | {"certificate": None})
    for row in found.attacks:
        assert 0 <= row.precision <= 1
        assert row.distance <= row.radius * (1 + 2e-5)
    found.summary()
