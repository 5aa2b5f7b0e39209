"""Searches for witnesses against certificates, each at the radius claimed for a row and a number of features."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.hunting import FARTHEST, HINGES, OVER, Skip, numbers
from benchmarks.witnesses import HALVINGS, Ground, Smallest
from r2et.attacks import WorstCase
from r2et.attacks.task import Task
from r2et.certificates import Certificate
from r2et.domain.gauge import WithoutGauge
from r2et.enclosure import extract
from r2et.enclosure.hinges import nearest_hinges
from r2et.explainers import Gradient, SmoothGrad
from r2et.models import Additive
from r2et.numerics.modes import copied
from r2et.numerics.preflight import measuring
from r2et.validate import piecewise_linear, smooth

#: attacks go a little farther than the claim: on the way back a witness is found at the claim too
BEYOND = 1.009
#: some steps go so many times as far, so that there is a witness to start from
FARTHER = 4.0
#: claims of a network that the expensive attacks look at
CLAIMS = 40
#: what is added to the explained class, so that no attack is held back by a prediction that might change
CERTAIN = 1e6
#: random directions, steps that push and steps to the nearest place where a gap closes
DRAWS, PUSHES, NEARER = 6, 8, 3
#: searches of the judge: restarts, steps, rounds of hops
RESTARTS, STEPS, HOPS = 12, 20, 1
#: farthest move of one column that is tabulated, as a share of the largest claim
TABULATED = 1.2


@dataclass(frozen=True)
class Aims:
    """Claims to be refuted.

    Attributes:
        rows: whose they are, (P,).
        places: at most so many features are displaced, (P,).
        radius: below this distance, (P,).
    """

    rows: Tensor
    places: Tensor
    radius: Tensor

    @classmethod
    def of(cls, limits: Tensor) -> "Aims":
        """All claims of limits (N, k), from which radii that are too far to attack are brought nearer."""
        rows, places = (limits > 0).nonzero(as_tuple=True)
        return cls(rows, places, BEYOND * limits[rows, places].clamp_max(FARTHEST))

    def some(self, count: int, seed: int) -> "Aims":
        """The radius of each row, and others drawn at random up to a number."""
        order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(seed))
        first = (self.places[order] != 0).byte().argsort(stable=True)
        return self.only(order[first][:count])

    def only(self, which: Tensor) -> "Aims":
        """Some of them, by numbers or by a mask."""
        return Aims(self.rows[which], self.places[which], self.radius[which])


def claims(certificates: list[Certificate]) -> Tensor:
    """The boldest claims of several certificates, (N, k)."""
    return torch.stack([certificate.limits for certificate in certificates]).nan_to_num(nan=0.0).amax(0)


def guide_of(ground: Ground) -> nn.Module:
    """A model that has second derivatives."""
    return smooth(ground.model, 10.0) if piecewise_linear(ground.model, ground.x) else ground.model


def random_steps(ground: Ground, aims: Aims, smallest: Smallest, seed: int) -> None:
    """Random directions, most of them of few features."""
    steps = numbers(DRAWS, len(aims.rows), ground.x.shape[1], seed=seed)
    few = numbers(*steps.shape, seed=seed + 1) > 0.7
    few[: DRAWS // 2] = True
    steps = ground.allowed(steps * few)
    steps = aims.radius[:, None] * steps / steps.norm(dim=2, keepdim=True).clamp_min(1e-300)
    smallest.add((ground.x[aims.rows] + steps).flatten(0, 1), aims.rows.repeat(DRAWS))


def _gaps(ground: Ground, guide: nn.Module, points: Tensor, aims: Aims) -> tuple[Tensor, Tensor]:
    """The q-th weakest member of the list less the q-th strongest other feature, (P,), and its slopes (P, n).

    The gap is a share of the largest score.
    """
    point = points.detach().requires_grad_()
    target, top = ground.target[aims.rows], ground.top[aims.rows]
    with torch.enable_grad():
        scores = ground.explainer.flatten(ground.explainer.attribute(guide, point, target, create_graph=True))
        inside = scores.masked_fill(~top, torch.inf).sort(1).values
        outside = scores.masked_fill(top, -torch.inf).sort(1, descending=True).values
        place = aims.places.clamp_max(min(ground.k, top.shape[1] - ground.k) - 1)[:, None]
        size = scores.detach().abs().amax(1).clamp_min(1e-300)
        gap = (inside.gather(1, place) - outside.gather(1, place)).squeeze(1) / size
        slope = torch.autograd.grad(gap.sum(), point)[0] if gap.requires_grad else torch.zeros_like(points)
    return gap.detach(), ground.allowed(slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0))


def pushes(ground: Ground, aims: Aims, smallest: Smallest, guide: nn.Module) -> None:
    """Descent on the gap of the pair that has to change places, inside of each claim's own ball."""
    x, radius = ground.x[aims.rows], aims.radius
    delta = torch.zeros_like(x)
    for number in range(PUSHES):
        _, slope = _gaps(ground, guide, x + delta, aims)
        size = radius * max(0.1, 0.8**number) / slope.norm(dim=1).clamp_min(1e-300)
        delta = delta - size[:, None] * slope
        delta = delta * (radius / delta.norm(dim=1).clamp_min(1e-300)).clamp_max(1.0)[:, None]
        smallest.add(x + delta, aims.rows)


def nearer(ground: Ground, smallest: Smallest, guide: nn.Module) -> None:
    """From every witness to the nearest point where its gap closes, if the gap were as straight as it is there."""
    for _ in range(NEARER):
        smallest.contract()
        rows, places, points = smallest.known
        if not len(rows):
            return
        aims = Aims(rows, places, torch.zeros(len(rows)))
        x = ground.x[rows]
        gap, slope = _gaps(ground, guide, points, aims)
        along = ((points - x) * slope).sum(1) - gap
        shares = along / slope.square().sum(1).clamp_min(1e-300)
        for over in (1.0, 1.001, 1.02):
            smallest.add(x + (over * shares)[:, None] * slope, rows)
    smallest.contract()


def over_hinges(ground: Ground, aims: Aims, smallest: Smallest, seed: int) -> None:
    """Just over each of the nearest hinges of a row or of its noisy copies, and random points behind them."""
    network = extract(ground.model, ground.x.shape[1:])
    movable = ground.movable.double()
    far = torch.zeros(len(ground.x), dtype=torch.float64).scatter_reduce(0, aims.rows, aims.radius, "amax")
    shifts = ground.x.new_zeros(1, ground.x.shape[1])
    if isinstance(ground.explainer, SmoothGrad):
        shifts = ground.explainer.noise(ground.x.shape[1:]).to(ground.x)
    rows = torch.arange(len(ground.x)).repeat_interleave(HINGES)
    for shift in shifts:
        distances, steps = nearest_hinges(network, ground.x + shift, HINGES, movable)
        over = distances * (1 + OVER) + 1e-15
        near = over <= far[:, None]
        moves = steps * torch.where(near, over, 0.0).unsqueeze(2)
        aside = ground.allowed(numbers(*moves.shape, seed=seed))
        left = torch.where(near, far[:, None] - over, 0.0).unsqueeze(2)
        aside = aside / aside.norm(dim=2, keepdim=True).clamp_min(1e-300) * left
        for step in (moves, moves + 1e-3 * aside, moves + aside):
            smallest.add(ground.x[rows] + ground.allowed(step).flatten(0, 1), rows)


def core_of(model: nn.Module) -> nn.Module:
    """The network itself, without what takes the sums of groups out of it."""
    return model.model if isinstance(model, WithoutGauge) else model


def without_doubt(ground: Ground, target: int) -> nn.Module:
    """A copy that predicts one class wherever one looks, and explains it as before: its logit is far larger.

    An attack that keeps the prediction must not protect a certificate that does not.
    """
    model = copied(ground.model)
    core = core_of(model)
    with torch.no_grad():
        size = CERTAIN * (1 + float(model(ground.x).abs().amax()))
        if isinstance(core, Additive):
            place, sign = (0, 2 * target - 1) if core.classes == 2 else (target, 1)
            core.bias[place] += sign * size
        else:
            parts = core.net if isinstance(core, Skip) else core
            last = [layer for layer in parts.modules() if isinstance(layer, nn.Linear)][-1]
            last.bias[target] += size
        assert (model(ground.x).argmax(1) == target).all()
    return model


def worst_case(ground: Ground, aims: Aims, smallest: Smallest, seed: int) -> None:
    """WorstCase-2, at each claim's own radius."""
    for target in ground.target[aims.rows].unique().tolist():
        own = aims.only(ground.target[aims.rows] == target)
        model, x = without_doubt(ground, target), ground.x[own.rows]
        radius = float(own.radius.median())
        attack = WorstCase(k=ground.k, radius=radius, budget="fast", explainer=ground.explainer)
        with measuring(model, x), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task = Task.prepare(attack, model, x, reach=ground.reach, seed=seed)
            result = attack.attack(replace(task, radii=own.radius))
        smallest.add(result.x, own.rows)


def judge_reads(ground: Ground) -> bool:
    """Whether the judge knows the network, the explanation and the threat."""
    core, explainer = core_of(ground.model), ground.explainer
    parts = list(core.children()) if isinstance(core, nn.Sequential) else []
    known = len(parts) == 3 and isinstance(parts[1], (nn.ReLU, nn.Softplus)) and isinstance(parts[0], nn.Linear)
    two = known and parts[2].out_features == 2  # type: ignore[union-attr]  # a linear layer
    score = explainer.score == "log-odds" or (two and explainer.score == "margin")
    plain = type(explainer) is Gradient and explainer.reduce == "abs" and score
    return known and plain and bool(ground.movable.all()) and not ground.reach.equal


def independent(ground: Ground, aims: Aims, smallest: Smallest, seed: int) -> None:
    """The judge, which shares nothing with the library; what it says of its points counts as it says it, too."""
    from tests.opponent import Effort, judge

    effort = Effort(ground.k, seed, RESTARTS, STEPS, HOPS, RESTARTS)
    for target in ground.target[aims.rows].unique().tolist():
        own = aims.only(ground.target[aims.rows] == target)
        core = core_of(without_doubt(ground, target))
        (verdict,) = judge(
            core, ground.x[own.rows], ground.x, radii=[own.radius], effort=effort, groups=ground.reach.groups
        )
        lost = ((1 - verdict.precision) * ground.k).round().long()
        smallest.take(verdict.x, own.rows, (verdict.x - ground.x[own.rows]).norm(dim=1), lost)
        smallest.add(verdict.x, own.rows)


def additive_reads(ground: Ground) -> bool:
    """Whether the exact attack on additive scores knows the network and the explanation."""
    core = core_of(ground.model)
    scores = ("log-odds", "margin")
    plain = type(ground.explainer) is Gradient and ground.explainer.score in scores
    return isinstance(core, Additive) and core.classes == 2 and plain


def exact(ground: Ground, aims: Aims, smallest: Smallest) -> None:
    """The attack that knows every price, on grids as wide as the largest claim."""
    from tests.additive_opponent import additive_slopes, cheapest_moves

    core = core_of(ground.model)
    signed, movable = ground.explainer.reduce == "signed", torch.zeros_like(ground.movable)
    movable[core.numeric] = True
    slopes, still = additive_slopes(core), movable & ground.movable
    for row in aims.rows.unique().tolist():
        sign = -1.0 if signed and int(ground.target[row]) == 0 else 1.0
        far = TABULATED * float(aims.radius[aims.rows == row].max())
        _, moves = cheapest_moves(
            lambda points, sign=sign: sign * slopes(points),  # type: ignore[misc]
            ground.x[row].numpy(),
            ground.k,
            far=far,
            movable=still.numpy(),
            signed=signed,
            points=1001,
            thresholds=400,
        )
        steps = torch.from_numpy(np.concatenate([moves, 1.002 * moves, 1.02 * moves]))
        smallest.add(ground.x[row] + steps, torch.full((len(steps),), row))


def other_class(ground: Ground, held: Tensor, smallest: Smallest) -> None:
    """Descent on the margin of the predicted class, in balls in which it is said to stay, (N,)."""
    rows = ((held > 0) & held.isfinite()).nonzero().squeeze(1)
    if not len(rows):
        return
    x, radius, clean = ground.x[rows], BEYOND * held[rows].clamp_max(FARTHEST), ground.predicted[rows, None]
    delta = torch.zeros_like(x)
    for number in range(2 * PUSHES):
        point = (x + delta).requires_grad_()
        logits = ground.model(point)
        margin = logits.gather(1, clean).squeeze(1) - logits.scatter(1, clean, -torch.inf).amax(1)
        slope = ground.allowed(torch.autograd.grad(margin.sum(), point)[0])
        size = radius * max(0.1, 0.85**number) / slope.norm(dim=1).clamp_min(1e-300)
        delta = delta - size[:, None] * slope
        delta = delta * (radius / delta.norm(dim=1).clamp_min(1e-300)).clamp_max(1.0)[:, None]
        smallest.add(x + delta, rows)
    low, high = torch.zeros_like(radius), torch.ones_like(radius)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        changed = ground.lost(x + middle[:, None] * delta, rows)[1]
        low, high = torch.where(changed, low, middle), torch.where(changed, middle, high)
    smallest.add(x + high[:, None] * delta, rows)


def attacked(
    ground: Ground, certificates: list[Certificate], seed: int, *, worst: bool = True
) -> tuple[Smallest, dict[str, int]]:
    """The smallest witnesses that all attacks find, and how many rows the expensive ones have attacked.

    Args:
        ground: what is certified.
        certificates: whose boldest claims are attacked.
        seed: of everything that is drawn.
        worst: whether WorstCase-2 is among the attacks, which takes most of the time.
    """
    smallest = Smallest(ground)
    every = Aims.of(claims(certificates))
    counts: dict[str, int] = {}
    for certificate in certificates:
        if "prediction" in certificate.details:
            other_class(ground, certificate.details["prediction"], smallest)
    if not len(every.rows):
        return smallest, counts
    chosen, guide = every.some(CLAIMS, seed), guide_of(ground)
    rows = len(chosen.rows.unique())
    random_steps(ground, every, smallest, seed)
    for share in (1.0, FARTHER):
        pushes(ground, replace(every, radius=share * every.radius), smallest, guide)
    if guide is not ground.model:
        over_hinges(ground, every, smallest, seed)
    if worst:
        worst_case(ground, chosen, smallest, seed)
        counts["WorstCase-2"] = rows
    if judge_reads(ground):
        independent(ground, chosen, smallest, seed)
        counts["the independent judge"] = rows
    if additive_reads(ground):
        exact(ground, every, smallest)
        counts["the exact attack on additive scores"] = len(every.rows.unique())
    nearer(ground, smallest, guide)
    return smallest, counts
