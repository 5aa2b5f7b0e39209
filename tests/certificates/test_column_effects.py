"""Certificates of the effects of columns: closed forms, attacks inside and outside of the radius, traps."""

import itertools

import pytest
import torch
from torch import nn

from r2et import Columns, Domain, thickness_bounds
from r2et.attacks import MinimalFlip
from r2et.certificates import certify
from r2et.enclosure import extract
from r2et.enclosure.hinges import hinge_distances
from r2et.enclosure.problems import Reading
from r2et.errors import InputError, ModelError
from r2et.explainers import ColumnEffects, Gradient
from r2et.validate import smooth
from tests.certificates.opponents import changed_inside
from tests.certificates.test_deterministic import Square, known_square  # noqa: F401 - a fixture
from tests.covering import covering
from tests.models_with_answers import mlp, naive_order, normal
from tests.tables_with_traps import BINARY, COLUMNS, DOMAIN, ReadableSumTrap, network, neuron_trap, table

EFFECTS = ColumnEffects(columns=COLUMNS)
MOVABLE = COLUMNS.continuous
K = 3


def deep(classes=2):
    """Two hidden layers."""
    model = nn.Sequential(*network(8, activation=nn.Tanh), nn.Tanh(), nn.Linear(8, classes).double())
    with torch.no_grad():
        model[-1].weight.copy_(normal(classes, 8, seed=5))
    return model


def widest(model, reduce="abs"):
    """Functionals of a model of one row with all their gradients, by brute force: values (D,), slopes (D, n)."""

    def of(row):
        point = row.clone().requires_grad_()
        effects = ColumnEffects(columns=COLUMNS, reduce="signed").attribute(
            model, point[None], model(row[None]).argmax(1), create_graph=True
        )[0]
        slopes = torch.stack([torch.autograd.grad(effect, point, retain_graph=True)[0] for effect in effects])
        effects = effects.detach()
        order = naive_order((effects.abs() if reduce == "abs" else effects).tolist())
        values, gradients = [], []
        for i, j, sign in itertools.product(order[:K], order[K:], (-1.0, 1.0)):
            own = effects[i].sign()
            values.append(own * effects[i] + sign * effects[j])
            gradients.append((own * slopes[i] + sign * slopes[j]) * MOVABLE)
        return torch.stack(values), torch.stack(gradients)

    return of


def test_a_quadratic_score_has_nearly_the_exact_radius():
    model, x = network(activation=Square), table(12)
    radius = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN).radius
    for row, found in zip(x, radius, strict=True):
        values, slopes = widest(model)(row)
        # numbers have constant derivatives and so have differences between rows: every functional is affine
        exact = float((values / slopes.norm(dim=1)).min())
        # bands around slopes are as wide as a part of the interval on which they are found
        assert 0.75 * exact < float(found) < (1 + 1e-6) * exact


def test_inside_the_region_that_all_compared_rows_share_everything_is_affine():
    model, x = network(activation=nn.ReLU), table(12)
    radius = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN).radius
    reading = extract(model, x.shape[1:]).where(MOVABLE)
    for row, found in zip(x, radius, strict=True):
        values, slopes = widest(model)(row)
        rows = torch.cat([row[None], EFFECTS.variants(row[None])[0][0]])
        region = float(hinge_distances(reading, rows).min())
        affine = float((values / slopes.norm(dim=1)).min())
        assert float(found) >= min(region, affine) * (1 - 1e-6)


@pytest.mark.parametrize(
    ("model", "reduce"),
    [
        (network(), "abs"),
        (network(3), "signed"),
        (deep(), "abs"),
        (network(activation=nn.ReLU), "abs"),
        (network(3, activation=nn.ReLU), "abs"),
    ],
)
def test_an_attack_changes_nothing_inside_and_much_outside(model, reduce):
    x, explainer = table(30), ColumnEffects(columns=COLUMNS, reduce=reduce)
    certificate = certify(model, x, K, explainer=explainer, domain=DOMAIN)
    assert certificate.sound
    assert (certificate.radius > 0).all()
    radius = certificate.radius.clamp_max(100.0) * (1 - 1e-6)
    guide = smooth(model, 10.0) if certificate.method == "piecewise" else None
    shared = {"explainer": explainer, "k": K, "movable": MOVABLE, "guide": guide}
    assert not changed_inside(model, x, radius, **shared).any()
    assert changed_inside(model, x, 2.5 * radius, **shared).double().mean() > 0.5


def test_the_librarys_own_attack_stays_outside():
    model, x = network(), table(20)
    radius = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN).radius
    attack = MinimalFlip(k=K, radius=5.0, explainer=EFFECTS)(model, x, domain=DOMAIN)
    flipped = attack.precision < 1
    assert flipped.double().mean() > 0.5
    assert (attack.distance[flipped] > radius[flipped]).all()


@pytest.mark.parametrize("model", [network(), network(3), deep(3)])
@pytest.mark.parametrize("tilted", [False, True])
def test_slopes_are_bounded_on_the_whole_ball(model, tilted):
    x, far = table(5), 0.4
    problem = next(Reading.of(model, x, EFFECTS, MOVABLE).problems(x, model(x).argmax(1), K, None))
    enclosed = problem.attributions.on_balls(torch.full((5, 1), far).double(), tilted=tilted)
    steps = normal(40, *x.shape, seed=9) * MOVABLE
    points = x + steps / steps.norm(dim=2, keepdim=True) * far * torch.linspace(0, 1, 40)[:, None, None]
    point = points.flatten(0, 1).requires_grad_()
    effects = EFFECTS.attribute(model, point, problem.target.repeat(40), create_graph=True)
    for i, j in itertools.product(range(len(COLUMNS)), range(3, len(COLUMNS))):
        slope = torch.autograd.grad((effects[:, i] - 2 * effects[:, j]).sum(), point, retain_graph=True)[0]
        largest = (slope * MOVABLE).norm(dim=1).reshape(40, 5).amax(0)
        one, other = (torch.full((5, 1), number) for number in (i, j))
        bound = enclosed.slopes(one, torch.ones(5, 1).double(), other, torch.full((5, 1), -2.0).double())
        assert (largest <= bound[:, 0, 0]).all()


class ReadableBendTrap(nn.Module):
    """Adds sum_i C_i (|x_i - 1/2| - 1/2) over the 0/1 features, as two ReLU neurons for each of them."""

    def __init__(self, model, activation=nn.ReLU):
        super().__init__()
        self.model, self.activation = model, activation()
        count = len(BINARY)
        self.first = nn.Linear(COLUMNS.n, 2 * count).double()
        self.last = nn.Linear(2 * count, 2).double()
        weights = torch.arange(10.0, 10.0 + count).double()
        with torch.no_grad():
            for part in (*self.first.parameters(), *self.last.parameters()):
                part.zero_()
            for number, feature in enumerate(BINARY):
                self.first.weight[2 * number : 2 * number + 2, feature] = torch.tensor([1.0, -1.0]).double()
            self.first.bias.copy_(torch.tensor([-0.5, 0.5]).repeat(count))
            self.last.weight[1] = weights.repeat_interleave(2)
            # |x - 1/2| is 1/2 on a valid row, and so are both squares of x - 1/2 together
            self.last.bias[1] = -0.5 * weights.sum()

    def forward(self, x):
        return self.model(x) + self.last(self.activation(self.first(x)))


def squared_trap(model):
    """The smooth sibling: sum_i 2 C_i ((x_i - 1/2)^2 - 1/4), which is 0 on valid rows and bends between them."""
    return ReadableBendTrap(model, Square)


@pytest.mark.parametrize(
    ("activation", "trap", "prediction"),
    covering(
        (activation, trap, prediction)
        for activation, traps in (
            (nn.Softplus, (ReadableSumTrap, neuron_trap, squared_trap)),
            (nn.ReLU, (ReadableSumTrap, neuron_trap, ReadableBendTrap)),
        )
        for trap in traps
        for prediction in (False, True)
    ),
)
def test_a_trap_changes_no_certificate(activation, trap, prediction):
    model, x = network(activation=activation), table(6)
    trapped = trap(model)
    assert torch.allclose(model(x), trapped(x), atol=1e-12)
    before, after = (
        certify(each, x, K, explainer=EFFECTS, domain=DOMAIN, prediction=prediction) for each in (model, trapped)
    )
    # the prediction is charged for the rounding of its logits, and a trap that cancels has been added up too
    close = 1e-6 if prediction else 1e-8
    assert torch.allclose(before.limits, after.limits, rtol=close, atol=close)
    assert torch.equal(before.top, after.top)


@pytest.mark.parametrize(
    ("activation", "trap"), [(nn.Softplus, squared_trap), (nn.ReLU, ReadableBendTrap), (nn.ReLU, ReadableSumTrap)]
)
def test_gradients_over_features_are_changed_by_it(activation, trap):
    model, x = network(activation=activation), table(6)
    before, after = (certify(each, x, K).limits for each in (model, trap(model)))
    assert not torch.allclose(before, after, rtol=1e-2)


def test_a_smooth_network_with_hinges_beside_it_has_no_certificate():
    # |x - 1/2| added to a softplus net mixes the two kinds: neither method applies, trap or not
    with pytest.raises(ModelError, match="mixes smooth layers"):
        certify(ReadableBendTrap(network()), table(2), K, explainer=EFFECTS, domain=DOMAIN)


def test_a_table_of_numbers_is_certified_as_its_gradient():
    columns = Columns(tuple("abcdef"), tuple((i,) for i in range(6)), ("number",) * 6, ((),) * 6)
    model, x = mlp(6), normal(5, 6)
    for settings in ({"method": "integral"}, {}, {"radii": [0.1, 0.3]}):
        effects = certify(model, x, 2, explainer=ColumnEffects(columns=columns), **settings)
        gradient = certify(model, x, 2, explainer=Gradient(), **settings)
        assert effects.methods == gradient.methods
        assert torch.allclose(effects.limits, gradient.limits, rtol=1e-9)


def test_a_number_of_several_equal_features_moves_as_one():
    columns = Columns(("a", "b", "flag"), ((0, 1), (2,), (3,)), ("number", "number", "flag"), ((), (), (0.5, 0.5)))
    x = normal(8, 4, seed=3)
    x[:, 1], x[:, 3] = x[:, 0], (x[:, 3] > 0).double()
    domain = Domain(frozen=[3], equal=[[0, 1]])
    model, explainer = mlp(4), ColumnEffects(columns=columns)
    radius = certify(model, x, 1, explainer=explainer, domain=domain).radius.clamp_max(100.0)
    attack = MinimalFlip(k=1, radius=10.0, explainer=explainer)(model, x, domain=domain)
    flipped = attack.precision < 1
    assert flipped.any()
    assert (attack.distance[flipped] > radius[flipped]).all()


@pytest.mark.parametrize("activation", [nn.Softplus, nn.ReLU])
def test_where_no_number_moves_the_list_stays_for_ever(activation):
    still = Domain(frozen=range(COLUMNS.n))
    radius = certify(network(activation=activation), table(3), K, explainer=EFFECTS, domain=still).radius
    assert radius.isinf().all()


def test_a_linear_model_never_changes_its_list():
    model = nn.Linear(COLUMNS.n, 2).double()
    assert certify(model, table(4), K, explainer=EFFECTS, domain=DOMAIN).limits.isinf().all()


def test_softplus_above_its_switch_is_charged_to_differences_too():
    model, x = network(), table(4)
    with torch.no_grad():
        model[0].bias += 25
    problem = next(Reading.of(model, x, EFFECTS, MOVABLE).problems(x, model(x).argmax(1), K, None))
    enclosed = problem.attributions.on_balls(torch.full((4, 1), 0.1).double())
    assert (enclosed.score_errors[:, 3:] > 0).all()
    assert (enclosed.score_errors[:, :3] == 0).all()


def test_chunks_and_batches_change_nothing():
    model, x = network(), table(6)
    whole = certify(model, x, K, explainer=EFFECTS, domain=DOMAIN).limits
    assert torch.allclose(certify(model, x, K, explainer=EFFECTS, domain=DOMAIN, chunk_size=1).limits, whole)


def test_what_the_certificate_is_about_is_said():
    certificate = certify(network(), table(2), K, explainer=EFFECTS, domain=DOMAIN)
    assert certificate.explanation == "the effects of 7 columns on the log-odds, by magnitude"
    assert certificate.top.max() < len(COLUMNS)


@pytest.mark.parametrize(
    ("score", "match"), [("probability", "ColumnEffects compares rows"), ("margin", "runner-up class may differ")]
)
def test_scores_that_rank_otherwise_are_refused(score, match):
    explainer = ColumnEffects(columns=COLUMNS, score=score)
    with pytest.raises(InputError, match=match):
        certify(network(), table(2), K, explainer=explainer, domain=DOMAIN)


@pytest.mark.parametrize("threat", ["paper", "tangent"])
def test_a_threat_that_moves_flags_is_refused(threat):
    with pytest.raises(InputError, match="ColumnEffects compares rows that can exist"):
        certify(network(), table(2), K, explainer=EFFECTS, domain=DOMAIN, threat=threat)


def test_thickness_of_effects_is_proven_too():
    bounds = thickness_bounds(network(), table(4), K, 0.1, explainer=EFFECTS, domain=DOMAIN, method="enclosure")
    assert bounds.sound
    assert (bounds.lower <= bounds.upper).all()
