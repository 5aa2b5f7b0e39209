"""The exact attack on lists of additive scores, on dense grids: it shares no code with what it judges.

The attribution of column i is a function g_i of x_i alone. q columns can be displaced with a perturbation of
length r iff for some threshold the q cheapest squared moves that bring members of the list to it or below, and the
q cheapest that bring others to it or above, cost at most r^2.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: slopes of all columns (G, n) at points (G, n), each of its own column alone
Slopes = Callable[[Array], Array]


def additive_slopes(model) -> Slopes:
    """ds/dx of an r2et.models.Additive of two classes, from its bare weights."""
    import torch

    with torch.no_grad():
        w, b = model.steepness.double().numpy(), model.shift.double().numpy()
        a = model.heights.weight.double().reshape(w.shape if w.size else (0,)).numpy()
        v = model.weight.double()[0].numpy().copy()
    for group in model.groups:
        v[list(group)] -= v[list(group)].mean()
    beta, numeric = model.activation.beta, model.numeric

    def slopes(points: Array) -> Array:
        result = np.tile(v, (len(points), 1))
        for place, feature in enumerate(numeric):
            z = beta * (points[:, feature, None] * w[place] + b[place])
            # PyTorch's softplus is straight from there on
            sigma = np.where(z > 20, 1.0, 0.5 * (1 + np.tanh(z / 2)))
            result[:, feature] += (a[place] * w[place] * sigma).sum(1)
        return result

    return slopes


def cheapest_moves(
    slopes: Slopes,
    x: Array,
    k: int,
    *,
    far: float,
    movable: NDArray[np.bool_] | None = None,
    signed: bool = False,
    points: int = 2001,
    thresholds: int = 1500,
) -> tuple[Array, Array]:
    """The lengths that displace 1, 2, ... columns of the list of one row x (n,), and the points that do it.

    Args:
        slopes: of a score.
        x: (n,).
        k: length of the list.
        far: moves of one column that are looked at; what needs more is infinite.
        movable: which columns move; None = all.
        signed: whether lists are by signed value.
        points, thresholds: how dense the grids are.

    Returns:
        Lengths (min(k, n - k),) and perturbations (min(k, n - k), n), zero where there is none.
    """
    n = len(x)
    steps = np.linspace(0, far, points)
    both = np.concatenate([-steps[:0:-1], steps])
    values = slopes(x + both[:, None] * np.ones(n))
    if movable is not None:
        values[:, ~movable] = slopes(x[None])[0, ~movable]
    clean = slopes(x[None])[0]
    size = clean if signed else np.abs(clean)
    order = sorted(range(n), key=lambda i: (-size[i], i))
    members, others = order[:k], order[k:]
    # what is wanted small: the members' values, and minus those of the others
    cost = np.empty_like(values)
    for i in members:
        cost[:, i] = values[:, i] if signed or clean[i] >= 0 else -values[:, i]
    for j in others:
        cost[:, j] = -values[:, j] if signed else -np.abs(values[:, j])
    middle = points - 1
    right, left = cost[middle:], cost[middle::-1]
    falling = np.minimum.accumulate(np.minimum(right, left), 0)
    most = min(k, n - k)
    low, high = size[order[k + most - 1]], size[order[k - most]]
    levels = np.unique(np.concatenate([np.linspace(low, high, thresholds), size]))
    levels = levels[(levels >= low) & (levels <= high)]
    best, moves = np.full(most, np.inf), np.zeros((most, n))
    prices = np.empty((len(levels), n), dtype=int)
    for i in range(n):
        wanted = levels if i in members else -levels
        prices[:, i] = np.searchsorted(-falling[:, i], -wanted)
    squares = np.where(prices < points, steps[np.minimum(prices, points - 1)] ** 2, np.inf)
    for q in range(1, most + 1):
        cheap = [np.sort(squares[:, part], 1)[:, :q].sum(1) for part in (members, others)]
        at = int(np.argmin(cheap[0] + cheap[1]))
        best[q - 1] = np.sqrt(cheap[0][at] + cheap[1][at])
        if np.isfinite(best[q - 1]):
            for part in (members, others):
                for i in sorted(part, key=lambda c: squares[at, c])[:q]:
                    step = prices[at, i]
                    moves[q - 1, i] = steps[step] * (1 if right[step, i] <= left[step, i] else -1)
    return best, moves
