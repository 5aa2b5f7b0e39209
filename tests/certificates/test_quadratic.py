"""The quadratic certificate: attacks inside of it, draws of the ball, and controls that must be caught."""

import pytest
import torch
from torch import nn

from benchmarks.hunting import hunt
from r2et.certificates import certify, quadratic
from r2et.certificates.quadratic import (
    Level,
    Piece,
    quadratic_at,
    quadratic_radii,
    shares,
    smallest,
    steps,
    why_not_quadratic,
)
from r2et.domain import Domain
from r2et.enclosure.drift import Derivatives, Drift
from r2et.enclosure.expansion import Expanded, Expansion
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput
from tests.certificates.opponents import changed_inside
from tests.certificates.test_dual import drawn_lists
from tests.certificates.test_soundness import K, trained
from tests.covering import covering
from tests.enclosure.test_expansion import SHAPES, SMOOTH, TRAITS, problem_of, two
from tests.models_with_answers import generator, mlp, normal

RADII = (0.02, 0.3)
EXPLAINERS = (Gradient(), Gradient(reduce="signed"), Gradient(score="logit"), Gradient(score="margin"))


@pytest.mark.parametrize(
    ("module", "trait", "shape"),
    covering(((m, t, s) for m in SMOOTH for t in TRAITS for s in SHAPES), together=1),
    ids=repr,
)
def test_no_draw_in_the_ball_displaces_more_than_certified(module, trait, shape):
    model, x = two(module, shape, trait, seed=3)
    for number, k in enumerate((1, 2, x.shape[1] - 1)):
        explainer = EXPLAINERS[(number + TRAITS.index(trait)) % len(EXPLAINERS)]
        certificate = certify(model, x, k, explainer=explainer, radii=RADII)
        assert certificate.methods == ("integral", "quadratic")
        for radius in RADII:
            lost = drawn_lists(model, x, radius, explainer, k, draws=100)
            assert (certificate.precision_at(radius) <= 1 - lost / k + 1e-9).all()


def level_of(model, x, radius, *, k=2, movable=None, balls=6):
    problem = problem_of(model, x, k, movable=movable)
    times = radius * torch.arange(1, balls + 1, dtype=torch.float64).expand(len(x), -1) / balls
    return Level(Expansion(problem.attributions), problem.pairs, times)


def lowest(model, x, radius, *, movable=None, balls=6):
    """The smallest functional less its bound at draws of the ball, as a share of both; attacks follow slopes."""
    level = level_of(model, x, radius, movable=movable, balls=balls)
    pairs, target = level.pairs, model(x).argmax(1)
    numbers = torch.arange(pairs.values.shape[1]).expand(len(x), -1)
    rows = torch.arange(len(x)).repeat_interleave(numbers.shape[1])
    (piece,) = level.pieces(rows, numbers.flatten())
    least = piece.bounds(torch.full_like(piece.values, radius)).reshape(numbers.shape)
    i, a, j, b = pairs.select(numbers)
    moves = torch.ones(x.shape[1]) if movable is None else movable
    worst = torch.inf
    for number in range(40):
        step = torch.randn(x.shape, generator=generator(number), dtype=torch.float64) * moves
        if number % 2 and movable is None and piece.expanded.slope.shape[1] == x.shape[1]:
            slope = piece.expanded.slope.unflatten(0, numbers.shape)
            step = -slope[:, number // 2 % numbers.shape[1]]
        elif number in (1, 3):
            # what a single neuron reads
            step = (number - 2) * model.first.weight[:1].detach().expand_as(x) * moves
        step = step / step.norm(dim=1, keepdim=True) * radius
        e = Gradient().attribute(model, (x + step).requires_grad_(), target).detach()
        phi = a * e.gather(1, i) + b * e.gather(1, j)
        worst = min(worst, float(((phi - least) / (phi.abs() + pairs.values.abs() + 1e-30)).min()))
    return worst


@pytest.mark.parametrize("radius", [0.003, 0.1, 1.0])
@pytest.mark.parametrize("module", SMOOTH, ids=repr)
def test_no_functional_is_below_its_bound_anywhere(module, radius):
    for number, shape in enumerate(SHAPES):
        model, x = two(module, shape, TRAITS[number], seed=number + 20)
        assert lowest(model, x, radius) >= 0


def test_frozen_features_are_explained_and_do_not_move():
    movable = torch.tensor([True, False, True, True, False])
    for shape in ("plain", "residual"):
        model, x = two(nn.Softplus(5.0), shape)
        assert lowest(model, x, 0.5, movable=movable) >= 0
    frozen = certify(model, x, 2, domain=Domain(frozen=[1, 4]))
    assert (frozen.radius >= certify(model, x, 2).radius * (1 - 1e-3)).all()
    assert frozen.methods == ("integral", "quadratic")
    everything = certify(model, x, 2, domain=Domain(frozen=[0, 1, 2, 3, 4]))
    assert everything.limits.isinf().all()


@pytest.mark.parametrize(
    "activation",
    [
        "softplus 5",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("softplus 1", "tanh", "sigmoid", "gelu", "silu")),
    ],
)
def test_attacks_inside_the_radius_fail_and_farther_out_mostly_succeed(activation):
    model, x = trained(f"2 x {activation}", "breast-cancer")
    x = x[:12]
    certificate = certify(model, x, K)
    assert certificate.methods == ("integral", "quadratic")
    everything = torch.ones(x.shape[1], dtype=torch.bool)
    assert not hunt(model, x, certificate.limits, Gradient(), K).any()
    assert not changed_inside(model, x, 0.999 * certificate.radius, Gradient(), K, movable=everything).any()
    farther = hunt(model, x, certificate.limits[:, :1], Gradient(), K, share=1.5)
    assert float(farther.double().mean()) > 0.5


def earlier(right):
    """Each ball as if it were the one before: what is known at the left end of a step, and nothing at x."""

    def at_left_end(self, wanted):
        drift = right(self, wanted)

        def left(part):
            return torch.cat([torch.zeros_like(part[:, :1]), part[:, :-1]], 1)

        first, second = (Derivatives(*map(left, part)) for part in (drift.first, drift.second))
        return Drift(drift.times, first, second, left(drift.pull), left(drift.values), left(drift.loss))

    return at_left_end


def wrong_certificates(monkeypatch, wrong):
    """A certificate with one mistake."""
    bounds, slope = Piece.bounds, Expanded.slope.func
    if wrong == "the left end of a step":
        monkeypatch.setattr(Expansion, "drift", earlier(Expansion.drift))
    elif wrong == "a percent too large":
        monkeypatch.setattr(Piece, "bounds", lambda self, r: bounds(self, r) + 0.01 * self.values)
    elif wrong == "a slope too small":
        monkeypatch.setattr(Expanded, "slope", property(lambda self: 0.97 * slope(self)))
    else:
        monkeypatch.setattr(quadratic, "shares", lambda times, radius: 0 * shares(times, radius))


WRONG = ("the left end of a step", "a percent too large", "a slope too small", "no errors")


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_bounds_are_caught(wrong, monkeypatch):
    """Functionals pushed to the edge of what the wrong bound allows: there a step along the slope succeeds."""
    cases = [(*two(nn.Tanh(), hidden=1, seed=seed), radius) for seed in range(6) for radius in (0.03, 0.3)]
    assert min(lowest(*case, balls=3) for case in cases) >= 0
    wrong_certificates(monkeypatch, wrong)
    assert min(lowest(*case, balls=3) for case in cases) < 0


def test_softplus_is_charged_for_its_switch():
    """Softplus(3, 4) has a slope of 1 from z = 4/3 on, .018 above the smooth one: smaller gaps are open."""
    model, x = two(nn.Softplus(3.0, 4.0), seed=2)
    with torch.no_grad():
        model.first.bias.fill_(2.5)
    level = level_of(model, x, 0.02)
    assert (level.drift.loss > 0).all()
    assert lowest(model, x, 0.02) >= 0
    without = level_of(two(nn.Softplus(3.0, 400.0), seed=2)[0], x, 0.02)
    assert (without.drift.loss == 0).all()


def test_nothing_is_said_beyond_the_last_ball():
    model, x = two(nn.Tanh())
    level = level_of(model, x, 0.1)
    (piece,) = level.pieces(torch.arange(6), torch.zeros(6, dtype=torch.long))
    assert piece.bounds(torch.full((6,), 0.1001, dtype=torch.float64)).isnan().all()
    assert not piece.bounds(torch.full((6,), 0.1, dtype=torch.float64)).isnan().any()


def test_shares_are_integrals_of_two_times_one_less_t():
    times = torch.tensor([[0.5, 1.0, 4.0]], dtype=torch.float64)
    for radius in (0.2, 0.5, 0.7, 3.0, 4.0):
        t = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
        step = torch.searchsorted(times[0], t * radius)
        expected = torch.zeros(3, dtype=torch.float64).index_add(0, step, 2 * (1 - t) / len(t))
        assert torch.allclose(shares(times, torch.tensor([radius], dtype=torch.float64))[0], expected, atol=1e-4)


def test_the_smallest_of_each_row():
    radii = torch.tensor([[3.0, 1.0, 2.0, 0.5], [torch.nan, 4.0, torch.inf, 1.0]])
    wanted = torch.tensor([[True, True, True, False], [False, True, False, False]])
    rows, numbers = smallest(radii, wanted, 2)
    assert rows.tolist() == [0, 0, 1]
    assert numbers.tolist() == [1, 2, 1]


def test_fewer_functionals_of_large_networks_are_looked_at():
    small, wide = (
        Expansion(problem_of(*two(nn.Tanh(), hidden=hidden, n=30)).attributions) for hidden in (7, 3000)
    )
    assert quadratic.affordable(small, 16) == 16
    assert 1 <= quadratic.affordable(wide, 16) < 16


def test_balls_reach_beyond_what_is_known():
    known = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    times = steps(known)
    assert (times.diff(dim=1) > 0).all()
    assert float(times[0, -1]) > 2.0
    assert int((times[0] <= 1.0).sum()) >= 4


def test_it_never_falls_short_of_the_integral_and_gets_far_beyond():
    model, x = trained("2 x tanh", "breast-cancer")
    x = x[:10]
    plain, both = certify(model, x, K, method="integral"), certify(model, x, K)
    assert (both.limits >= plain.limits).all()
    assert float((both.radius / plain.radius).median()) > 1.1
    alone = certify(model, x, K, method="quadratic")
    assert alone.methods == ("quadratic",)
    assert alone.method == "quadratic"
    assert float((alone.radius / both.radius).median()) > 0.9
    assert (alone.radius <= both.radius * 1.05).all()


def test_given_radii_prove_at_least_what_the_integral_does():
    model, x = trained("2 x softplus 5", "breast-cancer")
    x, radius = x[:8], 0.2
    plain, at = certify(model, x, K, method="integral"), certify(model, x, K, radii=[0.05, radius])
    assert at.radii is None
    assert (at.precision_at(radius) >= plain.precision_at(radius)).all()
    assert (at.precision_at(radius) > plain.precision_at(radius)).any()


def test_a_row_gets_the_same_alone():
    model, x = trained("2 x softplus 5", "breast-cancer")
    x = x[:3]
    together, searched = certify(model, x, K, radii=RADII), certify(model, x, K)
    for row in range(len(x)):
        alone = certify(model, x[row : row + 1], K, radii=RADII)
        assert torch.allclose(alone.limits[0], together.limits[row], rtol=1e-6)
        assert torch.allclose(certify(model, x[row : row + 1], K).limits[0], searched.limits[row], rtol=1e-6)


def test_few_functionals_at_once_give_the_same(monkeypatch):
    model, x = two(nn.Tanh())
    problem = problem_of(model, x, 2)
    known = torch.full_like(problem.pairs.values, 1e-3)
    whole = quadratic_at(problem.attributions, problem.pairs, known, [0.01, 0.1])
    searched = quadratic_radii(problem.attributions, problem.pairs, known)
    monkeypatch.setattr(quadratic, "ENTRIES", 200)
    assert torch.allclose(whole, quadratic_at(problem.attributions, problem.pairs, known, [0.01, 0.1]))
    assert torch.allclose(searched, quadratic_radii(problem.attributions, problem.pairs, known), rtol=1e-6)


def test_what_is_not_a_number_certifies_nothing():
    model, x = two(nn.Tanh())
    problem = problem_of(model, x, 2)
    known = torch.zeros_like(problem.pairs.values)
    expansion = Expansion(problem.attributions)
    expansion.q = expansion.q * torch.nan
    level = Level(expansion, problem.pairs, torch.full((6, 1), 1e-6, dtype=torch.float64))
    (piece,) = level.pieces(torch.arange(6), torch.zeros(6, dtype=torch.long))
    assert not (quadratic.searched(piece, known[:, 0]) > 0).any()


def test_where_it_does_not_apply():
    x = normal(3, 5)
    for model, explainer, match in (
        (mlp(5), Gradient(), "two hidden layers, and this one has 1"),
        (two(nn.Tanh())[0], GradientTimesInput(), "it is for Gradient, not for GradientTimesInput"),
        (two(nn.ReLU())[0], Gradient(), "third derivative of layer"),
    ):
        with pytest.raises(InputError, match=match):
            certify(model, x, 2, explainer=explainer, method="quadratic")
    many = nn.Sequential(*mlp(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    assert (
        "with more than two classes it is for networks of one hidden layer"
        in certify(many, x, 2).reasons["quadratic"]
    )
    network = problem_of(many, x).attributions.network
    assert why_not_quadratic(network, Gradient(score="margin")) is None
    assert certify(many, x, 2, explainer=Gradient(score="logit")).methods == ("integral", "quadratic")
