"""Functionals to second order: derivatives by autograd, and no second derivative on the ball below its bound."""

import pytest
import torch
from torch import nn

from r2et.enclosure import Smooth, extract
from r2et.enclosure.expansion import Errors, Expansion, why_not_expanded
from r2et.enclosure.problems import Reading
from r2et.explainers import Gradient
from tests.models_with_answers import generator, mlp, normal

SMOOTH = (nn.Softplus(), nn.Softplus(5.0), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU())
SHAPES = ("plain", "skip", "residual", "wide input")
TRAITS = ("plain", "copies", "dead", "small", "large", "ties")


class Two(nn.Module):
    """Two hidden layers; with skips the second one reads the input, the logits read everything."""

    def __init__(self, bends, n, hidden, *, skip=False, residual=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(n, hidden), nn.Linear(hidden, 6), nn.Linear(6, 2)
        self.bends, self.skip, self.residual = nn.ModuleList(bends), skip, residual
        self.past, self.inner, self.direct = nn.Linear(n, 6), nn.Linear(hidden, 2), nn.Linear(n, 2)

    def forward(self, x):
        one = self.bends[0](self.first(x))
        inner = self.second(one)
        if self.skip:
            inner = inner + self.past(x)
        out = self.last(self.bends[1](inner))
        return out + self.inner(one) + self.direct(x) if self.residual else out


def two(module, shape="plain", trait="plain", *, other=None, n=5, hidden=7, seed=0):
    """A random net of two hidden layers, float64, and inputs."""
    n = 40 if shape == "wide input" else n
    bends = module, module if other is None else other
    model = Two(bends, n, hidden, skip=shape in ("skip", "residual"), residual=shape == "residual").double()
    source = generator(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=source, dtype=torch.float64) * 0.7)
        if trait == "copies":
            model.first.weight[1], model.first.bias[1] = model.first.weight[0], model.first.bias[0]
            model.second.weight[1], model.second.bias[1] = model.second.weight[0], model.second.bias[0]
        if trait == "dead":
            model.first.weight[0], model.second.weight[:, 1], model.second.weight[2] = 0.0, 0.0, 0.0
            model.last.weight[:, 3] = 0.0
        if trait in ("small", "large"):
            scale = 1e-3 if trait == "small" else 1e3
            model.first.weight.mul_(scale)
            model.past.weight.mul_(scale)
    x = normal(6, n, seed=seed + 7)
    if trait == "ties":
        with torch.no_grad():
            model.first.weight[:, 1] = model.first.weight[:, 0]
        x = x.round()
    return model, x


def problem_of(model, x, k=2, explainer=None, movable=None):
    reading = Reading.of(model, x, explainer or Gradient(), movable)
    return next(reading.problems(x, model(x).argmax(1), k, len(x)))


def phi(model, d, target):
    """The functional d . grad of the log-odds, as a function of one input (n,)."""

    def of(point):
        def score(p):
            logits = model(p.unsqueeze(0))[0]
            return logits[target] - logits[1 - target]

        return d @ torch.autograd.functional.jacobian(score, point, create_graph=True)

    return of


def functionals(x, i=0, j=3):
    rows = torch.arange(len(x))
    a, b = torch.ones(len(x), dtype=torch.float64), torch.full((len(x),), -1.0, dtype=torch.float64)
    d = torch.zeros(x.shape[1], dtype=torch.float64)
    d[i], d[j] = 1.0, -1.0
    return (rows, torch.full_like(rows, i), a, torch.full_like(rows, j), b), d


def seconds(model, x, delta, d, target):
    """phi'' along delta (N, n) at x, by autograd, (N,)."""
    values = []
    for row, step, label in zip(x, delta, target, strict=True):
        slope = torch.autograd.functional.vhp(phi(model, d, int(label)), row, step)[1]
        values.append(slope @ step)
    return torch.stack(values)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("module", [SMOOTH[1], SMOOTH[4]], ids=repr)
def test_slope_and_curvature_at_x_are_those_of_autograd(module, shape):
    model, x = two(module, shape, other=nn.Tanh())
    expansion, target = Expansion(problem_of(model, x).attributions), model(x).argmax(1)
    chosen, d = functionals(x)
    found = expansion.expanded(*chosen)
    assert found.slope.shape[1] == min(x.shape[1], len(expansion.of.network.base))
    bent = found.curvature(found.no_errors())
    for row in range(len(x)):
        slope = torch.autograd.functional.jacobian(phi(model, d, int(target[row])), x[row])
        hessian = torch.autograd.functional.hessian(phi(model, d, int(target[row])), x[row])
        assert float(found.slope[row].norm()) == pytest.approx(float(slope.norm()))
        assert float(bent[row].diagonal().sum()) == pytest.approx(float(hessian.diagonal().sum()))
        assert float(bent[row].norm()) == pytest.approx(float(hessian.norm()))
        if shape != "wide input":
            assert torch.allclose(found.slope[row], slope)
            assert torch.allclose(bent[row], hessian)
    assert (found.slope_error > 0).all()


def lowest(model, x, radius, *, movable=None, draws=12):
    """The smallest phi'' - its bound, as a share of both, seen at points of the ball."""
    expansion, target = Expansion(problem_of(model, x, movable=movable).attributions), model(x).argmax(1)
    chosen, d = functionals(x)
    found = expansion.expanded(*chosen)
    times = torch.full((len(x), 1), radius, dtype=torch.float64)
    errors = found.errors(expansion.drift(times)).mean(torch.ones_like(times))
    bent, moves = found.curvature(errors), torch.ones(x.shape[1]) if movable is None else movable
    worst, size = torch.inf, bent.flatten(1).norm(dim=1) * radius**2
    for seed in range(draws):
        step = normal(*x.shape, seed=seed + 31) * moves
        step = step / step.norm(dim=1, keepdim=True) * radius
        # where the bound is closest to what it bounds: along its own steepest curvature, too
        if seed % 2 and x.shape[1] == bent.shape[1]:
            step = torch.linalg.eigh(bent).eigenvectors[:, :, seed // 2 % x.shape[1]] * radius * moves
        bound = (step.unsqueeze(1) @ bent @ step.unsqueeze(2)).flatten() if bent.shape[1] == x.shape[1] else None
        for share in (0.3, -1.0, 1.0):
            seen = seconds(model, x + share * step, step, d, target)
            if bound is None:
                bound = torch.linalg.eigvalsh(bent)[:, 0] * radius**2
            worst = min(worst, float(((seen - bound) / (seen.abs() + size + 1e-30)).min()))
    return worst


@pytest.mark.parametrize("trait", TRAITS)
def test_no_second_derivative_on_the_ball_is_below_its_bound(trait):
    for number, (module, shape) in enumerate(zip(SMOOTH, (*SHAPES, "plain", "residual"), strict=True)):
        if trait != "plain" and number % 3 != TRAITS.index(trait) % 3:
            continue
        model, x = two(module, shape, trait, seed=number)
        for radius in (1e-3, 0.1, 1.0):
            assert lowest(model, x[:3], radius, draws=6) >= -1e-9, (module, shape, radius)


def test_frozen_features_do_not_move_and_are_explained():
    movable = torch.tensor([False, True, True, False, True])
    model, x = two(nn.Softplus(5.0), "residual")
    assert lowest(model, x[:3], 0.5, movable=movable) >= 0


def at_corner(expansion, found, drift, delta, seed):
    """phi'' along delta (F, c), every derivative anywhere in its own range, at corners that are drawn."""
    rows, second = found.rows, expansion.second

    def moved(at, far, number):
        sign = normal(*at.shape, seed=10 * seed + number).sign()
        return at[rows] + far[rows, -1] * sign

    s, bend, twist = (moved(*pair, n) for n, pair in enumerate(zip(expansion.at_first, drift.first, strict=True)))
    t, turn, wind = (
        moved(*pair, n + 3) for n, pair in enumerate(zip(expansion.at_second, drift.second, strict=True))
    )
    u, q, y = found.hidden, expansion.q[rows], delta @ expansion.first.T
    past = found.tangent - (u * expansion.at_first.slope[rows]) @ second.T
    a, v, b = (u * s) @ second.T + past, (s * y) @ second.T, (u * bend * y) @ second.T
    v = v if expansion.skip is None else v + delta @ expansion.skip.T
    pull = expansion.direct[rows] + (q * t) @ second
    inner = u * twist * pull + bend * ((q * turn * a) @ second)
    return (q * wind * a * v.square() + 2 * q * turn * v * b).sum(1) + (inner * y.square()).sum(1)


def lowest_corner(hidden, shape, *, left_out=None, share=1.0, cases=40):
    """The smallest phi'' - its bound at corners of tiny nets; `left_out`: an error that is not counted."""
    worst = torch.inf
    for seed in range(cases):
        model, x = two(nn.Tanh(), shape, n=4, hidden=hidden, seed=seed)
        expansion = Expansion(problem_of(model, x).attributions)
        found = expansion.expanded(*functionals(x)[0])
        drift = expansion.drift(torch.full((len(x), 1), 10.0 ** -(seed % 4), dtype=torch.float64))
        errors = Errors(*(share * part[:, -1] for part in found.errors(drift)))
        if left_out is not None:
            errors = errors._replace(**{left_out: 0 * getattr(errors, left_out)})
        bent = found.curvature(errors)
        for draw in range(8):
            delta = normal(*found.slope.shape, seed=draw)
            if draw % 2:
                # along the second layer nothing moves, or what turns does not
                rows = (expansion.jacobian if draw % 4 == 1 else found.turning)[torch.arange(len(x)), :2]
                basis = torch.linalg.qr(rows.mT).Q
                delta = delta - (basis @ (basis.mT @ delta.unsqueeze(2))).squeeze(2)
            seen = at_corner(expansion, found, drift, delta, 100 * seed + draw)
            bound = (delta.unsqueeze(1) @ bent @ delta.unsqueeze(2)).flatten()
            worst = min(worst, float(((seen - bound) / (seen.abs() + bound.abs() + 1e-30)).min()))
    return worst


@pytest.mark.parametrize("shape", ["plain", "residual"])
@pytest.mark.parametrize("hidden", [1, 2, 7])
def test_no_corner_of_the_ranges_is_below_the_bound(hidden, shape):
    """More than a network can do: each derivative of each neuron goes to either end of its range alone."""
    assert lowest_corner(hidden, shape) >= -1e-12


@pytest.mark.parametrize("left_out", Errors._fields)
def test_an_error_that_is_left_out_is_caught(left_out):
    assert lowest_corner(1, "plain", left_out=left_out) < -1e-6


def test_errors_a_percent_too_small_are_caught():
    assert lowest_corner(1, "plain", share=0.99) < -1e-6


def test_why_not():
    one = extract(mlp(5), (5,))
    assert "two hidden layers, and this one has 1" in why_not_expanded(one)
    relu = extract(two(nn.ReLU())[0], (5,))
    assert "third derivative of layer 'bends.0' is not known" in why_not_expanded(relu)
    assert why_not_expanded(extract(two(nn.SiLU())[0], (5,))) is None
    unknown = Smooth(torch.sin, torch.cos, lambda z: -z.sin())
    assert unknown.twist(torch.zeros(1), torch.zeros(1)) is None
