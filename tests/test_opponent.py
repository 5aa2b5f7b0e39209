"""The independent judge is right: its closed forms, its search on nets that can be searched whole, its limits."""

import itertools
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import r2et
from r2et.attacks import WorstCase
from tests import opponent
from tests.opponent import Effort, Net, _Ball, _Search, centred, judge

ACTIVATIONS = {"ReLU": nn.ReLU(), "Softplus(5)": nn.Softplus(5.0), "Softplus(1000)": nn.Softplus(1000.0)}
GROUPS = ((1, 2, 4), (5, 6))


def net(activation: str, *, features: int = 9, hidden: int = 12, classes: int = 2, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(features, hidden), ACTIVATIONS[activation], nn.Linear(hidden, classes))
    with torch.no_grad():
        module[0].weight *= 2
    return module.double()


def log_odds(u: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    own = nn.functional.one_hot(target, u.shape[1]).bool()
    return u[own] - u[~own].view(len(u), -1).logsumexp(1)


def gradient(
    module: nn.Module, x: torch.Tensor, target: torch.Tensor, *, create_graph: bool = False
) -> torch.Tensor:
    x = x if x.requires_grad else x.clone().requires_grad_()
    (g,) = torch.autograd.grad(log_odds(module(x), target).sum(), x, create_graph=create_graph)
    return g


def valid(rows: int, features: int = 9) -> torch.Tensor:
    """Rows whose groups sum to 1, as one-hot ones do."""
    x = torch.randn(rows, features, dtype=torch.float64)
    for group in map(list, GROUPS):
        x[:, group] = nn.functional.one_hot(torch.randint(len(group), (rows,)), len(group)).double()
    return x


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("classes", [2, 4])
def test_logits_and_explanations_equal_those_of_autograd(activation, classes):
    module = net(activation, classes=classes)
    x = torch.randn(50, 9, dtype=torch.float64)
    target = torch.randint(classes, (50,))
    found = Net.of(module)
    torch.testing.assert_close(found.logits(x), module(x).detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(found.log_odds_gradient(x, target), gradient(module, x, target), rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_without_the_gauge_it_is_the_net_behind_a_projection(activation):
    """f o A: the same predictions on valid rows, and an explanation that sums to zero in each group."""
    module, x = net(activation, classes=3), valid(20)
    shift = torch.zeros(9, dtype=torch.float64)
    for group in map(list, GROUPS):
        shift[group] = 1 / len(group)

    def behind(points):
        return module(centred(points, GROUPS) + shift)

    target, found = module(x).argmax(1), Net.of(module).without_sum_gauge(GROUPS)
    torch.testing.assert_close(found.logits(x), module(x).detach(), rtol=0, atol=1e-10)
    g = found.log_odds_gradient(x, target)
    torch.testing.assert_close(g, gradient(behind, x, target), rtol=0, atol=1e-10)
    for group in map(list, GROUPS):
        assert g[:, group].sum(1).abs().max() < 1e-12


@pytest.mark.parametrize("classes", [2, 4])
def test_slopes_of_the_loss_equal_those_of_autograd(classes):
    module, x = net("Softplus(5)", classes=classes), torch.randn(6, 9, dtype=torch.float64)
    search = _Search(Net.of(module), x, x, (), Effort(k=3, restarts=8))
    search.displaced = torch.tensor([0, 1, 2, 0, 1, 2])
    ball = _Ball(search, torch.arange(6), 8)
    delta = torch.randn(6, 8, 9, dtype=torch.float64)
    slopes = ball.look(delta, None).gather(-1, search.order.argsort(1)[:, None].expand(-1, 8, -1))
    aims = ball.displaced  # as they are after the look: it may have seen more features lost
    for row, restart in itertools.product(range(6), range(8)):
        # points go in with features in the order of the row's list
        point = (x[row] + delta[row, restart][search.order[row].argsort()])[None].requires_grad_()
        g = gradient(module, point, search.target[row : row + 1], create_graph=True)
        score = g.abs() / g.abs().sum()
        inside = score[0, search.order[row, :3]].sort().values
        outside = score[0, search.order[row, 3:]].sort(descending=True).values[:3]
        hinge = (inside - outside + 0.02 * score.max()).relu()
        q = min(int(aims[row]) + 1, 3)
        loss = hinge[:q].mean() if restart % 2 == 0 else hinge[q - 1] + 0.1 * hinge[:q].sum()
        if loss == 0:
            assert not slopes[row, restart].any()
            continue
        (expected,) = torch.autograd.grad(loss, point)
        # their length is another one: a step has a length of its own
        torch.testing.assert_close(slopes[row, restart] / g.abs().sum(), expected[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_finds_what_a_grid_over_the_whole_ball_finds(activation):
    module = net(activation, features=3, hidden=6, seed=4)
    x = torch.randn(12, 3, dtype=torch.float64)
    radius, found = 0.5, Net.of(module)
    (verdict,) = judge(module, x, x, radii=[radius], effort=Effort(k=1, hops=0))
    line = torch.linspace(-radius, radius, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line, line)
    points = x[:, None] + grid[grid.norm(dim=1) <= radius]
    target = found.logits(x).argmax(1)
    top = found.log_odds_gradient(x, target).abs().argmax(1)
    there = target[:, None].expand(points.shape[:2])
    scores = found.log_odds_gradient(points, there).abs()
    # where all neurons are silent, all scores are 0: a tie displaces nobody
    changed = scores.gather(-1, top[:, None, None].expand(*there.shape, 1))[..., 0] < scores.amax(-1)
    flips = (changed & (found.logits(points).argmax(-1) == there)).any(1)
    assert 3 <= flips.sum() <= 9
    assert (verdict.precision[flips] == 0).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_it_finds_is_allowed_and_is_as_it_says(activation):
    """Inside the ball and the sums, the prediction kept, the list as autograd has it; no rise with the radius."""
    module, x = net(activation, hidden=24, classes=3), valid(20)
    radii = [0.1, 0.5, 1.0]
    verdicts = judge(module, x, x, radii=radii, effort=Effort(k=3, restarts=12, steps=20, hops=1), groups=GROUPS)
    target = module(x).argmax(1)
    before = torch.ones(20, dtype=torch.float64)
    for radius, verdict in zip(radii, verdicts, strict=True):
        delta = verdict.x - x
        assert delta.norm(dim=1).max() <= radius
        torch.testing.assert_close(centred(delta, GROUPS), delta, rtol=0, atol=1e-12)
        assert (module(verdict.x).argmax(1) == target).all()
        first, last = (centred(gradient(module, points, target), GROUPS).abs() for points in (x, verdict.x))
        tops = [score.topk(3).indices for score in (first, last)]
        kept = (tops[0][:, :, None] == tops[1][:, None]).sum((1, 2)) / 3
        torch.testing.assert_close(verdict.precision, kept.double(), rtol=0, atol=1e-6)
        assert (verdict.precision <= before).all()
        before = verdict.precision
    assert before.mean() < 0.8


def test_it_knows_nothing_of_the_library():
    source = Path(opponent.__file__).read_text()
    imported = re.findall(r"^(?:import|from) ([\w.]+)", source, re.MULTILINE)
    assert set(imported) == {"math", "collections.abc", "dataclasses", "torch"}


@pytest.fixture(scope="module")
def sharp():
    """A ReLU net under Softplus(1000), and rows that it was not trained on."""
    data = r2et.data.load("breast-cancer")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = r2et.models.MLP(30, 2)
        r2et.fit(model, data.train, data.validation, settings=r2et.training.Settings(epochs=20, batch_size=64))
    model[1] = nn.Softplus(1000.0)
    x = data.test.x[:16].double()
    (verdict,) = judge(model.double(), x, data.train.x, radii=[1.0], effort=Effort(k=8))
    return model, x, verdict.precision.mean()


def kinder(sharp, version: int) -> float:
    """Points of P@8 that WorstCase leaves above the judge's."""
    model, x, judged = sharp
    return 100 * float(WorstCase(k=8, radius=1.0, version=version)(model, x).precision.mean() - judged)


def test_worst_case_is_hardly_kinder_than_the_judge(sharp):
    assert kinder(sharp, 2) <= 1.0


def test_the_old_recipe_is_much_kinder_to_a_sharp_net(sharp):
    """The judge does notice an attack that is too kind."""
    assert kinder(sharp, 1) > 3.0
