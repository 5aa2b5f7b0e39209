"""Log-odds of many classes to second order: derivatives by autograd, and none on the ball below its bound."""

import pytest
import torch
from torch import nn

from r2et.enclosure import extract
from r2et.enclosure.class_expansion import ClassExpanded, ClassExpansion, crossed, why_not_classes
from r2et.enclosure.second_order import Errors
from tests.enclosure.test_expansion import SMOOTH, functionals, problem_of
from tests.models_with_answers import mlp, normal

TRAITS = ("plain", "copies", "dead", "small", "large", "ties", "equal classes", "sure")


def one(module, trait="plain", *, n=5, hidden=7, classes=4, seed=0):
    """A random net of one hidden layer and many classes, float64, and inputs."""
    model = nn.Sequential(nn.Linear(n, hidden), module, nn.Linear(hidden, classes)).double()
    first, last = model[0], model[2]
    x = normal(6, n, seed=seed + 7)
    with torch.no_grad():
        for number, weights in enumerate(model.parameters()):
            weights.copy_(0.7 * normal(*weights.shape, seed=10 * seed + number))
        if trait == "copies" and hidden > 1:
            first.weight[1], first.bias[1] = first.weight[0], first.bias[0]
        if trait == "dead":
            first.weight[0], last.weight[:, -1] = 0.0, 0.0
        if trait in ("small", "large"):
            first.weight.mul_(1e-3 if trait == "small" else 1e3)
        if trait == "ties":
            first.weight[:, 1] = first.weight[:, 0]
            x = x.round()
        if trait == "equal classes":
            last.weight[1], last.bias[1] = last.weight[0], last.bias[0]
        if trait == "sure":
            last.weight.mul_(20.0)
    return model, x


def phi(model, d, target):
    """The functional d . grad of the log-odds, as a function of one input (n,)."""

    def of(point):
        def score(p):
            logits = model(p.unsqueeze(0))[0]
            others = torch.arange(len(logits)) != target
            return logits[target] - logits[others].logsumexp(0)

        return d @ torch.autograd.functional.jacobian(score, point, create_graph=True)

    return of


def seconds(model, x, delta, d, target):
    """phi'' along delta (N, n) at x, by autograd, (N,)."""
    values = []
    for row, step, label in zip(x, delta, target, strict=True):
        values.append(torch.autograd.functional.vhp(phi(model, d, int(label)), row, step)[1] @ step)
    return torch.stack(values)


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("n", [5, 20])
def test_slope_and_curvature_at_x_are_those_of_autograd(n, classes):
    model, x = one(nn.Softplus(2.0), n=n, classes=classes)
    expansion, target = ClassExpansion(problem_of(model, x).attributions), model(x).argmax(1)
    chosen, d = functionals(x)
    found = expansion.expanded(*chosen)
    bent = found.curvature(found.no_errors())
    for row in range(len(x)):
        slope = torch.autograd.functional.jacobian(phi(model, d, int(target[row])), x[row])
        hessian = torch.autograd.functional.hessian(phi(model, d, int(target[row])), x[row])
        assert float(found.slope[row].norm()) == pytest.approx(float(slope.norm()))
        assert float(bent[row].diagonal().sum()) == pytest.approx(float(hessian.diagonal().sum()))
        assert float(bent[row].norm()) == pytest.approx(float(hessian.norm()))
        if n == 5:
            assert torch.allclose(found.slope[row], slope)
            assert torch.allclose(bent[row], hessian)
    assert (found.slope_error > 0).all()
    assert (found.slope_error < 1e-9 * found.slope.norm(dim=1)).all()


def lowest(model, x, radius, *, movable=None, draws=6, share=1.0):
    """The smallest phi'' - its bound, as a share of both, seen at points of the ball."""
    expansion, target = ClassExpansion(problem_of(model, x, movable=movable).attributions), model(x).argmax(1)
    chosen, d = functionals(x)
    found = expansion.expanded(*chosen)
    times = radius * torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=torch.float64).expand(len(x), -1)
    errors = found.errors(expansion.drift(times))
    bent = found.curvature(Errors(*(share * part[:, -1] for part in errors)))
    moves = torch.ones(x.shape[1]) if movable is None else movable
    size, worst = bent.flatten(1).norm(dim=1) * radius**2, torch.inf
    for seed in range(draws):
        step = normal(*x.shape, seed=seed + 31)
        if seed % 2:
            step = torch.linalg.eigh(bent).eigenvectors[:, :, seed // 2 % x.shape[1]]
        step = step * moves
        step = step / step.norm(dim=1, keepdim=True) * radius
        bound = (step.unsqueeze(1) @ bent @ step.unsqueeze(2)).flatten()
        for part in (0.0, 0.3, -1.0, 1.0):
            seen = seconds(model, x + part * step, step, d, target)
            worst = min(worst, float(((seen - bound) / (seen.abs() + size + 1e-30)).min()))
    return worst


@pytest.mark.parametrize("trait", TRAITS)
def test_no_second_derivative_on_the_ball_is_below_its_bound(trait):
    for number, module in enumerate(SMOOTH):
        if trait != "plain" and number % 3 != TRAITS.index(trait) % 3:
            continue
        model, x = one(module, trait, classes=3 + number, seed=number)
        for radius in (1e-3, 0.1, 1.0):
            assert lowest(model, x[:3], radius) >= -1e-9, (module, radius)


def test_the_curvature_at_x_alone_is_no_bound():
    model, x = one(nn.Tanh())
    assert lowest(model, x[:3], 0.1, share=0.0) < -1e-3


def test_frozen_features_do_not_move_and_are_explained():
    movable = torch.tensor([False, True, True, False, True])
    model, x = one(nn.Softplus(5.0))
    assert lowest(model, x[:3], 0.5, movable=movable) >= 0


def moved_to_corners(at, far, seed):
    return at + far * normal(*at.shape, seed=seed).sign()


def at_corner(expansion, found, drift, delta, seed):
    """phi'' along delta (F, c) by the formula, every derivative and every weight at an end of its own range."""
    rows, second = found.rows, expansion.second[found.rows]
    s, bend, twist = (
        moved_to_corners(at[rows], far[rows, -1], 10 * seed + number)
        for number, (at, far) in enumerate(zip(expansion.at_first, drift.first, strict=True))
    )
    weights = moved_to_corners(-expansion.rho[rows], drift.weights[rows, -1], 10 * seed + 4)
    pi = expansion.pi[rows] - (weights + expansion.rho[rows])

    def through(hidden):
        return (second @ hidden.unsqueeze(2)).squeeze(2)

    y = delta @ expansion.first.T
    a, v, b = through(s * found.hidden), through(s * y), through(bend * found.hidden * y)
    means = [(weights * part).sum(1, keepdim=True) for part in (a, v, b)]
    kappa = -weights * (a - means[0])
    inner = (kappa.unsqueeze(1) @ second).squeeze(1) * bend + (pi.unsqueeze(1) @ second).squeeze(
        1
    ) * twist * found.hidden
    whole = (kappa * v.square() - 2 * weights * v * b).sum(1) + (inner * y.square()).sum(1)
    return whole + (2 * means[1] * (means[2] - (kappa * v).sum(1, keepdim=True))).squeeze(1)


def lowest_corner(hidden, *, classes=3, left_out=None, share=1.0, cases=40):
    """The smallest phi'' - its bound at corners of tiny nets; `left_out`: an error that is not counted."""
    worst = torch.inf
    for seed in range(cases):
        model, x = one(nn.Tanh(), n=4, hidden=hidden, classes=classes, seed=seed)
        expansion = ClassExpansion(problem_of(model, x).attributions)
        found = expansion.expanded(*functionals(x)[0])
        drift = expansion.drift(torch.full((len(x), 1), 10.0 ** -(seed % 4), dtype=torch.float64))
        errors = Errors(*(share * part[:, -1] for part in found.errors(drift)))
        if left_out is not None:
            errors = errors._replace(**{left_out: 0 * getattr(errors, left_out)})
        bent = found.curvature(errors)
        for draw in range(8):
            delta = normal(*found.slope.shape, seed=draw)
            seen = at_corner(expansion, found, drift, delta, 100 * seed + draw)
            bound = (delta.unsqueeze(1) @ bent @ delta.unsqueeze(2)).flatten()
            worst = min(worst, float(((seen - bound) / (seen.abs() + bound.abs() + 1e-30)).min()))
    return worst


@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize("hidden", [1, 2, 7])
def test_no_corner_of_the_ranges_is_below_the_bound(hidden, classes):
    """More than a network can do: each derivative and each weight goes to either end of its range alone."""
    assert lowest_corner(hidden, classes=classes) >= -1e-12


@pytest.mark.parametrize("left_out", Errors._fields)
def test_an_error_that_is_left_out_is_caught(left_out):
    assert lowest_corner(1, left_out=left_out) < -1e-6


def test_errors_that_are_too_small_are_caught():
    assert lowest_corner(1, share=0.9) < -1e-6


@pytest.mark.parametrize(("forgotten", "classes"), [("_means", 10), ("_bent", 3)])
def test_a_part_of_the_errors_that_is_forgotten_is_caught(forgotten, classes, monkeypatch):
    def nothing(self, sizes, first, most, matrix):
        none = torch.zeros_like(sizes.kappa)
        return Errors(torch.zeros_like(first.slope), none, none)

    monkeypatch.setattr(ClassExpanded, forgotten, nothing)
    assert lowest_corner(1, classes=classes) < -1e-6


def test_without_the_third_derivative_of_logsumexp_the_curvature_is_another_one(monkeypatch):
    model, x = one(nn.Tanh())
    monkeypatch.setattr(ClassExpanded, "kappa", property(lambda self: 0 * self.tangent))
    assert lowest(model, x[:3], 1e-3) < -1e-3


def test_twice_the_product_of_two_sums():
    lengths = Errors(*(normal(1, 1, size, seed=size).abs() for size in (3, 2, 2)))
    one_sum, other = (
        Errors(*(normal(1, 1, part.shape[2], seed=seed).abs() for seed, part in enumerate(lengths, start)))
        for start in (5, 9)
    )
    bound = crossed(one_sum, other, lengths)
    for seed in range(20):
        at = [part * normal(*part.shape, seed=seed).abs() for part in lengths]
        sums = [
            sum((part * value).sum() for part, value in zip(each, at, strict=True)) for each in (one_sum, other)
        ]
        squares = sum((part * value.square()).sum() for part, value in zip(bound, at, strict=True))
        assert 2 * sums[0] * sums[1] <= squares
    # where everything is as large as it can be, nothing is lost
    whole = [
        sum((part * value).sum() for part, value in zip(each, lengths, strict=True)) for each in (one_sum, other)
    ]
    squares = sum((part * value.square()).sum() for part, value in zip(bound, lengths, strict=True))
    assert float(2 * whole[0] * whole[1]) == pytest.approx(float(squares))


def test_why_not():
    two_layers = extract(nn.Sequential(*mlp(5, 4), nn.Tanh(), nn.Linear(4, 3)).double(), (5,))
    assert "one hidden layer, and this one has 2" in why_not_classes(two_layers)
    assert "third derivative" in why_not_classes(extract(mlp(5, 4, activation=nn.ReLU), (5,)))
    assert why_not_classes(extract(one(nn.SiLU())[0], (5,))) is None

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.direct = one(nn.Tanh())[0], nn.Linear(5, 4).double()

        def forward(self, x):
            return self.net(x) + self.direct(x)

    assert "read the hidden layer alone" in why_not_classes(extract(Skip(), (5,)))
