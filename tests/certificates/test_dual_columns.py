"""The dual bound of effects of columns: points of the ball, attacks, and controls that must be caught."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et import Columns, Domain, ranking
from r2et.attacks import WorstCase
from r2et.certificates import certify, dual_bounds, dual_columns
from r2et.certificates.branching import branched
from r2et.certificates.dual import Level, moving_layer, why_not_dual
from r2et.certificates.dual_bounds import ascended, started
from r2et.enclosure import extract
from r2et.enclosure.linear_pieces import Lines
from r2et.enclosure.problems import Reading
from r2et.explainers import ColumnEffects
from r2et.validate import smooth
from tests.certificates.opponents import changed_inside
from tests.certificates.test_additive import net as additive_net
from tests.models_with_answers import generator, normal
from tests.tables_with_traps import COLUMNS, DOMAIN, GROUPS, ReadableSumTrap, network, table

ACTIVATIONS = (
    nn.Softplus(),
    nn.Softplus(5.0),
    nn.Softplus(1000.0),
    nn.Softplus(3.0, 4.0),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.SiLU(),
    nn.ReLU(),
    nn.LeakyReLU(0.2),
)
TRAITS = ("plain", "copies", "dead", "small", "large", "direct")
EFFECTS = ColumnEffects(columns=COLUMNS)
NUMBERS = COLUMNS.continuous
RADII = (0.03, 0.1, 0.3, 1.0)
K = 3


def ugly(module, trait, *, classes=2, seed=0):
    """A random net of one hidden layer on the table, float64."""
    model = network(classes, seed=seed, activation=lambda: module)
    with torch.no_grad():
        if trait == "copies":
            model[0].weight[1], model[0].bias[1] = model[0].weight[0], model[0].bias[0]
        if trait == "dead":
            model[0].weight[0], model[2].weight[:, 1] = 0.0, 0.0
            model[0].weight[2, :3] = 0.0
        if trait in ("small", "large"):
            model[0].weight.mul_(1e-3 if trait == "small" else 1e3)
    if trait != "direct":
        return model
    trap = ReadableSumTrap(model)
    with torch.no_grad():
        trap.term.weight += normal(*trap.term.weight.shape, seed=seed + 5)
    return trap


def problem_of(model, x, *, explainer=EFFECTS, movable=NUMBERS, k=K):
    return next(Reading.of(model, x, explainer, movable).problems(x, model(x).argmax(1), k, len(x)))


def level_of(problem, radius):
    count = len(problem.attributions.x)
    return Level(problem.attributions, problem.pairs, torch.full((count,), radius, dtype=torch.float64))


def all_terms(problem, level):
    """The terms of every functional, group by group: input and number (F,) each, terms, scale."""
    rows, numbers = torch.ones_like(problem.pairs.values).nonzero(as_tuple=True)
    i, _, j, _ = problem.pairs.at(rows, numbers)
    for some in level.together(i, j):
        row, number = rows[some], numbers[some]
        yield row, number, *level.terms(row, *problem.pairs.at(row, number))


def moved(x, radius, movable, draws, seed=0):
    """Points in the ball and on its sphere, (draws, N, n)."""
    steps = torch.randn(draws, *x.shape, generator=generator(seed), dtype=torch.float64) * movable
    steps = steps / steps.norm(dim=2, keepdim=True) * radius
    steps[::3] *= torch.rand(len(steps[::3]), len(x), 1, generator=generator(seed + 1), dtype=torch.float64)
    return x + steps


def functionals_at(model, problem, points):
    """Every functional at points (P, N, n), by the model itself, (P, N, D)."""
    count = len(points)
    with torch.enable_grad():
        effects = EFFECTS.attribute(model, points.flatten(0, 1).requires_grad_(), problem.target.repeat(count))
    e = effects.detach().unflatten(0, (count, -1))
    numbers = torch.arange(problem.pairs.values.shape[1]).expand(points.shape[1], -1)
    i, a, j, b = problem.pairs.select(numbers)
    return a * e.gather(2, i.expand(count, -1, -1)) + b * e.gather(2, j.expand(count, -1, -1))


@pytest.mark.parametrize(
    ("number", "classes"),
    [
        # every activation once, and with the other number of classes where there is time
        pytest.param(number, classes, marks=() if (number % 2 == 0) == (classes == 2) else pytest.mark.slow)
        for number in range(len(ACTIVATIONS))
        for classes in (2, 3)
    ],
)
def test_no_functional_is_below_its_bound_anywhere(number, classes):
    """Each activation with two of the traits, a frozen number too."""
    movable = NUMBERS.clone()
    movable[1] = number % 2 == 0
    for seed, trait in enumerate((TRAITS[(number + classes) % 6], TRAITS[(number + classes + 3) % 6])):
        model, x = ugly(ACTIVATIONS[number], trait, classes=classes, seed=seed), table(5, seed=seed)
        problem = problem_of(model, x, movable=movable)
        for radius in (0.1, 0.8):
            level = level_of(problem, radius)
            lowest = functionals_at(model, problem, moved(x, radius, movable, 200)).amin(0)
            # what rounding may have made of a functional at a point is in the ties; NaN proves nothing
            assert not (level.by_features() > lowest + problem.pairs.ties).any()
            for row, number_, terms, scale in all_terms(problem, level):
                limit = (lowest + problem.pairs.ties)[row, number_]
                proof = started(terms)
                far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
                drawn = normal(*proof.slopes.shape, seed=4) * terms.chord()
                for value in (proof.value, ascended(terms, far, 10).value, terms.bound(drawn).value):
                    assert not (value * scale > limit).any()
                # less what a draw found they are positive on no ball, however it is cut
                less = replace(terms, constant=terms.constant - limit / scale)
                assert not branched(less, replace(started(less), reached=far.reached), 3).any()


@pytest.mark.parametrize("module", [nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.SiLU()], ids=repr)
def test_bounds_are_close_to_what_descent_finds(module):
    """On a ball of three numbers most of the way to the bound is found."""
    model, x = ugly(module, "plain"), table(5)
    problem = problem_of(model, x)
    level = level_of(problem, 0.2)
    start, lowest = problem.pairs.values, functionals_at(model, problem, moved(x, 0.2, NUMBERS, 600)).amin(0)
    shares = []
    for row, number, terms, scale in all_terms(problem, level):
        proof = started(terms)
        far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
        value = ascended(terms, far, 40).value * scale
        shares.append((start[row, number] - lowest[row, number]) / (start[row, number] - value))
    assert float(torch.cat(shares).median()) > 0.8


def displaced(model, x, radius, explainer, k, *, draws=300):
    """Columns displaced at draws in the ball, at most, (N,)."""
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    points = moved(x, radius, NUMBERS, draws, seed=3)
    after = explainer(model, points.flatten(0, 1), target.repeat(draws)).unflatten(0, (draws, len(x)))
    return (1 - ranking.precision_at_k(after, clean.expand_as(after), k)).amax(0) * k


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n % 3 == 1 else pytest.mark.slow) for n in range(len(ACTIVATIONS))],
)
def test_no_draw_in_the_ball_displaces_more_than_certified(number):
    model, x = ugly(ACTIVATIONS[number], TRAITS[number % 6], seed=number), table(8, seed=number)
    for k, reduce in ((1, "abs"), (3, "signed"), (6, "abs")):
        explainer = ColumnEffects(columns=COLUMNS, reduce=reduce)
        certificate = certify(model, x, k, explainer=explainer, domain=DOMAIN, radii=RADII, method="dual")
        assert certificate.methods == ("dual",)
        for radius in RADII:
            lost = displaced(model, x, radius, explainer, k)
            assert (certificate.precision_at(radius) <= 1 - lost / k + 1e-9).all()


@pytest.mark.parametrize("module", [nn.Softplus(5.0), nn.Tanh(), nn.SiLU(), nn.ReLU()], ids=repr)
@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_an_attack_changes_nothing_inside_and_much_outside(module, reduce):
    model, x = ugly(module, "plain", seed=1), table(20)
    explainer = ColumnEffects(columns=COLUMNS, reduce=reduce)
    certificate = certify(model, x, K, explainer=explainer, domain=DOMAIN, method="dual")
    assert (certificate.radius > 0).double().mean() > 0.8
    radius = certificate.radius.clamp_max(100.0) * (1 - 1e-6)
    guide = smooth(model, 10.0) if isinstance(module, nn.ReLU) else None
    shared = {"explainer": explainer, "k": K, "movable": NUMBERS, "guide": guide}
    assert not changed_inside(model, x, radius, **shared).any()
    assert changed_inside(model, x, 1.5 * radius, **shared).double().mean() > 0.5


def test_worst_case_leaves_at_least_what_is_proven():
    model, x = ugly(nn.Softplus(5.0), "plain", seed=1), table(10)
    radii = (0.1, 0.5)
    proven = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN, radii=radii, budget=8)
    assert proven.methods == ("dual",)
    attack = WorstCase(k=K, radius=max(radii), budget="fast", explainer=EFFECTS)
    for radius, found in zip(radii, attack(model, x, domain=DOMAIN, radii=radii), strict=True):
        assert (proven.precision_at(radius) <= found.precision + 1e-6).all()
    assert (proven.precision_at(0.1) > 0).any()


def test_the_search_takes_the_larger_of_both():
    model, x = ugly(nn.Tanh(), "plain", seed=1), table(12)
    plain, both = (certify(model, x, K, explainer=EFFECTS, domain=DOMAIN, method=m) for m in ("integral", "auto"))
    assert both.methods == ("integral", "dual")
    assert (both.limits >= plain.limits).all()
    assert (both.limits > 1.05 * plain.limits).any()


def test_a_number_of_several_features_moves_as_one():
    columns = Columns(("a", "b", "flag"), ((0, 1), (2,), (3,)), ("number", "number", "flag"), ((), (), (0.5, 0.5)))
    x = normal(8, 4, seed=3)
    x[:, 1], x[:, 3] = x[:, 0], (x[:, 3] > 0).double()
    model = nn.Sequential(nn.Linear(4, 6), nn.Softplus(3.0, 4.0), nn.Linear(6, 2)).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=number))
    explainer, domain = ColumnEffects(columns=columns), Domain(frozen=[3], equal=[[0, 1]])
    certificate = certify(model, x, 1, explainer=explainer, domain=domain, radii=RADII)
    assert certificate.methods == ("dual",)
    attack = WorstCase(k=1, radius=0.3, budget="fast", explainer=explainer)(model, x, domain=domain)
    assert (certificate.precision_at(0.3) <= attack.precision + 1e-6).all()


def test_a_row_gets_the_same_alone():
    model, x = ugly(nn.Softplus(5.0), "plain"), table(4)
    together = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN, radii=RADII)
    for row in range(len(x)):
        alone = certify(model, x[row : row + 1], K, explainer=EFFECTS, domain=DOMAIN, radii=RADII)
        assert torch.equal(alone.limits[0], together.limits[row])


@pytest.mark.parametrize("wrong", ["no values", "half the interval", "a percent too large", "one row too few"])
def test_wrong_bounds_are_caught(wrong, monkeypatch):
    """Without what differences between rows add, and the like, some bound is above a point of the ball."""
    model, x = ugly(nn.Softplus(5.0), "plain"), table(5)
    problem = problem_of(model, x)
    assert not _contradicted(model, problem, x)
    if wrong == "no values":
        monkeypatch.setattr(dual_columns.ColumnTables, "_differences", _nothing)
    if wrong == "half the interval":
        monkeypatch.setattr(Level, "ends", property(lambda self: self.ball.spreads[0] / 2))
    if wrong == "a percent too large":
        charged = dual_bounds.Terms._charged
        monkeypatch.setattr(
            dual_bounds.Terms,
            "_charged",
            lambda self, values, *rest: charged(self, values, *rest) + 0.01 * values.abs().sum(1),
        )
    if wrong == "one row too few":
        moving = dual_columns.ColumnTables._moved
        # the row itself, the only one that has no axis of variants, is forgotten
        monkeypatch.setattr(
            dual_columns.ColumnTables,
            "_moved",
            lambda self, z, ends: moving(self, z, ends if z.ndim == 3 else ends * 0),
        )
    assert _contradicted(model, problem_of(model, x), x)


def _nothing(self):
    shape = (*self.of.variants.weight.shape, self.ends.shape[1], dual_columns.COLUMN_PIECES)
    return Lines(*(self.ends.new_zeros(shape) for _ in range(5)))


def _contradicted(model, problem, x):
    """Whether a bound of some functional is above a point of the ball, for small and large balls."""
    for radius in (0.01, 0.05, 0.3, 1.0):
        level = level_of(problem, radius)
        lowest = functionals_at(model, problem, moved(x, radius, NUMBERS, 400)).amin(0) + problem.pairs.ties
        for row, number, terms, scale in all_terms(problem, level):
            proof = started(terms)
            far = replace(proof, reached=torch.full_like(proof.reached, torch.inf))
            if (ascended(terms, far, 30).value * scale > lowest[row, number]).any():
                return True
    return False


def test_what_is_not_a_number_proves_nothing():
    problem = problem_of(ugly(nn.Tanh(), "plain"), table(3))
    for *_, terms, _ in all_terms(problem, level_of(problem, 0.1)):
        if isinstance(terms, dual_columns.PieceTerms):
            broken = replace(terms, offset=torch.full_like(terms.offset, torch.nan))
            assert not (ascended(broken, started(broken), 5).value > 0).any()


def test_layers_beside_the_one_that_moves_are_constants():
    model = ugly(nn.Tanh(), "plain")
    beside = nn.Sequential(nn.Linear(COLUMNS.n, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    both = _Sum(model, beside)
    assert why_not_dual(extract(both, (COLUMNS.n,)), EFFECTS) is not None
    with torch.no_grad():
        beside[0].weight[:, NUMBERS] = 0.0
    network_ = extract(both, (COLUMNS.n,)).where(NUMBERS)
    assert why_not_dual(network_, EFFECTS) is None
    assert moving_layer(network_) is not None
    x = table(5)
    problem = problem_of(both, x)
    assert not _contradicted(both, problem, x)


class _Sum(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.first(x) + self.second(x)


def test_it_stays_below_the_exact_radius_of_an_additive_network():
    """Where no two columns interact, the radius is known."""
    model, x = additive_net(COLUMNS.n, numeric=[0, 1, 2], groups=GROUPS, seed=7), table(12)
    exact = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN)
    assert exact.methods == ("additive",)
    bound = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN, method="dual")
    # exact up to a fraction of a percent
    assert (bound.limits <= exact.limits * 1.005).all()
    usable = (exact.radius > 0) & exact.radius.isfinite()
    assert float((bound.radius / exact.radius)[usable].median()) > 0.7
