"""The dual certificate: attacks inside of it, brute force, and controls that must be caught."""

import pytest
import torch
from torch import nn

from benchmarks.hunting import hunt
from r2et import ranking
from r2et.attacks import WorstCase
from r2et.certificates import certify, dual, dual_bounds
from r2et.certificates.dual import Level, radii_among, why_not_dual
from r2et.domain import Domain
from r2et.enclosure.problems import Reading
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput
from tests.certificates.opponents import changed_inside
from tests.certificates.test_dual_bounds import ACTIVATIONS
from tests.certificates.test_soundness import K, trained
from tests.covering import covering
from tests.models_with_answers import generator, linear, mlp, normal
from tests.opponent import Effort, judge

RADII = (0.03, 0.1, 0.3, 1.0)
TRAITS = ("plain", "copies", "dead", "small", "large", "ties")


def ugly(module, trait, *, n=5, hidden=7, classes=2, seed=0):
    """A random net of one hidden layer, float64, and inputs."""
    model = mlp(n, classes, hidden=hidden, seed=seed, activation=lambda: module)
    x = normal(6, n, seed=seed + 7)
    with torch.no_grad():
        if trait == "copies":
            model[0].weight[1], model[0].bias[1] = model[0].weight[0], model[0].bias[0]
        if trait == "dead":
            model[0].weight[0], model[2].weight[:, 1] = 0.0, 0.0
        if trait in ("small", "large"):
            model[0].weight.mul_(1e-3 if trait == "small" else 1e3)
        if trait == "ties":
            model[0].weight[:, 1] = model[0].weight[:, 0]
            x = x.round()
    return model, x


def problem_of(model, x, k, explainer=None, movable=None):
    reading = Reading.of(model, x, explainer or Gradient(), movable)
    return next(reading.problems(x, model(x).argmax(1), k, len(x)))


def drawn_lists(model, x, radius, explainer, k, *, draws=2000):
    """Features displaced at draws in the ball and on its sphere, at most, (N,)."""
    steps = torch.randn(draws, *x.shape, generator=generator(5), dtype=torch.float64)
    steps = steps / steps.norm(dim=2, keepdim=True) * radius
    steps[::3] *= torch.rand(len(steps[::3]), len(x), 1, generator=generator(6), dtype=torch.float64)
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    after = explainer(model, (x + steps).flatten(0, 1), target.repeat(draws)).unflatten(0, (draws, len(x)))
    return (1 - ranking.precision_at_k(after, clean.expand_as(after), k)).amax(0) * k


@pytest.mark.parametrize(
    # bounds of every activation with every trait are in the tests of the bounds
    ("module", "trait"),
    covering(((module, trait) for module in ACTIVATIONS for trait in TRAITS), together=1),
    ids=repr,
)
def test_no_draw_in_the_ball_displaces_more_than_certified(module, trait):
    model, x = ugly(module, trait)
    for k, explainer in ((1, Gradient()), (2, Gradient(reduce="signed")), (4, Gradient(score="logit"))):
        certificate = certify(model, x, k, explainer=explainer, radii=RADII)
        assert certificate.methods == ("dual",)
        for radius in RADII:
            lost = drawn_lists(model, x, radius, explainer, k, draws=300)
            assert (certificate.precision_at(radius) <= 1 - lost / k + 1e-9).all()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("module", [ACTIVATIONS[1], ACTIVATIONS[3], ACTIVATIONS[5], ACTIVATIONS[7]], ids=repr)
def test_no_functional_is_below_its_bound_anywhere(module, classes):
    """`by_features` and `terms` against the model's own gradients, for frozen features too."""
    movable = torch.tensor([True, False, True, True, False])
    for seed in range(3):
        model, x = ugly(module, "plain", classes=classes, seed=seed)
        problem = problem_of(model, x, 2, movable=movable)
        target, pairs = model(x).argmax(1), problem.pairs
        numbers = torch.arange(pairs.values.shape[1]).expand(len(x), -1)
        i, a, j, b = pairs.select(numbers)
        for radius in (0.1, 0.7):
            level = Level(problem.attributions, pairs, torch.full((len(x),), radius, dtype=torch.float64))
            rows = torch.arange(len(x)).repeat_interleave(numbers.shape[1])
            terms, scale = level.terms(rows, *pairs.at(rows, numbers.flatten()))
            own = (dual_bounds.started(terms).value * scale).reshape(numbers.shape)
            together = level.by_features()
            steps = torch.randn(60, *x.shape, generator=generator(seed), dtype=torch.float64) * movable
            steps = steps / steps.norm(dim=2, keepdim=True) * radius
            for step in steps:
                point = (x + step).requires_grad_()
                e = Gradient().attribute(model, point, target).detach()
                phi = a * e.gather(1, i) + b * e.gather(1, j)
                assert (own <= phi).all()
                assert (together <= phi).all()


def test_a_linear_model_is_certified_for_ever_and_needs_no_dual():
    certificate = certify(linear(6, seed=3), normal(5, 6, seed=1), 2, radii=[1e3])
    assert certificate.limits.isinf().all()
    assert certificate.methods == ("integral",)
    with pytest.raises(InputError, match='method="dual" does not apply: it is for networks of one hidden layer'):
        certify(linear(6, seed=3), normal(5, 6, seed=1), 2, method="dual")


def test_neurons_that_do_not_move_are_certified_at_any_radius():
    """A hidden layer behind frozen features: the gradient is the same everywhere an attacker can go."""
    model, x = ugly(nn.Softplus(5.0), "plain")
    with torch.no_grad():
        model[0].weight[:, 2:] = 0.0
    certificate = certify(
        model, x, 1, domain=Domain(frozen=[0, 1]), threat="domain", radii=[100.0], explainer=Gradient()
    )
    assert (certificate.precision_at(100.0) == 1).all()


@pytest.mark.parametrize(
    "activation",
    [
        *("softplus 5", "relu"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("softplus 1", "tanh", "sigmoid", "gelu", "silu")
        ),
    ],
)
def test_attacks_inside_the_radius_fail_and_farther_out_mostly_succeed(activation):
    model, x = trained(f"1 x {activation}", "breast-cancer")
    x = x[:16]
    certificate = certify(model, x, K, method="piecewise" if activation == "relu" else "auto")
    assert certificate.methods[-1] == "dual"
    everything = torch.ones(x.shape[1], dtype=torch.bool)
    assert not hunt(model, x, certificate.limits, Gradient(), K).any()
    assert not changed_inside(model, x, 0.999 * certificate.radius, Gradient(), K, movable=everything).any()
    farther = hunt(model, x, certificate.limits[:, :1], Gradient(), K, share=1.5)
    assert float(farther.double().mean()) > 0.5


@pytest.mark.parametrize("activation", ["softplus 5", pytest.param("relu", marks=pytest.mark.slow)])
def test_worst_case_and_the_independent_judge_agree_with_what_is_proven(activation):
    model, x = trained(f"1 x {activation}", "breast-cancer")
    x = x[:5]
    radii = [0.05, 0.2, 0.6]
    proven = certify(model, x, K, radii=radii, budget=8)
    verdicts = judge(model, x, x, radii=tuple(radii), effort=Effort(k=K, seed=0))
    for radius, verdict in zip(radii, verdicts, strict=True):
        left = WorstCase(k=K, radius=radius, budget="fast")(model, x).precision
        assert (proven.precision_at(radius) <= left + 1e-6).all()
        assert (proven.precision_at(radius) <= verdict.precision + 1e-6).all()


def wrong_bounds():
    charged = dual_bounds.Terms._charged

    def without_ball(self, values, slopes, norm):
        return charged(self, values, slopes, 0 * norm)

    def too_large(self, values, slopes, norm):
        return charged(self, values, slopes, norm) + 0.01 * (values.abs().sum(1) + self.radius * norm)

    return {"without the ball": without_ball, "a percent too large": too_large}


@pytest.mark.parametrize("wrong", ["without the ball", "a percent too large", "half the interval"])
def test_wrong_duals_are_caught(wrong, monkeypatch):
    """Each radius is pushed as far as the wrong bound allows: there an attack succeeds."""
    model, x = trained("1 x softplus 5", "breast-cancer")
    x = x[:16]
    monkeypatch.setattr(dual, "CLOSE", 1.002)
    monkeypatch.setattr(dual, "TRIALS", 24)
    assert not hunt(model, x, certify(model, x, K, method="dual").limits[:, :1], Gradient(), K).any()
    if wrong == "half the interval":
        monkeypatch.setattr(Level, "ends", property(lambda self: self.ball.spreads[0] / 2))
    else:
        monkeypatch.setattr(dual_bounds.Terms, "_charged", wrong_bounds()[wrong])
    assert hunt(model, x, certify(model, x, K, method="dual").limits[:, :1].clamp_max(20.0), Gradient(), K).any()


def test_softplus_is_charged_for_its_switch():
    """Softplus(3, 4) has a slope of 1 from z = 4/3 on, .018 above the smooth one: smaller gaps are open."""
    model, x = ugly(nn.Softplus(3.0, 4.0), "plain", seed=2)
    with torch.no_grad():
        model[0].bias.fill_(2.5)
    certificate = certify(model, x, 2, radii=[0.02])
    lost = drawn_lists(model, x, 0.02, Gradient(), 2)
    assert (certificate.precision_at(0.02) <= 1 - lost / 2).all()
    problem = problem_of(model, x, 2)
    level = Level(problem.attributions, problem.pairs, torch.full((6,), 0.02, dtype=torch.float64))
    assert (level.ball.error > 0).all()
    assert (level.by_features() < problem.pairs.values - level.ball.error[:, None]).all()


def test_a_row_gets_the_same_alone():
    model, x = trained("1 x softplus 5", "breast-cancer")
    x = x[:3]
    together = certify(model, x, K, radii=RADII)
    searched = certify(model, x, K)
    for row in range(len(x)):
        alone = certify(model, x[row : row + 1], K, radii=RADII)
        assert torch.equal(alone.limits[0], together.limits[row])
        assert torch.allclose(certify(model, x[row : row + 1], K).limits[0], searched.limits[row], rtol=1e-6)
    assert torch.equal(certify(model, x, K, radii=RADII, chunk_size=2).limits, together.limits)


def test_models_in_float32_are_certified_in_float64():
    model, x = ugly(nn.Softplus(5.0), "plain")
    single = certify(model.float(), x.float(), 2, radii=RADII)
    double = certify(model.double(), x.float().double(), 2, radii=RADII)
    assert torch.equal(single.limits, double.limits)
    assert single.limits.dtype == torch.float64


def test_the_search_never_falls_short_of_the_integral():
    model, x = trained("1 x tanh", "breast-cancer")
    plain, both = certify(model, x[:10], K, method="integral"), certify(model, x[:10], K)
    assert plain.methods == ("integral",)
    assert both.methods == ("integral", "dual")
    assert (both.limits >= plain.limits).all()
    assert (both.limits > 1.01 * plain.limits).any()


def test_limits_at_given_radii_hold_between_them():
    model, x = trained("1 x softplus 5", "breast-cancer")
    at = certify(model, x[:10], K, radii=[0.1, 0.4])
    assert at.radii == (0.1, 0.4)
    assert "known at 0.1, 0.4 alone" in repr(at)
    assert (at.precision_at(0.2) == at.precision_at(0.4)).all()
    assert (at.precision_at(0.05) >= at.precision_at(0.1)).all()
    assert (at.precision_at(0.41) == 0).all()
    closer = certify(model, x[:10], K, radii=[0.2])
    assert (closer.precision_at(0.2) >= at.precision_at(0.2)).all()


def test_more_cuts_prove_no_less():
    model, x = trained("1 x softplus 5", "breast-cancer")
    none, some = (certify(model, x[:10], K, radii=[0.3, 1.0], budget=budget) for budget in (0, 12))
    assert (some.limits >= none.limits).all()
    assert (some.limits > none.limits).any()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"radii": []}, "radii is empty"),
        ({"radii": [0.1, -1.0]}, r"positive, finite number, got radius=-1\.0"),
        ({"radii": 0.3}, "radii must be a list"),
        ({"budget": -1}, "budget must be a whole number of at least 0"),
        ({"method": "dual", "explainer": GradientTimesInput()}, "it is for Gradient"),
        ({"method": "intervals"}, 'method="intervals" does not apply'),
    ],
)
def test_settings_that_make_no_sense(settings, match):
    model, x = ugly(nn.Tanh(), "plain")
    with pytest.raises(InputError, match=match):
        certify(model, x, 2, **settings)


def test_where_the_dual_does_not_apply_the_rest_does():
    model = nn.Sequential(*mlp(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    certificate = certify(model, normal(3, 5), 2, radii=[0.1])
    assert certificate.methods == ("integral", "quadratic")
    assert certificate.radii is None
    assert "one hidden layer, and this one has 2" in certificate.reasons["dual"]


def test_radii_of_functionals_are_those_that_were_asked_for():
    model, x = ugly(nn.Tanh(), "plain")
    problem = problem_of(model, x, 2)
    assert why_not_dual(problem.attributions.network, Gradient()) is None
    radii = radii_among(problem.attributions, problem.pairs, [0.01, 0.1], 0)
    assert {round(value, 6) for value in radii.unique().tolist()} <= {0.0, 0.01, 0.1}
