"""The boundary attack: its losses spelled out, its steps replayed, its surrogate and its strength."""

import math
from functools import cache
from itertools import pairwise

import pytest
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

from r2et.attacks import BoundaryAttack, ERAttack
from r2et.attacks.boundary import SAFE_MARGIN, checkpoints
from r2et.attacks.judge import Judge
from r2et.attacks.task import Task
from r2et.explainers import Gradient
from r2et.validate import piecewise_linear, smooth
from tests.models_with_answers import (
    Siamese,
    linear,
    mlp,
    naive_gradient,
    naive_log_odds,
    naive_order,
    normal,
    quadratic,
)

ACTIVATIONS = {"relu": nn.ReLU, "softplus": nn.Softplus}


@cache
def trained(kind):
    """A small net trained on breast-cancer, float64, and 40 standardised rows it has not seen."""
    data = load_breast_cancer()
    x, y = torch.tensor(data.data), torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    x = (x - x[:400].mean(0)) / x[:400].std(0)
    model = mlp(30, hidden=24, seed=3, activation=ACTIVATIONS[kind])
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.4)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(x[:400]), y[:400])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.zero_grad()
    assert float((model(x[400:]).argmax(1) == y[400:]).double().mean()) > 0.9
    return model, x[400:440]


def judge_on(model, x, k, explainer=None, radius=1.0):
    """What an attack is handed, outside of any attack."""
    attack = BoundaryAttack(k=k, radius=radius, explainer=explainer or Gradient())
    return Judge(Task.prepare(attack, model, x))


# the losses, from their formulas


def naive_hinge(top, scores, k):
    """sum_q w_q relu(a_(top,q) - a_(out,q) + m), a = |g| / ||g||_1, of one explanation."""
    total = sum(abs(v) for v in scores)
    a = [v / total for v in scores]
    inside = sorted(a[i] for i in top)
    outside = sorted((a[j] for j in range(len(a)) if j not in top), reverse=True)
    margin = 0.02 * max(abs(v) for v in a)
    loss = 0.0
    for q in range(1, min(k, len(a) - k, 16) + 1):
        loss += math.exp(-(q - 1) / 3) * max(0.0, inside[q - 1] - outside[q - 1] + margin)
    return loss


def naive_soft(top, scores, k):
    """The salient features above the boundary, counted by a sigmoid of the distance to the k-th largest."""
    total = sum(abs(v) for v in scores)
    a = [v / total for v in scores]
    level = sorted(a, reverse=True)[k - 1]
    width = 0.02 * max(abs(v) for v in a)
    return sum(1 / (1 + math.exp(-(a[i] - level) / width)) for i in top)


@pytest.mark.parametrize(("loss", "naive"), [("hinge", naive_hinge), ("soft", naive_soft)])
@pytest.mark.parametrize(("n", "k"), [(6, 2), (6, 5), (7, 1), (50, 20)])
@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_loss_against_a_loop(loss, naive, n, k, reduce):
    model, x = mlp(n, 3, activation=nn.Tanh), normal(5, n, seed=4)
    explainer = Gradient(reduce=reduce)
    judge = judge_on(model, x, k, explainer)
    attack = BoundaryAttack(k=k, radius=1.0, loss=loss, explainer=explainer)
    for seed in range(3):
        scores = explainer(model, x + normal(5, n, seed=seed + 20), judge.task.target)
        found = attack.boundary_loss(scores, judge)
        for r in range(5):
            top = naive_order(judge.task.before[r].tolist())[:k]
            assert float(found[r]) == pytest.approx(naive(top, scores[r].tolist(), k), abs=1e-12)


@pytest.mark.parametrize(("loss", "naive"), [("hinge", naive_hinge), ("soft", naive_soft)])
def test_loss_of_a_pair_is_the_sum_of_its_inputs(loss, naive):
    explainer = Gradient(inputs=2)
    model, x = Siamese(6), normal(4, 2, 6, seed=4)
    judge = judge_on(model, x, 2, explainer)
    attack = BoundaryAttack(k=2, radius=1.0, loss=loss, explainer=explainer)
    scores = explainer(model, x + 0.5 * normal(4, 2, 6, seed=5), judge.task.target)
    found = attack.boundary_loss(scores, judge)
    for r in range(4):
        tops = [naive_order(side.tolist())[:2] for side in judge.task.before[r]]
        expected = sum(naive(top, side.tolist(), 2) for top, side in zip(tops, scores[r], strict=True))
        assert float(found[r]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "soft"])
def test_loss_orders_explanations_as_it_should(loss):
    """Untouched above half displaced above fully displaced; a displaced one by a wide margin costs nothing."""
    model, x = linear(), normal(1, 6)
    judge = judge_on(model, x, 2)
    attack = BoundaryAttack(k=2, radius=1.0, loss=loss)
    i, j = naive_order(judge.task.before[0].tolist())[:2]
    none, half, full = (torch.full((1, 6), 0.5, dtype=torch.float64) for _ in range(3))
    none[0, [i, j]] = 1.0
    half[0, i] = 1.0
    half[0, j] = 0.0
    full[0, [i, j]] = 0.0
    values = [float(attack.boundary_loss(scores, judge)) for scores in (none, half, full)]
    assert values[0] > values[1] > values[2]
    assert values[2] == pytest.approx(0.0, abs=1e-9)


# the steps: APGD, spelled out for one row


def naive_search(model, row, top, c, k, radius, steps, loss="hinge"):
    """Every iterate, by Croce and Hein's Algorithm 1 with one projection a step (alpha = rho = 0.75)."""

    def value_and_slope(point):
        point = point.detach().requires_grad_()
        scores = naive_gradient(model, point, c, graph=True).abs()
        a = scores / scores.sum()
        if loss == "hinge":
            inside = a[top].sort().values
            outside = a[[j for j in range(len(a)) if j not in top]].sort(descending=True).values
            value = 0
            for q in range(min(k, len(a) - k)):
                value = value + math.exp(-q / 3) * (inside[q] - outside[q] + 0.02 * a.max().detach()).relu()
        else:
            level = a.detach().sort(descending=True).values[k - 1]
            value = torch.sigmoid((a[top] - level) / (0.02 * a.max().detach())).sum()
        value = value + (SAFE_MARGIN - naive_log_odds(model(point[None])[0], c)).relu()
        return float(value.detach()), torch.autograd.grad(value, point)[0]

    def project(point):
        delta = point - row
        return row + delta * min(1.0, radius / max(float(delta.norm()), 1e-300))

    x = previous = row
    step = last_step = radius
    value, slope = value_and_slope(x)
    best, best_value, best_slope = x, value, slope
    last_best, improved, since = value, 0, 0
    iterates, values, lows = [], [value], []
    for number in range(1, steps + 1):
        size = float(slope.norm())
        along = step * slope / size if size else torch.zeros_like(x)
        momentum = 0.0 if number == 1 else 0.25
        moved = project(x - (1 - momentum) * along + momentum * (x - previous))
        previous, x, old = x, moved, value
        value, slope = value_and_slope(x)
        iterates.append(x)
        values.append(value)
        improved += value < old
        if value < best_value:
            best, best_value, best_slope = x, value, slope
        lows.append(best_value)
        if number in checkpoints(steps):
            halve = improved < 0.75 * (number - since) or (step == last_step and best_value >= last_best)
            last_step, last_best, since, improved = step, best_value, number, 0
            if halve:
                step, x, previous, slope, value = step / 2, best, best, best_slope, best_value
    return iterates, values, lows, step


class Watched(BoundaryAttack):
    """Remembers where it looked, and what it saw there."""

    def _value_and_slope(self, judge, guide, x, **options):
        value, *rest = super()._value_and_slope(judge, guide, x, **options)
        seen.append((x.clone(), value.clone()))
        return value, *rest


seen: list[tuple[torch.Tensor, torch.Tensor]] = []


@pytest.mark.parametrize("loss", ["hinge", "soft"])
@pytest.mark.parametrize("kind", [nn.Tanh, nn.Softplus])
def test_every_iterate_against_a_naive_search(loss, kind):
    model, x = mlp(activation=kind, seed=5), normal(4, 6, seed=4)
    target = model(x).argmax(1)
    seen.clear()
    Watched(k=2, radius=0.7, steps=40, loss=loss)(model, x)
    points = torch.stack([p for p, _ in seen[1:]], dim=1)
    halved = 0
    for r in range(4):
        top = naive_order(naive_gradient(model, x[r], int(target[r])).abs().tolist())[:2]
        iterates, values, lows, step = naive_search(model, x[r], top, int(target[r]), 2, 0.7, 40, loss)
        torch.testing.assert_close(points[r], torch.stack(iterates), atol=1e-7, rtol=0)
        assert [float(v[r]) for _, v in seen] == pytest.approx(values, abs=1e-7)
        assert lows == sorted(lows, reverse=True)  # the loss of the best point never rises
        if loss == "hinge":  # the soft count holds the boundary fixed in its slope: it need not fall at once
            assert lows[-1] < values[0]
        halved += step < 0.7
    assert halved  # the steps did adapt


def test_the_hinge_falls():
    """From x to the best point, on every row of a trained net."""
    model, x = trained("softplus")
    seen.clear()
    Watched(k=8, radius=0.3, steps=30)(model, x)
    values = torch.stack([value for _, value in seen])
    lowest = values.cummin(0).values
    assert (lowest[-1] < values[0]).all()
    assert float(lowest[-1].mean()) < float(lowest[5].mean()) < float(values[0].mean())


def test_checkpoints():
    """p_1 = 0.22, p_(j+1) = p_j + max(p_j - p_(j-1) - 0.03, 0.06), rounded to iterations."""
    for steps in (1, 2, 5, 20, 100, 300):
        places = [0.0, 0.22]
        while places[-1] < 1:
            places.append(places[-1] + max(places[-1] - places[-2] - 0.03, 0.06))
        expected = {max(1, round(p * steps)) for p in places[1:] if p < 1 - 1e-12}
        found = checkpoints(steps)
        assert found == expected
        assert all(isinstance(place, int) and 1 <= place <= steps for place in found)
    widths = [after - before for before, after in pairwise(sorted(checkpoints(300)))]
    assert widths == sorted(widths, reverse=True)


# scale


def scaled(model, factor):
    copy = mlp(activation=type(model[1]))
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        copy[2].weight.mul_(factor)
        copy[2].bias.mul_(factor)
    return copy


@pytest.mark.parametrize("loss", ["hinge", "soft"])
@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU, nn.Softplus])
@pytest.mark.parametrize("factor", [64.0, 2.0**-5])
def test_the_scale_of_the_log_odds_changes_nothing(loss, kind, factor):
    """Two classes, all iterates away from the decision boundary; a power of two, so to the last bit."""
    model, x = mlp(activation=kind, seed=5), normal(12, 6, seed=4)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([30.0, 0.0]))
    run = BoundaryAttack(k=2, radius=0.7, steps=25, loss=loss, restarts=2)
    expected, found = run(model, x), run(scaled(model, factor), x)
    assert (expected.precision < 1).any()
    assert torch.equal(found.x, expected.x)
    assert torch.equal(found.precision, expected.precision)


def test_negative_control_the_paper_s_objective_depends_on_the_scale():
    """It sees p (1 - p)."""
    model, x = mlp(activation=nn.Tanh, seed=5), normal(12, 6, seed=4)
    paper = ERAttack(k=2, radius=0.7, steps=25, keep="last")
    assert not torch.allclose(paper(model, x).x, paper(scaled(model, 2.0**-5), x).x, atol=1e-3)


# surrogates


def sure_relu(rows=20):
    model, x = mlp(8, hidden=16, activation=nn.ReLU, seed=2), normal(rows, 8, seed=4)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([20.0, 0.0]))
    return model, x


@pytest.mark.parametrize("loss", ["hinge", "soft"])
def test_a_relu_net_has_no_slope_of_its_own(loss, monkeypatch):
    """Through the real net the slope is zero, silently, and nothing is found; the softplus copy finds flips."""
    model, x = sure_relu()
    attack = BoundaryAttack(k=3, radius=0.6, steps=20, loss=loss)
    judge = judge_on(model, x, 3)
    seen = judge.evaluate(x + 0.1, create_graph=True)
    slope = torch.autograd.grad(attack.boundary_loss(seen.scores, judge).sum(), seen.x, allow_unused=True)[0]
    assert slope is None or not slope.any()
    result = attack(model, x)
    assert float((result.precision < 1).double().mean()) > 0.5
    assert torch.equal(model(result.x).argmax(1), model(x).argmax(1))
    monkeypatch.setattr("r2et.attacks.inspected.InspectedModel.surrogate", lambda self, beta: self.model)
    blind = attack(model, x)
    assert torch.equal(blind.precision, torch.ones(20, dtype=torch.float64))
    assert torch.equal(blind.x, x)


def test_iterates_are_judged_on_the_real_net():
    """A blunt copy ranks differently; what is reported is the real net's ranking."""
    model, x = sure_relu()
    result = BoundaryAttack(k=3, radius=0.6, steps=20, beta=1.0)(model, x)
    explainer, copy = Gradient(), smooth(model, 1.0)
    target = model(x).argmax(1)
    torch.testing.assert_close(result.after, explainer(model, result.x, target))
    torch.testing.assert_close(result.before, explainer(model, x, target))
    top = [set(naive_order(row)[:3]) for row in result.before.tolist()]
    by_model = [len(a & set(naive_order(b)[:3])) / 3 for a, b in zip(top, result.after.tolist(), strict=True)]
    by_copy = [
        len(a & set(naive_order(b)[:3])) / 3
        for a, b in zip(top, explainer(copy, result.x, target).tolist(), strict=True)
    ]
    assert result.precision.tolist() == pytest.approx(by_model)
    assert by_model != pytest.approx(by_copy)


def test_beta_on_a_smooth_net_is_the_net_itself():
    model, x = mlp(activation=nn.Tanh), normal(6, 6, seed=4)
    run = BoundaryAttack(k=2, radius=0.7, steps=20)
    expected = run(model, x).x
    found = BoundaryAttack(k=2, radius=0.7, steps=20, beta=3.0)(model, x).x
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


class FunctionalReLU(nn.Module):
    """ReLU by a call, not by a layer."""

    def __init__(self):
        super().__init__()
        self.net, _ = sure_relu()

    def forward(self, x):
        return self.net[2](torch.relu(self.net[0](x)))


def test_relu_by_a_call_is_smoothed_too():
    model, x = sure_relu()
    run = BoundaryAttack(k=3, radius=0.6, steps=20)
    torch.testing.assert_close(run(FunctionalReLU(), x).x, run(model, x).x, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "activation",
    [nn.ReLU, nn.ReLU6, lambda: nn.LeakyReLU(0.1), lambda: nn.Hardtanh(-1.5, 1.5), nn.PReLU],
    ids=["relu", "relu6", "leaky", "hardtanh", "prelu"],
)
def test_piecewise_linear_nets_do_not_look_stable(activation):
    """A net that is recognised as piecewise linear is attacked, not passed over in silence."""
    model, x = mlp(8, hidden=16, activation=activation, seed=2), normal(20, 8, seed=4)
    with torch.no_grad():
        model[2].bias.copy_(torch.tensor([20.0, 0.0]))
    assert piecewise_linear(model, x)
    result = BoundaryAttack(k=3, radius=0.6, steps=20)(model, x)
    assert float((result.precision < 1).double().mean()) > 0.4


# strength


def test_restarts_can_only_help():
    model, x = trained("relu")
    results = [BoundaryAttack(k=8, radius=0.3, steps=10, restarts=count)(model, x) for count in (1, 2, 4)]
    for fewer, more in ((0, 1), (1, 2)):
        assert (results[more].precision <= results[fewer].precision).all()
    assert float(results[2].precision.mean()) < float(results[0].precision.mean())
    # the searches before a restart are the same ones
    flipped = results[0].first_flip > 0
    assert torch.equal(results[2].first_flip[flipped], results[0].first_flip[flipped])


def test_the_first_search_starts_at_x_and_needs_no_seed():
    model, x = mlp(activation=nn.Tanh), normal(6, 6, seed=4)
    one = BoundaryAttack(k=2, radius=0.7, steps=10)
    assert torch.equal(one(model, x, seed=0).x, one(model, x, seed=1).x)
    two = BoundaryAttack(k=2, radius=0.7, steps=10, restarts=2, keep="last")
    assert not torch.allclose(two(model, x, seed=0).x, two(model, x, seed=1).x)
    assert two.iterations() == 20


@pytest.mark.parametrize("loss", ["hinge", "soft"])
@pytest.mark.parametrize("kind", ["relu", "softplus"])
@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_stronger_than_er_attack_at_equal_steps(kind, radius, loss):
    """Two to three times as many features displaced, and in a chosen case at least 1.5."""
    model, x = trained(kind)
    boundary = BoundaryAttack(k=8, radius=radius, steps=50, loss=loss)(model, x)
    er = ERAttack(k=8, radius=radius, steps=50)(model, x)
    displaced = [1 - float(result.precision.mean()) for result in (boundary, er)]
    assert displaced[0] > 1.5 * displaced[1] > 0


# the prediction


@pytest.mark.parametrize("loss", ["hinge", "soft"])
def test_results_keep_the_prediction_near_the_boundary(loss):
    """Every row is within 0.3 log-odds of another class; the penalty leaves it room to be attacked."""
    model, x = quadratic(6, c=0.0), 0.6 * normal(200, 6, seed=4)
    odds = model(x)[:, 1].abs()
    x = x[odds < 0.3]
    assert len(x) > 10
    run = BoundaryAttack(k=2, radius=0.6, steps=40, loss=loss)
    result = run(model, x)
    assert torch.equal(model(result.x).argmax(1), model(x).argmax(1))
    assert result.kept.all()
    last = BoundaryAttack(k=2, radius=0.6, steps=40, loss=loss, keep="last")(model, x)
    er = ERAttack(k=2, radius=0.6, steps=40, keep="last", score="log-odds")(model, x)
    # the penalty: without it an iterate crosses about as often as ERAttack's
    assert float(last.kept.double().mean()) > float(er.kept.double().mean()) + 0.1
    assert float(result.precision.mean()) < 0.9


def test_the_penalty_is_in_the_loss():
    """On a model that cannot be reordered the penalty alone is followed, away from the decision boundary."""
    model, x = linear(), normal(1, 6)
    difference = (model.weight[1] - model.weight[0]).detach()
    odds = float((model(x)[0, 1] - model(x)[0, 0]).detach())
    x = x - (odds - 0.02) * difference / difference.square().sum()  # log-odds of class 1: 0.02
    last = BoundaryAttack(k=2, radius=0.5, steps=5, keep="last")(model, x)
    logits = model(last.x)[0].detach()
    assert float(logits[1] - logits[0]) > SAFE_MARGIN


# bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hing"}, r"'hing'.*'hinge'"),
        ({"restarts": 0}, "restarts=0"),
        ({"restarts": 1.5}, r"restarts=1\.5"),
        ({"beta": 0.0}, r"beta=0\.0"),
        ({"beta": -1.0}, r"beta=-1\.0"),
        ({"beta": float("inf")}, "beta=inf"),
        ({"steps": 0}, "steps=0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        BoundaryAttack(**({"k": 2, "radius": 1.0} | settings))
