"""Ranking thickness: how far the top-k features stay on top in a neighbourhood (Sec. 4.1)."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.domain import Domain, Reach, Threat, under_threat
from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_generator, check_inputs
from r2et.numerics.memory import at_once
from r2et.numerics.modes import evaluating, own_draws
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.values import check_choice, check_chunk_size, check_count, check_kind, is_whole, quoted
from r2et.stability.neighbours import AdversarialNeighbours, GaussianNeighbours, Neighbours

Variant = Literal["probability", "gap", "average-precision", "dcg"]


def thickness(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    explainer: Explainer | None = None,
    variant: Variant = "probability",
    neighbours: Neighbours | None = None,
    samples: int = 16,
    steps: int = 8,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
) -> Tensor:
    """Top-k ranking thickness of each input (Eq. 2, 3 and the variants of Sec. 4.1).

    Args:
        model: maps (N, *features) to logits (N, C); it is measured in evaluation mode and left as it was.
        x: (N, *features).
        k: size of the salient set.
        explainer: None = Gradient of the log-odds for "probability" (only the order counts), of the probability
            for the other variants, whose scale is that of Eq. 2.
        variant: "probability": the share of pairs in order; "gap": their mean gap (Eq. 3);
            "average-precision": the mean of the gaps for 1..k; "dcg": the sum of the gaps, discounted. Where lists
            name positive scores alone, the k places of a list are compared with all other places, empty ones too
            (`r2et.ranking.with_blanks`): 1 = no list changes.
        neighbours: the distribution D; None = GaussianNeighbours(0.1).
        samples: how many neighbours are drawn.
        steps: points on the path from x to each neighbour (midpoint rule).
        generator: of the draws; None = what torch's global one would draw next, which stays where it is.
        chunk_size: how many points (neighbour x step) are evaluated at once; None = as many as fit 2**24 values.
        domain: the inputs that exist; None = that is unknown.
        threat: neighbours are what an attacker could reach under it, as in a call of an attack: "domain",
            "tangent" or "paper". But for "paper", the model is explained without its gauge
            (`r2et.domain.without_gauge`). None = "domain" where a domain is known, else "paper".

    Returns:
        (N,); the mean over both inputs for a two-input explainer.

    >>> model = torch.nn.Linear(5, 2)
    >>> thickness(model, torch.randn(3, 5), k=2)      # a two-class linear model never reorders
    tensor([1., 1., 1.])
    """
    check_choice("variant", variant, get_args(Variant))
    if explainer is None:
        explainer = Gradient(score="log-odds" if variant == "probability" else "probability")
    neighbours = GaussianNeighbours() if neighbours is None else neighbours
    model, reach = check_start(model, x, explainer, domain, threat)
    neighbours = attacked_within(neighbours, domain, threat)
    draws = own_draws(generator, x)
    with measuring(model, x):
        before, target = start(model, x, k, explainer)
        measure = _measure(variant, explainer.ranked(before, k), k)
        along = [
            measure(explainer.ranked(scores, k))
            for scores in path_explanations(
                model,
                x,
                target,
                explainer=explainer,
                neighbours=neighbours,
                samples=samples,
                steps=steps,
                generator=draws,
                chunk_size=chunk_size,
                reach=reach,
            )
        ]
    values = torch.cat(along).unflatten(0, (-1, steps)).mean(1)
    combined = values.amin(0) if neighbours.aggregate == "minimum" else values.mean(0)
    return per_sample(combined)


def pairwise_thickness(
    model: nn.Module,
    x: Tensor,
    i: int,
    j: int,
    *,
    explainer: Explainer | None = None,
    neighbours: Neighbours | None = None,
    samples: int = 16,
    steps: int = 8,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
) -> Tensor:
    """The mean gap between two features around each input (Eq. 2), (N, ...); arguments as in `thickness`.

    >>> model = torch.nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 4.0]])
    >>> pairwise_thickness(model, torch.ones(1, 3), i=2, j=0, explainer=Gradient())
    tensor([3.])
    """
    explainer = Gradient(score="probability") if explainer is None else explainer
    neighbours = GaussianNeighbours() if neighbours is None else neighbours
    model, reach = check_start(model, x, explainer, domain, threat)
    neighbours = attacked_within(neighbours, domain, threat)
    draws = own_draws(generator, x)
    with measuring(model, x):
        before, target = start(model, x, 1, explainer)
        for feature in (i, j):
            if not is_whole(feature) or not 0 <= feature < before.shape[-1]:
                raise InputError(f"there is no feature {quoted(feature)}: the explanation has {before.shape[-1]}")
        gaps = [
            scores[..., i] - scores[..., j]
            for scores in path_explanations(
                model,
                x,
                target,
                explainer=explainer,
                neighbours=neighbours,
                samples=samples,
                steps=steps,
                generator=draws,
                chunk_size=chunk_size,
                reach=reach,
            )
        ]
    return torch.cat(gaps).mean(0)


def check_start(
    model: nn.Module, x: Tensor, explainer: Explainer, domain: Domain | None, threat: Threat | None
) -> tuple[nn.Module, Reach]:
    """Raise unless x can be explained; what is measured under the threat, and where neighbours may be."""
    check_inputs(x)
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    explainer.check_shape(x)
    check_module(model)
    return under_threat(model, x, domain, threat, inputs=explainer.inputs)


def attacked_within(neighbours: Neighbours, domain: Domain | None, threat: Threat | None) -> Neighbours:
    """Neighbours whose attacks, if they come from attacks that know of no domain, respect this one."""
    if isinstance(neighbours, AdversarialNeighbours) and neighbours.domain is None and domain is not None:
        return replace(neighbours, domain=domain, threat=threat)
    return neighbours


def start(model: nn.Module, x: Tensor, k: int, explainer: Explainer) -> tuple[Tensor, Tensor]:
    """The explanation of the clean input, and the class that is held fixed around it."""
    _, target, before = explainer.explained(model, x)
    explainer.check_k(k, before.shape[-1])
    return before, target


def path_explanations(
    model: nn.Module,
    x: Tensor,
    target: Tensor,
    *,
    explainer: Explainer,
    neighbours: Neighbours,
    samples: int,
    steps: int,
    generator: torch.Generator | None,
    chunk_size: int | None,
    reach: Reach | None = None,
    create_graph: bool = False,
) -> Iterator[Tensor]:
    """Explanations at the midpoints of the paths to neighbours (the integrand of Eq. 2).

    Yields them in chunks (points, N, ..., n); the step varies fastest, then the neighbour. With `create_graph`
    they stay differentiable with respect to the model's parameters. Neighbours are brought within `reach`, and
    rounded there; the path to them is straight.
    """
    check_kind("neighbours", neighbours, Neighbours, "r2et.stability.GaussianNeighbours(0.1)")
    check_count("samples", samples)
    check_count("steps", steps)
    check_chunk_size(chunk_size)
    check_generator(generator)
    reach = Domain().reach("paper", x[0].numel() // explainer.inputs) if reach is None else reach
    ends = (
        explainer.within(reach.near(neighbour, x, inputs=explainer.inputs, inwards=neighbours.inside_ball), x)
        for neighbour in neighbours.each(model, x, samples, generator)
    )
    points = (torch.lerp(x, end, (step + 0.5) / steps) for end in ends for step in range(steps))
    chunk = chunk_size or at_once(x.numel())
    while part := list(itertools.islice(points, chunk)):
        # what is to be differentiated by the parameters belongs to training, which decides on the mode itself
        with nullcontext() if create_graph else evaluating(model), torch.enable_grad():
            point, logits = forward(model, torch.cat(part) if len(part) > 1 else part[0])
            attributions = explainer.attribute(
                model, point, target.repeat(len(part)), create_graph=create_graph, logits=logits
            )
        scores = explainer.flatten(attributions).unflatten(0, (len(part), len(x)))
        yield scores if create_graph else scores.detach()


def _measure(variant: Variant, before: Tensor, k: int) -> Callable[[Tensor], Tensor]:
    """A functional of ranked scores (..., N, ..., n) whose mean over neighbours is the thickness."""
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


def per_sample(values: Tensor) -> Tensor:
    """(N,) from (N,) or, for pairs of inputs, from (N, 2)."""
    return values.flatten(start_dim=1).mean(1) if values.ndim > 1 else values
