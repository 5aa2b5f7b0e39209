"""Contributions: against loops, closed forms and shap, on random tables, and what valid rows do not determine."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from r2et import Columns, ranking
from r2et.domain import WithoutGauge, in_plausible_units, without_gauge
from r2et.errors import InputError
from r2et.explainers import EXPLAINERS, Background, Contributions, Gradient
from r2et.models import Additive, Linear
from r2et.scores import score as named_score
from tests.models_with_answers import generator, normal
from tests.random_tables import random_tables, valid_rows
from tests.tables_with_traps import COLUMNS, DOMAIN, TRAPS, network, plus_last, table

BACKGROUND = Background(table(5, seed=40))
EXPLAINER = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=3)
every_trap = pytest.mark.parametrize("trap", TRAPS)


class Hidden(nn.Module):
    """The same model without what it says about itself."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)


def naive(explainer, model, x, target):
    """Permutation by permutation, background row by background row, column by column."""

    @torch.no_grad()
    def s(row, label):
        return float(named_score(explainer.score, model(row[None]), label[None])[0])

    columns = explainer.columns
    result = torch.zeros(len(x), len(columns), dtype=torch.float64)
    orders, others = explainer.permutations.tolist(), explainer.background.tensor
    for r, (row, label) in enumerate(zip(x, target, strict=True)):
        for order, other in itertools.product(orders, others):
            current = other.clone()
            before = s(current, label)
            for c in order:
                part = list(columns.features[c])
                current[part] = row[part]
                after = s(current, label)
                result[r, c] += (after - before) / (len(orders) * len(others))
                before = after
    return result


def numbers(count):
    return Columns(
        tuple(map(str, range(count))), tuple((i,) for i in range(count)), ("number",) * count, ((),) * count
    )


# --- what they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["log-odds", "probability", "logit", "margin"])
@pytest.mark.parametrize("classes", [2, 4])
def test_contributions_are_those_of_loops(classes, name):
    model, x = network(classes), table(3)
    target = torch.randint(classes, (3,), generator=generator(3))
    explainer = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2, seed=4, score=name)
    torch.testing.assert_close(explainer(model, x, target), naive(explainer, model, x, target), rtol=0, atol=1e-10)
    absolute = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=2, seed=4, score=name, reduce="abs")
    torch.testing.assert_close(absolute(model, x, target), explainer(model, x, target).abs())


@settings(max_examples=40, deadline=None)
@given(random_tables(), st.integers(2, 3), st.integers(1, 3), st.integers(0, 99))
def test_contributions_add_up_to_the_difference_of_scores(drawn, classes, pairs, seed):
    model, background = drawn.net(classes, seed), Background(drawn.others)
    explainer = Contributions(columns=drawn.columns, background=background, pairs=pairs, seed=seed)
    target = model(drawn.x).argmax(1)
    for net in (
        model,
        Linear(drawn.columns.n, classes).double(),
        Additive.from_rows(drawn.x, classes, columns=drawn.columns).double(),
    ):
        scores = named_score("log-odds", net(drawn.x), target)
        nobody = named_score(
            "log-odds", net(drawn.others).repeat(len(target), 1), target.repeat_interleave(len(drawn.others))
        ).reshape(len(target), -1)
        total = explainer(net, drawn.x, target).sum(1)
        torch.testing.assert_close(total, scores - nobody.mean(1), rtol=0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(random_tables(), st.integers(0, 99))
def test_only_values_of_the_row_and_of_the_background_are_evaluated(drawn, seed):
    """No list names a category or a flag that the row does not have: a column has the row's value or another's."""
    seen = []

    class Watched(Hidden):
        def forward(self, x):
            seen.append(x.detach())
            return super().forward(x)

    explainer = Contributions(columns=drawn.columns, background=Background(drawn.others), pairs=2, seed=seed)
    model = drawn.net(2, seed)
    contributions = explainer.attribute(Watched(model), drawn.x, model(drawn.x).argmax(1))
    assert contributions.shape == (len(drawn.x), len(drawn.columns)), (
        "one entry for each column, not for each value"
    )
    for rows in seen:
        drawn.columns.check_rows(rows)
        for features in map(list, drawn.columns.features):
            known = torch.cat([drawn.x, drawn.others])[:, features].unique(dim=0)
            assert len(torch.cat([known, rows[:, features]]).unique(dim=0)) == len(known)


@settings(max_examples=30, deadline=None)
@given(random_tables(), st.integers(0, 99))
def test_a_column_in_which_a_row_is_like_the_background_adds_nothing(drawn, seed):
    model, one = drawn.net(2, seed), drawn.others[:1]
    explainer = Contributions(columns=drawn.columns, background=Background(one), pairs=2, seed=seed)
    contributions = explainer(model, drawn.x)
    for c, features in enumerate(map(list, drawn.columns.features)):
        same = (drawn.x[:, features] == one[:, features]).all(1)
        assert (contributions[same, c].abs() < 1e-12).all()


def test_a_linear_model_has_its_weights_times_the_distance_to_the_mean():
    model, x = nn.Linear(COLUMNS.n, 2).double(), table(6)
    w = (model.weight[1] - model.weight[0]).detach()
    expected = (x - BACKGROUND.tensor.mean(0)) * w
    expected = torch.zeros(6, len(COLUMNS)).double().index_add(1, COLUMNS.owner, expected)
    found = EXPLAINER(model, x, torch.ones(6, dtype=torch.int64))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_an_additive_score_has_its_terms_minus_their_mean():
    class Sum(nn.Module):
        def forward(self, x):
            s = (
                x[:, 0].square()
                + x[:, 1].sin()
                + (x[:, 3:6] @ torch.tensor([1.0, 4.0, 9.0]).double())
                + 3 * x[:, 6]
            )
            return torch.stack([torch.zeros_like(s), s], 1)

    x, b = table(6), BACKGROUND.tensor
    found = EXPLAINER(Sum(), x, torch.ones(6, dtype=torch.int64))
    of_job = torch.tensor([1.0, 4.0, 9.0]).double()
    zero = torch.zeros(6).double()
    expected = torch.stack(
        [
            x[:, 0].square() - b[:, 0].square().mean(),
            x[:, 1].sin() - b[:, 1].sin().mean(),
            zero,
            (x[:, 3:6] - b[:, 3:6].mean(0)) @ of_job,
            3 * (x[:, 6] - b[:, 6].mean()),
            zero,
            zero,
        ],
        1,
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_small_table_has_all_permutations(count):
    columns = numbers(count)
    background = Background(normal(4, count, seed=9))
    for seed in (0, 7):
        explainer = Contributions(columns=columns, background=background, seed=seed)
        assert len(explainer.permutations) == math.factorial(count)
        assert len(explainer.permutations.unique(dim=0)) == math.factorial(count)


def test_permutations_come_with_their_reverses_and_from_the_seed_alone():
    orders = EXPLAINER.permutations
    assert orders.shape == (6, len(COLUMNS))
    assert torch.equal(orders.sort(1).values, torch.arange(len(COLUMNS)).expand(6, -1))
    assert torch.equal(orders[::2].flip(1), orders[1::2])
    torch.manual_seed(5)
    again = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=3)
    assert torch.equal(again.permutations, orders)
    other = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=3, seed=1)
    assert not torch.equal(other.permutations, orders)


def test_with_two_columns_together_one_pair_is_exact():
    """Any permutation with its reverse: a product of two columns is shared equally."""
    columns = numbers(6)
    background = Background(normal(3, 6, seed=3))
    A = normal(6, 6, seed=8)

    class Products(nn.Module):
        def forward(self, x):
            s = ((x @ A) * x).sum(1)
            return torch.stack([torch.zeros_like(s), s], 1)

    x, target = normal(4, 6, seed=1), torch.ones(4, dtype=torch.int64)
    one, many = (
        Contributions(columns=columns, background=background, pairs=p)(Products(), x, target) for p in (1, 60)
    )
    torch.testing.assert_close(one, many, rtol=0, atol=1e-10)

    class Triples(nn.Module):
        def forward(self, x):
            s = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 3] * x[:, 4] * x[:, 5]
            return torch.stack([torch.zeros_like(s), s], 1)

    one, many = (
        Contributions(columns=columns, background=background, pairs=p)(Triples(), x, target) for p in (1, 60)
    )
    assert float((one - many).abs().max()) > 1e-3, "the negative control: three columns together need more"


# --- shap --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shap(monkeypatch):
    """The package, but for its loops, which are not compiled: that takes longer than all of these tests."""
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    return pytest.importorskip("shap")


def coded(x):
    """Rows (N, n) with one number for each column, (N, columns): shap knows of no groups."""
    parts = [
        x[:, f[0]] if k != "category" else x[:, list(f)].argmax(1).double()
        for f, k in zip(COLUMNS.features, COLUMNS.kinds, strict=True)
    ]
    return torch.stack(parts, 1).numpy()


def decoded(rows):
    rows = torch.as_tensor(rows, dtype=torch.float64)
    x = torch.zeros(len(rows), COLUMNS.n, dtype=torch.float64)
    for c, (features, kind) in enumerate(zip(COLUMNS.features, COLUMNS.kinds, strict=True)):
        if kind == "category":
            x[torch.arange(len(rows)), torch.tensor(features)[rows[:, c].long()]] = 1
        else:
            x[:, list(features)] = rows[:, [c]]
    return x


def log_odds_of(model, label):
    def value(rows):
        with torch.no_grad():
            logits = model(decoded(rows))
            return named_score("log-odds", logits, torch.full((len(rows),), label)).numpy()

    return value


@pytest.mark.parametrize("classes", [2, 4])
def test_shap_with_the_same_permutations_says_the_same(classes, shap, monkeypatch):
    model, x = network(classes), table(3, seed=2)
    explainer = Contributions(columns=COLUMNS, background=BACKGROUND, pairs=4, seed=2)
    forward = explainer.permutations[::2].tolist()
    drawn = itertools.cycle(forward)

    def ours(places):
        chosen = set(places.tolist())
        places[:] = [c for c in next(drawn) if c in chosen]

    masker = shap.maskers.Independent(coded(BACKGROUND.tensor), max_samples=len(BACKGROUND))
    target = model(x).argmax(1)
    found = explainer(model, x, target)
    for row, label, own in zip(x, target.tolist(), found, strict=True):
        outside = shap.PermutationExplainer(log_odds_of(model, label), masker)
        with monkeypatch.context() as patched:
            patched.setattr(np.random, "shuffle", ours)
            values = outside(coded(row[None]), max_evals=len(forward) * (2 * len(COLUMNS) + 1), silent=True).values
        np.testing.assert_allclose(own.numpy(), values[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "additive", "pairs"])
def test_shaps_exact_values_are_ours_where_ours_are_exact(kind, shap):

    class Pairs(nn.Module):
        def forward(self, x):
            s = ((x @ normal(COLUMNS.n, COLUMNS.n, seed=5)) * x).sum(1)
            return torch.stack([torch.zeros_like(s), s], 1)

    x = table(3, seed=2)
    model = {
        "linear": Linear(COLUMNS.n, 2).double(),
        "additive": Additive.from_rows(table(30), 2, columns=COLUMNS).double(),
        "pairs": Pairs(),
    }[kind]
    masker = shap.maskers.Independent(coded(BACKGROUND.tensor), max_samples=len(BACKGROUND))
    values = shap.ExactExplainer(log_odds_of(model, 1), masker)(coded(x)).values
    found = EXPLAINER(model, x, torch.ones(3, dtype=torch.int64)).detach()
    np.testing.assert_allclose(found.numpy(), values, rtol=0, atol=1e-6)


def test_shaps_exact_values_are_ours_with_all_permutations(shap):
    columns = numbers(4)
    background = Background(normal(6, 4, seed=9))
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    explainer = Contributions(columns=columns, background=background, pairs=12)
    assert len(explainer.permutations) == 24
    x = normal(3, 4, seed=2)

    def value(rows):
        with torch.no_grad():
            logits = model(torch.as_tensor(rows))
            return (logits[:, 1] - logits[:, 0]).numpy()

    masker = shap.maskers.Independent(background.tensor.numpy(), max_samples=6)
    values = shap.ExactExplainer(value, masker)(x.numpy()).values
    found = explainer(model, x, torch.ones(3, dtype=torch.int64))
    np.testing.assert_allclose(found.numpy(), values, rtol=0, atol=1e-6)


# --- models that take themselves apart ---------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    random_tables(), st.sampled_from([2, 3]), st.sampled_from(["log-odds", "logit", "margin"]), st.integers(0, 9)
)
def test_parts_and_samples_agree(drawn, classes, name, seed):
    explainer = Contributions(columns=drawn.columns, background=Background(drawn.others), seed=seed, score=name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        models = [
            Linear(drawn.columns.n, classes).double(),
            Additive.from_rows(drawn.x, classes, columns=drawn.columns).double(),
        ]
    for model in models:
        own, sampled = explainer(model, drawn.x), explainer(Hidden(model), drawn.x)
        if classes == 2 or name == "logit":
            torch.testing.assert_close(own, sampled, rtol=0, atol=1e-10)
        # log-odds of more classes are not additive: both are samples
        else:
            torch.testing.assert_close(own, sampled, rtol=0, atol=1e-10)


def counted(model):
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    return calls


def test_parts_are_used_through_a_gauge_and_in_any_precision():
    model = Additive.from_rows(table(30), 2, columns=COLUMNS)
    x, target = table(5), torch.ones(5, dtype=torch.int64)
    calls = counted(model)
    for dtype, close in ((torch.float32, 2e-5), (torch.float64, 1e-10)):
        model, x = model.to(dtype), x.to(dtype)
        for net in (model, without_gauge(model, DOMAIN, COLUMNS.n)):
            logits = net(x)
            calls.clear()
            found = EXPLAINER.attribute(net, x, target, logits=logits)
            assert len(calls) == 1, "the background alone"
            torch.testing.assert_close(found, EXPLAINER(Hidden(net), x, target), rtol=0, atol=close)
    assert isinstance(without_gauge(model, DOMAIN, COLUMNS.n), WithoutGauge)


def test_parts_are_used_in_other_units(monkeypatch):
    """A model that counts in plausible changes is still a sum over columns: no samples, the same contributions."""
    model, x = Additive.from_rows(table(30), 2, columns=COLUMNS).double(), table(5)
    scale = torch.where(COLUMNS.continuous, 0.25, 1.0).double()
    scaled, z, _ = in_plausible_units(model, x, replace(DOMAIN, scale=scale))
    expected = EXPLAINER(Hidden(model), x)
    monkeypatch.setattr(Contributions, "_sampled", None)
    torch.testing.assert_close(EXPLAINER.in_units(scale)(scaled, z), expected, rtol=0, atol=1e-10)


def test_parts_that_are_not_the_model_are_not_believed():
    class More(Additive):
        def forward(self, x):
            return plus_last(super().forward(x), x[:, 0] * x[:, 1])

    model, x = More(COLUMNS.n, 2, numeric=[0, 1, 2]).double(), table(6)
    torch.testing.assert_close(EXPLAINER(model, x), EXPLAINER(Hidden(model), x))

    class WithLayers(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Linear(COLUMNS.n, 2).double()

        def forward(self, x):
            return self.parts(x).tanh()

    model = WithLayers()
    torch.testing.assert_close(EXPLAINER(model, x), EXPLAINER(Hidden(model), x))


def test_slopes_by_parts_are_those_of_samples():
    model = Additive.from_rows(table(30), 2, columns=COLUMNS).double()
    slopes = []
    for net in (model, Hidden(model)):
        x = table(5).requires_grad_()
        value = (EXPLAINER(net, x, create_graph=True) * torch.arange(7)).square().sum()
        (slope, weight) = torch.autograd.grad(value, [x, model.steepness])
        slopes.append((slope, weight))
    for own, sampled in zip(*slopes, strict=True):
        torch.testing.assert_close(own, sampled, rtol=1e-8, atol=1e-10)


# --- derivatives -------------------------------------------------------------------------------------------------


def test_derivatives_by_numbers_are_those_of_differences():
    model, x = network(3), table(4)
    target = model(x).argmax(1)
    weights = torch.arange(1.0, 8.0).double()
    point = x.clone().requires_grad_()
    (found,) = torch.autograd.grad((EXPLAINER(model, point, target, create_graph=True) @ weights).sum(), point)
    assert (found[:, 3:] == 0).all(), "what is discrete does not move"
    for i in range(3):
        moved = torch.zeros_like(x)
        moved[:, i] = 1e-6
        ahead, behind = (EXPLAINER(model, x + sign * moved, target) @ weights for sign in (1, -1))
        torch.testing.assert_close(found[:, i], (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-7)


def test_second_derivatives_by_numbers_are_those_of_differences():
    model, x = network(), table(4)
    target = model(x).argmax(1)
    weights = torch.arange(1.0, 8.0).double()

    def slope(at):
        point = at.clone().requires_grad_()
        value = (EXPLAINER(model, point, target, create_graph=True) @ weights).sum()
        return torch.autograd.grad(value, point, create_graph=True)[0], point

    first, point = slope(x)
    (second,) = torch.autograd.grad(first[:, 0].sum(), point)
    assert second[:, 0].abs().min() > 1e-4
    for i in range(3):
        moved = torch.zeros_like(x)
        moved[:, i] = 1e-5
        quotient = (slope(x + moved)[0][:, 0] - slope(x - moved)[0][:, 0]) / 2e-5
        torch.testing.assert_close(second[:, i], quotient.detach(), rtol=1e-5, atol=1e-6)


def test_derivatives_by_parameters_are_those_of_differences():
    model, x = network(), table(4)
    target = model(x).argmax(1)
    bias = model[0].bias
    (found,) = torch.autograd.grad(EXPLAINER(model, x, target, create_graph=True).square().sum(), bias)
    with torch.no_grad():
        for j in range(3):
            values = []
            for sign in (1, -1):
                bias[j] += sign * 1e-6
                values.append(float(EXPLAINER(model, x, target).square().sum()))
                bias[j] -= sign * 1e-6
            assert float(found[j]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


# --- what does not matter ----------------------------------------------------------------------------------------


@every_trap
def test_a_trap_changes_no_valid_row_and_no_contribution(trap):
    model, x = network(), table(30)
    trapped = TRAPS[trap](model)
    torch.testing.assert_close(trapped(x), model(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(EXPLAINER(trapped, x), EXPLAINER(model, x), rtol=0, atol=1e-10)
    assert (Gradient()(model, x) - Gradient()(trapped, x)).abs().amax(1).min() > 0.5, "the negative control"


def test_rows_alone_and_in_chunks_give_the_same(monkeypatch):
    model, x = network(3), table(7)
    whole = EXPLAINER(model, x)
    torch.testing.assert_close(torch.cat([EXPLAINER(model, row[None]) for row in x]), whole)
    for values in (1, 120, 700):
        monkeypatch.setattr("r2et.explainers.contributions.VALUES", values)
        monkeypatch.setattr("r2et.explainers.contributions.at_once", lambda *_, n=values, **__: max(1, n // 100))
        torch.testing.assert_close(EXPLAINER(model, x), whole)
        additive = Additive(COLUMNS.n, 2, numeric=[0, 1, 2]).double()
        torch.testing.assert_close(EXPLAINER(additive, x), EXPLAINER(Hidden(additive), x))


def test_the_order_of_columns_does_not_matter_where_contributions_are_exact():
    model, x = Additive(COLUMNS.n, 2, numeric=[0, 1, 2]).double(), table(5)
    order = [6, 2, 0, 5, 4, 1, 3]
    turned = Columns(
        *(
            [part[i] for i in order]
            for part in (COLUMNS.names, COLUMNS.features, COLUMNS.kinds, COLUMNS.frequencies)
        )
    )
    found = Contributions(columns=turned, background=BACKGROUND)(model, x)
    torch.testing.assert_close(found, EXPLAINER(model, x)[:, order])


# --- ugly inputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 103])
@pytest.mark.parametrize("rows", [1, 3])
def test_tables_of_one_and_of_many_columns(count, rows):
    columns = numbers(count)
    model = nn.Sequential(nn.Linear(count, 4), nn.Tanh(), nn.Linear(4, 7)).double()
    background, x = Background(normal(2, count, seed=1)), normal(rows, count, seed=2)
    found = Contributions(columns=columns, background=background, pairs=2)(model, x)
    assert found.shape == (rows, count)
    target = model(x).argmax(1)
    expected = named_score("log-odds", model(x), target)
    for b in background.tensor:
        expected = expected - named_score("log-odds", model(b.expand_as(x)), target) / 2
    torch.testing.assert_close(found.sum(1), expected.detach(), rtol=0, atol=1e-9)


def test_duplicates_and_constants():
    model, x = network(), table(4)
    x[:, 1] = 0.5
    rows = BACKGROUND.tensor.clone()
    rows[:, 1] = 0.5
    explainer = Contributions(columns=COLUMNS, background=Background(rows))
    twice = Contributions(columns=COLUMNS, background=Background(torch.cat([rows, rows])))
    found = explainer(model, torch.cat([x, x]))
    torch.testing.assert_close(found[:4], found[4:])
    torch.testing.assert_close(found[:4], twice(model, x))
    assert (found[:, 1].abs() < 1e-12).all(), "a constant column says nothing about anybody"
    named = ranking.list_mask(found, 6, positive=True)
    assert not named[:, found.amax(0) <= 0].any()


def test_a_row_of_the_background_alone_has_an_empty_list():
    x = table(1)
    explainer = Contributions(columns=COLUMNS, background=Background(x))
    found = explainer(network(), x)
    assert (found == 0).all()
    assert not ranking.list_mask(found, 3, positive=True).any()
    # and what the model does not look at is no reason, whatever is rounded
    model, x = network(), table(200).float()
    with torch.no_grad():
        model[0].weight[:, [1, 6]] = 0
    for net in (model.float(), Linear(COLUMNS.n, 2)):
        if isinstance(net, Linear):
            net.weight.data[:, [1, 6]] = 0
        assert (EXPLAINER(net, x)[:, [1, 4]] == 0).all()


def test_lists_are_positive_where_values_are_signed():
    assert EXPLAINER.positive
    assert not Contributions(columns=COLUMNS, background=BACKGROUND, reduce="abs").positive


def test_rows_that_cannot_exist_are_refused():
    x = table(3)
    x[1, 6] = 0.5
    with pytest.raises(InputError, match="row 1 has no valid value of the flag 'smokes'"):
        EXPLAINER(network(), x)
    with pytest.raises(InputError, match=r"background does not fit.*flag 'smokes'"):
        Contributions(columns=COLUMNS, background=Background(x))
    with pytest.raises(InputError, match="background does not fit"):
        Contributions(columns=numbers(3), background=BACKGROUND)


def test_it_is_described_and_restored():
    description = EXPLAINERS.describe(EXPLAINER)
    assert description["name"] == "contributions"
    restored = EXPLAINERS.restore(description)
    assert restored == EXPLAINER
    assert restored.background.sha256 == BACKGROUND.sha256


def test_the_background_decides_on_the_reasons():
    """What the documentation warns of, by numbers: another background, other contributions."""
    model, x = network(), table(4)
    other = Contributions(columns=COLUMNS, background=Background(valid_rows(COLUMNS, 5, seed=77)), pairs=3)
    assert (EXPLAINER(model, x) - other(model, x)).abs().amax() > 1e-2
