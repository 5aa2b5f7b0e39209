"""Bounds of the gap thickness: proven by enclosures, or estimated as in the paper (Prop. 4.4)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.domain import Domain, Reach, Threat
from r2et.enclosure.attributions import pick
from r2et.enclosure.problems import Problem, Reading, why_not
from r2et.enclosure.size import Size
from r2et.errors import InputError, ModelError
from r2et.explainers import ColumnEffects, Explainer, Gradient
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_generator
from r2et.numerics.jacobian import jacobian
from r2et.numerics.memory import MOST_BYTES, in_gigabytes
from r2et.numerics.modes import own_draws
from r2et.numerics.preflight import measuring
from r2et.numerics.values import check_choice, check_count, check_positive
from r2et.stability.neighbours import UniformNeighbours
from r2et.stability.ranking_thickness import check_start, per_sample, start

BoundMethod = Literal["auto", "enclosure", "estimate"]
#: balls on the way to the radius
BALLS = 24
#: up to this many functionals get a slope of their own; of more, those of their features are added
ONE_BY_ONE = 4096
#: copies of the derivative that the estimate keeps
KEPT = 3
#: entries of bounds of functionals on all balls that are kept at once
AT_ONCE = 2**21


@dataclass(frozen=True)
class ThicknessBounds:
    """Bounds of the top-k gap thickness; unpacks as `lower, upper`.

    Attributes:
        lower: (N,).
        upper: (N,).
        sound: whether the bounds are proven. The estimates of Prop. 4.4 are not: the lower one is a Taylor
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
    *,
    explainer: Explainer | None = None,
    method: BoundMethod = "auto",
    samples: int = 16,
    generator: torch.Generator | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
) -> ThicknessBounds:
    """Bounds of the gap thickness for neighbours within a radius, over the top-k pairs (Prop. 4.4, A.1.3).

    "enclosure" proves them: lower = h - (1/radius) int_0^radius int_0^t B(s) ds dt with B an enclosure of the
    slope of the gap on the ball of radius s, and upper = h + the same with the slopes of both features. It needs a
    smooth network whose layers are known, and Gradient, GradientTimesInput or SmoothGrad of the log-odds or a
    logit. "estimate" is the paper's: lower = h - radius/2 ||H_i - H_j||, upper = h + radius (L_i + L_j),
    H_i = dI_i/dx. The derivative is that of the explainer as a whole, which gives the corrected SG, Grad x Inp and
    IG versions of A.1.2; its memory is quadratic in the number of features.

    Args:
        model: maps (N, *features) to logits (N, C); it is measured in evaluation mode and left as it was.
        x: (N, *features).
        k: size of the salient set.
        radius: of the ball that holds the neighbours.
        explainer: None = Gradient of the probability, the paper's, for which there is only the estimate.
        method: "auto" takes the enclosure where there is one.
        samples: of the estimate: points in the ball over which L_i is maximised, besides x itself.
        generator: of these points; None = as in `thickness`.
        domain: as in `thickness`.
        threat: as in `thickness`. What cannot move leaves the ball; bounds and whole steps are not used by what is
            proven, which holds beyond them too.

    >>> model = torch.nn.Linear(5, 2)
    >>> bounds = thickness_bounds(model, torch.randn(3, 5), k=2, radius=0.1, explainer=Gradient())
    >>> bounds.sound, bool(torch.allclose(bounds.lower, bounds.upper))   # two linear classes have no curvature
    (True, True)
    """
    check_positive("radius", radius)
    check_choice("method", method, get_args(BoundMethod))
    check_count("samples", samples)
    check_generator(generator)
    explainer = Gradient(score="probability") if explainer is None else explainer
    model, reach = check_start(model, x, explainer, domain, threat)
    with measuring(model, x):
        before, target = start(model, x, k, explainer)
        reading = "the estimate was asked for" if method == "estimate" else _read(model, x, k, explainer, reach)
        if isinstance(reading, str):
            if method == "enclosure":
                raise InputError(f"thickness cannot be bounded by an enclosure: {reading}")
            return _estimated(
                model,
                x,
                k,
                radius,
                explainer=explainer,
                reach=reach,
                samples=samples,
                generator=own_draws(generator, x),
            )
    with torch.no_grad():
        bounds = [_proven(problem, radius) for problem in reading.problems(x, target, k, None)]
    lower, upper = (torch.cat(part).to(before) for part in zip(*bounds, strict=True))
    note = "proven for neighbours inside the ball, in float64 without directed rounding"
    return ThicknessBounds(lower, upper, sound=True, note=note)


def _read(model: nn.Module, x: Tensor, k: int, explainer: Explainer, reach: Reach) -> Reading | str:
    """The model as enclosures see it, or why they do not."""
    obstacle = why_not(explainer, x)
    if obstacle is None and explainer.score not in ("log-odds", "logit"):
        obstacle = f"the gradient of the {explainer.score} is not enclosed to scale; that of the log-odds is"
    if obstacle is None and isinstance(explainer, ColumnEffects) and explainer.columns.missing_in(x).any():
        obstacle = "the columns that have slopes differ from row to row where numbers are missing"
    if obstacle is not None:
        return obstacle
    try:
        # what cannot move leaves the ball
        reading = Reading.of(model, x, explainer, None if bool(reach.movable.all()) else reach.movable)
        Size.of(reading.network, explainer, k).check()
    except ModelError as error:
        return str(error)
    return reading if reading.network.smooth else "the network has kinks, where the explanation jumps"


def _proven(problem: Problem, radius: float) -> tuple[Tensor, Tensor]:
    """Means over all pairs of the bounds of one chunk, (N,) each."""
    attributions, pairs = problem.attributions, problem.pairs
    times = torch.arange(1, BALLS + 1, device=attributions.x.device) * radius / BALLS
    enclosed = attributions.on_balls(times.to(attributions.x).expand(len(attributions.x), -1))
    steps = enclosed.steps.unsqueeze(1)

    def moved(slopes: Tensor) -> Tensor:
        """Integrals of slopes (N, D, T) from 0 to the ends of all steps, (N, D, T + 1)."""
        return torch.nn.functional.pad((slopes * steps).cumsum(2), (1, 0))

    features = moved(enclosed.feature_slopes)
    k, others = pairs.top.shape[1], pairs.rest.shape[1]
    one_by_one = pairs.values.shape[1] <= ONE_BY_ONE

    def means(part: Tensor) -> Tensor:
        """Means of both bounds over the pairs with some of the other features (c,), (2, N, T + 1)."""
        numbers = part.flatten().expand(len(features), -1)
        i, a, j, b = pairs.select(numbers)
        apart = pick(features, i) + pick(features, j)
        loss = moved(enclosed.slopes(i, a, j, b)) if one_by_one else apart
        error = 2 * enclosed.error_of(i, a, j, b)[..., -1:]
        values, ties = (of.gather(1, numbers).unsqueeze(2) for of in (pairs.values, pairs.ties))
        # for magnitudes the gap is the smaller one of two functionals, at every radius anew
        both = values - loss - error, values + 2 * ties + apart + error
        return torch.stack([bound.unflatten(1, part.shape).amin(1).mean((1, 2)) for bound in both])

    everyone = torch.arange(pairs.values.shape[1], device=times.device).reshape(-1, k, others)
    size = max(1, AT_ONCE // (len(features) * len(everyone) * k * BALLS))
    parts = [means(part) * (part.shape[2] / others) for part in everyone.split(size, 2)]
    least, most = torch.stack(parts).sum(0)
    return _along(least), _along(most)


def _along(bound: Tensor) -> Tensor:
    """The mean over the radius of what is concave or linear in every step, from the ends (N, T + 1)."""
    return (bound[:, 1:] + bound[:, :-1]).mean(1) / 2


def _estimated(
    model: nn.Module,
    x: Tensor,
    k: int,
    radius: float,
    *,
    explainer: Explainer,
    reach: Reach,
    samples: int,
    generator: torch.Generator | None,
) -> ThicknessBounds:
    """The paper's bounds, along what can be reached."""
    before, target = start(model, x, k, explainer)
    before = explainer.ranked(before, k)
    asked = KEPT * before[0].numel() * x[0].numel() * x.element_size()
    if asked > MOST_BYTES:
        raise InputError(
            f"the estimate of bounds of the thickness keeps {before[0].numel():,} x {x[0].numel():,} derivatives "
            f"for each input, {in_gigabytes(asked)}, more than the {in_gigabytes(MOST_BYTES)} that are allowed"
        )
    top = ranking.top_k_mask(before, k)
    gap = (ranking.all_pair_weights(before, k) * before).sum(-1)

    def rows(points: Tensor) -> Tensor:
        point, logits = forward(model, points)
        with torch.enable_grad():
            attributions = explainer.attribute(model, point, target, create_graph=True, logits=logits)
            scores = explainer.ranked(explainer.flatten(attributions), k)
        slopes = jacobian(scores, point).detach().reshape(*before.shape, *x.shape[1:])
        return reach.along(slopes, axis=before.ndim + explainer.inputs - 1).flatten(start_dim=before.ndim)

    at_x = rows(x)
    width = at_x.shape[-1]
    members = top[..., None].expand_as(at_x)
    salient = at_x[members].reshape(*before.shape[:-1], k, width)
    other = at_x[~members].reshape(*before.shape[:-1], -1, width)
    distance = torch.cdist(salient, other, compute_mode="donot_use_mm_for_euclid_dist").mean((-1, -2))
    steepest = at_x.norm(dim=-1)
    for points in UniformNeighbours(radius).each(model, x, samples, generator):
        points = reach.near(points, x, inputs=explainer.inputs, inwards=True)
        steepest = torch.maximum(steepest, rows(explainer.within(points, x)).norm(dim=-1))
    # the mean of L_i + L_j over all pairs is the mean over each side
    slope = torch.where(top, steepest / k, steepest / (top.shape[-1] - k)).sum(-1)
    lower, upper = gap - radius / 2 * distance, gap + radius * slope
    note = (
        "estimates: the lower bound is a first-order expansion at x, the upper bound takes the steepest of "
        f"{samples + 1} points; both are meant for neighbours inside the ball"
    )
    return ThicknessBounds(per_sample(lower), per_sample(upper), sound=False, note=note)
