"""An attack that knows nothing of certificates: descent on the gap, inside balls of the features that may move."""

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.explainers import Explainer
from tests.models_with_answers import generator


def changed_inside(
    model: nn.Module,
    x: Tensor,
    radius: Tensor,
    explainer: Explainer,
    k: int,
    *,
    movable: Tensor,
    guide: nn.Module | None = None,
    restarts: int = 8,
    steps: int = 25,
) -> Tensor:
    """Whether some point within `radius` (N,) of x (N, n), by movable features alone, has another top-k set.

    Args:
        model: in float64.
        x: (N, n).
        radius: of each row, (N,).
        explainer: whose set is judged.
        k: its size.
        movable: bool (n,).
        guide: whose slopes are followed; None = the model itself.
        restarts: from x itself and from random points of the sphere.
        steps: of each of them.
    """
    target = model(x).argmax(1)
    clean = explainer(model, x, target)
    start = torch.randn(restarts, *x.shape, generator=generator(3), dtype=x.dtype) * movable
    start = start / start.norm(dim=2, keepdim=True) * radius[:, None]
    start[0] = 0.0
    step = start.flatten(0, 1)
    rows, classes, far = x.repeat(restarts, 1), target.repeat(restarts), radius.repeat(restarts)
    kept = ranking.top_k_mask(clean, k).repeat(restarts, 1)
    changed = torch.zeros(len(rows), dtype=torch.bool)
    for number in range(steps):
        now = explainer(model, rows + step, classes)
        changed |= (ranking.top_k_mask(now, k) != kept).any(1)
        length = far * 0.5 * 0.9**number
        step = _descended(
            guide or model, rows, step, target=classes, explainer=explainer, kept=kept, length=length
        )
        step = step * movable
        step = step * (far / step.norm(dim=1).clamp_min(1e-300)).clamp_max(1.0)[:, None]
    return changed.reshape(restarts, -1).any(0)


def _descended(
    model: nn.Module,
    x: Tensor,
    step: Tensor,
    *,
    target: Tensor,
    explainer: Explainer,
    kept: Tensor,
    length: Tensor,
) -> Tensor:
    """One step towards where the weakest of the kept features falls below the strongest other one."""
    point = (x + step).detach().requires_grad_()
    scores = explainer.flatten(explainer.attribute(model, point, target, create_graph=True))
    scores = scores if explainer.reduce == "signed" else scores.abs()
    weakest = scores.masked_fill(~kept, torch.inf).amin(1)
    gap = weakest - scores.masked_fill(kept, -torch.inf).amax(1)
    (slope,) = torch.autograd.grad(gap.sum(), point)
    size = slope.norm(dim=1, keepdim=True)
    return step - torch.where(size > 0, slope / size.clamp_min(1e-300), 0.0) * length[:, None]
