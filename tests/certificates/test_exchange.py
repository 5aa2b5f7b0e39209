"""Points that attacks and certificates give each other: they save time, and prove nothing."""

import pytest
import torch
from torch import nn

from r2et.attacks import BoundaryAttack, NextFeatureAttack, Task
from r2et.certificates import certify
from r2et.certificates.choice import certify_within
from r2et.certificates.dual import Level
from r2et.certificates.exchange import Hints, places_to_start, refuted_at
from r2et.domain import Domain, under_threat
from r2et.enclosure.problems import Reading
from r2et.errors import ContradictionError
from r2et.explainers import Gradient, GradientTimesInput
from tests.models_with_answers import linear, mlp, normal

RADII = (0.1, 0.5, 1.5)


def case(activation=nn.Softplus, domain=None, rows=6):
    model, x = mlp(7, hidden=10, activation=activation, seed=5), normal(rows, 7, seed=2)
    return *under_threat(model, x, domain, None), x


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_a_functional_is_refuted_where_a_feature_has_passed_another(reduce):
    model, _, x = case()
    explainer = Gradient(reduce=reduce)
    reading = Reading.of(model, x, explainer)
    target = model(x).argmax(1)
    (problem,) = reading.problems(x, target, 3, None)
    points = torch.stack([x, x + 0.8 * normal(6, 7, seed=9), x])
    refuted = refuted_at(reading, problem, points, (0.1, 10.0, 20.0))
    assert not refuted[0].any(), "nothing has moved"
    assert torch.equal(refuted[1], refuted[2]), "what holds at a radius holds at larger ones"
    after = explainer(model, points[1], target)
    pairs = problem.pairs
    for row in range(6):
        for place, (i, j) in enumerate(torch.cartesian_prod(pairs.top[row], pairs.rest[row]).tolist()):
            passed = bool(after[row, j] >= after[row, i])
            either = refuted[1, row].unflatten(0, (-1, 12))[:, place].any()
            # signs turn as well: a magnitude is then above the other one for another reason
            if passed:
                assert either
            elif reduce == "signed":
                assert not either


@pytest.mark.parametrize("activation", [nn.Softplus, nn.Tanh, nn.ReLU])
def test_points_of_an_attack_change_no_proof(activation):
    model, reach, x = case(activation)
    found = BoundaryAttack(k=3, radius=1.0, steps=20, keep="any")(model, x, radii=RADII)
    points = torch.stack([result.x for result in found])
    with_them = certify_within(model, x, 3, reach=reach, explainer=Gradient(), radii=RADII, points=points)
    assert torch.equal(with_them.limits, certify(model, x, 3, radii=RADII).limits)
    # in chunks, each row meets its own points
    parts = certify_within(
        model, x, 3, reach=reach, explainer=Gradient(), radii=RADII, points=points, chunk_size=4
    )
    assert torch.equal(parts.limits, with_them.limits)


def test_points_outside_of_their_balls_say_nothing():
    model, reach, x = case()
    # far away, where the list is another one
    points = torch.stack([x + 50 * normal(6, 7, seed=3)] * 3)
    same = certify_within(model, x, 3, reach=reach, explainer=Gradient(), radii=RADII, points=points)
    assert torch.equal(same.limits, certify(model, x, 3, radii=RADII).limits)


def test_a_proof_of_what_a_point_refutes_is_an_error(monkeypatch):
    """Negative control: a certificate that proves everything."""
    model, reach, x = case()
    found = BoundaryAttack(k=3, radius=1.0, steps=20, keep="any")(model, x, radii=RADII)
    points = torch.stack([result.x for result in found])
    assert (found[-1].precision < 1).any()
    monkeypatch.setattr(Level, "certified", lambda self, wanted, **effort: (wanted, torch.zeros_like(wanted)))
    with pytest.raises(ContradictionError, match="not sound"):
        certify_within(model, x, 3, reach=reach, explainer=Gradient(), radii=RADII, points=points)


@pytest.mark.parametrize("domain", [None, Domain(frozen=[0, 3])])
def test_places_lie_in_the_balls_and_within_reach(domain):
    model, reach, x = case(domain=domain)
    places = places_to_start(model, x, 3, reach=reach, explainer=Gradient(), radii=RADII)
    assert places.shape == (6, 9, 7)
    moves = places - x.unsqueeze(1)
    far = torch.tensor(RADII, dtype=torch.float64).repeat_interleave(3) * (1 + 1e-9)
    assert (moves.norm(dim=2) <= far).all()
    if domain is not None:
        assert (moves[..., [0, 3]] == 0).all()
        assert (moves[..., 1].abs() > 0).any()


def test_places_flip_more_than_random_points_do():
    model, reach, x = case(rows=40)
    places = places_to_start(model, x, 3, reach=reach, explainer=Gradient(), radii=RADII)
    drawn = x.unsqueeze(1) + nn.functional.normalize(normal(40, 9, 7, seed=1), dim=2) * RADII[-1]
    look = Hints(k=3, radius=1.0, keep="any")
    theirs, random = (
        look.on([Task.prepare(look, model, x, reach=reach, hints=hints)], RADII) for hints in (places, drawn)
    )
    for one, other in zip(theirs, random, strict=True):
        assert float(one.precision.mean()) < float(other.precision.mean())


def test_there_are_none_where_the_dual_bound_does_not_apply():
    x = normal(3, 5)
    for model, explainer in ((linear(5), Gradient()), (mlp(5), GradientTimesInput())):
        _, reach = under_threat(model, x, None, None)
        assert places_to_start(model, x, 2, reach=reach, explainer=explainer, radii=RADII) is None


def test_searches_start_from_hints_of_their_own_row():
    model, reach, x = case()
    hints = x.unsqueeze(1) + torch.stack([torch.full((7,), 0.1), torch.full((7,), -9.0)]).double()
    attack = NextFeatureAttack(k=3, radius=0.5, restarts=8)
    task = Task.prepare(attack, model, x, reach=reach, hints=hints)
    starts = attack._starts(task.for_attack(attack, torch.tensor([4, 1])))
    torch.testing.assert_close(starts[1], x[[4, 1]] + 0.1)
    torch.testing.assert_close((starts[2] - x[[4, 1]]).norm(dim=1), torch.tensor([0.5, 0.5], dtype=torch.float64))
