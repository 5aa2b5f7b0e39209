"""The search by formulas: the same as that by autograd, and never more than the judge allows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from r2et import Domain
from r2et.attacks import NextFeatureAttack, next_feature
from r2et.attacks.closed_search import Formulas, Plan, _Sorting, has_formulas
from r2et.attacks.task import Task
from r2et.explainers import Gradient, GradientTimesInput
from tests.models_with_answers import mlp, normal

SHORT = NextFeatureAttack(k=3, radius=0.3, steps=4, restarts=8, hops=1, hop_restarts=4)
TANGENT = {"domain": Domain(groups=[[1, 2, 3]]), "threat": "tangent"}
BOUNDED = {"domain": Domain(lower=-0.5, upper=0.5, frozen=[4])}


def by_autograd(monkeypatch, attack, model, x, **settings):
    with monkeypatch.context() as patched:
        patched.setattr(next_feature, "has_formulas", lambda task: False)
        return attack(model, x, **settings)


@pytest.mark.parametrize("where", [{}, TANGENT, BOUNDED], ids=["all", "tangent", "domain"])
@pytest.mark.parametrize("reduce", ["abs", "signed"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("activation", [nn.Softplus, nn.Tanh, nn.ReLU])
def test_it_goes_where_autograd_goes(monkeypatch, activation, classes, reduce, where):
    """Few steps, so that rounding to float32 does not matter; ReLU follows softer copies."""
    model, x = mlp(8, classes, hidden=12, activation=activation, seed=1), normal(12, 8, seed=4)
    if where is TANGENT:
        x[:, 1:4] = torch.eye(3, dtype=x.dtype)[torch.arange(12) % 3]
    attack = replace(SHORT, explainer=Gradient(reduce=reduce))
    result, other = attack(model, x, **where), by_autograd(monkeypatch, attack, model, x, **where)
    assert (result.precision == other.precision).float().mean() >= 0.9
    assert float((result.x - other.x).abs().amax(1).median()) < 1e-3
    assert (result.precision < 1).any()
    assert result.kept.all()
    assert not result.rejected


def test_it_is_as_strong_as_autograd(monkeypatch):
    model, x = mlp(10, hidden=16, activation=nn.ReLU, seed=2), normal(40, 10, seed=5)
    attack = NextFeatureAttack(k=4, radius=0.5, steps=20, restarts=8, hops=2, hop_restarts=4)
    found = 1 - float(attack(model, x).precision.mean())
    other = 1 - float(by_autograd(monkeypatch, attack, model, x).precision.mean())
    assert found > 0.2
    assert abs(found - other) < 0.03


def test_rounding_of_float32_claims_nothing():
    """Two equal features in float32 that are not in float64: the judge decides."""
    model = mlp(6, activation=nn.Tanh, seed=3)
    with torch.no_grad():
        model[0].weight[:, 1] = model[0].weight[:, 0] * (1 - 1e-12)
    x = normal(10, 6, seed=4)
    result = replace(SHORT, k=1)(model, x)
    again = Gradient()(model, result.x).argmax(1) == Gradient()(model, x).argmax(1)
    assert torch.equal(result.precision, again.to(result.precision.dtype))


def test_history_and_first_flip_are_those_of_autograd(monkeypatch):
    model, x = mlp(8, 3, hidden=12, activation=nn.Tanh, seed=1), normal(6, 8, seed=4)
    attack = replace(SHORT, history=True, radius=0.1)
    result, other = attack(model, x), by_autograd(monkeypatch, attack, model, x)
    torch.testing.assert_close(result.history, other.history)
    assert torch.equal(result.first_flip, other.first_flip)
    assert (result.first_flip > 1).any()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"explainer": Gradient(reduce="signed")}, True),
        ({"explainer": Gradient(score="probability")}, False),  # three classes
        ({"explainer": Gradient(score="logit")}, False),
        ({"explainer": GradientTimesInput()}, False),
        ({"norm": "linf"}, False),
        ({"cap": 0.1}, False),
        ({"predictions": lambda x: [x[:, :2]]}, False),
    ],
)
def test_what_has_formulas(settings, expected):
    attack = replace(SHORT, **settings)
    assert has_formulas(Task.prepare(attack, mlp(8, 3), normal(4, 8, seed=4))) is expected


def test_two_classes_have_one_score():
    for score, expected in (("log-odds", True), ("probability", True), ("margin", True), ("logit", False)):
        task = Task.prepare(replace(SHORT, explainer=Gradient(score=score)), mlp(8), normal(4, 8, seed=4))
        assert has_formulas(task) is expected


def test_deep_and_large_networks_have_none():
    deep = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    large = mlp(8, hidden=2**12)
    for model in (deep, large):
        assert not has_formulas(Task.prepare(SHORT, model, normal(4, 8, seed=4)))


def test_rows_that_the_formulas_miss_are_left_to_autograd(monkeypatch):
    model, x = mlp(8, hidden=12, activation=nn.Tanh, seed=1), normal(6, 8, seed=4)
    task = Task.prepare(SHORT, model, x)
    assert Formulas(task).rows.all()
    wrong = task.before.clone()
    wrong[2] *= 1 + 0.1 * normal(8, seed=1).sign()
    assert Formulas(replace(task, before=wrong)).rows.tolist() == [True, True, False, True, True, True]
    monkeypatch.setattr(Formulas, "_agree", lambda self, rows: torch.zeros_like(rows, dtype=torch.bool))
    result, other = SHORT(model, x), by_autograd(monkeypatch, SHORT, model, x)
    assert torch.equal(result.x, other.x)
    assert (result.precision < 1).any()


def dead():
    """ReLUs that are dead nearby: there all scores are equal, and the smallest numbers are the list."""
    model = mlp(8, hidden=6, activation=nn.ReLU, seed=3)
    with torch.no_grad():
        model[0].bias.fill_(-0.2)
        model[2].bias.copy_(torch.tensor([3.0, -3.0]))
    return model


def twins(share):
    model = mlp(8, hidden=16, activation=nn.Tanh, seed=3)
    with torch.no_grad():
        model[0].weight[:, 4:] = model[0].weight[:, :4] * (1 - share * torch.rand(16, 4, dtype=torch.float64))
    return model


def faint():
    model = mlp(8, hidden=16, activation=nn.Sigmoid, seed=3)
    with torch.no_grad():
        model[0].bias.sub_(100.0)
    return model


@pytest.mark.parametrize("kind", ["dead", "twins", "almost twins", "faint"])
@pytest.mark.parametrize("k", [1, 3])
def test_it_is_no_weaker_where_float32_is_too_coarse(monkeypatch, kind, k):
    """Equal scores, scores that are equal to float32 alone, and scores that it cannot hold."""
    models = {"dead": dead, "twins": lambda: twins(0), "almost twins": lambda: twins(1e-8), "faint": faint}
    model, x = models[kind](), 0.5 * normal(20, 8, seed=4)
    attack = NextFeatureAttack(k=k, radius=0.5, steps=20, restarts=6, hops=1, hop_restarts=4)
    result, other = attack(model, x), by_autograd(monkeypatch, attack, model, x)
    # between columns that are equal, rounding decides, on each kind of processor in its own way
    allowed = 0.16 if kind == "twins" else 0.03
    assert abs(float(result.precision.mean() - other.precision.mean())) < allowed
    assert (result.precision < 1).any()


@given(st.data())
def test_pairs_are_those_of_a_sort(data):
    """With many ties: q-th weakest salient against q-th strongest other one."""
    n = data.draw(st.integers(2, 9))
    k = data.draw(st.integers(1, n - 1))
    signed = data.draw(st.booleans())
    values = data.draw(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))
    g = torch.tensor(values, dtype=torch.float32).reshape(1, 1, n)
    order = torch.tensor(data.draw(st.permutations(range(n))))
    order = torch.cat([order[:k].sort().values, order[k:].sort().values])
    pairs = _Sorting(order[None], 1, k).pairs_of(g, signed=signed)
    scores = np.array(values if signed else np.abs(values))
    count = min(k, n - k)
    inside, outside = np.sort(scores[:k])[:count], -np.sort(-scores[k:])[:count]
    np.testing.assert_array_equal(pairs.gap[0, 0].numpy(), inside - outside)
    np.testing.assert_array_equal(scores[pairs.inside[0, 0]], inside)
    np.testing.assert_array_equal(scores[pairs.outside[0, 0]], outside)
    assert float(pairs.largest) == np.abs(scores).max()
    # those of the first k by score, then by number, that are not members
    ranked = sorted(range(n), key=lambda place: (-scores[place], int(order[place])))
    assert int(pairs.lost) == sum(place >= k for place in ranked[:k])


def test_long_lists_are_sorted_alike():
    g = normal(2, 3, 400, seed=3).float()
    pairs = _Sorting(torch.arange(400).expand(2, 400), 3, 5).pairs_of(g, signed=False)
    expected = g[..., 5:].abs().topk(5).indices + 5
    assert torch.equal(pairs.outside, expected)


def test_a_plan_gives_each_search_its_guide():
    guides = [["a", "b"], ["c"]]
    plan = Plan.of(guides, 5, steps=4, scale=1.0)
    assert plan.chain.tolist() == [0, 2, 4, 1, 3]
    assert plan.uniform.tolist() == [False, True, False, False, True]
    assert plan.followed(1) == [("a", slice(0, 3)), ("c", slice(3, 5))]
    assert plan.followed(2) == [("b", slice(0, 3)), ("c", slice(3, 5))]


def test_fewer_searches_than_guides():
    model, x = mlp(8, hidden=12, activation=nn.ReLU, seed=1), normal(6, 8, seed=4)
    result = replace(SHORT, restarts=1, hop_restarts=2)(model, x)
    assert (result.precision < 1).any()
    assert result.kept.all()
