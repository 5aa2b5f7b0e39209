"""The dual bound of gradient times input: points of the ball, attacks, and controls that must be caught."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import WorstCase
from r2et.certificates import certify
from r2et.certificates.branching import branched
from r2et.certificates.dual import Level
from r2et.certificates.dual_bounds import ascended, started
from r2et.certificates.dual_products import ProductTerms
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput
from r2et.models import MLP
from tests.certificates.opponents import changed_inside
from tests.certificates.test_dual import RADII, TRAITS, drawn_lists, problem_of, ugly
from tests.certificates.test_dual_bounds import ACTIVATIONS
from tests.certificates.test_soundness import K, trained
from tests.models_with_answers import generator, normal

PRODUCTS = GradientTimesInput()


class Direct(nn.Module):
    """Logits that read the input beside the hidden layer."""

    def __init__(self, model, seed):
        super().__init__()
        self.model = model
        self.beside = nn.Linear(model[0].in_features, model[-1].out_features).double()
        with torch.no_grad():
            self.beside.weight.copy_(normal(*self.beside.weight.shape, seed=seed))

    def forward(self, x):
        return self.model(x) + self.beside(x)


def case(number, trait, *, classes=2, seed=0):
    model, x = ugly(ACTIVATIONS[number], trait, classes=classes, seed=seed)
    # a feature that is zero has no attribution until it moves
    x[:, 2] = torch.where(torch.arange(len(x)) % 2 == 0, 0.0, x[:, 2])
    return (Direct(model, seed) if number % 2 else model), x


def lowest_of(model, problem, x, radius, movable, *, draws=200):
    """Every functional at points of the ball, the smallest, (N, D)."""
    steps = torch.randn(draws, *x.shape, generator=generator(1), dtype=torch.float64) * movable
    steps = steps / steps.norm(dim=2, keepdim=True) * radius
    steps[::3] *= torch.rand(len(steps[::3]), len(x), 1, generator=generator(2), dtype=torch.float64)
    with torch.enable_grad():
        points = (x + steps).flatten(0, 1).requires_grad_()
        e = PRODUCTS.attribute(model, points, problem.target.repeat(draws)).detach()
    e = e.unflatten(0, (draws, len(x)))
    i, a, j, b = problem.pairs.select(torch.arange(problem.pairs.values.shape[1]).expand(len(x), -1))
    return (a * e.gather(2, i.expand(draws, -1, -1)) + b * e.gather(2, j.expand(draws, -1, -1))).amin(0)


def all_terms(problem, radius):
    """The level, and the terms of all functionals with their scale, row by row."""
    count = len(problem.attributions.x)
    level = Level(problem.attributions, problem.pairs, torch.full((count,), radius, dtype=torch.float64))
    rows, numbers = torch.ones_like(problem.pairs.values).nonzero(as_tuple=True)
    return level, *level.terms(rows, *problem.pairs.at(rows, numbers))


@pytest.mark.parametrize(
    ("number", "classes"),
    [
        # every activation once, and with the other number of classes where there is time
        pytest.param(number, classes, marks=() if (number % 2 == 0) == (classes == 2) else pytest.mark.slow)
        for number in range(len(ACTIVATIONS))
        for classes in (2, 4)
    ],
)
def test_no_functional_is_below_its_bound_anywhere(number, classes):
    movable = torch.tensor([True, number % 2 == 0, True, True, False])
    for seed in range(2):
        model, x = case(number, TRAITS[(number + classes + 3 * seed) % 6], classes=classes, seed=seed)
        problem = problem_of(model, x, 2, PRODUCTS, movable)
        for radius in (0.1, 0.8):
            limit = (lowest_of(model, problem, x, radius, movable) + problem.pairs.ties).flatten()
            level, terms, scale = all_terms(problem, radius)
            assert isinstance(terms, ProductTerms)
            # NaN proves nothing
            assert not (level.by_features().flatten() > limit).any()
            proof = started(terms)
            far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
            drawn = normal(*proof.slopes.shape, seed=4) * terms.chord()
            for value in (proof.value, ascended(terms, far, 10).value, terms.bound(drawn).value):
                assert not (value * scale > limit).any()
            # less what a draw found they are positive on no ball, however it is cut
            less = replace(terms, constant=terms.constant - limit / scale)
            assert not branched(less, replace(started(less), reached=far.reached), 3).any()


def test_the_point_that_multipliers_lead_to_is_one_of_the_ball():
    """`reached` is what the model has there, and `moves` are its pre-activations."""
    model, x = case(1, "plain")
    problem = problem_of(model, x, 2, PRODUCTS)
    _, terms, scale = all_terms(problem, 0.3)
    bound = terms.bound(terms.chord())
    reached = (bound.reached * scale).reshape(problem.pairs.values.shape)
    lowest = lowest_of(model, problem, x, 0.3, torch.ones(5), draws=3000)
    # these points are better than most draws, and no better than all of them by much
    assert (reached < problem.pairs.values).double().mean() > 0.9
    spread = (problem.pairs.values - lowest).clamp_min(1e-9)
    assert float(((reached - lowest) / spread).median()) < 0.3
    assert float(((lowest - reached) / spread).max()) < 0.5


def test_bounds_are_close_to_what_draws_find():
    for number in (1, 3, 6):
        model, x = case(number, "plain")
        problem = problem_of(model, x, 2, PRODUCTS)
        _, terms, scale = all_terms(problem, 0.1)
        proof = started(terms)
        far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
        value = (ascended(terms, far, 40).value * scale).reshape(problem.pairs.values.shape)
        lowest = lowest_of(model, problem, x, 0.1, torch.ones(5), draws=2000)
        share = (problem.pairs.values - lowest) / (problem.pairs.values - value)
        assert float(share.median()) > 0.8


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n % 3 == 1 else pytest.mark.slow) for n in range(len(ACTIVATIONS))],
)
def test_no_draw_in_the_ball_displaces_more_than_certified(number):
    model, x = case(number, TRAITS[number % 6], seed=number)
    for k, reduce in ((1, "abs"), (2, "signed"), (4, "abs")):
        explainer = GradientTimesInput(reduce=reduce)
        certificate = certify(model, x, k, explainer=explainer, radii=RADII)
        assert certificate.methods == ("dual",)
        for radius in RADII:
            lost = drawn_lists(model, x, radius, explainer, k, draws=300)
            assert (certificate.precision_at(radius) <= 1 - lost / k + 1e-9).all()


@pytest.mark.parametrize("number", [1, 3, 6])
def test_an_attack_changes_nothing_inside_and_much_outside(number):
    model, x = case(number, "plain")
    certificate = certify(model, x, 2, explainer=PRODUCTS, method="dual")
    assert (certificate.radius > 0).all()
    shared = {"explainer": PRODUCTS, "k": 2, "movable": torch.ones(5, dtype=torch.bool)}
    assert not changed_inside(model, x, certificate.radius * (1 - 1e-6), **shared).any()
    assert changed_inside(model, x, 1.5 * certificate.radius, **shared).double().mean() > 0.5


def test_worst_case_leaves_at_least_what_is_proven_of_what_may_move():
    model, x = case(1, "plain", seed=2)
    domain = Domain(frozen=[0, 3])
    proven = certify(model, x, 2, explainer=PRODUCTS, domain=domain, radii=[0.2], budget=8)
    attack = WorstCase(k=2, radius=0.2, budget="fast", explainer=PRODUCTS)(model, x, domain=domain)
    assert (proven.precision_at(0.2) <= attack.precision + 1e-6).all()


def test_at_given_radii_more_is_proven_than_by_the_integral():
    model, x = trained("1 x softplus 5", "breast-cancer")
    integral = certify(model, x[:8], K, explainer=PRODUCTS, method="integral")
    dual = certify(model, x[:8], K, explainer=PRODUCTS, radii=[0.1, 0.3])
    assert dual.methods == ("dual",)
    assert float(dual.precision_at(0.3).mean()) > float(integral.precision_at(0.3).mean()) + 0.02


def test_far_from_zero_it_is_the_gradient_times_one_number():
    """Inputs of a thousand: on a ball of radius .3 their own moves hardly count."""
    model, x = ugly(nn.Softplus(5.0), "plain")
    far = torch.full_like(x, 1000.0)
    with torch.no_grad():
        model[0].bias -= 1000.0 * model[0].weight.sum(1)
    products, gradients = (problem_of(model, far, 2, explainer) for explainer in (PRODUCTS, Gradient()))
    assert torch.equal(products.pairs.top, gradients.pairs.top)
    (_, terms, scale), (_, plain, plain_scale) = (all_terms(problem, 0.3) for problem in (products, gradients))
    found, expected = (
        terms.bound(terms.chord()).value * scale / 1000,
        plain.bound(plain.chord()).value * plain_scale,
    )
    assert ((found - expected).abs() < 0.01 * plain_scale).all()
    assert (expected.abs() > 0.1 * plain_scale).any()


@pytest.mark.parametrize("wrong", ["no second form", "half the ends", "a percent too large", "one end alone"])
def test_wrong_bounds_are_caught(wrong, monkeypatch):
    model, x = case(1, "plain")
    problem = problem_of(model, x, 2, PRODUCTS)
    assert not _contradicted(model, problem, x)
    if wrong == "a percent too large":
        charged = ProductTerms._charged
        monkeypatch.setattr(
            ProductTerms,
            "_charged",
            lambda self, values, *rest: charged(self, values, *rest) + 0.01 * values.abs().sum(1),
        )
    else:
        least = ProductTerms.least
        monkeypatch.setattr(ProductTerms, "least", lambda self, slopes: least(_spoiled(self, wrong), slopes))
    assert _contradicted(model, problem, x)


def _spoiled(terms, wrong):
    h = terms.z.shape[1]
    factor = torch.ones(2 * h, dtype=torch.float64)
    if wrong == "no second form":
        factor[h:] = 0.0
    if wrong == "half the ends":
        factor[:h] = 0.5
    if wrong == "one end alone":
        return replace(terms, low=torch.cat([terms.low[:, :h], terms.high[:, h:]], 1))
    return replace(terms, low=terms.low * factor, high=terms.high * factor)


def _contradicted(model, problem, x):
    for radius in (0.02, 0.3, 1.0):
        limit = lowest_of(model, problem, x, radius, torch.ones(5), draws=1000) + problem.pairs.ties
        _, terms, scale = all_terms(problem, radius)
        proof = started(terms)
        far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
        value = ascended(terms, far, 40).value
        if (value * scale > limit.flatten()).any():
            return True
    return False


def test_what_is_not_a_number_proves_nothing():
    problem = problem_of(*case(3, "plain"), 2, PRODUCTS)
    _, terms, _ = all_terms(problem, 0.1)
    broken = replace(terms, beta=torch.full_like(terms.beta, torch.nan))
    assert not (ascended(broken, started(broken), 5).value > 0).any()


def test_a_frame_of_the_weights_gives_the_bounds_of_the_weights(monkeypatch):
    """Long inputs are searched in the space of the weights, where a feature is an axis that sticks out of it."""
    torch.manual_seed(0)
    model = MLP(40, 2, hidden=(6,), activation="softplus").double()
    x = torch.randn(3, 40, dtype=torch.float64)
    domain = Domain(frozen=[0, 7, 33])
    seen = []
    bound = ProductTerms.bound

    def noting(self, slopes):
        bounds = bound(self, slopes)
        seen.append((self.axes is None, torch.cat([bounds.value, bounds.reached, bounds.moves.flatten()])))
        return bounds

    monkeypatch.setattr(ProductTerms, "bound", noting)
    for longest in (1024, 1):
        monkeypatch.setattr("r2et.enclosure.network.LONG", longest)
        certify(model, x, 3, explainer=PRODUCTS, method="dual", radii=[0.1, 0.4], domain=domain)
    half = len(seen) // 2
    assert [plain for plain, _ in seen] == [True] * half + [False] * half
    torch.testing.assert_close(
        torch.cat([values for _, values in seen[:half]]), torch.cat([values for _, values in seen[half:]])
    )


def test_products_of_very_many_features_are_left_to_the_integral(monkeypatch):
    model, x = MLP(12, 2, hidden=(4,), activation="softplus").double(), torch.randn(2, 12, dtype=torch.float64)
    assert "dual" in certify(model, x, 2, explainer=PRODUCTS).methods
    monkeypatch.setattr("r2et.certificates.dual.LONGEST_PRODUCTS", 11)
    assert certify(model, x, 2, explainer=PRODUCTS).methods == ("integral",)
    assert "dual" in certify(model, x, 2, explainer=Gradient()).methods
    with pytest.raises(InputError, match="very long with 12 features"):
        certify(model, x, 2, explainer=PRODUCTS, method="dual")
