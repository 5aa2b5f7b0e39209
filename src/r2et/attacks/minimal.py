"""The smallest perturbation that changes the top-k set: the upper end of the bracket around the true radius."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et._checks import InputError, check_count
from r2et.attacks.base import Attack
from r2et.attacks.boundary import surrogate
from r2et.attacks.search import Search, rowwise
from r2et.explain.base import derivative, forward


@dataclass(frozen=True, kw_only=True)
class MinimalFlip(Attack):
    """Steps onto the linearised boundary of the nearest pairs, then bisects.

    For a pair with gap phi the next iterate is x0 - 1.01 (phi + grad phi . (x0 - x)) grad phi / ||grad phi||^2:
    the point nearest to x0 where the gap, linearised at x, crosses zero. Each of the `pairs` nearest pairs is
    followed on its own. `distance` of the result is the norm of the smallest flip found within `radius`; a row
    without one keeps its clean input and a P@k of 1.

    Args:
        radius: no flip farther away than this is looked for.
        steps: iterations for each pair.
        pairs: how many of the nearest pairs are followed.
        width: the pairs come from so many of the weakest salient and of the strongest other features.
        halvings: of the bisection at the end.
        beta: of a softplus copy whose slopes are followed; None = 10 for a piecewise-linear net, else no copy.

    >>> model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> result = MinimalFlip(k=2, radius=3.0)(model, torch.randn(4, 6))
    >>> bool((result.distance <= 3.0 + 1e-6).all())
    True
    """

    steps: int = 15
    pairs: int = 3
    width: int = 3
    halvings: int = 12
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pairs", "width", "halvings"):
            check_count(name, getattr(self, name))
        if self.norm != "l2":
            raise InputError(f"MinimalFlip looks for the smallest L2 norm; norm={self.norm!r} is not supported")
        if self.keep != "best":
            raise InputError(
                f"MinimalFlip keeps the prediction by definition; keep={self.keep!r} is not supported"
            )

    def iterations(self) -> int:
        """Steps of all pairs, and the bisection."""
        return self.steps * self.pairs + self.halvings

    def run(self, search: Search) -> None:
        """Follow the nearest pairs, then bisect between x and the nearest flip."""
        search.nearest = True
        guide = surrogate(search, self.beta)
        nearest = self._nearest_pairs(search, guide)
        for number in range(self.pairs):
            salient, other = (pair[..., min(number, pair.shape[-1] - 1)] for pair in nearest)
            x = search.x
            for _ in range(self.steps):
                x = self._step(search, guide, x, salient, other)
                search.submit(search.evaluate(x))
        self._bisect(search)

    def _nearest_pairs(self, search: Search, guide: nn.Module) -> tuple[Tensor, Tensor]:
        """The pairs with the smallest linearised distance at x: flat feature numbers (N, pairs) each."""
        scores, point = self._explain(search, guide, search.x)
        n = scores.shape[-1]
        inside = (-scores.detach()).masked_fill(~search.top, -torch.inf)
        outside = scores.detach().masked_fill(search.top, -torch.inf)
        salient = inside.topk(min(self.width, self.k), dim=-1).indices
        other = outside.topk(min(self.width, n - self.k), dim=-1).indices
        flat = scores.flatten(start_dim=1)
        if scores.ndim > 2:
            # the two inputs of a pair have features of their own: number them one after the other
            shift = torch.arange(scores.shape[1], device=scores.device)[:, None] * n
            salient, other = salient + shift, other + shift
        salient, other = (indices.reshape(len(flat), -1, indices.shape[-1]) for indices in (salient, other))
        slope = {name: self._slopes(search, flat, point, ids) for name, ids in (("in", salient), ("out", other))}
        value = {name: _pick(flat, ids) for name, ids in (("in", salient), ("out", other))}
        gap = value["in"][..., :, None] - value["out"][..., None, :]
        steepness = (slope["in"][..., :, None, :] - slope["out"][..., None, :, :]).norm(dim=-1)
        distance = (gap / steepness.clamp_min(torch.finfo(gap.dtype).tiny)).flatten(start_dim=1)
        best = distance.topk(min(self.pairs, distance.shape[1]), dim=1, largest=False).indices
        grid = [
            part.expand(gap.shape).flatten(start_dim=1).gather(1, best)
            for part in (salient[..., :, None], other[..., None, :])
        ]
        return grid[0], grid[1]

    def _step(self, search: Search, guide: nn.Module, x: Tensor, salient: Tensor, other: Tensor) -> Tensor:
        """One step onto the linearised boundary of one pair a row."""
        scores, point = self._explain(search, guide, x)
        flat = scores.flatten(start_dim=1)
        gap = flat.gather(1, salient[:, None]) - flat.gather(1, other[:, None])
        slope = search.allowed(derivative(gap.sum(), point))
        gap = gap.detach().squeeze(1) + (slope * (search.x - x)).flatten(start_dim=1).sum(1)
        square = slope.flatten(start_dim=1).square().sum(1)
        length = torch.where(square > 0, 1.01 * gap / square.clamp_min(torch.finfo(gap.dtype).tiny), 0.0)
        return search.project(search.x - rowwise(length, x) * slope)

    def _bisect(self, search: Search) -> None:
        """Shrink the nearest flip towards x while it stays one."""
        low, high = torch.zeros_like(search.precision), torch.ones_like(search.precision)
        far = search.best
        for _ in range(self.halvings):
            middle = (low + high) / 2
            x = search.x + rowwise(middle, far) * (far - search.x)
            found = search.evaluate(x)
            search.submit(found)
            flips = found.kept & (found.lowest < self.flip_below)
            low, high = torch.where(flips, low, middle), torch.where(flips, middle, high)

    def _explain(self, search: Search, guide: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """The guide's explanation (N, ..., n) with its graph, and the point it is made at."""
        point, logits = forward(guide, x)
        with torch.enable_grad():
            attributions = search.explainer.attribute(guide, point, search.target, True, logits)
            return search.explainer.flatten(attributions), point

    def _slopes(self, search: Search, flat: Tensor, point: Tensor, indices: Tensor) -> Tensor:
        """Gradients (N, inputs, width, d) of the scores with these flat numbers (N, inputs, width)."""
        columns = indices.flatten(start_dim=1).unbind(1)
        found = [
            search.allowed(derivative(flat.gather(1, column[:, None]).sum(), point, retain_graph=True))
            for column in columns
        ]
        stacked = torch.stack([slope.flatten(start_dim=1) for slope in found], dim=1)
        return stacked.reshape(*indices.shape, -1)


def _pick(flat: Tensor, indices: Tensor) -> Tensor:
    """The entries of (N, m) at (N, inputs, width), in that shape."""
    return flat.detach().gather(1, indices.flatten(start_dim=1)).reshape(indices.shape)
