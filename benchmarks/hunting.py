"""Attacks that look for a changed list inside a certified radius, and random networks to look in.

The networks are drawn with what is rare in trained ones and awkward for proofs: equal entries of a window, rows of
weights that are copies of each other, neurons that are dead, inputs that lie on a hinge.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.attacks import BoundaryAttack, MinimalFlip
from r2et.enclosure import extract
from r2et.enclosure.hinges import nearest_hinges
from r2et.explainers import Explainer, Gradient, GradientTimesInput, SmoothGrad
from r2et.validate import piecewise_linear, smooth

#: no attack goes farther than this, however far a certificate reaches
FARTHEST = 1e3
#: how many of the nearest hinges are stepped over, and by which share of their distance
HINGES, OVER = 8, 1e-6

SMOOTH: tuple[Callable[[], nn.Module], ...] = (
    nn.Softplus,
    lambda: nn.Softplus(5.0),
    lambda: nn.Softplus(3.0, 4.0),
    nn.Tanh,
    nn.Sigmoid,
    nn.GELU,
    nn.SiLU,
)
KINKED: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, lambda: nn.LeakyReLU(0.2), lambda: nn.LeakyReLU(-0.3))
#: what is done to the weights and inputs of a random network
TRAITS = ("plain", "copies", "dead", "zeros", "whole numbers")
EXPLAINERS: tuple[Explainer, ...] = (
    Gradient(),
    Gradient(reduce="signed"),
    Gradient(score="logit"),
    Gradient(score="margin"),
    GradientTimesInput(),
    GradientTimesInput(reduce="signed"),
    GradientTimesInput(score="margin"),
    SmoothGrad(samples=3, sigma=0.1, score="log-odds"),
    SmoothGrad(samples=2, sigma=0.5, score="log-odds", reduce="signed"),
)


def numbers(*shape: int, seed: int) -> Tensor:
    """Standard normal, float64, of a seed of their own."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def row_times(radius: Tensor, x: Tensor) -> Tensor:
    """Radii (N,) in the shape of rows x."""
    return radius.reshape(-1, *[1] * (x.ndim - 1))


def displaced(model: nn.Module, x: Tensor, points: Tensor, explainer: Explainer, k: int) -> Tensor:
    """How many of the top-k features at x are not among those at points (M, N, ...), (M, N)."""
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    after = explainer(model, points.flatten(0, 1), target.repeat(len(points))).unflatten(0, points.shape[:2])
    lost: Tensor = 1 - ranking.precision_at_k(after, clean.expand_as(after), k)
    return (lost * k).round().long()


def random_points(x: Tensor, radius: Tensor, count: int, seed: int = 0) -> Tensor:
    """Points at a distance of `radius` (N,) from x, (count, *x.shape)."""
    steps = numbers(count, *x.shape, seed=seed)
    norms = steps.flatten(2).norm(dim=2).reshape(count, len(x), *[1] * (x.ndim - 1))
    return x + row_times(radius, x) * steps / norms


def pushed_points(
    model: nn.Module,
    x: Tensor,
    radius: Tensor,
    explainer: Explainer,
    k: int,
    pairs: int = 1,
    steps: int = 10,
    seed: int | None = None,
) -> Tensor:
    """Iterates that push the weakest salient features below the strongest others, in each row's own ball."""
    guide = smooth(model, 10.0) if piecewise_linear(model, x) else model
    target = model(x).argmax(1)
    top = ranking.top_k_mask(explainer(model, x, target), k)
    count = min(pairs, k, top.shape[1] - k)
    delta = torch.zeros_like(x) if seed is None else random_points(x, radius / 2, 1, seed)[0] - x
    reached = []
    for step in range(steps):
        point = (x + delta).requires_grad_()
        scores = explainer.flatten(explainer.attribute(guide, point, target, create_graph=True))
        weakest = scores.masked_fill(~top, torch.inf).topk(count, largest=False).values
        strongest = scores.masked_fill(top, -torch.inf).topk(count).values
        loss = ((weakest - strongest).sum(1) / scores.detach().abs().amax(1).clamp_min(1e-300)).sum()
        slope = torch.autograd.grad(loss, point)[0] if loss.requires_grad else torch.zeros_like(x)
        slope = slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)  # of attributions that all but vanish
        size = radius * max(0.1, 0.8**step) / slope.flatten(1).norm(dim=1).clamp_min(1e-300)
        delta = delta - row_times(size, x) * slope
        length = delta.flatten(1).norm(dim=1).clamp_min(1e-300)
        delta = delta * row_times((radius / length).clamp_max(1.0), x)
        reached.append(x + delta)
    return torch.stack(reached)


def hinge_points(model: nn.Module, x: Tensor, radius: Tensor, explainer: Explainer, seed: int = 0) -> Tensor:
    """Points just over each of the nearest hinges inside of the radius (N,), and random ones behind them.

    For SmoothGrad the hinges of every noisy copy are stepped over. A hinge that is too far away gives x itself.
    """
    network = extract(model, x.shape[1:])
    noise = explainer.noise(x.shape[1:]).to(x) if isinstance(explainer, SmoothGrad) else torch.zeros_like(x[:1])
    reached = []
    for shift in noise:
        distances, steps = nearest_hinges(network, (x + shift).flatten(1), HINGES)
        over = distances * (1 + OVER) + 1e-15
        near = over <= radius.unsqueeze(1)
        moves = steps * torch.where(near, over, 0.0).unsqueeze(2)
        reached.append(x + moves.transpose(0, 1).reshape(HINGES, *x.shape))
        left = torch.where(near, radius.unsqueeze(1) - over, 0.0)
        aside = numbers(*moves.shape, seed=seed)
        aside = aside / aside.norm(dim=2, keepdim=True) * left.unsqueeze(2)
        reached.append(x + (moves + aside).transpose(0, 1).reshape(HINGES, *x.shape))
    return torch.cat(reached)


def hunt(
    model: nn.Module,
    x: Tensor,
    limits: Tensor,
    explainer: Explainer,
    k: int,
    share: float = 0.999,
    draws: int = 10,
) -> Tensor:
    """Whether an attack displaces more than m features at `share` of limits[:, m], bool (N,).

    Args:
        model: in evaluation mode, float64.
        x: (N, *features).
        limits: certified radii (N, k), as `Certificate.limits` has them.
        explainer: what is certified.
        k: size of the salient set.
        share: of the certified radius that an attack may use.
        draws: random directions for each m.
    """
    caught = torch.zeros(len(x), dtype=torch.bool)
    for m in sorted({0, 1, k // 2}):
        if m >= limits.shape[1]:
            continue
        radius = share * limits[:, m].clamp_max(FARTHEST)
        points = [
            random_points(x, radius, draws, seed=m),
            pushed_points(model, x, radius, explainer, k, pairs=m + 1),
            pushed_points(model, x, radius, explainer, k, pairs=m + 1, steps=6, seed=m),
            hinge_points(model, x, radius, explainer, seed=m),
        ]
        # a limit of zero promises nothing: at a tie, rounding in another batch changes the list
        caught |= (displaced(model, x, torch.cat(points), explainer, k) > m).any(0) & (radius > 0)
    return caught


def smallest_flips(model: nn.Module, x: Tensor, explainer: Explainer, k: int, radius: float = 20.0) -> Tensor:
    """Norms of the smallest flips that MinimalFlip finds, infinite where it finds none, (N,)."""
    result = MinimalFlip(k=k, radius=radius, explainer=explainer)(model, x)
    return torch.where(result.precision < 1, result.distance, torch.inf)


def boundary_attack(model: nn.Module, x: Tensor, radius: Tensor, explainer: Explainer, k: int) -> Tensor:
    """Rows that BoundaryAttack changes at a budget that lies inside of their radius (N,), bool (N,)."""
    caught = torch.zeros(len(x), dtype=torch.bool)
    if not (radius > 0).any():
        return caught
    budget = float(0.999 * radius[radius > 0].median().clamp_max(FARTHEST))
    rows = (radius > budget).nonzero().squeeze(1)
    result = BoundaryAttack(k=k, radius=budget, steps=20, explainer=explainer)(model, x[rows])
    caught[rows] = result.precision < 1
    return caught


class Skip(nn.Module):
    """A net, with or without a direct way from the input to the logits."""

    def __init__(self, net: nn.Module, n: int, classes: int, skip: bool) -> None:
        super().__init__()
        self.net, self.direct, self.skip = net, nn.Linear(n, classes), skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes) of x (N, n)."""
        logits: Tensor = self.net(x)
        return logits + self.direct(x) if self.skip else logits


class Mixed(nn.Module):
    """Max-pooling of linear units, then a layer of hinges that reads the maxima and the input."""

    def __init__(self, n: int, classes: int, window: int, windows: int, width: int, bend: nn.Module) -> None:
        super().__init__()
        self.units, self.pool = nn.Linear(n, window * windows), nn.MaxPool1d(window)
        self.inner, self.direct = nn.Linear(windows, width), nn.Linear(n, width)
        self.bend, self.last = bend, nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes) of x (N, n)."""
        maxima = self.pool(self.units(x).unsqueeze(1)).flatten(1)
        logits: Tensor = self.last(self.bend(self.inner(maxima) + self.direct(x)))
        return logits


def mlp(draw: Random, n: int, classes: int, bends: tuple[Callable[[], nn.Module], ...]) -> nn.Module:
    """One to three hidden layers of up to seven units, perhaps with a skip."""
    layers: list[nn.Module] = []
    before = n
    for _ in range(draw.randint(1, 3)):
        width = draw.randint(1, 7)
        layers += [nn.Linear(before, width), draw.choice(bends)()]
        before = width
    return Skip(nn.Sequential(*layers, nn.Linear(before, classes)), n, classes, draw.random() < 0.5)


def convolution(draw: Random, classes: int, smooth_one: bool) -> nn.Module:
    """Takes 16 features as an image of 4 x 4; max-pooling unless it is smooth."""
    bend = draw.choice(SMOOTH if smooth_one else KINKED)()
    pool: nn.Module = nn.AvgPool2d(2) if smooth_one else nn.MaxPool2d(2, padding=draw.choice((0, 1)))
    parts = [nn.Conv2d(1, 3, 3, padding=1), bend, pool]
    if not smooth_one and draw.random() < 0.5:
        parts = [parts[0], pool, bend]
    body = nn.Sequential(nn.Unflatten(1, (1, 4, 4)), *parts, nn.Flatten())
    size = body(torch.zeros(1, 16)).shape[1]
    return nn.Sequential(body, nn.Linear(size, classes))


KINDS = {
    "MLP, smooth": lambda draw, n, classes: mlp(draw, n, classes, SMOOTH),
    "MLP, ReLU and LeakyReLU": lambda draw, n, classes: mlp(draw, n, classes, KINKED),
    "max-pooling of units": lambda draw, n, classes: Mixed(
        n, classes, draw.randint(2, 4), draw.randint(1, 3), draw.randint(1, 4), draw.choice(KINKED)()
    ),
    "convolution, max-pooling": lambda draw, n, classes: convolution(draw, classes, False),
    "convolution, average pooling, smooth": lambda draw, n, classes: convolution(draw, classes, True),
}


@dataclass(frozen=True)
class Case:
    """A random network, inputs and what is certified about them.

    Attributes:
        kind: of the network, a key of KINDS.
        trait: one of TRAITS.
        model: float64, in evaluation mode.
        x: (N, n), float64.
        k: size of the salient set.
        explainer: one of EXPLAINERS.
    """

    kind: str
    trait: str
    model: nn.Module
    x: Tensor
    k: int
    explainer: Explainer


def drawn_case(seed: int, rows: int, kind: str | None = None, trait: str | None = None) -> Case:
    """The case of a seed; kinds and traits come in turn unless they are asked for."""
    draw = Random(seed)
    kind = kind or draw.choice(list(KINDS))
    trait = trait or draw.choice(TRAITS)
    n = 16 if kind.startswith("convolution") else draw.randint(2, 6)
    classes = draw.choice((2, 2, 3, 4, 5))
    model = KINDS[kind](draw, n, classes).double().eval()
    _fill(model, draw, trait)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return Case(kind, trait, model, _inputs(draw, rows, n, trait), draw.randint(1, n - 1), draw.choice(EXPLAINERS))


def _inputs(draw: Random, rows: int, n: int, trait: str) -> Tensor:
    x = numbers(rows, n, seed=draw.randrange(10**9))
    if trait == "whole numbers":
        return x.round()
    return x * (x > -0.3) if trait == "zeros" else x


@torch.no_grad()
def _fill(model: nn.Module, draw: Random, trait: str) -> None:
    scale = draw.choice((0.3, 1.0, 2.0, 5.0))
    for parameter in model.parameters():
        values = numbers(*parameter.shape, seed=draw.randrange(10**9))
        if trait == "whole numbers":
            parameter.copy_(values.round())
        else:
            parameter.copy_(scale * values / parameter[0].numel() ** 0.5)
    layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    for layer in layers:
        if trait == "zeros":
            layer.bias.zero_()
    for layer in layers[:-1]:
        for row in range(len(layer.weight)):
            if trait == "dead" and draw.random() < 0.4:
                layer.weight[row], layer.bias[row] = 0.0, 0.0
            if trait == "copies" and row and draw.random() < 0.6:
                layer.weight[row], layer.bias[row] = layer.weight[row - 1], layer.bias[row - 1]
