"""The paper's point estimate of a radius: a first-order expansion at x, which attacks do get inside of."""

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.certificates.certificate import Certificate, in_words
from r2et.domain import Domain, Reach, Threat, under_threat
from r2et.enclosure.feature_pairs import FeaturePairs, first_order_radii
from r2et.enclosure.size import Size
from r2et.enclosure.slopes import Slopes
from r2et.explainers import Explainer, Gradient
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_inputs, check_logits
from r2et.numerics.jacobian import jacobian_rows
from r2et.numerics.memory import at_once
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.values import check_chunk_size, check_k, check_kind
from r2et.scores import checked_target

#: how many copies of an input are kept for its pairs, and of a derivative while it is made
COPIES, KEPT = 128, 4


def first_order(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    explainer: Explainer | None = None,
    target: Tensor | None = None,
    domain: Domain | None = None,
    threat: Threat | None = None,
    chunk_size: int | None = None,
) -> Certificate:
    """min over pairs of h(x, i, j) / ||H_i(x) - H_j(x)||: Prop. 4.5 without its maximum. Not a certificate.

    The derivative is that of the explainer as a whole, so any differentiable explainer works. For a ReLU net the
    Hessian of the logits is zero almost everywhere and the estimate is infinite: that means nothing.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        k: size of the salient set.
        explainer: None = Gradient.
        target: the class that is explained, int64 (N,); None = the predicted class.
        domain: what exists.
        threat: what may move; None = "domain" where a domain is known, else "paper".
        chunk_size: how many inputs at once; None = what keeps memory small. Time, not memory, is quadratic in the
            number of features.

    >>> model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> first_order(model, torch.randn(4, 6), k=2).sound
    False
    """
    explainer = Gradient() if explainer is None else explainer
    check_inputs(x)
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    check_module(model)
    model, reach = under_threat(model, x, domain, threat, inputs=explainer.inputs)
    return estimate(model, x, k, reach=reach, explainer=explainer, target=target, chunk_size=chunk_size)


def estimate(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    reach: Reach,
    explainer: Explainer,
    target: Tensor | None = None,
    chunk_size: int | None = None,
) -> Certificate:
    """`first_order` of a model that is already what is explained under a threat (f o A)."""
    check_chunk_size(chunk_size)
    explainer.check_shape(x)
    explainer.refuse_moves(reach.movable)
    size = int(chunk_size or at_once(x[0].numel(), copies=COPIES))
    limits, tops = [], []
    with measuring(model, x):
        classes = checked_target(target, _logits(model, x))
        for part, label in zip(x.detach().split(size), classes.split(size), strict=True):
            point, logits = forward(model, part)
            with torch.enable_grad():
                scores = explainer.flatten(
                    explainer.attribute(model, point, label, create_graph=True, logits=logits)
                )
            check_k(k, scores.shape[-1])
            Size(features=part[0].numel(), attributions=scores.shape[-1], k=k, base=0, neurons=0, balls=0).check()
            # both inputs of a pair are ranked on their own; the smaller radius counts
            flat = scores.detach().reshape(-1, scores.shape[-1])
            pairs = FeaturePairs.of(flat, k, signed=True)
            radii = first_order_radii(pairs, _slopes(scores, point, reach))
            limits.append(pairs.limits(radii).reshape(len(part), -1, k).amin(1))
            scores = scores.detach()
            tops.append(ranking.top_k(scores, k))
    return Certificate(
        limits=torch.cat(limits),
        method="first-order",
        explanation=repr(explainer),
        sound=False,
        assumptions=(
            in_words(reach),
            "the explanation is linear around x, which it is not: attacks succeed inside this radius",
        ),
        top=torch.cat(tops),
    )


def _slopes(scores: Tensor, point: Tensor, reach: Reach) -> Slopes:
    """Derivatives of scores (N, n), or (N, 2, n), by what may move; the inputs of a pair are rows of their own."""
    features, rows = scores.shape[-1], len(point)
    flat = scores.flatten(1)
    first = features * torch.arange(flat.shape[1] // features, device=scores.device)

    def rows_of(numbers: Tensor) -> Tensor:
        numbers = numbers.reshape(rows, -1, numbers.shape[1]) + first.unsqueeze(1)
        with torch.enable_grad():
            found = jacobian_rows(flat, point, numbers.flatten(1)).detach()
        found = reach.allowed(found.unflatten(-1, (-1, len(reach.movable)))).flatten(-2)
        return found.reshape(rows * len(first), -1, found.shape[-1])

    return Slopes(rows_of, features, KEPT * point.numel() * len(first))


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        logits = model(x)
    check_logits(logits, len(x))
    return logits  # type: ignore[no-any-return]  # modules return Any
