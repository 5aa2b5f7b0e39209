"""Between which values one number alone may move while a list of reasons stays the same, in an additive model.

A column stays on the list while its contribution is above 0 and above those of all columns that are not listed,
and nothing else changes when it moves. Its curve is looked at on a grid; between two points it is nowhere below
the lower one by more than its largest curvature allows.
"""

import torch
from torch import Tensor, nn

from r2et.columns import Columns
from r2et.domain import Domain
from r2et.models import Additive, Linear

#: into how many cells the range of a number is cut
CELLS = 1024
#: a contribution is not above another one by less than this
TIE = 1e-9


def why_not_alone(model: nn.Module, classes: int) -> str | None:
    """Why the curves of a model's columns are not looked at; None if they are."""
    if type(model) not in (Additive, Linear):
        return "what a column adds may depend on the others"
    return None if classes == 2 else "the log-odds of more than two classes are no sum over columns"


def alone(
    model: nn.Module,
    x: Tensor,
    contributions: Tensor,
    listed: Tensor,
    *,
    target: Tensor,
    columns: Columns,
    domain: Domain,
) -> tuple[Tensor, Tensor]:
    """Open intervals in which each listed number may move alone, each (N, columns); NaN for what is no number.

    Infinite ends are where the range of the number ends: nothing is said beyond.

    Args:
        model: Additive or Linear, of two classes.
        x: rows (N, n), float64.
        contributions: of every column to the log-odds of the row's class, (N, columns); 0 of what is left out.
        listed: which columns are on the list, bool (N, columns).
        target: the class of each row, int64 (N,).
        columns: of the table.
        domain: the range of the numbers; beyond it nothing is said.
    """
    # whoever is not on the list must stay below
    bar = contributions.masked_fill(listed, -torch.inf).amax(1).clamp_min(0.0)
    lower = torch.full_like(contributions, torch.nan)
    upper = lower.clone()
    least, most = (torch.as_tensor(bound).double().expand(columns.n) for bound in (domain.lower, domain.upper))
    for column, (features, kind) in enumerate(zip(columns.features, columns.kinds, strict=True)):
        flag = columns.missing[column]
        # where it is missing there is nothing to move
        there = listed[:, column] if flag < 0 else listed[:, column] & (x[:, flag] == 0)
        rows, values = there.nonzero().flatten(), [each for each in features if each != flag]
        if kind != "number" or len(values) != 1 or not len(rows):
            continue
        (feature,) = values
        ends = torch.stack(
            [torch.minimum(least[feature], x[:, feature].min()), most[feature].max(x[:, feature].max())]
        )
        for label in (0, 1):
            own = rows[target[rows] == label]
            if len(own):
                # of contributions, a curve lacks its value at the background
                needed = bar[own] + _curve(model, x[own], feature, label) - contributions[own, column]
                found = _around(model, feature, label, ends=ends, at=x[own, feature], needed=needed)
                lower[own, column], upper[own, column] = found
    return lower, upper


def _around(
    model: nn.Module, feature: int, label: int, *, ends: Tensor, at: Tensor, needed: Tensor
) -> tuple[Tensor, Tensor]:
    """The ends of the cells around values (M,) in which the curve is above what is needed (M,)."""
    grid = torch.linspace(float(ends[0]), float(ends[1]), CELLS + 1, dtype=torch.float64)
    rows = torch.zeros(len(grid), _features(model), dtype=torch.float64)
    rows[:, feature] = grid
    values = _curve(model, rows, feature, label)
    width = float(ends[1] - ends[0]) / CELLS
    least = torch.minimum(values[:-1], values[1:]) - _curvature(model, feature) * width**2 / 8
    size = values.abs().max() + needed.abs()
    low = least <= (needed + TIE * (1 + size))[:, None]
    cell = ((at - grid[0]) / max(width, 1e-300)).long().clamp(0, CELLS - 1)
    numbers = torch.arange(CELLS)
    before, after = numbers <= cell[:, None], numbers >= cell[:, None]
    left = torch.where(low & before, numbers, -1).amax(1)
    right = torch.where(low & after, numbers, CELLS).amin(1)
    # where its own cell is too low, nothing is said
    known = (left < cell) & (right > cell)
    lower = torch.where(left < 0, -torch.inf, grid[left + 1])
    upper = torch.where(right == CELLS, torch.inf, grid[right])
    return torch.where(known, lower, torch.nan), torch.where(known, upper, torch.nan)


def _curve(model: nn.Module, x: Tensor, feature: int, label: int) -> Tensor:
    """What a feature of rows (M, n) adds to the log-odds of a class, (M,)."""
    assert isinstance(model, Additive | Linear)
    with torch.no_grad():
        parts = model.parts(x)[:, :, feature]
    return parts[:, label] - parts[:, 1 - label]


def _curvature(model: nn.Module, feature: int) -> float:
    """No second derivative of a feature's curve is larger: |a| w^2 beta / 4, unit by unit."""
    if not isinstance(model, Additive) or feature not in model.numeric:
        return 0.0
    place = model.numeric.index(feature)
    heights = model.heights.weight.detach().reshape(-1, *model.steepness.shape)[0, place]
    beta = float(getattr(model.activation, "beta", 1.0))
    return float((heights.abs() * model.steepness.detach()[place].square()).sum()) * beta / 4


def _features(model: nn.Module) -> int:
    assert isinstance(model, Additive | Linear)
    return model.features if isinstance(model, Additive) else model.in_features
