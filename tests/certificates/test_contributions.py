"""Exact certificates of lists by contributions to additive scores, against brute force and walks."""

import numpy as np
import pytest
import torch

from r2et import Columns, Domain, certify, models, ranking
from r2et.certificates import contributions as module
from r2et.errors import InputError, ModelError
from r2et.explainers import Background, Contributions
from tests.additive_opponent import cheapest_moves
from tests.certificates.test_additive import by_brute_force, net, running, whole_way
from tests.models_with_answers import normal
from tests.tables_with_traps import COLUMNS, DOMAIN, GROUPS, table


def numbers(n):
    """A table of n numbers."""
    return Columns(tuple(map(str, range(n))), tuple((i,) for i in range(n)), ("number",) * n, ((),) * n)


def explainer(background, columns=None, **options):
    columns = numbers(background.shape[1]) if columns is None else columns
    return Contributions(columns=columns, background=Background(background), **options)


def ones(x):
    return torch.ones(len(x), dtype=torch.int64)


def still(model):
    return model.double().eval().requires_grad_(requires_grad=False)


def shapes(model, background):
    """phi of all columns at points (G, n), from `model.shape`, which shares no code with enclosures."""

    def of(points):
        with torch.no_grad():
            columns = [
                model.shape(c, torch.tensor(points[:, c]))[0] - model.shape(c, background[:, c])[0].mean()
                for c in range(points.shape[1])
            ]
        return torch.stack(columns, 1).numpy()

    return of


def linear(n, seed):
    model = models.Linear(n, 2)
    with torch.no_grad():
        model.weight.copy_(normal(2, n, seed=seed))
    return still(model)


@pytest.mark.parametrize(("n", "k", "beta"), [(2, 1, 5.0), (2, 1, 20.0), (5, 2, 5.0)])
def test_radii_of_lists_by_magnitude_are_those_of_a_walk(n, k, beta):
    ratios = []
    for seed in range(3):
        model, rows, x = (
            still(net(n, seed=seed, beta=beta)),
            normal(40, n, seed=seed + 1),
            normal(4, n, seed=seed + 2),
        )
        said = certify(model, x, k, explainer=explainer(rows, reduce="abs"), target=ones(x))
        assert said.method == "additive"
        phi = shapes(model, rows)
        for row in range(len(x)):
            radius = float(said.radius[row])
            assert radius > 0
            walk = {"far": 1.001 * min(radius, 50.0), "points": 4001, "thresholds": 4000}
            lengths, _ = cheapest_moves(phi, x[row].numpy(), k, **walk)
            assert (said.limits[row, : len(lengths)].numpy() <= lengths).all()
            ratios.append(radius / lengths[0])
    # what the grid does not see is at most 2 / 4000 of the radius
    assert np.mean(np.array(ratios) > 0.998) > 0.9
    assert min(ratios) > 0.99


def smallest_change(values, places, *, step, far):
    """The length that changes a list of one reason out of two columns, from contributions (2, G) on a grid."""
    clean, count = values[[0, 1], places], round(far / step) + 1
    if clean.max() <= 0:
        ways = [
            whole_way(running(-v, p, count), np.array([-1e-300]))[0] for v, p in zip(values, places, strict=True)
        ]
        return step * min(ways)
    top = int(np.argmax(clean))
    gone = step * whole_way(running(values[top], places[top], count), np.zeros(1))[0]
    return min(gone, by_brute_force(values, places, step=step, far=far, signed=True, way=whole_way))


def on_a_grid(seed, *, far=3.0, points=60_001, rows=8):
    """Certified radii of lists of one reason, and the smallest steps of a grid that change them."""
    model, background = still(net(2, seed=7 * seed, beta=(1.0, 5.0, 20.0)[seed % 3])), normal(30, 2, seed=seed)
    grid = np.linspace(-2 * far, 2 * far, points)
    step = grid[1] - grid[0]
    values = shapes(model, background)(np.stack([grid, grid], 1)).T
    places = np.random.default_rng(seed).integers(points // 4 + 1, 3 * points // 4 - 1, (rows, 2))
    x = torch.tensor(grid[places])
    said = certify(model, x, 1, explainer=explainer(background), target=ones(x))
    real = np.array([smallest_change(values, place, step=step, far=far) for place in places])
    return said, real, step, values[[0, 1], places]


def test_radii_of_reasons_are_those_of_brute_force_on_a_grid():
    ratios, empty = [], 0
    for seed in range(8):
        said, real, step, clean = on_a_grid(seed)
        radius = said.radius.numpy()
        assert (said.lengths.numpy() == (clean.max(1) > 0)).all()
        assert ((said.top[:, 0] == -1).numpy() == (clean.max(1) <= 0)).all()
        assert (radius <= real).all()
        inside = real < 3.0
        ratios += list((radius / (real - 2 * step))[inside & (real > 4 * step)])
        empty += int((clean.max(1) <= 0).sum())
    assert empty > 3
    # a grid sees a radius from above, by two steps at most
    assert min(ratios) > 0.9999
    assert np.median(ratios) > 0.9999


def test_without_the_condition_that_reasons_are_positive_radii_are_too_large(monkeypatch):
    def forgotten(own, length):
        order = ranking.order(own.values)
        return module._listed(order[:, :length], order[:, length:], own.values)

    monkeypatch.setattr(module, "_comes", forgotten)
    assert any((on_a_grid(seed)[0].radius.numpy() > on_a_grid(seed)[1]).any() for seed in range(4))


def test_a_forgotten_row_of_the_background_is_caught(monkeypatch):
    model, background, x = linear(3, 1), normal(3, 3, seed=2), normal(20, 3, seed=3)
    full, less = explainer(background), explainer(background[:-1])
    said = certify(model, x, 2, explainer=less, target=ones(x))
    assert not torch.equal(said.top, certify(model, x, 2, explainer=full, target=ones(x)).top)
    # and where the certificate forgets it by itself, it is not what the explainer says
    proof = module.ContributionLimits.contributions

    def forgetful(self, rows):
        known = proof(self, rows)
        return module.Column(known.values + 0.1, known.blur, known.beside)

    monkeypatch.setattr(module.ContributionLimits, "contributions", forgetful)
    with pytest.raises(ModelError, match="contributions"):
        certify(model, x, 2, explainer=full, target=ones(x))


def worst_of_linear(model, background, x, k, radius, *, draws=3000):
    """P@k that random moves leave of lists of reasons of a linear score, (N,)."""
    weight = (model.weight[1] - model.weight[0]).detach()
    generator = torch.Generator().manual_seed(5)
    clean = ranking.list_mask(weight * (x - background.mean(0)), k, positive=True)
    step = torch.randn(draws, *x.shape, generator=generator, dtype=x.dtype)
    step = radius * step / step.norm(dim=2, keepdim=True)
    moved = ranking.list_mask(weight * (x + step - background.mean(0)), k, positive=True)
    return ranking.list_precision(moved, clean.expand_as(moved), torch.float64).amin(0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_precision_of_short_lists_is_a_bound_and_their_radius_is_the_distance_to_a_plane(k):
    model, background, x = linear(4, 4), normal(6, 4, seed=5), normal(40, 4, seed=6)
    said = certify(model, x, k, explainer=explainer(background), target=ones(x))
    assert said.method == "additive"
    assert (said.lengths < k).any() or k == 1
    for radius in (0.1, 0.4, 1.0):
        assert (said.precision_at(radius) <= worst_of_linear(model, background, x, k, radius) + 1e-12).all()
    weight = (model.weight[1] - model.weight[0]).detach()
    values = weight * (x - background.mean(0))
    named = ranking.list_mask(values, k, positive=True)
    for row in range(len(x)):
        ends = []
        for i in named[row].nonzero().flatten().tolist():
            ends.append(values[row, i] / weight[i].abs())
            for j in (~named[row]).nonzero().flatten().tolist():
                ends.append((values[row, i] - values[row, j]) / torch.hypot(weight[i], weight[j]))
        if int(named[row].sum()) < k:
            ends += [-values[row, j] / weight[j].abs() for j in (~named[row]).nonzero().flatten().tolist()]
        assert float(said.radius[row]) == pytest.approx(float(min(ends)), rel=1e-4)


def test_frozen_columns_are_constants_and_a_list_of_them_never_changes():
    model = still(models.Additive(COLUMNS.n, 2, numeric=[0, 1, 2], groups=GROUPS))
    x, background = table(12, seed=3), table(9, seed=4)
    said = certify(model, x, 2, explainer=explainer(background, COLUMNS), domain=DOMAIN)
    assert (said.radius > 0).all()
    nothing = Domain(frozen=[0, 1, 2, 6, 9], groups=GROUPS)
    assert certify(model, x, 2, explainer=explainer(background, COLUMNS), domain=nothing).radius.isinf().all()


def test_features_of_one_number_move_together_and_what_is_frozen_beside_them_is_a_constant():
    background = normal(5, 3, seed=1)
    twice = Columns(("a", "b"), ((0, 1), (2,)), ("number", "number"), ((), ()))
    flagged = explainer(background[:, [0, 0, 1]], twice)
    model, plain = linear(3, 7), linear(2, 8)
    with torch.no_grad():
        plain.weight[:, 0] = model.weight[:, :2].sum(1)
        plain.weight[:, 1] = model.weight[:, 2]
    x = normal(20, 2, seed=9)
    wide = x[:, [0, 0, 1]]
    said = certify(model, wide, 1, explainer=flagged, domain=twice.domain(), target=ones(x))
    # two equal numbers that move by t are sqrt(2) t away: as one number that counts half as much for its length
    scaled = linear(2, 8)
    with torch.no_grad():
        scaled.weight.copy_(plain.weight * torch.tensor([2**-0.5, 1.0], dtype=torch.float64))
    stretch = torch.tensor([2**0.5, 1.0], dtype=torch.float64)
    other = certify(scaled, x * stretch, 1, explainer=explainer(background[:, :2] * stretch), target=ones(x))
    torch.testing.assert_close(said.radius, other.radius, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("reduce", ["signed", "abs"])
def test_what_is_beside_a_number_in_its_column_is_added_to_it(reduce):
    """A flag of missing values: the radius is that of a model whose number is shifted by what the flag says."""
    columns = Columns(("a", "b"), ((0, 1), (2,)), ("number", "number"), ((), ()))
    x, background = normal(12, 3, seed=2), normal(5, 3, seed=3)
    x[:, 1] = x[:, 0]
    background[:, 1] = background[:, 0]
    model = still(net(3, seed=5))
    said = certify(
        model,
        x,
        1,
        explainer=explainer(background, columns, reduce=reduce),
        domain=Domain(frozen=[1]),
        target=ones(x),
    )
    generator = torch.Generator().manual_seed(1)
    phi = shapes(model, background)

    def lists(points):
        values = phi(points)
        values = torch.tensor(np.stack([values[:, 0] + values[:, 1], values[:, 2]], 1))
        return ranking.list_mask(values if reduce == "signed" else values.abs(), 1, positive=reduce == "signed")

    changed = []
    for row, radius in zip(x, said.radius.clamp_max(50.0).tolist(), strict=True):
        step = torch.randn(4000, 3, generator=generator, dtype=x.dtype) * torch.tensor([1.0, 0.0, 1.0])
        step = step / step.norm(dim=1, keepdim=True)
        clean = lists(row[None].numpy())
        assert (lists((row + 0.9999 * radius * step).numpy()) == clean).all()
        changed.append(bool((lists((row + 1.05 * radius * step).numpy()) != clean).any()))
    assert np.mean(changed) > 0.8


def test_columns_as_all_of_the_background_are_never_named():
    model = linear(10, 3)
    x, background = table(10, seed=1), table(1, seed=2)
    own = explainer(background, COLUMNS)
    said = certify(model, x, 7 - 1, explainer=own, domain=DOMAIN, target=ones(x))
    never = own.never(x)
    assert never.any()
    assert (own(model, x, ones(x))[never] == 0).all()
    for row in range(len(x)):
        assert not never[row, said.top[row][said.top[row] >= 0]].any()
    assert (said.radius > 0).all()


def test_more_classes_need_the_logit():
    model, background, x = still(net(3, seed=1, classes=3)), normal(5, 3, seed=2), normal(6, 3, seed=3)
    with pytest.raises(InputError, match="score='logit'"):
        certify(model, x, 1, explainer=explainer(background))
    said = certify(model, x, 1, explainer=explainer(background, score="logit"))
    assert said.method == "additive"
    assert (said.radius > 0).all()
