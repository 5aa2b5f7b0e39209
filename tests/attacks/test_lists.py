"""Attacks on lists of reasons, which may have fewer than k names: against brute force and an exact search."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et import Columns, attacks, metrics, ranking, thickness
from r2et.attacks import quick_contributions
from r2et.attacks.judge import Judge
from r2et.attacks.quick_contributions import quickened
from r2et.attacks.task import Task
from r2et.domain import without_gauge
from r2et.errors import InputError
from r2et.explainers import Background, ColumnEffects, Contributions
from r2et.models import Additive, Linear
from r2et.objectives import R2ET
from r2et.objectives.r2et import pair_weights
from r2et.stability import GaussianNeighbours
from tests.models_with_answers import generator, normal
from tests.tables_with_traps import COLUMNS, DOMAIN, network, table

BACKGROUND = Background(table(8, seed=40))
EXPLAINER = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2)
QUICK = {
    "er": {"steps": 10},
    "mse": {"steps": 10},
    "boundary": {"steps": 20},
    "noise": {"steps": 10},
    "minimal": {"steps": 4},
    "next-feature": {"steps": 10, "restarts": 4, "hops": 1, "hop_restarts": 2},
    "random-search": {"steps": 20, "rounds": 3, "proposals": 4},
    "trust-region": {"steps": 4},
    "worst-case": {"budget": "fast"},
}


def numbers(count):
    return Columns(
        tuple(map(str, range(count))), tuple((i,) for i in range(count)), ("number",) * count, ((),) * count
    )


def naive_precision(before, after, k):
    """By sorting, with sets, of one row each."""

    def names(scores):
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
        return {i for i in order if scores[i] > 0}

    a, b = names(before), names(after)
    return 1.0 if not a and not b else len(a & b) / max(len(a), len(b))


def exact_reach(model, background, x, k, *, far=8.0, points=4001):
    """The moves of an additive score of two classes towards each P@k, by its bare contributions, column by column.

    Returns:
        For one row x (n,) pairs (length of the move, P@k that it reaches), for all numbers of names that leave and
        enter: there is a threshold t >= 0 above which are those that are named afterwards, and every column pays
        for itself.
    """

    def of_columns(rows):
        parts = sign * (model.parts(rows)[:, 1] - model.parts(background)[:, 1].mean(0))
        return torch.zeros(len(rows), len(COLUMNS)).double().index_add(1, COLUMNS.owner, parts).numpy()

    with torch.no_grad():
        sign = 1 if model(x[None]).argmax() == 1 else -1
        steps = torch.linspace(-far, far, points).double()
        clean = of_columns(x[None])[0]
        curves = of_columns(x + steps[:, None] * COLUMNS.continuous)
    squares = steps.square().numpy()
    order = sorted(range(len(clean)), key=lambda i: (-clean[i], i))[:k]
    named = [i for i in order if clean[i] > 0]
    others = [i for i in range(len(clean)) if i not in named]
    reached = []
    for level in np.unique(np.concatenate([clean[clean > 0], np.linspace(0, max(0.1, clean.max()), 400)])):
        down = sorted(_price(curves[:, i], squares, lambda c, t=level: c <= t) for i in named)
        up = sorted(_price(curves[:, i], squares, lambda c, t=level: c > t) for i in others)
        for left, entered in itertools.product(range(len(down) + 1), range(len(up) + 1)):
            after = len(named) - left + entered
            # above a threshold that is not 0 there are as many as a list has places: they push the others out
            if after > k or (level > 0 and after < k):
                continue
            longer = max(len(named), after)
            precision = 1.0 if longer == 0 else (len(named) - left) / longer
            reached.append(((sum(down[:left]) + sum(up[:entered])) ** 0.5, precision))
    return reached


def _price(curve, squares, holds):
    """The smallest squared move to where something holds."""
    return float(squares[holds(curve)].min(initial=np.inf))


# --- what is judged ----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 6), st.data())
def test_the_judge_knows_the_precision_of_lists(n, data):
    """Of scores with many ties, zeros and signs: by sets."""
    k = data.draw(st.integers(1, n))
    values = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=n, max_size=n)
    before, after = torch.tensor([data.draw(values), data.draw(values)]).double()
    columns = numbers(n)
    explainer = Contributions(columns=columns, background=Background(((0.0,) * n,)))
    model = Linear(n, 2).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0], [1.0]]).expand(2, n))
        model.bias.copy_(torch.tensor([0.0, 100.0]))
    attack = attacks.ERAttack(k=k, radius=100.0, explainer=explainer)
    judge = Judge(Task.prepare(attack, model, before[None]))
    seen = judge.evaluate(after[None])
    expected = naive_precision(before.tolist(), after.tolist(), k)
    assert float(seen.precision) == pytest.approx(expected)
    assert float(seen.lowest) == pytest.approx(expected)
    assert torch.equal(seen.scores[:, k:], after[None])
    named = [ranking.list_mask(part, k, positive=True) for part in (before, after)]
    assert float(ranking.list_precision(*named)) == pytest.approx(expected)
    assert float(ranking.precision_at_k(before, after, k, positive=True)) == pytest.approx(expected)
    # the pairs of the search are behind exactly where the list has changed
    lost = judge.lost(seen.scores, (seen.weakest, seen.strongest))
    assert (float(lost) > 0) == (expected < 1)


@pytest.mark.parametrize("name", QUICK)
def test_every_attack_takes_lists_of_reasons(name):
    model, x = network(), table(8)
    attack = attacks.ATTACKS.create(name, k=3, radius=1.0, explainer=EXPLAINER, **QUICK[name])
    result = attack(model, x, domain=DOMAIN)
    assert result.before.shape == result.after.shape == (8, len(COLUMNS))
    torch.testing.assert_close(result.before, EXPLAINER(model, x))
    target = model(x).argmax(1)
    torch.testing.assert_close(result.after, EXPLAINER(model, result.x, target), rtol=0, atol=1e-9)
    for before, after, precision in zip(
        result.before.tolist(), result.after.tolist(), result.precision, strict=True
    ):
        assert float(precision) == pytest.approx(naive_precision(before, after, 3))
    assert torch.equal(result.x[:, 3:], x[:, 3:])
    lost = [
        len(
            {i for i in sorted(range(7), key=lambda i: -b[i])[:3] if b[i] > 0}
            - {i for i in sorted(range(7), key=lambda i: -a[i])[:3] if a[i] > 0}
        )
        for b, a in zip(result.before.tolist(), result.after.tolist(), strict=True)
    ]
    assert metrics.displaced(result, 3).tolist() == lost


@pytest.mark.parametrize("name", ["next-feature", "worst-case"])
def test_at_a_radius_of_nothing_every_list_stays(name):
    model, x = network(), table(12)
    attack = attacks.ATTACKS.create(name, k=3, radius=1e-12, explainer=EXPLAINER, **QUICK[name])
    assert (attack(model, x, domain=DOMAIN).precision == 1).all()


def test_larger_radii_displace_no_less_and_lists_of_all_columns_change_too():
    model, x = network(), table(12)
    attack = attacks.WorstCase(k=7, radius=1.0, explainer=EXPLAINER, budget="fast")
    results = attack(model, x, domain=DOMAIN, radii=[0.1, 0.5, 2.0])
    for smaller, larger in itertools.pairwise(results):
        assert (larger.precision <= smaller.precision).all()
    assert results[-1].precision.mean() < 0.9
    with pytest.raises(InputError, match="k=8"):
        attacks.WorstCase(k=8, radius=1.0, explainer=EXPLAINER)(model, x, domain=DOMAIN)


def test_a_list_of_frozen_columns_alone_cannot_be_attacked():
    """The negative control: nothing that the score looks at can move."""
    model = Linear(COLUMNS.n, 2).double()
    with torch.no_grad():
        model.weight[:, :3] = 0
    result = attacks.WorstCase(k=3, radius=5.0, explainer=EXPLAINER, budget="fast")(
        model, table(10), domain=DOMAIN
    )
    assert (result.precision == 1).all()


# --- against what is there -----------------------------------------------------------------------------------


def test_an_attack_finds_what_a_grid_of_moves_finds():
    columns = numbers(2)
    explainer = Contributions(columns=columns, background=Background(normal(4, 2, seed=9)))
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(2 * normal(*weight.shape, seed=3 + number))
    x = normal(16, 2, seed=1)
    radius = 0.4
    result = attacks.WorstCase(k=2, radius=radius, explainer=explainer, budget="fast")(model, x)
    target = model(x).argmax(1)
    side = torch.linspace(-radius, radius, 61).double()
    moves = torch.cartesian_prod(side, side)
    moves = moves[moves.norm(dim=1) <= radius]
    lowest = torch.ones(16).double()
    for move in moves.split(200):
        points = (x[:, None] + move).flatten(0, 1)
        after = explainer(model, points, target.repeat_interleave(len(move))).unflatten(0, (16, -1))
        before = result.before[:, None].expand_as(after)
        precision = ranking.precision_at_k(before, after, 2, positive=True)
        kept = model(points).argmax(1).unflatten(0, (16, -1)) == target[:, None]
        lowest = torch.minimum(lowest, torch.where(kept, precision, 1.0).amin(1))
    assert (lowest < 1).float().mean() > 0.3, "there is something to find"
    assert (result.precision <= lowest + 1e-9).float().mean() >= 0.85
    assert result.precision.mean() <= lowest.mean() + 0.05


@pytest.mark.parametrize("k", [2, 4])
def test_an_attack_on_an_additive_model_comes_near_the_exact_answer(k):
    rows = table(200, seed=5)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = Additive.from_rows(rows, 2, columns=COLUMNS, units=6).double()
        with torch.no_grad():
            model.heights.weight.mul_(1.5)
    background = Background.from_rows(rows, COLUMNS)
    explainer = Contributions(columns=COLUMNS, background=background)
    x = table(40, seed=6)
    radius = 0.8
    attack = attacks.WorstCase(k=k, radius=radius, explainer=explainer, keep="any", budget="fast")
    result = attack(model, x, domain=DOMAIN)
    exact = torch.tensor(
        [
            min(
                [p for length, p in exact_reach(model, background.tensor, row, k) if length <= radius],
                default=1.0,
            )
            for row in x
        ]
    ).double()
    assert (exact < 1).float().mean() > 0.3, "there is something to find"
    # but for what lies between the points of the grid
    assert (result.precision >= exact - 1e-9).float().mean() >= 0.95, "nobody finds more than there is"
    assert result.precision.mean() <= exact.mean() + 0.03
    noise = attacks.NoiseAttack(k=k, radius=radius, explainer=explainer, keep="any", steps=20)(
        model, x, domain=DOMAIN
    )
    assert result.precision.mean() < noise.precision.mean() - 0.03


# --- tables in place of passes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [nn.Softplus, nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("score", ["log-odds", "logit"])
def test_tables_of_contributions_are_nearly_right(activation, score):
    model, x = network(3 if score == "logit" else 2, activation=activation), table(20)
    explainer = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2, score=score)
    attack = attacks.ERAttack(k=3, radius=0.5, explainer=explainer)
    task = Task.prepare(attack, model, x, reach=DOMAIN.reach("domain", COLUMNS.n))
    quick = quickened([task])
    moves = normal(20, COLUMNS.n, seed=3) * COLUMNS.continuous
    slopes = []
    for explain in (explainer, quick):
        point = (x + 0.5 * moves / moves.norm(dim=1, keepdim=True)).requires_grad_()
        value = explain.attribute(model, point, task.target, create_graph=True)
        slopes.append((value.detach(), torch.autograd.grad((value * torch.arange(7)).sum(), point)[0]))
    size = slopes[0][0].abs().max()
    close = 2e-3 if activation is nn.ReLU else 1e-5
    torch.testing.assert_close(slopes[1][0], slopes[0][0], rtol=0, atol=float(close * size))
    if activation is not nn.ReLU:
        torch.testing.assert_close(
            slopes[1][1], slopes[0][1], rtol=1e-3, atol=1e-3 * float(slopes[0][1].abs().max())
        )


def test_tables_leave_out_what_is_excluded():
    explainer = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2, exclude=[COLUMNS.names[0]])
    attack = attacks.ERAttack(k=3, radius=0.5, explainer=explainer)
    model, x = network(), table(6)
    task = Task.prepare(attack, model, x, reach=DOMAIN.reach("domain", COLUMNS.n))
    values = quickened([task]).attribute(model, x, task.target)
    assert (values[:, 0] == 0).all()
    torch.testing.assert_close(values, explainer.attribute(model, x, task.target), rtol=0, atol=1e-4)


def test_there_are_tables_where_they_can_be_alone():
    def quick(model, **settings):
        explainer = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2)
        attack = attacks.ERAttack(**{"k": 3, "radius": 0.5, "explainer": explainer} | settings)
        return quickened([Task.prepare(attack, model, table(4), reach=DOMAIN.reach("domain", COLUMNS.n))])

    assert quick(network()) is not None
    assert quick(without_gauge(network(), DOMAIN, COLUMNS.n)) is not None
    assert quick(network(3)) is None, "log-odds of three classes are no sum over neurons"
    assert quick(nn.Sequential(*network(), nn.Tanh(), nn.Linear(2, 2).double())) is None
    assert quick(network(), norm="linf") is None
    assert quick(network(), explainer=ColumnEffects(columns=COLUMNS)) is None


def test_what_a_table_finds_is_judged_on_the_network(monkeypatch):
    """The negative control: with tables that are wrong nothing is claimed that is not so."""
    model, x = network(), table(10)
    attack = attacks.NextFeatureAttack(k=3, radius=0.6, explainer=EXPLAINER, **QUICK["next-feature"])
    right = attack(model, x, domain=DOMAIN)
    monkeypatch.setattr(quick_contributions, "SMOOTH", 3)
    wrong = attack(model, x, domain=DOMAIN)
    for result in (right, wrong):
        after = EXPLAINER(model, result.x, model(x).argmax(1))
        for before, now, precision in zip(result.before.tolist(), after.tolist(), result.precision, strict=True):
            assert float(precision) == pytest.approx(naive_precision(before, now, 3))
    monkeypatch.setattr(attacks.NextFeatureAttack, "by_tables", False)
    slow = attack(model, x, domain=DOMAIN)
    assert right.precision.mean() <= slow.precision.mean() + 0.05


# --- training and thickness --------------------------------------------------------------------------------------


def test_thickness_is_1_where_no_list_changes():
    model, x = network(), table(10)
    shared = {"explainer": EXPLAINER, "domain": DOMAIN, "samples": 4, "steps": 4}
    still = thickness(model, x, 3, neighbours=GaussianNeighbours(1e-9), generator=generator(1), **shared)
    assert (still == 1).all()
    moved = thickness(model, x, 3, neighbours=GaussianNeighbours(2.0), generator=generator(1), **shared)
    assert moved.mean() < 0.99
    frozen = Linear(COLUMNS.n, 2).double()
    with torch.no_grad():
        frozen.weight[:, :3] = 0
    assert (thickness(frozen, x, 3, neighbours=GaussianNeighbours(2.0), **shared) == 1).all()


@pytest.mark.parametrize("pairs", ["all", "boundary"])
def test_gaps_of_lists_with_empty_places_are_gaps_to_zero(pairs):
    scores = torch.tensor([[3.0, 0.5, -0.2, -2.0, -4.0]]).double()
    blanks = ranking.with_blanks(scores, 3)
    weights = pair_weights(blanks, 3, pairs=pairs, blanks=3)[0]
    assert weights.sum().abs() < 1e-12
    if pairs == "boundary":
        # -0.2, 0.5 and -2.0 are nearest to 0
        assert weights[3:].sign().tolist() == [0, 1, -1, -1, 0]
    else:
        assert weights[3:].sign().tolist() == [1, 1, -1, -1, -1]
    full = torch.tensor([[3.0, 2.5, 0.2, -2.0, 1.0]]).double()
    most = 1 if pairs == "boundary" else None
    weights = pair_weights(ranking.with_blanks(full, 3), 3, pairs=pairs, blanks=3, boundary_pairs=most)[0]
    assert weights[3 + 4] > 0
    assert weights[3 + 2] < 0


@pytest.mark.parametrize("settings", [{}, {"pairs": "boundary"}, {"scale_free": True}])
def test_training_for_reasons_widens_their_gaps(settings):
    model, x = network(seed=2), table(60)
    y = model(x).argmax(1)
    objective = R2ET(k=3, gap=5.0, curvature=0.1, explainer=EXPLAINER, domain=DOMAIN, **settings)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    values = []
    for step in range(6):
        loss = objective(model, x, y, generator=generator(step))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append(float(loss.detach()))
    assert values[-1] < values[0]
