"""Where a number is missing, what stands for it stays: row by row, for every threat that knows rows that exist."""

import pytest
import torch

from r2et import Domain, attacks, audit, certify, ranking
from r2et.attacks import ATTACKS
from r2et.certificates import bracket
from r2et.errors import InputError
from r2et.explainers import ColumnEffects, Gradient
from r2et.stability import thickness_bounds
from r2et.tables import Rows
from tests.models_with_answers import generator, normal
from tests.tables_with_holes import COLUMNS, DOMAIN, network, table

EFFECTS = ColumnEffects(columns=COLUMNS)


def stays(before, after):
    """Whether missing values, flags and categories are what they were, to the last bit."""
    frozen = ~COLUMNS.continuous.expand(before.shape).clone()
    for value, flag in ((0, 1), (2, 3)):
        frozen[..., value] |= before[..., flag] == 1
    return torch.equal(before[frozen], after[frozen])


def test_the_table_has_holes_and_numbers():
    x = table(40)
    assert 0 < x[:, 1].sum() < 40
    COLUMNS.check_rows(x)
    assert COLUMNS.domain().absent == ((0, 1), (2, 3))


def test_reach_keeps_what_is_missing_row_by_row():
    x = table(30)
    far = x + 5 * normal(*x.shape)
    reach = DOMAIN.reach("domain", COLUMNS.n)
    clamped = reach.clamp(far, x)
    assert stays(x, clamped)
    present = COLUMNS.continuous & ~reach.missing(x)
    assert torch.equal(clamped[present], far[present])
    step = reach.allowed(far - x, x)
    assert torch.equal(step != 0, present)
    assert torch.equal(reach.near(far, x), clamped)
    assert reach.missing(x[(x[:, 1] == 0) & (x[:, 3] == 0)]) is None


def test_other_threats_know_nothing_of_it():
    x = table(5)
    for threat in ("tangent", "paper"):
        assert DOMAIN.reach(threat, COLUMNS.n).absent == ()
        assert DOMAIN.reach(threat, COLUMNS.n).clamp(x + 1, x)[0, 0] == x[0, 0] + 1


def test_features_that_are_always_equal_are_missing_together():
    domain = Domain(equal=[[0, 1]], absent=[(0, 2)])
    x = torch.tensor([[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]])
    assert domain.reach("domain", 3).clamp(x + 1, x).tolist() == [[0.5, 0.5, 1.0], [1.5, 1.5, 0.0]]


def test_whole_numbers_stay_where_they_are_missing():
    domain = Domain(lower=-9.0, upper=9.0, unit=1.0, absent=[(0, 1)])
    x = torch.tensor([[0.5, 1.0], [0.5, 0.0]])
    reach = domain.reach("domain", 2)
    assert reach.near(x + 2.2, x).tolist() == [[0.5, 1.0], [2.5, 0.0]]


@pytest.mark.parametrize(
    "absent", [[(0,)], [(0, 0)], [(0, 1), (0, 2)], [(0, 1), (1, 2)], [(0, 1, 2)], 3, "ab", [(0.5, 1)], [(-1, 1)]]
)
def test_pairs_that_say_nothing(absent):
    with pytest.raises(InputError, match="absent"):
        Domain(absent=absent)


def test_a_pair_beyond_the_features():
    with pytest.raises(InputError, match="feature 9"):
        Domain(absent=[(0, 9)]).check(9)


def test_equality_and_storage():
    assert Domain(absent=[(0, 1)]) == Domain(absent=((0, 1),)) != Domain(absent=[(0, 2)])
    assert len({Domain(absent=[(0, 1)]), Domain(absent=[(0, 1)]), Domain()}) == 2


def every_attack():
    for name in ATTACKS.names():
        for norm, keep in (("l2", "best"), ("linf", "best"), ("l2", "any")):
            yield pytest.param(name, norm, keep, id=f"{name}-{norm}-{keep}")


@pytest.mark.parametrize(("name", "norm", "keep"), [*every_attack()])
@pytest.mark.parametrize("explainer", [EFFECTS, Gradient()], ids=["effects", "gradient"])
def test_no_attack_moves_a_missing_value(name, norm, keep, explainer):
    settings = {"k": 2, "radius": 2.0, "norm": norm, "keep": keep, "explainer": explainer}
    kind = ATTACKS.find(name).thing
    if "budget" in kind.__dataclass_fields__:
        settings["budget"] = "fast"
    elif "steps" in kind.__dataclass_fields__ and not kind.slow:
        settings["steps"] = 8
    try:
        attack = ATTACKS.create(name, **settings)
    except InputError:
        pytest.skip("not for this norm or what is kept")
    x = table(6, seed=4)
    result = attack(network(), x, domain=DOMAIN)
    assert stays(x, result.x)
    if name == "noise":
        assert (result.x != x).any()


def test_the_search_by_formulas_moves_what_is_there_and_nothing_else():
    x, model = table(40), network(seed=5)
    attack = attacks.NextFeatureAttack(k=3, radius=2.0, explainer=Gradient())
    result = attack(model, x, domain=DOMAIN)
    assert stays(x, result.x)
    assert (result.precision < 1).any()
    # the negative control: without the pairs the same search moves them
    free = attack(model, x, domain=Domain(frozen=DOMAIN.frozen, groups=DOMAIN.groups))
    assert not stays(x, free.x)
    assert float(free.precision.mean()) <= float(result.precision.mean()) + 0.05


def naive(model, x, target):
    """Column by column and row by row."""

    def s(row, label):
        logits = model(row[None])[0]
        return logits[label] - logits[1 - label]

    effects = torch.zeros(len(x), len(COLUMNS), dtype=x.dtype)
    for r, (row, label) in enumerate(zip(x, target, strict=True)):
        point = row.clone().requires_grad_()
        slope = torch.autograd.grad(s(point, label), point)[0]
        for c, (features, kind, flag) in enumerate(
            zip(COLUMNS.features, COLUMNS.kinds, COLUMNS.missing, strict=True)
        ):
            if kind == "number" and (flag < 0 or row[flag] == 0):
                effects[r, c] = slope[features[0]]
                continue
            effects[r, c] = s(row, label).detach()
            if kind == "number":
                other = row.clone()
                other[flag] = 0
                effects[r, c] -= s(other, label).detach()
                continue
            for value, share in enumerate(COLUMNS.frequencies[c]):
                other = row.clone()
                other[list(features)] = COLUMNS.values(kind, len(features))[value]
                effects[r, c] -= share * s(other, label).detach()
    return effects


def test_the_effect_of_a_missing_number_is_what_its_flag_says():
    model, x = network(), table(12)
    target = torch.randint(2, (12,), generator=generator(3))
    signed = ColumnEffects(columns=COLUMNS, reduce="signed")
    torch.testing.assert_close(signed(model, x, target), naive(model, x, target), rtol=1e-10, atol=1e-12)


def test_only_rows_that_exist_are_evaluated():
    seen = []

    class Watched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x):
            seen.append(x.detach().clone())
            return self.net(x)

    EFFECTS(Watched(), table(8))
    COLUMNS.check_rows(torch.cat(seen))


def test_parameters_learn_from_the_effect_of_a_missing_number():
    model, x = network(), table(12)
    scores = EFFECTS(model, x, create_graph=True)
    gone = COLUMNS.missing_in(x)
    (slope,) = torch.autograd.grad(scores[gone].sum(), model[0].weight)
    assert slope[:, [1, 3]].abs().sum() > 0


@pytest.mark.parametrize("method", ["integral", "dual"])
def test_certificates_of_rows_with_holes_hold_and_are_those_of_rows_alone(method):
    model, x = network(seed=2), table(8, seed=1)
    certificate = certify(model, x, 2, explainer=EFFECTS, domain=DOMAIN, method=method)
    for row in range(2):
        alone = certify(model, x[row : row + 1], 2, explainer=EFFECTS, domain=DOMAIN, method=method)
        torch.testing.assert_close(certificate.radius[row], alone.radius[0], rtol=1e-6, atol=1e-9)
    top = ranking.top_k_mask(EFFECTS(model, x), 2)
    assert torch.equal(certificate.top.sort(1).values, top.nonzero()[:, 1].reshape(-1, 2))
    # brute force inside: nothing changes; beyond, something does somewhere
    reach = DOMAIN.reach("domain", COLUMNS.n)
    changed = torch.zeros(len(x), dtype=torch.bool)
    for draw in range(60):
        step = torch.nn.functional.normalize(reach.allowed(normal(*x.shape, seed=100 + draw), x), dim=1)
        inside = x + 0.999 * certificate.radius.clamp_max(50)[:, None] * step
        assert torch.equal(ranking.top_k_mask(EFFECTS(model, inside), 2), top)
        outside = x + 20 * certificate.radius.clamp(0.1, 50)[:, None] * step
        changed |= (ranking.top_k_mask(EFFECTS(model, outside), 2) != top).any(1)
    assert changed.any()
    assert (certificate.radius > 0).all()


def test_a_bracket_of_rows_with_holes():
    model, x = network(seed=2), table(5, seed=1)
    both = bracket(model, x, 2, radii=(0.1, 0.5), explainer=EFFECTS, domain=DOMAIN)
    assert (both.proven <= both.attacked + 1e-9).all()


def test_thickness_is_estimated_where_numbers_are_missing():
    model, x = network(), table(10)
    assert not thickness_bounds(model, x, 2, 0.1, explainer=EFFECTS, domain=DOMAIN).sound
    there = x[~COLUMNS.missing_in(x).any(1)]
    assert thickness_bounds(model, there, 2, 0.1, explainer=EFFECTS, domain=DOMAIN).sound


def test_an_audit_of_rows_with_holes():
    model, x = network(), table(8)
    rows = Rows(x, model(x).argmax(1), domain=DOMAIN, columns=COLUMNS)
    finding = audit(model, rows, k=2, radii=(0.3,), budget="fast", steps=5)
    assert finding.to_dict()["certificate"] is not None
