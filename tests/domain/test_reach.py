"""What an attacker may do under each threat: projections against brute force, rounding, sums."""

import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import r2et
from r2et.attacks import BoundaryAttack, ERAttack, NoiseAttack
from r2et.domain import chosen_threat, under_threat
from r2et.errors import InputError
from tests.models_with_answers import normal

GROUPS = [[1, 2, 3], [4, 5]]


def table_rows(count: int, seed: int = 0) -> torch.Tensor:
    """Rows of one number, two categories, a flag and a whole number of unit 0.25, float64 (N, 8)."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.zeros(count, 8, dtype=torch.float64)
    x[:, 0] = torch.randn(count, generator=draw)
    x[torch.arange(count), 1 + torch.randint(3, (count,), generator=draw)] = 1.0
    x[torch.arange(count), 4 + torch.randint(2, (count,), generator=draw)] = 1.0
    x[:, 6] = torch.randint(2, (count,), generator=draw)
    x[:, 7] = 0.25 * torch.randint(-8, 9, (count,), generator=draw)
    return x


DOMAIN = r2et.Domain(
    lower=torch.tensor([-3.0, 0, 0, 0, 0, 0, 0, -2.0]),
    upper=torch.tensor([3.0, 1, 1, 1, 1, 1, 1, 2.0]),
    frozen=[6],
    groups=GROUPS,
    unit=torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 0.25]),
)


def test_allowed_is_the_orthogonal_projection():
    step = normal(5, 8)
    for threat in ("domain", "tangent", "paper"):
        reach = DOMAIN.reach(threat, 8)
        part = reach.allowed(step)
        assert torch.allclose(reach.allowed(part), part)
        assert torch.allclose(((step - part) * part).sum(1), torch.zeros(5).to(part), atol=1e-12)
    tangent = DOMAIN.reach("tangent", 8).allowed(step)
    for group in GROUPS:
        assert torch.allclose(tangent[:, group].sum(1), torch.zeros(5).to(part), atol=1e-12)


def test_equal_features_move_together():
    reach = r2et.Domain(equal=[[0, 2]]).reach("tangent", 3)
    assert reach.allowed(torch.tensor([[1.0, 5.0, 3.0]])).tolist() == [[2.0, 5.0, 2.0]]


def test_points_near_an_image_or_a_pair_keep_its_shape():
    images, pairs = r2et.Domain(lower=-0.5, frozen=[0]), r2et.Domain(frozen=[0])
    x, points = torch.zeros(2, 1, 2, 2), torch.full((2, 1, 2, 2), -1.0)
    near = images.reach("domain", 4).near(points, x)
    assert near.flatten(1).tolist() == [[0.0, -0.5, -0.5, -0.5]] * 2
    near = pairs.reach("domain", 2).near(points.reshape(2, 2, 2), x.reshape(2, 2, 2), inputs=2)
    assert near.tolist() == [[[0.0, -1.0]] * 2] * 2
    along = pairs.reach("domain", 2).along(points.reshape(2, 2, 2), axis=2)
    assert torch.equal(along, near)


def test_rounding_inwards_never_lengthens():
    x = table_rows(40)
    points = x + normal(40, 8)
    reach = DOMAIN.reach("domain", 8)
    lengths = [(reach.near(points, x, inwards=side) - x).norm(dim=1) for side in (False, True)]
    assert (lengths[1] <= (points - x).norm(dim=1) + 1e-12).all()
    assert (lengths[1] < lengths[0]).any()


@pytest.mark.parametrize("attack", [ERAttack, BoundaryAttack, NoiseAttack])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_what_an_attack_returns_is_within_reach(attack, norm):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    x = table_rows(12)
    for threat in ("domain", "tangent", "paper"):
        run = attack(k=3, radius=0.7, steps=15, norm=norm, keep="last")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing that was tried is refused
            delta = run(model, x, domain=DOMAIN, threat=threat).x - x
        length = delta.norm(dim=1) if norm == "l2" else delta.abs().amax(1)
        assert (length <= 0.7 + 1e-9).all()
        if threat == "tangent":
            assert all(delta[:, group].sum(1).abs().max() < 1e-12 for group in GROUPS)
        if threat == "domain":
            assert torch.equal(delta[:, 1:7], torch.zeros(12, 6).double())
            steps = delta[:, 7] / 0.25
            assert torch.allclose(steps, steps.round(), atol=1e-9)
        # flags stay in the domain alone, sums everywhere but in the paper's threat
        assert (delta[:, 6].abs().max() > 0) == (threat != "domain")
        assert (delta[:, 1:4].sum(1).abs().max() > 1e-9) == (threat == "paper")


def test_the_judge_sees_the_rounded_point():
    """An explanation that changes between whole numbers only, as a sawtooth does, cannot be attacked there."""

    class Sawtooth(nn.Module):
        def forward(self, x):
            # slope of feature 0: large near the middle between whole numbers, and 1 at each of them
            margin = x[:, 0] + 3 * (x[:, 0] - torch.sin(2 * torch.pi * x[:, 0]) / (2 * torch.pi)) + 2 * x[:, 1]
            return torch.stack([torch.zeros_like(margin), margin], 1)

    x = torch.tensor([[2.0, 1.0], [5.0, 0.0]], dtype=torch.float64)
    attack = BoundaryAttack(k=1, radius=0.6, steps=30)
    whole = r2et.Domain(unit=torch.tensor([1.0, 0.0]), frozen=[1])
    assert (attack(Sawtooth(), x, domain=r2et.Domain(frozen=[1])).precision == 0).all()
    assert (attack(Sawtooth(), x, domain=whole).precision == 1).all()


def test_rounding_stays_in_the_budget():
    reach = r2et.Domain(unit=0.5).reach("domain", 2)
    start, x = torch.zeros(1, 2), torch.tensor([[0.3, 0.9]])
    assert reach.rounded(x, start).tolist() == [[0.5, 1.0]]
    assert reach.rounded(x, start, inwards=True).tolist() == [[0.0, 0.5]]


def test_the_default_threat():
    assert chosen_threat(None, None) == "paper"
    assert chosen_threat(None, r2et.Domain()) == "domain"
    with pytest.raises(InputError, match="rows that exist"):
        chosen_threat("tangent", None)
    with pytest.raises(InputError, match="unknown threat 'all'"):
        chosen_threat("all", None)


def test_a_row_that_does_not_exist_is_named():
    x = table_rows(4)
    x[2, 1:4] = 0.0
    with pytest.raises(InputError, match="row 2 is not a row that exists"):
        under_threat(nn.Linear(8, 2).double(), x, DOMAIN, None)
    model, reach = under_threat(nn.Linear(8, 2).double(), x, DOMAIN, "paper")
    assert reach.everywhere
    assert isinstance(model, nn.Linear)


def test_a_bound_that_is_no_whole_number_of_steps_away():
    reach = r2et.Domain(upper=39.2, lower=37.9, unit=1.0).reach("domain", 1)
    start = torch.tensor([[38.58]])
    for x in (39.2, 37.9):
        point = torch.tensor([[x]])
        assert torch.equal(reach.rounded(point, start), start)
        assert torch.equal(reach.near(point, start), start)


def test_equal_features_share_bounds_and_unit():
    domain = r2et.Domain(
        lower=torch.tensor([-1.0, -2.0]), upper=1.0, equal=[[0, 1]], unit=torch.tensor([0.5, 0.0])
    )
    moved = domain.reach("domain", 2).near(torch.tensor([[-1.7, -1.4]]), torch.zeros(1, 2))
    assert moved.tolist() == [[-1.0, -1.0]]
    clash = r2et.Domain(equal=[[0, 1]], unit=torch.tensor([0.5, 0.3]))
    with pytest.raises(InputError, match="always equal"):
        clash.reach("domain", 2)


def test_a_feature_in_a_group_and_equal_to_another():
    reach = r2et.Domain(groups=[[0, 1]], equal=[[1, 2]]).reach("tangent", 3)
    step = reach.allowed(normal(6, 3))
    assert torch.allclose(step[:, 0] + step[:, 1], torch.zeros(6).to(step), atol=1e-12)
    assert torch.allclose(step[:, 1], step[:, 2], atol=1e-12)
    assert torch.allclose(reach.allowed(step), step, atol=1e-12)


def test_the_rounding_of_sums_does_not_grow_with_other_features():
    """A foreign attack cannot hide a broken sum behind a feature of a million."""

    @dataclass(frozen=True, kw_only=True)
    class Breaks(NoiseAttack):
        def run(self, task, judge, best):
            best.submit(judge.evaluate(task.x + torch.tensor([0.0, 0.05, 0.0])))

    x = torch.tensor([[1e6, 1.0, 0.0]])
    model = nn.Linear(3, 2)
    with pytest.warns(UserWarning, match="1 outside the domain"):
        Breaks(k=1, radius=1.0, keep="last")(model, x, domain=r2et.Domain(groups=[[1, 2]]), threat="tangent")
