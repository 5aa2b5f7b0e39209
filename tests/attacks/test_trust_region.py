"""The cone program against KKT conditions and SLSQP; the attack on models with known flips; what it reports."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import nn

import r2et
from r2et import Domain
from r2et.attacks.subproblem import Local, subproblem
from r2et.attacks.trust_region import TrustRegion
from r2et.explainers import Activation, Gradient, GradientTimesInput, SmoothGrad
from tests.attacks.test_pgd import MODELS as PLAIN_MODELS
from tests.attacks.test_pgd import TWO_INPUTS
from tests.models_with_answers import Pair, Quadratic, Siamese, convolution, linear, mlp, naive_order, normal

MODELS = PLAIN_MODELS | {"relu-3": lambda: mlp(activation=nn.ReLU, classes=3)}
every_model = pytest.mark.parametrize("name", MODELS)
#: one of each kind: smooth, with hinges, of two inputs
some_models = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("tanh", "relu", "siamese") else pytest.mark.slow) for name in MODELS],
)


def case(name, rows=6, **settings):
    inputs = 2 if name in TWO_INPUTS else 1
    x = normal(rows, 2, 6, seed=4) if inputs == 2 else normal(rows, 6, seed=4)
    settings = {"k": 2, "radius": 0.8, "steps": 12, "explainer": Gradient(inputs=inputs)} | settings
    return MODELS[name](), x, TrustRegion(**settings)


# the subproblem


def random_local(seed, bounded=False, d=5, pairs=6, classes=3, violation=0.0, far=False):
    rng = np.random.default_rng(seed)
    offset = rng.normal(size=d)
    offset *= (1.0 if far else rng.uniform(0, 1)) / np.linalg.norm(offset)
    change = rng.normal(size=classes)
    change *= (1 + violation if violation else rng.uniform(0, 1)) / np.linalg.norm(change)
    bounds = (-rng.uniform(0, 0.2, d), rng.uniform(0, 0.2, d)) if bounded else None
    return Local(
        pairs=np.zeros((2, pairs), dtype=np.int64),
        valid=np.ones(pairs, dtype=bool),
        gaps=rng.uniform(0, 1, pairs),
        slopes=rng.normal(size=(pairs, d)) * 0.3 + 0.2,
        change=change,
        jacobian=rng.normal(size=(classes, d)),
        violation=violation,
        margin=0.02 if seed % 2 else 5.0,
        margin_slope=rng.normal(size=d),
        offset=offset,
        radius=1.0,
        bounds=bounds,
    )


def slacks(local, active, epsilon, delta, d, mu, nu):
    """Values that must be >= 0 and their gradients by (d, mu, nu), written out from the statement."""
    n, values, slopes = len(d), [], []

    def add(value, by_d, by_mu=0.0, by_nu=0.0):
        values.append(value)
        slopes.append(np.concatenate([by_d, [by_mu, by_nu]]))

    def direction(vector):
        return vector / max(np.linalg.norm(vector), 1e-300)

    e = epsilon - local.violation
    for on, g in zip(active, local.slopes, strict=True):
        if on:
            add(mu - (e + g @ d), -g, 1.0)
            add(mu + (e + g @ d), g, 1.0)
    f = local.change + local.jacobian @ d
    add(1 + nu - np.linalg.norm(f), -local.jacobian.T @ direction(f), 0.0, 1.0)
    add(nu, np.zeros(n), 0.0, 1.0)
    add(0.9 * local.margin + local.margin_slope @ d, local.margin_slope)
    add(delta - np.linalg.norm(d), -direction(d))
    add(local.radius - np.linalg.norm(local.offset + d), -direction(local.offset + d))
    if local.bounds is not None:
        for i in range(n):
            add(d[i] - local.bounds[0][i], np.eye(n)[i])
            add(local.bounds[1][i] - d[i], -np.eye(n)[i])
    return np.array(values), np.array(slopes)


SUBPROBLEMS = [
    (seed, bounded, epsilon, delta, violation, far)
    for seed, (bounded, epsilon, delta, violation, far) in enumerate(
        [
            (False, 0.01, 0.1, 0.0, False),
            (False, 0.3, 0.1, 0.0, False),
            (False, 0.3, 0.5, 0.0, True),
            (False, 0.05, 0.02, 0.02, False),
            (False, 1.0, 1.5, 0.4, True),
            (False, 0.01, 1e-3, 0.004, True),
            (True, 0.05, 0.3, 0.0, False),
            (True, 0.3, 0.1, 0.1, True),
            (True, 0.01, 1e-3, 0.0, False),
            (True, 1.0, 1.0, 0.0, True),
        ]
        * 2
    )
]
every_subproblem = pytest.mark.parametrize(
    ("seed", "bounded", "epsilon", "delta", "violation", "far"),
    [*SUBPROBLEMS[:10], *(pytest.param(*more, marks=pytest.mark.slow) for more in SUBPROBLEMS[10:])],
)


@every_subproblem
def test_kkt_residual_of_the_subproblem(seed, bounded, epsilon, delta, violation, far):
    local = random_local(seed, bounded, violation=violation, far=far)
    active = np.ones(6, dtype=bool)
    found = subproblem(local, active, epsilon, delta)
    values, slopes = slacks(local, active, epsilon, delta, found.step, found.mu, found.nu)
    assert values.min() >= -1e-7  # primal feasibility
    # the best multipliers >= 0: stationarity and complementary slackness, both in one least-squares problem
    goal = np.concatenate([np.zeros(len(found.step)), [1.0, 1.0]])
    matrix = np.vstack([slopes.T, np.diag(np.abs(values))])
    _, residual = optimize.nnls(matrix, np.concatenate([goal, np.zeros(len(values))]), maxiter=10_000)
    assert residual <= 1e-6
    # a control: the same measure sees a step that is not optimal
    values, slopes = slacks(local, active, epsilon, delta, 0.5 * found.step, epsilon, found.nu + 0.1)
    matrix = np.vstack([slopes.T, np.diag(np.abs(values))])
    _, residual = optimize.nnls(matrix, np.concatenate([goal, np.zeros(len(values))]), maxiter=10_000)
    assert residual > 1e-4
    assert found.multipliers.min() >= -1e-7
    np.testing.assert_allclose(found.multipliers.sum(), 1, atol=1e-6)


@every_subproblem
def test_subproblem_agrees_with_slsqp(seed, bounded, epsilon, delta, violation, far):
    local = random_local(seed, bounded, violation=violation, far=far)
    active = np.random.default_rng(seed).uniform(size=6) < 0.7
    active[0] = True
    found = subproblem(local, active, epsilon, delta)
    n = len(found.step)

    def constraint(z, which):
        # in units of delta and epsilon: SLSQP needs numbers of order one
        values, slopes = slacks(local, active, epsilon, delta, delta * z[:n], epsilon * z[n], epsilon * z[n + 1])
        return values if which == 0 else slopes * np.concatenate([np.full(n, delta), [epsilon, epsilon]])

    best = np.inf
    for restart in range(8):
        start = np.concatenate([np.random.default_rng(restart).normal(size=n) * 0.1, [1.0, 0.1]])
        answer = optimize.minimize(
            lambda z: z[n] + z[n + 1],
            start,
            jac=lambda z: np.concatenate([np.zeros(n), [1.0, 1.0]]),
            constraints={
                "type": "ineq",
                "fun": lambda z: constraint(z, 0) / epsilon,
                "jac": lambda z: constraint(z, 1) / epsilon,
            },
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        if constraint(answer.x, 0).min() > -1e-8 * epsilon - 1e-10:
            best = min(best, answer.fun)
    assert np.isfinite(best)
    np.testing.assert_allclose((found.mu + found.nu) / epsilon, best, atol=1e-5)
    values, _ = slacks(local, active, epsilon, delta, found.step, found.mu, found.nu)
    assert values.min() >= -1e-7


def test_inactive_pairs_do_not_matter():
    local = random_local(3)
    active = np.array([True, False, True, True, False, False])
    fewer = local._replace(slopes=local.slopes[active], gaps=local.gaps[active])
    found = subproblem(local, active, 0.3, 0.2)
    alone = subproblem(fewer, np.ones(3, dtype=bool), 0.3, 0.2)
    np.testing.assert_allclose(found.step, alone.step, atol=1e-6)


def test_bounds_that_do_not_bind_do_not_matter():
    """The problem without bounds is solved in the span of its data, the other one in all dimensions."""
    local = random_local(5, d=30, pairs=4)
    wide = local._replace(bounds=(np.full(30, -np.inf), np.full(30, np.inf)))
    active = np.ones(4, dtype=bool)
    inside, full = (subproblem(problem, active, 0.5, 0.1) for problem in (local, wide))
    np.testing.assert_allclose(inside.step, full.step, atol=1e-6)
    np.testing.assert_allclose(inside.mu, full.mu, atol=1e-8)


# models with a known nearest flip


def quadratic_flips(model, row, k):
    """Distances to the flips of all pairs of a signed linear explanation A x + b: gap / ||A_i - A_j||."""
    A, g = model.A.detach(), row @ model.A.detach() + model.b.detach()
    ranked = naive_order(g.tolist())
    return {(i, j): float((g[i] - g[j]) / (A[i] - A[j]).norm()) for i in ranked[:k] for j in ranked[k:]}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_nearest_flip_of_a_quadratic_score(seed):
    """Just inside of the known distance no pair can flip; just outside only the nearest one can, and does."""
    A = normal(7, 7, seed=seed)
    model = Quadratic((A + A.T) / 2, normal(7, seed=seed + 50), c=60.0)
    x = normal(5, 7, seed=seed + 100) * 0.3
    explainer = Gradient(reduce="signed")
    for row in x:
        flips = quadratic_flips(model, row, 3)
        (pair, nearest), (_, second) = sorted(flips.items(), key=lambda item: item[1])[:2]
        settings = {"k": 3, "steps": 150, "others": 4, "explainer": explainer}
        short = TrustRegion(radius=0.98 * nearest, **settings)(model, row[None])
        assert int(short.first_flip) == -1
        assert short.details["pair"].tolist() == [[-1, -1]]
        assert float(short.precision) == 1
        assert torch.equal(short.x, row[None])
        long = TrustRegion(radius=1.02 * nearest, **settings)(model, row[None])
        assert int(long.first_flip) > 0
        assert float(long.precision) < 1
        if second > 1.02 * nearest:
            assert tuple(long.details["pair"][0].tolist()) == pair


def test_a_small_gap_that_cannot_close_is_given_up():
    """The pair next to the boundary has next to no curvature; the flip is elsewhere, behind a larger gap."""
    model = Quadratic(
        torch.diag(torch.tensor([0.1, 0.01, 0.01, 4.0, 0.1, 0.1], dtype=torch.float64)),
        torch.tensor([5.0, 4.0, 3.9, 2.0, 1.0, 0.5], dtype=torch.float64),
        c=20.0,
    )
    x = torch.zeros(1, 6, dtype=torch.float64)
    nearest = 2.0 / (0.01**2 + 4.0**2) ** 0.5
    result = TrustRegion(k=2, radius=1.03 * nearest)(model, x)
    assert result.details["pair"].tolist() == [[1, 3]]
    assert int(TrustRegion(k=2, radius=0.97 * nearest)(model, x).first_flip) == -1


def test_the_pair_on_the_second_input():
    """Only the second input's explanation A^T a can be moved by a change of the first, and only its pair flips."""
    A = torch.zeros(4, 4, dtype=torch.float64)
    A[:, 0], A[:, 1], A[:, 2], A[:, 3] = 0.5, torch.tensor([0.1, 0.1, 0.1, 2.0]), 0.02, 0.01
    model = Pair(A, c=1.0)
    x = torch.ones(1, 2, 4, dtype=torch.float64)
    x[0, 0] = torch.tensor([3.0, 3.0, 3.0, 0.1])
    x[0, 1] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    domain = Domain(frozen=[0, 1, 2])
    explainer = Gradient(inputs=2)
    g = model.gradient(x)[0]
    # moving a_3 by t: A^T a has entries 0.5 (9.1 + t), 0.9 + 2 (0.1 + t): equal at
    t = (0.5 * 9.1 - 1.1) / 1.5
    assert naive_order(g[1].tolist())[:2] == [0, 1]
    attack = TrustRegion(k=1, radius=1.05 * t, explainer=explainer, eps_f=1.5, steps=100)
    result = attack(model, x, domain=domain)
    assert result.details["pair"].tolist() == [[4 + 0, 4 + 1]]
    assert int(replace(attack, radius=0.95 * t)(model, x, domain=domain).first_flip) == -1


def test_nothing_changes_on_a_two_class_linear_model():
    for frozen in (False, True):
        model, x, run = case("linear", radius=5.0)
        model.requires_grad_(not frozen)
        result = run(model, x)
        assert torch.equal(result.x, x)
        assert torch.equal(result.first_flip, torch.full((6,), -1))
        assert torch.equal(result.details["pair"], torch.full((6, 2), -1))
        assert torch.equal(replace(run, keep="last")(model, x).precision, torch.ones(6, dtype=torch.float64))


# what every attack promises


@some_models
@pytest.mark.parametrize("keep", ["best", "last"])
def test_result_is_consistent(name, keep):
    model, x, run = case(name, keep=keep, history=True)
    result = run(model, x)
    target = model(x).argmax(1)
    assert float(result.distance.max()) <= 0.8 + 1e-6
    torch.testing.assert_close(result.distance, (result.x - x).flatten(1).norm(dim=1), atol=1e-12, rtol=0)
    assert result.kept.all()  # steps that change the class are refused, so the last iterate keeps it too
    assert torch.equal(model(result.x).argmax(1), target)
    torch.testing.assert_close(result.after, run.explainer(model, result.x, target))
    precision = r2et.precision_at_k(result.before, result.after, 2)
    torch.testing.assert_close(result.precision, precision.reshape(6, -1).mean(1), atol=1e-12, rtol=0)
    assert result.history.shape == (13, 6)
    change = (model(result.x).softmax(1) - model(x).softmax(1)).detach().norm(dim=1)
    assert float(change.max()) <= 0.1 * 1.05 + 1e-9
    assert not result.details["merit"].requires_grad
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("activation", "classes"),
    [
        (nn.Tanh, 3),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in ((nn.ReLU, 2), (nn.ReLU, 4), (nn.Softplus, 2), (nn.GELU, 2))
        ),
    ],
)
def test_it_flips_what_a_random_search_flips_and_more(activation, classes):
    """500 random directions of the same length and under the same constraints find no flip that it misses."""
    model, x = mlp(n=12, hidden=16, classes=classes, activation=activation, seed=3), normal(20, 12, seed=5)
    result = TrustRegion(k=4, radius=0.1)(model, x)
    target, start = model(x).argmax(1), model(x).softmax(1)
    random = torch.zeros(20, dtype=torch.bool)
    for seed in range(500):
        noise = normal(20, 12, seed=seed + 1000)
        found = x + 0.1 * noise / noise.norm(dim=1, keepdim=True)
        changed = r2et.precision_at_k(result.before, Gradient()(model, found, target), 4) < 1
        logits = model(found)
        random |= changed & (logits.argmax(1) == target) & ((logits.softmax(1) - start).norm(dim=1) < 0.1)
    flips = result.first_flip > 0
    assert torch.equal(flips, result.precision < 1)
    assert int(flips.sum()) >= int(random.sum()) > 0
    if activation is not nn.ReLU:  # whose explanation jumps: slopes of a smooth copy are a guess
        assert int(flips.sum()) > int(random.sum())
        assert not (random & ~flips).any()


@some_models
def test_domain_and_cap_are_respected(name):
    model, x, run = case(name, keep="last", radius=2.0)
    lower, upper = torch.full((6,), -0.5, dtype=torch.float64), torch.full((6,), 0.4, dtype=torch.float64)
    domain = Domain(lower=lower, upper=upper, frozen=[0, 2, 3])
    for attack in (run, replace(run, cap=0.15), replace(run, norm="linf", radius=0.1)):
        result = attack(model, x, domain=domain)
        flat, clean = result.x.reshape(-1, 6), x.reshape(-1, 6)
        assert torch.equal(flat[:, [0, 2, 3]], clean[:, [0, 2, 3]])
        assert (flat >= torch.minimum(lower, clean)).all()
        assert (flat <= torch.maximum(upper, clean)).all()
        assert float(result.distance.max()) <= attack.radius + 1e-6
        assert attack.cap is None or float((result.x - x).abs().max()) <= 0.15 + 1e-9
    assert torch.equal(run(model, x, domain=Domain(frozen=range(6))).x, x)


def test_bounds_are_part_of_the_subproblem():
    """The nearest flip is cut off by a bound: within it another pair flips, at its own known distance."""
    model = Quadratic(
        torch.diag(torch.tensor([0.1, 0.1, 0.1, 4.0, 3.0, 0.1], dtype=torch.float64)),
        torch.tensor([5.0, 4.0, 2.0, 2.0, 1.0, 0.5], dtype=torch.float64),
        c=20.0,
    )
    x = torch.zeros(1, 6, dtype=torch.float64)
    upper = torch.tensor([9.0, 9.0, 9.0, 0.2, 9.0, 9.0], dtype=torch.float64)
    attack = TrustRegion(k=2, radius=1.02, delta=0.3)
    assert attack(model, x).details["pair"].tolist() == [[1, 3]]
    assert attack(model, x, domain=Domain(upper=upper)).details["pair"].tolist() == [[1, 4]]


@some_models
def test_deterministic_and_independent_of_the_batch(name):
    model, x, run = case(name, steps=10, keep="last")
    result = run(model, x)
    again = run(model, x)
    assert torch.equal(result.x, again.x)
    assert torch.equal(result.details["merit"], again.details["merit"])
    parts = [(run(model, x, chunk_size=size), slice(None)) for size in (1, 4)]
    parts += [(run(model, x[2:3]), slice(2, 3))]
    for part, rows in parts:
        torch.testing.assert_close(part.x, result.x[rows], atol=1e-6, rtol=0)
        assert torch.equal(part.first_flip, result.first_flip[rows])
        assert torch.equal(part.details["pair"], result.details["pair"][rows])
        for detail in ("gap_range", "merit"):
            torch.testing.assert_close(part.details[detail], result.details[detail][rows], atol=1e-6, rtol=0)


def test_joint_budget_of_a_pair():
    model, x = Siamese(6), normal(8, 2, 6, seed=4)
    result = TrustRegion(k=2, radius=0.05, keep="last", explainer=Gradient(inputs=2))(model, x)
    each = (result.x - x).norm(dim=2)
    torch.testing.assert_close(result.distance, each.square().sum(1).sqrt(), atol=1e-12, rtol=0)
    assert float(result.distance.max()) <= 0.05 + 1e-6
    assert float(result.distance.max()) > 0.045  # a row without a flip went to the border
    assert (each[result.distance > 0.045] > 0).all()


@pytest.mark.parametrize(
    "explainer",
    [
        GradientTimesInput(),
        Gradient(reduce="signed"),
        SmoothGrad(samples=4, sigma=0.2),
        Activation(layer="1"),
        Gradient(score="probability"),
    ],
    ids=lambda e: type(e).__name__ + e.reduce + e.score,
)
@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_other_explanations(explainer, activation):
    model, x = mlp(n=8, hidden=10, activation=activation), normal(10, 8, seed=4)
    result = TrustRegion(k=3, radius=1.0, steps=25, explainer=explainer)(model, x)
    assert result.kept.all()
    assert float(result.distance.max()) <= 1 + 1e-6
    assert int((result.first_flip > 0).sum()) >= 5


def test_gradient_times_input_of_a_linear_model_has_a_closed_form():
    """x * w is linear in x: the nearest flip of a pair is gap / ||(w_i, w_j)||, signed."""
    model, x = linear(), normal(1, 6, seed=4)
    weight = model.weight.detach()
    w = weight[int(model(x).argmax())] - weight[1 - int(model(x).argmax())]
    scores = (x[0] * w).tolist()
    ranked = naive_order(scores)
    flips = {(i, j): (scores[i] - scores[j]) / float(w[[i, j]].norm()) for i in ranked[:2] for j in ranked[2:]}
    pair = min(flips, key=flips.get)
    attack = TrustRegion(
        k=2, radius=1.02 * flips[pair], explainer=GradientTimesInput(reduce="signed"), eps_f=1.4, steps=100
    )
    result = attack(model, x)
    assert tuple(result.details["pair"][0].tolist()) == pair
    assert int(replace(attack, radius=0.98 * flips[pair])(model, x).first_flip) == -1


def test_images_by_channel_sums():
    model, x = convolution(), normal(3, 2, 4, 4)
    run = TrustRegion(k=4, radius=1.0, steps=15, explainer=Gradient(reduce="abs-sum"))
    result = run(model, x, domain=Domain(frozen=[0, 5, 31], lower=-2.0, upper=2.0))
    assert result.after.shape == (3, 16)
    assert torch.equal(result.x.flatten(1)[:, [0, 5, 31]], x.flatten(1)[:, [0, 5, 31]])
    assert float(result.distance.max()) <= 1 + 1e-6
    assert (result.details["pair"] < 16).all()


def test_float32():
    model, x = mlp(activation=nn.Tanh).float(), normal(16, 6).float()
    result = TrustRegion(k=2, radius=0.5, keep="last")(model, x, domain=Domain(lower=-1.5, upper=1.5))
    assert result.x.dtype == torch.float32
    assert float(result.distance.max()) <= 0.5 + 1e-6
    assert int((result.first_flip > 0).sum()) > 8


def test_prediction_kept_near_the_boundary_and_further_predictions():
    model, x = MODELS["quadratic"](), 0.3 * normal(20, 6, seed=4)
    model.c = 0.0
    result = TrustRegion(k=2, radius=1.0, keep="last", eps_f=1.5)(model, x)
    assert torch.equal(model(result.x).argmax(1), model(x).argmax(1))
    second = linear(seed=8)
    result = TrustRegion(k=2, radius=1.0, keep="last", eps_f=1.5, predictions=lambda x: [second(x)])(model, x)
    assert torch.equal(second(result.x).argmax(1), second(x).argmax(1))


def test_tighter_tolerance_of_f():
    model, x, run = case("tanh", rows=16, keep="last", radius=1.0)
    start = model(x).softmax(1)
    moved = [
        float((model(replace(run, eps_f=eps_f)(model, x).x).softmax(1) - start).detach().norm(dim=1).max())
        for eps_f in (0.2, 0.01)
    ]
    assert moved[1] <= 0.01 * 1.05 + 1e-9
    assert moved[0] > 0.02  # the looser one is used


def test_smaller_radii_count_for_larger_ones():
    model, x, run = case("tanh", rows=10)
    results = run(model, x, radii=[0.4, 0.02, 0.1])
    precision = torch.stack([results[i].precision for i in (1, 2, 0)])
    assert (precision[1:] <= precision[:-1]).all()
    for result in results:
        assert torch.equal(result.details["pair"][:, 0] >= 0, result.precision < 1)


# what it reports


def replay(run, model, x):
    """Every iterate: the last iterates of shorter runs. A run does not know how many steps it has left."""
    return [x] + [replace(run, steps=steps, keep="last")(model, x).x for steps in range(1, run.steps + 1)]


@pytest.mark.parametrize(
    "name",
    [
        *("relu", "siamese"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("tanh", "softplus", "gelu", "quadratic", "linear-3")
        ),
    ],
)
def test_details_against_a_replay(name):
    model, x, run = case(name, steps=10, radius=0.3, k=3, salient=2, others=2, history=True)
    result = run(model, x)
    target = model(x).argmax(1)
    guide = r2et.validate.smooth(model, 10.0) if name == "relu" else model
    path = replay(run, model, x)
    assert result.details["merit"].shape == (6, 11)
    assert int((result.first_flip > 0).sum()) > 0
    for r in range(6):
        c, x0 = target[r : r + 1], x[r : r + 1]

        def explained(row, of, c=c):
            return run.explainer(of, row, c).reshape(-1, x.shape[-1])

        unit = explained(x0, guide).sum(1, keepdim=True)
        start = model(x0).softmax(1)
        tops = [set(naive_order(side.tolist())[:3]) for side in explained(x0, model)]
        seen, flipped_at = [], -1
        for p in range(11):
            point = path[p][r : r + 1]
            scores = (explained(point, guide) / unit).tolist()
            excess = max(0.0, float((model(point).softmax(1) - start).detach().norm()) / 0.1 - 1)
            smallest = min(
                values[i] - values[j]
                for values, top in zip(scores, tops, strict=True)
                for i in top
                for j in range(6)
                if j not in top
            )
            torch.testing.assert_close(result.details["merit"][r, p].item(), smallest + excess, atol=1e-9, rtol=0)
            now = [set(naive_order(side.tolist())[:3]) for side in explained(point, model)]
            if now != tops and flipped_at < 0:
                flipped_at = p
                side, left, entered = max(
                    (
                        (float((real[j] - real[i]) / real.sum()), (s, i, j))
                        for s, real in enumerate(explained(point, model))
                        for i in tops[s] - now[s]
                        for j in now[s] - tops[s]
                    )
                )[1]
                assert result.details["pair"][r].tolist() == [side * 6 + left, side * 6 + entered]
            if p < 10 and flipped_at < 0:
                after = (explained(path[p + 1][r : r + 1], guide) / unit).tolist()
                for values, later, top in zip(scores, after, tops, strict=True):
                    weakest = sorted(top, key=lambda i: values[i])[:2]
                    strongest = sorted(set(range(6)) - top, key=lambda j: -values[j])[:2]
                    seen += [v[i] - v[j] for v in (values, later) for i in weakest for j in strongest]
        assert int(result.first_flip[r]) == flipped_at
        if flipped_at < 0:
            assert result.details["pair"][r].tolist() == [-1, -1]
        assert float(result.details["gap_range"][r]) == pytest.approx(max(seen) - min(seen), abs=1e-9)


def test_targets_fall():
    """The first step lowers the smallest gap of all; a flip is a gap below zero, and the end of the path."""
    model, x, run = case("tanh", rows=12, steps=15, radius=0.1)
    result = run(model, x)
    merit = result.details["merit"]
    assert (merit[:, 1] < merit[:, 0]).all()
    assert (merit[:, 0] > 0).all()
    for r in range(12):
        flip = int(result.first_flip[r])
        if flip > 0:
            assert float(merit[r, flip]) < 0
            assert (merit[r, flip:] == merit[r, flip]).all()
        else:
            assert (merit[r] > 0).all()


def test_flip_below():
    model, x = mlp(n=12, hidden=16, activation=nn.Tanh, seed=3), normal(8, 12, seed=5)
    strict = TrustRegion(k=4, radius=1.5, history=True)(model, x)
    loose = TrustRegion(k=4, radius=1.5, flip_below=0.6, history=True)(model, x)
    assert int((loose.first_flip > 0).sum()) >= 4
    for r in range(8):
        below = [p for p in range(51) if loose.history[p, r] < 0.6]
        assert int(loose.first_flip[r]) == (below[0] if below else -1)
        assert not below or int(loose.first_flip[r]) >= int(strict.first_flip[r]) > 0
    assert (loose.first_flip > strict.first_flip).any()


def test_more_active_pairs_and_no_surrogate():
    model, x, run = case("relu", radius=0.3)
    assert int((run(model, x).first_flip > 0).sum()) > 0
    wide = replace(run, salient=100, others=100)(model, x)  # more than there are
    assert torch.equal(wide.x, replace(run, salient=2, others=4)(model, x).x)
    for beta in (3.0, 30.0):
        assert replace(run, beta=beta)(model, x).kept.all()


# bad input


@pytest.mark.parametrize("missing", ["cvxpy", "clarabel"])
def test_without_the_solver(monkeypatch, missing):
    model, x, run = case("tanh", rows=1)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(r2et.errors.InputError, match=r"pip install r2et\[solvers\]"):
        run(model, x)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps_f": 0.0}, r"eps_f=0\.0"),
        ({"epsilon": -1.0}, r"epsilon=-1\.0"),
        ({"delta": float("nan")}, "delta=nan"),
        ({"beta": 0.0}, r"beta=0\.0"),
        ({"eta": 1.0}, r"eta=1\.0"),
        ({"gamma": 0.0}, r"gamma=0\.0"),
        ({"salient": 0}, "salient=0"),
        ({"others": 1.5}, r"others=1\.5"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        TrustRegion(k=2, radius=1.0, **settings)
