"""Effects of columns: against loops and closed forms, and what valid rows do not determine drops out."""

import pytest
import torch
from torch import nn

from r2et import Columns, attacks, metrics, ranking, thickness, validate
from r2et.certificates import certify, statistical_stability
from r2et.errors import InputError
from r2et.explainers import EXPLAINERS, ColumnEffects, Gradient
from r2et.objectives import R2ET, SSR, CertifiedRadius, DirectThickness, EstimatedHessian, ExactHessian
from r2et.objectives.explained_batch import ExplainedBatch
from r2et.scores import score as named_score
from r2et.stability import GaussianNeighbours, thickness_bounds
from tests.models_with_answers import generator
from tests.tables_with_traps import COLUMNS, DOMAIN, TRAPS, network, table

EFFECTS = ColumnEffects(columns=COLUMNS)
SIGNED = ColumnEffects(columns=COLUMNS, reduce="signed")
every_trap = pytest.mark.parametrize("trap", TRAPS)


def naive(model, x, target, name="log-odds"):
    """Column by column, row by row, value by value."""

    def s(row, label):
        return named_score(name, model(row[None]), label[None])[0]

    effects = torch.zeros(len(x), len(COLUMNS), dtype=x.dtype)
    for r, (row, label) in enumerate(zip(x, target, strict=True)):
        for c, (features, kind) in enumerate(zip(COLUMNS.features, COLUMNS.kinds, strict=True)):
            if kind == "number":
                point = row.clone().requires_grad_()
                effects[r, c] = torch.autograd.grad(s(point, label), point)[0][features[0]]
                continue
            effects[r, c] = s(row, label).detach()
            for v, share in enumerate(COLUMNS.frequencies[c]):
                other = row.clone()
                other[list(features)] = COLUMNS.values(kind, len(features))[v]
                effects[r, c] -= share * s(other, label).detach()
    return effects


@pytest.mark.parametrize("name", ["log-odds", "probability", "logit", "margin"])
@pytest.mark.parametrize("classes", [2, 4])
def test_effects_are_those_of_loops(classes, name):
    model, x = network(classes), table(6)
    target = torch.randint(classes, (6,), generator=generator(3))
    explainer = ColumnEffects(columns=COLUMNS, reduce="signed", score=name)
    expected = naive(model, x, target, name)
    torch.testing.assert_close(explainer(model, x, target), expected, rtol=1e-10, atol=1e-12)
    absolute = ColumnEffects(columns=COLUMNS, score=name)(model, x, target)
    torch.testing.assert_close(absolute, expected.abs(), rtol=1e-10, atol=1e-12)


def test_a_linear_model_has_its_weights():
    model, x = nn.Linear(COLUMNS.n, 2).double(), table(5)
    w = (model.weight[1] - model.weight[0]).detach()
    found = SIGNED(model, x, torch.ones(5, dtype=torch.int64))
    for c, (features, kind) in enumerate(zip(COLUMNS.features, COLUMNS.kinds, strict=True)):
        part = list(features)
        if kind == "number":
            expected = w[part[0]].expand(5)
        else:
            mean = torch.tensor(COLUMNS.frequencies[c], dtype=torch.float64) @ COLUMNS.values(kind, len(part))
            expected = (x[:, part] - mean) @ w[part]
        torch.testing.assert_close(found[:, c], expected)


def test_a_column_of_one_value_has_no_effect_at_all():
    columns = Columns(
        ("age", "land", "smokes"), ((0,), (1,), (2,)), ("number", "category", "flag"), ((), (1.0,), (0, 1))
    )
    x = torch.tensor([[0.3, 1.0, 1.0], [2.0, 1.0, 0.0]])
    found = ColumnEffects(columns=columns)(nn.Linear(3, 2), x)
    assert found[:, 1].tolist() == [0, 0]
    assert found[0, 2] == 0
    assert found[1, 2] > 0


def test_numbers_that_are_always_the_same_add_up():
    columns = Columns(("twice", "smokes"), ((0, 1), (2,)), ("number", "flag"), ((), (0.5, 0.5)))
    model = nn.Linear(3, 2, bias=False)
    model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]])
    found = ColumnEffects(columns=columns)(model, torch.tensor([[0.3, 0.3, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([[3.0, 2.0]]))


def test_rows_alone_and_in_chunks_give_the_same(monkeypatch):
    model, x = network(3), table(7)
    whole = SIGNED(model, x)
    torch.testing.assert_close(torch.cat([SIGNED(model, row[None]) for row in x]), whole)
    monkeypatch.setattr("r2et.explainers.column_effects.at_once", lambda *_, **__: 2)
    torch.testing.assert_close(SIGNED(model, x), whole)


def test_derivatives_by_numbers_are_those_of_differences():
    model, x = network(3), table(4)
    target = model(x).argmax(1)
    point = x.clone().requires_grad_()
    weights = torch.arange(1.0, 8.0).double()
    (found,) = torch.autograd.grad((SIGNED(model, point, target, create_graph=True) @ weights).sum(), point)
    assert (found[:, 3:] == 0).all(), "what is discrete does not move"
    step = 1e-6
    for i in range(3):
        moved = torch.zeros_like(x)
        moved[:, i] = step
        quotient = (SIGNED(model, x + moved, target) - SIGNED(model, x - moved, target)) @ weights / (2 * step)
        torch.testing.assert_close(found[:, i], quotient, rtol=1e-6, atol=1e-7)


def test_derivatives_by_parameters_are_those_of_differences():
    model, x = network(), table(4)
    target = model(x).argmax(1)
    bias = model[0].bias
    (found,) = torch.autograd.grad(SIGNED(model, x, target, create_graph=True).square().sum(), bias)
    with torch.no_grad():
        for j in range(3):
            values = []
            for sign in (1, -1):
                bias[j] += sign * 1e-6
                values.append(float(SIGNED(model, x, target).square().sum()))
                bias[j] -= sign * 1e-6
            assert float(found[j]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


# --- what valid rows do not determine ----------------------------------------------------------------------------


@every_trap
def test_a_trap_changes_no_valid_row_and_no_effect(trap):
    model, x = network(), table(30)
    trapped = TRAPS[trap](model)
    torch.testing.assert_close(trapped(x), model(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(SIGNED(trapped, x), SIGNED(model, x), rtol=0, atol=1e-10)


@every_trap
def test_a_trap_changes_gradients_over_encoded_features(trap):
    """The negative control: the same tolerance, and most lists."""
    model, x = network(), table(30)
    plain, trapped = Gradient()(model, x), Gradient()(TRAPS[trap](model), x)
    assert (plain - trapped).abs().amax(1).min() > 0.5
    assert ranking.precision_at_k(plain, trapped, 3).mean() < 0.6


def objectives():
    shared = {"explainer": SIGNED, "k": 3}
    return {
        "gap": R2ET(**shared, curvature=0.0),
        "est-h": EstimatedHessian(explainer=SIGNED),
        "est-h random": EstimatedHessian(explainer=SIGNED, direction="random"),
        "r2et": R2ET(**shared, pairs="boundary", curvature=1.0),
        "adversarial": R2ET(**shared, direction="adversarial", scale_free=True),
        "scale-free": R2ET(**shared, scale_free=True, curvature=1.0),
        "exact-h": ExactHessian(explainer=SIGNED),
        "ssr": SSR(explainer=SIGNED),
        "cl": CertifiedRadius(**shared),
        "thickness": DirectThickness(**shared, samples=2, steps=2),
    }


@every_trap
@pytest.mark.parametrize("name", objectives())
def test_a_trap_changes_no_objective(trap, name):
    model, x = network(), table(12)
    y = torch.randint(2, (12,), generator=generator(5))
    values = [objectives()[name](net, x, y, generator=generator(1)) for net in (model, TRAPS[trap](model))]
    assert torch.isfinite(values[0])
    torch.testing.assert_close(values[1], values[0], rtol=0, atol=1e-10)


@every_trap
@pytest.mark.parametrize("variant", ["probability", "gap", "average-precision", "dcg"])
def test_a_trap_changes_no_thickness(trap, variant):
    model, x = network(), table(12)
    values = [
        thickness(
            net,
            x,
            3,
            explainer=EFFECTS,
            neighbours=GaussianNeighbours(0.5),
            variant=variant,
            generator=generator(1),
        )
        for net in (model, TRAPS[trap](model))
    ]
    torch.testing.assert_close(values[1], values[0], rtol=0, atol=1e-10)


@every_trap
@pytest.mark.parametrize(
    "kind", [attacks.ERAttack, attacks.MSEAttack, attacks.BoundaryAttack, attacks.NoiseAttack]
)
def test_a_trap_changes_no_attack(trap, kind):
    model, x = network(), table(12)
    attack = kind(k=3, radius=1.0, steps=20, explainer=EFFECTS)
    results = [attack(net, x, domain=DOMAIN) for net in (model, TRAPS[trap](model))]
    assert results[0].precision.mean() < 1
    torch.testing.assert_close(results[1].precision, results[0].precision)


@every_trap
def test_a_trap_changes_no_faithfulness(trap):
    """Where a column is replaced by its most frequent value, which exists."""
    model, x = network(), table(12)
    values = [
        metrics.faithfulness(net, x, explainer=EFFECTS, baseline=COLUMNS.typical)
        for net in (model, TRAPS[trap](model))
    ]
    assert values[1] == pytest.approx(values[0], abs=1e-10)


# --- the rest of r2et -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["er", "mse", "boundary", "minimal", "noise", "trust-region", "worst-case"])
def test_attacks_move_numbers_alone(name):
    model, x = network(), table(6)
    settings = {"budget": "fast"} if name == "worst-case" else {"steps": 6}
    attack = attacks.ATTACKS.create(name, k=3, radius=2.0, explainer=EFFECTS, **settings)
    result = attack(model, x, domain=DOMAIN)
    assert torch.equal(result.x[:, 3:], x[:, 3:])
    assert result.before.shape == (6, len(COLUMNS))
    torch.testing.assert_close(result.before, EFFECTS(model, x))


def test_an_attack_beats_noise():
    model, x = network(), table(20)
    shared = {"k": 3, "radius": 1.0, "explainer": EFFECTS}
    noise, found = (
        attack(model, x, domain=DOMAIN).precision.mean()
        for attack in (attacks.NoiseAttack(**shared), attacks.BoundaryAttack(**shared, steps=40))
    )
    assert found < noise - 0.05


@pytest.mark.parametrize("domain", [None, DOMAIN.__class__(frozen=[3, 4, 5])])
def test_an_attack_that_moves_discrete_columns_is_refused(domain):
    attack = attacks.ERAttack(k=3, radius=1.0, steps=2, explainer=EFFECTS)
    with pytest.raises(InputError, match=r'smokes.*threat="domain"'):
        attack(network(), table(4), domain=domain)


def test_a_removed_column_takes_all_of_its_features():
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[0, 3] = mask[1, 0] = True
    spread = EFFECTS.spread(mask, table(2))
    assert spread.nonzero().tolist() == [[0, 3], [0, 4], [0, 5], [1, 0]]


def test_directions_of_training_leave_discrete_columns_alone():
    model, x = network(), table(5).requires_grad_()
    batch = ExplainedBatch(model, x, model(x), explainer=EFFECTS, generator=generator(0))
    for kind in ("gradient", "random", "adversarial"):
        directions = batch.directions(kind, 5, size=0.1, scale_free=False)
        assert (directions[:, 3:] == 0).all()
        torch.testing.assert_close(directions.norm(dim=1), torch.ones(5).double())


def test_a_row_that_cannot_exist_is_refused_by_everything_that_explains():
    model, x = network(), table(4)
    x[1, 6] = 0.5
    for call in (
        lambda: EFFECTS(model, x),
        lambda: attacks.ERAttack(k=3, radius=1.0, explainer=EFFECTS)(model, x, domain=DOMAIN),
        lambda: thickness(model, x, 3, explainer=EFFECTS),
        lambda: metrics.faithfulness(model, x, explainer=EFFECTS),
        lambda: validate.check(model, x, explainer=EFFECTS),
        lambda: certify(model, x, 3, explainer=EFFECTS),
    ):
        with pytest.raises(InputError, match="row 1 has no valid value of the flag 'smokes'"):
            call()


def test_measures_around_a_row_stay_among_rows_that_can_exist():
    model, x = network(), table(4)
    bounds, trapped = (
        thickness_bounds(net, x, 3, 0.1, explainer=EFFECTS, method="estimate", generator=generator(0))
        for net in (model, TRAPS["bend"](model))
    )
    torch.testing.assert_close(trapped.upper, bounds.upper, rtol=0, atol=1e-10)
    sampled = [
        statistical_stability(net, x, 3, margin=0.1, explainer=EFFECTS, samples=8, generator=generator(0)).gap
        for net in (model, TRAPS["bend"](model))
    ]
    torch.testing.assert_close(sampled[1], sampled[0], rtol=0, atol=1e-10)


def test_there_is_a_sentence_where_there_is_no_certificate():
    with pytest.raises(InputError, match="ColumnEffects"):
        certify(network(), table(2), 3, explainer=EFFECTS)


def test_it_is_described_and_restored():
    description = EXPLAINERS.describe(SIGNED)
    assert description["name"] == "column-effects"
    assert EXPLAINERS.restore(description) == SIGNED


def test_tables_have_neither_channels_nor_pairs():
    for settings in ({"reduce": "abs-sum"}, {"inputs": 2}):
        with pytest.raises(InputError, match="no channels and no pairs"):
            ColumnEffects(columns=COLUMNS, **settings)


def test_columns_must_fit():
    with pytest.raises(InputError, match=r"10 features.*\(4, 6\)"):
        EFFECTS(nn.Linear(6, 2), torch.zeros(4, 6))
