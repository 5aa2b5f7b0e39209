"""Ranking thickness: how far the top-k features stay on top in a neighbourhood (Sec. 4.1), and its bounds."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et._checks import InputError, check_choice, check_chunk_size, check_inputs, check_k, check_positive
from r2et.explain import Explainer, Gradient
from r2et.explain.averaged import VALUES_AT_ONCE
from r2et.explain.base import forward, prediction, unit
from r2et.explain.jacobian import jacobian

Variant = Literal["probability", "gap", "average-precision", "dcg"]
Aggregate = Literal["mean", "minimum"]


class Neighbours(ABC):
    """The distribution D of perturbed inputs x' around x (Eq. 2)."""

    aggregate: Aggregate = "mean"

    @abstractmethod
    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Neighbours of x (N, *features) one after the other, in the shape of x: all at once may not fit."""

    def draw(self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
        """All of them, (samples, N, *features)."""
        return torch.stack(list(self.each(model, x, samples, generator)))


@dataclass(frozen=True)
class GaussianNeighbours(Neighbours):
    """x' = x + sigma z, z standard normal.

    Args:
        sigma: standard deviation in the units of x.
        aggregate: "mean" over the samples, or the "minimum" (Fig. 4).

    >>> GaussianNeighbours(0.1).draw(torch.nn.Identity(), torch.zeros(5, 3), 7, None).shape
    torch.Size([7, 5, 3])
    """

    sigma: float = 0.1
    aggregate: Aggregate = "mean"

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        check_choice("aggregate", self.aggregate, get_args(Aggregate))

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws."""
        return (torch.add(x, _normal(x, generator), alpha=self.sigma) for _ in range(samples))


@dataclass(frozen=True)
class UniformNeighbours(Neighbours):
    """x' uniform in the L2 ball of a radius around x; a pair of inputs shares one ball.

    >>> x = UniformNeighbours(0.5).draw(torch.nn.Identity(), torch.zeros(5, 3), 7, None)
    >>> bool((x.norm(dim=-1) <= 0.5).all())
    True
    """

    radius: float
    aggregate: Aggregate = "mean"

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)
        check_choice("aggregate", self.aggregate, get_args(Aggregate))

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws: a Gaussian direction, and the radius times a power of a uniform number."""
        dimensions = x[0].numel()
        for _ in range(samples):
            direction = unit(_normal(x, generator))
            share = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
            length = self.radius * share ** (1 / dimensions)
            yield x + length.reshape(-1, *[1] * (x.ndim - 1)) * direction


class _Attacked(Protocol):
    @property
    def x(self) -> Tensor: ...


class _Attack(Protocol):
    def __call__(self, model: nn.Module, x: Tensor) -> _Attacked: ...


@dataclass(frozen=True)
class AdversarialNeighbours(Neighbours):
    """x' found by attacks (Fig. 2, Fig. 4): one neighbour for each attack given; `samples` is not used.

    >>> import r2et
    >>> neighbours = AdversarialNeighbours(r2et.attacks.ERAttack(k=1, radius=0.1, steps=2))
    >>> neighbours.draw(torch.nn.Linear(3, 2), torch.zeros(5, 3), 16, None).shape
    torch.Size([1, 5, 3])
    """

    attack: _Attack | tuple[_Attack, ...]
    aggregate: Aggregate = "mean"

    def __post_init__(self) -> None:
        check_choice("aggregate", self.aggregate, get_args(Aggregate))

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """The perturbed inputs of each attack."""
        attacks = self.attack if isinstance(self.attack, tuple) else (self.attack,)
        return (attack(model, x).x for attack in attacks)


def thickness(
    model: nn.Module,
    x: Tensor,
    k: int,
    explainer: Explainer | None = None,
    variant: Variant = "probability",
    neighbours: Neighbours | None = None,
    samples: int = 16,
    steps: int = 8,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Top-k ranking thickness of each input (Eq. 2, 3 and the variants of Sec. 4.1).

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        k: size of the salient set.
        explainer: None = Gradient of the log-odds for "probability" (only the order counts), of the probability
            for the other variants, whose scale is that of Eq. 2.
        variant: "probability": the share of pairs in order; "gap": their mean gap (Eq. 3);
            "average-precision": the mean of the gaps for 1..k; "dcg": the sum of the gaps, discounted.
        neighbours: the distribution D; None = GaussianNeighbours(0.1).
        samples: how many neighbours are drawn.
        steps: points on the path from x to each neighbour (midpoint rule).
        generator: of the draws.
        chunk_size: how many points (neighbour x step) are evaluated at once; None = as many as fit 2**24 values.

    Returns:
        (N,); the mean over both inputs for a two-input explainer.

    >>> model = torch.nn.Linear(5, 2)
    >>> thickness(model, torch.randn(3, 5), k=2)      # a two-class linear model never reorders
    tensor([1., 1., 1.])
    """
    check_choice("variant", variant, get_args(Variant))
    explainer = explainer or Gradient(score="log-odds" if variant == "probability" else "probability")
    before, target = _start(model, x, k, explainer)
    measure = _measure(variant, before, k)
    neighbours = neighbours or GaussianNeighbours()
    along = [
        measure(scores)
        for scores in path_explanations(
            model, x, target, explainer, neighbours, samples, steps, generator, chunk_size
        )
    ]
    values = torch.cat(along).unflatten(0, (-1, steps)).mean(1)
    combined = values.amin(0) if neighbours.aggregate == "minimum" else values.mean(0)
    return _per_sample(combined)


def pairwise_thickness(
    model: nn.Module,
    x: Tensor,
    i: int,
    j: int,
    explainer: Explainer | None = None,
    neighbours: Neighbours | None = None,
    samples: int = 16,
    steps: int = 8,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """The mean gap between two features around each input (Eq. 2), (N, ...); arguments as in `thickness`.

    >>> model = torch.nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]])
    >>> pairwise_thickness(model, torch.ones(1, 3), i=2, j=0, explainer=Gradient())
    tensor([3.])
    """
    explainer = explainer or Gradient(score="probability")
    before, target = _start(model, x, 1, explainer)
    for feature in (i, j):
        if not 0 <= feature < before.shape[-1]:
            raise InputError(f"there is no feature {feature}: the explanation has {before.shape[-1]}")
    gaps = [
        scores[..., i] - scores[..., j]
        for scores in path_explanations(
            model, x, target, explainer, neighbours or GaussianNeighbours(), samples, steps, generator, chunk_size
        )
    ]
    return torch.cat(gaps).mean(0)


@dataclass(frozen=True)
class ThicknessBounds:
    """Bounds of the top-k gap thickness; unpacks as `lower, upper`.

    Attributes:
        lower: (N,).
        upper: (N,).
        sound: whether the bounds are proven. The ones of Prop. 4.4 are not: the lower one is a Taylor
            expansion at x, the upper one takes a maximum over sampled points.
        note: the same in words.
    """

    lower: Tensor
    upper: Tensor
    sound: bool
    note: str

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.lower, self.upper))


def thickness_bounds(
    model: nn.Module,
    x: Tensor,
    k: int,
    radius: float,
    explainer: Explainer | None = None,
    samples: int = 16,
    generator: torch.Generator | None = None,
) -> ThicknessBounds:
    """Estimates of the bounds of Prop. 4.4 for neighbours within a radius, averaged over the top-k pairs (A.1.3).

    lower = h - radius/2 ||H_i - H_j||, upper = h + radius (L_i + L_j), H_i = dI_i/dx. The derivative is that of
    the explainer as a whole, which gives the corrected SG, Grad x Inp and IG versions of A.1.2. Memory is
    quadratic in the number of features.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        k: size of the salient set.
        radius: of the ball that holds the neighbours.
        explainer: None = Gradient of the probability.
        samples: points in the ball over which L_i is maximised, besides x itself.
        generator: of these points.

    >>> model = torch.nn.Linear(5, 2)
    >>> lower, upper = thickness_bounds(model, torch.randn(3, 5), k=2, radius=0.1, explainer=Gradient())
    >>> bool(torch.equal(lower, upper))      # the log-odds of two linear classes have no curvature
    True
    """
    check_positive("radius", radius)
    explainer = explainer or Gradient(score="probability")
    before, target = _start(model, x, k, explainer)
    top = ranking.top_k_mask(before, k)
    gap = (ranking.all_pair_weights(before, k) * before).sum(-1)

    def rows(points: Tensor) -> Tensor:
        point, logits = forward(model, points)
        scores = explainer.flatten(explainer.attribute(model, point, target, True, logits))
        return jacobian(scores, point).detach().reshape(*before.shape, -1)

    at_x = rows(x)
    width = at_x.shape[-1]
    members = top[..., None].expand_as(at_x)
    salient = at_x[members].reshape(*before.shape[:-1], k, width)
    other = at_x[~members].reshape(*before.shape[:-1], -1, width)
    distance = torch.cdist(salient, other, compute_mode="donot_use_mm_for_euclid_dist").mean((-1, -2))
    steepest = at_x.norm(dim=-1)
    for points in UniformNeighbours(radius).each(model, x, samples, generator):
        steepest = torch.maximum(steepest, rows(points).norm(dim=-1))
    # the mean of L_i + L_j over all pairs is the mean over each side
    slope = torch.where(top, steepest / k, steepest / (top.shape[-1] - k)).sum(-1)
    lower, upper = gap - radius / 2 * distance, gap + radius * slope
    note = (
        "estimates: the lower bound is a first-order expansion at x, the upper bound takes the steepest of "
        f"{samples + 1} points; both are meant for neighbours inside the ball"
    )
    return ThicknessBounds(_per_sample(lower), _per_sample(upper), sound=False, note=note)


def _start(model: nn.Module, x: Tensor, k: int, explainer: Explainer) -> tuple[Tensor, Tensor]:
    """The explanation of the clean input, and the class that is held fixed around it."""
    check_inputs(x)
    explainer.check_shape(x)
    target = prediction(model, x)
    before = explainer(model, x, target)
    check_k(k, before.shape[-1])
    return before, target


def path_explanations(
    model: nn.Module,
    x: Tensor,
    target: Tensor,
    explainer: Explainer,
    neighbours: Neighbours,
    samples: int,
    steps: int,
    generator: torch.Generator | None,
    chunk_size: int | None,
    create_graph: bool = False,
) -> Iterator[Tensor]:
    """Explanations at the midpoints of the paths to neighbours (the integrand of Eq. 2).

    Yields them in chunks (points, N, ..., n); the step varies fastest, then the neighbour. With `create_graph`
    they stay differentiable with respect to the model's parameters.
    """
    check_positive("samples", samples)
    check_positive("steps", steps)
    check_chunk_size(chunk_size)
    points = (
        torch.lerp(x, neighbour, (step + 0.5) / steps)
        for neighbour in neighbours.each(model, x, samples, generator)
        for step in range(steps)
    )
    chunk = chunk_size or max(1, VALUES_AT_ONCE // x.numel())
    while part := list(itertools.islice(points, chunk)):
        point, logits = forward(model, torch.cat(part) if len(part) > 1 else part[0])
        with torch.enable_grad():
            attributions = explainer.attribute(model, point, target.repeat(len(part)), create_graph, logits)
        scores = explainer.flatten(attributions).unflatten(0, (len(part), len(x)))
        yield scores if create_graph else scores.detach()


def _measure(variant: Variant, before: Tensor, k: int) -> Callable[[Tensor], Tensor]:
    """A functional of explanations (..., N, ..., n) whose mean over neighbours is the thickness."""
    if variant == "probability":
        top = ranking.top_k(before, k)
        return lambda scores: ranking.fraction_in_order(scores, top)
    if variant == "gap":
        weights = ranking.all_pair_weights(before, k)
    elif variant == "average-precision":
        weights = ranking.average_precision_weights(before, k)
    else:
        weights = ranking.dcg_weights(before, k)
    return lambda scores: (scores * weights).sum(-1)


def _per_sample(values: Tensor) -> Tensor:
    """(N,) from (N,) or, for pairs of inputs, from (N, 2)."""
    return values.flatten(start_dim=1).mean(1) if values.ndim > 1 else values


def _normal(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
