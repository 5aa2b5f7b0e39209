"""The search for the next feature: what it finds, where it starts, that no softplus is sharp enough to hide."""

import copy

import pytest
import torch
from torch import nn

from r2et import Domain
from r2et.attacks import BoundaryAttack, NextFeatureAttack, next_feature
from r2et.attacks.chains import Chains
from r2et.attacks.judge import Judge
from r2et.attacks.task import Task
from r2et.errors import InputError
from tests.attacks.test_boundary import trained
from tests.models_with_answers import mlp, normal


def displaced(result):
    return 1 - float(result.precision.mean())


def sharpened(model, beta):
    """The same weights with a softplus in place of ReLU."""
    sharp = copy.deepcopy(model)
    for parent in list(sharp.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(parent, name, nn.Softplus(beta))
    assert any(isinstance(layer, nn.Softplus) for layer in sharp.modules())
    return sharp


def test_a_sharp_softplus_hides_nothing():
    """A net that is ReLU to the eye: without softer copies its slopes lead nowhere."""
    model, x = trained("relu")
    x = x[:20]
    attack = NextFeatureAttack(k=8, radius=0.3, restarts=8, hops=1, hop_restarts=4)
    relu, sharp = attack(model, x), attack(sharpened(model, 1000.0), x)
    assert abs(displaced(relu) - displaced(sharp)) < 0.03
    follows_itself = BoundaryAttack(k=8, radius=0.3, steps=100)(sharpened(model, 1000.0), x)
    assert displaced(sharp) > displaced(follows_itself) + 0.03


@pytest.mark.parametrize("kind", ["relu", "softplus"])
def test_it_displaces_more_than_all_pairs_at_once(kind):
    model, x = trained(kind)
    search = NextFeatureAttack(k=8, radius=0.6, restarts=16, hops=1)(model, x[:20])
    boundary = BoundaryAttack(k=8, radius=0.6, steps=100, restarts=2)(model, x[:20])
    assert displaced(search) > displaced(boundary)


def test_the_loss_is_that_of_the_next_pair():
    """Spelled out for one row: the aim, a tenth of the pairs up to it, or all of them alike."""
    attack = NextFeatureAttack(k=3, radius=1.0)
    model, x = mlp(7), normal(1, 7, seed=2)
    judge = Judge(Task.prepare(attack, model, x))
    evaluation = judge.evaluate(x)
    share = evaluation.scores[0] / evaluation.scores[0].sum()
    pairs = zip(evaluation.weakest[0].tolist(), evaluation.strongest[0].tolist(), strict=True)
    hinges = [max(float(share[a] - share[b] + 0.02 * share.max()), 0.0) for a, b in pairs]
    for lost in (0, 1, 3):
        aim = min(lost, 2)
        for uniform, expected in (
            (False, hinges[aim] + 0.1 * sum(hinges[: aim + 1])),
            (True, sum(hinges[: aim + 1])),
        ):
            value = attack._loss(
                evaluation.scores,
                (evaluation.weakest, evaluation.strongest),
                torch.tensor([lost]),
                torch.tensor([uniform]),
            )
            assert float(value) == pytest.approx(expected)


def test_searches_start_at_x_in_the_ball_at_its_edge_and_towards_rows():
    rows = normal(3, 6, seed=9) * 10
    attack = NextFeatureAttack(k=2, radius=0.5, restarts=16, starts=rows)
    task = Task.prepare(attack, mlp(), normal(5, 6, seed=4))
    starts = attack._starts(task)
    lengths = (starts - task.x).norm(dim=2)
    assert (lengths[:2] == 0).all()
    assert (lengths <= 0.5 + 1e-9).all()
    inside = (lengths[2:] < 0.5 - 1e-6).any(1)
    assert inside.any()
    assert not inside.all()
    towards = (rows[0] - task.x) / (rows[0] - task.x).norm(dim=1, keepdim=True)
    assert (((starts - task.x) / 0.5 - towards).abs().amax(2) < 1e-6).all(1).any()


def test_every_radius_is_its_own():
    model, x = mlp(8, 3, hidden=12, activation=nn.ReLU, seed=1), normal(8, 8, seed=4)
    attack = NextFeatureAttack(k=3, radius=9.0, steps=10, restarts=4, hops=1, hop_restarts=2)
    domain = Domain(frozen=[0], lower=-2.0)
    for norm in ("l2", "linf"):
        together = NextFeatureAttack(**{**vars(attack), "norm": norm})(model, x, domain=domain, radii=(0.1, 0.4))
        for radius, result in zip((0.1, 0.4), together, strict=True):
            assert (result.distance <= radius + 1e-9).all()
            assert torch.equal(result.x[:, 0], x[:, 0])
            alone = NextFeatureAttack(**{**vars(attack), "norm": norm, "radius": radius})(model, x, domain=domain)
            assert (result.precision <= alone.precision).all()
        assert float(together[1].precision.mean()) < float(together[0].precision.mean())


def test_the_history_is_the_lowest_of_all_searches():
    model, x = mlp(8, 3, hidden=12, activation=nn.Tanh, seed=1), normal(6, 8, seed=4)
    attack = NextFeatureAttack(k=3, radius=0.4, steps=5, restarts=3, hops=1, hop_restarts=2, history=True)
    result = attack(model, x)
    assert result.history.shape == (1 + attack.iterations(), 6)
    assert torch.equal(result.history.amin(0), result.precision)
    flips = (result.history < 1).int().argmax(0)
    assert torch.equal(torch.where(result.precision < 1, flips, -1), result.first_flip)


@pytest.mark.parametrize("starts", [[1.0], torch.zeros(3), torch.zeros(0, 6)])
def test_starts_that_are_no_inputs(starts):
    with pytest.raises(InputError, match="starts must be a tensor"):
        NextFeatureAttack(k=2, radius=1.0, starts=starts)


def test_starts_of_another_shape():
    with pytest.raises(InputError, match=r"\(M, 6\) of inputs, got one of shape \(3, 5\)"):
        NextFeatureAttack(k=2, radius=1.0, starts=torch.zeros(3, 5))(mlp(), normal(2, 6))


def searched(attack, model, x):
    """What the searches of a call have found before the first hop."""
    task = Task.prepare(attack, model, x)
    chains = Chains(task, attack.restarts, attack.iterations())
    attack._wave(chains, attack._starts(task), torch.ones(len(x), dtype=torch.bool), scale=1.0)
    return chains


def test_the_gap_is_what_the_next_feature_has_to_close():
    """By the ranks of the best point itself: the weakest of the features that are left, and the next newcomer."""
    model, x = trained("softplus")
    chains = searched(NextFeatureAttack(k=8, radius=0.3, steps=10, restarts=4), model, x[:12])
    judge = Judge(chains.task)
    evaluation = judge.evaluate(chains.best)
    for row, gap in enumerate(chains.gap.tolist()):
        scores, salient = evaluation.scores[row].detach(), set(chains.task.salient[row].tolist())
        inside = sorted(float(scores[i]) for i in salient)
        outside = sorted((float(scores[i]) for i in range(len(scores)) if i not in salient), reverse=True)
        lost = round(8 * (1 - float(evaluation.precision[row])))
        assert gap == pytest.approx((inside[lost] - outside[lost]) / float(scores.sum()), abs=2e-5)


def test_most_of_what_hops_gain_comes_from_rows_within_reach(monkeypatch):
    model, x = trained("relu")
    attack = NextFeatureAttack(k=8, radius=1.0, steps=15, restarts=6, hops=5, hop_restarts=6)
    reach = next_feature.within_reach(searched(attack, model, x))
    assert 0.1 < float(reach.double().mean()) < 0.9
    usual = attack(model, x).precision
    monkeypatch.setattr(next_feature, "WITHIN_REACH", torch.inf)
    everywhere = attack(model, x).precision
    # the control: without any hop less is displaced
    monkeypatch.setattr(next_feature, "WITHIN_REACH", -torch.inf)
    nowhere = attack(model, x).precision
    gained = float((nowhere - everywhere).mean())
    assert gained > 0.01
    assert float((nowhere - usual).mean()) > 0.5 * gained


def test_a_row_that_nothing_has_moved_hops():
    """A flat explanation has no gap to compare with a change: it is searched on."""
    model = nn.Sequential(nn.Linear(6, 2)).double()
    chains = searched(NextFeatureAttack(k=2, radius=0.1, steps=3, restarts=2), model, normal(4, 6, seed=1))
    assert next_feature.within_reach(chains).all()


def test_the_last_hops_are_fine():
    hops = NextFeatureAttack(k=2, radius=1.0, hops=8)._hops()
    assert len(hops) == 8
    assert hops[:4] == [(scale, next_feature.HOP) for scale in next_feature.SCALES]
    assert tuple(hops[-2:]) == next_feature.FINE
    assert NextFeatureAttack(k=2, radius=1.0, hops=2)._hops() == hops[:2]
    assert NextFeatureAttack(k=2, radius=1.0, hops=0)._hops() == []
