"""The exact certificate of additive scores, against brute force and an attack that knows every price."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et import Columns, Domain, models
from r2et.attacks import WorstCase
from r2et.certificates import additive, certify
from r2et.enclosure.shapes import Grading
from r2et.enclosure.tables import VALUE
from r2et.errors import InputError
from r2et.explainers import ColumnEffects, Gradient, GradientTimesInput
from tests.additive_opponent import additive_slopes, cheapest_moves
from tests.certificates.opponents import changed_inside
from tests.models_with_answers import normal
from tests.tables_with_traps import COLUMNS, DOMAIN, GROUPS, table


def net(n=4, *, units=5, seed=0, classes=2, beta=5.0, scale=1.0, **options):
    """An additive net with random shapes, in float64."""
    model = models.Additive(n, classes, units=units, beta=beta, **options).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
        model.heights.weight.mul_(scale)
        model.weight.mul_(scale)
    return model.eval()


def cheapest(model, x, k, *, far, **options):
    """Of every row, what displaces 1, 2, ... columns, and how, by the judge."""
    found = [cheapest_moves(additive_slopes(model), row, k, far=far, **options) for row in x.numpy()]
    return np.stack([lengths for lengths, _ in found]), np.stack([moves for _, moves in found])


def running(values, place, count):
    """The smallest value up to so many steps of a grid to either side of a place, (count,)."""
    right, left = values[place : place + count], values[place - count + 1 : place + 1][::-1]
    return np.minimum.accumulate(np.minimum(right, left))


def way(falling, levels):
    """After how many steps values that never rise are at levels; between two of them as on a line."""
    after = np.searchsorted(-falling, -levels)
    end = np.clip(after, 1, len(falling) - 1)
    drop = falling[end - 1] - falling[end]
    share = np.divide(falling[end - 1] - levels, drop, out=np.zeros_like(levels), where=drop > 0)
    return np.where(after == 0, 0.0, np.where(after < len(falling), end - 1 + np.clip(share, 0, 1), np.inf))


def whole_way(falling, levels):
    """The same in whole steps: points at which the values really are that low."""
    after = np.searchsorted(-falling, -levels)
    return np.where(after < len(falling), after, np.inf)


def by_brute_force(values, places, *, step, far, signed, blur=0.0, way=way):
    """The radius of a list of one out of two columns, from slopes (2, G) on a grid, at places of it (2,).

    Rounding may have made `blur` of both: members are smaller by as much, others larger. By `whole_way` it is the
    length of a perturbation that exists; by `way` it is closer, and where a curve only just gets to a level it may
    be too small by a step.
    """
    clean, count = values[[0, 1], places], round(far / step) + 1
    top = int(np.argmax(clean if signed else np.abs(clean)))
    own = values[top] if signed or clean[top] >= 0 else -values[top]
    other = -values[1 - top] if signed else -np.abs(values[1 - top])
    strong, weak = (running(v, p, count) - blur for v, p in ((own, places[top]), (other, places[1 - top])))
    levels = np.concatenate([strong, -weak])
    levels = levels[(levels <= strong[0]) & (levels >= -weak[0])]
    if not len(levels):
        return 0.0
    return float(step * np.sqrt((way(strong, levels) ** 2 + way(weak, -levels) ** 2).min()))


KINDS = ("plain", "opposite", "twins", "flat", "still")


def two_columns(seed):
    """A net of two columns, of one of five kinds, with Softplus of beta 1, 5 or 20."""
    model = net(2, seed=100 * seed, beta=(1.0, 5.0, 20.0)[seed % 3])
    heights, kind = model.heights.weight.detach().view(2, -1), KINDS[seed // 3 % 5]
    with torch.no_grad():
        if kind == "opposite":  # two units that nearly cancel
            model.steepness[:, 1], model.shift[:, 1] = model.steepness[:, 0], model.shift[:, 0]
            heights[:, 1] = -0.99 * heights[:, 0]
        if kind == "twins":
            model.steepness[1], model.shift[1], heights[1] = model.steepness[0], model.shift[0], heights[0]
            model.weight[0, 1] = model.weight[0, 0]
        if kind in ("flat", "still"):
            heights[1] *= 0.01 if kind == "flat" else 0.0
    return model


def compared(seed, *, rows=6, far=3.0, points=60_001):
    """Certified radii of some rows of a net, lengths that change lists, and radii of blurred slopes."""
    model, signed = two_columns(seed), seed % 2 == 1
    grid = np.linspace(-2 * far, 2 * far, points)
    step = grid[1] - grid[0]
    values = additive_slopes(model)(np.stack([grid, grid], 1)).T
    places = np.random.default_rng(seed).integers(points // 4 + 1, 3 * points // 4 - 1, (rows, 2))
    places[0, 1] = places[0, 0]
    x, target = torch.tensor(grid[places]), torch.ones(rows, dtype=torch.int64)
    explainer = Gradient(reduce="signed" if signed else "abs")
    if seed % 7 == 0:
        columns = Columns(("a", "b"), ((0,), (1,)), ("number", "number"), ((), ()))
        explainer = ColumnEffects(columns=columns, reduce=explainer.reduce)
    certificate = certify(model, x, 1, explainer=explainer, target=target)
    assert certificate.method == "additive"
    shared = {"step": step, "far": far, "signed": signed}
    blur = 4e-9 * np.abs(values).max()
    real = [by_brute_force(values, place, way=whole_way, **shared) for place in places]
    least = [by_brute_force(values, place, blur=blur, **shared) for place in places]
    return certificate.radius.numpy(), np.array(real), np.array(least)


def check_two_columns(seeds, far=3.0):
    seen = 0
    for seed in seeds:
        radius, real, least = compared(seed, far=far)
        assert (radius <= real).all(), seed
        # to 1e-4, but for what nine digits of a slope decide
        assert (radius >= np.minimum(least, far) * (1 - 1e-4) - 1e-6).all(), seed
        seen += int(((least < far) & (least > 0.99 * real) & (least > 0.01)).sum())
    assert seen > 2 * len(seeds), "and that is not most of them"


@pytest.mark.parametrize("part", range(3))
def test_two_columns_are_exact(part):
    check_two_columns(range(part, 30, 3))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_two_hundred_nets_of_two_columns_are_exact(part):
    check_two_columns(range(30 + part, 230, 4))


@pytest.mark.parametrize(("k", "seed"), [(1, 0), (3, 1), (5, 2)])
def test_all_limits_are_those_of_the_judge(k, seed):
    model, x = net(6, seed=seed), normal(12, 6, seed=seed + 1)
    limits, target = certify(model, x, k).limits, model(x).argmax(1)
    count = min(k, 6 - k)
    assert limits[:, count:].isinf().all(), "a list cannot lose more than there are others"
    ratios, displaced = [], []
    for row in range(len(x)):
        before = set(Gradient()(model, x[row : row + 1], target[row : row + 1])[0].topk(k).indices.tolist())
        for q in range(1, count + 1):
            limit = float(limits[row, q - 1])
            if not 0 < limit < 100:
                continue
            lengths, moves = cheapest_moves(additive_slopes(model), x[row].numpy(), k, far=1.2 * limit)
            ratios.append(limit / lengths[q - 1])
            # and the judge is right: its points do displace that many
            moved = x[row : row + 1] + 1.002 * torch.tensor(moves[q - 1])
            after = set(Gradient()(model, moved, target[row : row + 1])[0].topk(k).indices.tolist())
            displaced.append(len(before - after) >= q)
    assert len(ratios) > 10
    assert max(ratios) < 1
    assert np.median(ratios) > 0.998
    assert np.quantile(ratios, 0.1) > 0.995
    assert np.mean(displaced) > 0.8


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_an_attack_changes_nothing_inside_and_much_outside(reduce):
    model, x, explainer = net(6, seed=3), normal(40, 6, seed=4), Gradient(reduce=reduce)
    radius = certify(model, x, 2, explainer=explainer).radius.clamp_max(50.0)
    movable = torch.ones(6, dtype=torch.bool)
    shared = {"explainer": explainer, "k": 2, "movable": movable}
    assert not changed_inside(model, x, radius * (1 - 1e-6), **shared).any()
    assert changed_inside(model, x, 1.02 * radius, **shared).double().mean() > 0.6


def test_the_librarys_strongest_attack_agrees():
    model, x = net(6, seed=5), normal(4, 6, seed=6)
    with torch.no_grad():
        model.bias.add_(100.0)  # WorstCase keeps the prediction, and here it always does
    radius = certify(model, x, 2).radius
    changed = {}
    for share in (0.999, 1.02):
        attacks = [WorstCase(k=2, radius=share * float(r), budget="fast") for r in radius]
        found = [attack(model, x[row : row + 1], seed=0).precision < 1 for row, attack in enumerate(attacks)]
        changed[share] = torch.cat(found).double().mean()
    assert changed[0.999] == 0
    assert changed[1.02] >= 0.75, "it finds what the exact attack finds, nearly always"


def test_columns_of_a_table():
    model = net(COLUMNS.n, numeric=[0, 1, 2], groups=GROUPS, seed=7)
    x, explainer = table(30), ColumnEffects(columns=COLUMNS)
    certificate = certify(model, x, 3, explainer=explainer, domain=DOMAIN)
    assert certificate.method == "additive"
    radius = certificate.radius.clamp_max(50.0)
    shared = {"explainer": explainer, "k": 3, "movable": COLUMNS.continuous}
    assert not changed_inside(model, x, radius * (1 - 1e-6), **shared).any()
    reachable = radius < 5
    assert reachable.sum() > 5
    assert changed_inside(model, x, 1.02 * radius, **shared)[reachable].double().mean() > 0.6
    old = certify(model, x, 3, explainer=explainer, domain=DOMAIN, method="deterministic")
    assert (old.radius <= certificate.radius * (1 + 1e-3)).all()


@pytest.mark.parametrize("threat", ["domain", "tangent", "paper"])
def test_threats_and_groups(threat):
    model = net(COLUMNS.n, numeric=[0, 1, 2], groups=GROUPS, seed=8)
    x = table(12)
    certificate = certify(model, x, 4, domain=DOMAIN, threat=threat)
    assert certificate.method == "additive", "also behind f o A"
    movable = COLUMNS.continuous.numpy() if threat == "domain" else None
    lengths, _ = cheapest(model, x, 4, far=4.0, movable=movable)
    near = lengths[:, 0] < 4
    ratio = certificate.radius.numpy()[near] / lengths[near, 0]
    assert ratio.max() <= 1
    assert np.median(ratio) > 0.99


def test_frozen_columns_do_not_move():
    model, x = net(5, seed=9), normal(12, 5, seed=10)
    certificate = certify(model, x, 2, domain=Domain(frozen=[0, 3]))
    movable = np.array([False, True, True, False, True])
    lengths, _ = cheapest(model, x, 2, far=4.0, movable=movable)
    near = lengths[:, 0] < 4
    ratio = certificate.radius.numpy()[near] / lengths[near, 0]
    assert ratio.max() < 1
    assert np.median(ratio) > 0.99
    all_frozen = certify(model, x, 2, domain=Domain(frozen=range(5)))
    assert all_frozen.radius.isinf().all()


def test_a_row_has_the_same_limits_alone():
    model, x = net(6, seed=11), normal(9, 6, seed=12)
    together = certify(model, x, 2)
    for row in range(9):
        alone = certify(model, x[row : row + 1], 2)
        assert torch.equal(alone.limits[0], together.limits[row])
    in_parts = certify(model, x, 2, chunk_size=2)
    assert torch.equal(in_parts.limits, together.limits)


@pytest.mark.parametrize(("score", "classes"), [("logit", 3), ("margin", 3), ("margin", 2), ("probability", 2)])
def test_other_scores(score, classes):
    model, x = net(5, seed=13, classes=classes), normal(20, 5, seed=14)
    explainer = Gradient(score=score)
    certificate = certify(model, x, 2, explainer=explainer)
    assert certificate.method == "additive"
    old = certify(model, x, 2, explainer=explainer, method="deterministic")
    assert (old.radius <= certificate.radius * (1 + 1e-3) + 1e-6).all()
    radius = certificate.radius.clamp_max(50.0) * (1 - 1e-6)
    shared = {"explainer": explainer, "k": 2, "movable": torch.ones(5, dtype=torch.bool)}
    assert not changed_inside(model, x, radius, **shared).any()


def test_the_prediction_is_certified_too():
    model, x = net(5, seed=15), normal(20, 5, seed=16)
    both, alone = certify(model, x, 2, prediction=True), certify(model, x, 2)
    held = both.details["prediction"]
    torch.testing.assert_close(both.radius, torch.minimum(alone.radius, held))
    steps = normal(500, *x.shape, seed=17)
    steps = steps / steps.norm(dim=2, keepdim=True) * held.clamp_max(20)[:, None] * 0.9999
    assert (model((x + steps).flatten(0, 1)).argmax(1).reshape(500, -1) == model(x).argmax(1)).all()


def test_what_is_not_additive_is_certified_otherwise():
    x = normal(4, 5, seed=1)
    three = certify(net(5, classes=3), x, 2)
    assert three.method == "deterministic"
    assert certify(net(5), x, 2, explainer=GradientTimesInput()).method == "deterministic"
    dense = nn.Sequential(nn.Linear(5, 4), nn.Softplus(), nn.Linear(4, 2)).double()
    assert certify(dense, x, 2).method == "deterministic"
    with pytest.raises(InputError, match="columns interact"):
        certify(dense, x, 2, method="additive")
    with pytest.raises(InputError, match="log-odds of 3 classes"):
        certify(net(5, classes=3), x, 2, method="additive")
    with pytest.raises(InputError, match="not for GradientTimesInput"):
        certify(net(5), x, 2, explainer=GradientTimesInput(), method="additive")


def test_a_number_of_several_features_is_certified_otherwise():
    columns = Columns(("a", "b"), ((0, 1), (2,)), ("number", "number"), ((), ()))
    x = normal(4, 3, seed=1)
    x[:, 1] = x[:, 0]
    explainer = ColumnEffects(columns=columns)
    assert certify(net(3), x, 1, explainer=explainer, domain=columns.domain()).method == "deterministic"


def test_ties_and_constant_columns():
    model = net(4)
    with torch.no_grad():
        for weight in (model.steepness, model.shift):
            weight[1] = weight[0]
        model.heights.weight[0, 5:10] = model.heights.weight[0, :5]
        model.weight[0, 1] = model.weight[0, 0]
    x = normal(6, 4, seed=2)
    x[:, 1] = x[:, 0]
    size = Gradient()(model, x)
    rank = size.argsort(1, descending=True)
    for row in range(6):
        places = sorted(rank[row].tolist().index(i) for i in (0, 1))
        if places[1] == places[0] + 1:
            k = places[1]
            assert float(certify(model, x[row : row + 1], k).radius) == 0
    linear = net(4, numeric=[])
    assert certify(linear, x, 2).radius.isinf().all()


def ugly(kind, *, draw_seed, n, units, scale, beta):
    """Nets with flat pieces, copies of columns, dead units, steps, weights of single precision."""
    model = net(n, units=units, seed=draw_seed, beta=beta, scale=scale)
    with torch.no_grad():
        if kind == "copies":
            model.steepness[-1], model.shift[-1] = model.steepness[0], model.shift[0]
        if kind == "dead":
            model.steepness[:, 0] = 0.0
            model.heights.weight[0, 1::3] = 0.0
            model.shift[:, -1] = -1e4
        if kind == "steps":
            model.steepness.mul_(200.0)
            model.shift.mul_(200.0)
        if kind == "flat":
            model.weight.zero_()
            model.shift.sub_(5.0)
        if kind == "far":
            model.steepness.mul_(1e-3)
        if kind == "single":
            model.float().double()
    return model


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 5),
    units=st.integers(1, 6),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    beta=st.sampled_from([0.5, 5.0, 50.0]),
    kind=st.sampled_from(["plain", "copies", "dead", "steps", "flat", "far", "single"]),
    data=st.data(),
)
def test_no_ugly_shape_breaks_it(*, seed, n, units, scale, beta, kind, data):
    model, x = ugly(kind, draw_seed=seed, n=n, units=units, scale=scale, beta=beta), normal(3, n, seed=seed + 1)
    k = data.draw(st.integers(1, n - 1))
    limits = certify(model, x, k).limits.numpy()
    assert not np.isnan(limits).any()
    assert (limits[:, 1:] >= limits[:, :-1]).all()
    far = float(np.clip(2 * np.nan_to_num(limits[:, 0], posinf=0).max(), 0.01, 100.0))
    lengths, _ = cheapest(model, x, k, far=far, points=1001, thresholds=400)
    count = lengths.shape[1]
    # the judge's grids find real perturbations: none may be shorter than what is proven
    assert (limits[:, :count] <= lengths * (1 + 1e-9)).all()


def only_cells(monkeypatch, cells):
    """Tables of so many cells, and no finer ones."""
    monkeypatch.setattr(additive, "COARSE", Grading(cells, 1e-2))
    monkeypatch.setattr(additive, "FINER", ())


def violated(model, x, k, limits):
    lengths, _ = cheapest(model, x, k, far=4.0, points=8001, thresholds=4000)
    return bool((limits.numpy()[:, : lengths.shape[1]] > lengths).any())


def test_a_radius_that_is_one_percent_too_large_is_caught():
    model, x = net(5, seed=20), normal(12, 5, seed=21)
    limits = certify(model, x, 2).limits
    assert not violated(model, x, 2, limits)
    assert violated(model, x, 2, 1.01 * limits)


def test_a_bound_at_the_near_end_of_each_cell_is_caught(monkeypatch):
    model, x = net(5, seed=20), normal(12, 5, seed=21)
    monkeypatch.setattr(additive.Tables, "low", property(lambda table: table.curve[..., VALUE]))
    only_cells(monkeypatch, 90)
    assert violated(model, x, 2, certify(model, x, 2).limits)


def test_a_dropped_column_is_caught(monkeypatch):
    model, x = net(5, seed=20), normal(12, 5, seed=21)
    real = additive.tables

    def without_the_last(network, direction, **options):
        moves = torch.tensor([True, True, True, True, False])
        return real(network.where(moves), direction, **options)

    monkeypatch.setattr(additive, "tables", without_the_last)
    assert violated(model, x, 2, certify(model, x, 2).limits)


def test_curvature_that_is_left_out_is_caught(monkeypatch):
    model, x = net(5, seed=20), normal(12, 5, seed=21)
    only_cells(monkeypatch, 1)
    assert not violated(model, x, 2, certify(model, x, 2).limits)
    monkeypatch.setattr("r2et.enclosure.shapes.Shape.bends", lambda self, edges: torch.zeros(2, len(edges) - 1))
    assert violated(model, x, 2, certify(model, x, 2).limits)


def test_coarse_tables_alone_are_not_exact(monkeypatch):
    only_cells(monkeypatch, 60)
    radius, real, least = compared(8)
    assert (radius <= real).all()
    assert (radius < least * (1 - 1e-4) - 1e-6).any()


def test_the_exact_one_comes_before_bounds_which_stay_below_it():
    model, x = net(4, seed=5), normal(8, 4, seed=6)
    found = certify(model, x, 2)
    given_radii = certify(model, x, 2, radii=[0.1, 0.3], budget=4)
    assert given_radii.method == "additive"
    assert given_radii.methods == ("additive",)
    assert given_radii.radii is None
    assert torch.equal(given_radii.limits, found.limits)
    usable = found.radius > 0
    assert usable.any()
    for method, parts in (("dual", ("dual",)), ("deterministic", ("integral", "dual"))):
        bound = certify(model, x, 2, method=method)
        assert bound.methods == parts
        # exact up to a fraction of a percent
        assert (bound.limits <= found.limits * 1.005).all()
        assert (bound.radius[usable] > 0).all()
