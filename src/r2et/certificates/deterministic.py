"""The integral certificate of smooth networks: sound, for any depth (Prop. 4.5, corrected)."""

from dataclasses import replace

import torch
from torch import Tensor

from r2et.certificates.integral import alone_radii, crossing, integral_radii
from r2et.enclosure.attributions import Attributions
from r2et.enclosure.ball import march
from r2et.enclosure.feature_pairs import TIE, FeaturePairs, first_order_radii
from r2et.enclosure.head import Head, combination
from r2et.enclosure.network import Network

#: functionals that are looked at again, how many steps, and to how many times the first radius
SHARP, SHARP_STEPS, SHARP_END = 16, 48, 1.6
#: no radius is looked for beyond
FARTHEST = 1e12
#: even steps up to the first-order radius, which the integral cannot exceed, and growing ones beyond it
FINE, COARSE, GROWTH = 12, 10, 1.3
#: radii of a geometric grid, how often it is laid anew, by which share a radius has to grow for another time, and
#: below which share of the first-order radius the even steps are too long for a row
LOGARITHMIC, LAYINGS, MOVED, TOO_LONG = 32, 3, 0.02, 0.2


def deterministic_radii(attributions: Attributions, pairs: FeaturePairs) -> Tensor:
    """The radius to which each functional is certainly positive, (N, D)."""
    first = first_order_radii(pairs, attributions.slopes_at_x())
    radii = integral_radii(attributions.on_balls(grid(first)), pairs, first)
    return sharpened(attributions, pairs, refined_radii(attributions, pairs, radii, first), first)


def refined_radii(attributions: Attributions, pairs: FeaturePairs, radii: Tensor, first: Tensor) -> Tensor:
    """Radii (N, D) once more on geometric grids, from the smallest one found so far, until nothing moves.

    The first-order radius of a flat model is far beyond what its slopes allow on a ball of that size: already the
    first even step is too long, and says nothing. Each row is asked on its own whether it moves: what it gets does
    not depend on the others of its chunk.
    """
    last = _nearest(first)
    smallest = radii.amin(1)
    moves = (smallest > 0) & smallest.isfinite() & (smallest < TOO_LONG * last)
    rows = moves.nonzero().squeeze(1)
    radii = radii.clone()
    for _ in range(LAYINGS):
        if not len(rows):
            break
        before = radii[rows].amin(1)
        enclosed = attributions.only(rows).on_balls(geometric(before, 2 * last[rows]))
        again = integral_radii(enclosed, pairs.only(rows), first[rows])
        radii[rows] = torch.maximum(radii[rows], again)
        rows = rows[radii[rows].amin(1) > (1 + MOVED) * before]
    return radii


def geometric(start: Tensor, end: Tensor) -> Tensor:
    """Radii from `start` (N,) to `end` (N,), each a fixed factor above the one before it, (N, T)."""
    shares = torch.linspace(0, 1, LOGARITHMIC, dtype=start.dtype, device=start.device)
    return start.unsqueeze(1) * (end / start).unsqueeze(1) ** shares


def sharpened(attributions: Attributions, pairs: FeaturePairs, radii: Tensor, first: Tensor) -> Tensor:
    """The smallest radii once more with closer bounds and finer steps, which end where they are needed, (N, D)."""
    smallest = radii.amin(1, keepdim=True)
    if not smallest.isfinite().all():
        return radii
    shares = torch.arange(1, SHARP_STEPS + 1, dtype=radii.dtype, device=radii.device) / SHARP_STEPS
    # the integral cannot exceed the first-order radius
    end = torch.minimum(SHARP_END * smallest, torch.maximum(first.amin(1, keepdim=True), smallest))
    enclosed = attributions.on_balls(end * shares, tilted=True)
    numbers = radii.topk(min(SHARP, radii.shape[1]), 1, largest=False).indices
    before = radii.gather(1, numbers)
    return radii.scatter(1, numbers, torch.maximum(before, alone_radii(enclosed, pairs, numbers)))


def grid(first: Tensor) -> Tensor:
    """Radii at which enclosures are computed, (N, T), from first-order radii (N, D)."""
    fine = torch.arange(1, FINE + 1, dtype=first.dtype, device=first.device) / FINE
    growth = GROWTH ** torch.arange(1, COARSE + 1, dtype=first.dtype, device=first.device)
    return _nearest(first).unsqueeze(1) * torch.cat([fine, growth])


def _nearest(first: Tensor) -> Tensor:
    """The smallest first-order radius that says anything, (N,), from all of them (N, D)."""
    usable = torch.where((first > 0) & first.isfinite(), first, torch.inf).amin(1)
    # beyond that, squares of pre-activations would overflow
    return torch.where(usable.isfinite(), usable, 1.0).clamp_max(FARTHEST)


def output_radii(network: Network, x: Tensor, logits: Tensor, tolerance: float) -> Tensor:
    """The radius to which a single output certainly stays within a tolerance of what it is, (N,).

    Args:
        network: of one output.
        x: (N, n), float64.
        logits: at x, (N, 1).
        tolerance: above 0.
    """
    both = logits.new_tensor([[1.0], [-1.0]]).expand(len(x), 2, 1)
    # what has to stay positive is tolerance -+ (output - output at x): it moves as the output does
    head = combination(network, logits, both)
    return _positive_radii(network, x, replace(head, outputs=torch.full_like(head.outputs, tolerance)), both)


def order_radii(network: Network, x: Tensor, logits: Tensor, above: Tensor) -> Tensor:
    """The radius to which one class certainly stays above others, (N,).

    Args:
        network: any.
        x: (N, n), float64.
        logits: at x, (N, C).
        above: rows of combinations of logits that are to stay positive, (N, rows, C).
    """
    return _positive_radii(network, x, combination(network, logits, above), above)


def _positive_radii(network: Network, x: Tensor, head: Head, above: Tensor) -> Tensor:
    """The radius to which outputs of a linear head, combinations (N, rows, C), stay positive, (N,)."""
    start = next(march(network, x, head, x.new_zeros(len(x), 1)))
    times = grid(head.outputs / start.heights)
    balls = list(march(network, x, head, times))
    steps = times.diff(dim=1, prepend=torch.zeros_like(times[:, :1]))
    slopes = torch.stack([ball.heights for ball in balls], 2)
    error = torch.stack([2 * ball.output_error for ball in balls], 2)
    # classes that are copies of each other are apart by rounding, which may be another one elsewhere
    apart = head.outputs - TIE * (above.abs() @ network.logit_sizes(x).unsqueeze(2)).squeeze(2)
    radii = crossing(apart, slopes, steps, error)
    # where nothing moves an output it stays for ever
    radii = torch.where((slopes.amax(2) == 0) & (apart > 0) & _constant(network), torch.inf, radii)
    return radii.amin(1)


def _constant(network: Network) -> bool:
    return not network.layers or network.still


def other_classes(target: Tensor, classes: int, leave: Tensor | None = None) -> Tensor:
    """Rows e_c - e_j for the classes j other than c (N,) and than `leave` (N,), (N, rows, classes)."""
    eye = torch.eye(classes, dtype=torch.float64, device=target.device)
    everyone = torch.arange(classes, device=target.device).expand(len(target), -1)
    keep = everyone != target.unsqueeze(1)
    if leave is not None:
        keep = keep & (everyone != leave.unsqueeze(1))
    others = everyone[keep].reshape(len(target), -1)
    return eye[target].unsqueeze(1) - eye[others]
