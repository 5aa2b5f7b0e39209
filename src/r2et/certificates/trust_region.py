"""Lower bounds of quadratic functions on balls, by weak duality.

For every mu >= 0 that makes A + mu I positive semidefinite, the smallest value of g . d + d^T A d / 2 on the ball
of radius r is at least that of the convex function g . d + d^T (A + mu I) d / 2, less mu r^2 / 2. A convex
function is above its tangent at any point: no system has to be solved exactly, and nothing has to converge.
"""

import torch
from torch import Tensor

#: multipliers that are tried
TRIES = 4
#: what rounding may take, as a share of absolute terms
ROUNDING = 1e-11


def least_on_balls(slope: Tensor, curvature: Tensor, radius: Tensor) -> Tensor:
    """Lower bounds of min over ||d|| <= radius of slope . d + d^T curvature d / 2, (F,); NaN says nothing.

    Args:
        slope: (F, c).
        curvature: symmetric, (F, c, c).
        radius: above 0, (F,).

    >>> bent = torch.diag_embed(torch.tensor([[-2.0, 1.0]], dtype=torch.float64))
    >>> slope, radius = torch.tensor([[4.0, 0.0]], dtype=torch.float64), torch.tensor([3.0], dtype=torch.float64)
    >>> round(float(least_on_balls(slope, bent, radius)), 6)                                       # at (-3, 0)
    -21.0
    """
    size, length = curvature.flatten(1).norm(dim=1), slope.norm(dim=1)
    low, high = torch.zeros_like(size), length / radius + size
    # whatever happens below, this much is certain
    best: Tensor = -radius * (length + radius * size / 2) * (1 + ROUNDING)
    mu = _guess(slope, curvature, length, radius)
    eye = torch.eye(slope.shape[1], dtype=slope.dtype, device=slope.device)
    for _ in range(TRIES):
        mu = torch.minimum(torch.maximum(mu, low), high)
        factor, failed = torch.linalg.cholesky_ex(curvature + mu[:, None, None] * eye)
        place = -torch.cholesky_solve(slope.unsqueeze(2), factor).squeeze(2)
        convex = failed == 0
        value = _value(slope, curvature, radius, mu, place)
        best = torch.where(convex & (value > best), value, best)
        far = place.norm(dim=1)
        short = convex & (far <= radius)
        low, high = torch.where(short, low, mu), torch.where(short, mu, high)
        mu = torch.where(convex, mu + _newton(factor, place, far, radius), high)
        mu = torch.where((mu > low) & (mu < high), mu, (low + high) / 2)
    return best


def _guess(slope: Tensor, curvature: Tensor, length: Tensor, radius: Tensor) -> Tensor:
    """The multiplier where the curvature is small against the slope, (F,)."""
    unit = slope / length.clamp_min(1e-300).unsqueeze(1)
    along = (unit * (curvature @ unit.unsqueeze(2)).squeeze(2)).sum(1)
    guess: Tensor = (length / radius - along).clamp_min(0)
    return guess


def _newton(factor: Tensor, place: Tensor, far: Tensor, radius: Tensor) -> Tensor:
    """The step of the multiplier towards ||place|| = radius, (F,)."""
    solved = torch.linalg.solve_triangular(factor, place.unsqueeze(2), upper=False).squeeze(2)
    step: Tensor = (far / radius - 1) * far.square() / solved.square().sum(1).clamp_min(1e-300)
    return step


def _value(slope: Tensor, curvature: Tensor, radius: Tensor, mu: Tensor, place: Tensor) -> Tensor:
    """The bound from the tangent of the convex function at a place (F, c), less what rounding may take, (F,)."""
    bent = (curvature @ place.unsqueeze(2)).squeeze(2) + mu.unsqueeze(1) * place
    tangent = slope + bent
    far, reach = place.norm(dim=1), radius * (1 + ROUNDING)
    lowest: Tensor = (place * (slope + bent / 2)).sum(1) - tangent.norm(dim=1) * (far + reach)
    return lowest - mu * reach.square() / 2 - _lost(slope, curvature, mu, far + reach)


def _lost(slope: Tensor, curvature: Tensor, mu: Tensor, reach: Tensor) -> Tensor:
    """What rounding may have added, also by taking a matrix for positive semidefinite that is not quite, (F,)."""
    size = curvature.flatten(1).norm(dim=1) + mu
    share = max(ROUNDING, 4 * slope.shape[1] ** 2 * torch.finfo(slope.dtype).eps)
    lost: Tensor = share * reach * (slope.norm(dim=1) + reach * size)
    return lost
