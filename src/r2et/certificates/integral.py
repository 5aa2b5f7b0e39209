"""Where the integral of a slope turns a gap: radii of all functionals of a chunk of inputs."""

from collections.abc import Callable

import torch
from torch import Tensor

from r2et.enclosure.attributions import Enclosed, pick
from r2et.enclosure.feature_pairs import FeaturePairs

#: functionals that are bounded one by one, beyond those that decide about the radius
AT_MOST = 128

Radii = Callable[[Tensor], Tensor]


def integral_radii(enclosed: Enclosed, pairs: FeaturePairs, first: Tensor) -> Tensor:
    """Where each functional may reach zero, (N, D): phi(x + delta) >= phi(x) - integral of its slope.

    Functionals far from zero are bounded together, by the slopes of the two features they are between; the
    others by their own slope.

    Args:
        enclosed: the attributions on balls.
        pairs: the functionals.
        first: first-order radii (N, D), which bound from above what the integral can reach.
    """

    def together(numbers: Tensor) -> Tensor:
        i, _, j, _ = pairs.select(numbers)
        slopes = pick(enclosed.feature_slopes, i) + pick(enclosed.feature_slopes, j)
        return _radii(enclosed, pairs, numbers, slopes)

    if enclosed.of.network.still or (enclosed.flat and not enclosed.of.times_input):
        # nothing on any ball moves the attributions
        return torch.where(pairs.values > 0, torch.full_like(pairs.values, torch.inf), 0.0)
    return refined(
        pairs, together, lambda numbers: alone_radii(enclosed, pairs, numbers), first, enclosed.times.shape[1]
    )


def alone_radii(enclosed: Enclosed, pairs: FeaturePairs, numbers: Tensor) -> Tensor:
    """Radii (N, D) of some functionals, by their numbers (N, D), each from its own slope."""
    return _radii(enclosed, pairs, numbers, enclosed.slopes(*pairs.select(numbers)))


def _radii(enclosed: Enclosed, pairs: FeaturePairs, numbers: Tensor, slopes: Tensor) -> Tensor:
    loss = 2 * enclosed.error_of(*pairs.select(numbers))
    return crossing(pairs.values.gather(1, numbers), slopes, enclosed.steps, loss)


def refined(pairs: FeaturePairs, together: Radii, alone: Radii, above: Tensor, times: int) -> Tensor:
    """Radii from joint bounds for all functionals, and from bounds of their own for those that matter, (N, D).

    Args:
        pairs: the functionals.
        together: from numbers of functionals (N, D) to radii (N, D), cheap.
        alone: the same, tight.
        above: upper bounds of the radii, (N, D): a functional that the joint bound certifies farther than its
            pair can reach does not matter.
        times: how many balls there are, for the size of what is computed at once.
    """
    rows = len(above)
    numbers = torch.arange(above.shape[1], device=above.device).expand(rows, -1)
    size = max(1, 2**21 // (rows * times))
    radii = torch.cat([together(part) for part in numbers.split(size, 1)], 1)
    of_pair = above.unflatten(1, (-1, pairs.top.shape[1] * pairs.rest.shape[1])).amin(1)
    matters = radii < of_pair.repeat(1, above.shape[1] // of_pair.shape[1])
    decides = radii < above.amin(1, keepdim=True)
    # as many for a row as it needs, whatever its neighbours in the batch need
    wanted = torch.maximum(decides.sum(1), matters.sum(1).clamp_max(AT_MOST))
    count = int(wanted.max())
    if count == 0:
        return radii
    chosen = torch.where(matters, radii, torch.inf).topk(count, 1, largest=False).indices
    own = torch.cat([alone(part) for part in chosen.split(size, 1)], 1)
    before = radii.gather(1, chosen)
    asked = torch.arange(count, device=above.device) < wanted.unsqueeze(1)
    return radii.scatter(1, chosen, torch.where(asked, torch.maximum(own, before), before))


def crossing(values: Tensor, slopes: Tensor, steps: Tensor, loss: Tensor) -> Tensor:
    """The radius at which value - (integral of slope) - loss reaches zero, (N, D); at most the last radius.

    The slope is constant over a step (the bound for the ball at its end), so the integral is piecewise linear. The
    loss at the end of a step is charged over the whole of it.

    Args:
        values: (N, D).
        slopes: on the ball at the end of each step, (N, D, T).
        steps: (N, T).
        loss: (N, D, T), never decreasing.

    >>> crossing(torch.tensor([[3.0]]), torch.ones(1, 1, 4), torch.ones(1, 4), torch.zeros(1, 1, 4))
    tensor([[3.]])
    """
    steps = steps.unsqueeze(1)
    after = (slopes * steps).cumsum(2)
    before = torch.nn.functional.pad(after[..., :-1], (1, 0))
    left = values.unsqueeze(2) - loss
    # a bound that is not a number certifies nothing: it counts as crossed where its step begins
    crossed = ~(after < left)
    step = crossed.long().argmax(2, keepdim=True)
    tiny = torch.finfo(slopes.dtype).tiny
    share = (left - before).gather(2, step) / slopes.gather(2, step).clamp_min(tiny)
    times = steps.cumsum(2)
    begin = torch.nn.functional.pad(times[..., :-1], (1, 0)).expand_as(after).gather(2, step)
    at = (begin + share.nan_to_num(nan=0.0).clamp_min(0)).squeeze(2)
    return torch.where(values > 0, torch.where(crossed.any(2), at, times[..., -1]), 0.0)
