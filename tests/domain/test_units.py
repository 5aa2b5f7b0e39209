"""Radii in multiples of plausible change: the same as a model that was scaled by hand."""

import pytest
import torch
from torch import nn

from r2et import Domain, attacks, certify, models, ranking
from r2et.domain import in_plausible_units
from r2et.errors import InputError
from r2et.explainers import (
    Background,
    ColumnEffects,
    Contributions,
    Gradient,
    GradientTimesInput,
    SmoothGrad,
)
from tests.models_with_answers import normal
from tests.tables_with_holes import COLUMNS, DOMAIN, network, table

N = COLUMNS.n
SCALE = torch.tensor([0.2, 7.0, 3.0, 7.0, 0.05, 7.0, 7.0, 7.0, 7.0], dtype=torch.float64)
SCALED = Domain(
    lower=-4.0, upper=4.0, frozen=DOMAIN.frozen, groups=DOMAIN.groups, absent=DOMAIN.absent, scale=SCALE
)
#: flags and categories keep their units
USED = torch.where(COLUMNS.continuous, SCALE, 1.0)


def by_hand(model):
    """The same network of z = x / scale, with the scale in its first layer."""
    scaled = nn.Sequential(nn.Linear(N, 8), nn.Softplus(), nn.Linear(8, 2)).double()
    scaled.load_state_dict(model.state_dict())
    with torch.no_grad():
        scaled[0].weight *= USED
    return scaled


def test_it_is_the_model_that_was_scaled_by_hand():
    model, x = network(), table(20)
    scaled, z, domain = in_plausible_units(model, x, SCALED)
    torch.testing.assert_close(z * USED, x)
    torch.testing.assert_close(scaled(z), model(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(by_hand(model)(z), scaled(z), rtol=1e-12, atol=1e-12)
    assert torch.equal(z[:, ~COLUMNS.continuous], x[:, ~COLUMNS.continuous])
    COLUMNS.check_rows(z)
    torch.testing.assert_close(domain.upper, (4 / USED))
    assert (domain.groups, domain.absent, domain.scale) == (DOMAIN.groups, DOMAIN.absent, 1.0)


def test_precision_is_the_model_s_own_at_any_dtype():
    model, x = nn.Linear(N, 2), table(5).float()
    scaled, z, _ = in_plausible_units(model, x, SCALED)
    assert scaled.scale.dtype == torch.float32
    assert torch.equal(scaled.double().scale, USED)
    assert scaled(z.double()).dtype == torch.float64
    assert "scale" not in scaled.state_dict()


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_explanations_rank_as_before(reduce):
    model, x = network(), table(15)
    scaled, z, _ = in_plausible_units(model, x, SCALED)
    background = Background.from_rows(table(40, seed=9), COLUMNS, size=4)
    for explainer in (
        ColumnEffects(columns=COLUMNS, reduce=reduce),
        Contributions(columns=COLUMNS, background=background, reduce=reduce),
        GradientTimesInput(reduce=reduce),
        Gradient(reduce=reduce),
    ):
        expected, own = explainer(model, x), explainer.in_units(scaled.scale)(scaled, z)
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-11)
    # the negative control: without units slopes are per plausible change
    plain = ColumnEffects(columns=COLUMNS, reduce=reduce)
    assert not torch.allclose(plain(scaled, z), plain(model, x), rtol=1e-3)
    with pytest.raises(InputError, match="SmoothGrad depends on the units"):
        SmoothGrad().in_units(scaled.scale)


@pytest.mark.parametrize("name", ["noise", "next-feature", "worst-case", "minimal"])
def test_an_attack_moves_each_number_by_at_most_radius_plausible_changes(name):
    model, x, radius = network(), table(12), 3.0
    scaled, z, domain = in_plausible_units(model, x, SCALED)
    explainer = ColumnEffects(columns=COLUMNS).in_units(scaled.scale)
    budget = {"budget": "fast"} if name == "worst-case" else {}
    attack = attacks.ATTACKS.create(name, k=2, radius=radius, explainer=explainer, **budget)
    result = attack(scaled, z, domain=domain)
    moved = (result.x * USED - x).abs()
    assert (moved <= radius * USED * (1 + 1e-9)).all()
    assert torch.equal(
        moved > 1e-9, (moved > 1e-9) & COLUMNS.continuous & ~COLUMNS.missing_in(x)[:, COLUMNS.owner]
    )
    assert (moved > 0).any()
    again = attack(by_hand(model), z, domain=domain)
    torch.testing.assert_close(result.precision, again.precision)


def test_whole_numbers_are_whole_in_any_unit():
    model = nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 2)).double()
    x = torch.randint(20, 60, (10, 3)).double()
    domain = Domain(unit=1.0, scale=torch.tensor([2.0, 5.0, 0.4], dtype=torch.float64))
    scaled, z, own = in_plausible_units(model, x, domain)
    explainer = Gradient().in_units(scaled.scale)
    attack = attacks.ERAttack(k=1, radius=3.0, steps=5, keep="last", explainer=explainer)
    moved = attack(scaled, z, domain=own).x * domain.scale - x
    torch.testing.assert_close(moved, moved.round(), atol=1e-9, rtol=0)
    assert moved.abs().max() >= 1


def bent(slope_of_second: float) -> tuple[nn.Module, Domain]:
    """Log-odds softplus(x_0) + c x_1 + 20; one plausible change is .25 of the first and 10 of the second."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Softplus(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        model[0].bias.zero_()
        model[2].weight.zero_()
        model[2].bias.zero_()
        model[2].weight[1, 0] = 1.0
    linear = nn.Linear(2, 2).double()
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, slope_of_second]]))
        linear.bias.copy_(torch.tensor([0.0, 20.0]))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.linear = model, linear

        def forward(self, x):
            return self.model(x) + self.linear(x)

    return Both(), Domain(scale=torch.tensor([0.25, 10.0], dtype=torch.float64))


@pytest.mark.parametrize("method", ["auto", "additive", "deterministic"])
def test_a_certified_radius_is_the_distance_to_the_change_in_plausible_units(method):
    """The slope of the first column is sigmoid(x_0): it meets the second's, 0.6, at logit(0.6)."""
    model, domain = bent(0.6)
    x = torch.tensor([[2.0, 1.0], [1.0, -1.0], [-1.0, 0.5]], dtype=torch.float64)
    scaled, z, own = in_plausible_units(model, x, domain)
    explainer = Gradient().in_units(scaled.scale)
    certificate = certify(scaled, z, 1, explainer=explainer, domain=own, method=method)
    expected = (x[:, 0] - torch.tensor(0.6).logit()).abs() / 0.25
    assert (certificate.radius <= expected * (1 + 1e-9)).all()
    assert (certificate.radius >= expected * (0.999 if method != "deterministic" else 0.2)).all()
    # brute force in the units of the table
    for step in (0.999, 1.001):
        there = x.clone()
        there[:, 0] += step * expected * 0.25 * (torch.tensor(0.6).logit() - x[:, 0]).sign()
        same = ranking.top_k(Gradient()(model, there), 1) == ranking.top_k(Gradient()(model, x), 1)
        assert bool(same.all()) == (step < 1)


def test_certificates_of_effects_in_units_are_those_of_the_model_scaled_by_hand_and_hold():
    model, x = network(seed=3), table(8)
    scaled, z, domain = in_plausible_units(model, x, SCALED)
    explainer = ColumnEffects(columns=COLUMNS).in_units(scaled.scale)
    radius = certify(scaled, z, 2, explainer=explainer, domain=domain, method="dual").radius
    same = certify(by_hand(model), z, 2, explainer=explainer, domain=domain, method="dual").radius
    torch.testing.assert_close(radius, same, rtol=1e-6, atol=1e-9)
    top = ranking.top_k_mask(ColumnEffects(columns=COLUMNS)(model, x), 2)
    reach = domain.reach("domain", N)
    for draw in range(60):
        step = nn.functional.normalize(reach.allowed(normal(*z.shape, seed=draw), z), dim=1)
        inside = (z + 0.999 * radius.clamp_max(100)[:, None] * step) * USED
        assert torch.equal(ranking.top_k_mask(ColumnEffects(columns=COLUMNS)(model, inside), 2), top)


def test_an_additive_model_is_certified_exactly_in_units_too():
    x = table(30)
    model = models.Additive.from_rows(x, 2, columns=COLUMNS, units=4).double().eval()
    scaled, z, domain = in_plausible_units(model, x, SCALED)
    explainer = ColumnEffects(columns=COLUMNS).in_units(scaled.scale)
    certificate = certify(scaled, z[:8], 2, explainer=explainer, domain=domain)
    assert certificate.method == "additive"
    top = ranking.top_k_mask(ColumnEffects(columns=COLUMNS)(model, x[:8]), 2)
    reach = domain.reach("domain", N)
    for draw in range(60):
        step = nn.functional.normalize(reach.allowed(normal(8, N, seed=draw), z[:8]), dim=1)
        inside = (z[:8] + 0.999 * certificate.radius.clamp_max(100)[:, None] * step) * USED
        assert torch.equal(ranking.top_k_mask(ColumnEffects(columns=COLUMNS)(model, inside), 2), top)


def test_pairs_have_the_units_of_one_input():
    class Pairs(nn.Module):
        def forward(self, x):
            return (x[:, 0] - x[:, 1])[:, :2]

    x = normal(4, 2, 3)
    scaled, z, _ = in_plausible_units(Pairs(), x, Domain(scale=0.5), inputs=2)
    torch.testing.assert_close(z, 2 * x)
    torch.testing.assert_close(scaled(z), Pairs()(x))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan"), "1", [1.0, 0.0], True])
def test_a_scale_that_is_none(scale):
    with pytest.raises(InputError, match="scale"):
        Domain(scale=scale)


def test_what_cannot_be_counted_in_units():
    x = torch.zeros(2, 3)
    with pytest.raises(InputError, match="plausible change"):
        in_plausible_units(nn.Linear(3, 2), x, Domain())
    with pytest.raises(InputError, match="scale has 2 values for 3"):
        in_plausible_units(nn.Linear(3, 2), x, Domain(scale=torch.ones(2)))
    with pytest.raises(InputError, match="always equal"):
        in_plausible_units(nn.Linear(3, 2), x, Domain(scale=torch.tensor([1.0, 2.0, 3.0]), equal=[[0, 1]]))
    with pytest.raises(InputError, match="units must be a number above 0 for each of 9"):
        ColumnEffects(columns=COLUMNS, units=(1.0, 2.0))


def test_a_scale_is_part_of_a_domain():
    assert Domain(scale=1.0) == Domain(scale=torch.ones(1)) != Domain(scale=2.0)
    assert hash(Domain(scale=1.0)) != hash(Domain())
