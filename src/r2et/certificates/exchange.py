"""What attacks and certificates tell each other: points of a ball.

A point at which a functional is not positive ends every attempt to prove it; and the dual bound, while it looks
for multipliers, points to where in the ball a functional is smallest, which is where an attack may start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et.attacks import Attack, Best, Judge, Task
from r2et.certificates.combined import combined
from r2et.certificates.dual import Level, moving_layer, why_not_dual
from r2et.certificates.dual_bounds import Terms, ascended, started
from r2et.domain import Reach
from r2et.enclosure.feature_pairs import FeaturePairs, first_order_radii
from r2et.enclosure.problems import Problem, Reading, why_not
from r2et.enclosure.ranges import INFLATION
from r2et.explainers import ColumnEffects, Explainer, GradientTimesInput
from r2et.scores import predicted_class

#: functionals per input and radius whose smallest place is looked for, and the steps of ascent towards it
FUNCTIONALS, STEPS = 3, 12


@dataclass(frozen=True, kw_only=True)
class Hints(Attack):
    """Looks at the hints of a task, brought into its budget, and nowhere else.

    >>> from r2et.attacks import Task
    >>> model, x = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)), torch.randn(4, 6)
    >>> look = Hints(k=2, radius=0.5)
    >>> task = Task.prepare(look, model, x, hints=x.unsqueeze(1) + torch.randn(4, 3, 6))
    >>> [float(result.distance.max()) <= 0.5 + 1e-6 for result in look.on([task], [0.5])]
    [True]
    """

    steps: int = 1

    def run(self, task: Task, judge: Judge, best: Best) -> None:
        """Judge each of them."""
        if task.hints is not None:
            for number in range(task.hints.shape[1]):
                best.submit(judge.evaluate(task.project(task.hints[:, number])))


def quick_at_radii(model: nn.Module, x: Tensor, explainer: Explainer, reach: Reach) -> bool:
    """Whether bounds at given radii cost little beside a search: the dual bound applies, and by formulas.

    >>> from r2et.domain import under_threat
    >>> from r2et.explainers import Gradient
    >>> x = torch.randn(4, 6)
    >>> nets = [nn.Sequential(nn.Linear(6, 8), act, nn.Linear(8, 2)) for act in (nn.Tanh(), nn.GELU())]
    >>> [quick_at_radii(net, x, Gradient(), under_threat(net, x, None, None)[1]) for net in nets]
    [True, False]
    """
    if why_not(explainer, x) is not None:
        return False
    reading = Reading.of(model, x[:1], explainer, reach.movable)
    network = reading.network
    if why_not_dual(network, reading.explainer) is not None:
        return False
    family = "deterministic" if network.smooth else "piecewise"
    bounds = combined(network, reading.explainer, method="auto", family=family, radii=(1.0,), budget=None)
    activation = network.layers[moving_layer(network) or 0].activation
    known = activation is not None and (
        not activation.smooth or activation.places(torch.zeros(1, dtype=torch.float64)) is not None
    )
    return bounds.only_at_radii and known


def refuted_at(reading: Reading, problem: Problem, points: Tensor, radii: Sequence[float]) -> Tensor:
    """Which functionals are not positive at one of the points, at their radius or a smaller one, bool (R, N, D).

    It only says where a proof cannot succeed: nothing is proven by it. Points outside of their balls say nothing.

    Args:
        reading: of the model.
        problem: N of its inputs.
        points: one of each input for each of R rising radii, (R, N, *features).
        radii: these.
    """
    pairs = problem.pairs
    seen = torch.zeros((len(points), *pairs.values.shape), dtype=torch.bool, device=pairs.values.device)
    for place, (point, radius) in enumerate(zip(points, radii, strict=True)):
        if place:
            seen[place] = seen[place - 1]
        there = point.to(pairs.values).clone().requires_grad_()
        with torch.enable_grad():
            values = reading.explainer.attribute(reading.model, there, problem.target).detach().flatten(1)
        inside = (there.detach().flatten(1) - problem.attributions.x).norm(dim=1) <= radius * (1 + INFLATION / 2)
        seen[place] |= _not_positive(pairs, values) & inside.unsqueeze(1)
    return seen


def _not_positive(pairs: FeaturePairs, values: Tensor) -> Tensor:
    """Which functionals of signed attributions (N, n) are not above their ties, bool (N, D)."""
    strong = (pairs.sign * values.gather(1, pairs.top)).unsqueeze(2)
    weak = values.gather(1, pairs.rest).unsqueeze(1)
    gaps = [strong - weak, strong + weak] if pairs.both else [strong - weak]
    return ~(torch.stack(gaps, 1).flatten(1) > pairs.ties)


def places_to_start(
    model: nn.Module, x: Tensor, k: int, *, reach: Reach, explainer: Explainer, radii: Sequence[float]
) -> Tensor | None:
    """Points of the balls to which the dual bound of a few functionals leads, (N, M, *features).

    None where the dual bound does not apply.

    Args:
        model: in float64 and evaluation mode: what is explained under the threat.
        x: (N, *features), float64.
        k: size of the salient set.
        reach: what may be perturbed.
        explainer: of the list.
        radii: of the balls.
    """
    if why_not(explainer, x) is not None or _misses(explainer, x):
        return None
    reading = Reading.of(model, x, explainer, reach.movable)
    if why_not_dual(reading.network, reading.explainer) is not None:
        return None
    if isinstance(explainer, GradientTimesInput):
        # its multipliers are of two variables for each neuron, and lead to no point by themselves
        return None
    with torch.no_grad():
        target = predicted_class(model(x))
        parts = [_around(problem, radii) for problem in reading.problems(x, target, k, None)]
    return x.unsqueeze(1) + torch.cat(parts).reshape(len(x), -1, *x.shape[1:])


def _misses(explainer: Explainer, x: Tensor) -> bool:
    """Whether numbers are missing, in which rows are certified apart from each other."""
    return isinstance(explainer, ColumnEffects) and bool(explainer.columns.missing_in(x).any())


def _around(problem: Problem, radii: Sequence[float]) -> Tensor:
    """Moves (N, M, n) of the inputs of a chunk."""
    of, pairs = problem.attributions, problem.pairs
    first = first_order_radii(pairs, of.slopes_at_x()).nan_to_num(nan=torch.inf)
    count = min(FUNCTIONALS, first.shape[1])
    moves = []
    for radius in radii:
        # those about which most is open: a slope that stayed as it is would take them to zero just there
        far = (first.clamp_min(1e-300).log() - torch.tensor(radius, dtype=first.dtype).log()).abs()
        numbers = far.topk(count, 1, largest=False).indices
        rows = torch.arange(len(first), device=first.device).repeat_interleave(count)
        level = Level(of, pairs, first.new_full((len(first),), radius))
        terms, _ = level.terms(rows, *pairs.at(rows, numbers.flatten()))
        weights = of.network.moving[of.network.blocks[level.layer]]
        moves.append(_lowest(terms, weights).unflatten(0, (-1, count)))
    return torch.cat(moves, 1)


def _lowest(terms: Terms, weights: Tensor) -> Tensor:
    """The point of the ball that the best multipliers lead to, less x, (F, n), by the layer's weights (h, n)."""
    slopes = ascended(terms, started(terms), STEPS).slopes
    pull = slopes @ weights
    length = pull.norm(dim=1).clamp_min(1e-300)
    # what does not move has no weights, and a functional that is flat leads nowhere
    moves: Tensor = pull * (-terms.radius / length).unsqueeze(1)
    return moves
