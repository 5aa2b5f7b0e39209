"""The worst case: the minimum of its members, no row attacked in vain, no attack stronger."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import (
    BoundaryAttack,
    ERAttack,
    MinimalFlip,
    MSEAttack,
    NextFeatureAttack,
    NoiseAttack,
    RandomSearchAttack,
    WorstCase,
)
from r2et.attacks.task import Task
from r2et.attacks.worst_case import BETAS, DRAWS, EFFORT
from r2et.errors import InputError
from r2et.explainers import Gradient, GradientTimesInput
from r2et.validate import piecewise_linear
from tests.attacks.test_boundary import trained
from tests.models_with_answers import Siamese, linear, mlp, normal, quadratic


def cases():
    return {
        "tanh": (mlp(8, 3, hidden=12, activation=nn.Tanh, seed=1), normal(8, 8, seed=4), Gradient()),
        "relu": (mlp(8, hidden=12, activation=nn.ReLU, seed=1), normal(8, 8, seed=4), Gradient()),
        "siamese": (Siamese(6), normal(6, 2, 6, seed=4), GradientTimesInput(inputs=2)),
    }


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("relu", "l2"),
        ("tanh", "linf"),
        *(pytest.param(name, "l2", marks=pytest.mark.slow) for name in ("tanh", "siamese")),
    ],
)
def test_it_is_the_minimum_of_its_members(name, norm):
    model, x, explainer = cases()[name]
    attack = WorstCase(k=3, radius=0.3, norm=norm, budget="fast", explainer=explainer, version=1)
    domain = Domain(frozen=[0], lower=-2.0)
    result = attack(model, x, domain=domain, seed=5)
    members = attack.attacks(piecewise=piecewise_linear(model, x))
    alone = [member(model, x, domain=domain, seed=5) for member in members]
    assert torch.equal(result.precision, torch.stack([a.precision for a in alone]).amin(0))
    # the result is one of theirs, the first that is as low
    for r in range(len(x)):
        first = next(a for a in alone if a.precision[r] == result.precision[r])
        torch.testing.assert_close(result.x[r], first.x[r], atol=1e-6, rtol=0)
        torch.testing.assert_close(result.distance[r], first.distance[r], atol=1e-6, rtol=0)
    assert ((result.precision > 0) & (result.precision < 1)).any()
    assert len({float(a.precision.mean()) for a in alone}) > 1  # the members differ


def test_members_inherit_every_setting():
    explainer, predictions = GradientTimesInput(reduce="signed"), lambda x: [x[:, :2]]
    attack = WorstCase(
        k=3, radius=0.4, cap=0.1, flip_below=0.7, predictions=predictions, explainer=explainer, budget="standard"
    )
    for piecewise in (True, False):
        for member in attack.attacks(piecewise=piecewise):
            assert (member.k, member.radius, member.cap, member.flip_below) == (3, 0.4, 0.1, 0.7)
            assert member.predictions is predictions
            assert member.explainer is explainer
            assert member.keep == "best"
            assert member.norm == "l2"


@pytest.mark.parametrize("budget", ["fast", "standard", "thorough"])
def test_the_recipe(budget):
    """Both losses, every surrogate, restarts, the paper's two attacks, the nearest flip: a version names them."""
    attack = WorstCase(k=2, radius=0.5, budget=budget, version=1)
    assert attack.recipe == "WorstCase-1"
    plain, steps, restarts = EFFORT[budget]
    rough, smooth = attack.attacks(piecewise=True), attack.attacks(piecewise=False)
    for members in (rough, smooth):
        kinds = [type(member) for member in members]
        assert {ERAttack, MSEAttack, BoundaryAttack, MinimalFlip} == set(kinds)
        for member in members:
            if isinstance(member, ERAttack | MSEAttack):
                assert member.steps == plain
            if isinstance(member, BoundaryAttack):
                assert member.steps == steps
        hinge = [m for m in members if isinstance(m, BoundaryAttack) and m.loss == "hinge"]
        assert all(m.restarts == restarts for m in hinge)
        assert any(isinstance(m, BoundaryAttack) and m.loss == "soft" for m in members)
    betas = [m.beta for m in rough if isinstance(m, BoundaryAttack) and m.loss == "hinge"]
    assert tuple(betas) == BETAS[budget]
    assert [m.beta for m in smooth if isinstance(m, BoundaryAttack) and m.loss == "hinge"] == [None]
    largest = replace(attack, norm="linf").attacks(piecewise=True)
    assert MinimalFlip not in [type(member) for member in largest]


def test_a_larger_budget_contains_more():
    sizes = [WorstCase(k=2, radius=0.5, budget=b).iterations() for b in ("fast", "standard", "thorough")]
    assert sizes[0] < sizes[1] < sizes[2]
    assert WorstCase(k=2, radius=0.5).budget == "standard"


class Counting(nn.Module):
    """Counts the rows it is given."""

    def __init__(self, net):
        super().__init__()
        self.net, self.rows = net, 0

    def forward(self, x):
        self.rows += len(x)
        return self.net(x)


def record_members(monkeypatch):
    """The rows that each member is given, in order."""
    calls = []
    for kind in (BoundaryAttack, ERAttack, MSEAttack, MinimalFlip, NextFeatureAttack, RandomSearchAttack):
        original = kind.attack_together

        def attack(self, tasks, advance=None, original=original):
            results = original(self, tasks, advance)
            if type(self) is not WorstCase:
                calls.extend((self, task.x.clone(), result) for task, result in zip(tasks, results, strict=True))
            return results

        monkeypatch.setattr(kind, "attack_together", attack)
    return calls


def test_rows_at_zero_are_not_attacked_again(monkeypatch):
    model, x, _ = cases()["tanh"]
    calls = record_members(monkeypatch)
    attack = WorstCase(k=3, radius=0.4, budget="fast", version=1)
    attack.attack(Task.prepare(attack, model, x))
    # a member may call another one inside itself: only those of the recipe, in its order
    members = attack.attacks(piecewise=False)
    given = []
    for member in members:
        given.append(next((rows, found) for self, rows, found in calls if self == member))
    left = [tuple(row) for row in x.tolist()]
    lengths = []
    for rows, found in given:
        assert [tuple(row) for row in rows.tolist()] == left
        lengths.append(len(rows))
        left = [row for row, p in zip(left, found.precision.tolist(), strict=True) if p > 0]
    assert lengths[0] == 8
    assert 0 < lengths[-1] < 8


def test_nothing_is_left_when_all_rows_are_at_zero(monkeypatch):
    model, x, _ = cases()["tanh"]
    through = WorstCase(k=2, radius=4.0, budget="fast")(model, x)
    x = x[through.precision == 0]
    first = WorstCase(k=2, radius=4.0, budget="fast").attacks(piecewise=False)[0]
    x = x[first(model, x).precision == 0]
    assert len(x) > 1
    calls = record_members(monkeypatch)
    result = WorstCase(k=2, radius=4.0, budget="fast")(model, x)
    assert (result.precision == 0).all()
    assert [type(self) for self, _, _ in calls] == [NextFeatureAttack]


def test_a_row_at_zero_costs_less():
    """Counted in rows that the model sees."""
    model, x, _ = cases()["tanh"]
    attack = WorstCase(k=3, radius=0.4, budget="fast")
    precision = attack(model, x).precision
    through, stubborn = x[precision == 0][:1], x[precision > 0][:1]
    costs = []
    for rows in (through, stubborn):
        counting = Counting(model)
        attack(counting, rows)
        costs.append(counting.rows)
    assert costs[0] < costs[1]


@pytest.mark.parametrize("kind", ["relu", pytest.param("softplus", marks=pytest.mark.slow)])
def test_no_other_attack_is_stronger(kind):
    """Also not with more steps, and also not one that is no member: the mean P@k on the same rows."""
    model, x = trained(kind)
    x = x[:12]
    result = WorstCase(k=8, radius=0.3)(model, x)
    worst = float(result.precision.mean())
    others = [
        ERAttack(k=8, radius=0.3, steps=250),
        MSEAttack(k=8, radius=0.3, steps=250),
        NoiseAttack(k=8, radius=0.3, steps=100),
        NoiseAttack(k=8, radius=0.3, steps=100, kind="uniform"),
        BoundaryAttack(k=8, radius=0.3, steps=60),
        BoundaryAttack(k=8, radius=0.3, steps=60, loss="soft"),
        MinimalFlip(k=8, radius=0.3),
    ]
    means = [float(other(model, x).precision.mean()) for other in others]
    assert worst <= min(means)
    # and it displaces clearly more than the paper's attack
    assert 1 - worst >= 1.8 * (1 - means[0]) > 0


@pytest.mark.parametrize(
    "budgets",
    [("fast", "standard"), pytest.param(("fast", "standard", "thorough"), marks=pytest.mark.slow)],
    ids=len,
)
def test_a_larger_budget_is_never_weaker(budgets):
    model, x = trained("softplus")
    x = x[:10]
    means = []
    for budget in budgets:
        result = WorstCase(k=8, radius=0.6, budget=budget)(model, x)
        assert result.kept.all()
        means.append(float(result.precision.mean()))
    assert means == sorted(means, reverse=True)
    assert means[0] < 1


def test_radii_are_monotone():
    model, x, _ = cases()["relu"]
    radii = [0.6, 0.1, 0.3]
    attack = WorstCase(k=3, radius=1.0, budget="fast")
    results = dict(zip(radii, attack(model, x, radii=radii), strict=True))
    for radius, result in results.items():
        assert (result.distance <= radius + 1e-6).all()
    assert (results[0.6].precision <= replace(attack, radius=0.6)(model, x).precision).all()
    assert (results[0.6].precision <= results[0.3].precision).all()
    assert (results[0.3].precision <= results[0.1].precision).all()
    assert float(results[0.6].precision.mean()) < float(results[0.1].precision.mean())


@pytest.mark.parametrize("name", cases())
def test_progress_and_iterations(name):
    """The bar is advanced by what is done, never beyond its end."""
    model, x, explainer = cases()[name]
    attack = WorstCase(k=3, radius=0.3, budget="fast", explainer=explainer)
    ticks: list[int] = []
    result = attack.attack(Task.prepare(attack, model, x), ticks.append)
    assert all(units > 0 for units in ticks)
    assert attack.iterations() == sum(
        member.iterations() for member in attack.attacks(piecewise=True, formulas=True)
    )
    assert 0 < sum(ticks) <= attack.iterations()
    assert (result.first_flip <= attack.iterations()).all()


def test_first_flip():
    """Iterations of one member after the other: the flip of the first member that has one."""
    model, x, _ = cases()["relu"]
    attack = WorstCase(k=3, radius=0.3, budget="fast", version=1)
    result = attack(model, x)
    assert torch.equal(result.first_flip > 0, result.precision < 1)
    expected = torch.full((len(x),), -1)
    done = 0
    for member in attack.attacks(piecewise=True):
        found = member(model, x)
        rows = (expected < 0) & (found.first_flip > 0)
        expected[rows] = done + found.first_flip[rows]
        done += member.iterations()
    assert torch.equal(result.first_flip, expected)
    assert (result.first_flip > 0).any()


def test_flip_below_counts_for_the_first_flip():
    model, x, _ = cases()["tanh"]
    strict = WorstCase(k=3, radius=0.5, budget="fast")(model, x)
    loose = WorstCase(k=3, radius=0.5, budget="fast", flip_below=0.5)(model, x)
    assert torch.equal(loose.first_flip > 0, loose.precision < 0.5)
    assert (loose.first_flip[loose.first_flip > 0] >= strict.first_flip[loose.first_flip > 0]).all()
    assert (loose.first_flip > 0).any()


def test_the_clean_input_is_returned_where_nothing_is_found():
    result = WorstCase(k=2, radius=2.0, budget="fast")(linear(), normal(5, 6, seed=4))
    assert torch.equal(result.x, normal(5, 6, seed=4))
    assert (result.precision == 1).all()
    assert (result.first_flip == -1).all()
    assert (result.distance == 0).all()


def test_the_caller_s_input_is_not_written_to():
    model, x = quadratic(6), normal(5, 6, seed=4)
    clean = x.clone()
    result = WorstCase(k=2, radius=1.0, budget="fast")(model, x)
    assert torch.equal(x, clean)
    assert (result.x != x).any()


def test_history_starts_with_the_clean_input():
    model, x, _ = cases()["tanh"]
    result = WorstCase(k=3, radius=0.5, budget="fast", history=True)(model, x)
    assert torch.equal(result.history[0], torch.ones(len(x), dtype=torch.float64))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "quick"}, r"'quick'"),
        ({"budget": "standart"}, r"'standart'.*'standard'"),
        ({"keep": "last"}, "keep='last'"),
        ({"radius": -1.0}, r"radius=-1\.0"),
        ({"norm": "l1"}, "'l1'"),
        ({"version": 3}, "version must be 1 or 2, got 3"),
        ({"version": True}, "got True"),
        ({"starts": [1.0]}, "starts must be a tensor"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        WorstCase(**({"k": 2, "radius": 1.0} | settings))


def test_members_of_ones_own_are_the_minimum_too(monkeypatch):
    model, x, explainer = cases()["tanh"]
    for kind in (ERAttack, MSEAttack):
        # of members that are named alone
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "steps", 50)
    shared = {"k": 3, "radius": 0.3, "explainer": explainer}
    given = ["er", MSEAttack, BoundaryAttack(k=1, radius=9.0, steps=20, keep="last", norm="linf")]
    attack = WorstCase(**shared, members=given)
    alone = [ERAttack(**shared), MSEAttack(**shared), BoundaryAttack(**shared, steps=20)]
    assert attack.attacks(piecewise=True) == attack.attacks(piecewise=False) == alone
    assert attack.recipe == "WorstCase of ERAttack, MSEAttack, BoundaryAttack"
    expected = torch.stack([member(model, x, seed=5).precision for member in alone]).amin(0)
    assert torch.equal(attack(model, x, seed=5).precision, expected)
    small, large = attack(model, x, seed=5, radii=(0.1, 0.3))
    assert torch.equal(large.precision, expected)
    assert bool((small.distance <= 0.1 + 1e-6).all())


def test_the_recipe_can_be_a_member():
    model, x, explainer = cases()["relu"]
    shared = {"k": 3, "radius": 0.3, "explainer": explainer}
    recipe, both = (
        WorstCase(**shared, budget="fast"),
        WorstCase(**shared, budget="fast", members=["worst-case", "noise"]),
    )
    assert both.attacks(piecewise=True)[0] == recipe
    assert both.recipe == "WorstCase of WorstCase-2, NoiseAttack"
    lowest = torch.minimum(recipe(model, x).precision, NoiseAttack(**shared)(model, x).precision)
    assert torch.equal(both(model, x).precision, lowest)


def test_only_members_of_ones_own_are_in_the_name():
    """Audits and records quote it: the first version without members reads as before there were any."""
    assert repr(WorstCase(k=2, radius=0.5)).endswith("budget='standard', version=2)")
    assert repr(WorstCase(k=2, radius=0.5, version=1)) == (
        "WorstCase(k=2, radius=0.5, steps=1000, keep='best', flip_below=1.0, norm='l2', cap=None, "
        "predictions=None, explainer=Gradient(reduce='abs', inputs=1, score='log-odds'), history=False, "
        "budget='standard')"
    )
    assert "members=(NoiseAttack(k=2" in repr(WorstCase(k=2, radius=0.5, members=["noise"]))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("er", r"members must be a list of attacks .* got 'er'"),
        ([], "got \\[\\]"),
        (5, "got 5"),
        (["err"], "unknown attack 'err': did you mean 'er'"),
        ([nn.Linear], "must be a complete subclass"),
        (["tests.models_with_answers:mlp"], "must be a complete subclass"),
    ],
)
def test_members_that_are_no_attacks(members, message):
    with pytest.raises(InputError, match=message):
        WorstCase(k=2, radius=0.5, members=members)


def test_the_second_recipe(monkeypatch):
    """No member is stronger on a row; the nearest flip is looked for where nothing has flipped."""
    model, x, _ = cases()["relu"]
    attack = WorstCase(k=3, radius=0.1, budget="fast")
    assert attack.recipe == "WorstCase-2"
    members = attack.attacks(piecewise=True)
    kinds = [NextFeatureAttack, RandomSearchAttack, BoundaryAttack, MinimalFlip]
    assert [type(member) for member in members] == kinds
    calls = record_members(monkeypatch)
    result = attack(model, x)
    search, without, *nearest = calls
    assert len(search[1]) == len(x)
    assert (result.precision <= search[2].precision).all()
    # among the fewer rows of the second, those with features left
    assert len(without[1]) == int((search[2].precision > 0).sum())
    unflipped = x[(search[2].precision == 1)]
    assert 0 < len(unflipped) < len(x)
    assert all(len(rows) <= len(unflipped) for self, rows, _ in nearest if type(self) is MinimalFlip)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_second_recipe_is_never_kinder_than_noise(norm):
    model, x, _ = cases()["tanh"]
    shared = {"k": 3, "radius": 0.2, "norm": norm}
    draws = DRAWS["fast"][0]
    worst = WorstCase(**shared, budget="fast")(model, x, seed=3, radii=(0.1, 0.2))
    noise = NoiseAttack(**shared, steps=draws)(model, x, seed=3, radii=(0.1, 0.2))
    for one, other in zip(worst, noise, strict=True):
        assert (one.precision <= other.precision).all()


def test_a_row_alone_gets_what_it_gets_among_others():
    model, x, _ = cases()["relu"]
    attack = WorstCase(k=3, radius=0.3, budget="fast")
    together = attack(model, x, radii=(0.1, 0.3))
    for row in range(3):
        for whole, alone in zip(together, attack(model, x[row : row + 1], radii=(0.1, 0.3)), strict=True):
            assert torch.equal(alone.precision[0], whole.precision[row])
            torch.testing.assert_close(alone.x[0], whole.x[row], atol=1e-9, rtol=0)
