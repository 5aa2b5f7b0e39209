"""The judge: what it accepts from attacks of other people, and a net whose probabilities underflow."""

import warnings
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import r2et
from r2et import Domain
from r2et.attacks import Attack, BoundaryAttack, ERAttack, MinimalFlip, MSEAttack, TrustRegion, WorstCase
from r2et.attacks.limits import Limits, tolerance
from r2et.errors import InputError
from r2et.numerics.autograd import negligible, unit
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture
from tests.models_with_answers import Siamese, mlp, normal

RADIUS = 0.5


@dataclass(frozen=True, kw_only=True)
class Foreign(Attack):
    """Somebody else's attack: it hands in fixed perturbations, one after the other, and checks nothing."""

    moves: list[torch.Tensor] = field(default_factory=list)

    def run(self, task, judge, best):
        for move in self.moves:
            best.submit(judge.evaluate(task.x + move))


@dataclass(frozen=True, kw_only=True)
class Adopting(Foreign):
    """Another one, which hands in what it claims to have judged itself."""

    def run(self, task, judge, best):
        rows = torch.arange(len(task.x))
        for move in self.moves:
            best.adopt(rows, task.x + move, rows + 1)


def relu_net(dtype=torch.float64):
    """A ReLU net: NaN turns its explanation into zeros, and those into another top-k set."""
    model = mlp(activation=nn.ReLU).to(dtype)
    x = normal(4, 6, seed=4).to(dtype)
    return model, x


def flipping_move(model, x, length=0.9 * RADIUS, domain=None, **settings):
    """A legal perturbation that changes the top-k set of at least one row."""
    result = WorstCase(k=2, radius=length, budget="fast", **settings)(model, x, domain=domain)
    assert (result.precision < 1).any()
    return result.x - x


def at(value, feature=0):
    move = torch.zeros(4, 6, dtype=torch.float64)
    move[:, feature] = value
    return move


ILLEGAL = {
    "nan": (at(torch.nan), {}, "not finite"),
    "inf": (at(torch.inf), {}, "not finite"),
    "far": (at(3.0), {}, "outside the budget"),
    "just too far": (at(RADIUS * (1 + 1e-7)), {}, "outside the budget"),
    "enormous": (at(1e300), {}, "outside the budget"),
    "above the cap": (at(0.4), {"cap": 0.1}, "outside the budget"),
    "above the bound": (at(0.4), {"domain": Domain(upper=-5.0)}, "outside the domain"),
    "below the bound": (at(-0.4), {"domain": Domain(lower=5.0)}, "outside the domain"),
    "frozen": (at(0.4, 3), {"domain": Domain(frozen=[3])}, "outside the domain"),
}
every_fault = pytest.mark.parametrize("fault", ILLEGAL)


@every_fault
@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_what_breaks_the_rules_is_never_accepted(fault, keep, norm):
    model, x = relu_net()
    move, settings, reason = ILLEGAL[fault]
    domain = settings.get("domain")
    attack = Foreign(k=2, radius=RADIUS, keep=keep, norm=norm, cap=settings.get("cap"), moves=[move], history=True)
    with pytest.warns(UserWarning, match=f"^Foreign: 4 iterates were not accepted: 4 {reason}$"):
        result = attack(model, x, domain=domain)
    assert torch.equal(result.x, x)
    assert (result.precision == 1).all()
    assert (result.history == 1).all()
    assert result.kept.all()
    assert (result.first_flip == -1).all()
    torch.testing.assert_close(result.after, result.before)


@every_fault
def test_what_breaks_the_rules_is_never_adopted(fault):
    model, x = relu_net()
    move, settings, reason = ILLEGAL[fault]
    attack = Adopting(k=2, radius=RADIUS, cap=settings.get("cap"), moves=[move])
    with pytest.warns(UserWarning, match=f"^Adopting: 4 iterates were not accepted: 4 {reason}$"):
        result = attack(model, x, domain=settings.get("domain"))
    assert torch.equal(result.x, x)
    assert (result.precision == 1).all()
    assert (result.first_flip == -1).all()


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_legal_iterate_among_illegal_ones_is_accepted(keep):
    model, x = relu_net()
    move = flipping_move(model, x)
    attack = Foreign(k=2, radius=RADIUS, keep=keep, moves=[at(torch.nan), move, at(3.0)], history=True)
    with pytest.warns(UserWarning, match="8 iterates.*4 not finite, 4 outside the budget"):
        result = attack(model, x)
    moved = result.precision < 1
    assert moved.any()
    torch.testing.assert_close(result.x[moved], (x + move)[moved])
    assert torch.equal(result.first_flip[moved], torch.full((int(moved.sum()),), 2))
    assert torch.equal(result.history[3], result.history[2])
    assert result.rejected == Counter({"not finite": 4, "outside the budget": 4})


def test_one_warning_a_call_whatever_the_chunks_and_radii():
    model, x = relu_net()
    attack = Foreign(k=2, radius=RADIUS, moves=[at(9.0)[:1], at(torch.nan)[:1]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attack(model, x, chunk_size=1, radii=[0.1, 0.2])
    assert [str(entry.message) for entry in caught] == [
        "Foreign: 16 iterates were not accepted: 8 not finite, 8 outside the budget"
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_no_fault(dtype):
    model, x = relu_net(dtype)
    share = tolerance(dtype) / 2
    moves = [at(RADIUS * (1 + share)).to(dtype), at(-RADIUS).to(dtype)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = Foreign(k=2, radius=RADIUS, keep="last", moves=moves[:1])(model, x)
        Foreign(k=2, radius=RADIUS, moves=moves)(model, x + 1e4)
        Foreign(k=2, radius=RADIUS, moves=[x * torch.finfo(dtype).eps])(model, x, domain=Domain(frozen=range(6)))
    assert not torch.equal(result.x, x)


def test_a_pair_is_judged_by_its_joint_norm_and_its_domain():
    x = normal(2, 2, 6, seed=4)
    move = torch.zeros_like(x)
    move[:, :, 0] = 0.4  # 0.57 together
    limits = Limits(x, RADIUS, "l2")
    assert not limits.accept(x + move).any()
    move[:, 1] = 0
    assert limits.accept(x + move).all()
    attack = Foreign(k=2, radius=RADIUS, explainer=r2et.explainers.Gradient(inputs=2), moves=[move])
    with pytest.warns(UserWarning, match="2 outside the domain"):
        attack(Siamese(6), x, domain=Domain(frozen=[0]))


# attacks that say what is not so


@dataclass(frozen=True, kw_only=True)
class Cheating(Attack):
    """Does what it likes with what it is handed."""

    trick: object = None

    def run(self, task, judge, best):
        self.trick(best)


def start(best):
    """The clean inputs, as the attack sees them."""
    return best.judge.task.x


def forged(best, move=0.0, **claims):
    """An evaluation with other numbers than the model's."""
    real = best.judge.evaluate(start(best) + move)
    best.submit(replace(real, **{name: torch.full_like(getattr(real, name), v) for name, v in claims.items()}))


def written(best):
    evaluation = best.judge.evaluate(start(best))
    evaluation.precision.zero_()
    evaluation.lowest.zero_()
    best.submit(evaluation)


def elsewhere(best):
    """Judged at one point, handed in for another."""
    best.submit(replace(best.judge.evaluate(start(best) + at(0.3)), x=start(best) + at(-0.3)))


def assigned(**values):
    return lambda best: [setattr(best, name, value(best)) for name, value in values.items()]


def another_model(best):
    best.judge.task = replace(best.judge.task, model=mlp(seed=9))
    best.submit(best.judge.evaluate(start(best) + at(0.1)))


def wider(best):
    limits, attack = best.judge.limits, best.judge.task.attack
    limits.reach = torch.full_like(limits.reach, 99.0)
    best.judge.task = replace(best.judge.task, attack=replace(attack, radius=99.0))
    best.submit(best.judge.evaluate(start(best) + at(5.0)))


def overwritten(best):
    task = best.judge.task
    task.x.add_(5.0)
    task.before.neg_()
    task.top.logical_not_()
    task.target.copy_(1 - task.target)
    task.logits.neg_()
    task.inspected.few.add_(5.0)
    best.submit(best.judge.evaluate(task.x))


TRICKS = {
    "a precision of its own": lambda best: forged(best, precision=0.0, lowest=0.0),
    "a precision below zero": lambda best: forged(best, at(0.01), precision=-3.0),
    "a precision of NaN": lambda best: forged(best, precision=torch.nan),
    "a prediction of its own": lambda best: forged(best, at(0.45), kept=True, precision=0.0),
    "a precision written to": written,
    "another point": elsewhere,
    "the best far away": assigned(x=lambda best: best.x + 99.0),
    "the best is NaN": assigned(x=lambda best: best.x * torch.nan),
    "precision assigned": assigned(precision=lambda best: best.precision * 0),
    "a flip assigned": assigned(first_flip=lambda best: best.first_flip + 2),
    "another model": another_model,
    "a wider budget": wider,
    "everything overwritten": overwritten,
    "adopted without a flip": lambda best: best.adopt(
        torch.arange(4), start(best) + at(1e-6), torch.ones(4).long()
    ),
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.filterwarnings("ignore:.*iterates were not accepted")
def test_a_result_says_what_the_model_shows_whatever_an_attack_says(trick, keep):
    model, x = relu_net()
    inputs = x.clone()
    result = Cheating(k=2, radius=RADIUS, keep=keep, trick=TRICKS[trick])(model, inputs)
    assert torch.equal(inputs, x)
    target = model(x).argmax(1)
    before, after = (r2et.explainers.Gradient()(model, points, target) for points in (x, result.x))
    assert torch.equal(result.before, before)
    assert torch.equal(result.after, after)
    assert torch.equal(result.precision, r2et.precision_at_k(before, after, 2))
    assert torch.equal(result.kept, model(result.x).argmax(1) == target)
    assert torch.equal(result.distance, (result.x - x).norm(dim=1))
    assert (result.distance <= RADIUS * (1 + 1e-9)).all()
    if keep == "best":
        assert result.kept.all()
        assert torch.equal(result.first_flip >= 0, result.precision < 1)


def test_a_forged_evaluation_is_judged_again():
    model, x = relu_net()
    best = best_on(model, x)
    forged(best, precision=0.0, lowest=0.0)
    assert (best.precision == 1).all()
    assert (best.first_flip == -1).all()


@pytest.mark.parametrize("copies", ["detached", "merged"])
def test_an_evaluation_that_is_only_passed_on_is_not_judged_twice(copies, monkeypatch):
    model, x = relu_net()
    best = best_on(model, x)
    first, other = best.judge.evaluate(x, create_graph=True), best.judge.evaluate(x + at(0.1))
    passed = first.detached() if copies == "detached" else first.replaced(x[:, 0] > 0, other)
    monkeypatch.setattr(best.judge, "evaluate", None)
    best.submit(passed)


MALFORMED = {
    "too few rows": (lambda best: best.submit(best.judge.evaluate(best.x[:2])), r"of shape \(2, 6\)"),
    "too many features": (lambda best: best.judge.evaluate(torch.zeros(4, 7).double()), r"got .* shape \(4, 7\)"),
    "another dtype": (lambda best: best.judge.evaluate(best.x.float()), "got torch.float32"),
    "no tensor": (lambda best: best.judge.evaluate(best.x.tolist()), r"got \[\["),
    "a best that is not x": (assigned(x=lambda best: best.x[0]), r"got torch.float64 of shape \(6,\)"),
    "no evaluation": (lambda best: best.submit(best.x), "evaluation must be such as what judge.evaluate"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_iterate_is_named_in_a_sentence(name):
    trick, words = MALFORMED[name]
    model, x = relu_net()
    with pytest.raises(InputError, match=words):
        Cheating(k=2, radius=RADIUS, trick=trick)(model, x)


def with_other_weights(best):
    for parameter in best.judge.task.model.parameters():
        parameter.data.mul_(-2.0)


def with_a_dead_weight(best):
    """A weight that changes no logit of these inputs, but could of others."""
    best.judge.task.model[0].weight.data[3] = 7.0


def with_a_hook(best):
    best.judge.task.model.register_forward_hook(lambda layer, args, logits: logits * 2 + args[0][:, :1])


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        (with_other_weights, "changed the model while it searched"),
        (with_a_dead_weight, "changed the model's weights, first '0.weight'"),
        (with_a_hook, "changed the model while it searched: row . had logits"),
    ],
)
def test_an_attack_that_changes_the_model_has_no_result_and_the_weights_come_back(trick, words):
    model, x = relu_net()
    with torch.no_grad():
        model[0].weight[3], model[0].bias[3] = 0.0, -1e9
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=words):
        Cheating(k=2, radius=RADIUS, trick=trick)(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Hole(nn.Module):
    """A net that has no number to give where the first feature is above 2."""

    def __init__(self):
        super().__init__()
        self.net = mlp(activation=nn.ReLU)

    def forward(self, x):
        return self.net(x) + (2 - x[:, :1]).sqrt()


def test_an_iterate_without_logits_is_no_flip_and_no_error():
    x = normal(4, 6, seed=4)
    x[:, 0] = 1.9
    attack = Foreign(k=2, radius=RADIUS, keep="last", moves=[at(0.3)])
    with pytest.warns(UserWarning, match="4 with logits or scores that are not finite"):
        result = attack(Hole(), x)
    assert torch.equal(result.x, x)


def test_further_predictions_that_are_not_finite_are_not_kept():
    model, x = relu_net()
    x[:, 0] = 1.9
    hole = Hole()
    attack = Foreign(k=2, radius=RADIUS, moves=[at(0.3)], predictions=lambda points: [hole(points)])
    assert (attack(model, x).precision == 1).all()


def test_the_attacks_of_r2et_need_no_refusal():
    model, x = relu_net(torch.float32)
    shared = {"k": 2, "radius": RADIUS}
    few = [ERAttack(**shared, steps=5), MSEAttack(**shared, steps=5), MinimalFlip(**shared, steps=2)]
    for attack in (*few, BoundaryAttack(**shared, steps=5), TrustRegion(**shared, steps=3)):
        for domain in (None, Domain(lower=-0.5, upper=0.5, frozen=[1])):
            assert not attack(model, x, domain=domain).rejected.total()


# steps


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_every_slope_gives_a_finite_step(norm):
    model, x = relu_net(torch.float32)
    slopes = torch.zeros(4, 6)
    slopes[0, :2] = torch.tensor([3e-41, -4e-41])
    slopes[1, 0], slopes[1, 1] = -torch.inf, 7.0
    slopes[2, 0], slopes[2, 1] = torch.nan, 1.0
    step = best_on(model, x, norm).judge.task.direction(slopes)
    expected = torch.zeros(4, 6)
    expected[0, :2] = torch.tensor([0.6, -0.8]) if norm == "l2" else torch.tensor([1.0, -1.0])
    expected[1, :2] = torch.tensor([-1.0, 0.0]) if norm == "l2" else torch.tensor([-1.0, 1.0])
    torch.testing.assert_close(step, expected, atol=1e-3, rtol=0)


def best_on(model, x, norm="l2", domain=None):
    """What an attack on a batch is handed."""
    seen = []

    @dataclass(frozen=True, kw_only=True)
    class Looking(Attack):
        def run(self, task, judge, best) -> None:
            seen.append(best)

    Looking(k=2, radius=RADIUS, norm=norm)(model, x, domain=domain)
    return seen[0]


def test_an_infinite_slope_of_a_frozen_feature_does_not_count():
    model, x = relu_net()
    slope = at(torch.inf, 3) + at(2.0, 1)
    step = best_on(model, x, domain=Domain(frozen=[3])).judge.task.direction(slope)
    torch.testing.assert_close(step, at(1.0, 1))


def test_the_derivative_of_a_direction_is_finite():
    vectors = torch.tensor([[3e-40, 4e-40], [0.0, 0.0], [torch.inf, 1.0], [torch.nan, 1.0], [3.0, 4.0]])
    vectors.requires_grad_()
    unit(vectors)[:, 0].sum().backward()
    assert vectors.grad.isfinite().all()
    # d/da of a / sqrt(a^2 + b^2) = b^2 / r^3, d/db = -a b / r^3
    torch.testing.assert_close(vectors.grad[4], torch.tensor([16 / 125, -12 / 125]))
    small = torch.full((1, 2), 2 * negligible(torch.float32), requires_grad=True)
    unit(small)[:, 0].sum().backward()
    assert small.grad.isfinite().all()
    assert small.grad[0, 0] > 0


# the net of a report: margins far above 100


@pytest.fixture(scope="module")
def sure():
    """An ordinary ReLU net on breast-cancer, trained for 60 epochs, and rows whose p (1 - p) underflows."""
    x, y = (torch.as_tensor(values) for values in load_breast_cancer(return_X_y=True))
    x = ((x - x.mean(0)) / x.std(0)).float()
    torch.manual_seed(0)
    sizes = [nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)]
    model = nn.Sequential(*sizes)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        margins = (model(x) @ torch.tensor([1.0, -1.0])).abs()
    rows = ((margins > 84) & (margins < 110)).nonzero().squeeze(1)
    subnormal = (margins > 88) & (margins < 103)
    assert subnormal.any()
    rest = torch.arange(0, len(x), 60)
    rows = torch.cat([rows[:24], rest])
    return model, x[rows], y[rows]


def test_a_sure_net_is_attacked(sure):
    model, x, _ = sure
    for attack in (MSEAttack(k=8, radius=0.5, steps=20), WorstCase(k=8, radius=0.5, budget="fast")):
        result = attack(model, x)
        assert result.x.isfinite().all()
        assert float((result.x - x).norm(dim=1).max()) <= 0.5 * (1 + 2e-5)
        assert result.kept.all()
        assert (result.precision < 1).any()
        assert not result.rejected.total()


def test_a_sure_net_is_audited(sure):
    model, x, y = sure
    found = r2et.audit(model, x, y, radii=(0.5,), steps=20, budget="fast", certificate=False)
    assert all(0 <= row.precision <= 1 and row.distance <= 0.5 * (1 + 2e-5) for row in found.attacks)
